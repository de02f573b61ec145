"""Numbers of fat-trees by their laws: tapers of any ratio, spines and cores that carry what comes from below."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import CATALOG, gpus, storage, tree
from topo.errors import DesignError
from topo.fabric import Role
from topo.shapes.fat_tree import FatTree

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
