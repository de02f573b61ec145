"""Make the wheel heddle-kernels, machine code of the kernels for this minor version of Python: `make kernels`.

Commands are run on small specs, and two of Fire-Flyer 2, with nothing interpreted and code for a processor that most
machines are or contain. What was compiled for them becomes a wheel of files, none of which Python imports, and a list
of functions with the types of their arguments: what a machine without the wheel compiles side by side.

    python scripts/make_kernels.py out/kernels
    cp out/kernels/signatures.json routing
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import types
from numba.np.numpy_support import from_dtype

import plan.cli
from routing import ahead
from routing.compiler import PROCESSOR
from routing.machine_code import Interpreter, Kernel

ROOT = Path(__file__).parents[1]
COMMANDS = """
build configs/lab-20.yaml -o OUT/lab
simulate OUT/lab -w allreduce
simulate OUT/lab -w allreduce --engine packets --hop-latency-ns 150
route configs/lab-20.yaml -o OUT/route
repair OUT/lab --down leaf0:27 -o OUT/repaired
ranks OUT/lab --nodes gpu[00-07] --for ring --for tree
build configs/fire-flyer-2.yaml -o OUT/fire-flyer-2
simulate OUT/fire-flyer-2 -w allreduce-zone-tree
"""
"""What is compiled for users; all else is compiled where it is first needed."""


def run_commands(out: Path, signatures: Path, commands: str) -> None:
    """Run commands, copy the code that was compiled for them to a folder for each module, and list signatures."""
    Interpreter.spent_s = defaultdict(lambda: inf)
    ahead.compile_ahead = lambda name: None  # here it is found out what there is to compile
    entries: list[set[str]] = []
    call = Kernel.__call__

    def noted(self: Kernel, *given: Any) -> Any:
        entries[-1].add(self.name)
        return call(self, *given)

    Kernel.__call__ = noted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        for line in commands.strip().splitlines():
            entries.append(set())
            if status := plan.cli.run(line.replace("OUT", folder).split()):
                sys.exit(f"plan {line} ended with status {status}: no wheel is made")
    tuples: list[Any] = []
    functions = {}
    for kernel in kernels():
        with suppress(LookupError):
            functions[kernel.name] = [[spell(kind, tuples) for kind in given] for given in kernel.compiled.overloads]
    lines = (f"{json.dumps(name)}: {json.dumps(given)}" for name, given in functions.items() if given)
    parts = {
        "commands": f"[{_lines(json.dumps(sorted(names & functions.keys())) for names in entries)}]",
        "functions": f"{{{_lines(lines)}}}",
        "tuples": f"[{_lines(map(json.dumps, tuples))}]",
    }
    signatures.write_text(f"{{{_lines(f'{json.dumps(name)}: {part}' for name, part in parts.items())}}}\n")
    for kernel in kernels():
        kept = kernel.compiled._cache._cache_file
        target = out / PROCESSOR / kernel.__module__
        for file in [kept._index_name, *kept._load_index().values()]:
            if (source := Path(kept._cache_path, file)).exists():
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / file)


def _lines(parts: Iterable[str]) -> str:
    return "\n" + ",\n".join(parts) + "\n"


def kernels() -> Iterator[Kernel]:
    """Yield the kernels of all modules that are loaded."""
    for module in sorted(name for name in sys.modules if name.startswith(("routing.", "simulate."))):
        for value in list(vars(sys.modules[module]).values()):
            if isinstance(value, Kernel) and value.__module__ == module:
                yield value


def spell(kind: types.Type, tuples: list[Any]) -> str | int:
    """Return a type of Numba's as `routing.ahead.read_type` takes it; LookupError for one that no name stands for."""
    if isinstance(kind, types.BaseNamedTuple):
        whole = kind.instance_class
        entry = [f"{whole.__module__}.{whole.__qualname__}", [spell(field, tuples) for field in kind]]
        if entry not in tuples:
            tuples.append(entry)
        return tuples.index(entry)
    if isinstance(kind, types.Array):
        return f"{'' if kind.mutable else 'readonly '}array({spell(kind.dtype, tuples)}, {kind.ndim}d, {kind.layout})"
    if isinstance(kind, types.Number | types.Boolean):
        return str(kind)
    for module in sorted(name for name in sys.modules if name.startswith(("routing.", "simulate."))):
        for name, value in vars(sys.modules[module]).items():
            if isinstance(value, np.dtype) and from_dtype(value) == kind:
                return f"{module}.{name}"
    raise LookupError(kind)


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
        run_commands(*map(Path, sys.argv[2:4]), sys.argv[4])
        sys.exit()
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as files:
        given = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": cache}
        commands = sys.argv[2] if len(sys.argv) > 2 else COMMANDS
        out = Path(sys.argv[1])
        out.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, __file__, "--run", files, out / "signatures.json", commands]
        environment = os.environ | given | {"PYTHONPATH": str(ROOT)}
        subprocess.run(program, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
        print(write_wheel(Path(files), out))
