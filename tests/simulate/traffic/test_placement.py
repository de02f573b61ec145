import numpy as np
import pytest

from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.placement import MAPPINGS, leaf_of, zone_of
from topo.builder import FabricBuilder
from topo.errors import HeddleError
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

HDR = LinkSpeed(4, "HDR")


def bigraph(s: int, m: int) -> Fabric:
    """Two sides of s switches with m hosts each, one link between any two switches of different sides."""
    build = FabricBuilder("bigraph")
    switches = [build.switch(f"sw{i:03}", model="X", radix=s + m, role=Role.LEAF, level=1) for i in range(2 * s)]
    for low in range(s):
        for high in range(s):
            build.link(switches[low], high + 1, switches[s + high], low + 1, HDR)
    for number, switch in enumerate(switches):
        for slot in range(m):
            host = build.adapter(f"n{number:03}-{slot:02}", "mlx5_0", model="C", host_model="H", role=Role.COMPUTE)
            build.link(host, 1, switch, s + 1 + slot, HDR)
    return build.build()


def two_zones(leaves: int = 2, hosts: int = 3) -> Fabric:
    """Two zones of leaves below one spine each, hosts added in an order that mixes zones and leaves."""
    build = FabricBuilder("zones")
    leaf = {}
    for zone in range(2):
        spine = build.switch(f"s{zone}", model="X", radix=36, role=Role.SPINE, level=2, zone=zone)
        for at in range(leaves):
            leaf[zone, at] = build.switch(f"l{zone}{at}", model="X", radix=36, role=Role.LEAF, level=1, zone=zone)
            build.link(leaf[zone, at], 36, spine, at + 1, HDR)
    for slot in range(hosts):
        for (zone, at), switch in leaf.items():
            host = build.adapter(
                f"n{slot}{at}{zone}", "mlx5_0", model="C", host_model="H", role=Role.COMPUTE, zone=zone
            )
            build.link(host, 1, switch, slot + 1, HDR)
    return build.build()


def adapters(fabric: Fabric) -> np.ndarray:
    return np.arange(fabric.n_switches, fabric.n_end_ports)


@pytest.mark.parametrize(("s", "m"), [(1, 1), (2, 1), (2, 2), (4, 4), (8, 2), (8, 8), (16, 16)])
def test_halving_doubling_puts_one_flow_on_any_link_of_a_bigraph(s: int, m: int) -> None:
    fabric = bigraph(s, m)
    ends = MAPPINGS["halving-doubling"](fabric, adapters(fabric), np.random.default_rng(0))
    assert sorted(ends.tolist()) == adapters(fabric).tolist()

    plan = schedule("allreduce", "halving-doubling", len(ends))
    leaf = leaf_of(fabric, ends)
    for step in range(plan.n_steps):
        now = plan.step == step
        pairs = np.stack([leaf[plan.src[now]], leaf[plan.dst[now]]])
        # Partners are on switches of different sides, with one link between them, and no other pair uses it this way.
        assert np.all((pairs[0] < s) != (pairs[1] < s))
        assert np.unique(pairs, axis=1).shape == pairs.shape


def test_as_placed_halving_doubling_does_share_links() -> None:
    fabric = bigraph(4, 4)
    plan = schedule("allreduce", "halving-doubling", 32)
    leaf = leaf_of(fabric, adapters(fabric))
    now = plan.step == 0
    pairs = np.stack([leaf[plan.src[now]], leaf[plan.dst[now]]])

    assert np.unique(pairs, axis=1, return_counts=True)[1].max() == 4


@pytest.mark.parametrize(("s", "m"), [(2, 4), (3, 2), (4, 3)])
def test_halving_doubling_refuses_what_does_not_fit(s: int, m: int) -> None:
    fabric = bigraph(s, m)
    with pytest.raises(HeddleError, match=f"found {s} and {s} switches with {m} ranks"):
        MAPPINGS["halving-doubling"](fabric, adapters(fabric), np.random.default_rng(0))


def test_halving_doubling_refuses_what_is_no_bigraph() -> None:
    fabric = two_zones()
    with pytest.raises(HeddleError, match=r"is not linked so|found 4 and 0 switches"):
        MAPPINGS["halving-doubling"](fabric, adapters(fabric), np.random.default_rng(0))


def test_orders() -> None:
    fabric = two_zones()
    ends, rng = adapters(fabric), np.random.default_rng(3)

    assert MAPPINGS["as-placed"](fabric, ends, rng).tolist() == ends.tolist()
    leaves = leaf_of(fabric, MAPPINGS["by-leaf"](fabric, ends, rng))
    assert leaves.tolist() == sorted(leaves.tolist())
    zones = zone_of(fabric, MAPPINGS["by-zone"](fabric, ends, rng))
    assert zones.tolist() == [0] * 6 + [1] * 6
    shuffled = MAPPINGS["random"](fabric, ends, np.random.default_rng(7))
    assert shuffled.tolist() == MAPPINGS["random"](fabric, ends, np.random.default_rng(7)).tolist() != ends.tolist()
    assert sorted(shuffled.tolist()) == ends.tolist()
