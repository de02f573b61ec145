import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulate  # noqa: F401  it has an error of its own
from topo.errors import (
    DesignError,
    Finding,
    FlowError,
    FormatError,
    HeddleError,
    RoutingError,
    SpecError,
    ToolError,
    did_you_mean,
    nearest,
)

SWITCHES = ["QM8700", "QM8790", "QM9700", "SN5600"]


@pytest.mark.parametrize(
    ("word", "name"),
    [("QM870", "QM8700"), ("qm8790", "QM8790"), ("QM8770", "QM8700"), ("SN56", "SN5600"), ("zebra", None), ("", None)],
)
def test_nearest(word: str, name: str | None) -> None:
    assert nearest(word, SWITCHES) == name


def test_a_whole_part_of_the_word_is_nearer_than_a_longer_likeness() -> None:
    names = ["ring", "tree", "nvls", "nvls-tree", "collnet"]
    assert nearest("nccl-tree", names) == "tree"
    assert nearest("nccl-ring", names) == "ring"
    assert nearest("nvls-tre", names) == "nvls-tree"
    assert nearest("a-tree-of-some-other-kind", names) is None


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, unique_by=str.lower))
def test_a_name_is_nearest_to_itself_in_any_order(names: list[str]) -> None:
    for name in names:
        found = nearest(name, reversed(names))
        assert found is not None
        assert found.lower() == name.lower()


def test_nothing_near_says_nothing() -> None:
    assert did_you_mean("zebra", SWITCHES) == ""
    assert did_you_mean("QM870", SWITCHES) == "Did you mean `QM8700`?"


def errors() -> list[HeddleError]:
    findings = [Finding(f"a.yaml:{line}", "0 nodes", "at least 1", keys=("nodes", line)) for line in range(25)]
    plain = [kind(said) for kind in (HeddleError, SpecError, RoutingError, ToolError, DesignError) for said in
             ("short of 2", findings, iter(findings))]  # fmt: skip
    return [*plain, DesignError("short of 2", "spines", 3), FormatError("no LID", path="a.lst", line=3),
            FlowError(7, "has no path")]  # fmt: skip


@pytest.mark.parametrize("error", errors(), ids=lambda error: type(error).__name__)
def test_an_error_raised_again_by_another_is_the_same(error: HeddleError) -> None:
    """SimPy rebuilds what a process raised from its arguments, joblib and Dask pickle what a worker raised."""
    for again in (type(error)(*error.args), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_kind_of_error_is_tried() -> None:
    kinds = [HeddleError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    own = {kind.__name__ for kind in kinds if not kind.__module__.startswith("test")}
    assert own - {"DeadlockError"} == {type(error).__name__ for error in errors()}  # that one: test_deadlock.py
