"""Breaks Heddle at lines drawn at random, and says which breaks no test sees.

    python scripts/mutate.py                              300 mutants of all packages, the same each time
    python scripts/mutate.py --seed 7 --mutants 20        others
    python scripts/mutate.py --in costmodel/price.py      of one file or folder
    python scripts/mutate.py --tests "-m 'not slow'"      killed by fewer tests

A mutant is one edit in one line: a comparison, an operator, a number, a condition or a call is another, a statement is
missing. It is made in a copy of the checkout. There the tests that call its function run, first those of the same name,
then the quickest, until one fails (*killed*), all are done, or they took their share of CPU time (*survived*). Which
test calls which function is noted once, in ``out/mutate``, and again for each file of tests that has changed.

One test runs at a time. Limits are CPU time, so a busy machine kills nothing. Survivors that are known stand in
``survivors.csv`` beside this file, each with the reason; the status is 1 when fewer than `LEAST` of all are killed.

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
from typing import Any

import pytest

# What tests import from others: a child has it from its parent. Numba is left out, for whether it is there decides what
# is interpreted.
for module in ("jinja2", "networkx", "pydantic", "rich.table", "ruamel.yaml", "scipy.sparse.csgraph", "simpy"):
    import_module(module)

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("topo", "routing", "simulate", "costmodel", "plan")
MAP = REPOSITORY / "out" / "mutate" / "map.json"
SURVIVORS = Path(__file__).with_name("survivors.csv")
LEAST = 0.9
BUDGET_S = 90.0
"""CPU time of all tests of a mutant."""
HANGS_S = 60.0
"""CPU time that a test may take beyond what it took when the map was made: kernels are compiled in it."""
ASLEEP_S = 900.0
"""Time after which a child that uses no CPU is given up."""
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
    function: str
    line: int
    before: str
    after: str
    text: str
    """Of the whole file."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.before}  ->  {self.after}"


class Edits(ast.NodeVisitor):
    """Collects the edits of a file: name of the function, first byte, last byte, and what stands there then."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.start = [0]
        for line in source.splitlines(keepends=True):
            self.start.append(self.start[-1] + len(line))
        self.within: list[str] = []
        self.functions = 0
        self.found: list[tuple[str, int, int, bytes]] = []

    def span(self, node: Any) -> tuple[int, int]:
        return (
            self.start[node.lineno - 1] + node.col_offset,
            self.start[node.end_lineno - 1] + node.end_col_offset,
        )

    def put(self, first: int, last: int, text: str) -> None:
        self.found.append((".".join(self.within), first, last, text.encode()))

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
        outer = self.within
        if not self.functions:
            self.within = [*outer, node.name]
        self.functions += isinstance(node, ast.FunctionDef)
        for child in node.body:
            self.visit(child)
        self.functions -= isinstance(node, ast.FunctionDef)
        self.within = outer

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
    """Yield mutants of lines drawn at random: each line of each file is as likely, and each edit of it."""
    edits: dict[tuple[str, int], list[tuple[str, int, int, bytes]]] = {}
    for name in tracked(*(f"{package}/*.py" for package in PACKAGES)):
        if not name.startswith(where):
            continue
        reader = Edits((REPOSITORY / name).read_bytes())
        reader.visit(ast.parse(reader.source))
        for edit in reader.found:
            edits.setdefault((name, reader.source.count(b"\n", 0, edit[1])), []).append(edit)
    rng = random.Random(seed)
    for name, line in rng.sample(sorted(edits), min(count, len(edits))):
        function, first, last, new = rng.choice(edits[name, line])
        source = (REPOSITORY / name).read_bytes()
        text = (source[:first] + new + source[last:]).decode()
        begin, end = source.rfind(b"\n", 0, first) + 1, source.find(b"\n", last)
        shown = [source[begin:end], source[begin:first] + new + source[last:end]]
        before, after = (" ".join(one.decode().split()) for one in shown)
        ast.parse(text)
        yield Mutant(name, f"{name}::{function}", line + 1, before, after, text)


def tracked(*patterns: str) -> list[str]:
    """Return the files that git knows and that are there, as they are on disk."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return sorted(name for name in done.stdout.split("\0") if name and (REPOSITORY / name).is_file())


