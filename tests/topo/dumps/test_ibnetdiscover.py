"""The reader of ibnetdiscover's text against real fabrics, and against what terminals and broken cables do to it."""

from __future__ import annotations

import gzip
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import fabrics
from helpers.twins import MACHINES, twin
from routing.engines.base import route
from topo.builder import FabricBuilder
from topo.dumps.discovery import Discovery
from topo.dumps.fabric_json import format_fabric, parse_fabric
from topo.dumps.ibnetdiscover import format_ibnetdiscover, parse_ibnetdiscover, parse_ibsim_net
from topo.errors import FormatError, RoutingError
from topo.fabric import Fabric, Kind, Role
from topo.files.text import read_lines
from topo.speeds import SPEEDS, LinkSpeed

# Switches, plugged HCA ports, aggregation nodes, cables between switches: the table in the README of the dumps.
COUNTS = {
    "azure_sat11_2021/ibnetdiscover.gz": (400, 2328, 0, 6395),
    "azure_sat11_2021/ibnetdiscover.raw.gz": (400, 2328, 0, 6395),
    "clova_superpod_a100_2022/ibnetdiscover.gz": (206, 1130, 206, 2236),
    "clova_superpod_a100_2022/ibnetdiscover.raw.gz": (206, 1130, 206, 2236),
    "kr_dual_cs8500_2021/ibnetdiscover.gz": (192, 990, 192, 2962),
    "kr_dual_cs8500_2021/ibdiagnet_style.raw.gz": (192, 990, 192, 2962),
    "lassen_cs7500_2019/ibnetdiscover.gz": (174, 1470, 174, 1799),
    "janus_is5600_2014/ibnetdiscover.gz": (214, 1356, 0, 2812),
    "ndr_dgx_2025/ibnetdiscover.gz": (40, 542, 40, 532),
    "cs8500_frame_factory_2019/ibnetdiscover.gz": (60, 2, 0, 805),
    "tartu_fdr10_2014/ibnetdiscover.gz": (8, 145, 0, 47),
    "fireflyer_models/zone1_800hca_60sw.ibnetdiscover.txt.gz": (60, 800, 0, 800),
    "fireflyer_models/twozone_1560hca_122sw.ibnetdiscover.txt.gz": (122, 1560, 0, 1640),
}


def read_ibnetdiscover(path: Path) -> Discovery:
    return parse_ibnetdiscover(read_lines(path), str(path))


def counts(fabric: Fabric) -> tuple[int, int, int, int]:
    kind = fabric.kind[fabric.port_node]
    plugged = fabric.peer >= 0
    ends = np.sort(kind[fabric.links], axis=1)
    return (
        fabric.n_switches,
        int(np.sum(plugged & (kind == Kind.HCA))),
        int(np.sum(plugged & (kind == Kind.AGGREGATION))),
        int(np.sum((ends == Kind.SWITCH).all(axis=1))),
    )


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.slow
def test_twins_have_the_counts_of_the_real_fabrics(name: str) -> None:
    assert counts(twin(name)) == COUNTS[MACHINES[name].dump]
    assert len({twin(name).label(node) for node in range(twin(name).n_nodes)}) == twin(name).n_nodes


@pytest.mark.parametrize("name", COUNTS)
def test_real_fabrics_have_the_counts_of_their_readme(originals: Path, name: str) -> None:
    fabric = read_ibnetdiscover(originals / name).fabric
    assert counts(fabric) == COUNTS[name]
    plugged = np.flatnonzero(fabric.peer >= 0)
    assert np.array_equal(fabric.peer[fabric.peer[plugged]], plugged)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "normalised"),
    [
        ("azure_sat11_2021/ibnetdiscover.raw.gz", "azure_sat11_2021/ibnetdiscover.gz"),
        ("clova_superpod_a100_2022/ibnetdiscover.raw.gz", "clova_superpod_a100_2022/ibnetdiscover.gz"),
        ("kr_dual_cs8500_2021/ibdiagnet_style.raw.gz", "kr_dual_cs8500_2021/ibnetdiscover.gz"),
    ],
)
def test_a_raw_dump_reads_as_its_normalised_form(originals: Path, raw: str, normalised: str) -> None:
    ours, theirs = read_ibnetdiscover(originals / raw), read_ibnetdiscover(originals / normalised)
    assert_same_cabling(ours.fabric, theirs.fabric)
    assert np.array_equal(ours.fabric.discovered_lid, theirs.fabric.discovered_lid)


