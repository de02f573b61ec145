import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from topo.budget import YAML_BYTES, YAML_DEPTH, YAML_VALUES
from topo.errors import SpecError
from topo.files.yaml import KEY, Document, parse_yaml, read_yaml


def size(document: Document) -> int:
    """Values of a document, which all have a place."""
    return sum(path[-1:] != (KEY,) for path in document.positions)


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_yaml(text, "f")
    (finding,) = caught.value.findings
    return str(finding)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("-3", -3),
        ("0x10", 16),
        ("0o10", 8),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("yes", "yes"),
        ("NO", "NO"),
        ("True", True),
        ("~", None),
        ("null", None),
        ("12:30", "12:30"),
        ("2024-08-31", "2024-08-31"),
        ("1_000", "1_000"),
        ("'10'", "10"),
        ('"true"', "true"),
        ("|\n 10\n", "10\n"),
        ("<<", "<<"),
    ],
    ids=str,
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    found = parse_yaml(text, "f").value
    assert (found, type(found)) == (value, type(value))


def test_places_are_those_of_the_text() -> None:
    document = parse_yaml("a: 1\nb:\n  - x\n  - {c: [2,\n    3]}\n", "f")
    assert document.where() == "f:1:1"
    assert document.where("b", KEY) == "f:2:1"
    assert document.where("b", 1, "c") == "f:4:9"
    assert document.where("b", 1, "c", 1) == "f:5:5"
    assert document.where("b", 1, "c", 2, "d") == "f:4:9", "as far as the path leads"
    assert document.reach("b", 1, "c", 2, "d") == (("b", 1, "c"), [2, 3])
    assert document.value == {"a": 1, "b": ["x", {"c": [2, 3]}]}


def test_aliases_stand_for_their_anchor() -> None:
    document = parse_yaml("a: &x {b: &y 1}\nc: *x\nd: [*y, *y]\n", "f")
    assert document.value == {"a": {"b": 1}, "c": {"b": 1}, "d": [1, 1]}
    assert document.where("c") == "f:2:4"
    assert document.where("c", "b") == "f:1:11"
    assert size(document) == 8  # three collections at a and c each with one scalar, d with two, the root itself


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", "f:2:11", "the key `c` a second time"),
        ("a: *b\n", "f:1:4", "the alias *b"),
        ("a: &b [*b]\n", "f:1:8", "the alias *b"),
        ("a: !!python/object/apply:os.system [ls]\n", "f:1:4", "the tag !!python"),
        ("a: !x {}\n", "f:1:4", "the tag !x"),
        ("%TAG ! tag:evil,2000:\n---\n!x a\n", "f:3:1", "the tag tag:evil"),
        ("a: 1\n---\nb: 2\n", "f:2:1", "a second document"),
        ("%YAML 1.1\n---\na: 1\n", "f:2:1", "YAML 1.1"),
        ("a: [1, 2\nb: 3\n", "f:2:2", "not YAML"),
        ("\ta: 1\n", "f:1:1", "not YAML"),
        ("a: 'x\n", "f:2:1", "not YAML"),
        ("a: b\x07\n", "f:1:5", "U+0007"),
        ("%YAML 1." + "9" * 5000 + "\n--- a\n", "f:1:1", "not YAML"),
        ('a: "\\x1b[2J"\n', "f:1:4", "an escape for the character U+001B"),
        ('a: "\\ud800"\n', "f:1:4", "an escape for the character U+D800"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', "f:2:5", "the escape \\UFFFFFFFF"),
        ('b: "\\U00110000"\n', "f:1:5", "the escape \\U00110000"),
        ("a: 1\n? [x]\n: 2\n", "f:2:3", "a list of 1 as a key"),
        ("1: a\n", "f:1:1", "the number 1 as a key"),
        ("k" * 300 + ": 1\n", "f:1:1", "a key of 300 characters"),
        ("a: " + "9" * 5000, "f:1:4", "a number of 5,000 digits"),
        ("a: 1\nb: !" + "x" * 20_000, "f:2:1", "a line of 20,004 characters"),
        ("", "f:1:1", "an empty file"),
        ("# nothing\n", "f:1:1", "an empty file"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_refusals(text: str, where: str, what: str) -> None:
    said = refusal(text)
    assert said.startswith(f"{where}: found ")
    assert what in said


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "{"])
def test_depth_is_bounded_before_it_recurses(opening: str) -> None:
    assert "levels" in refusal(("" if opening == "- " else "x: ") + opening * 2000)


