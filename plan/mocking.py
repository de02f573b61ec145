"""``plan.mock``: a fabric with faults that are known, in the files that the tools of the field would write of it.

Whoever writes a check of cabling or of links tests it on these files: the answer is beside them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import routing
import simulate
import topo
from plan.files import check_replaceable, write_folder
from plan.inputs import A_FABRIC, SPEC_SUFFIXES, catalog_of, path_of, read_cluster, read_fabric_argument
from plan.staging import Content
from routing import Routed
from simulate.diagnosis import ERRORS, tick_bytes
from topo import Catalog, Fabric, HeddleError, Shown, Table

CABLING = ("swapped", "rotated", "moved", "missing", "extra", "misplaced")
"""Kinds of faults that LLDP shows, as `plan diff` calls them: all that an Ethernet has."""
FAULTS = (*CABLING, "degraded", "replaced", "errors")
"""Kinds that are drawn: those of `plan diff`, and links with errors, as `plan explain` finds them."""
EVERY_FAULT = (*FAULTS, "waiting")
"""All kinds: at most one link may also be slow without any tool that says so, and make others wait."""
ERROR_COUNTERS = ("SymbolErrorCounter", "PortRcvErrors", "LinkDownedCounter")
"""Counters of links with errors."""
TRAFFIC = ("PortXmitData", "PortXmitWait")
"""Counters of words of four bytes, and of ticks."""
LEAST_ERRORS = 11
"""One more than tools let pass: the default of infiniband-diags is ten."""
TRIES = 10
"""For each fault that is asked for: a small fabric may have no room for more."""
MESSAGE_BYTES, MESSAGES = 32 << 10, 24
"""Size, and how many an adapter sends to others at random, for the counters of what was sent and waited."""
BUSY, SLOW, LATE = 0.6, 0.25, 1.3
"""Parts: of the time in which the fullest link sends while all are sound, of its rate that a waiting link has, and of
that rate which its traffic would take."""


@dataclass(frozen=True)
class Fault:
    """A fault that was made."""

    kind: str
    """One of `EVERY_FAULT`."""
    ports: tuple[int, ...]
    """Ports of the planned fabric, in order; of a node that is misplaced or replaced the first."""


@dataclass(frozen=True, eq=False)
class Mock(Shown):
    """A fabric with faults, beside its plan."""

    planned: Fabric
    found: Fabric
    """The same nodes and ports in the same order, with the faults."""
    faults: tuple[Fault, ...]
    counters: Mapping[int, Mapping[str, int]]
    """Counters of each port with a cable, as its registers hold them; none of an Ethernet."""
    routed: Routed | None = None
    """Tables of the fabric while it carried traffic, if it did."""
    labels: tuple[str, ...] = ()
    """What is printed at each port of an Ethernet."""

    @property
    def table(self) -> Table:
        """A row a fault."""
        rows = [(fault.kind, ", ".join(map(self.planned.port_label, fault.ports))) for fault in self.faults]
        return Table.of_rows("faults", ("fault", "at"), rows)

    @property
    def files(self) -> dict[str, Content]:
        """What tools print of it, by the names of files, and the answer."""
        both = {"planned": self.planned, "fabric": self.found}
        made: dict[str, Content] = {"answer.json": json.dumps(self.to_dict(), indent=2) + "\n"}
        if self.labels:
            return made | {f"{name}.lldp": topo.format_lldp(one, self.labels) for name, one in both.items()}
        made |= {f"{name}.ibnetdiscover": topo.format_ibnetdiscover(one) for name, one in both.items()}
        made |= {"fabric.db_csv": topo.format_db_csv(self.found, self.counters)}
        if self.routed is not None:
            made["fabric.lfts"] = routing.opensm.format_lfts(self.found, self.routed.tables)
        return made | {"counters.txt": self.perfquery, "errors.txt": self.errors}

    @property
    def perfquery(self) -> str:
        """What ``perfquery`` prints, port by port."""
        lids = self.found.discovered_lid[self.found.end_of(np.arange(self.found.n_ports))].tolist()
        lines = []
        for port, told in sorted(self.counters.items()):
            number = int(self.found.port_number[port])
            lines.append(f"# Port counters: Lid {lids[port]} port {number} (CapMask: 0x00)")
            lines += [f"{name + ':':.<33}{value}" for name, value in (("PortSelect", number), *told.items())]
        return "".join(f"{line}\n" for line in lines)

    @property
    def errors(self) -> str:
        """What ``ibqueryerrors`` prints of it: the ports whose counters are above its thresholds."""
        fabric, lines = self.found, []
        bad = [
            port for port, told in sorted(self.counters.items()) if max(told[name] for name in ERRORS) >= LEAST_ERRORS
        ]
        for port in bad:
            node, told = int(fabric.port_node[port]), self.counters[port]
            counted = " ".join(f"[{name} == {told[name]}]" for name in ERRORS if told[name] >= LEAST_ERRORS)
            lines += [f'Errors for "{fabric.names[node]}"']
            lines += [f"   GUID 0x{int(fabric.node_guid[node]):x} port {fabric.port_number[port]}: {counted}"]
        nodes = len({int(fabric.port_node[port]) for port in bad})
        lines += [
            f"## Summary: {fabric.n_nodes} nodes checked, {nodes} bad nodes found",
            f"##          {int((fabric.peer >= 0).sum())} ports checked, {len(bad)} ports have errors beyond threshold",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _brief(self) -> str:
        return f"{len(self.faults)} faults"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON."""
        label = self.planned.port_label
        counted = [
            {"port": label(port), "counter": name, "value": told[name]}
            for port, told in sorted(self.counters.items())
            for name in ERRORS
            if told[name]
        ]
        faults = [{"fault": one.kind, "ports": [label(port) for port in one.ports]} for one in self.faults]
        return {"fabric": self.planned.name, "faults": faults, "counted": counted}


