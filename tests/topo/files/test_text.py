"""Reading from pipes: those who write are waited for, as long as somebody has the other end."""

import os
import select
import time

import pytest

from topo.files.text import _Pipe


def test_while_a_pipe_is_held_the_kernel_says_when_there_is_something(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    monkeypatch.setattr(select, "select", lambda *_: os.write(write, b"late"))
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it looks again and again"))
    buffer = bytearray(9)
    with _Pipe(read, "pipe") as pipe:
        assert (pipe.readinto(buffer), bytes(buffer[:4])) == (4, b"late")
    os.close(write)


def test_before_anybody_holds_a_pipe_it_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a pipe is always ready, at its end: to wait for it would be to spin."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.close(write)
    waits: list[float] = []

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        raise TimeoutError

    monkeypatch.setattr(select, "select", lambda *_: pytest.fail("it spins"))
    monkeypatch.setattr(time, "sleep", sleep)
    with _Pipe(read, "pipe") as pipe, pytest.raises(TimeoutError):
        pipe.readinto(bytearray(9))
    assert len(waits) == 1
