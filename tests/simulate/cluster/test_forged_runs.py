"""A saved run that somebody forged, with a digest that fits: refused, or played to an end, and never a crash."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.worlds import World
from simulate.cluster.resumable import Arrays
from simulate.cluster.saved_run import format_saved_run, parse_saved_run
from topo.errors import HeddleError


def snapshot() -> Arrays:
    world = World()
    for _ in range(300):
        world.env.step()
    return world.env.snapshot()


SAVED = snapshot()
LEAVES = [
    (name, field) for name, array in SAVED.items() if array.size for field in (array.dtype.names or ("",))
]  # each column of each array
VALUES = [-1, -(2**31), 2**31 - 1, 2**62, 0, 1, 2, 7, np.nan, np.inf, -np.inf, 1e300, 5e-324]


def forge(name: str, field: str, at: int, value: float) -> Arrays:
    """A snapshot with one number changed; it comes from a file, as a forger would have it."""
    array = SAVED[name].copy()
    column = array[field] if field else array
    flat = column.reshape(-1)
    kind = flat.dtype.kind
    if kind == "f":
        flat[at % len(flat)] = value
    else:
        low, high = (0, 1) if kind == "b" else (np.iinfo(flat.dtype).min, np.iinfo(flat.dtype).max)
        flat[at % len(flat)] = int(min(max(value if np.isfinite(value) else 3, low), high))
    return parse_saved_run(format_saved_run({**SAVED, name: array}), "forged")


def survives(saved: Arrays) -> None:
    world = World(saved)
    for _ in range(20_000):
        if world.env.peek() == np.inf and not world.env.replaying:
            break
        world.env.step()


@pytest.mark.slow
@given(leaf=st.sampled_from(LEAVES), at=st.integers(0, 10_000), value=st.sampled_from(VALUES))
def test_one_number_changed(leaf: tuple[str, str], at: int, value: float) -> None:
    try:
        survives(forge(*leaf, at, value))
    except HeddleError as error:
        assert "a saved" in str(error)


@given(st.sampled_from(sorted(SAVED)), st.sampled_from(["longer", "shorter", "type", "axes", "gone"]))
def test_arrays_of_another_shape(name: str, how: str) -> None:
    array = SAVED[name]
    spoilt = {
        "longer": np.concatenate([array, array[:1]]),
        "shorter": array[:-1],
        "type": np.zeros(array.shape, np.complex128),
        "axes": array[None],
    }.get(how)
    saved = {key: value for key, value in SAVED.items() if key != name} | ({} if spoilt is None else {name: spoilt})
    try:
        survives(saved)
    except HeddleError as error:
        assert "a saved" in str(error)


@pytest.mark.slow
def test_what_a_run_leaves_behind_is_taken_at_any_step() -> None:
    whole = World()
    expected = whole.play()
    world = World()
    for _ in range(40):
        for _ in range(23):
            world.env.step()
        assert World(world.env.snapshot()).play() == expected


def test_indices_that_a_kernel_would_follow() -> None:
    for name, field in (("state.hops", "link"), ("state.members", "slot"), ("state.classes", "first")):
        used = np.flatnonzero(SAVED["state.classes"]["flows"])
        at = int(used[0]) << int(SAVED["state.now"]["shift"][0]) if name == "state.hops" else int(used[0])
        if name == "state.members":
            at = int(SAVED["state.links"]["first"][SAVED["state.hops"]["link"][int(used[0]) << 0]])
        with pytest.raises(HeddleError, match="no run leaves behind"):
            survives(forge(name, field, at, 10**9))