def test_links_trained_at_another_speed_are_seen() -> None:
    kr = twin("two-frames")
    storage = np.array(["storage" in name for name in kr.names])[kr.port_node] & (kr.peer >= 0)
    assert np.count_nonzero(storage) == 64
    assert np.unique(kr.rate_gbps[storage]).tolist() == [100.0]  # EDR adapters on HDR switches
    tartu = twin("fdr10-mesh")
    used = {SPEEDS[speed] for speed in tartu.speed[tartu.peer >= 0].tolist()}
    assert used == {"QDR", "FDR10"}


@pytest.mark.parametrize(("name", "line"), [("ibsim_manual_4sw.txt", 23), ("dual_cs8500_invalid_lid.txt.gz", 2477)])
def test_a_guid_that_is_none_is_refused_with_its_line(originals: Path, name: str, line: int) -> None:
    with pytest.raises(FormatError) as caught:
        read_ibnetdiscover(originals / "tiny_and_broken" / name)
    assert caught.value.line == line


def test_lids_that_are_no_lids_count_as_unknown(originals: Path) -> None:
    found = read_ibnetdiscover(originals / "tiny_and_broken/edr_12ca_null_lids.txt").fabric
    lids = dict(zip(found.end_guid.tolist(), found.discovered_lid.tolist(), strict=True))
    assert lids[0x4444444444444444] == 0  # "lid  lmc 0"
    assert lids[0x1111111111111111] == 0  # "lid 65335"
    assert lids[0x2222222222222222] == 5
    azure = read_ibnetdiscover(originals / "azure_sat11_2021/ibnetdiscover.gz").fabric
    assert np.count_nonzero(azure.discovered_lid == 0) == 632  # "lid 65535"
    assert azure.discovered_lid.max() <= 0xBFFF


def test_a_cable_to_a_node_without_a_record_is_left_out_and_counted(originals: Path) -> None:
    found = read_ibnetdiscover(originals / "tiny_and_broken/superbench_faked_cs8500_sample.txt")
    assert [reason for _, reason in found.skipped] == ["a cable to H-0ff08c43213b3f38, which has no record"]


def planned(speed: str = "4xHDR", name: str = "small") -> Fabric:
    builder = FabricBuilder(name)
    width, generation = speed.split("x", 1)
    link = LinkSpeed(int(width), generation)
    leaves = [
        builder.switch(f"MF0;leaf{i}:MQM8700/U1", model="MQM8700", radix=40, role=Role.LEAF, level=1) for i in range(3)
    ]
    spines = [
        builder.switch(f"MF0;spine{i}:MQM8700/U1", model="MQM8700", radix=40, role=Role.SPINE, level=2)
        for i in range(2)
    ]
    for i, leaf in enumerate(leaves):
        for j, spine in enumerate(spines):
            builder.link(leaf, 21 + j, spine, 1 + i, link)
        for device in ("mlx5_0", "mlx5_1"):
            adapter = builder.adapter(
                f"gpu{i}", device, model="ConnectX-6", host_model="dgx", role=Role.COMPUTE, ports=2
            )
            builder.link(adapter, 1, leaf, 1 + int(device[-1]), link)
    return builder.build()


