"""A run that is stopped and gone on with ends with the same bytes."""

import pytest

from helpers.worlds import World
from topo.errors import HeddleError


@pytest.mark.slow
@pytest.mark.parametrize("stops", [(1,), (40, 40), (700,), (1500, 1, 600)])
def test_ends_with_the_same_bytes(stops: tuple[int, ...]) -> None:
    saved = None
    for steps in stops:
        world = World(saved)
        while world.env.replaying:
            world.play(1)
        world.play(steps)
        saved = world.env.snapshot()
        assert world.env.snapshot().keys() == saved.keys()
    assert World(saved).play() == World().play()


def test_refuses_what_does_not_fit() -> None:
    world = World()
    world.play(900)
    saved = world.env.snapshot()
    with pytest.raises(HeddleError, match="cannot be saved"):
        World(saved).env.snapshot()
    with pytest.raises(HeddleError, match=r"run\.steps"):
        World({name: array for name, array in saved.items() if name != "run.steps"})
    assert World(saved).env.replayed == 0.0


@pytest.mark.slow
def test_what_a_run_leaves_behind_is_taken_at_any_step() -> None:
    whole = World()
    expected = whole.play()
    world = World()
    for _ in range(20):
        for _ in range(46):
            world.env.step()
        assert World(world.env.snapshot()).play() == expected
