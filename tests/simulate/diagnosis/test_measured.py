"""Files of measured bandwidths."""

import pytest

from helpers.presets import routed_lab
from simulate.diagnosis.measured import parse_measured
from topo.errors import FormatError

ROUTED = routed_lab()


def test_a_list_and_a_matrix_say_the_same() -> None:
    rows = ["# of today", "source,destination,Gb/s,round", "gpu00,gpu01,192.8,", "gpu01,gpu00,8,a", "gpu02,gpu03,16,a"]
    matrix = ["GB/s,gpu00,gpu01,gpu03", "gpu00,,24.1,", "", "gpu01,1,-,", "gpu02,,,2"]
    one, two = parse_measured(rows, ROUTED), parse_measured(matrix, ROUTED)
    for name in ("src", "dst"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist()
    assert one.gbps.tolist() == pytest.approx(two.gbps.tolist())
    assert one.round.tolist() == [-1, 0, 0]
    assert two.round.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no lines of CSV"),
        ('source,destination,Gb/s\n"gpu00,gpu01,5', "measured:2: found a line that is not CSV"),
        ("gpu00,gpu01,5", "measured:1: found the header"),
        ("source,destination,gb/s", "UNIT is Gb/s, GB/s"),
        ("source,destination,Gb/s", "no measured pair"),
        ("source,destination,Gb/s\ngpu00,gpu01", "measured:2: found 2 values; expected 3"),
        ("source,destination,Gb/s\ngpu00,gpu99,4", "measured:2: found no end port 'gpu99'"),
        ("source,destination,Gb/s\ngpu00,gpu01,nan", "measured:2: found the bandwidth 'nan'"),
        ("source,destination,Gb/s\n\ngpu00,gpu01,-1", "measured:3: found the bandwidth '-1'"),
        ("source,destination,Gb/s\ngpu00,gpu00,1", "with itself"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        parse_measured(text.splitlines(), ROUTED)
    assert message in str(error.value)