def assert_same_cabling(ours: Fabric, theirs: Fabric) -> None:
    """Equal in all that a dump holds; a dump has no levels, zones and roles, and its own names of models."""
    for field in ("kind", "node_guid", "port_offset", "peer", "width", "speed", "port_guid", "host", "discovered_lid"):
        assert np.array_equal(getattr(ours, field), getattr(theirs, field)), field
    assert ours.names == theirs.names
    assert ours.hosts == theirs.hosts


@pytest.mark.parametrize("speed", [f"4x{name}" for name in SPEEDS if name != "GE"] + ["1xEDR", "2xHDR", "12xNDR"])
def test_what_is_written_reads_back(speed: str) -> None:
    fabric = planned(speed)
    found = parse_ibnetdiscover(format_ibnetdiscover(fabric))
    assert_same_cabling(found.fabric, fabric)
    assert found.fabric.name == fabric.name
    assert found.skipped == ()


def test_a_dump_lists_no_ethernet() -> None:
    (told, *_) = parse_ibnetdiscover(format_ibnetdiscover(planned("4xGE"))).skipped
    assert "'4xGE', which is not known" in str(told)


@given(fabrics())
def test_any_fabric_reads_back(fabric: Fabric) -> None:
    found = parse_ibnetdiscover(format_ibnetdiscover(fabric))
    assert found.skipped == ()
    assert cabling(found.fabric) == cabling(fabric)
    if fabric.peer[fabric.first_adapter_port] >= 0:  # else the first adapter that ibsim can attach to comes first
        assert_same_cabling(found.fabric, fabric)


def cabling(fabric: Fabric) -> tuple[dict[int, tuple[str, int]], set[tuple[int, ...]]]:
    """Nodes by GUID, and every channel, whatever the order they come in."""
    guid, number = fabric.node_guid.tolist(), fabric.port_number.tolist()
    ports = np.diff(fabric.port_offset).tolist()
    nodes = {guid[node]: (fabric.names[node], ports[node]) for node in range(fabric.n_nodes)}
    owner = fabric.port_node.tolist()
    channels = {
        (guid[owner[a]], number[a], guid[owner[b]], number[b], fabric.width.item(a), fabric.speed.item(a))
        for a, b in enumerate(fabric.peer.tolist())
        if b >= 0
    }
    return nodes, channels


def test_lids_read_back() -> None:
    fabric = planned()
    lids = np.zeros(fabric.n_end_ports, np.uint16)
    used = fabric.end_switch >= 0
    lids[used] = np.arange(0xBFFF - used.sum(), 0xBFFF) + 1
    found = parse_ibnetdiscover(format_ibnetdiscover(fabric, lids))
    assert np.array_equal(found.fabric.discovered_lid, lids)


def test_lines_are_of_the_forms_that_topograph_reads() -> None:
    node = re.compile(r'(Ca|Switch)\s+\d+\s+"([^"]+)"\s+# "([^"]+)".*')
    cable = re.compile(r'\[\d+\]\s+"([^"]+)"\[\d+\](\([0-9a-f]+\))?\s+# "([^"]+)".*')
    text = format_ibnetdiscover(planned())
    seen = {word: sum(line.startswith(word) for line in text.splitlines()) for word in ("Ca", "Switch", "[")}
    assert seen == {"Ca": 6, "Switch": 5, "[": 24}
    for record in text.split("\n\n")[1:-1]:
        lines = [line for line in record.splitlines() if line.startswith(("Ca", "Switch", "["))]
        head = node.fullmatch(lines[0])
        assert head is not None
        if head.group(1) == "Switch":
            assert re.fullmatch(r"[^;:]+;([^;:]+):[^;:]+", head.group(3))
            assert all(cable.fullmatch(line) for line in lines[1:])
        else:
            assert re.fullmatch(r"(\S+)\s\S+", head.group(3))
    assert text.endswith("\n\n")  # it closes a switch at an empty line


def test_writing_is_deterministic_and_starts_with_a_plugged_adapter() -> None:
    text = format_ibnetdiscover(planned())
    assert text == format_ibnetdiscover(planned())
    first = next(line for line in text.splitlines() if line.startswith(("Ca", "Switch")))
    assert first.startswith('Ca\t2 "H-') and '"gpu0 mlx5_0"' in first


