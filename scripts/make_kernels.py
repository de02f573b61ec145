"""Make the wheel heddle-kernels, machine code of the kernels for this minor version of Python: `make kernels`.

Commands are run on small specs, and two of Fire-Flyer 2, with nothing interpreted and code for a processor that most
machines are or contain. What was compiled for them becomes a wheel of files, none of which Python imports.

    python scripts/make_kernels.py out/kernels
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from pathlib import Path

import plan.cli
from routing.compiler import PROCESSOR
from routing.machine_code import Interpreter, Kernel

ROOT = Path(__file__).parents[1]
COMMANDS = """
build configs/lab-20.yaml -o OUT/lab
simulate OUT/lab -w allreduce
simulate OUT/lab -w allreduce --engine packets
route configs/lab-20.yaml -o OUT/route
repair OUT/lab --down leaf0:27 -o OUT/repaired
ranks OUT/lab --nodes gpu[00-07] --for ring --for tree
build configs/fire-flyer-2.yaml -o OUT/fire-flyer-2
simulate OUT/fire-flyer-2 -w allreduce-zone-tree
"""
"""What is compiled for users; all else is compiled where it is first needed."""


def run_commands(out: Path, commands: str) -> None:
    """Run commands, and copy the code that was compiled for them to a folder for each module."""
    Interpreter.spent_s = defaultdict(lambda: inf)
    with tempfile.TemporaryDirectory() as folder:
        for line in commands.strip().splitlines():
            if status := plan.cli.run(line.replace("OUT", folder).split()):
                sys.exit(f"plan {line} ended with status {status}: no wheel is made")
    for kernel in kernels():
        kept = kernel.compiled._cache._cache_file
        target = out / PROCESSOR / kernel.__module__
        for file in [kept._index_name, *kept._load_index().values()]:
            if (source := Path(kept._cache_path, file)).exists():
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / file)


def kernels() -> Iterator[Kernel]:
    """Yield the kernels of all modules that are loaded."""
    for module in sorted(name for name in sys.modules if name.startswith(("routing.", "simulate."))):
        for value in list(vars(sys.modules[module]).values()):
            if isinstance(value, Kernel) and value.__module__ == module:
                yield value


def write_wheel(files: Path, out: Path) -> Path:
    """Write a wheel of all files in a folder; the same files give the same bytes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-manylinux_2_28_x86_64"
    info = f"heddle_kernels-{version}.dist-info"
    content = {f"heddle_kernels/{path.relative_to(files)}": path.read_bytes() for path in files.rglob("*.nb?")}
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: heddle-kernels\nVersion: {version}\n"
        f"Summary: Machine code of the kernels of Heddle, for {PROCESSOR}\nRequires-Dist: heddle-fabric=={version}\n"
    ).encode()
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: heddle\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = []
    for name, data in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    content[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    wheel = out / f"heddle_kernels-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(content.items()):
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return wheel


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_commands(Path(sys.argv[2]), sys.argv[3])
        sys.exit()
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as files:
        given = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
        commands = sys.argv[2] if len(sys.argv) > 2 else COMMANDS
        out = Path(sys.argv[1])
        out.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, __file__, "--run", files, commands]
        environment = os.environ | given | {"PYTHONPATH": str(ROOT)}
        subprocess.run(program, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
        print(write_wheel(Path(files), out))
