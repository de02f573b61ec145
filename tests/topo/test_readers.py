"""What a reader says of a file or a text that another one takes, and of what nobody can mean."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulate
import topo

LAB = topo.preset("lab-20").fabric


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["lab.ibnetdiscover", "lab.yaml", "lab.json"])
def test_a_fabric_in_place_of_a_spec(tmp_path: Path, name: str, packed: bool) -> None:
    text = topo.format_fabric(LAB) if name.endswith(".json") else topo.format_ibnetdiscover(LAB)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(
        topo.SpecError, match=r"found a fabric; expected the spec of a cluster.*in Python `topo\.read_fabric`"
    ):
        topo.read(path)


def test_a_spec_in_place_of_a_fabric(tmp_path: Path) -> None:
    with pytest.raises(topo.FormatError, match=r"`topo\.read` reads the spec of a cluster"):
        topo.read_fabric(topo.config_root() / "lab-20.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: [")
    with pytest.raises(topo.SpecError, match="not YAML"):
        topo.read(broken)


@pytest.mark.parametrize(
    ("parse", "reader"),
    [
        (topo.parse, "topo.read"),
        (lambda text: simulate.parse_workload(text, LAB), "simulate.read_workload"),
        (simulate.cluster.parse_queue, "simulate.cluster.read_queue"),
    ],
)
def test_the_name_of_a_file_in_place_of_its_text(parse, reader: str) -> None:
    for name in ("configs/lab-20.yaml", "mine.yml", "/no/such folder/queue.yaml", Path("spec.yaml"), Path("lab-20")):
        with pytest.raises(topo.SpecError, match=re.escape(f"`{reader}` reads files")):
            parse(name)
    with pytest.raises(topo.SpecError, match="expected a mapping"):
        parse("lab-20")


surrogate = st.text(st.characters(codec=None), max_size=5).map(lambda text: text + "\ud83d")
spots = st.sampled_from([("name",), ("nodes", "gpu", "model"), ("network", "switch"), ("nodes",)])


@given(surrogate, spots, st.booleans())
def test_text_that_no_file_can_hold_is_refused_in_text_that_one_can(text: str, spot: tuple, as_key: bool) -> None:
    spec = topo.preset("lab-20").spec.model_dump(exclude_unset=True, mode="json")
    inside = spec
    for key in spot[:-1]:
        inside = inside[key]
    inside[text if as_key else spot[-1]] = text
    with pytest.raises(topo.SpecError) as refused:
        topo.parse(spec)
    str(refused.value).encode()
    assert "printable" in str(refused.value)


@pytest.mark.parametrize("size", [0, 0.0, True, False, -1, float("nan"), float("inf"), "0 B", "1"])
def test_a_size_that_is_none(size: object) -> None:
    for make in (simulate.allreduce, simulate.all_to_all):
        with pytest.raises(topo.HeddleError, match=r"^found .*; expected "):
            make(LAB.ends(), size)


@pytest.mark.parametrize("field", ["node_guid", "hosts"])
def test_a_fabric_file_that_names_two_things_alike(tmp_path: Path, field: str) -> None:
    document = json.loads(topo.format_fabric(LAB))
    document[field][1] = document[field][0]
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(document))
    with pytest.raises(topo.FormatError, match="twice"):
        topo.read_fabric(path)


@pytest.mark.parametrize("nameless", [0, 1, 5, 22])
def test_adapters_that_name_no_server_are_noted_with_the_servers_that_they_count_as(
    tmp_path: Path, nameless: int
) -> None:
    adapters = np.flatnonzero(LAB.kind == topo.Kind.HCA)[:nameless].tolist()
    names = [
        "MT4129 ConnectX7   Mellanox Technologies" if at in adapters else name for at, name in enumerate(LAB.names)
    ]
    (tmp_path / "dump").write_text(topo.format_ibnetdiscover(replace(LAB, names=tuple(names))))
    fabric = topo.read_fabric(tmp_path / "dump")
    named = {LAB.server_of(node) for node in np.flatnonzero(LAB.kind == topo.Kind.HCA) if node not in adapters}
    assert len(fabric.hosts) == len(named) + nameless
    said = (
        [f"{nameless} adapter", f"ConnectX7   Mellanox Technologies', count as {nameless} server"] if nameless else []
    )
    assert len(fabric.notes) == bool(nameless) and all(part in fabric.notes[0] for part in said)
