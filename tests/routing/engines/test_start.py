"""What searches for tables start from."""

import numpy as np
import pytest

from helpers.fluids import routed
from helpers.trees import grow_tree
from routing.engines.start import _alone
from routing.order.channel_order import order_channels, switch_levels, taken_channels
from routing.order.destinations import destinations_of
from routing.tables import NO_PATH, tree_order
from topo.fabric import Role


@pytest.mark.parametrize("seed", range(8))
def test_hosts_are_alone_on_their_channels_until_an_entry_is_lost_or_another_spine_is_taken(seed: int) -> None:
    rng, hosts, leaves = np.random.default_rng(seed), 2, 3
    fabric = grow_tree((hosts, leaves), (1, hosts), (1, 1))
    tables, level = routed(fabric), switch_levels(fabric)
    order, dests = order_channels(fabric, level), destinations_of(fabric, tables.lid, level)
    lft = tables.lft.copy()
    for turn, end in enumerate(tree_order(fabric, fabric.ends()).tolist()):  # host k of a leaf over spine k
        spine = np.flatnonzero(fabric.role[: fabric.n_switches] == Role.SPINE)[turn % hosts]
        for leaf in np.flatnonzero(fabric.role[: fabric.n_switches] == Role.LEAF).tolist():
            if leaf != fabric.end_switch[end]:
                ports = fabric.ports_of(leaf)
                lft[leaf, tables.lid[end]] = fabric.port_number[ports][fabric.peer_node[ports] == spine][0]
    next_hop, zone = taken_channels(order, lft), np.where(fabric.role[: fabric.n_switches] == Role.LEAF, 0, -1)
    assert _alone(order, dests, zone.astype(np.int32), next_hop)

    lost = next_hop.copy()
    end = int(rng.choice(fabric.ends()))
    leaf = int(rng.choice(np.setdiff1d(np.flatnonzero(zone == 0), fabric.end_switch[end])))
    lost[tables.lid[end], leaf] = NO_PATH
    assert not _alone(order, dests, zone.astype(np.int32), lost)

    meets = next_hop.copy()
    meets[tables.lid[end], leaf] = 1 - meets[tables.lid[end], leaf]  # over the spine that another host of its leaf has
    assert not _alone(order, dests, zone.astype(np.int32), meets)
