"""Numbers of fat-trees by their laws: tapers of any ratio, spines and cores that carry what comes from below."""

import re
from collections import Counter
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import topo
from helpers.clusters import CATALOG, gpus, storage, tree
from helpers.strategies import examples
from topo.errors import DesignError
from topo.fabric import Role
from topo.shapes.fat_tree import FatTree, TreeSize, _size_three

ratios = st.one_of(st.floats(1.0, 12.0), st.sampled_from([1.5, 2.0, 7 / 3, 3.0, 3.5, 39.0]))
SWITCHES = {"SB7800": 36, "QM8700": 40, "QM9700": 64}


@given(ratio=ratios, switch=st.sampled_from(sorted(SWITCHES)), ports=st.integers(1, 300))
def test_a_tapered_leaf_keeps_its_ratio_and_wastes_no_port(ratio: float, switch: str, ports: int) -> None:
    """At most r ports down for each up, and with one uplink less there would be more: so for ratios of any kind."""
    radix = SWITCHES[switch]
    size = FatTree(switch=switch, oversubscription=ratio).size(ports, CATALOG)
    down, up = size.down, size.spines_per_pod * size.parallel

    assert down <= up * ratio
    assert down + up <= radix
    assert down + up == radix or down + 1 > up * ratio, "a port is left over only where it would break the ratio"
    assert up == 1 or radix - (up - 1) > (up - 1) * ratio, "with one uplink less the rest is above the ratio"
    assert size.leaves == -(-ports // down)
    assert size.leaves * size.parallel <= radix


@given(spines=st.integers(1, 30), parallel=st.integers(1, 6), ratio=ratios)
def test_uplinks_set_by_hand_bound_the_ports_down(spines: int, parallel: int, ratio: float) -> None:
    tree = FatTree(switch="QM8700", leaves=2, spines=spines, parallel=parallel, oversubscription=ratio)
    up = spines * parallel
    if up > 39 or 2 * parallel > 40:
        with pytest.raises(DesignError):
            tree.size(1, CATALOG)
        return
    size = tree.size(1, CATALOG)

    assert (size.spines, size.parallel) == (spines, parallel)
    if ratio == 1:
        assert size.down == 40 - up
    else:
        assert size.down <= up * ratio and size.down <= 40 - up
        assert size.down + 1 > min(up * ratio, 40 - up)


@given(
    leaf=st.sampled_from([1.0, 1.5, 2.0, 7 / 3, 3.0]),
    spine=st.sampled_from([1.0, 1.2, 1.5, 2.0, 7 / 3, 3.0]),
    ports=st.integers(1, 3_000),
    cores=st.one_of(st.none(), st.integers(1, 400)),
)
def test_three_levels_carry_what_the_ratios_leave(leaf: float, spine: float, ports: int, cores: int | None) -> None:
    tree = FatTree(switch="QM8700", levels=3, cores=cores, oversubscription=leaf, spine_oversubscription=spine)
    try:
        size = tree.size(ports, CATALOG)
    except DesignError:
        return
    from_leaves = size.leaves_per_pod * size.parallel
    cores_per_spine = size.cores * size.spines_per_group / size.spines_per_pod

    assert size.leaves * size.down >= ports
    assert from_leaves <= size.spine_up * spine, "the ratio holds in each spine"
    assert from_leaves + size.spine_up <= size.spine_radix
    assert from_leaves > (size.spine_up - 1) * spine, "with one uplink less it would not"
    assert cores_per_spine == int(cores_per_spine), "a group has whole cores"
    assert size.cores * size.core_radix >= size.spines * size.spine_up
    assert size.spines_per_group * size.spine_up >= cores_per_spine, "each core has a link from every pod"


@pytest.mark.parametrize("switch", sorted(SWITCHES))
def test_full_trees(switch: str) -> None:
    radix = SWITCHES[switch]
    two = FatTree(switch=switch).size(radix**2 // 2, CATALOG)
    three = FatTree(switch=switch, levels=3).size(radix**3 // 4, CATALOG)

    assert (two.leaves, two.spines, two.switch_links) == (radix, radix // 2, radix**2 // 2)
    assert (three.leaves, three.spines, three.cores) == (radix**2 // 2, radix**2 // 2, radix**2 // 4)
    assert three.switch_links == radix**3 // 2


@pytest.mark.parametrize("levels", [True, 0, 4, 1.0, "2"])
def test_levels_are_a_number_from_1_to_3(levels: object) -> None:
    with pytest.raises(ValidationError, match="levels"):
        FatTree(switch="QM8700", levels=levels)


@given(switch=st.sampled_from(sorted(SWITCHES)), ports=st.integers(1, 200), levels=st.sampled_from([None, 1, 2]))
def test_what_fits_in_one_switch_is_one_switch_unless_two_levels_are_asked_for(
    switch: str, ports: int, levels: int | None
) -> None:
    tree = FatTree(switch=switch, levels=levels).for_ports(ports, CATALOG)
    size = tree.size(ports, CATALOG)
    fits = ports <= SWITCHES[switch]

    assert (size.switches == 1) == (levels == 1 or (levels is None and fits))
    assert (size.switch_links == 0) == (size.switches == 1)
    if size.switches == 1:
        assert size.down == SWITCHES[switch]


def test_one_switch_has_no_other_numbers() -> None:
    with pytest.raises(DesignError, match="`spines` belongs to a tree of more levels"):
        FatTree(switch="QM8700", levels=1, spines=2).size(8, CATALOG)


@given(spines=st.integers(2, 40), ports=st.integers(41, 800))
def test_spines_over_which_uplinks_do_not_divide_are_refused_with_links_that_work(spines: int, ports: int) -> None:
    tree = FatTree(switch="QM8700", spines=spines)
    try:
        tree.size(ports, CATALOG)
    except DesignError as refused:
        found = re.search(r"do not divide over .*, or give `parallel: (\d+)`", str(refused))
        if found:
            size = FatTree(switch="QM8700", spines=spines, parallel=int(found[1])).size(ports, CATALOG)
            assert (size.spines_per_pod, size.parallel) == (spines, int(found[1])), "taken as it stands"
        else:
            assert spines > 20 or 20 % spines == 0 or -(-ports // 20) * (20 // spines) > 40


def test_an_odd_link_saves_a_switch_that_pairs_do_not() -> None:
    """31 nodes a leaf: 32 uplinks in pairs need four spines of 64 ports, 33 in threes of 11 need three."""
    leaves, load = 5, 31 * 400
    size = FatTree(switch="QM9700", leaves=leaves)
    pairs = size.for_load(size.size(155, CATALOG), load, CATALOG)
    assert (pairs.spines, pairs.parallel, pairs.switches) == (4, 8, 9)
    odd = FatTree(switch="QM9700", leaves=leaves, spines=3, parallel=11).size(155, CATALOG)
    assert (odd.up >= 31, odd.switches) == (True, 8)


@given(count=st.integers(1, 50), adapters=st.integers(1, 8), leaves=st.integers(1, 12), others=st.integers(0, 20))
def test_no_leaf_holds_all_adapters_of_a_server(count: int, adapters: int, leaves: int, others: int) -> None:
    """Each server has as many leaves as it has adapters, or all there are; a leaf has no more servers than ports."""
    groups = [*([gpus(others)] if others else []), storage(count, adapters)]
    tree = FatTree(switch="QM8700", leaves=leaves)
    try:
        (fabric,) = tree.compile(groups, CATALOG, "apart")
    except DesignError:
        return
    on: dict[str, set[int]] = {}
    for node in range(fabric.n_switches, fabric.n_nodes):
        on.setdefault(fabric.server_of(node), set()).add(int(fabric.end_switch[node]))
    assert {len(on[name]) for name in on if name.startswith("storage")} == {min(adapters, leaves)}


@given(count=st.integers(41, 900), per_pod=st.none() | st.integers(1, 20), ratio=st.sampled_from([1.0, 2.0]))
def test_spines_of_three_levels_have_uplinks_for_the_leaves_of_their_pod(
    count: int, per_pod: int | None, ratio: float
) -> None:
    """Counted at every spine: no more links up than its links down call for in a full pod, whatever was left out."""
    stated = {} if per_pod is None else {"leaves_per_pod": per_pod}
    try:
        fabric = tree(count, levels=3, spine_oversubscription=ratio, **stated)
    except DesignError as error:
        assert "a pod" not in str(error) or per_pod is not None, "only a pod that was asked for can be too large"
        return
    down, up = Counter[int](), Counter[int]()
    for ends in fabric.port_node[fabric.links].tolist():
        lower, upper = sorted(ends, key=lambda node: fabric.level[node] if node < fabric.n_switches else 0)
        up[lower] += 1
        down[upper] += 1
    spines = [node for node in range(fabric.n_switches) if fabric.role[node] == Role.SPINE]
    fullest = max(down[spine] for spine in spines)  # a last pod may have fewer leaves
    leaves = int((fabric.role == Role.LEAF).sum())
    if per_pod is not None and leaves < per_pod:  # one pod, with room that was asked for
        fullest = fullest * per_pod // leaves
    assert all(up[spine] <= ceil(fullest / ratio) for spine in spines)


@given(half=st.integers(2, 5), ratio=st.sampled_from([1.0, 2.0]), leaves=st.integers(1, 40))
def test_no_pods_and_no_cores_are_fewer_than_the_default(half: int, ratio: float, leaves: int) -> None:
    """By trying each size of pod with each number of cores: what a spec may state takes no fewer switches or links."""
    radix, tree = 2 * half, FatTree(switch="small", levels=3, spine_oversubscription=ratio)

    def sized(**stated: int) -> TreeSize | None:
        try:
            return _size_three(tree.model_copy(update=stated), leaves, half, half, (radix, radix, radix))
        except DesignError:
            return None

    found = sized()
    spines = found.spines_per_pod if found else half
    stated = [
        next((size for cores in range(1, 2 * leaves * half) if (size := sized(**keys, cores=cores))), None)
        for keys in (
            {"leaves_per_pod": pod, "spines": spines, "parallel": half // spines} for pod in range(1, leaves + 1)
        )
    ]
    figures = [(size.switches, size.switch_links) for size in stated if size]
    assert (found is None) == (not figures)
    if found:
        assert (found.switches, found.switch_links) == min(figures)
        # A core has a link from each port up of a spine, and no idle core is left.
        assert found.cores == -(-found.spines * found.spine_up // radix)


def test_pods_are_even() -> None:
    """81 leaves of 20 hosts: five pods of 17 leaves need 1,700 uplinks, 43 cores; four of 20 and one of 1 took 50."""
    size = FatTree(switch="QM8700", levels=3).size(1_620, CATALOG)
    assert (size.leaves, size.pods, size.leaves_per_pod, size.cores) == (81, 5, 17, 43)


@given(count=st.integers(1, 60), leaves=st.integers(2, 6), levels=st.sampled_from([2, 3]), ratio=ratios)
def test_a_leaf_outlives_any_one_spine(count: int, leaves: int, levels: int, ratio: float) -> None:
    """Nobody asked for one spine: however little the servers of a leaf send, and whatever the taper leaves."""
    try:
        fabric = tree(count, levels=levels, leaves=leaves, oversubscription=ratio)
    except DesignError:
        return
    links = fabric.port_node[fabric.links]
    between = links[(links < fabric.n_switches).all(1)]
    spines = {leaf: set(between[(between == leaf).any(1)].ravel().tolist()) - {leaf} for leaf in range(leaves)}
    alone = [leaf for leaf in spines if len(spines[leaf]) == 1]
    assert not alone or ratio >= 40 - 2, "two uplinks would leave as many ports for servers as the taper asks"


@given(count=st.integers(400, 1_600), ratio=st.sampled_from([1.0, 2.0, 3.0]))
@examples(10)
def test_a_core_has_as_many_links_from_each_pod_where_its_ports_allow(count: int, ratio: float) -> None:
    """Counted on the fabric: what a core has more from one pod carries nothing to the others."""
    fabric = tree(count, levels=3, oversubscription=ratio)
    size = FatTree(switch="QM8700", levels=3, oversubscription=ratio).size(count, CATALOG)
    links = fabric.port_node[fabric.links]
    up = links[(fabric.role[links] == Role.CORE).any(axis=1)]
    spine, core = np.where((fabric.role[up] == Role.CORE)[:, :1], up[:, ::-1], up).T
    leaf_of = {s: min(n for n in links[(links == s).any(axis=1)].ravel() if fabric.role[n] == Role.LEAF) for s in spine}
    pods = sorted(set(leaf_of.values()))
    found = Counter((c, pods.index(leaf_of[s])) for s, c in zip(spine.tolist(), core.tolist(), strict=True))
    for one in set(core.tolist()):
        shares = [found[one, pod] for pod in range(len(pods))]
        assert max(shares) - min(shares) <= 1
        assert sum(shares) <= size.core_radix
        if len(pods) * max(shares) <= size.core_radix and len(pods) == 2:
            assert shares[0] == shares[1]


@examples(20)
@given(
    switch=st.sampled_from(["QM9700", "Q3400", "QM8700"]),
    levels=st.sampled_from([2, 3]),
    spines=st.integers(1, 8),
    parallel=st.integers(1, 9),
    leaves=st.integers(2, 6),
)
def test_links_between_two_switches_fill_cages_at_both_ends(
    switch: str, levels: int, spines: int, parallel: int, leaves: int
) -> None:
    """Of p links, p div c pairs of cages hold c each, for c ports a cage: what one copper cable joins."""
    model = CATALOG.switch(switch)
    in_cage = model.radix // (model.cages or model.radix)
    tree = {"shape": "fat-tree", "switch": switch, "levels": levels, "leaves": leaves, "spines": spines}
    nodes = {"gpu": {"model": "pcie-a100", "count": leaves}}
    try:
        cluster = topo.parse({"name": "x", "nodes": nodes, "network": tree | {"parallel": parallel}})
        fabric = cluster.fabric
    except topo.HeddleError:  # more links than ports
        return
    cage = topo.panels(cluster.fabrics, cluster.catalog)[0].cage
    filled: Counter[tuple[int, int]] = Counter()
    held: Counter[tuple[int, int, int, int]] = Counter()
    for a, b in fabric.links.tolist():
        ends = int(fabric.port_node[a]), int(fabric.port_node[b])
        if {int(fabric.role[end]) for end in ends} == {topo.Role.LEAF, topo.Role.SPINE}:
            held[*ends, int(cage[a]), int(cage[b])] += 1
    for (a, b, _, _), links in held.items():
        filled[a, b] += links == in_cage
    assert set(filled.values()) <= {parallel // in_cage}
    assert sum(held.values()) == leaves * spines * parallel
