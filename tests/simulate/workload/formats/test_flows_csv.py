from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.lanes.policy import ASK
from simulate.traffic.flows import Flows
from simulate.traffic.placement import EndPortNames
from simulate.workload.formats.flows_csv import format_flows_csv, parse_flows_csv, read_flows_csv
from topo.builder import FabricBuilder
from topo.errors import FormatError, SpecError
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed


def one_leaf() -> Fabric:
    """A leaf with four hosts of one port, one host of two ports, one of two adapters, and one that hangs on nothing."""
    build = FabricBuilder("leaf")
    leaf = build.switch("leaf0", model="X", radix=36, role=Role.LEAF, level=1)
    place = iter(range(1, 37))
    for host, device, ports in [
        *((f"gpu{i}", "mlx5_0", 1) for i in range(4)),
        ("dual", "mlx5_0", 2),
        ("twin", "mlx5_0", 1),
        ("twin", "mlx5_1", 1),
    ]:
        node = build.adapter(host, device, model="C", host_model="H", role=Role.COMPUTE, ports=ports)
        for port in range(1, ports + 1):
            build.link(node, port, leaf, next(place), LinkSpeed(4, "HDR"))
    build.adapter("loose", "mlx5_0", model="C", host_model="H", role=Role.COMPUTE)
    return build.build()


FABRIC = one_leaf()


def parsed(text: str) -> Flows:
    return parse_flows_csv(text.splitlines(), FABRIC, "f.csv")


