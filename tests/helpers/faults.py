"""Faults at system calls: which calls writing is made of, and how strace ends or fails one of them."""

import re
from pathlib import Path

CALLS = "write,openat,close,rename,renameat2,fsync,mkdir,rmdir,unlink,unlinkat,chmod,chown,link,flock"
"""System calls that writing is made of; `openat`, `close` and `flock` are its steps too."""

ENDS = {
    "SIGKILL": ("signal=SIGKILL", {-9}),
    "SIGTERM": ("signal=SIGTERM", {143, -15, 0}),
    "full": ("error=ENOSPC", {0, 2}),
}
"""Each way to end, for strace, with the statuses that a command may then end with.

After SIGTERM, -15 where its handler was not set any more, and 0 where it came after the last step: nobody saw it.
"""


def traced(log: Path, *options: str) -> list[str]:
    return ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={CALLS}", *options]


def find_calls(log: Path) -> list[tuple[str, int]]:
    """Return the calls of a trace from the first staging directory on, each with its number among all of its name."""
    times: dict[str, int] = {}
    calls: list[tuple[str, int]] = []
    for line in log.read_text(encoding="utf-8").splitlines():
        if call := re.match(r"\d+ +(\w+)\(", line):
            times[call[1]] = times.get(call[1], 0) + 1
            if calls or ("mkdir" in call[1] and ".heddle-staging" in line):
                calls.append((call[1], times[call[1]]))
    return calls
