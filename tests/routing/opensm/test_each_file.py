"""The small files of OpenSM: what is written is read again, and what OpenSM would misread is not written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.node_names import parse_node_name_map, read_node_name_map
from routing.lanes.classes import LanePlan
from routing.lanes.policy import MatchRule, PortGroup, QosPolicy
from routing.opensm.conf import format_opensm_conf, qos_options
from routing.opensm.files import PARTITIONS, format_node_name_map
from routing.opensm.guid2lid import format_guid2lid, parse_guid2lid, read_guid2lid
from routing.opensm.qos_policy import format_qos_policy
from topo.errors import FormatError

GUIDS = st.integers(0, 2**64 - 1)


# guid2lid


def test_guid2lid_has_an_empty_line_behind_each_entry() -> None:
    assert format_guid2lid([(0xABC, 1, 1), (0xC42A10300A9B026, 0xBFFC, 4)]) == (
        "0x0000000000000abc 0x0001 0x0001\n\n0x0c42a10300a9b026 0xbffc 0xbfff\n\n"
    )


@given(lids=st.dictionaries(GUIDS, st.integers(1, 0xBFFF)).filter(lambda lids: len(set(lids.values())) == len(lids)))
def test_guid2lid_is_read_again(lids: dict[int, int]) -> None:
    text = format_guid2lid((guid, lid, 1) for guid, lid in lids.items())
    assert parse_guid2lid(text) == {guid: range(lid, lid + 1) for guid, lid in lids.items()}


def test_guid2lid_as_opensm_writes_it(tmp_path) -> None:
    """Ranges, decimal LIDs and comments are taken."""
    path = tmp_path / "guid2lid"
    path.write_text("# comment\n\n0x0c42a10300a9b026 0x0002 0x0003\n\n0x00000000000000ff 9 9\n")
    assert read_guid2lid(path) == {0xC42A10300A9B026: range(2, 4), 0xFF: range(9, 10)}


@pytest.mark.parametrize(
    ("second", "line", "message"),
    [
        ("0x0000000000000abd 0x0002 0x0002", 2, "no empty line before this entry"),
        ("\n0xabd 0x0002 0x0002", 3, "found '0xabd"),
        ("\n0x0000000000000ABD 0x0002 0x0002", 3, "small letters"),
        ("\n 0x0000000000000abd 0x0002 0x0002", 3, "first column"),
        ("\n0x0000000000000abd 0x0002", 3, "<highest LID>"),
        ("\n0x0000000000000abd 0xc000 0xc000", 3, "found LIDs 0xc000 to 0xc000"),
        ("\n0x0000000000000abd 0x0000 0x0000", 3, "found LIDs 0x0000"),
        ("\n0x0000000000000abd 0x0003 0x0002", 3, "found LIDs 0x0003 to 0x0002"),
        ("\n0x0000000000000abd 0x0002 0xbfff", 3, "expected 1 to 128"),
        ("\n0x0000000000000abd 0x0001 0x0001", 3, "the LID 0x0001 is listed twice"),
        ("\n0x0000000000000abc 0x0002 0x0002", 3, "the GUID 0x0000000000000abc is listed twice"),
    ],
)
def test_guid2lid_that_opensm_would_lose_is_refused(second: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=f"guid2lid:{line}: .*{message}"):
        parse_guid2lid(f"0x0000000000000abc 0x0001 0x0001\n{second}\n\n", "guid2lid")


# node-name-map


@given(names=st.dictionaries(GUIDS, st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"#'),
                                            max_size=63)))  # fmt: skip
def test_names_are_read_again(names: dict[int, str]) -> None:
    assert parse_node_name_map(format_node_name_map(names.items())) == names


@pytest.mark.slow
@given(names=st.dictionaries(GUIDS, st.text(max_size=200)))
def test_any_name_becomes_a_line_that_the_tools_read(names: dict[int, str]) -> None:
    text = format_node_name_map(names.items())
    assert all(len(line) < 256 and line.count('"') == 2 for line in text.splitlines())
    assert parse_node_name_map(text).keys() == names.keys()


def test_a_name_map_written_by_hand(tmp_path) -> None:
    path = tmp_path / "names"
    path.write_text('# racks\n\n0xABC\t"leaf 1"   # row 3\n')
    assert read_node_name_map(path) == {0xABC: "leaf 1"}
    for bad in ("abc leaf", '0xabc leaf"', '0xabc "a" "b"', '0xabc "' + "x" * 300 + '"', 'S-0xabc "leaf"'):
        with pytest.raises(FormatError, match="names:2: found"):
            parse_node_name_map(f"\n{bad}\n", "names")


# opensm.conf


def test_options_are_spelled_as_opensm_wants_them() -> None:
    text = format_opensm_conf({"qos": True, "reassign_lids": False, "lmc": 0, "lfts_file": "/etc/opensm/lfts"}, "a\nb")
    assert text == "# a\n# b\nqos TRUE\nreassign_lids FALSE\nlmc 0\nlfts_file /etc/opensm/lfts\n"


@pytest.mark.parametrize(
    "options",
    [
        {"routing_engines": "file"},
        {"lfts_file": "/tmp/#1"},
        {"lfts_file": ""},
        {"lfts_file": " x"},
        {"lfts_file": "a\nqos FALSE"},
        {"lfts_file": '"a"'},
        {"lfts_file": "x" * 1022},
    ],
)
def test_options_that_opensm_would_misread_are_not_written(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="OpenSM"):
        format_opensm_conf(options)


def test_options_of_lanes() -> None:
    options = qos_options(LanePlan((0, 4, *[0] * 14), ((0, 32), (4, 255))))
    assert options["qos"] is True
    assert options["max_op_vls"] == 4, "the code of lanes 0 to 7"
    for scope in ("qos", "qos_ca", "qos_sw0", "qos_swe", "qos_rtr"):
        assert options[f"{scope}_max_vls"] == 8
        assert options[f"{scope}_vlarb_low"] == "0:32,4:255"
        assert options[f"{scope}_vlarb_high"] == "0:0"
        assert options[f"{scope}_sl2vl"] == "0,4,0,0,0,0,0,0,0,0,0,0,0,0,0,0"


# partitions.conf, qos-policy.conf


def test_everybody_is_a_full_member() -> None:
    rule = [line for line in PARTITIONS.splitlines() if not line.startswith("#")]
    assert rule == ["Default=0x7fff, ipoib, defmember=full : ALL=full, SELF=full ;"]


def test_a_policy() -> None:
    policy = QosPolicy(
        (("class-a", 3),), (PortGroup("class-a", tuple(range(9))),), (MatchRule("class-a", ("class-a",)),)
    )
    assert format_qos_policy(policy).splitlines() == [
        "port-groups",
        "    port-group",
        "        name: class-a",
        "        port-guid: " + ", ".join(f"0x{guid:016x}" for guid in range(8)),
        "        port-guid: 0x0000000000000008",
        "    end-port-group",
        "end-port-groups",
        "qos-levels",
        "    qos-level",
        "        name: DEFAULT",
        "        sl: 0",
        "    end-qos-level",
        "    qos-level",
        "        name: class-a",
        "        sl: 3",
        "    end-qos-level",
        "end-qos-levels",
        "qos-match-rules",
        "    qos-match-rule",
        "        source: class-a",
        "        qos-level-name: class-a",
        "    end-qos-match-rule",
        "end-qos-match-rules",
    ]


def test_a_policy_that_refers_to_nothing_or_has_odd_names_is_not_written() -> None:
    for policy in (
        QosPolicy(rules=(MatchRule("gold"),)),
        QosPolicy(rules=(MatchRule("DEFAULT", ("nobody",)),)),
        QosPolicy((("two words", 1),)),
        QosPolicy(groups=(PortGroup("a,b", ()),)),
    ):
        with pytest.raises(ValueError, match=r"nothing defines|one word"):
            format_qos_policy(policy)
