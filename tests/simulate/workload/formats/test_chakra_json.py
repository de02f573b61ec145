"""Traces as JSON against the same traces in the wire format, both written here."""

import contextlib
import gzip
import json
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.chakra import node, trace
from simulate.workload.chakra import NodeType
from simulate.workload.formats import chakra
from simulate.workload.formats.chakra import parse_chakra, read_chakra
from topo.errors import FormatError

NAMES = {4: "COMP_NODE", 5: "COMM_SEND_NODE", 6: "COMM_RECV_NODE", 7: "COMM_COLL_NODE"}
Node = tuple[int, int, tuple[int, ...], int, dict[str, int | str | bool]]


def nodes(rng: np.random.Generator) -> list[Node]:
    """Id, type, dependencies (the first a control dependency), microseconds and attributes."""
    found: list[Node] = []
    for number in range(int(rng.integers(1, 9))):
        deps = tuple(rng.integers(0, number, int(rng.integers(0, 4))).tolist()) if number else ()
        attributes: dict[str, int | str | bool] = {"is_cpu_op": bool(rng.integers(2)), "op_schema": "x"}
        if rng.random() < 0.5:
            attributes |= {"comm_size": int(rng.integers(2**60)), "pg_name": 'dp \\ "1"'}
        found.append((number, int(rng.integers(4, 8)), deps, int(rng.integers(2**40)), attributes))
    return found


def jsonized(found: list[Node], indent: int | None = 2) -> str:
    """As protobuf writes messages as JSON: no key for what is 0, numbers of 64 bits as text."""
    values = {bool: "boolVal", int: "int64Val", str: "stringVal"}
    objects: list[dict[str, object]] = [{"version": "0.0.4"}]
    for number, kind, deps, us, attributes in found:
        entry = {"id": str(number), "name": f"n{number}", "type": NAMES[kind], "durationMicros": str(us)}
        attr = [{"name": k, values[type(v)]: str(v) if type(v) is int else v} for k, v in attributes.items()]
        lists = {"ctrlDeps": list(map(str, deps[:1])), "dataDeps": list(map(str, deps[1:])), "attr": attr}
        objects.append({k: v for k, v in (entry | lists).items() if v not in ("0", [])})
    return "".join(json.dumps(one, indent=indent) for one in objects)


def wired(found: list[Node]) -> bytes:
    return trace(*(node(number, kind, deps, us, **attributes) for number, kind, deps, us, attributes in found))


