"""Flows: what is refused, and how sets are joined."""

from dataclasses import fields, replace

import numpy as np
import pytest

from simulate.traffic.flows import Flows
from simulate.traffic.graph import chain, concatenate, repeated
from topo.errors import HeddleError


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size_bytes", [1, -2], "flow 1 has size_bytes -2.0; expected a number that is not negative"),
        ("size_bytes", [np.nan, 1], "flow 0 has size_bytes nan"),
        ("start_s", [0, -1], "flow 1 has start_s -1.0"),
        ("delay_s", [np.inf, 0], "flow 0 has delay_s inf"),
        ("src", [0, -1], "flow 1 has src -1; expected an end port or rank from 0"),
        ("sl", [0, 16], "service level 16; expected 0 to 15"),
    ],
)
def test_refuses_bad_columns(column: str, value: list[float], message: str) -> None:
    columns = {"src": [0, 1], "dst": [1, 0], "size_bytes": [1.0, 1.0]} | {column: value}
    with pytest.raises(HeddleError, match=message):
        Flows.of(**columns)  # type: ignore[arg-type]


def test_refuses_circles_and_names_one() -> None:
    with pytest.raises(HeddleError, match="3 flows wait for each other in a circle: 1 after 2 after 3 after 1"):
        Flows.of([0] * 5, [1] * 5, 1.0, after=([0, 1, 2, 3, 4], [1, 2, 3, 1, 0]))
    with pytest.raises(HeddleError, match="flow 0 waits for itself"):
        Flows.of([0], [1], 1.0, after=([0], [0]))
    with pytest.raises(HeddleError, match="dependency 0 \\(dep\\) names flow 7; there are flows 0 to 1"):
        Flows.of([0, 1], [1, 0], 1.0, after=([1], [7]))


def test_dependencies_may_point_forward() -> None:
    flows = Flows.of([0] * 3, [1] * 3, 1.0, after=([0, 0, 1], [1, 2, 2]))
    assert flows.dep_offset.tolist() == [0, 2, 3, 3]
    assert flows.dep.tolist() == [1, 2, 2]


def test_sets_keep_their_dependencies() -> None:
    one = Flows.of([0, 1], [1, 2], 5.0, after=([1], [0]), tag=7)
    both = concatenate([one, one])
    assert both.dep_offset.tolist() == [0, 0, 1, 1, 2]
    assert both.dep.tolist() == [0, 2]
    joined = chain([one, one])
    assert joined.size_bytes.tolist() == [5, 5, 0, 5, 5]
    assert joined.tag.tolist() == [7] * 5
    assert [joined.dep[a:b].tolist() for a, b in zip(joined.dep_offset, joined.dep_offset[1:], strict=False)] == [
        [],
        [0],
        [1],
        [2],
        [3],
    ]


@pytest.mark.parametrize("times", [1, 2, 3, 4, 11])
def test_a_repeated_set_is_a_chain_of_it(times: int) -> None:
    one = Flows.of([0, 1, 2], [1, 2, 0], [5.0, 6.0, 7.0], after=([1], [0]), tag=[1, 2, 3], sl=3, delay_s=[1, 0, 2])
    once, again = repeated(one, times), chain([one] * times)
    for item in fields(Flows):
        np.testing.assert_array_equal(getattr(once, item.name), getattr(again, item.name), err_msg=item.name)


def test_parts_are_what_was_joined() -> None:
    one = Flows.of([0, 1], [1, 2], 5.0, after=([1], [0]), tag=7)
    two = Flows.of([3, 4, 5], [4, 5, 3], 6.0, after=([0, 2], [2, 1]), start_s=0.5)
    both = concatenate([one, two, one])
    for part, (first, last) in zip((one, two, one), ((0, 2), (2, 5), (5, 7)), strict=True):
        for item in fields(Flows):
            np.testing.assert_array_equal(getattr(both.part(first, last), item.name), getattr(part, item.name))


def test_placement() -> None:
    flows = Flows.of([0, 1], [1, 0], 5.0, sl=3)
    assert flows.placed([10, 20]).src.tolist() == [10, 20]
    assert flows.placed([10, 20]).dst.tolist() == [20, 10]
    with pytest.raises(HeddleError, match="flow 1 has src 1; expected a rank below 1"):
        flows.placed([10])


def test_frozen() -> None:
    flows = Flows.of([0, 1], [1, 0], 5.0)
    with pytest.raises(ValueError, match="read-only"):
        flows.src[0] = 1


@pytest.mark.parametrize("seed", range(5))
def test_parts_share_a_connection_as_their_flows_did_and_of_one_turn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    flows = replace(Flows.of([0] * n, [1] * n, 1.0), connection=rng.integers(-1, 3, n).astype(np.int32))
    parts = rng.integers(1, 4, n)
    found, turn = flows.split(parts)
    of = np.repeat(np.arange(n), parts)
    for a in range(len(of)):
        for b in range(a):
            alike = (flows.connection[of[a]], turn[a]) == (flows.connection[of[b]], turn[b])
            assert (found.connection[a] == found.connection[b]) == (alike or flows.connection[of[[a, b]]].max() < 0)
