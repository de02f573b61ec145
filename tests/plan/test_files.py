"""One file is written whole or not at all, and nothing that must stay is written over."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import plan.staging
from plan.files import check_writable, write_file, write_together
from plan.staging import Content
from topo.errors import HeddleError


def failing() -> Iterator[bytes]:
    yield b"half"
    raise OSError(28, "No space left on device")


def test_an_older_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_file(path, "one\n")
    path.chmod(0o640)
    with pytest.raises(HeddleError, match="No space left"):
        write_file(path, failing())
    assert path.read_text() == "one\n"
    write_file(path, iter([b"two", b"\n"]))

    assert path.read_text() == "two\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path], "nothing is left beside it"


def test_a_new_file_is_as_open_as_the_user_wants(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_file(tmp_path / "a", b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_links_and_pipes_are_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_file(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    reading, writing = os.pipe()
    write_file(Path(f"/dev/fd/{writing}"), "through")
    os.close(writing)
    with os.fdopen(reading) as stream:
        assert stream.read() == "through"


def test_what_is_there_is_not_touched_where_a_new_file_is_asked_for(tmp_path: Path) -> None:
    for name in ("file", "link"):
        path = tmp_path / name
        path.write_text("mine") if name == "file" else path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(HeddleError, match="a file that exists"):
            write_file(path, "new", new=True)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_only_an_older_file_of_the_same_kind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    for text, able in (("", True), ("<svg>", True), ("mine", False)):
        path.write_text(text)
        if able:
            check_writable(path, kind="SVG", magic=b"<svg")
        else:
            with pytest.raises(HeddleError, match="no SVG"):
                check_writable(path, kind="SVG", magic=b"<svg")
    with pytest.raises(HeddleError, match="an input"):
        check_writable(path, [path])


def test_a_signal_that_comes_while_a_new_file_is_written_leaves_none(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"half"
        assert not path.exists()
        raise KeyboardInterrupt

    path = tmp_path / "new"
    with pytest.raises(KeyboardInterrupt):
        write_file(path, failing(), new=True)
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_where_a_new_file_is_to_be_stays(tmp_path: Path) -> None:
    def meanwhile() -> Iterator[bytes]:
        (tmp_path / "new").write_text("mine")
        yield b"ours"

    with pytest.raises(HeddleError, match="a file that exists"):
        write_file(tmp_path / "new", meanwhile(), new=True)
    assert (tmp_path / "new").read_text() == "mine"


@pytest.mark.parametrize("able", [True, False], ids=["renameat2", "without"])
def test_files_beside_one_another_are_all_written_or_none(
    able: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them fills the disk, or comes where somebody else has just put one."""
    if not able:
        monkeypatch.setattr(plan.staging, "_rename", lambda *_: False)

    def meanwhile(path: Path) -> Iterator[bytes]:
        path.write_text("mine")
        yield b"ours"

    for bad in range(3):
        for how, said in ((failing(), "No space left"), (meanwhile(tmp_path / f"{bad}"), "exists|Not a dir")):
            contents: list[Content | dict[str, Content]] = [{"a": "1", "b": "2"}, "3", "4"]
            contents[bad] = {"a": "1", "b": how} if bad == 0 else how
            with pytest.raises(HeddleError, match=said):
                write_together({tmp_path / str(place): content for place, content in enumerate(contents)})
            kept = [f"{bad}"] if said.startswith("exists") else []
            assert [path.name for path in tmp_path.iterdir()] == kept
            if kept:
                assert (tmp_path / f"{bad}").read_text() == "mine"
                (tmp_path / f"{bad}").unlink()
    write_together({tmp_path / "0": {"a": "1", "b": "2"}, tmp_path / "1": "3"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0", "1", "a", "b"]


def test_a_link_to_a_file_keeps_the_older_one_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", "old")
    with pytest.raises(HeddleError, match="No space left"):
        write_file(tmp_path / "link", failing())
    assert (tmp_path / "target").read_text() == "old"
    assert (tmp_path / "link").is_symlink()
