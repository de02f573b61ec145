"""Links with errors: counters of errors, and links below their rate, with what each does to traffic on the tables.

They are in the order of what they cost jobs. A link at a part of its rate slows all that crosses it, all the time; one
that goes down stops it for seconds (a link that went down and is there no more has lost all of its rate). An error
stops a transport for its timeout, which is far longer than a message takes. Symbols and packets are counted as bad
where they arrive, so that a counter accuses the cable and both of its ends. A bit error rate comes behind them: it is
what errors are counted of. Last come modules whose light is outside of their own limits, and whose links still carry
all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from routing.proof import prove
from routing.routed import Routed
from simulate.diagnosis.counters import ERRORS, Counters
from topo.errors import plural
from topo.table import Shown, Table, format_seconds

THRESHOLD = 10
"""A counter above this is reported: ``ibqueryerrors`` and its kin do so by default (infiniband-diags, the file
error_thresholds). What `ibqueryerrors` prints has passed its own thresholds."""


BER_THRESHOLD = 1e-12
"""A bit error rate above this is reported: the default of ibdiagnet's test (NVIDIA, *ibdiagnet user manual* 2.19, "Bit
Error Rate")."""


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


@dataclass(frozen=True)
class AbsentDevice:
    """A device with ports that the fabric does not have."""

    device: str
    """GUID or LID; name of one that the fabric has, with fewer ports."""
    ports: int
    """How many such ports have counters."""
    worst: str
    """The worst of them, and what was counted there; empty where no counter is above the threshold."""


@dataclass(frozen=True, eq=False)
class BadLinks(Shown):
    """Links with errors, the worst first: by the share of its rate that is lost, by times down, then by errors.

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
    absent: tuple[AbsentDevice, ...] = ()
    """Devices with counters of ports that the fabric does not have, the worst first."""
    without_ber: int = 0
    """Ports with a cable whose bit error rate is not known, where that of others is."""

    def _brief(self) -> str:
        return f"{plural(len(self.links), 'link')} with errors"

    @property
    def found(self) -> bool:
        """Whether a link is bad, or a port that the fabric does not have."""
        return bool(self.links) or any(one.worst for one in self.absent)

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

    @property
    def absent_table(self) -> Table:
        """A row a device that has ports which the fabric does not have."""
        ports = plural(sum(one.ports for one in self.absent), "port")
        title = f"{ports} with counters that FABRIC does not have: gone, or added since"
        return Table.of(title, self.absent, "device", "ports", ("worst", "worst port"))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        found = {"bad_links": [vars(one) for one in self.links], "absent": [vars(one) for one in self.absent]}
        return found | {"without_ber": self.without_ber}


WORDS = {
    "SymbolErrorCounter": ("", "symbol error"),
    "LinkErrorRecoveryCounter": ("retrained ", "time"),
    "LinkDownedCounter": ("down ", "time"),
    "PortRcvErrors": ("", "bad packet"),
    "LocalLinkIntegrityErrors": ("", "integrity error"),
    "ExcessiveBufferOverrunErrors": ("", "buffer overrun"),
}


def find_bad_links(routed: Routed, counters: Counters) -> BadLinks:
    """Rank the links of a fabric, with the tables with which it ran, whose counters or rates say that they are bad.

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
    absent: list[tuple[tuple[str, int], dict[str, int]]] = []

    def count(port: int, errors: dict[str, int]) -> None:
        peer = int(fabric.peer[port])
        counted.setdefault(port if peer < 0 else min(port, peer), {}).setdefault(port, errors)

    for port, errors in counters.errors.items():
        above = {name: value for name, value in errors.items() if value >= least}
        if isinstance(port, tuple):
            absent.append((port, above))
        elif above:
            count(port, above)
    noisy = {port: rate for port, rate in counters.ber.items() if rate > BER_THRESHOLD}
    for port in (*counters.degraded, *noisy, *counters.light):
        count(port, {})

    def said(port: int, errors: dict[str, int]) -> str:
        words = [*_words(errors), *counters.degraded.get(port, ())[:1]]
        if port in noisy:  # with how often it strikes at the rate of the link
            every_s = 1 / (noisy[port] * fabric.rate_gbps[port] * 1e9)
            words.append(f"bit error rate {noisy[port]:.0e}, one in {format_seconds(every_s)}")
        return f"{fabric.port_label(port)}: {', '.join((*words, *counters.light.get(port, ())))}"

    def rank(link: int) -> tuple[float, int, int, int, float, int]:
        slower = [counters.degraded[port][1] for port in counted[link] if port in counters.degraded]
        gone = fabric.peer[link] < 0 and "LinkDownedCounter" in counted[link][link]
        left = 0.0 if gone else min((share for share in slower if share < 1), default=1.0)
        noise = max((noisy.get(port, 0.0) for port in counted[link]), default=0.0)
        return (left, not slower, *_badness(counted[link].values()), -noise, link)

    devices: dict[str, list[str]] = {}
    for (device, number), errors in sorted(absent, key=lambda one: _badness([one[1]])):
        devices.setdefault(device, []).append(f"port {number}: {', '.join(_words(errors))}" if errors else "")
    lacking = tuple(AbsentDevice(device, len(ports), ports[0]) for device, ports in devices.items())
    unknown = int((fabric.peer >= 0).sum()) - len(counters.ber) if counters.ber else 0
    if not counted:
        return BadLinks((), lacking, unknown)
    proof, found = prove(routed), []
    for link in sorted(counted, key=rank):
        peer = int(fabric.peer[link])
        crossing = int(proof.load[link] + (proof.load[peer] if peer >= 0 else 0))
        says = "; ".join(said(port, errors) for port, errors in sorted(counted[link].items()))
        name = f"{fabric.port_label(link)}{f' to {fabric.port_label(peer)}' if peer >= 0 else ', no link now'}"
        found.append(BadLink(name, says, crossing, crossing / proof.pairs if proof.pairs else 0.0))
    return BadLinks(tuple(found), lacking, unknown)


def _badness(ports: Iterable[dict[str, int]]) -> tuple[int, int]:
    """Return the order of counters of ports: times that the link was down or retrained, then errors, most first."""
    total: Counter[str] = Counter()
    for one in ports:
        total.update(one)
    return -total["LinkDownedCounter"] - total["LinkErrorRecoveryCounter"], -total.total()


def _words(errors: dict[str, int]) -> list[str]:
    """Say what was counted; a counter at its ceiling has counted no further."""
    said = []
    for name, bits in ERRORS.items():
        if name in errors:
            (before, noun), value = WORDS[name], errors[name]
            times = "once" if (noun, value) == ("time", 1) else plural(value, noun)
            said.append(before + ("at least " if value == (1 << bits) - 1 else "") + times)
    return said
