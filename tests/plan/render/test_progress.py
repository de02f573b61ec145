import logging
import os
import pty
import sys

import pytest

from plan.render.terminal import _told, progress


def shown(monkeypatch: pytest.MonkeyPatch, *, quiet: bool) -> str:
    master, slave = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress(quiet=quiet) as step:
            step("reading the fabric")
            step("playing 5 flows", 0.25)
            step("playing 5 flows", 0.5)
        terminal.write("END")
        terminal.flush()
        monkeypatch.undo()
        told = b""
        while not told.endswith(b"END"):  # a terminal hands over a few kilobytes at a time
            told += os.read(master, 1 << 16)
    os.close(master)
    return told.decode()


def test_a_terminal_sees_what_goes_on_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, quiet=False)
    assert "playing 5 flows" in text
    assert "50 %" in text
    assert "left" in text


def test_nothing_is_shown_when_it_is_to_be_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, quiet=True) == "END"


@pytest.fixture
def no_lines_of_progress() -> None:
    """Here they are what is tested."""


def test_nothing_is_shown_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as step:
        step("playing", 0.5)
    assert capsys.readouterr() == ("", "")


def test_a_log_hears_of_what_takes_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter((0.0, 20.0, 31.0, 31.0, 40.0, 70.0, 70.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with progress() as step:
        step("playing", 0.1)
        step("playing", 0.25)
        step("playing", 0.5)
        step("writing")
    assert capsys.readouterr().err == "plan: playing, 25% done\nplan: writing\n"


def test_a_log_says_once_that_kernels_are_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = logging.getLogger("routing.compiler")
    _told.clear()
    for quiet in (True, False, False):
        with progress(quiet=quiet):
            kernels.info("compiling a")
            kernels.info("compiling b")
    assert capsys.readouterr().err == "plan: compiling a\n"
    with progress(quiet=True):
        kernels.warning("cannot be kept")
    assert capsys.readouterr().err == "cannot be kept\n"
