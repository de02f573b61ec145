"""A fabric out of any file that describes a real one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from topo.budget import FABRIC_BYTES
from topo.dumps import (
    astra_topology,
    cabling_sheet,
    db_csv,
    edge_list,
    htsim_topology,
    iblinkinfo,
    ibnetdiscover,
    lldp,
    net_dump,
    ns3_topology,
    subnet_lst,
)
from topo.dumps.discovery import Discovery
from topo.dumps.fabric_json import FORMAT, parse_fabric
from topo.dumps.infragraph import parse_infragraph
from topo.dumps.levels import find_levels
from topo.errors import FormatError, plural
from topo.fabric import Fabric
from topo.files.csv import SUFFIX, read_workbook
from topo.files.text import path_of, read_lines, read_text

NOTED = 5
"""Skipped lines that are spelled out; the others are counted."""

GUID = re.compile(r"0x[0-9a-f]{16}")
"""The name of a server whose adapters name none."""

SNIFFED = 2000
"""Lines in which the format must show; banners and logs of a terminal may stand before it."""

Parser = Callable[[Iterable[str], str], Discovery]
FORMATS: tuple[tuple[re.Pattern[str], Parser], ...] = (
    (subnet_lst.CABLE_LINE, subnet_lst.parse_subnet_lst),
    (ibnetdiscover.NODE, ibnetdiscover.parse_ibnetdiscover),
    (ibnetdiscover.NAMED, ibnetdiscover.parse_ibsim_net),
    (ibnetdiscover.LISTED_PORT, ibnetdiscover.parse_port_list),
    (db_csv.TABLE_HEAD, db_csv.parse_db_csv),
    (net_dump.SWITCH_HEAD, net_dump.parse_net_dump),
    (iblinkinfo.SWITCH_LINE, iblinkinfo.parse_iblinkinfo),
    (iblinkinfo.ADAPTER, iblinkinfo.parse_iblinkinfo),
    (iblinkinfo.PORT, iblinkinfo.parse_iblinkinfo),
    (cabling_sheet.CSV_HEAD, cabling_sheet.parse_cabling_csv),
    (cabling_sheet.TOPO_CABLE, cabling_sheet.parse_topo),
    (lldp.PROMPT, lldp.parse_lldp),
    (edge_list.EDGE_HEAD, edge_list.parse_edge_list),
    (ns3_topology.LINK, ns3_topology.parse_ns3_topology),
    (htsim_topology.HTSIM_HEAD, htsim_topology.parse_htsim_topology),
    (astra_topology.ASTRA_HEAD, astra_topology.parse_astra_topology),
)
"""Lines that show a format, and what reads it."""


def read_fabric(path: str | Path, *, merged: bool = False) -> Fabric:
    """Read a fabric that `write_fabric` wrote, or a real one that a tool of the field prints.

    A file that ends in ``.json`` is one of Heddle's, which holds everything, or a description of InfraGraph. Any
    other, packed or not, is what a tool of the field wrote: ``ibnetdiscover``, ``iblinkinfo``, ibdiagnet (``.lst``,
    ``.db_csv``, ``.net_dump``) or OpenSM (``opensm-subnet.lst``), or reads (a network of ibsim); a sheet of planned
    cabling (NDT, P2P, ``.topo``), of P2P as a workbook (``.xlsx``), too; a list of links (``from,to,gbps``); or a
    topology of SimAI, HPCC, htsim or ASTRA-sim. Which it is shows in its text. Levels and roles of the switches and
    zones are found from the cabling.

    Parameters
    ----------
    path : str or Path
        The file.
    merged : bool, optional
        Whether chips of a switch of XDR, each with a plane, are one switch, and the links of all planes one cable:
        where the file tells what is printed at the ports, as ``.db_csv`` and ``.net_dump`` do.

    Returns
    -------
    Fabric
        Its `notes` say what was skipped, and how many adapters name no server.

    Raises
    ------
    FormatError
        When the file is of no such format, or broken.

    Examples
    --------
    >>> from pathlib import Path
    >>> import tempfile, topo
    >>> from topo.dumps.ibnetdiscover import format_ibnetdiscover
    >>> path = Path(tempfile.mkdtemp()) / "lab-20.ibnetdiscover"
    >>> _ = path.write_text(format_ibnetdiscover(topo.preset("lab-20").fabric))
    >>> fabric = topo.read_fabric(path)
    >>> fabric.n_switches, fabric.notes
    (4, ())
    """
    path = path_of(path, "the path of a fabric in a file")
    if path.suffix == ".json":
        text = read_text(path, FABRIC_BYTES)
        head = text[:SNIFFED]  # all may stand on one line
        if f'"{FORMAT}"' in head or '"devices"' not in head:
            return parse_fabric(text, str(path))
        discovery = parse_infragraph(text, str(path))
    else:
        discovery = read_dump(path)
    if merged and discovery.merged:
        discovery = discovery.merged
    skipped = discovery.skipped
    notes = [f"{path}{f':{line}' if line else ''}: skipped, {reason}" for line, reason in skipped[:NOTED]]
    if len(skipped) > NOTED:
        notes.append(f"{path}: {len(skipped) - NOTED:,} more lines skipped")
    fabric = find_levels(discovery.fabric)
    if unnamed := [number for number, host in enumerate(fabric.hosts) if GUID.fullmatch(host)]:
        adapters = np.flatnonzero(np.isin(fabric.host, unnamed)).tolist()
        what = f"{plural(len(adapters), 'adapter')} without the name of a server"
        like, servers = fabric.names[adapters[0]], plural(len(unnamed), "server")
        notes.append(f"{path}: {what}, such as {like!r}, count as {servers}")
    return replace(fabric, notes=tuple(notes))


def read_dump(path: str | Path) -> Discovery:
    """Read a dump as `read_fabric` does, without looking for levels."""
    lines, head, parse = _opened(path)
    if parse:
        return parse(chain(head, lines), str(path))
    first = next((line.strip() for line in head if line.strip()), "")
    hint = "; `topo.read` reads the spec of a cluster" if Path(path).suffix in (".yaml", ".yml") else ""
    raise FormatError(
        f"is not a fabric that can be read: it starts with {first[:60]!r}; expected the output of ibnetdiscover "
        '(with lines such as Switch 41 "S-0c42a10300a9b026" ...), opensm-subnet.lst or ibdiagnet2.lst '
        "(with lines such as { SW Ports:29 SystemGUID:0c42a10300a9b026 ...), ibdiagnet2.db_csv, ibdiagnet2.net_dump, "
        "iblinkinfo, planned cabling as NDT, P2P or .topo, links below from,to,gbps, or a topology of SimAI, htsim or "
        f"ASTRA-sim{hint}",
        str(path),
    )


def is_fabric(path: str | Path) -> bool:
    """Whether a file is one that `read_fabric` takes, by its first lines."""
    try:
        _, head, parse = _opened(path)
    except FormatError:
        return False
    return parse is not None or any(f'"{FORMAT}"' in line for line in head[:3])


def _opened(path: str | Path) -> tuple[Iterator[str], list[str], Parser | None]:
    """Return the lines of a dump, those taken from them already, and what reads a dump that begins so."""
    lines = read_workbook(path) if Path(path).suffix.lower() == SUFFIX else read_lines(path)
    head = list(islice(lines, SNIFFED))
    found = (parse for line in head for pattern, parse in FORMATS if pattern.fullmatch(line))
    return lines, head, next(found, None)