def mock(
    fabric: str | Path | Fabric,
    output: str | Path | None = None,
    *,
    faults: int = 5,
    kinds: Sequence[str] = FAULTS,
    seed: int = 0,
    hosts: bool = True,
    subnet: str | None = None,
) -> Mock:
    """Make faults in a fabric that have nothing to do with one another, drawn from a seed.

    Parameters
    ----------
    fabric : str, Path or Fabric
        A spec, a folder of `plan build` or a dump.
    output : str or Path, optional
        Folder for what tools print of the plan and of the fabric, and ``answer.json``: `Mock.files`.
    faults : int
        How many are wanted; a small fabric may have room for fewer.
    kinds : sequence of str
        Of `EVERY_FAULT`, drawn with equal chances; of an Ethernet those of `CABLING` among them.
    seed : int
        Of the draw.
    hosts : bool
        Whether cables of hosts are plugged otherwise, too.
    subnet : str, optional
        Which subnet or Ethernet of a plan that has several.

    Raises
    ------
    HeddleError
        When the fabric cannot be read, the folder cannot be written, a kind is unknown, or nothing could be broken.

    Examples
    --------
    >>> import plan, topo
    >>> made = plan.mock(topo.preset("lab-20").fabric, faults=3, seed=6)
    >>> [fault.kind for fault in made.faults]
    ['missing', 'replaced', 'errors']
    >>> topo.find_differences(made.planned, made.found).summary
    '61 of 62 cables as planned; 1 node replaced, 1 missing'
    """
    check_replaceable(output, fabric)
    if isinstance(fabric, Fabric):
        planned, catalog = fabric, topo.load_catalog()
    else:
        path = path_of(fabric, A_FABRIC)
        planned, catalog = read_fabric_argument(path, subnet, ethernet=True), catalog_of(path)
    made = _make(planned, catalog, faults, kinds, np.random.default_rng(seed), hosts)
    if output is not None:
        write_folder(Path(output), made.files)
    return made


def mock_each(
    fabrics: Sequence[Path], output: Path, *, faults: int = 5, kinds: Sequence[str] = FAULTS, seed: int = 0
) -> dict[str, Mock]:
    """Break several fabrics, as `mock` does; write a folder, whose name is the key, for each that is no copy."""
    check_replaceable(output, *fabrics)
    made: dict[str, Mock] = {}
    for path in fabrics:
        cluster = read_cluster(path) if path.suffix in SPEC_SUFFIXES else None
        networks = cluster.fabrics if cluster else (read_fabric_argument(path),)
        catalog = cluster.catalog if cluster else catalog_of(path)
        for at, planned in enumerate(networks):
            if any(planned.is_copy_of(other) for other in networks[:at]):
                continue
            if planned.name in made:
                raise HeddleError(
                    f"{path}: found a second fabric {planned.name!r}; expected each with a name of its own"
                )
            made[planned.name] = _make(planned, catalog, faults, kinds, np.random.default_rng(seed), True)
    write_folder(output, {f"{name}/{file}": text for name, one in made.items() for file, text in one.files.items()})
    return made


