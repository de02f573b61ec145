"""What a later picture of a fabric lacks, however its nodes are numbered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.relabel import relabelled
from helpers.twins import twin
from topo.changes.matching import find_missing, match_keys
from topo.cluster import preset
from topo.errors import HeddleError


@pytest.mark.parametrize("name", ["ndr-pod", "fdr10-mesh"])
def test_cables_are_found_whatever_the_order_of_nodes(name: str) -> None:
    whole, rng = twin(name), np.random.default_rng(3)
    for size in (0, 1, 7):
        gone = rng.choice(whole.links, size, replace=False)
        now = relabelled(whole.without(gone[:, 0]), rng, ports=False).fabric
        found, moved, notes = find_missing(whole, now)
        assert sorted(found.tolist()) == sorted(gone.ravel().tolist())
        assert len(moved) == 0
        assert notes == ()


def test_what_is_new_is_told() -> None:
    whole = twin("ndr-pod")
    gone = whole.links[:2].ravel()
    found, _, notes = find_missing(whole.without(gone), whole)
    assert len(found) == 0
    assert "has 2 cables and 0 nodes" in notes[0]


def test_another_fabric_is_refused() -> None:
    with pytest.raises(HeddleError, match="no node GUID"):
        find_missing(preset("lab-20").fabric, twin("ndr-pod"))


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"])), st.lists(st.sampled_from(["", "a", "b", "c", "d"])))
def test_keys_match_where_both_sides_have_them_once(keys: list[str], others: list[str]) -> None:
    for key, place in zip(keys, match_keys(keys, others).tolist(), strict=True):
        once = key != "" and sum(one == key for one in keys) == 1 == sum(one == key for one in others)
        assert place == (others.index(key) if once else -1)
