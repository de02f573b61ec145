"""Runs the fuzzer: ``python -m fuzz.run --seed 1 --inputs 2000`` prints what it finds, and leaves with 1 if it does.

An input is a finding when the reader raises anything but a `topo.HeddleError`, takes more than `MOST_S` of CPU or
`MOST_MB` of memory, or, of a command, when it prints a traceback or a control character, ends with another status than
0 to 3, or touches a file outside of OUT. A crash of the interpreter names its input too: it is written down first.
"""

import argparse
import faulthandler
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import topo
from fuzz.mutators import mutated
from fuzz.targets import CORPUS, SCALE, Target, build, pick

MOST_S = 5.0
"""CPU seconds of an input."""
MOST_MB = 1500
"""Memory of the process, with all that is loaded; 350 without any input."""
STUCK_S = 120
"""After which a kernel is taken to hang: the interpreter says where and ends."""


def attempt(target: Target, data: bytes, folder: Path) -> str:
    """Try one input, twice where it may have waited for a kernel to be compiled; return what is wrong, or nothing."""
    wrong = _attempt(target, data, folder)
    return _attempt(target, data, folder) if wrong.startswith("took") else wrong


def _attempt(target: Target, data: bytes, folder: Path) -> str:
    path = folder / target.file
    kept = path.read_bytes() if path.is_file() else None
    path.write_bytes(data)
    begin = time.process_time()
    wrong = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            target.run(path)
    except topo.HeddleError as error:
        if not str(error).strip():
            wrong = "an error without a message"
    except Exception:
        wrong = traceback.format_exc()
    taken = time.process_time() - begin
    if taken > MOST_S:
        wrong = wrong or f"took {taken:.1f} s"
    if (memory := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024) > MOST_MB:
        wrong = wrong or f"took {memory:,} MB"
    if kept is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(kept)
    return wrong


def corpus(target: Target) -> list[bytes]:
    """What earlier runs found, by the name of its target."""
    return [path.read_bytes() for path in sorted((CORPUS / target.name.replace(" ", "-")).glob("*"))]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--only", default="", help="targets whose name begins so")
    parser.add_argument("--keep", type=Path, help="folder for the inputs that are findings")
    given = parser.parse_args()
    for name, limit in SCALE.items():
        object.__setattr__(topo.budgets()[name], "limit", limit)
    found = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        targets = [target for target in build(folder) if target.name.startswith(given.only)]
        for target in targets:
            for number, data in enumerate([*target.seeds, *corpus(target)]):
                if wrong := attempt(target, data, folder):
                    found += 1
                    print(f"== {target.name}, file {number} of the corpus\n{wrong}", flush=True)
        for number in range(given.seed, given.seed + given.inputs):
            rng = random.Random(number)
            target = pick(targets, rng)
            data = mutated(target.seeds + corpus(target), rng)
            if given.keep is not None:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / "last").write_bytes(data)
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
            wrong = attempt(target, data, folder)
            faulthandler.cancel_dump_traceback_later()
            if wrong:
                found += 1
                print(f"== {target.name}, seed {number}\n{wrong}", flush=True)
                if given.keep is not None:
                    (given.keep / f"{target.name.replace(' ', '-')}-{number}").write_bytes(data)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{given.inputs:,} inputs, {time.process_time():.0f} s of CPU, {memory:,} MB, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
