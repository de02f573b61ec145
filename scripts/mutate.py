"""Breaks Heddle in some forty small ways and runs the tests of the broken module: do they see it?

    python scripts/mutate.py            all of them; ends with status 1 when more than two are not seen
    python scripts/mutate.py bill       those of one subject

Each mutation is one edit such as a tired programmer makes: a term forgotten, a bound off by one, operands swapped. It
is made in a copy of the checkout, where the tests of the same name run until one fails. The checkout stays as it is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MOST_UNSEEN = 2


@dataclass(frozen=True)
class Mutation:
    """One edit: what it is, and the text before and after."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Subject:
    """A module, and the tests that must see when it is broken."""

    file: str
    tests: tuple[str, ...]
    mutations: tuple[Mutation, ...]


M = Mutation
SUBJECTS = {
    "bill": Subject(
        "costmodel/bills.py",
        ("tests/costmodel/test_bills.py", "tests/costmodel/test_counts.py"),
        (
            M("a transceiver for each port of a cage", 'counted.add(("cage", cage))', "pass"),
            M("a frame that is not full is left out", '"frame", ()] = -(-count //', '"frame", ()] = (count //'),
            M("one power distribution unit a rack", "= feeds * layout.n_racks", "= layout.n_racks"),
            M("spare parts draw power", "if line.place != SPARE]", "]"),
            M("half a spare part is none", "ceil(round(count * share[kind], 9))", "int(round(count * share[kind], 9))"),
            M(
                "the faster end names the cable",
                "fabric.speed[fabric.links].min(axis=1)",
                "fabric.speed[fabric.links].max(axis=1)",
            ),
            M(
                "a server of two subnets is two",
                "servers[fabric.hosts[host]]",
                'servers[f"{subnet} {fabric.hosts[host]}"]',
            ),
            M("both legs of a splitter are cables", 'counted.add(("cable", cable))', "pass"),
        ),
    ),
    "price": Subject(
        "costmodel/price.py",
        ("tests/costmodel/test_price.py",),
        (
            M("what comes with others is a gap", "in of_them if not row.included)", "in of_them)"),
            M("the price of one piece for all", "self.unit_price * self.line.count", "self.unit_price"),
            M("adapters are paid twice", "included = unit == UNITS or catalog", "included = unit == UNITS and catalog"),
            M("what comes with a switch is a gap", "is None and not self.included", "is None"),
            M("transceivers cost units", '("cable", "fibre", "optic"):', '("cable", "fibre"):'),
        ),
    ),
    "cable schedule": Subject(
        "plan/export/cable_schedule.py",
        ("tests/plan/export/test_cable_schedule.py",),
        (
            M("cables stand in the order of links", "lines.sort(key=lambda line: line[0][:3])", "pass"),
            M("racks in another order are another bundle", "tuple(sorted((a.rack, b.rack)))", "(a.rack, b.rack)"),
            M(
                "the legs of a splitter are cables",
                "(-1, int(cabling.cable[link])), part.pieces",
                "(-1, link), part.pieces",
            ),
        ),
    ),
    "capacity": Subject(
        "costmodel/optimise/bisection.py",
        ("tests/costmodel/optimise/test_bisection.py", "tests/costmodel/optimise/test_cuts.py"),
        (
            M(
                "the faster end of a link decides",
                "fabric.links].min(axis=1)\n    links",
                "fabric.links].max(axis=1)\n    links",
            ),
            M("the best of the jobs counts", "if low.share < worst.share:", "if low.share > worst.share:"),
            M("subnets count on average", "min(found, key=lambda search: search.share)", "found[0]"),
            M(
                "of storage only what is sent in all counts",
                "share = (leaves + taken) / sent",
                "share = (leaves + taken) / gives.sum()",
            ),
            M("a node sends at half its rate", "np.repeat(rate, 2)", "np.repeat(rate, 2) / 2"),
        ),
    ),
    "cuts": Subject(
        "costmodel/optimise/cuts.py",
        ("tests/costmodel/optimise/test_cuts.py", "tests/costmodel/optimise/test_bisection.py"),
        (
            M("switches without adapters take a side at random", "np.minimum(up, beyond)", "np.maximum(up, beyond)"),
            M("switches that are alike are not linked", "net.dense[kind[0], kind[-1]] for", "0 for"),
            M(
                "switches of different jobs are alike",
                "(on_switch[:, left] == on_switch[:, left[:1]])",
                "np.ones((1, len(left)), bool)",
            ),
            M("what a routing carries is believed twice", "self.share if bound >=", "self.share if 2 * bound >="),
            M("halves send at full rate", "gbps / asked, side", "gbps / asked / 2, side"),
        ),
    ),
    "spread": Subject(
        "costmodel/optimise/spread.py",
        ("tests/costmodel/optimise/test_spread.py",),
        (
            M("tops are used beyond the poorest container", "np.min(climbing", "np.max(climbing"),
            M("containers spread as they like", "carried(each, below)", "carried(each, None)"),
            M("servers on tops are forgotten", "or jobs.on_switch[:, tops].any()", ""),
        ),
    ),
    "demand": Subject(
        "costmodel/optimise/demand.py",
        (
            "tests/costmodel/optimise/test_bisection.py",
            "tests/costmodel/optimise/test_cuts.py",
            "tests/costmodel/optimise/test_problem.py",
        ),
        (
            M("the odd node of a job is divided", "// 2 * most, total / 2)", "/ 2 * most, total / 2)"),
            M("more than half of a job is asked", "np.asarray(np.minimum(within, beyond))", "np.asarray(within + 0.0)"),
            M("the median is of the kinds, not of servers", "np.argsort(part, axis=1)", "np.argsort(0 * part, axis=1)"),
            M("servers of several leaves do not balance", "np.arange(self.adapters + 1) / self.adapters", "range(2)"),
            M("a leaf keeps half of a job", "2 * np.maximum(self.total", "np.maximum(self.total"),
        ),
    ),
    "shapes": Subject(
        "topo/shapes/base.py",
        ("tests/topo/shapes",),
        (
            M("those with one more stand together", "open_places[np.flatnonzero(np.diff(step))]", "open_places[:more]"),
            M("one more than there are free ports", "np.flatnonzero(free > level)", "np.flatnonzero(free >= level)"),
            M("a slow port runs at the adapter's rate", "slower(group.speed, speed)", "group.speed"),
        ),
    ),
    "fat-tree": Subject(
        "topo/shapes/fat_tree.py",
        ("tests/topo/shapes",),
        (
            M("a taper that does not divide rounds down", "radix - int(radix * ratio", "radix - round(radix * ratio"),
            M(
                "a last pod that is not full is left out",
                "return -(-self.leaves // self.leaves_per_pod)",
                "return self.leaves // self.leaves_per_pod",
            ),
            M("uplinks of a small pod round down", "ceil(per_pod * parallel /", "int(per_pod * parallel /"),
            M("full cores do not fit", "spine_up <= share * radix", "spine_up < share * radix"),
        ),
    ),
    "zones": Subject(
        "topo/shapes/zones.py",
        ("tests/topo/shapes",),
        (
            M(
                "a border leaf too few",
                "borders = -(-between.ports // size.down)",
                "borders = between.ports // size.down",
            ),
            M(
                "a leaf's cables all go to one joint",
                "turn, joint = divmod(index, joints.count)",
                "joint, turn = divmod(index, each)",
            ),
        ),
    ),
    "joined": Subject(
        "routing/order/joined.py",
        ("tests/routing/engines/test_joined_zones.py", "tests/routing/order/test_joined.py"),
        (
            M(
                "nothing is reserved for what leaves",
                "np.flatnonzero(down & reserved[",
                "np.flatnonzero(down & ~down & reserved[",
            ),
            M("any channels are reserved", "used[spines, leaf]))[:few]", "-used[spines, leaf]))[:few]"),
            M("no step back", "    phase[back] = Phase.STEP_BACK\n", ""),
        ),
    ),
    "proof": Subject(
        "routing/proof.py",
        ("tests/routing/test_proof.py",),
        (
            M(
                "a host sends to itself",
                "pairs = len(wanted) * (len(ends) - 1)",
                "pairs = len(wanted) * len(ends)",
            ),
            M("the pair with itself loads the adapter", "[adapter], port] -= 1", "[adapter], port] -= 0"),
            M("positions that stay the same rise", "position > last[packet]", "position >= last[packet]"),
            M("one path that rises is enough", "if (arrives & ~rises).any():", "if arrives.any() and not rises.any():"),
            M(
                "what waits behind a loop is on it",
                "(size[component] > 1) | (graph.diagonal() > 0)",
                "used & (order < 0)",
            ),
        ),
    ),
    "max-min": Subject(
        "simulate/engines/fluid/maxmin.py",
        ("tests/simulate/engines/fluid/test_max_min_as_linear_programs.py",),
        (
            M("what is settled weighs one each", "left -= members[at].weight * rate", "left -= rate"),
            M("a class alone ignores its weight", "capacity / members[first].weight", "capacity"),
            M("what is free weighs one each", "free += members[at].weight", "free += 1.0"),
        ),
    ),
}


