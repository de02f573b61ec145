"""Where output goes, and how wide it is there."""

import io
import sys

import pytest

from plan.render.terminal import WIDTH, console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("error", [False, True])
def test_only_what_is_no_terminal_has_a_fixed_width(monkeypatch: pytest.MonkeyPatch, error: bool) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH + 7))
    monkeypatch.setattr(sys, "stderr" if error else "stdout", Terminal())
    monkeypatch.setattr(sys, "stdout" if error else "stderr", io.StringIO())
    assert console(error=error).width == WIDTH + 7
    assert console(error=not error).width == WIDTH