@given(st.text(max_size=200))
def test_any_name_makes_a_line_that_reads_back(name: str) -> None:
    builder = FabricBuilder("odd")
    switches = [builder.switch(text, model="", radix=4, role=Role.LEAF, level=1) for text in (name, name + "!")]
    builder.link(switches[0], 1, switches[1], 1, LinkSpeed(4, "EDR"))
    text = format_ibnetdiscover(builder.build())
    assert max(map(len, text.split("\n"))) < 255  # what ibsim 0.10 reads of a line
    found = parse_ibnetdiscover(text)
    assert found.skipped == ()
    assert found.fabric.n_switches == 2 and len(found.fabric.links) == 1
    assert all(len(name) <= 63 for name in found.fabric.names)


DUMP = """\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x10
switchguid=0x10(10)
Switch\t40 "S-0000000000000010"\t\t# "leaf" base port 0 lid 1 lmc 0
[1]\t"H-0000000000000100"[1](101) \t\t# "n1 HCA-1" lid 2 4xHDR
[2]\t"S-0000000000000020"[7]\t\t# "spine" lid 3 4xHDR s=4 w=2 v=4 e=4

vendid=0x2c9
devid=0xd2f0
switchguid=0x20(20)
Switch\t40 "S-0000000000000020"\t\t# "spine" enhanced port 0 lid 3 lmc 0
[7]\t"S-0000000000000010"[2]\t\t# "leaf" lid 1 4xHDR

devid=0x101b
caguid=0x100
Ca\t2 "H-0000000000000100"\t\t# "n1 HCA-1"
[1](101) \t"S-0000000000000010"[1]\t\t# lid 2 lmc 0 "leaf" lid 1 4xHDR
"""


def links(text: str) -> tuple[list[list[int]], list[str]]:
    found = parse_ibnetdiscover(text)
    return found.fabric.links.tolist(), [reason for _, reason in found.skipped]


def swap(old: str, new: str, text: str = DUMP) -> str:
    assert old in text
    return text.replace(old, new)


# Port ids: leaf has 0 to 39, spine 40 to 79, the adapter 80 and 81.
WHOLE = [[0, 80], [1, 46]]


@pytest.mark.parametrize(
    "text",
    [
        DUMP,
        "\ufeff" + DUMP,
        DUMP.replace("\n", "\r\n"),
        DUMP.replace("\t", ""),
        DUMP.replace("\t", " "),
        DUMP.replace("Switch\t40", "Switch  40"),
        DUMP.replace('[2]\t"S', '[2](2) "S'),
        DUMP.replace('[2]\t"S-0000000000000020"[7]', '[2][ext 5]\t"S-0000000000000020"[7][ext 3]'),
        DUMP.replace("devid=0xd2f0\n", "devid=0xd2f0\t\t# Chassis 1\n"),
        DUMP.replace("switchguid=0x20(20)", "switchguid=0x20(20)\t\t# Spine 1 Chip 1"),
        "#\n# Max of 3 hops discovered\n\nChassis 1 (guid 0x10)\nNon-Chassis Nodes\n\n" + DUMP,
        DUMP.replace('"leaf"', '"a \'leaf" of "odd # [1] "S-1"[2] characters=, 4xSDR"'),
        DUMP.replace('[7]\t"S-0000000000000010"[2]\t\t# "leaf" lid 1 4xHDR\n', ""),
        DUMP.replace('[2]\t"S-0000000000000020"[7]\t\t# "spine" lid 3 4xHDR s=4 w=2 v=4 e=4\n', ""),
        DUMP.replace('[1](101) \t"S-0000000000000010"[1]\t\t# lid 2 lmc 0 "leaf" lid 1 4xHDR\n', ""),
        DUMP.replace("# ", "#  \t"),
        DUMP.replace("0000000000000010", "10"),
    ],
)
def test_dialects_read_alike(text: str) -> None:
    found = parse_ibnetdiscover(text)
    assert found.fabric.links.tolist() == WHOLE
    assert found.skipped == ()
    assert found.fabric.port_guid[80] == 0x101
    assert found.fabric.node_guid.tolist() == [0x10, 0x20, 0x100]
    assert found.fabric.discovered_lid.tolist() == [1, 3, 2, 0]
    assert found.fabric.rate_gbps[[0, 1, 46, 80]].tolist() == [200.0] * 4