def _make(
    planned: Fabric, catalog: Catalog, faults: int, kinds: Sequence[str], rng: np.random.Generator, hosts: bool
) -> Mock:
    """Break a fabric; of one of InfiniBand, let it carry traffic and count."""
    if unknown := [kind for kind in kinds if kind not in EVERY_FAULT]:
        raise HeddleError(f"kinds: found {unknown[0]!r}; expected one of {', '.join(EVERY_FAULT)}")
    ethernet = catalog.protocol_of(planned) == "ethernet"
    if not len(planned.discovered_lid):
        planned = replace(planned, discovered_lid=np.arange(1, planned.n_end_ports + 1).astype(np.uint16))
    hands = _Hands(planned, rng, hosts)
    drawn = [kind for kind in kinds if kind in (CABLING if ethernet else FAULTS)]
    slow = "waiting" in kinds and not ethernet and faults > 0
    for _ in range(TRIES * faults if drawn else 0):
        if len(hands.faults) >= faults - slow:
            break
        hands.make(drawn[int(rng.integers(len(drawn)))])
    found = hands.fabric()
    if ethernet:
        (panel,) = topo.panels([planned], catalog)
        made = Mock(planned, found, tuple(hands.faults), {}, labels=panel.labels)
    else:
        ports = np.flatnonzero(found.peer >= 0).tolist()
        counters = {port: dict.fromkeys((*ERRORS, *TRAFFIC), 0) | hands.counters.get(port, {}) for port in ports}
        routed = None
        if slow and (play := _play(found, rng, hands.touched)):
            routed, link, counted = play
            hands.faults.append(Fault("waiting", link))
            for port in ports:
                counters[port] |= dict(zip(TRAFFIC, counted[port].tolist(), strict=True))
        made = Mock(planned, found, tuple(hands.faults), counters, routed)
    if faults and not made.faults:
        raise HeddleError(f"{planned.name}: no fault of kind {', '.join(kinds)} can be made in this fabric")
    return made


def _play(
    fabric: Fabric, rng: np.random.Generator, touched: set[int]
) -> tuple[Routed, tuple[int, ...], NDArray[np.int64]] | None:
    """Let all adapters send to others at random while a link between switches is slow: tables, link, (P, 2) `TRAFFIC`.

    Faults have not ``touched`` it, and its traffic is more than it can carry. None where there is no such link.
    """
    routed = routing.route(fabric, "balanced")
    proof, network = routing.prove(routed), simulate.Network.of(routed, lane_weights=1, latency_s=0)
    rate, ends = network.capacity_bytes_s.copy(), fabric.ends()
    part, at = fabric.switch_part, fabric.end_switch
    src, dst = np.repeat(ends, MESSAGES), rng.choice(ends, MESSAGES * len(ends))
    sent = (src != dst) & (part[at[src]] == part[at[dst]])
    src, dst = src[sent], dst[sent]
    sound = rate[: fabric.n_ports].copy()
    busy_s = proof.load / proof.pairs * len(src) * MESSAGE_BYTES / sound
    time_s, inner = busy_s.max() / BUSY, fabric.inner_links
    late = inner[busy_s[inner].max(axis=1) > LATE * SLOW * time_s].tolist()
    free = [link for link in late if touched.isdisjoint(link)]
    if not free:
        return None
    link = tuple(free[int(rng.integers(len(free)))])
    rate[list(link)] *= SLOW
    flows = simulate.Flows.of(src, dst, float(MESSAGE_BYTES), start_s=rng.uniform(0, time_s, len(src)))
    met = simulate.Packets(replace(network, capacity_bytes_s=rate)).play(flows).congestion
    assert met is not None
    sent_bytes, stalled_s = (each.sum(axis=0)[: fabric.n_ports] for each in (met.sent_bytes, met.stalled_s))
    counted = np.stack([sent_bytes / 4, stalled_s * sound / tick_bytes(fabric)], axis=1).astype(np.int64)
    return routed, link, counted


