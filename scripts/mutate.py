"""Breaks Heddle at lines drawn at random, and says which breaks no test sees.

    python scripts/mutate.py                              300 mutants of all packages, the same each time
    python scripts/mutate.py --seed 7 --mutants 20        others
    python scripts/mutate.py --in costmodel/price.py      of one file or folder
    python scripts/mutate.py --limit 60                   goes on where 20 s of CPU time decided nothing
    python scripts/mutate.py --tests "-m 'not nightly'"   killed by more tests

A mutant is one edit in one line: a comparison, an operator, a number, a condition or a call is another, a statement is
missing. It is made in a copy of the checkout. There the tests that run the line run, first those of the same name, then
those of the same folder, of each the quickest first, until one fails (*killed*), all are done (*survived*), or their
CPU time is used (*undecided*, also where a test would never end). Where no test runs the line it is *untested*. Which
test runs which lines is noted once, in ``out/mutate``, and again for each file of tests that has changed. Results are
kept there too, so that a run that is cut off goes on. What was killed is not tried again while its file stays as it is.

One test runs at a time. Kernels of other modules are not compiled again; those of the module of a mutant are
interpreted where arrays are small. Survivors that are known stand in ``survivors.csv`` beside this file, each with the
reason that it is the same program; the status is 1 when fewer than `LEAST` of the others are killed.

Tools that were looked at: mutmut puts all mutants of a function into the module, which Numba cannot compile; cosmic-ray
starts an interpreter for each mutant, and runs all tests.
"""

import argparse
import ast
import csv
import hashlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

# What tests import from others: a child has it from its parent. Numba is left out, for whether it is there decides what
# is interpreted.
for module in ("jinja2", "networkx", "pydantic", "rich.table", "ruamel.yaml", "scipy.sparse.csgraph", "simpy"):
    import_module(module)

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("topo", "routing", "simulate", "costmodel", "plan")
MAP = REPOSITORY / "out" / "mutate" / "map.json"
RESULTS = MAP.with_name("results.jsonl")
SURVIVORS = Path(__file__).with_name("survivors.csv")
LEAST = 0.9
QUICK = "-m 'not slow and not nightly and not peer' --hypothesis-profile fast"
ASLEEP = 20
"""A child that uses no CPU is given up after so many times its CPU time."""
MOST_STEPS = 1000
"""Lines that a function is followed for in a test; then all of it counts as reached."""
BATCHES = (20, 80, 10**6)
"""Tests that run in a child before the next ones are collected."""
OTHER = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
PAIRS = "min max, any all, floor ceil, minimum maximum, argmin argmax, nanmin nanmax"
CALLS = {a: b for pair in PAIRS.split(", ") for a, b in (pair.split(), pair.split()[::-1])}
TALK = re.compile(r"\s*(LOG\.\w+|step|progress)\(")
"""Statements that only say how far a command is: to leave them out breaks nothing."""


@dataclass(frozen=True)
class Mutant:
    """One edit of a line."""

    file: str
    reach: range
    """Lines of which a test that can see the edit runs one."""
    line: int
    before: str
    after: str
    text: str
    """Of the whole file."""

    @property
    def is_kernel(self) -> bool:
        """Whether it may be in compiled code: a kernel that is changed is interpreted where its arrays are small."""
        return "machine_code import" in self.text or "engines.compile import" in self.text

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class Edit:
    """What stands from a first byte to a last one in a mutant, and the lines of which one must run."""

    first: int
    last: int
    new: bytes
    reach: range


