"""Spreading servers over places, and refusals that add up."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.clusters import gpus
from topo.errors import DesignError
from topo.shapes.base import apportion, each_adapter, place_adapters, require_ports

rooms = st.lists(st.integers(0, 12), min_size=1, max_size=30)


@given(rooms, st.data())
def test_no_place_has_one_more_than_another_without_need(room: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, sum(room)))
    placed = apportion(count, np.array(room)).tolist()

    assert sum(placed) == count
    assert all(0 <= here <= most for here, most in zip(placed, room, strict=True))
    most = max(placed)
    assert all(here >= most - 1 or here == full for here, full in zip(placed, room, strict=True))


@given(rooms, st.data())
def test_places_with_one_more_are_evenly_spaced(room: list[int], data: st.DataObject) -> None:
    """A balanced word: any two stretches of equal length of the places that had a choice differ by at most one."""
    count = data.draw(st.integers(0, sum(room)))
    placed = apportion(count, np.array(room)).tolist()
    level = max(level for level in range(max(room) + 1) if sum(min(full, level) for full in room) <= count)
    more = [here - level for here, full in zip(placed, room, strict=True) if full > level]

    assert set(more) <= {0, 1}
    for length in range(1, len(more)):
        sums = {sum(more[start : start + length]) for start in range(len(more) - length + 1)}
        assert max(sums) - min(sums) <= 1


@given(rooms)
def test_more_than_there_is_room_for_is_refused(room: list[int]) -> None:
    with pytest.raises(DesignError, match=f"{sum(room)} are free"):
        apportion(sum(room) + 1, np.array(room))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 5))
def test_no_placement_has_fewer_adapters_of_a_server_on_one_leaf(room: list[int], servers: int, adapters: int) -> None:
    assume(servers * adapters <= sum(room))
    rails = each_adapter([replace(gpus(servers), adapters=adapters)])
    leaves = np.array(place_adapters(rails, np.array(room)))

    def most(hangs: Iterable[Iterable[int]]) -> int:
        return max(max(Counter(server).values()) for server in hangs)

    ways = product(combinations_with_replacement(range(len(room)), adapters), repeat=servers)
    fits = (way for way in ways if all(np.bincount(np.ravel(way), minlength=len(room)) <= room))
    assert all(np.bincount(leaves.ravel(), minlength=len(room)) <= room)
    assert most(leaves.T.tolist()) == min(map(most, fits))


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 12), st.integers(0, 3))
def test_a_leaf_has_an_even_share_of_a_server(servers: int, adapters: int, leaves: int, more: int) -> None:
    rails = each_adapter([replace(gpus(servers), adapters=adapters)])
    on = np.array(place_adapters(rails, np.full(leaves, -(-servers * adapters // leaves) + more)))
    assert max((server[:, None] == server).sum(axis=0).max() for server in on.T) == -(-adapters // leaves)
    assert np.ptp(np.bincount(on.ravel(), minlength=leaves)) <= 1
    assert adapters % leaves or (on == on[:, :1]).all(), "those with one number share a leaf"


@given(count=st.integers(0, 500), parts=st.integers(1, 20))
def test_a_group_is_divided_into_consecutive_parts_of_nearly_equal_size(count: int, parts: int) -> None:
    whole = gpus(count)
    divided = whole.divide(parts)
    sizes = [part.count for part in divided]

    assert [name for part in divided for name in part.hosts] == whole.hosts
    assert sizes == sorted(sizes, reverse=True) and max(sizes) - min(sizes) <= 1


@given(wanted=st.integers(0, 10**6), available=st.integers(0, 10**6))
def test_a_refusal_adds_up(wanted: int, available: int) -> None:
    def attempt() -> None:
        require_ports(wanted, available, "a + b", f"c has {available:,}", "Take less")

    if wanted <= available:
        attempt()
        return
    with pytest.raises(DesignError) as refusal:
        attempt()
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", str(refusal.value))]
    assert numbers == [wanted, available, wanted - available]