class _Hands:
    """Faults that a crew makes one by one; what one of them has touched is left alone by the next."""

    def __init__(self, plan: Fabric, rng: np.random.Generator, with_hosts: bool) -> None:
        self.plan, self.rng = plan, rng
        self.peer, self.width, self.node = plan.peer.copy(), plan.width.copy(), np.arange(plan.n_nodes)
        """`node` is the (N,) node that stands in the place of each; itself, or the one that it was exchanged with."""
        self.renewed: list[int] = []
        self.touched: set[int] = set()
        self.faults: list[Fault] = []
        self.counters: dict[int, dict[str, int]] = {}
        ends = plan.inner_links
        inside = [self.in_frame(a, b) for a, b in plan.port_node[ends].tolist()]
        self.cables = [(a, b) for (a, b), backplane in zip(ends.tolist(), inside, strict=True) if not backplane]
        attached = plan.port_of(plan.ends()).tolist() if with_hosts else []
        self.hosts = [(int(plan.peer[port]), port) for port in attached]

    def in_frame(self, a: int, b: int) -> bool:
        """Return whether two switches are chips of one frame."""
        return self.plan.frame(a) == self.plan.frame(b) != ""

    def make(self, kind: str) -> None:
        """Try a fault of a kind; if a part of it cannot be had, nothing has changed."""
        peer, width, touched = self.peer.copy(), self.width.copy(), set(self.touched)
        ports: list[int] = getattr(self, kind)()
        if ports:
            apart = [[port] for port in ports] if kind == "misplaced" else [sorted(ports)]
            self.faults += [Fault(kind, tuple(one)) for one in apart]
        else:
            self.peer, self.width, self.touched = peer, width, touched

    def fabric(self) -> Fabric:
        """Return the fabric as it is: exchanged switches have kept their names and GUIDs."""
        plan = self.plan
        guid, port_guid = plan.node_guid[self.node], plan.port_guid.copy()
        for node in self.renewed:  # of the same maker, which the first 24 bits name
            guid[node] = int(guid[node]) >> 40 << 40 | int(self.rng.integers(1 << 40))
        moved = np.flatnonzero(guid != plan.node_guid)
        for node in moved.tolist():
            port_guid[plan.ports_of(node)] = guid[node]
        names = tuple(plan.names[node] for node in self.node.tolist())
        width, speed = self.rates()
        return replace(plan, peer=self.peer, width=width, speed=speed, names=names, node_guid=guid, port_guid=port_guid)

    def rates(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return (P,) width and speed of each port: one that was not planned comes up at what both ends can.

        A plan does not say what a port without a cable can: as much as the best port of its node.
        """
        plan, rates = self.plan, (self.width.copy(), self.plan.speed.copy())
        cabled, fresh = np.flatnonzero(plan.peer >= 0), np.flatnonzero((self.peer >= 0) & (self.peer != plan.peer))
        for rate, planned in zip(rates, (plan.width, plan.speed), strict=True):
            best = np.zeros(plan.n_nodes, rate.dtype)
            np.maximum.at(best, plan.port_node[cabled], planned[cabled])
            can = best[plan.port_node]
            rate[fresh] = np.minimum(can[fresh], can[self.peer[fresh]])
        return rates

    def pick(self, cables: list[tuple[int, int]], near: int | None = None) -> tuple[int, int] | None:
        """Return a cable that nothing has touched, with its ends in either order; one of a switch, if ``near``."""
        places = np.arange(len(cables))
        if near is not None:
            places = np.flatnonzero((self.plan.port_node[np.array(cables).reshape(-1, 2)] == near).any(axis=1))
        for place in self.rng.permutation(places).tolist():
            a, b = cables[place]
            if not self.touched & {a, b}:
                self.touched |= {a, b}
                return (a, b) if self.rng.random() < 0.5 else (b, a)
        return None

    def pool(self) -> list[tuple[int, int]]:
        """Return the cables between switches, or those of hosts."""
        return self.hosts if self.hosts and self.rng.random() < 0.25 else self.cables

    def plug(self, *pairs: tuple[int, int]) -> None:
        for a, b in pairs:
            self.peer[a], self.peer[b] = b, a

    def free(self, switch: int) -> int | None:
        """Return a port of a switch that is free and stays so."""
        ports = self.plan.ports_of(switch)
        free = [port for port in ports if self.plan.peer[port] < 0 and port not in self.touched]
        if not free:
            return None
        self.touched.add(port := int(self.rng.choice(free)))
        return port

    def untouched(self, switches: NDArray[np.int64]) -> list[int]:
        """Return switches in a random order of which nothing was touched, and that are no parts of a frame.

        None if faults took a third of all switches as a whole: then there would be room for no other fault.
        """
        whole = len(self.renewed) + np.count_nonzero(self.node != np.arange(len(self.node)))
        if 3 * whole >= self.plan.n_switches:
            return []
        drawn = self.rng.permutation(switches).tolist()
        return [
            node for node in drawn if not self.plan.frame(node) and self.touched.isdisjoint(self.plan.ports_of(node))
        ]

    def seize(self, *nodes: int) -> list[int]:
        """Let nothing else touch some nodes; return the first port of each."""
        for node in nodes:
            self.touched.update(self.plan.ports_of(node))
        return [int(self.plan.port_offset[node]) for node in nodes]

    def swapped(self) -> list[int]:
        """Exchange the plugs of two cables, at one switch or at any."""
        pool = self.pool()
        if (one := self.pick(pool)) is None:
            return []
        a, b = one if one[0] < self.plan.first_adapter_port else one[::-1]  # switch first
        near = int(self.plan.port_node[a]) if self.rng.random() < 0.5 else None
        if (other := self.pick(pool, near)) is None:
            return []
        c, d = other
        if pool is self.hosts:
            c, d = min(other), max(other)  # a host is plugged into a switch
        elif near is not None and self.plan.port_node[c] != near:
            c, d = d, c
        self.plug((a, d), (c, b))
        return [a, b, c, d]

    def rotated(self) -> list[int]:
        """Exchange the plugs of three cables."""
        three = [one for _ in range(3) if (one := self.pick(self.cables))]
        if len(three) < 3:
            return []
        (a, b), (c, d), (e, f) = three
        self.plug((a, d), (c, f), (e, b))
        return [a, b, c, d, e, f]

    def moved(self) -> list[int]:
        """Plug one end of a cable into a free port of the same switch, or of another."""
        pool = self.pool()
        if (one := self.pick(pool)) is None:
            return []
        stays, goes = (max(one), min(one)) if pool is self.hosts else one
        switch = int(self.plan.port_node[goes])
        if pool is self.cables and self.rng.random() < 0.5:
            switch = int(self.rng.integers(self.plan.n_switches))
        if switch == self.plan.port_node[stays] or (to := self.free(switch)) is None:
            return []
        self.peer[goes] = -1
        self.plug((stays, to))
        return [stays, goes, to]

    def missing(self) -> list[int]:
        """Take a cable between switches away; without its only cable, no tool would find an adapter."""
        one = list(self.pick(self.cables) or ())
        self.peer[one] = -1
        return one

    def degraded(self) -> list[int]:
        """Let a cable come up on one lane."""
        one = [port for port in self.pick(self.cables) or () if self.plan.width[port] > 1]
        self.width[one] = 1
        return one

    def extra(self) -> list[int]:
        """Plug in a cable that nobody planned."""
        switches = self.rng.integers(self.plan.n_switches, size=2).tolist()
        ends = [port for switch in switches if (port := self.free(switch)) is not None]
        if len(ends) < 2 or switches[0] == switches[1] or self.in_frame(*switches):
            return []
        self.plug((ends[0], ends[1]))
        return ends

    def misplaced(self) -> list[int]:
        """Mount two leaves in each other's place."""
        leaves = self.untouched(np.flatnonzero(self.plan.level[: self.plan.n_switches] == 1))
        for a, b in pairwise(leaves):
            ports = self.plan.ports_of(a)
            if len(ports) == len(self.plan.ports_of(b)) and b not in self.plan.peer_node[ports]:
                self.node[[a, b]] = b, a
                return self.seize(a, b)
        return []

    def replaced(self) -> list[int]:
        """Put a new switch in the place of one, with its name."""
        names = self.plan.names
        for node in self.untouched(np.arange(self.plan.n_switches)):
            if names.count(names[node]) == 1:
                self.renewed.append(node)
                return self.seize(node)
        return []

    def errors(self) -> list[int]:
        """Let one end of a cable count errors."""
        if one := self.pick(self.cables + self.hosts):
            name = ERROR_COUNTERS[int(self.rng.integers(len(ERROR_COUNTERS)))]
            most = (1 << ERRORS[name]) - 1
            self.counters[one[0]] = {name: int(LEAST_ERRORS * (most / LEAST_ERRORS) ** self.rng.random())}
        return list(one or ())
