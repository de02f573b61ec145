"""The engines to compare with: what each promises, and what each is known to lack."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import fabrics
from helpers.trees import grow_tree
from routing.engines import dfsssp, minhop
from routing.lanes.fit import break_loops
from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables, assign_lids
from topo.builder import FabricBuilder
from topo.errors import RoutingError
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed


def ring(n: int, way: int = 0) -> tuple[Fabric, RoutingTables]:
    """A ring of switches with a host each; tables that go round one way, or the shorter one."""
    builder = FabricBuilder("ring")
    hdr = LinkSpeed(4, "HDR")
    keys = [builder.switch(f"s{i}", model="s", radix=3, role=Role.SWITCH, level=1) for i in range(n)]
    for i, key in enumerate(keys):
        adapter = builder.adapter(f"h{i}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
        builder.link(adapter, 1, key, 1, hdr)
        builder.link(key, 2, keys[(i + 1) % n], 3, hdr)
    fabric = builder.build()
    lid = assign_lids(fabric)
    lft = np.full((n, int(lid.max()) + 1), 255, np.uint8)
    for target in range(n):
        for switch in range(n):
            ahead = (target - switch) % n
            onward = 2 if way == 1 or ahead <= n - ahead else 3
            lft[switch, lid[target]] = 0 if ahead == 0 else onward
            lft[switch, lid[n + target]] = 1 if ahead == 0 else onward
    return fabric, RoutingTables(lid, lft, engine="ring")


@given(fabrics(max_switches=10))
def test_minhop_takes_shortest_paths_only(fabric: Fabric) -> None:
    proof = prove(Routed(fabric, minhop.route(fabric)), "all")
    assert proof.missing == proof.disconnected
    assert proof.stretch == 0


@given(fabrics(max_switches=10))
def test_updn_has_no_loops_and_loses_only_what_has_nothing_above(fabric: Fabric) -> None:
    assert prove(Routed(fabric, minhop.route(fabric, up_down=True)), "all").credit_loops == 0


@given(fabrics(max_switches=10, max_adapters=12))
def test_dfsssp_is_complete_shortest_and_free_of_loops_on_its_lanes(fabric: Fabric) -> None:
    proof = prove(Routed(fabric, dfsssp.route(fabric, lanes=16)), "adapters")
    assert proof.missing == proof.disconnected
    assert proof.stretch == 0
    assert proof.credit_loops == 0


def test_updn_does_not_connect_the_spines_of_a_tree() -> None:
    fabric = grow_tree((2, 4), (1, 2), (1, 1))
    assert prove(Routed(fabric, minhop.route(fabric, up_down=True))).holds
    assert prove(Routed(fabric, minhop.route(fabric, up_down=True)), "all").missing == 2


@pytest.mark.parametrize("way", [0, 1])
def test_a_ring_that_loops_is_freed_by_more_lanes(way: int) -> None:
    """Two when paths are short; a path stays on its lane, so going round one way takes more than a dateline would."""
    fabric, tables = ring(6, way)
    assert prove(Routed(fabric, tables)).credit_loops > 0
    freed = break_loops(fabric, tables, 8)
    proof = prove(Routed(fabric, freed))
    assert (proof.missing, proof.credit_loops) == (0, 0)
    assert proof.lanes == (4 if way else 2)


def test_what_is_free_of_loops_needs_no_levels() -> None:
    fabric = grow_tree((2, 4), (1, 2), (1, 1))
    assert break_loops(fabric, tables := minhop.route(fabric), 1) is tables


def test_too_few_lanes_are_refused_with_the_number_that_is_needed() -> None:
    fabric, tables = ring(6)
    with pytest.raises(RoutingError, match=r"need 2 lanes .* and there are 1"):
        break_loops(fabric, tables, 1)


@given(st.integers(5, 16), st.integers(0, 2**32 - 1))
def test_random_regular_graphs_get_as_many_lanes_as_they_need(n: int, seed: int) -> None:
    graph = nx.random_regular_graph(4, n + 4, seed=seed)
    builder = FabricBuilder("random")
    keys = [builder.switch(f"s{i}", model="s", radix=5, role=Role.SWITCH, level=1) for i in graph]
    used = [1] * len(keys)
    for i, key in enumerate(keys):
        adapter = builder.adapter(f"h{i}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
        builder.link(adapter, 1, key, 1, LinkSpeed(4, "HDR"))
    for a, b in sorted(graph.edges):
        used[a] += 1
        used[b] += 1
        builder.link(keys[a], used[a], keys[b], used[b], LinkSpeed(4, "HDR"))
    fabric = builder.build()
    proof = prove(Routed(fabric, dfsssp.route(fabric)))
    assert proof.missing == proof.disconnected and proof.credit_loops == 0


@pytest.mark.parametrize("hosts", [4, 6])
def test_paths_of_one_length_are_taken_in_turn(hosts: int) -> None:
    """Each leaf sends as many destinations over one spine as over another, and each spine gets as many from each."""
    fabric = grow_tree((hosts, 3), (1, 2), (1, 1))
    load = prove(Routed(fabric, dfsssp.route(fabric, lanes=1))).load[fabric.inner]
    assert load.max() - load.min() <= hosts
    up = fabric.level[fabric.port_node[fabric.inner]] == 1
    assert load[up].max() <= hosts * 2 * hosts / 2 + hosts