def test_a_list_of_exactly_the_depth_is_read() -> None:
    assert size(parse_yaml("[" * YAML_DEPTH.limit + "]" * YAML_DEPTH.limit, "f")) == YAML_DEPTH.limit
    assert "levels" in refusal("[" * (YAML_DEPTH.limit + 1) + "]" * (YAML_DEPTH.limit + 1))


def test_aliases_count_as_what_they_stand_for() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]" for i in range(60)]
    assert "more than 20,000 values" in refusal("\n".join(lines))


@pytest.mark.slow
def test_values_are_bounded() -> None:
    exactly = "[" + ",\n".join(["1"] * (YAML_VALUES.limit - 1)) + "]"
    assert size(parse_yaml(exactly, "f")) == YAML_VALUES.limit
    assert "more than 20,000 values" in refusal("[" + ",\n".join(["1"] * YAML_VALUES.limit) + "]")


def plain_values() -> st.SearchStrategy[object]:
    scalars = (
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | st.text(max_size=8)
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4),
        max_leaves=12,
    )


@given(st.text(alphabet="ab1:-[]{},&*!|>'\"%#?~\n \t<.@`\\xé\x00\x1b\u2028\ud800", max_size=80) | st.text(max_size=80))
def test_junk_is_read_or_refused(text: str) -> None:
    try:
        document = parse_yaml(text, "f")
    except SpecError as error:
        assert len(error.findings) == 1
        assert error.findings[0].where.startswith("f:")
    else:
        assert size(document) <= YAML_VALUES.limit


@given(st.binary(max_size=200))
def test_junk_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "junk.yaml"
    path.write_bytes(data)
    try:
        read_yaml(path)
    except SpecError as error:
        assert error.findings[0].where.startswith(str(path))


@given(plain_values())
@example({":0": None})  # which ruamel writes as {:0: null}, and refuses to read
def test_agrees_with_ruamel(value: object) -> None:
    """What ruamel writes as YAML 1.2 we read as ruamel does, and refuse where ruamel does."""
    stream = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.dump(value, stream)
    try:
        theirs = yaml.load(stream.getvalue())
    except YAMLError:
        with pytest.raises(SpecError):
            parse_yaml(stream.getvalue(), "f")
        return
    try:
        found = parse_yaml(stream.getvalue(), "f").value
    except SpecError as error:
        assert "U+" in str(error) or "tag" in str(error)  # not printable, which ruamel writes as it is, or as !!binary
    else:
        assert found == theirs


def test_large_files_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    code = (
        "import resource, sys; from pathlib import Path; from topo.errors import SpecError\n"
        "from topo.files.yaml import read_yaml\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_yaml(Path(sys.argv[1]))\n"
        "except SpecError as error: print(error)\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: found a file of 100,000,000 bytes; expected {YAML_BYTES}\n"


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, what in [
        (tmp_path, "a folder"),
        (pipe, "a pipe"),
        (Path("/dev/zero"), "a device"),
        (tmp_path / "none", "no such file"),
        (tmp_path / "none" / "\0", "cannot be opened"),
        (loop, "cannot be opened"),
        (tmp_path / ("n" * 300), "cannot be opened"),
    ]:
        with pytest.raises(SpecError, match=what):
            read_yaml(path)


def test_no_permission(tmp_path: Path) -> None:
    """As root, who may read everything, the file is read by a child that has become nobody."""
    path = tmp_path / "secret.yaml"
    path.write_text("a: 1\n", encoding="utf-8")
    path.chmod(0)
    message = f"{path}: found a file that cannot be opened (Permission denied); expected a readable file"
    if os.geteuid() != 0:
        with pytest.raises(SpecError) as caught:
            read_yaml(path)
        assert str(caught.value) == message
        return
    child = os.fork()
    if child == 0:  # no assertion here: pytest's own machinery belongs to the parent
        status = 1
        try:
            os.setuid(65534)
            read_yaml(path)
        except SpecError as error:
            # Without its folders' permission nobody can't even look it up; the reason is the same.
            status = 0 if str(error) == message else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("data", "where", "what"),
    [
        (b"a: 1\nb: \xff\n", ":2", "the byte 0xff"),
        (b"a: 1\0\n", ":1", "a NUL byte"),
        ("a: 1\n".encode("utf-16"), ":1", "the byte 0xff"),
    ],
    ids=["latin", "nul", "utf-16"],
)
def test_what_is_no_text_is_refused(data: bytes, where: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(f"{path}{where}: found {what}")


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_yaml(path).value == {"a": 1}
