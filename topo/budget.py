"""Budgets: the most that a file from outside, or a job, may take of the machine, all in one place.

Readers and jobs refuse what is beyond before they have taken it, and say by which budget; docs/budgets.md has them as a
table. They are several times what the largest subnet of InfiniBand needs (49,151 LIDs), and small enough that a hostile
file costs seconds and not the machine. What a format itself bounds (a LID, the number of a port) is no budget, and
stands with the format.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from topo.errors import FormatError

MB, MIB, GIB = 10**6, 2**20, 2**30


@dataclass(frozen=True)
class Budget:
    """The most that there may be of something."""

    limit: int
    unit: str
    """What is counted."""
    of: str
    """What it is counted in."""
    why: str
    """What needs as much, or what it keeps within bounds."""
    name: str = ""
    """In messages, and in docs/budgets.md: that of its constant here, ``text-bytes`` of `TEXT_BYTES`."""

    def __str__(self) -> str:
        return f"at most {self.limit:,} {self.unit} (budget {self.name})"

    def exceeded(self, path: str = "", line: int = 0) -> FormatError:
        """Return the error of a file that is beyond."""
        return FormatError(f"found more than {self.limit:,} {self.unit}; expected {self}", path, line)


TEXT_BYTES = Budget(512 * MIB, "bytes", "a text that is streamed, packed or not", "a dump has 30 MB")
TEXT_RATIO = Budget(200, "bytes unpacked for each packed one", "a .gz, after its first 16 MB", "dumps have 8 to 15")
TEXT_LINES = Budget(10 * MB, "lines, blank ones included", "a text that is streamed", "a dump has 500,000")
TEXT_LINE = Budget(4096, "characters in a line", "a text that is streamed", "tools print 1,023")
WORKBOOK_BYTES = Budget(256 * MIB, "bytes unpacked", "an .xlsx", "50,000 cables have 30 MB")
WORKBOOK_PARTS = Budget(1000, "parts", "an .xlsx", "a sheet is one part, and there are ten others")
WORKBOOK_ROWS = Budget(200_000, "rows of all sheets", "an .xlsx", "the largest subnet has 150,000 cables")
WORKBOOK_COLUMNS = Budget(100, "columns of a sheet", "an .xlsx; those beyond are not read", "P2P has 8")
READER_CPU = Budget(300, "seconds of CPU", "a text that is streamed", "10 million lines take 60")
PIPE_OPEN = Budget(10, "seconds until somebody writes", "a pipe", "a shell opens both ends at once")
PIPE_WAIT = Budget(600, "seconds without a byte", "a pipe that somebody writes", "ibnetdiscover takes 60")

DUMP_NODES = Budget(100_000, "nodes", "a dump of a fabric", "a node needs one of 49,151 LIDs")
DUMP_PORTS = Budget(4 * MB, "ports", "a dump of a fabric", "the largest subnet has 400,000")
DUMP_CABLE_ENDS = Budget(2 * MB, "cable ends", "a dump of a fabric", "the largest subnet has 300,000")
DUMP_SKIPPED = Budget(10_000, "lines of no use", "a dump of a fabric", "banners and logs have 100")
FABRIC_BYTES = Budget(32 * MB, "bytes", "a fabric.json", "the largest subnet has 8 MB")
LFT_BYTES = Budget(8 * GIB, "bytes", "a file of tables, which is mapped", "3,000 switches have 6 GB")
LFT_PIPE = Budget(GIB, "bytes", "tables from a pipe, kept in memory", "1,000 switches have 2 GB: use a file")
GUIDS = Budget(MB, "GUIDs", "a list of GUIDs", "a subnet has 49,151 LIDs")
NODES_BYTES = Budget(2 * MB, "bytes", "a list of nodes", "a subnet has 49,151 LIDs")
POLICY_MEMBERS = Budget(5 * MB, "members of lists", "a QoS policy", "4,096 rules of 1,000 ports")
ROLE_RULES = Budget(1000, "rules", "a file of roles", "a site has 20")
ROLE_PATTERN = Budget(128, "characters in a pattern", "a file of roles", "a description has 64")

YAML_BYTES = Budget(MB, "bytes", "a spec, workload or queue", "a spec has 10 kB")
YAML_LINE = Budget(10_000, "characters in a line", "a spec, workload or queue", "parsers are quadratic in it")
YAML_DEPTH = Budget(32, "levels of nesting", "a spec, workload or queue", "a spec has 6")
YAML_VALUES = Budget(
    20_000, "values, aliases written out", "a spec, workload or queue", "1,250 nodes by name are 1,250"
)
YAML_KEY = Budget(200, "characters in a key, or digits", "a spec, workload or queue", "conversion is quadratic")
CATALOG_BYTES = Budget(2 * MB, "bytes", "a table of the catalog", "ours have 20 kB")
CATALOG_ROWS = Budget(10_000, "rows", "a table of the catalog", "ours have 50")
CATALOG_CELL = Budget(500, "characters in a cell", "a table of the catalog", "a citation has 200")
LINKS_BYTES = Budget(100 * MB, "bytes", "the links.csv of a simulation", "the largest subnet has 8 MB")
REPORT_BYTES = Budget(256 * MB, "bytes, packed and unpacked", "a report.html", "32,000 GPUs have 20 MB")

FLOWS = Budget(
    10 * MB, "flows", "a workload or a file of flows", "a ring of 1,200 hosts has 2.9 million; 2.5 GB of memory"
)
PATH_LINKS = Budget(
    20 * MB, "links on all paths", "hashed paths", "32,768 hosts spray over 130 each in two levels; 3 GB of memory"
)
GOAL_OPERATIONS = Budget(5 * MB, "operations, or dependencies", "a GOAL schedule", "a ring of 800 has 2.6 million")
GOAL_BYTES = Budget(
    512 * MIB, "bytes", "a binary GOAL schedule", "5 million operations that wait once each have 215 MB"
)
GOAL_RANKS = Budget(MB, "ranks", "a GOAL schedule", "a subnet has 49,151 LIDs")
CHAKRA_BYTES = Budget(256 * MIB, "bytes", "the Chakra trace of a rank, or an archive", "a step of training has 50 MB")
CHAKRA_NODE_BYTES = Budget(MIB, "bytes in a node", "a Chakra trace", "a node has 1 kB")
CHAKRA_NODES = Budget(2 * MB, "nodes", "all Chakra traces of a run", "100 ranks of 20,000; 1 GB of memory")
CHAKRA_DEPENDENCIES = Budget(10 * MB, "dependencies", "all Chakra traces of a run", "a node has 2; 1 GB of memory")
STORAGE_ACTS = Budget(
    10 * MB, "reads and writes", "the storage jobs of a workload", "each is remembered; hours of work"
)
SWEEP_POINTS = Budget(MB, "points", "a sweep", "each is a file; a study has 1,000")
QUEUE_JOBS = Budget(10_000, "jobs, copies counted", "a queue", "a day of Fire-Flyer 2 has 30")
QUEUE_ROUNDS = Budget(10 * MB, "rounds of computation", "a queue, as long as it is played", "a day has 100,000")
QUEUE_FLOWS = Budget(4 * MB, "flows of one step", "a job of a queue", "1,250 nodes of experts have 1.6")
SEARCH_CPU = Budget(
    86_400, "seconds of CPU", "a search for a network", "16,384 servers take 120; ends with the best so far"
)
SAVED_RUN_BYTES = Budget(GIB, "bytes, packed and unpacked", "a saved run", "a day of Fire-Flyer 2 has 200 MB")
SAVED_RUN_ARRAYS = Budget(200, "arrays", "a saved run", "there are 60")

COMMAND_CPU = Budget(7 * 86_400, "seconds of CPU", "a command, unless --cpu says less", "a week of work")
COMMAND_MEMORY = Budget(
    64 * GIB, "bytes of memory", "a command, unless --memory says less", "3,000 switches take 20 GB"
)

_named = {name: replace(value, name=name.lower().replace("_", "-")) for name, value in globals().items()
          if isinstance(value, Budget)}  # fmt: skip
globals().update(_named)


class Stopwatch:
    """Watches the CPU seconds of a reader."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.begin = time.process_time()

    def look(self) -> None:
        """Raise the FormatError of `READER_CPU` once the reader has taken more."""
        if time.process_time() - self.begin > READER_CPU.limit:
            raise READER_CPU.exceeded(self.path)


def budgets() -> dict[str, Budget]:
    """Return all budgets by their names, in the order of docs/budgets.md.

    Examples
    --------
    >>> import topo
    >>> str(topo.budgets()["yaml-bytes"])
    'at most 1,000,000 bytes (budget yaml-bytes)'
    """
    return {value.name: value for value in _named.values()}
