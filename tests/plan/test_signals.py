"""A signal ends the command whatever it does, with the status that shells count, and nothing half done stays."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plan.files import write_folder

BEGIN = """
import hashlib, os, signal, sys, time
from pathlib import Path
import plan.cli, plan.files
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore them, as nohup does

def interrupt():
    os.kill(os.getpid(), int(sys.argv[1]))
"""


def ended(code: str, number: signal.Signals, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command whose work is this code; it is killed, and the test fails, where it does not end."""
    code = f"{BEGIN}\ndef run(_):\n{code}\nplan.cli.run = run\nplan.cli.main()"
    command = [sys.executable, "-c", code, str(int(number)), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


WORK = {
    "instructions": "    interrupt()\n    while True: pass",
    "waiting": "    interrupt()\n    time.sleep(10**6)",
    "a kernel": "    interrupt()\n    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)",  # an hour, and no GIL
    "a callback": """
    class Deaf:
        def __del__(self): interrupt(); time.sleep(10**6)
    Deaf()
    time.sleep(10**6)""",
    "deaf": """
    try:
        interrupt()
        time.sleep(10**6)
    except BaseException:
        time.sleep(10**6)""",
}


@pytest.mark.parametrize("work", [pytest.param(x, marks=[pytest.mark.slow] * (x != "a kernel")) for x in WORK])
def test_a_signal_ends_the_command_whatever_it_does(work: str) -> None:
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP] if work == "a kernel" else [signal.SIGINT]
    for number in numbers:
        done = ended(WORK[work], number)
        assert done.returncode == 128 + number
        said = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        assert (done.stdout, done.stderr) == ("", f"plan: {said}\n")


def test_a_signal_leaves_nothing_half_done(tmp_path: Path) -> None:
    number = signal.SIGTERM
    out = tmp_path / "out"
    write_folder(out, {"plan.json": "old"})
    code = """
    def interrupted():
        yield b"new"
        interrupt()
        yield from iter(lambda: time.sleep(0.01) or b"new", b"")
    plan.files.write_folder(Path(sys.argv[2]), {"plan.json": interrupted()})"""
    assert ended(code, number, out).returncode == 128 + number
    assert (out / "plan.json").read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_a_signal_does_not_divide_what_must_be_whole(tmp_path: Path) -> None:
    code = """
    with plan.signals.UNDIVIDED:
        interrupt()
        time.sleep(0.3)
        Path(sys.argv[2]).write_text("whole")
    time.sleep(10**6)"""
    assert ended(code, signal.SIGTERM, tmp_path / "file").returncode == 143
    assert (tmp_path / "file").read_text(encoding="utf-8") == "whole"


@pytest.mark.slow
def test_a_command_that_asks_for_it_leaves_off_by_itself() -> None:
    code = """
    with plan.signals.asked() as caught:
        interrupt()
        while not caught: time.sleep(0.01)
    return caught[0]"""
    assert ended(code, signal.SIGTERM).returncode == signal.SIGTERM
    assert ended(code.replace("not caught", "True"), signal.SIGTERM).returncode == 143, "in time"
    twice = code.replace("interrupt()", "plan.signals.GRACE_S = 10**6; interrupt(); time.sleep(0.2); interrupt()")
    assert ended(twice.replace("not caught", "True"), signal.SIGINT).returncode == 130, "at the second"


def test_without_room_for_a_thread_it_is_refused() -> None:
    """As by ``ulimit -u`` or a limit of a container; root has none."""
    code = """
    raise AssertionError
def refuse(thread): raise RuntimeError("can't start new thread")
plan.signals.Thread.start = refuse"""
    done = ended(code, signal.SIGTERM)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("plan: no thread can be started") and "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_nohup_ignores_stays_ignored() -> None:
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); import os\n"
        "from plan.signals import watching\nwith watching(): os.kill(os.getpid(), signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_the_first_moments_of_a_command() -> None:
    """From Python's first line of ours on: no traceback of half an import. What comes before is Python's own."""
    code = "import os, signal, plan.__main__; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run(["env", "--default-signal=INT", sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.slow
def test_a_signal_leaves_no_temporary_folder_and_no_program(tmp_path: Path) -> None:
    code = """
    from plan.opensm_lab.ibsim import _started
    from plan.staging import temporary_folder
    with temporary_folder() as folder, _started(["sleep", "1000"], folder, os.environ, None) as child:
        Path(sys.argv[2]).write_text(f"{folder} {child.pid}")
        interrupt()
        time.sleep(10**6)"""
    assert ended(code, signal.SIGTERM, tmp_path / "told").returncode == 143
    folder, number = (tmp_path / "told").read_text(encoding="utf-8").split()
    assert not Path(folder).exists()
    left = Path("/proc", number, "cmdline")  # a zombie has none
    assert not left.exists() or left.read_bytes() == b""
