"""Traffic classes to lanes."""

import pytest

from routing.lanes.classes import LanePlan, TrafficClass, lanes_of_classes, lanes_of_levels
from topo.errors import DesignError


def test_without_classes_everything_is_on_lane_0() -> None:
    assert lanes_of_classes([]) == LanePlan((0,) * 16, ((0, 64),))


def test_each_class_has_its_lane_and_the_rest_travels_as_level_0() -> None:
    plan = lanes_of_classes([TrafficClass("a", 1, 2, 128), TrafficClass("b", 0, 1, 64), TrafficClass("c", 5, 2, 100)])
    assert plan.sl2vl == (1, 2, 1, 1, 1, 2, *[1] * 10)
    assert plan.arbitration == ((1, 64), (2, 228)), "two classes on a lane share it"
    assert plan.lanes == 3


def test_every_lane_that_a_level_maps_to_is_served() -> None:
    plan = lanes_of_classes([TrafficClass("a", 4, 3, 10), TrafficClass("b", 5, 6, 20)])
    assert set(plan.sl2vl) == {vl for vl, _ in plan.arbitration} == {3, 6}
    assert plan.sl2vl[0] == 3


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (TrafficClass("a", 2, 1, 1), "2 traffic classes have the name a"),
        (TrafficClass("b", 1, 1, 1), "2 traffic classes have the sl 1"),
        (TrafficClass("b", 2, 8, 1), "traffic class b has SL 2 and VL 8; .* the data lanes 0 to 7"),
        (TrafficClass("b", 16, 1, 1), "there are SLs 0 to 15"),
        (TrafficClass("b", 2, 2, 0), r"lane 2 has the weight 0 \(b\)"),
        (TrafficClass("b", 2, 0, 100), r"lane 0 has the weight 300 \(a, b\)"),
    ],
)
def test_classes_that_no_switch_could_serve(second: TrafficClass, message: str) -> None:
    with pytest.raises(DesignError, match=message):
        lanes_of_classes([TrafficClass("a", 1, 0, 200), second])


def test_lanes_of_tables_that_need_several() -> None:
    assert lanes_of_levels((2, 5, *[0] * 14)).arbitration == ((0, 64), (2, 64), (5, 64))
    with pytest.raises(DesignError, match="the tables use lane 8"):
        lanes_of_levels((0, 8, *[0] * 14))
