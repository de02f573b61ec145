"""guid2lid: numbers as OpenSM takes them."""

import pytest

from routing.opensm.guid2lid import parse_guid2lid
from topo.errors import FormatError

GUID = "0x0002c90300a1b2c0"


@pytest.mark.parametrize("lid", ["0x0008", "8", "010", "0010", "00010"])
def test_zeros_in_front_mean_octal_as_for_strtoul(lid):
    assert parse_guid2lid(f"{GUID} {lid} {lid}\n") == {int(GUID, 16): range(8, 9)}


@pytest.mark.parametrize("lid", ["08", "00000", "0x", "9" * 3000])
def test_what_is_no_lid_is_refused_at_its_line(lid):
    with pytest.raises(FormatError, match="guid2lid:3: found"):
        parse_guid2lid(f"# ours\n\n{GUID} {lid} {lid}\n", "guid2lid")
