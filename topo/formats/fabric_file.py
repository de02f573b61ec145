"""A fabric out of any file that describes a real one."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

from topo.discovery import Discovery
from topo.errors import FormatError
from topo.formats import ibnetdiscover, subnet_lst
from topo.formats.lines import read_lines

SNIFFED = 2000
"""Lines in which the format must show; banners and logs of a terminal may stand before it."""


def read_fabric(path: str | Path) -> Discovery:
    """Read a fabric as ``ibnetdiscover`` prints it or as OpenSM and ibdiagnet list it (``.lst``), packed or not.

    Raises
    ------
    FormatError
        When the file is of neither format, or broken.
    """
    lines = read_lines(path)
    head = list(islice(lines, SNIFFED))
    for line in head:
        if subnet_lst.LINE.fullmatch(line):
            return subnet_lst.discover(chain(head, lines), str(path))
        if ibnetdiscover.NODE.fullmatch(line):
            return ibnetdiscover.discover(chain(head, lines), str(path))
    first = next((line.strip() for line in head if line.strip()), "")
    raise FormatError(
        f"is no fabric that can be read: it starts with {first[:60]!r}; expected the output of ibnetdiscover "
        '(with lines such as Switch 41 "S-0c42a10300a9b026" ...), or opensm-subnet.lst or ibdiagnet2.lst '
        "(with lines such as { SW Ports:29 SystemGUID:0c42a10300a9b026 ...)",
        str(path),
    )
