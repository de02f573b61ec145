"""Traffic classes to lanes."""

import pytest
from pydantic import ValidationError

from routing.lanes.classes import LanePlan, check_lanes, lanes_of_classes, lanes_of_levels
from topo.errors import DesignError
from topo.spec.base import TrafficClass


def test_without_classes_everything_is_on_lane_0() -> None:
    assert lanes_of_classes([]) == LanePlan((0,) * 16, ((0, 64),))


def test_each_class_has_its_lane_and_the_rest_travels_as_level_0() -> None:
    plan = lanes_of_classes(
        [
            TrafficClass(name="a", sl=1, vl=2, weight=128),
            TrafficClass(name="b", sl=0, vl=1, weight=64),
            TrafficClass(name="c", sl=5, vl=2, weight=100),
        ]
    )
    assert plan.sl2vl == (1, 2, 1, 1, 1, 2, *[1] * 10)
    assert plan.arbitration == ((1, 64), (2, 228)), "two classes on a lane share it"
    assert plan.lanes == 3


def test_every_lane_that_a_level_maps_to_is_served() -> None:
    plan = lanes_of_classes(
        [TrafficClass(name="a", sl=4, vl=3, weight=10), TrafficClass(name="b", sl=5, vl=6, weight=20)]
    )
    assert set(plan.sl2vl) == {vl for vl, _ in plan.arbitration} == {3, 6}
    assert plan.sl2vl[0] == 3


@pytest.mark.parametrize(("key", "value"), [("sl", 16), ("sl", -1), ("vl", 15), ("weight", 0), ("weight", 256)])
def test_what_no_class_can_have(key: str, value: int) -> None:
    with pytest.raises(ValidationError, match=f"1 validation error for TrafficClass\n{key}"):
        TrafficClass(**{"name": "b", "sl": 2, "vl": 2, "weight": 1, key: value})


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (TrafficClass(name="a", sl=2, vl=1, weight=1), "2 traffic classes have the name a"),
        (TrafficClass(name="b", sl=1, vl=1, weight=1), "2 traffic classes have the sl 1"),
        (TrafficClass(name="b", sl=2, vl=8, weight=1), "traffic class b has SL 2 and VL 8; .* the data lanes 0 to 7"),
        (TrafficClass(name="b", sl=2, vl=0, weight=100), r"lane 0 has the weight 300 \(a, b\)"),
    ],
)
def test_classes_that_no_switch_could_serve(second: TrafficClass, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        lanes_of_classes([TrafficClass(name="a", sl=1, vl=0, weight=200), second])


def test_lanes_of_tables_that_need_several() -> None:
    assert lanes_of_levels((2, 5, *[0] * 14)).arbitration == ((0, 64), (2, 64), (5, 64))
    with pytest.raises(DesignError, match="the tables use lane 8"):
        check_lanes(lanes_of_levels((0, 8, *[0] * 14)))