def refused(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parsed(text)
    return [str(finding) for finding in caught.value.findings]


def test_reads_every_way_to_name_a_port() -> None:
    guid = f"0x{int(FABRIC.end_guid[1 + 5]):016x}"
    flows = parsed(
        "# a comment\nstart_s,src,dst,bytes,sl\n"
        "0,gpu0 mlx5_0,gpu1 mlx5_0,1048576,3\n"
        "\n"
        f'1.5e-3, gpu2 , dual mlx5_0:1 ,0,\n.5,"twin mlx5_1",{guid},2.5,15\n'
    )

    assert flows.src.tolist() == [1, 3, 8]
    assert flows.dst.tolist() == [2, 5, 6]
    assert flows.start_s.tolist() == [0, 1.5e-3, 0.5]
    assert flows.size_bytes.tolist() == [1048576, 0, 2.5]
    assert flows.sl.tolist() == [3, ASK, 15]


def test_findings_name_line_found_expected_and_the_nearest() -> None:
    head = "start_s,src,dst,bytes\n"
    assert refused("") == ["f.csv:1: found an empty file; expected the header start_s,src,dst,bytes[,sl]"]
    assert refused("src,dst,bytes\n") == [
        'f.csv:1: found the header "src,dst,bytes"; expected the columns start_s, src, dst, bytes and, if wanted, sl. '
        "Missing: start_s."
    ]
    assert "Remove colour." in refused("start_s,src,dst,bytes,colour\n")[0]
    assert "Remove sl." in refused("start_s,src,dst,bytes,sl,sl\n")[0]
    assert refused(head + "0,gpu0,gpv1 mlx5_0,1\n") == [
        'f.csv:2: found dst "gpv1 mlx5_0"; expected an adapter port of this fabric, plugged in. '
        "Did you mean `gpu1 mlx5_0`?"
    ]
    assert refused(head + "0,dual,gpu0,1\n") == [
        'f.csv:2: found src "dual"; expected the name of one adapter port. '
        '2 ports fit: "dual mlx5_0:1", "dual mlx5_0:2".'
    ]
    assert 'src "loose"' in refused(head + "0,loose,gpu0,1\n")[0]
    assert 'src "leaf0"' in refused(head + "0,leaf0,gpu0,1\n")[0]
    for text in ("-1", "nan", "inf", "1e999", "2e18", "1_0", "0x10", "", "١"):
        assert refused(head + f"0,gpu0,gpu1,{text}\n") == [
            f'f.csv:2: found bytes "{text}"; expected a number that is not negative, at most 1e+18'
        ]
    assert 'start_s "soon"' in refused(head + "soon,gpu0,gpu1,1\n")[0]
    assert 'sl "16"; expected a service level' in refused("start_s,src,dst,bytes,sl\n0,gpu0,gpu1,1,16\n")[0]
    assert refused(head + "0,gpu0,gpu1\n") == ["f.csv:2: found 3 values; expected 4 values with commas between"]
    assert "a line that is not CSV" in refused(head + '0,"gpu0,gpu1,1\n')[0]


def test_findings_are_collected_and_bounded() -> None:
    head = "start_s,src,dst,bytes\n"
    assert len(refused(head + "0,a,b,-1\n1,c,gpu0,-1\n")) == 3
    assert len(refused(head + "0,a,b,-1\n" * 1000)) == 20


@given(st.lists(st.sampled_from(["gpu0", "gpu1", "gpu2", "a", "b", "nobody"]), min_size=2, max_size=20))
def test_names_that_nobody_has_are_one_finding_that_counts_them(names: list[str]) -> None:
    """A file for another cluster was refused in twenty lines."""
    pairs = [*pairwise(names)]
    text = "start_s,src,dst,bytes\n" + "".join(f"0,{a},{b},1\n" for a, b in pairs)
    strange = [name for name in dict.fromkeys(names) if not name.startswith("gpu")]
    if not strange:
        assert len(parsed(text)) == len(pairs)
        return
    (said,) = refused(text)
    assert f'"{strange[0]}"; expected an adapter port' in said
    others = len(strange) - 1
    assert ("cannot be found either" in said) == bool(others)
    assert not others or f" {others} other name" in said


def test_descriptions_that_are_not_unique_need_a_guid() -> None:
    names = tuple("localhost HCA-1" if name.startswith("gpu") else name for name in FABRIC.names)
    fabric = replace(FABRIC, names=names)
    with pytest.raises(SpecError, match=r'4 ports fit: "0x[0-9a-f]{16}", .*, ...'):
        parse_flows_csv(["start_s,src,dst,bytes", "0,localhost HCA-1,dual:1,1"], fabric)

    names = EndPortNames(fabric)
    ends = range(fabric.n_switches, fabric.n_end_ports - 1)
    assert [names.find(names.unique_name(end)) for end in ends] == [[end] for end in ends]


@given(
    rows=st.lists(
        st.tuples(
            st.floats(0, 1e6),
            st.integers(1, 8),
            st.integers(1, 8),
            st.floats(0, 1e15) | st.integers(0, 2**50),
            st.integers(0, 15),
            st.floats(0, 1e9),
        )
    ),
    played=st.booleans(),
)
def test_round_trip(rows: list[tuple[float, int, int, float, int, float]], played: bool) -> None:
    start, src, dst, size, sl, finish = np.array(rows, float).reshape(-1, 6).T
    flows = Flows.of(src, dst, size, start_s=start, sl=sl.astype(int))
    text = format_flows_csv(FABRIC, flows, finish if played else None)
    again = parsed(text)

    for name in ("src", "dst", "size_bytes", "start_s", "sl"):
        np.testing.assert_array_equal(getattr(again, name), getattr(flows, name))
    if played:
        assert [float(line.rpartition(",")[2]) for line in text.splitlines()[1:]] == finish.tolist()


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for lines in (text.split("\n"), ["start_s,src,dst,bytes", *text.split("\n")]):
        try:
            parse_flows_csv(lines, FABRIC)
        except SpecError as error:
            assert error.findings


def test_reads_files(tmp_path) -> None:
    path = tmp_path / "flows.csv"
    path.write_bytes(b"\xef\xbb\xbfstart_s,src,dst,bytes\r\n0,gpu0,gpu1,7\r\n")

    assert read_flows_csv(path, FABRIC).size_bytes.tolist() == [7]
    with pytest.raises(FormatError, match="cannot be read"):
        read_flows_csv(tmp_path / "absent.csv", FABRIC)
