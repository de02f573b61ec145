"""Parts that fail as one piece, on clusters of every shape: what each holds, counted from the links themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.clusters import clusters
from helpers.strategies import examples
from helpers.twins import twin
from topo.cluster import Cluster
from topo.errors import HeddleError
from topo.failures.parts import PART_KINDS, Parts, fail_parts, list_parts, unite
from topo.failures.reach import Failed, Reach


def listed(kind: topo.PartKind, cluster: Cluster) -> Parts:
    room = {"layout": cluster.layout, "cablings": cluster.cablings, "batch": 3}
    return list_parts(kind, Reach(cluster.fabrics), catalog=cluster.catalog, **room)


@pytest.mark.slow
@examples(10)
@given(clusters())
def test_each_link_is_in_one_part_of_its_kind(cluster: Cluster) -> None:
    """Links between switches and those of adapters are all links; a bundle or batch shares none but with its ends."""
    reach = Reach(cluster.fabrics)
    rows = [len(fabric.links) for fabric in cluster.fabrics]
    single = [np.zeros(count, int) for count in rows]
    for kind in ("link", "adapter"):
        for part in listed(kind, cluster).values():
            ((subnet, (link,)),) = part.links.items()
            single[subnet][link] += 1
    kinds = [fabric.port_node[fabric.links] for fabric in cluster.fabrics]
    for count, nodes in zip(single, kinds, strict=True):
        assert (count[nodes[:, 0] != nodes[:, 1]] == 1).all()
    switches = [part.switches for part in listed("switch", cluster).values()]
    assert len(switches) == sum(fabric.n_switches for fabric in cluster.fabrics)
    assert set(listed("server", cluster)) == set(reach.names)
    if cluster.layout is None:
        return
    for kind in ("rack", "batch"):
        united = unite(listed(kind, cluster).values())
        if kind == "rack":
            assert united.servers == set(reach.names)
            assert reach.without(united).pairs == 0
        else:
            assert [len(united.links.get(subnet, ())) for subnet in range(len(rows))] == rows
    racks = cluster.layout.rack
    for part in listed("bundle", cluster).values():
        ends = {
            frozenset(racks[cluster.layout.node_device[subnet][kinds[subnet][link]]].tolist())
            for subnet, links in part.links.items()
            for link in links
        }
        assert len(ends) == 1


@pytest.mark.slow
@examples(10)
@given(clusters(), st.data())
def test_what_is_left_reaches_what_the_graph_says(cluster: Cluster, data: st.DataObject) -> None:
    """`fail_parts` and `Reach.without` are two ways to take the same away."""
    kind = data.draw(st.sampled_from(["link", "adapter", "switch", "server", "bundle"]))
    parts = listed(kind, cluster)
    chosen = data.draw(st.lists(st.sampled_from(sorted(parts)), max_size=4)) if parts else []
    failed = unite(parts[name] for name in chosen)
    left = fail_parts(cluster.fabrics, failed)
    assert Reach(cluster.fabrics).without(failed).pairs == Reach(left).whole.pairs


def test_line_cards_and_frames_of_a_dump() -> None:
    reach = Reach([twin("two-frames")])
    cards, frames = list_parts("card", reach), list_parts("frame", reach)
    assert len(frames) < len(cards)
    on_cards = [node for part in cards.values() for node in part.switches[0]]
    in_frames = [node for part in frames.values() for node in part.switches[0]]
    assert len(set(on_cards)) == len(on_cards)
    assert set(on_cards) <= set(in_frames)


def test_what_nobody_knows_is_refused() -> None:
    reach = Reach(topo.preset("lab-20").fabrics)
    for kind in PART_KINDS:
        if kind in ("rack", "feed", "batch"):
            with pytest.raises(HeddleError, match="expected a"):
                list_parts(kind, reach)
    assert fail_parts(reach.fabrics, Failed()) == reach.fabrics


def test_frames_of_a_spec_without_a_floor() -> None:
    """A zone of Fire-Flyer 2 in frames is one box of 60 chips; which of them share a card, nobody tells."""
    cluster = topo.preset("fire-flyer-2-frames")
    reach = Reach(cluster.fabrics)
    frames = list_parts("frame", reach, catalog=cluster.catalog)
    assert sorted(len(part.switches[0]) for part in frames.values()) == [60, 60]
    for part in frames.values():
        assert len(set(cluster.fabric.zone[part.switches[0]].tolist())) == 1
    with pytest.raises(topo.HeddleError, match="share a line card"):
        list_parts("card", reach, catalog=cluster.catalog)
