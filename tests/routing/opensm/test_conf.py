import pytest

from routing.lanes.classes import LanePlan, lanes_of_classes, lanes_of_levels
from routing.opensm.conf import format_opensm_conf, parse_lanes, qos_options
from topo.errors import FormatError
from topo.spec.base import TrafficClass


@pytest.mark.parametrize(
    "plan",
    [
        lanes_of_classes(
            [
                TrafficClass(name="a", sl=0, vl=0, weight=96),
                TrafficClass(name="b", sl=2, vl=2, weight=16),
                TrafficClass(name="c", sl=3, vl=2, weight=8),
            ]
        ),
        lanes_of_levels((0, 1, 2, *[0] * 13)),
    ],
)
def test_lanes_that_are_written_are_read(plan: LanePlan) -> None:
    assert parse_lanes(format_opensm_conf(qos_options(plan), "lanes")) == plan


def test_without_qos_there_is_one_lane() -> None:
    for text in ("lmc 0\n", "qos FALSE\nqos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\n", "lmc 0\n# qos TRUE\n"):
        assert parse_lanes(text).lanes == 1


def test_what_is_left_out_is_as_opensm_has_it() -> None:
    assert parse_lanes("qos TRUE\n").sl2vl == (*range(15), 7)
    assert len({weight for _, weight in parse_lanes("qos TRUE\nqos_sl2vl (null)\n").arbitration}) == 1
    plan = parse_lanes(
        "qos TRUE\nqos_sl2vl 0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0\nqos_vlarb_low 0:1,1:2\nqos_vlarb_high 1:4\n"
    )
    assert plan == LanePlan((0, 1, *[0] * 14), ((0, 1), (1, 6)))
    own = parse_lanes(f"qos TRUE\nqos_sl2vl {','.join('0' * 16)}\nqos_swe_sl2vl {','.join('01' * 8)}\n")
    assert own.sl2vl == (0, 1) * 8


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("qos_sl2vl 0,1,2", "expected 0,1,2,3"),
        (f"qos_sl2vl {','.join(['16'] * 16)}", "lanes 0 to 15"),
        (f"qos_sl2vl {','.join(['15'] * 16)}", "carries no data"),
        ("qos_vlarb_low 0:64;1:64", "0:64"),
        ("qos_swe_vlarb_low 0:64", "lane 1, which no arbitration entry serves"),
    ],
)
def test_lanes_that_cannot_be_are_refused(line: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        parse_lanes(f"qos TRUE\n{line}\n", "opensm.conf")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qos true\n", "1: found qos 'true', which OpenSM takes for FALSE; expected TRUE or FALSE"),
        ("qos\n", "1: found qos ''"),
        ("qos TRUE\nqos_sl2v1 0\n", "2: found 'qos_sl2v1'.*qos_sl2vl"),
    ],
)
def test_what_opensm_would_pass_over_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=f"opensm.conf:{says}"):
        parse_lanes(text, "opensm.conf")


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "hello world\n", "start_s,src,dst,bytes\n", 'vendid=0x2c9\nSwitch 41 "S-0c42a10300a9b026"\n'],
)
def test_another_file_is_refused(text: str) -> None:
    """OpenSM would pass over each of its lines, and the tables would be judged on one lane unasked."""
    with pytest.raises(FormatError, match="expected options of OpenSM"):
        parse_lanes(text, "opensm.conf")