@pytest.mark.parametrize("seed", range(20))
def test_the_same_nodes_come_from_json(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = [nodes(rng) for _ in range(3)]
    for rank, found in enumerate(ranks):
        text = jsonized(found, indent=int(rng.integers(3)) or None).encode()
        (tmp_path / f"j.{rank}.json").write_bytes(gzip.compress(text) if seed % 2 else text)
        (tmp_path / f"w.{rank}.et").write_bytes(gzip.compress(wired(found)) if seed % 2 else wired(found))

    assert read_chakra(tmp_path / "j") == read_chakra(tmp_path / "w")


@pytest.mark.parametrize("before", ["", '"workload_name": "a", "ngpus": 8, '])
def test_reads_what_the_feeder_reads(before: str) -> None:
    graph = [
        {"Id": 3, "Name": "a", "NodeType": 4, "runtime": 318, "data_deps": [], "is_cpu_op": True},
        {"Id": 5, "Name": "b", "NodeType": 7, "ctrlDeps": [99], "data_deps": [3], "comm_size": 64, "is_cpu_op": False},
    ]
    (first, second) = parse_chakra(f'{{{before}"workload_graph": {json.dumps(graph)}, "soc": "x"}}'.encode(), "t.json")

    assert (first.id, first.type, first.deps, first.duration_us) == (3, NodeType.COMP, (), 318)
    assert first.attributes == {"is_cpu_op": True}
    assert (second.id, second.type, second.deps, second.duration_us) == (5, NodeType.COMM_COLL, (3,), 0)
    assert second.attributes == {"comm_size": 64, "is_cpu_op": False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": "1"}\n{"id": "1", "type": "COMP_NODE"', "t.json:2: found .*expected a node as an object of JSON"),
        ('{"id": "1"}\n\n{"id": "1"}', "found node 1 a second time in line 3"),
        ('{"id": "-1"}', "found '-1'; expected the id of a node"),
        ('{"id": 1.5}', "found '1.5'; expected the id of a node"),
        ('{"id": 1, "type": "COMB_NODE"}', "found 'COMB_NODE'; expected the type of a node"),
        ('{"id": 1, "dataDeps": {"a": 1}}', "expected the id of a node"),
        ('{"id": 1, "durationMicros": true}', "found 'True'; expected a duration"),
        ('{"id": 1, "attr": [{"name": "comm_size", "uint64Val": "many"}]}', "found 'many'; expected comm_size"),
        ('{"workload_graph": [{"Id": 1}', "found no end of the list of nodes; is the file whole"),
        (
            '{"schema": "1.0.2-chakra.0.0.4", "nodes": []}',
            "found what PyTorch observed; expected a Chakra trace, which",
        ),
        ("[" * 100_000, "expected a node as an object of JSON"),
        ('{"id": ' + "9" * 9999 + "}", "expected a node as an object of JSON|expected the id"),
    ],
)
def test_refuses_and_says_where(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_chakra(text.encode(), "t.json")


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_an_archive_is_a_folder(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(1)
    files = {f"in/it.{rank}.{end}": nodes(rng) for rank, end in enumerate(("json", "et", "json"))}
    (tmp_path / "in").mkdir()
    for name, found in files.items():
        (tmp_path / name).write_bytes(jsonized(found).encode() if name.endswith("json") else wired(found))
    path = tmp_path / f"runs.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            for name in files:
                zipped.write(tmp_path / name, name)
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as tar:
            tar.add(tmp_path / "in", "in")

    assert read_chakra(path / "in" / "it") == read_chakra(tmp_path / "in" / "it")
    with pytest.raises(FormatError, match=r"found no is.0.et; .*; in it are 'in/it"):
        read_chakra(path / "in" / "is")
    with pytest.raises(FormatError, match=r"or runs.* of an archive"):
        read_chakra(path)
    for damaged in (path.read_bytes()[:300], b"PK\x03\x04" + b"x" * 99, b"nothing"):
        (tmp_path / "bad").write_bytes(damaged)
        with pytest.raises(FormatError, match=r"is no archive|cannot be unpacked"):
            read_chakra(tmp_path / "bad" / "x")


def test_archives_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chakra, "CHAKRA_BYTES", replace(chakra.CHAKRA_BYTES, limit=3000))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("x.0.et", bytes(2000))
        zipped.writestr("x.1.et", bytes(2000))
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(10_000)))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr("/../x.0.et", b"\x1b[2J")
    with pytest.raises(FormatError, match=r"in it are '../x.0.et'"):
        read_chakra(tmp_path / "b.zip" / "x")
    for name in ("a.zip", "a.tgz"):
        with pytest.raises(FormatError, match="chakra-bytes"):
            read_chakra(tmp_path / name / "x")


def test_all_parts_of_a_packed_file_are_read() -> None:
    first, second = (jsonized([(number, 4, (), 5, {})]).encode() for number in (1, 2))
    assert len(parse_chakra(gzip.compress(first) + gzip.compress(second[second.index(b"}") + 1 :]), "t.json")) == 2


def test_what_gzip_cannot_unpack_is_refused() -> None:
    with pytest.raises(FormatError, match="cannot be unpacked"):
        parse_chakra(b"\x1f\x8b\x08" + b"\xff" * 40, "t.et")


@given(st.text(st.sampled_from('{}[]":,1 idtypeCOMPattr\n'), max_size=120))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, jsonized([(1, 4, (), 5, {})]) + text, '{"workload_graph": [' + text):
        with contextlib.suppress(FormatError):
            assert parse_chakra(whole.encode(), "t.json") is not None