@pytest.mark.parametrize(
    ("text", "left", "reason"),
    [
        ("[root@head]# ibnetdiscover\n" + DUMP, WHOLE, "'[root@head]# ibnetdiscover', which is no part of a record"),
        (swap("lid 2 4xHDR", "lid 2 4xZDR"), WHOLE,
         "link speed '4xZDR', which is not known: taken as the other end, or 4xSDR"),
        (swap("lid 3 4xHDR", "lid 3 1xHDR"), WHOLE,
         "the speed of a cable, 1xHDR here and 4xHDR in line 13: taken as 1xHDR"),
        (swap('\n[2]\t"S', '\n[3]\t"S-0000000000000010"[3] # "leaf" lid 1 4xHDR\n[2]\t"S'), WHOLE,
         "port 3 of S-0000000000000010 plugged into itself"),
        (swap('\n[2]\t"S', '\n[3]\t"S-0000000000000077"[3] # "gone" lid 1 4xHDR\n[2]\t"S'), WHOLE,
         "a cable to S-0000000000000077, which has no record"),
        (swap('\n[2]\t"S', '\n[0]\t"S-0000000000000077"[3] # "gone" lid 1 4xHDR\n[2]\t"S'), WHOLE,
         "port 0, which is a switch's own and holds no cable"),
        # Two ports that both say they are plugged into port 7 of the spine, which agrees with one of them.
        (swap('\n[2]\t"S', '\n[3]\t"S-0000000000000020"[7] # "spine" lid 3 4xHDR\n[2]\t"S'), WHOLE,
         "a cable that line 14 contradicts"),
        # The same, when the spine says nothing: neither is believed.
        (swap('\n[2]\t"S', '\n[3]\t"S-0000000000000020"[7] # "spine" lid 3 4xHDR\n[2]\t"S',
              swap('[7]\t"S-0000000000000010"[2]\t\t# "leaf" lid 1 4xHDR\n', "")), WHOLE[:1],
         "a cable that line 8 contradicts"),
        # The same, when the spine says a third thing.
        (swap('"S-0000000000000010"[2]', '"S-0000000000000010"[9]'), WHOLE[:1], "a cable that line 13 contradicts"),
        (DUMP.replace("lid 2", "lid 1"), WHOLE, "LID 1, which 2 end ports have"),
        (DUMP.replace("lid 2", "lid 49152"), WHOLE, "LID 49152, which is not from 1 to 49,151"),  # of a multicast group
        (DUMP.replace("lid 2", "lid 700000"), WHOLE, "LID 700000, which is not from 1 to 49,151"),
    ],
)  # fmt: skip
def test_what_can_be_left_out_is_counted(text: str, left: list[list[int]], reason: str) -> None:
    found, reasons = links(text)
    assert found == left
    assert reason in reasons


@pytest.mark.parametrize("ends", [("1xHDR", "4xHDR"), ("4xHDR", "1xHDR"), ("4xHDR", "4xSDR"), ("4xZDR", "4xHDR")])
def test_a_cable_whose_ends_tell_two_speeds_has_the_lower_one_both_ways(ends: tuple[str, str]) -> None:
    found = parse_ibnetdiscover(
        swap("lid 3 4xHDR", f"lid 3 {ends[0]}", swap('2]\t\t# "leaf" lid 1 4xHDR', f'2]\t\t# "leaf" lid 1 {ends[1]}'))
    )
    slow = {"1xHDR": 50, "4xSDR": 8, "4xHDR": 200, "4xZDR": 200}
    slow = min(slow[end] for end in ends)
    assert found.fabric.rate_gbps[found.fabric.inner].tolist() == [slow, slow]


