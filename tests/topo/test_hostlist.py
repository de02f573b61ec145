"""Hostlists, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from topo.errors import HeddleError

NAMES = st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,4}", fullmatch=True), min_size=1, max_size=30, unique=True)


@given(NAMES)
def test_what_is_compressed_is_expanded_again(names: list[str]) -> None:
    assert sorted(topo.expand(topo.compress(names))) == sorted(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        (" a , b ", ["a", "b"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-10]-ib", ["n08-ib", "n09-ib", "n10-ib"]),
        ("r[1-2]n[1,3],x", ["r1n1", "r1n3", "r2n1", "r2n3", "x"]),
    ],
)
def test_expansion(text: str, names: list[str]) -> None:
    assert topo.expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-",
        "n]1[",
        "n[3-1]",
        "n[a-b]",
        "n[]",
        "n[1-999999999]",
        "n[0-999]m[0-999]p[0-999]",
        "a,,b",
        f"n[{'0-99999,' * 11}1]",
    ],
)
def test_what_is_no_hostlist_is_refused(text: str) -> None:
    with pytest.raises(HeddleError, match="hostlist"):
        topo.expand(text)