class Edits(ast.NodeVisitor):
    """Collects the edits of a file."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.start = [0]
        for line in source.splitlines(keepends=True):
            self.start.append(self.start[-1] + len(line))
        self.functions = 0
        self.reach = range(1, len(self.start))
        """What runs on import is seen by all that runs in the class, or in the file."""
        self.found: list[Edit] = []

    def visit(self, node: ast.AST) -> None:
        """In a function the statement must run; of one that holds others, its head."""
        outer = self.reach
        if isinstance(node, ast.stmt) and (self.functions or isinstance(node, ast.ClassDef | ast.FunctionDef)):
            inner = getattr(node, "body", [])
            head = self.functions and inner
            last = max(node.lineno, inner[0].lineno - 1) if head else node.end_lineno or node.lineno
            self.reach = range(node.lineno, last + 1)
        super().visit(node)
        self.reach = outer

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.start[node.lineno - 1] + node.col_offset,
            self.start[node.end_lineno - 1] + node.end_col_offset,
        )

    def put(self, first: int, last: int, text: str) -> None:
        self.found.append(Edit(first, last, text.encode(), self.reach))

    def between(self, left: ast.expr, right: ast.expr, operator: ast.AST) -> None:
        """Change the operator between two operands."""
        if type(operator) not in OTHER:
            return
        old, new = OTHER[type(operator)]
        first, last = self.span(left)[1], self.span(right)[0]
        if self.source.count(old.encode(), first, last) == 1:
            at = self.source.index(old.encode(), first, last)
            self.put(at, at + len(old), new)

    def visit_ClassDef(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        """Decorators, defaults and annotations stay; what a function defines is part of it."""
        self.functions += isinstance(node, ast.FunctionDef)
        for child in node.body:
            self.visit(child)
        self.functions -= isinstance(node, ast.FunctionDef)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.visit_ClassDef(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text, in which Python 3.11 does not say what is where."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Its message is text."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self.between(left, right, operator)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = any(
            isinstance(one, ast.JoinedStr | ast.Constant) and not is_number(one) for one in (node.left, node.right)
        )
        if not text:
            self.between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if not isinstance(node.op, ast.UAdd):
            first = self.span(node)[0]
            self.put(first, first + (3 if isinstance(node.op, ast.Not) else 1), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.put(*self.span(node), str(not value))
        elif is_number(node):
            self.put(*self.span(node), str(value + 1 if isinstance(value, int) else 2 * value or 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in CALLS:
            last = self.span(node.func)[1]
            self.put(last - len(name), last, CALLS[name])
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        first, last = self.span(node.test)
        self.put(first, last, f"not ({self.source[first:last].decode()})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.leave_out(node)
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.leave_out(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets):
            self.leave_out(node)
        self.visit(node.value)

    def leave_out(self, node: ast.stmt) -> None:
        first, last = self.span(node)
        if not TALK.match(self.source[first:last].decode()):
            self.put(first, last, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.put(*self.span(node), "break")

    def visit_Break(self, node: ast.Break) -> None:
        self.put(*self.span(node), "continue")


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def draw(count: int, seed: int, where: str) -> Iterator[Mutant]:
    """Yield mutants of lines drawn at random: each line of each file is as likely, and each edit of it.

    The hash of a line and the seed says its turn, so that a change elsewhere changes no mutant of the draw.
    """
    lines: list[tuple[str, str, list[Edit]]] = []
    for name in tracked(*(f"{package}/*.py" for package in PACKAGES)):
        if not name.startswith(where):
            continue
        reader = Edits((REPOSITORY / name).read_bytes())
        reader.visit(ast.parse(reader.source))
        edits: dict[int, list[Edit]] = {}
        for edit in reader.found:
            edits.setdefault(reader.source.count(b"\n", 0, edit.first) + 1, []).append(edit)
        alike: Counter[bytes] = Counter()
        for line, group in sorted(edits.items()):
            text = reader.source.splitlines()[line - 1].strip()
            alike[text] += 1
            turn = hashlib.sha256(f"{seed} {name} {alike[text]} ".encode() + text).hexdigest()
            lines.append((turn, name, group))
    for turn, name, group in sorted(lines, key=lambda one: one[:2])[:count]:
        edit = random.Random(turn).choice(group)
        source = (REPOSITORY / name).read_bytes()
        text = source[: edit.first] + edit.new + source[edit.last :]
        begin, end = source.rfind(b"\n", 0, edit.first) + 1, source.find(b"\n", edit.last)
        shown = [source[begin:end], source[begin : edit.first] + edit.new + source[edit.last : end]]
        before, after = (" ".join(one.decode().split()) for one in shown)
        ast.parse(text)
        yield Mutant(name, edit.reach, source.count(b"\n", 0, edit.first) + 1, before, after, text.decode())


def tracked(*patterns: str) -> list[str]:
    """Return the files that git knows and that are there, as they are on disk."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return sorted(name for name in done.stdout.split("\0") if name and (REPOSITORY / name).is_file())