def copy_of_checkout(folder: Path) -> None:
    """Copy what git knows, as it is on disk."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.split("\0"):
        if name and (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)


def fails(folder: Path, tests: tuple[str, ...]) -> bool:
    """Whether a test fails; an error before any test runs is no failure of a test, but of this file."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder), "CI": "true"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest {' '.join(tests)} ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    return done.returncode == 1


def main(names: list[str]) -> int:
    """Print what becomes of each mutation; return the exit status."""
    killed, survived = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        copy_of_checkout(folder)
        for name in names or list(SUBJECTS):
            subject = SUBJECTS[name]
            path = folder / subject.file
            whole = path.read_text(encoding="utf-8")
            if subject.mutations and fails(folder, subject.tests):
                raise SystemExit(f"{' '.join(subject.tests)} fails on the code as it is")
            for mutation in subject.mutations:
                if whole.count(mutation.old) != 1:
                    raise SystemExit(
                        f"{subject.file}: expected {mutation.old!r} once, found {whole.count(mutation.old)}"
                    )
                path.write_text(whole.replace(mutation.old, mutation.new), encoding="utf-8")
                began = time.perf_counter()
                seen = fails(folder, subject.tests)
                took = time.perf_counter() - began
                path.write_text(whole, encoding="utf-8")
                killed += seen
                survived += [] if seen else [f"{name}: {mutation.name}"]
                print(f"{'killed  ' if seen else 'SURVIVED'}  {name}: {mutation.name} ({took:.1f} s)", flush=True)
    print(f"{killed} of {killed + len(survived)} killed")
    return int(not names and len(survived) > MOST_UNSEEN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
