import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.errors import did_you_mean, nearest

SWITCHES = ["QM8700", "QM8790", "QM9700", "SN5600"]


@pytest.mark.parametrize(
    ("word", "name"),
    [("QM870", "QM8700"), ("qm8790", "QM8790"), ("QM8770", "QM8700"), ("SN56", "SN5600"), ("zebra", None), ("", None)],
)
def test_nearest(word: str, name: str | None) -> None:
    assert nearest(word, SWITCHES) == name


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, unique_by=str.lower))
def test_a_name_is_nearest_to_itself_in_any_order(names: list[str]) -> None:
    for name in names:
        found = nearest(name, reversed(names))
        assert found is not None
        assert found.lower() == name.lower()


def test_nothing_near_says_nothing() -> None:
    assert did_you_mean("zebra", SWITCHES) == ""
    assert did_you_mean("QM870", SWITCHES) == "Did you mean `QM8700`?"
