"""Chakra execution traces: what one rank of a run did, node after node (but for JSON, needs the extra ``chakra``).

A file is a sequence of protocol buffers, each behind its length as a varint: a ``GlobalMetadata``, then ``Node`` after
``Node``. The fields are those of MLCommons' ``schema/protobuf/et_def.proto``; those that Heddle does not need are not
declared here, and pass as unknown fields do. Rank r of a run is the file ``name.r.et``, or ``name.r.json``
(`simulate.workload.formats.chakra_json`); either may be packed by gzip, as Chakra's tools read it.

A node waits for those that it names as data dependencies, and for its control dependencies, but not in traces of
PyTorch (some node has ``rf_id``): there a control dependency names the operation that called this one, which may not
be in the trace, or be the node itself. Chakra's own feeder follows data dependencies alone.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from simulate.workload.chakra import ATTRIBUTES, ChakraNode
from simulate.workload.formats.chakra_json import parse_nodes
from topo.budget import CHAKRA_BYTES, CHAKRA_DEPENDENCIES, CHAKRA_NODE_BYTES, CHAKRA_NODES
from topo.errors import FormatError, HeddleError
from topo.files.text import read_file, unpacked

MAX_RANKS = 49_151

FIELDS = {
    "AttributeProto": "name:1:string double_val:3:double float_val:5:float int32_val:7:int32 int64_val:9:int64 "
    "uint32_val:11:uint32 uint64_val:13:uint64 sint32_val:15:sint32 sint64_val:17:sint64 fixed32_val:19:fixed32 "
    "fixed64_val:21:fixed64 sfixed32_val:23:sfixed32 sfixed64_val:25:sfixed64 bool_val:27:bool string_val:29:string",
    "GlobalMetadata": "version:1:string",
    "Node": "id:1:uint64 name:2:string type:3:int32 ctrl_deps:4:uint64* data_deps:5:uint64* duration_micros:7:uint64 "
    "attr:10:message*",
}
"""Fields of each message as ``name:number:type``, repeated ones with a star; the values of an attribute are a oneof."""


def read_chakra(prefix: str | Path) -> tuple[tuple[ChakraNode, ...], ...]:
    """Read the traces of all ranks: ``prefix.0.et`` or ``prefix.0.json``, ``prefix.1.et``, and so on without a gap.

    An archive (``.zip`` or ``.tar``, or a ``.tar`` packed by gzip) stands for a folder: ``runs.tgz/step`` are the files
    ``step.0.et``, ... in it.

    Raises
    ------
    FormatError
        When the first is not there, one cannot be read, or is too large.
    """
    prefix = Path(prefix)
    archive = next((folder for folder in prefix.parents if folder.is_file()), None)
    packed = read_archive(archive) if archive else {}
    traces: list[tuple[ChakraNode, ...]] = []
    dependencies = 0
    while len(traces) <= MAX_RANKS:
        paths = [prefix.with_name(f"{prefix.name}.{len(traces)}.{kind}") for kind in ("et", "json")]
        if archive:
            found = next(((at, packed[at]) for at in paths if at in packed), None)
        else:
            found = next(((at, read_file(at, CHAKRA_BYTES)) for at in paths if at.is_file()), None)
        if found is None:
            break
        path = str(found[0])
        traces.append(parse_chakra(found[1], path))
        if sum(map(len, traces)) > CHAKRA_NODES.limit:
            raise CHAKRA_NODES.exceeded(path)
        if (dependencies := dependencies + sum(len(node.deps) for node in traces[-1])) > CHAKRA_DEPENDENCIES.limit:
            raise CHAKRA_DEPENDENCIES.exceeded(path)
    if not traces:
        expected = f"a file {prefix.name}.<rank>.et or {prefix.name}.<rank>.json for each rank"
        there = ", ".join(repr(at.relative_to(archive).as_posix())[:60] for at in [*packed][:5]) if archive else ""
        hint = f"; in it are {there}" if there else f", or {prefix.name}/<name> of an archive" * prefix.is_file()
        raise FormatError(f"found no {prefix.name}.0.et; expected {expected}{hint}", str(prefix))
    return tuple(traces)


def read_archive(path: Path) -> dict[Path, bytes]:
    """Return the files in an archive, as if it were a folder.

    Raises
    ------
    FormatError
        When it is none, damaged, or unpacks to more than `CHAKRA_BYTES`.
    """
    data = unpacked(read_file(path, CHAKRA_BYTES), CHAKRA_BYTES, str(path))
    files: dict[Path, bytes] = {}
    left = CHAKRA_BYTES.limit
    try:
        with (
            zipfile.ZipFile(BytesIO(data))
            if data[:2] == b"PK"
            else tarfile.open(fileobj=BytesIO(data), mode="r:") as opened
        ):
            if isinstance(opened, zipfile.ZipFile):
                members = ((one.filename, opened.open(one)) for one in opened.infolist() if not one.is_dir())
            else:
                inside = ((one.name, opened.extractfile(one)) for one in opened if one.isfile())
                members = ((name, file) for name, file in inside if file)
            for name, member in members:
                files[Path(f"{path}/{name}")] = content = member.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise CHAKRA_BYTES.exceeded(str(path))
    except (FormatError, MemoryError):
        raise
    except Exception as error:  # the libraries raise whatever they stumble over in a damaged file
        reason = f"{type(error).__name__}: {error}"[:200]
        raise FormatError(
            f"is no archive that can be read ({reason}); expected .zip, .tar or .tar.gz", str(path)
        ) from None
    return files


def parse_chakra(data: bytes, path: str = "trace.et") -> tuple[ChakraNode, ...]:
    """Parse the trace of one rank: JSON where the name of the file ends so, else protocol buffers.

    Raises
    ------
    FormatError
        With the place in the file of what is no node, or of the node that is there twice.
    HeddleError
        When the library protobuf is not installed.
    """
    data = unpacked(data, CHAKRA_BYTES, path)
    found = parse_nodes(data.decode("utf-8", "replace"), path) if path.endswith(".json") else _nodes(data, path)
    nodes: dict[int, ChakraNode] = {}
    callers = False
    control: dict[int, tuple[int, ...]] = {}
    dependencies = 0
    for where, node, callers_of, called in found:
        if node.id in nodes:
            raise FormatError(f"found node {node.id} a second time {where}; expected each id once", path)
        dependencies += len(callers_of) + len(node.deps)
        if len(nodes) == CHAKRA_NODES.limit:
            raise CHAKRA_NODES.exceeded(path)
        if dependencies > CHAKRA_DEPENDENCIES.limit:
            raise CHAKRA_DEPENDENCIES.exceeded(path)
        callers |= called
        control[node.id] = callers_of
        nodes[node.id] = node
    if callers:
        return tuple(nodes.values())
    return tuple(replace(node, deps=tuple(dict.fromkeys(control[node.id] + node.deps))) for node in nodes.values())


def _nodes(data: bytes, path: str) -> Iterator[tuple[str, ChakraNode, tuple[int, ...], bool]]:
    """Yield of each protocol buffer what `parse_nodes` yields of each object of JSON."""
    types = message_types()
    from google.protobuf.message import DecodeError

    for number, (at, payload) in enumerate(_messages(data, path)):
        message = types["Node" if number else "GlobalMetadata"]()
        try:
            message.ParseFromString(payload)
        except DecodeError:
            kind = "a node" if number else "the metadata of a Chakra trace"
            raise FormatError(f"found no {kind.partition(' ')[2]} at byte {at}; expected {kind}", path) from None
        if number == 0:
            continue
        node = ChakraNode(
            id=message.id,
            name=message.name,
            type=message.type,
            deps=tuple(dict.fromkeys(message.data_deps)),
            duration_us=message.duration_micros,
            attributes={
                item.name: getattr(item, field)
                for item in message.attr
                if item.name in ATTRIBUTES and (field := item.WhichOneof("value"))
            },
        )
        yield f"at byte {at}", node, tuple(message.ctrl_deps), any(item.name == "rf_id" for item in message.attr)


def _messages(data: bytes, path: str) -> Iterator[tuple[int, bytes]]:
    if not data:
        raise FormatError("found an empty file; expected a Chakra trace", path)
    at = 0
    while at < len(data):
        start = at
        length = shift = 0
        while True:
            if at == len(data) or shift > 28:
                raise FormatError(f"found no length of a message at byte {start}; is the file whole?", path)
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        if length > CHAKRA_NODE_BYTES.limit:
            raise CHAKRA_NODE_BYTES.exceeded(f"{path}, byte {start}")
        if length > len(data) - at:
            raise FormatError(
                f"found a message of {length:,} bytes at byte {start}, and {len(data) - at:,} bytes left; "
                f"is the file whole?",
                path,
            )
        yield start, data[at : at + length]
        at += length


@cache
def message_types() -> dict[str, Any]:
    """Return the classes of messages by name, made from the fields that are read here."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise HeddleError("Chakra traces need protobuf: pip install 'heddle-fabric[chakra]'") from None
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="heddle_chakra.proto", package="heddle.chakra", syntax="proto3")
    for name, declared in FIELDS.items():
        message = file.message_type.add(name=name)
        for item in declared.split():
            title, number, kind = item.split(":")
            label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            value = field.Type.Value(f"TYPE_{kind.rstrip('*').upper()}")
            message.field.add(name=title, number=int(number), type=value, label=label)
    attribute, node = file.message_type[0], file.message_type[-1]
    attribute.oneof_decl.add(name="value")
    for one in attribute.field[1:]:
        one.oneof_index = 0
    node.field[-1].type_name = ".heddle.chakra.AttributeProto"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"heddle.chakra.{name}")) for name in FIELDS
    }