class Calls:
    """A plugin of pytest: notes which functions each test calls, kernels with all that they call."""

    def __init__(self, folder: Path, digests: dict[str, str], known: dict[str, Any]) -> None:
        self.prefix, self.digests, self.known = f"{folder}/", digests, known
        self.called: dict[int, Any] = {}

    def note(self, frame: Any, *_: object) -> None:
        code = frame.f_code
        if id(code) not in self.called:
            self.called[id(code)] = code
        if code.co_name == "__call__" and code.co_filename.endswith("machine_code.py"):
            function = frame.f_locals["self"].py_func
            if id(function) not in self.called:
                self.called[id(function)] = function

    def names(self) -> list[str]:
        """Return ``file::function`` of all that was called."""
        left, found = list(self.called.values()), set()
        for one in left:
            code = getattr(one, "__code__", one)
            if code.co_filename.startswith(self.prefix):
                name = code.co_qualname.partition(".<locals>")[0]
                found.add(f"{code.co_filename.removeprefix(self.prefix)}::{name}")
            if one is not code:  # a kernel, perhaps compiled
                others = (getattr(one.__globals__.get(name), "py_func", None) for name in code.co_names)
                left += [other for other in others if other is not None and other not in left]
        return sorted(name for name in found if name.startswith(PACKAGES))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.called, self.failed, begin = {}, False, cpu_s()
        sys.settrace(self.note)
        threading.settrace(self.note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            file = item.nodeid.partition("::")[0]
            if self.known.get(file, {}).get("digest") != self.digests[file]:
                self.save()
                self.known[file] = {"digest": self.digests[file], "tests": {}}
            if not self.failed:
                self.known[file]["tests"][item.nodeid] = {"s": round(cpu_s() - begin, 3), "calls": self.names()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed |= not report.passed

    def pytest_sessionfinish(self) -> None:
        self.save()

    def save(self) -> None:
        MAP.parent.mkdir(parents=True, exist_ok=True)
        MAP.with_suffix(".new").write_text(json.dumps(self.known))
        MAP.with_suffix(".new").replace(MAP)


class Limits:
    """A plugin of pytest: a test that takes far longer than it did is ended by the system, even in compiled code."""

    def __init__(self, usual_s: dict[str, float], budget_s: float) -> None:
        self.usual_s, self.budget_s = usual_s, budget_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if cpu_s() > self.budget_s:
            item.session.shouldstop = "the share of CPU time is used"
        signal.setitimer(signal.ITIMER_PROF, HANGS_S + 5 * self.usual_s.get(item.nodeid, 0))
        return (yield)


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
            if "machine_code import" in mutant.text:
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
        """Return what each file of tests calls; note what is missing or changed."""
        known = json.loads(MAP.read_text()) if MAP.is_file() else {}
        chosen = repr(self.options).encode()
        names = [name for name in tracked("tests") if re.fullmatch(r"test_\w+\.py", Path(name).name)]
        digests = {name: hashlib.sha256(chosen + (REPOSITORY / name).read_bytes()).hexdigest() for name in names}
        stale = [name for name, digest in digests.items() if known.get(name, {}).get("digest") != digest]
        stale.sort(key=lambda name: name.startswith("tests/plan"))  # whole commands take longest
        if stale:
            print(f"noting what the tests of {len(stale)} files call", flush=True)
            known = {name: known[name] for name in digests if name in known}
            status, _ = self.run(stale, Calls(self.folder, digests, known))
            if status not in (0, 1):
                raise SystemExit((self.folder / "said").read_text(errors="replace")[-4000:])
            known = json.loads(MAP.read_text())
            for name in stale:
                known.setdefault(name, {"digest": digests[name], "tests": {}})
            MAP.write_text(json.dumps(known))
        return known

    def judge(self, mutant: Mutant, tests: dict[str, float]) -> tuple[str, int, float]:
        """Return what becomes of a mutant, how many tests ran at most, and the CPU time that they took."""
        order, spent, done = list(tests), 0.0, 0
        with self.broken(mutant):
            for size in BATCHES:
                batch = order[done : done + size]
                if not batch or spent > BUDGET_S:
                    break
                status, took = self.run([*batch, "-x"], Limits(tests, BUDGET_S - spent), ASLEEP_S)
                spent, done = spent + took, done + len(batch)
                said = (self.folder / "said").read_text(errors="replace")
                if status in (1, 3) or re.search(r"\d errors? in ", said):  # of a test, of pytest, on import
                    return "killed", done, spent
                if status < 0:
                    return "hung", done, spent
        return "SURVIVED" if order else "UNTESTED", done, spent


def tests_of(mutant: Mutant, known: dict[str, Any]) -> dict[str, float]:
    """Return the tests that call the function of a mutant, in order, each with its usual CPU time."""
    file = mutant.file
    every = {call for one in known.values() for test in one["tests"].values() for call in test["calls"]}
    wanted = {mutant.function}
    if not wanted & every:  # what is done on import: all tests of the class, or of the file
        own = {call for call in every if call.startswith(f"{mutant.function}.")}
        wanted = own or {call for call in every if call.startswith(f"{file}::")}
    mirror = re.compile(rf"tests/(oracles|.*)/test_{Path(file).stem}\w*\.py")
    found = []
    for name, one in known.items():
        near = 0 if mirror.fullmatch(name) else 1 if name.startswith(f"tests/{Path(file).parent}/") else 2
        found += [
            (near, test["s"], test_id) for test_id, test in one["tests"].items() if wanted.intersection(test["calls"])
        ]
    return {test_id: took for _, took, test_id in sorted(found)}


def main() -> int:
    """Print what becomes of each mutant; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--in", dest="where", default="", help="a file or folder")
    parser.add_argument("--tests", default="-m 'not nightly and not peer'", help="options of pytest that choose tests")
    given = parser.parse_args()
    with SURVIVORS.open(newline="", encoding="utf-8") as file:
        reasons = {(row["file"], row["before"], row["after"]): row["reason"] for row in csv.DictReader(file)}
    count: Counter[tuple[str, str]] = Counter()
    unknown = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder), shlex.split(given.tests))
        known = copy.map()
        for mutant in draw(given.mutants, given.seed, given.where):
            tests = tests_of(mutant, known)
            became, done, took = copy.judge(mutant, tests)
            count[mutant.file.partition("/")[0], became] += 1
            reason = ""
            if became not in ("killed", "hung"):
                reason = reasons.get((mutant.file, mutant.before, mutant.after), "no reason is known")
                unknown += reason == "no reason is known"
            print(f"{became:8}  {mutant}  ({done} of {len(tests)} tests, {took:.1f} s) {reason}".rstrip(), flush=True)
    killed = sum(n for (_, became), n in count.items() if became in ("killed", "hung"))
    total = count.total()
    kinds = ("killed", "hung", "SURVIVED", "UNTESTED")
    print("\n| package | mutants | " + " | ".join(kinds).lower() + " |\n|---|" + "--:|" * (1 + len(kinds)))
    for package in PACKAGES:
        numbers = [count[package, became] for became in kinds]
        print(f"| {package} | {sum(numbers)} | " + " | ".join(map(str, numbers)) + " |")
    print(f"\n{killed} of {total} killed ({killed / total:.1%}); {unknown} survivors without a reason")
    return int(killed < LEAST * total)


if __name__ == "__main__":
    sys.exit(main())
