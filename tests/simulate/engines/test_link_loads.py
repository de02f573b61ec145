"""Loads by lane and class, against paths followed one by one."""

import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.strategies import tree
from routing.routed import Routed
from routing.trace import trace
from simulate import play
from simulate.engines.charts import draw_ports, draw_timeline
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo import palette
from topo.fabric import Role

LEVELS = (0, 2, 1, *[0] * 13)
"""Lane of each service level."""


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    case = tree(4, storage=1)
    tables = type(case.tables)(case.tables.lid, case.tables.lft, sl2vl=LEVELS)
    network = Network.of(Routed(case.fabric, tables), lane_weights=[1, 2, 4], latency_s=0)
    rng = np.random.default_rng(5)
    ends = rng.integers(case.fabric.n_switches, case.fabric.n_end_ports, (2, 200))
    sizes, levels = rng.integers(1, 100, 200) * 1e5, rng.integers(0, 3, 200)
    return play(network, Flows.of(*ends, sizes, sl=levels, start_s=rng.random(200) * 1e-3), n_bins=64)


def test_bytes_are_those_of_the_paths(outcome: Outcome) -> None:
    fabric, tables, flows = outcome.network.fabric, outcome.network.tables, outcome.flows
    expected = np.zeros((3, fabric.n_ports))
    for src, dst, size, sl in zip(flows.src, flows.dst, flows.size_bytes, flows.sl, strict=True):
        if src != dst:
            np.add.at(expected[LEVELS[sl]], list(trace(Routed(fabric, tables), int(src), int(dst)).channels), size)

    np.testing.assert_allclose(outcome.lane_bytes, expected, rtol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=0), outcome.resource_bytes, rtol=1e-12)


def test_classes_add_up_and_name_the_hottest(outcome: Outcome) -> None:
    fabric, capacity = outcome.network.fabric, outcome.network.capacity_bytes_s
    carried, classes = outcome.lane_bytes, outcome.link_classes

    assert sum(item.bytes for item in classes) == pytest.approx(carried.sum())
    pairs = {(item.sender, item.receiver) for item in classes}
    assert pairs == {
        (a, b) for leaf in (Role.LEAF,) for other in (Role.SPINE, Role.COMPUTE, Role.STORAGE)
        for a, b in ((leaf, other), (other, leaf))
    }  # fmt: skip
    for item in classes:
        role = fabric.role[fabric.port_node], fabric.role[fabric.peer_node]
        mine = np.flatnonzero((fabric.peer >= 0) & (role[0] == item.sender) & (role[1] == item.receiver))
        part = carried[item.lane, mine] / (capacity[mine] * outcome.makespan_s)
        assert (item.channels, item.used) == (len(mine), np.count_nonzero(part))
        assert item.max == pytest.approx(part.max())
        assert item.mean == pytest.approx(part.mean())
        assert part[mine.tolist().index(item.hottest)] == pytest.approx(part.max())
        assert item.mean <= item.max <= item.peak + 1e-12
    assert [item.max for item in classes] == sorted((item.max for item in classes), reverse=True)


def test_no_lane_is_ever_fuller_than_its_link(outcome: Outcome) -> None:
    peak = outcome.peak_utilisation
    assert peak is not None
    assert peak.shape == (3, outcome.network.fabric.n_ports)
    assert peak.max() <= 1 + 1e-9
    assert outcome.timeline is not None
    whole = outcome.timeline.load_bytes_s.sum(axis=1) * outcome.timeline.bin_s
    np.testing.assert_allclose(whole, outcome.resource_bytes, rtol=1e-9, atol=1e-3)


def test_nothing_moves_without_flows() -> None:
    case = tree(2)
    empty = play(Network.of(Routed(case.fabric, case.tables), latency_s=0), Flows.of([], [], []))
    assert empty.link_classes == ()
    assert empty.peak_utilisation is None
    assert not empty.lane_bytes.any()


@pytest.mark.slow
def test_channels_are_told_lane_by_lane_the_hottest_first_and_drawn(outcome: Outcome) -> None:
    table = outcome.channels.to_dict()
    carried = outcome.lane_bytes

    assert len(outcome.channels) == np.count_nonzero(carried)
    assert sum(table["carried (bytes)"]) == pytest.approx(carried.sum())
    assert table["mean utilisation"] == sorted(table["mean utilisation"], reverse=True)
    assert all(
        mean <= peak + 1e-12 for mean, peak in zip(table["mean utilisation"], table["peak utilisation"], strict=True)
    )
    for drawing in (draw_ports(outcome), draw_timeline(outcome), draw_timeline(outcome, [("job", 0.0, 1e-3)])):
        assert drawing.svg.startswith("<svg")
    assert draw_timeline(outcome).svg == draw_timeline(outcome).svg


@pytest.mark.slow
@pytest.mark.parametrize("name", [r"$\foo{$", "9" * 5000])
def test_names_are_no_formulas(outcome: Outcome, name: str) -> None:
    fabric = outcome.network.fabric
    spoilt = replace(fabric, names=(name, *fabric.names[1:]))
    named = replace(outcome, network=replace(outcome.network, fabric=spoilt))
    assert draw_ports(named).svg.startswith("<svg")
    assert draw_timeline(outcome, [(name, 0.0, 1e-3)]).svg.startswith("<svg")


def test_the_legend_of_a_timeline_has_the_line_that_is_drawn(outcome: Outcome) -> None:
    """Of each colour all lines are dashed, or none: in both charts, and beside the name of the class."""
    lines: dict[str, set[bool]] = {}
    for path in re.findall(r"<path [^>]*>", draw_timeline(outcome).svg):
        if shade := re.search(r'stroke="(#[0-9a-fA-F]+)"', path):
            lines.setdefault(shade[1], set()).add("stroke-dasharray" in path)
    drawn = [styles for shade, styles in lines.items() if shade in palette.SERIES]
    assert {True} in drawn and {False} in drawn
    assert all(len(styles) == 1 for styles in drawn)


def test_a_play_that_takes_no_time_has_nothing_to_draw() -> None:
    case = tree(2)
    ends = case.fabric.ends()[:2]
    outcome = play(Routed(case.fabric, case.tables), Flows.of(ends, ends, 1e6), n_bins=10)
    assert outcome.makespan_s == 0
    assert "at most" not in draw_timeline(outcome).svg
