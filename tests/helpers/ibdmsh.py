"""What ``ibdmsh`` (Debian's ibutils) runs and prints, so that another program can count flows on channels.

ibdmsh is a Tcl shell over ibutils' own model of a fabric. It reads ``subnet.lst`` and ``fdbs`` (`ibdmchk`), follows
the tables from LID to LID, and notes each path at the output ports that it takes, the last one left out. Paths are
traced in *stages*, each a case of its own: a line of the file ``stages`` holds the LIDs from and to of its paths.

Two scripts: `LOADS` prints the paths over each port; `TIMES` lets ibdmsh judge the stages and says how long that took.
Its judgement is no plain count: a destination that had to share a link brings only its share to the next one, level by
level of a tree whose roots it must find.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric

READ = """\
set fabric [new_IBFabric]
if {[IBFabric_parseSubnetLinks $fabric subnet.lst] || [IBFabric_parseFdbFile $fabric fdbs]} { exit 1 }
set file [open stages]
set stages [split [string trim [read $file]] "\\n"]
close $file
"""

LOADS = (
    READ
    + """\
foreach stage $stages {
    ibdmCongInit $fabric
    foreach {from to} $stage { if {[ibdmCongTrace $fabric $from $to]} { puts "LOST $from $to" } }
    puts "STAGE"
    puts [ibdmCongDump $fabric]
    ibdmCongCleanup $fabric
}
"""
)

TIMES = (
    READ
    + """\
ibdmRankFabricByRoots $fabric [ibdmFindSymmetricalTreeRoots $fabric]
ibdmCongInit $fabric
foreach stage $stages { llength $stage }
set begin [clock microseconds]
foreach stage $stages {
    foreach {from to} $stage { ibdmCongTrace $fabric $from $to }
    ibdmCongClear $fabric
}
set spent [expr {[clock microseconds] - $begin}]
puts [ibdmCongReport $fabric]
puts "MICROSECONDS $spent"
"""
)
"""Lists are made of the lines before the clock is read. Without ranks it would look for 255 levels."""

PORT = re.compile(r"PORT:S([0-9a-f]{16})/U1/P(\d+) NUM:\d+")
PATH = re.compile(r"\d+ \d+")


@dataclass(frozen=True)
class Judgement:
    """What ibdmsh says of stages."""

    paths: int
    """Paths that it followed to their end."""
    stages: dict[int, int]
    """Stages by their worst link."""
    seconds: float
    """Spent on following and judging; start-up and reading left out."""


def format_stages(stages: Iterable[NDArray[np.integer]]) -> str:
    """Return the file ``stages``.

    Parameters
    ----------
    stages : iterable of (n, 2) integers
        LIDs of both ends of each path.
    """
    return "".join(" ".join(map(str, stage.ravel().tolist())) + "\n" for stage in stages)


def parse_loads(text: str, fabric: Fabric) -> NDArray[np.int64]:
    """Read what `LOADS` prints: (stages, P) paths over each channel, those that hand packets to an adapter left out.

    Raises
    ------
    ValueError
        When a path was lost, or nothing was printed.
    """
    lost = re.search(r"^LOST (\d+) (\d+)$", text, re.MULTILINE)
    if lost:
        raise ValueError(f"ibdmsh loses the path from LID {lost[1]} to LID {lost[2]}")
    node = {guid: number for number, guid in enumerate(fabric.node_guid.tolist())}
    parts = text.split("STAGE\n")[1:]
    if not parts:
        raise ValueError(f"ibdmsh printed no stage: {text[-500:]!r}")
    load = np.zeros((len(parts), fabric.n_ports), np.int64)
    for stage, part in enumerate(parts):
        channel = -1
        for line in part.splitlines():
            port = PORT.fullmatch(line)
            if port:
                channel = fabric.port_id(node[int(port[1], 16)], int(port[2]))
            elif PATH.fullmatch(line):
                load[stage, channel] += 1
    return load


def parse_judgement(text: str) -> Judgement:
    """Read what `TIMES` prints.

    Raises
    ------
    ValueError
        When ibdmsh did not get to its end.
    """
    paths = re.search(r"-I- Traced total:(\d+) paths", text)
    end = re.search(r"^MICROSECONDS (\d+)$", text, re.MULTILINE)
    section = re.search(r"WORST-CONG NUM-STAGES\n((?: *\d+ +\d+\n)*)", text)
    if paths is None or end is None or section is None:
        raise ValueError(f"ibdmsh stopped before its report: {text[-500:]!r}")
    rows = [line.split() for line in section[1].splitlines()]
    return Judgement(int(paths[1]), {int(worst): int(count) for worst, count in rows}, int(end[1]) / 1e6)
