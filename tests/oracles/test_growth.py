"""Cables that stay while a fabric grows, by their lengths."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import topo
from helpers.strategies import nightly
from topo.changes.growth import plan_growth
from topo.fabric import Fabric


def tree(servers: int, leaves: int) -> Fabric:
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves, "spines": 2}
    return topo.parse(
        {"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": servers}}, "network": network}
    ).fabric


def with_lengths(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    length = np.full(fabric.n_ports, np.nan)
    for link in fabric.links.tolist():
        length[link] = rng.integers(1, 4)
    return replace(fabric, length_m=length)


@pytest.mark.parametrize("seed", [*range(8), *(nightly(seed) for seed in range(8, 100))])
def test_a_cable_stays_where_it_is_long_enough_and_the_same_things_are_joined(seed: int) -> None:
    """Between each two nodes no more stay than can be matched by their lengths."""
    rng = np.random.default_rng(seed)
    old, new = with_lengths(tree(12, 2), rng), with_lengths(tree(18, 3), rng)
    growth = plan_growth(old, new)
    grown, at = growth.grown, {was: node for node, was in enumerate(growth.was.tolist()) if was >= 0}

    def joined(fabric: Fabric, place: dict[int, int] | None) -> dict[frozenset[int], list[float]]:
        found: dict[frozenset[int], list[float]] = {}
        for a, b in fabric.links.tolist():
            ends = [int(fabric.port_node[port]) for port in (a, b)]
            ends = [place.get(end, -1 - end) for end in ends] if place is not None else ends
            found.setdefault(frozenset(ends), []).append(float(fabric.length_m[a]))
        return found

    had, wanted = joined(old, at), joined(grown, None)
    most = 0
    for ends, lengths in had.items():
        needs = sorted(wanted.get(ends, []))
        for length in sorted(lengths):
            if needs and needs[0] <= length:
                needs.pop(0)
                most += 1
    done = Counter(work.do for work in growth.works)
    assert growth.kept <= most
    assert done["unplug"] == len(old.links) - growth.kept and done["plug"] == len(new.links) - growth.kept
    for work in growth.works:
        assert work.length_m in (1.0, 2.0, 3.0)
    # What stays is long enough: each present cable that no work unplugs has a wanted one of at most its length.
    pulled = {frozenset((work.a, work.b)) for work in growth.works if work.do == "unplug"}
    names = {node: grown.label(at[node]) for node in range(old.n_nodes) if node in at}
    for a, b in old.links.tolist():
        ends = [f"{names.get(int(old.port_node[port]), '')}:{old.port_number[port]}" for port in (a, b)]
        if frozenset(ends) in pulled:
            continue
        port = next(port for port in range(grown.n_ports) if grown.port_label(port) == ends[0])
        assert grown.length_m[port] <= old.length_m[a]


def test_cables_of_just_the_right_length_stay() -> None:
    old, new = tree(12, 2), tree(18, 3)
    lengths = [replace(fabric, length_m=np.full(fabric.n_ports, 2.0)) for fabric in (old, new)]
    assert plan_growth(*lengths).kept == plan_growth(old, new).kept > 0
