"""Links with errors: counters of errors, and links below their rate, with what each does to traffic on the tables.

Symbols and packets are counted as bad where they arrive, so that a counter accuses the cable and both of its ends. A
port that sees more than its share of errors makes packets be sent again, and each loss stops a transport for its
timeout, which is far longer than a message takes: all pairs that cross the link are slowed, however few packets it
spoils.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from routing.proof import prove
from routing.routed import Routed
from simulate.diagnosis.counters import ERRORS, Counters
from topo.errors import plural
from topo.table import Shown, Table

THRESHOLD = 10
"""A counter above this is reported: ``ibqueryerrors`` and its kin do so by default (infiniband-diags, the file
error_thresholds). What `ibqueryerrors` prints has passed its own thresholds."""


@dataclass(frozen=True)
class BadLink:
    """A link with errors, or below its rate."""

    link: str
    says: str
    """What was counted, where it was counted, and what the tool says of the rate."""
    pairs: int
    """Ordered pairs of adapters whose path crosses the link."""
    share: float
    """The same, as a share of all pairs."""


@dataclass(frozen=True, eq=False)
class BadLinks(Shown):
    """Links with errors, the worst first: those below their rate, then those that went down, then by errors.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> from simulate.diagnosis.counters import parse_counters
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> guid = int(routed.fabric.node_guid[0])
    >>> line = f"GUID {guid:#x} port 27: [SymbolErrorCounter == 65535] [LinkDownedCounter == 12]"
    >>> found = simulate.diagnosis.find_bad_links(routed, parse_counters([line], routed))
    >>> found.links[0].link, found.links[0].says
    ('leaf0:27 to spine0:7', 'leaf0:27: at least 65,535 symbol errors, down 12 times')
    """

    links: tuple[BadLink, ...]

    def _brief(self) -> str:
        return f"{plural(len(self.links), 'link')} with errors"

    @property
    def table(self) -> Table:
        """A row a link."""
        return Table.of(
            "links with errors or below their rate, the worst first",
            self.links,
            "link",
            ("says", "counted"),
            ("pairs", "pairs that cross it"),
            (lambda one: 100 * one.share, "of all pairs", "%", ".1f"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"bad_links": [vars(one) for one in self.links]}


WORDS = {
    "SymbolErrorCounter": "{} symbol errors",
    "LinkErrorRecoveryCounter": "retrained {} times",
    "LinkDownedCounter": "down {} times",
    "PortRcvErrors": "{} bad packets",
    "LocalLinkIntegrityErrors": "{} integrity errors",
    "ExcessiveBufferOverrunErrors": "{} buffer overruns",
}


def find_bad_links(routed: Routed, counters: Counters) -> BadLinks:
    """Rank the links whose counters of errors, or rates, say that they are bad.

    Parameters
    ----------
    routed : Routed
        A fabric with the tables with which it ran.
    counters : Counters

    Examples
    --------
    >>> import topo, routing, simulate
    >>> from simulate.diagnosis.counters import parse_counters
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> line = f"GUID {int(routed.fabric.node_guid[0]):#x} port 27: [PortRcvErrors == 99]"
    >>> simulate.diagnosis.find_bad_links(routed, parse_counters([line], routed)).links[0].says
    'leaf0:27: 99 bad packets'
    """
    fabric = routed.fabric
    least = 1 if counters.listed else THRESHOLD + 1
    counted: dict[int, dict[int, dict[str, int]]] = {}
    for port, errors in counters.errors.items():
        above = {name: value for name, value in errors.items() if value >= least}
        if above:
            counted.setdefault(_link(routed, port), {})[port] = above
    for port in counters.degraded:
        counted.setdefault(_link(routed, port), {}).setdefault(port, {})
    if not counted:
        return BadLinks(())
    proof = prove(routed)

    def rank(link: int) -> tuple[bool, int, int, int]:
        said = counted[link].values()
        down = sum(errors.get(name, 0) for errors in said for name in ("LinkDownedCounter", "LinkErrorRecoveryCounter"))
        return (
            not any(port in counters.degraded for port in counted[link]),
            -down,
            -sum(sum(errors.values()) for errors in said),
            link,
        )

    found = []
    for link in sorted(counted, key=rank):
        peer = int(fabric.peer[link])
        crossing = int(proof.load[link] + (proof.load[peer] if peer >= 0 else 0))
        says = "; ".join(
            f"{fabric.port_label(port)}: {', '.join([*_words(errors), *_degraded(counters, port)])}"
            for port, errors in sorted(counted[link].items())
        )
        ends = [fabric.port_label(port) for port in (link, peer) if port >= 0]
        found.append(BadLink(" to ".join(ends), says, crossing, crossing / proof.pairs if proof.pairs else 0.0))
    return BadLinks(tuple(found))


def _link(routed: Routed, port: int) -> int:
    """Return the link of a port: the lower of its two ports."""
    peer = int(routed.fabric.peer[port])
    return port if peer < 0 else min(port, peer)


def _words(errors: dict[str, int]) -> list[str]:
    """Say what was counted; a counter at its ceiling has counted no further."""
    return [
        WORDS[name].format(("at least " if errors[name] >= (1 << bits) - 1 else "") + f"{errors[name]:,}")
        for name, bits in ERRORS.items()
        if name in errors
    ]


def _degraded(counters: Counters, port: int) -> list[str]:
    return [counters.degraded[port]] if port in counters.degraded else []