def test_a_record_that_comes_twice_counts_once() -> None:
    found, reasons = links(DUMP + "\n" + DUMP)
    assert found == WHOLE
    assert len(reasons) == 3 + 4  # records and cables


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (swap('[7]\t"S-0000000000000010"[2]', '[7]\t"S-000000'), 13, "cannot read"),
        (DUMP[: DUMP.rindex("[1](101)") + 20], 18, "cannot read"),  # cut off
        (swap('Switch\t40 "S-0000000000000020"', 'Switch\t400 "S-0000000000000020"'), 12, "400 ports"),
        (swap('Switch\t40 "S-0000000000000020"', 'Switch\t40 "H-0000000000000020"'), 12, "expected S for Switch"),
        (swap('[7]\t"S-0000000000000010"[2]', '[7]\t"S-0000000000000010"[99]'), 13, "port 99 of S-0000000000000010"),
        (swap("\n[7]\t", "\n[41]\t"), 13, "port 41 of S-0000000000000020"),
        (swap('\n[2]\t"S', '\n[1]\t"S'), 7, "which holds another cable in line 6"),
        (swap('Switch\t40 "S-0000000000000020"', 'Swidge\t40 "S-0000000000000020"'), 13, "outside a record"),
        (DUMP + "\n" + DUMP.replace("Switch\t40", "Switch\t36"), 24, "36 ports of a node that has 40 in line 5"),
        (swap('"spine" lid 3 4xHDR s', '"spine" 4xHDR s'), 7, "cannot read"),
    ],
)
def test_a_broken_dump_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message.replace("(", r"\(")) as caught:
        parse_ibnetdiscover(text, "dump.txt")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"dump.txt:{line}: ")


@pytest.mark.parametrize("text", ["", "\n\n", "nothing of the kind\n", "\x00\x01\x02" * 500])
def test_what_is_no_dump_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no switch, adapter or router"):
        parse_ibnetdiscover(text)


@given(st.integers(0, len(DUMP)), st.text(max_size=12), st.integers(0, 12))
def test_a_spoilt_dump_reads_or_is_refused(place: int, scrap: str, lost: int) -> None:
    try:
        fabric = parse_ibnetdiscover(DUMP[:place] + scrap + DUMP[place + lost :]).fabric
    except FormatError:
        return
    plugged = np.flatnonzero(fabric.peer >= 0)
    assert np.array_equal(fabric.peer[fabric.peer[plugged]], plugged)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(DUMP.encode() * 100)[:-40])
    long = tmp_path / "long.txt"
    long.write_text("x" * 5000)
    for path, message in [
        (tmp_path / "absent", "cannot be read"),
        (tmp_path, "cannot be read"),
        (broken, "cannot be unpacked"),
        (long, "more than 4,096 characters"),
    ]:
        with pytest.raises(FormatError, match=message):
            read_ibnetdiscover(path)


@pytest.mark.parametrize(
    "line",
    [
        '[1] "S-0000000000000010"[2] # "x" lid' + " " * 4000 + '"',
        '[1] "S-0000000000000010"[2] #' + ' " lid' * 600 + '"',
        'Switch 40 "S-0000000000000010" # "x"' + " " * 2000 + '"' + " " * 2000 + "\x00",
        "Switch 40" + " " * 4000,
        "[1]" + " " * 4000,
        "[" + "1" * 4000,
    ],
)
def test_a_line_made_to_take_for_ever_does_not(line: str) -> None:
    for text in (line, DUMP + line, DUMP.partition("[1]")[0] + line):
        with suppress(FormatError):
            parse_ibnetdiscover(text)