class Lines:
    """A plugin of pytest: notes which lines each test runs; of a kernel all lines, and of all that it calls."""

    def __init__(self, folder: Path, digests: dict[str, str], known: dict[str, Any]) -> None:
        self.prefix, self.digests, self.known = f"{folder}/", digests, known
        self.foreign: dict[int, CodeType] = {}
        self.code: dict[int, CodeType] = {}
        self.lines: dict[int, set[int]] = {}
        self.left: dict[int, int] = {}
        self.kernels: dict[int, Any] = {}

    def call(self, frame: FrameType, *_: object) -> Any:
        """Follow a function of ours line by line, until it has taken `MOST_STEPS`."""
        key = id(frame.f_code)
        if key in self.foreign:
            return None
        if key not in self.code:
            name = frame.f_code.co_filename
            if not (name.startswith(self.prefix) and name.removeprefix(self.prefix).startswith(PACKAGES)):
                self.foreign[key] = frame.f_code
                return None
            self.code[key], self.lines[key], self.left[key] = frame.f_code, set(), MOST_STEPS
        if frame.f_code.co_name == "__call__" and frame.f_code.co_filename.endswith("machine_code.py"):
            function = frame.f_locals["self"].py_func
            self.kernels[id(function)] = function
        return self.line if self.left[key] else None

    def line(self, frame: FrameType, *_: object) -> Any:
        """Note a line."""
        key = id(frame.f_code)
        self.lines[key].add(frame.f_lineno)
        self.left[key] -= 1
        if self.left[key] > 0:
            return self.line
        self.left[key] = 0
        frame.f_trace_lines = False
        return None

    def reached(self) -> dict[str, str]:
        """Return, by file, the lines that ran as bits of a hexadecimal number."""
        bits: dict[str, int] = Counter()
        for key, code in self.code.items():
            lines = self.lines[key] if self.left[key] else lines_of(code)
            bits[code.co_filename] |= sum(1 << line for line in lines)
        functions = list(self.kernels.values())
        for function in functions:
            bits[function.__code__.co_filename] |= sum(1 << line for line in lines_of(function.__code__))
            others = (getattr(function.__globals__.get(name), "py_func", None) for name in function.__code__.co_names)
            functions += [other for other in others if other is not None and other not in functions]
        return {name.removeprefix(self.prefix): f"{number:x}" for name, number in sorted(bits.items())}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.code, self.lines, self.left, self.kernels = {}, {}, {}, {}
        self.failed, begin = False, cpu_s()
        sys.settrace(self.call)
        threading.settrace(self.call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            file = item.nodeid.partition("::")[0]
            if self.known.get(file, {}).get("digest") != self.digests[file]:
                self.save()
                self.known[file] = {"digest": self.digests[file], "tests": {}}
            if not self.failed:
                self.known[file]["tests"][item.nodeid] = {"s": round(cpu_s() - begin, 3), "lines": self.reached()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= not report.passed

    def pytest_sessionfinish(self) -> None:
        self.save()

    def save(self) -> None:
        MAP.parent.mkdir(parents=True, exist_ok=True)
        MAP.with_suffix(".new").write_text(json.dumps(self.known))
        MAP.with_suffix(".new").replace(MAP)


def lines_of(code: CodeType) -> set[int]:
    """Return the lines of a function and of those in it."""
    lines = {line for _, _, line in code.co_lines() if line}
    return lines.union(*(lines_of(one) for one in code.co_consts if isinstance(one, CodeType)))


class Limit:
    """A plugin of pytest: the system ends a child, even in compiled code, that has taken its CPU time."""

    def __init__(self, left_s: float, count: Path) -> None:
        self.left_s, self.count, self.done = left_s, count, 0

    def pytest_sessionstart(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.left_s)

    def pytest_runtest_logfinish(self) -> None:
        self.done += 1
        self.count.write_text(str(self.done))


def cpu_s() -> float:
    """Return the CPU time of this process and of its children that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def in_child(work: Callable[[], int], folder: Path, asleep_s: float) -> tuple[int, float]:
    """Do work in a forked child, in a folder; return its status, or minus its signal, and its CPU time."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 70
        with suppress(BaseException):
            os.setsid()
            silent = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            os.chdir(folder)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            sys.path[:0] = [str(folder)]
            os.environ["PYTHONPATH"] = str(folder)
            status = int(work())
        os._exit(status)
    limit = time.monotonic() + asleep_s
    while not (done := os.wait4(child, os.WNOHANG))[0]:
        if time.monotonic() > limit:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what a test left behind
    return os.waitstatus_to_exitcode(done[1]), done[2].ru_utime + done[2].ru_stime


class Copy:
    """A copy of the checkout in which one mutant at a time is made."""

    def __init__(self, folder: Path, options: list[str]) -> None:
        self.folder, self.options, self.stamp = folder, options, time.time()
        self.kernels = MAP.parent / "kernels"
        """Where compiled code is kept: that of the code as it is outlives the run."""
        self.kernels.mkdir(parents=True, exist_ok=True)
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)

    def run(self, words: list[str], plugin: object, asleep_s: float = inf) -> tuple[int, float]:
        """Run pytest in a child; return its status and its CPU time."""

        def work() -> int:
            os.environ["NUMBA_CACHE_DIR"] = str(self.kernels)
            always = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:nbmake", "-o", "addopts="]
            return pytest.main([*always, "--import-mode=importlib", *self.options, *words], plugins=[plugin])

        return in_child(work, self.folder, asleep_s)

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """Hold a mutant for a while; a kernel that is changed is kept apart from the code of the others."""
        kept = self.kernels
        with tempfile.TemporaryDirectory() as scratch:
            if mutant.is_kernel:
                self.kernels = Path(scratch) / "kernels"
                shutil.copytree(kept, self.kernels, copy_function=os.link)
            self.write(mutant.file, mutant.text)
            try:
                yield
            finally:
                self.write(mutant.file, (REPOSITORY / mutant.file).read_text(encoding="utf-8"))
                self.kernels = kept

    def write(self, name: str, text: str) -> None:
        """Write a file at a time of its own, or Python would take what it made of the former text."""
        self.stamp += 2
        (self.folder / name).write_text(text, encoding="utf-8")
        os.utime(self.folder / name, (self.stamp, self.stamp))

    def map(self) -> dict[str, Any]:
        """Return which lines each test of each file runs; note what is missing or changed."""
        known = json.loads(MAP.read_text()) if MAP.is_file() else {}
        chosen = repr(self.options).encode()
        names = [name for name in tracked("tests") if re.fullmatch(r"test_\w+\.py", Path(name).name)]
        digests = {name: hashlib.sha256(chosen + (REPOSITORY / name).read_bytes()).hexdigest() for name in names}
        stale = [name for name, digest in digests.items() if known.get(name, {}).get("digest") != digest]
        stale.sort(key=lambda name: name.startswith("tests/plan"))  # whole commands take longest
        if stale:
            print(f"noting which lines the tests of {len(stale)} files run", flush=True)
            known = {name: known[name] for name in digests if name in known}
            status, _ = self.run(stale, Lines(self.folder, digests, known))
            if status not in (0, 1):
                raise SystemExit((self.folder / "said").read_text(errors="replace")[-4000:])
            known = json.loads(MAP.read_text())
            for name in stale:
                known.setdefault(name, {"digest": digests[name], "tests": {}})
            MAP.write_text(json.dumps(known))
        return known

    def judge(self, mutant: Mutant, tests: dict[str, float], limit_s: float, done: int) -> tuple[str, int, float]:
        """Return what becomes of a mutant that some tests passed, how many have now, and the CPU time that it took."""
        order, spent = list(tests), 0.0
        count = self.folder / "count"
        with self.broken(mutant):
            for size in BATCHES:
                batch = order[done : done + size]
                if not batch:
                    break
                count.write_text("0")
                left_s = limit_s - spent
                words = [*batch, "-x", *(["--kernels", "interpreted"] if mutant.is_kernel else [])]
                status, took = self.run(words, Limit(left_s, count), ASLEEP * left_s) if left_s > 0 else (-1, 0.0)
                spent += took
                said = (self.folder / "said").read_text(errors="replace")
                if status in (1, 3, -signal.SIGSEGV) or re.search(r"\d errors? in ", said):  # of a test, pytest, import
                    return "killed", done + int(count.read_text()), spent
                if status < 0:
                    return "undecided", done + int(count.read_text()), spent
                done += len(batch)
        return "survived" if order else "untested", done, spent


class Results:
    """What became of mutants in this run and in former ones: a run that is cut off goes on."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        if RESULTS.is_file():
            for line in RESULTS.read_text(encoding="utf-8").splitlines():
                self.known |= json.loads(line)

    def of(self, mutant: Mutant, tests: dict[str, float], digest: str, limit_s: float, copy: Copy) -> tuple[str, int]:
        """Return what becomes of a mutant, and how many tests ran.

        What was killed stays killed. What was not runs again where its tests are others, and goes on where it had less
        CPU time.
        """
        key = hashlib.sha256(f"{mutant} {mutant.text}".encode()).hexdigest()
        had = self.known.get(key, {})
        is_same = had.get("tests") == digest
        left_s = limit_s - (had["s"] if is_same else 0.0)
        if had.get("became") == "killed" or (is_same and (had["became"] != "undecided" or left_s < 1)):
            return had["became"], had["done"]
        became, done, took = copy.judge(mutant, tests, left_s, had["done"] if is_same else 0)
        now = {"mutant": str(mutant), "became": became, "done": done, "s": limit_s - left_s + took, "tests": digest}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({key: now}) + "\n")
        return became, done


def tests_of(mutant: Mutant, known: dict[str, Any]) -> tuple[dict[str, float], str]:
    """Return the tests that reach a mutant, in order, each with its usual CPU time; and a digest of them."""
    wanted = sum(1 << line for line in mutant.reach)
    mirror = re.compile(rf"tests/(oracles|.*)/test_{Path(mutant.file).stem}\w*\.py")
    found, digests = [], set()
    for name, one in known.items():
        near = 0 if mirror.fullmatch(name) else 1 if name.startswith(f"tests/{Path(mutant.file).parent}/") else 2
        for test_id, test in one["tests"].items():
            if int(test["lines"].get(mutant.file, "0"), 16) & wanted:
                found.append((near, test["s"], test_id))
                digests.add(one["digest"])
    return {test_id: took for _, took, test_id in sorted(found)}, hashlib.sha256(
        repr(sorted(digests)).encode()
    ).hexdigest()


def main() -> int:
    """Print what becomes of each mutant; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="where", default="", help="a file or folder")
    parser.add_argument("--tests", default=QUICK, help=f"options of pytest that choose tests: {QUICK}")
    parser.add_argument("--limit", type=float, default=20.0, help="CPU time for a mutant, in seconds")
    given = parser.parse_args()
    with SURVIVORS.open(newline="", encoding="utf-8") as file:
        reasons = {(row["file"], row["before"], row["after"]): row["reason"] for row in csv.DictReader(file)}
    count: Counter[tuple[str, str]] = Counter()
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), shlex.split(given.tests))
        known = copy.map()
        for mutant in draw(given.mutants, given.seed, given.where):
            tests, digest = tests_of(mutant, known)
            became, done = results.of(mutant, tests, digest, given.limit, copy)
            reason = ""
            if became != "killed":
                reason = reasons.get((mutant.file, mutant.before, mutant.after), "")
                became = "the same" if reason else became
            count[mutant.file.partition("/")[0], became] += 1
            print(f"{became:9}  {mutant}  ({done} of {len(tests)} tests) {reason}".rstrip(), flush=True)
    kinds = ("killed", "the same", "survived", "untested", "undecided")
    print("\n| package | mutants | " + " | ".join(kinds) + " |\n|---|" + "--:|" * (1 + len(kinds)))
    for package in PACKAGES:
        numbers = [count[package, became] for became in kinds]
        print(f"| {package} | {sum(numbers)} | " + " | ".join(map(str, numbers)) + " |")
    numbers = [sum(count[package, became] for package in PACKAGES) for became in kinds]
    print(f"| all | {sum(numbers)} | " + " | ".join(map(str, numbers)) + " |")
    able = sum(numbers) - numbers[1]
    print(f"\n{numbers[0]} of {able} that differ are killed ({numbers[0] / max(able, 1):.1%})")
    return int(numbers[0] < LEAST * able)


if __name__ == "__main__":
    sys.exit(main())
