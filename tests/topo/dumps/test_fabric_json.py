"""A fabric that is written and read back is the same, field by field and byte by byte; anything else is refused."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.presets import EACH
from helpers.strategies import fabrics
from helpers.twins import MACHINES, twin
from topo.dumps.fabric_json import ORDER, format_fabric, parse_fabric
from topo.errors import FormatError, HeddleError
from topo.fabric import Fabric


def assert_same(fabric: Fabric, other: Fabric) -> None:
    for item in fields(Fabric):
        if item.name == "notes":
            continue
        ours, theirs = getattr(fabric, item.name), getattr(other, item.name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype, item.name
            assert not theirs.flags.writeable, item.name
            np.testing.assert_array_equal(ours, theirs, err_msg=item.name)
        else:
            assert ours == theirs, item.name


def test_every_field_is_written() -> None:
    assert {*ORDER, "notes"} == {item.name for item in fields(Fabric)}


@pytest.mark.parametrize("name", EACH)
def test_every_preset_is_read_back_whole(name: str) -> None:
    cluster = topo.preset(name)
    for fabric in cluster.cabled[:2]:
        text = format_fabric(fabric)
        assert_same(parse_fabric(text), fabric)
        assert format_fabric(parse_fabric(text)) == text
    assert (len(cluster.cabled[0].length_m) > 0) == (cluster.spec.floor is not None)


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_every_real_fabric_is_read_back_whole(name: str) -> None:
    fabric = twin(name)
    assert_same(parse_fabric(format_fabric(fabric)), fabric)


@given(fabrics(), st.data())
def test_any_fabric_is_read_back_whole(fabric: Fabric, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    more = {
        "name": data.draw(st.text(st.characters(categories=["L", "N", "P", "S"]))),
        "discovered_lid": rng.permutation(0xC000)[: fabric.n_end_ports].astype(np.uint16),
        "length_m": np.where(rng.random(fabric.n_ports) < 0.5, np.nan, rng.random(fabric.n_ports) * 100),
        "node_guid": rng.integers(0, 2**64, fabric.n_nodes, np.uint64),
        "zone": rng.integers(-1, 4, fabric.n_nodes).astype(np.int16),
        "engine": "dfsssp",
        "traffic": (topo.TrafficClass(name="storage", sl=3, vl=1, weight=64, roles=(topo.Role.STORAGE,)),),
    }
    fabric = replace(fabric, **more)
    text = format_fabric(fabric)

    assert_same(parse_fabric(text), fabric)
    assert format_fabric(parse_fabric(text)) == text


def test_a_file_is_read_back(tmp_path: Path) -> None:
    fabric = topo.preset("lab-20").fabric
    topo.write_fabric(fabric, tmp_path / "fabric.json")
    assert_same(topo.read_fabric(tmp_path / "fabric.json"), fabric)
    (tmp_path / "fabric.json").write_bytes(b"\xff")
    with pytest.raises(HeddleError, match="found the byte 0xff"):
        topo.read_fabric(tmp_path / "fabric.json")


@pytest.mark.parametrize("text", ["{}", '{"format": "heddle-fabric", "devices": []}', "nothing"])
def test_what_is_of_neither_kind_is_refused_as_a_fabric_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(FormatError, match=r"some.json: (is not|has the version)"):
        topo.read_fabric(tmp_path / "some.json")


LAB = json.loads(format_fabric(topo.preset("lab-20").fabric))
N = len(LAB["kind"])
WRONG = {
    "version": (1, "has the version 1; expected 2"),
    "lmc": (8, "`lmc`; expected a whole number from 0 to 7"),
    "more": ([], "lacks, or has too much of, more"),
    "name": (None, "something else in `name`; expected text"),
    "engine": (3, "something else in `engine`; expected text"),
    "kind": ([9] * N, "`kind`; expected whole numbers from 0 to 4"),
    "role": ([0.5] * N, "`role`; expected whole numbers from 0 to 8"),
    "level": (["1"] * N, "`level`; expected whole numbers"),
    "zone": ([[1]] * N, "`zone`; expected whole numbers"),
    "host": ([10**30] * N, "`host`; expected"),
    "model": ([99] * N, "names a model that is not in `models`"),
    "hosts": ([], "has servers in `hosts` and others in `host`"),
    "names": (["a"], "lists of nodes of unequal length"),
    "models": ([1], "`models`; expected printable text in a list"),
    "node_guid": (["0x1" + "0" * 16] * N, "`node_guid`; expected numbers"),
    "port_guid": ([7], "`port_guid`; expected numbers"),
    "port_offset": ([0] * (N + 1), "has `port_offset` that does not count the ports"),
    "peer": ([0] * len(LAB["peer"]), "has links in `peer` whose two ends disagree"),
    "width": ([3] * len(LAB["width"]), "has a link width that is none of 1, 2, 4, 8, 12"),
    "speed": ([0], "lists of ports of unequal length"),
    "discovered_lid": ([1], "`discovered_lid` or `length_m` of another length"),
    "length_m": ([-1.0], "`length_m`; expected metres"),
    "traffic": ([{"name": "all"}], "`traffic`; expected classes of traffic"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_fabric_is_refused(name: str) -> None:
    value, says = WRONG[name]
    with pytest.raises(FormatError, match=f"^f: .*{says}"):
        parse_fabric(json.dumps(LAB | {name: value}), "f")


def test_switches_come_first() -> None:
    kind = LAB["kind"][::-1]
    with pytest.raises(FormatError, match="has a switch behind a node of another kind"):
        parse_fabric(json.dumps(LAB | {"kind": kind}))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": "other"}', "[" * 100_000, '{"a": NaN}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match=r"is not JSON|is not a fabric of Heddle"):
        parse_fabric(text)


@given(st.data())
@pytest.mark.slow
def test_hostile_values_are_refused_or_make_a_fabric(data: st.DataObject) -> None:
    value = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers(-3, 300), max_size=5)
    )
    names = data.draw(st.lists(st.sampled_from(ORDER), min_size=1, max_size=4))
    document = LAB | {name: data.draw(st.one_of(value, st.lists(value, max_size=4))) for name in names}
    try:
        fabric = parse_fabric(json.dumps(document))
    except FormatError:
        return
    assert fabric.counts().switches == fabric.n_switches
    fabric.to_networkx()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discovered_lid", lambda old: [1] * len(old)),
        ("discovered_lid", lambda old: [0xC000] + [0] * (len(old) - 1)),
        ("name", lambda old: "\x1b[31mred"),
        ("engine", lambda old: "auto\n"),
        ("version", lambda old: True),
    ],
)
def test_what_a_forger_would_write_is_refused(name: str, value) -> None:
    """Two end ports with one LID crashed an engine; a name with an escape sequence reached the terminal."""
    fabric = topo.preset("lab-20").fabric
    document = json.loads(format_fabric(replace(fabric, discovered_lid=np.zeros(fabric.n_end_ports, np.uint16))))
    document[name] = value(document[name])
    with pytest.raises(FormatError):
        parse_fabric(json.dumps(document))