def test_more_lines_of_no_use_than_any_terminal_adds_are_refused() -> None:
    with pytest.raises(FormatError, match="more than 10,000 lines of no use"):
        parse_ibnetdiscover("log\n" * 10_002)


@pytest.mark.slow
def test_more_text_than_any_subnet_needs_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(520):
            file.write((b"#" + b" " * 1022 + b"\n") * 1024)
    with pytest.raises(FormatError, match="budget text-"):
        read_ibnetdiscover(bomb)


def ca(guid: int, description: str, system: int = 0, device: int = 0x101B) -> str:
    return (
        f"devid=0x{device:x}\nsysimgguid=0x{system or guid:x}\ncaguid=0x{guid:x}\n"
        f'Ca\t1 "H-{guid:016x}"\t\t# "{description}"\n\n'
    )


def test_adapters_share_a_host_only_when_that_is_plain() -> None:
    fabric = parse_ibnetdiscover(
        ca(0x10, "gpu1 mlx5_0")
        + ca(0x20, "gpu1 mlx5_1")
        + ca(0x30, "gpu2 HCA-1")
        + ca(0x40, "ubuntu mlx5_0")
        + ca(0x50, "ubuntu mlx5_0")
        + ca(0x60, "localhost HCA-1")
        + ca(0x70, "localhost HCA-2", system=0x60)
        + ca(0x80, "MT4123 ConnectX6   Mellanox Technologies")
        + ca(0x90, "Mellanox Technologies Aggregation Node", device=0xCF09)
    ).fabric
    names = [fabric.hosts[host] if host >= 0 else None for host in fabric.host.tolist()]
    assert names == [
        "gpu1", "gpu1", "gpu2", "0x0000000000000040", "0x0000000000000050",
        "0x0000000000000060", "0x0000000000000060", "0x0000000000000080", None,
    ]  # fmt: skip
    assert [Role(role) for role in fabric.role.tolist()] == [Role.COMPUTE] * 8 + [Role.AGGREGATION]


def test_models_come_from_the_description_or_the_device() -> None:
    fabric = parse_ibnetdiscover(
        'devid=0xd2f0\nSwitch\t41 "S-0000000000000001"\t\t# "MF0;frame-A:MCS8500/L16/U2" base port 0 lid 3 lmc 0\n\n'
        'devid=0xd2f0\nSwitch\t41 "S-0000000000000002"\t\t# "Quantum Mellanox Technologies" base port 0 lid 4 lmc 0\n\n'
        'Switch\t41 "S-0000000000000003"\t\t# "what" base port 0 lid 4 lmc 0\n\n' + ca(0x30, "n HCA-1", device=0x1017)
    ).fabric
    assert [fabric.models[m] if m >= 0 else None for m in fabric.model.tolist()] == [
        "MCS8500", "Quantum", None, "ConnectX-5",
    ]  # fmt: skip


def test_routers_are_nodes_too() -> None:
    fabric = parse_ibnetdiscover(
        DUMP + '\nrtguid=0x30\nRt\t2 "R-0000000000000030"\t\t# "router"\n'
        '[2](32) \t"S-0000000000000020"[9]\t\t# lid 9 lmc 0 "spine" lid 3 4xHDR\n'
    ).fabric
    assert Kind(fabric.kind[3]) == Kind.ROUTER
    assert [48, 83] in fabric.links.tolist()
    again = parse_ibnetdiscover(format_ibnetdiscover(fabric)).fabric
    assert_same_cabling(again, fabric)


