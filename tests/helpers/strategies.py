"""What tests of several packages share: small fabrics with tables in closed form, and Hypothesis strategies."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from routing.tables import NO_PATH, RoutingTables, assign_lids
from topo.builder import FabricBuilder
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

HDR = LinkSpeed(4, "HDR")
HOST_ROLES = (Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT)


def examples(count: int) -> settings:
    """So many examples in a usual run; a fast one takes fewer, a nightly one more, in the same proportion."""
    usual = settings.get_profile("usual").max_examples
    return settings(max_examples=max(1, count * settings().max_examples // usual))


def is_nightly() -> bool:
    """Return whether this run takes more examples than a usual one."""
    return settings().max_examples > settings.get_profile("usual").max_examples


@dataclass(frozen=True)
class Case:
    """A fabric with tables for it."""

    fabric: Fabric
    tables: RoutingTables


def ring(n: int = 4) -> Case:
    """Switches in a ring, one host on each, all traffic clockwise: the textbook credit loop."""
    builder = FabricBuilder("ring")
    switches = [builder.switch(f"sw{i}", model="m", radix=4, role=Role.SWITCH, level=-1) for i in range(n)]
    for i, switch in enumerate(switches):
        host = builder.adapter(f"host{i}", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
        builder.link(switch, 1, switches[(i + 1) % n], 2, HDR)
        builder.link(switch, 3, host, 1, HDR)
    fabric = builder.build()
    lid = assign_lids(fabric)
    lft = np.full((n, 2 * n + 1), 1, np.uint8)
    lft[:, 0] = NO_PATH
    lft[np.arange(n), lid[:n]] = 0
    lft[np.arange(n), lid[n:]] = 3
    return Case(fabric, RoutingTables(lid, lft))


def past_switch_0_on_lane_5(case: Case) -> Case:
    """A ring whose paths past switch 0 take lane 5, where none turns at switch 2, and all others lane 2: no loop."""
    lid, n = case.tables.lid, case.fabric.n_switches
    path_sl = np.zeros(case.tables.lft.shape, np.uint8)
    for source in range(n):
        for dest in range(n):
            path_sl[source, lid[n + dest]] = 0 < dest < source
    return Case(case.fabric, replace(case.tables, path_sl=path_sl, sl2vl=(2, 5, *[0] * 14)))


def tree(k: int, *, leaves: int | None = None, storage: int = 0) -> Case:
    """k leaves (or another number) with k hosts each under k spines; host j of any leaf is reached over spine j.

    The last ``storage`` hosts of each leaf are storage.
    """
    n = k if leaves is None else leaves
    builder = FabricBuilder("tree")
    leaf = [builder.switch(f"leaf{i}", model="m", radix=2 * k, role=Role.LEAF, level=1) for i in range(n)]
    spine = [builder.switch(f"spine{j}", model="m", radix=n, role=Role.SPINE, level=2) for j in range(k)]
    for i in range(n):
        for j in range(k):
            builder.link(leaf[i], k + 1 + j, spine[j], 1 + i, HDR)
            role = Role.STORAGE if j >= k - storage else Role.COMPUTE
            host = builder.adapter(f"host{i}-{j}", "mlx5_0", model="hca", host_model="server", role=role)
            builder.link(leaf[i], 1 + j, host, 1, HDR)
    fabric = builder.build()
    lid = assign_lids(fabric)
    lft = np.full((n + k, int(lid.max()) + 1), NO_PATH, np.uint8)
    for i in range(n):  # LIDs of leaves go over spine 0
        lft[:n, lid[i]] = k + 1
        lft[n:, lid[i]] = 1 + i
        lft[i, lid[i]] = 0
    for j in range(k):  # spines reach each other over leaf 0
        lft[:n, lid[n + j]] = k + 1 + j
        lft[n:, lid[n + j]] = 1
        lft[n + j, lid[n + j]] = 0
    for i in range(n):
        for j in range(k):
            dest = lid[n + k + i * k + j]
            lft[:n, dest] = k + 1 + j
            lft[n:, dest] = 1 + i
            lft[i, dest] = 1 + j
    return Case(fabric, RoutingTables(lid, lft))


def spoil(case: Case, *entries: tuple[int, int, int]) -> Case:
    """The case with other output ports: (switch, destination end port, port)."""
    lft = case.tables.lft.copy()
    for switch, end, port in entries:
        lft[switch, case.tables.lid[end]] = port
    return Case(case.fabric, replace(case.tables, lft=lft))


@st.composite
def fabrics(
    draw: st.DrawFn, *, max_switches: int = 8, max_adapters: int = 10, connected: bool = False, ports: int = 2
) -> Fabric:
    """Any wiring: parallel cables, cables of a switch to itself, adapters with ``ports``, loose ends, islands."""
    builder = FabricBuilder("random")
    n_switches = draw(st.integers(1, max_switches))
    radix = draw(st.integers(4, 12))
    free: list[list[int]] = []
    nodes = []
    for i in range(n_switches):
        role, level = draw(st.sampled_from([(Role.LEAF, 1), (Role.SPINE, 2), (Role.SWITCH, -1)]))
        nodes.append(builder.switch(f"sw{i}", model="switch", radix=radix, role=role, level=level))
        free.append(draw(st.permutations(range(1, radix + 1))))
    adapters = [
        (
            builder.adapter(
                f"host{i // 2}", f"mlx5_{i % 2}", model="hca", host_model="server",
                role=draw(st.sampled_from(HOST_ROLES)), ports=own,
            ),
            own,
        )
        for i, own in enumerate(draw(st.lists(st.sampled_from([1, 1, 1, ports]), min_size=2, max_size=max_adapters)))
    ]  # fmt: skip
    if connected:
        for i in range(1, n_switches):
            other = draw(st.sampled_from([j for j in range(i) if free[j]]))
            builder.link(nodes[i], free[i].pop(), nodes[other], free[other].pop(), HDR)
    for key, own in adapters:
        for port in range(1, own + 1):
            at = draw(st.sampled_from([None, *(i for i in range(n_switches) if free[i])]))
            if at is not None:
                builder.link(key, port, nodes[at], free[at].pop(), HDR)
    for a, b in draw(st.lists(st.tuples(*[st.integers(0, n_switches - 1)] * 2), max_size=3 * n_switches)):
        if len(free[a]) > (a == b) and free[b]:
            builder.link(nodes[a], free[a].pop(), nodes[b], free[b].pop(), HDR)
    return builder.build()


def shortest_path_tables(fabric: Fabric, choose: np.random.Generator | None = None) -> RoutingTables:
    """Tables over shortest paths, the first such port at each switch or one chosen at random: complete, often looping.

    Entries that no cable path can serve stay empty.
    """
    lid = assign_lids(fabric)
    lft = np.full((fabric.n_switches, int(lid.max()) + 1), NO_PATH, np.uint8)
    graph = fabric.to_networkx().subgraph(range(fabric.n_switches))
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    for end in np.flatnonzero(lid).tolist():
        home = int(fabric.end_switch[end])
        for switch in range(fabric.n_switches):
            if switch == home:
                port = fabric.first_adapter_port + end - fabric.n_switches
                hand = 0 if end < fabric.n_switches else int(fabric.port_number[fabric.peer[port]])
                lft[switch, lid[end]] = hand
            elif home in distance[switch]:
                ports = [
                    port
                    for port in range(fabric.port_offset[switch], fabric.port_offset[switch + 1])
                    if 0 <= fabric.peer_node[port] < fabric.n_switches
                    and distance[int(fabric.peer_node[port])].get(home, 1 << 30) < distance[switch][home]
                ]
                port = ports[0] if choose is None else int(choose.choice(ports))
                lft[switch, lid[end]] = fabric.port_number[port]
    return RoutingTables(lid, lft, engine="shortest paths")


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    corrupt: bool = True,
    lids: bool = True,
    lanes: bool = True,
    connected: bool = False,
    ports: int = 2,
) -> Case:
    """A random fabric with random tables over shortest paths; entries, lanes and ``lids`` spoilt where ``corrupt``."""
    fabric = draw(fabrics(connected=connected, ports=ports))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = shortest_path_tables(fabric, rng)
    if lanes and draw(st.booleans()):
        path_sl = rng.integers(0, 18 if corrupt else 4, tables.lft.shape).astype(np.uint8)
        sl2vl = tuple(rng.integers(0, 16 if corrupt else 8, 16).tolist())
        tables = replace(tables, path_sl=path_sl, sl2vl=sl2vl)
    if corrupt and draw(st.booleans()):
        lft, lid = tables.lft.copy(), tables.lid.copy()
        for _ in range(draw(st.integers(1, 12))):
            where = rng.integers(len(lft)), rng.integers(lft.shape[1])
            lft[where] = rng.choice([0, NO_PATH, rng.integers(1, 14), rng.integers(0, 256)])
        if lids and draw(st.booleans()):  # LIDs that are shared, missing, or beyond the tables
            lid[rng.integers(len(lid))] = rng.integers(0, lft.shape[1] + 2)
        if lids and draw(st.booleans()):
            lft = lft[:, : rng.integers(1, lft.shape[1] + 1)]
            path_sl = tables.path_sl
            tables = replace(tables, path_sl=None if path_sl is None else path_sl[:, : lft.shape[1]])
        tables = replace(tables, lft=lft, lid=lid)
    return Case(fabric, tables)


def slow_but(values: Iterable[Any], *fast: Any) -> list[Any]:
    """Return values of a parametrised test of which all but some are slow."""
    return [value if value in fast else pytest.param(value, marks=pytest.mark.slow) for value in values]


def seeds(count: int) -> list[object]:
    """Return seeds for a test that takes seconds each: a run by day has one, and the fast part none."""
    return [pytest.param(1, marks=pytest.mark.slow), *map(nightly, [0, *range(2, count)])]


def nightly(*values: object, id: str | None = None) -> object:
    """Return parameters of a test that only a nightly run takes."""
    return pytest.param(*values, id=id, marks=[pytest.mark.slow, pytest.mark.nightly])