def test_no_two_nodes_have_one_label() -> None:
    """A fault or a hot link is told by label, and whoever is told has to find the switch."""
    labels = {
        "MF0;core1:CS7500/L02/U1": "core1/L02/U1",
        "MF0;core1:CS7500/L03/U1": "core1/L03/U1",
        "MF0;leaf01:MQM8700/U1": "leaf01",
        "Quantum": "Quantum 0x{guid:016x}",
        "": "0x{guid:016x}",
    }
    names = [*labels, "Quantum"]
    text = "".join(f'Switch 40 "S-{guid:016x}" # "{name}" port 0 lid 0 lmc 0\n\n' for guid, name in enumerate(names, 1))
    fabric = parse_ibnetdiscover(text).fabric
    shown = [fabric.label(switch) for switch in range(fabric.n_switches)]
    assert shown == [labels[name].format(guid=guid) for guid, name in enumerate(names, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_labels_of_real_fabrics_are_unique(originals: Path, name: str) -> None:
    fabric = read_ibnetdiscover(originals / name).fabric
    labels = [fabric.label(node) for node in range(fabric.n_nodes)]
    assert len(set(labels)) == fabric.n_nodes


@pytest.mark.parametrize("lmc", range(1, 8))
@pytest.mark.slow
def test_several_lids_a_port_are_kept_and_never_taken_for_one(lmc: int) -> None:
    text = DUMP.replace("lid 2 lmc 0", f"lid 512 lmc {lmc}").replace("lid 2 ", "lid 512 ")
    fabric = parse_ibnetdiscover(text).fabric
    assert fabric.lmc == parse_ibnetdiscover(format_ibnetdiscover(fabric)).fabric.lmc == lmc
    assert parse_fabric(format_fabric(fabric)).lmc == lmc
    tables = route(fabric).tables
    assert (tables.lmc, tables.lid.tolist()) == (lmc, [1, 3, 512, 0])
    assert (tables.lft[0, 512 : 512 + 2**lmc] == 1).all()
    shared = parse_ibnetdiscover(swap("lid 2 lmc 0", f"lid 2 lmc {lmc}")).fabric  # LID 3 is the spine's
    with pytest.raises(RoutingError, match=f"LMC {lmc}, but not all of its ports"):
        route(shared)


def test_an_lmc_that_cannot_be_is_refused() -> None:
    with pytest.raises(FormatError, match="LMC 9; expected 0 to 7"):
        parse_ibnetdiscover(swap("lid 2 lmc 0", "lid 2 lmc 9"))


def test_a_network_for_ibsim_is_read_by_its_names() -> None:
    """Cables named from one end or from both, adapters without a cable, a name before its record."""
    text = (
        'Switch 8 "SW1"\n[1] "SW2"[1]\n[2] "Hca1"[1]\n[3]\t"Hca2"[2] # lid 4 4xEDR\n\n'
        'Switch 8 "SW2"\n[1] "SW1"[1]\n[2] "Hca 3"[1]\n\nHca 2 "Hca1"\nHca 2 "Hca2"\nHca 2 "Hca 3"\nCa 1 "alone"\n'
    )
    found = parse_ibsim_net(text, "net")
    fabric = found.fabric
    ends = {tuple(sorted(map(fabric.port_label, link))) for link in fabric.links.tolist()}
    assert {tuple(label.replace(" ibsim", "") for label in link) for link in ends} == {
        ("SW1:1", "SW2:1"), ("Hca1:1", "SW1:2"), ("Hca2:2", "SW1:3"), ("Hca 3:1", "SW2:2")
    }  # fmt: skip
    guids = dict(zip(map(fabric.label, range(fabric.n_nodes)), fabric.node_guid.tolist(), strict=True))
    assert guids == {
        "SW1": 0x200000, "SW2": 0x200001, "Hca1": 0x100000, "Hca2": 0x100003, "Hca 3": 0x100006, "alone": 0x100009
    }  # fmt: skip
    rates = fabric.rate_gbps[fabric.links[:, 0]]
    assert sorted(rates.tolist()) == [8.0, 8.0, 8.0, 100.0]
    assert all("4xSDR" in reason for _, reason in found.skipped)
    with pytest.raises(FormatError, match=r"net:2: cannot read .*nobody"):
        parse_ibsim_net('Switch 8 "SW1"\n[1] "nobody"[1]\n', "net")
