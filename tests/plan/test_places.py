"""Every argument and option that names a file is given what cannot be it: one message that names it, status 2.

Options come from the commands themselves, so a new one is tried, too.
"""

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest

from plan.cli import COMMANDS, CommandGroup, run

GOOD = {
    "build": "SPEC -o new",
    "calibrate": "LOG",
    "check": "SPEC",
    "collect": "",
    "compare": "SPEC SPEC",
    "cost": "SPEC",
    "mock": "SPEC -o new",
    "diff": "SPEC SPEC -o new",
    "draw": "SPEC -o new.svg",
    "explain": "SPEC PAIRS",
    "export": "SPEC dot -o new.dot",
    "init": "lab-20 -o new.yaml",
    "operate": "SPEC --queue QUEUE --hours 0.01",
    "optimise": "NEEDS -o new.yaml",
    "report": "PLAN -o new.html",
    "keep": "PLAN --now DUMP --load new --read false",
    "ranks": "SPEC --nodes gpu[0-3] --for ring --ranks-per-node 1 -o new",
    "repair": "SPEC -o new",
    "route": "SPEC -o new",
    "simulate": "SPEC --flows FLOWS",
    "sweep": "SWEEP -o new",
    "verify": "DUMP LFTS",
}
"""A line of each command that would do; what is tried takes the place of a word, or is added."""
INSTEAD = {("export", "check"): "SPEC slurm"}
"""A line for one parameter, where that of its command does not take it."""
WITH = {"policy": "--lanes CONF", "io_guids": "--cn-guids CN", "cn_guids": ""}
"""What an option needs beside it."""
NAMES = {"workload", "queue", "traffic", "nodes"}
"""Options of text that names a file, too."""
EMPTY = {"io_guids", "lids"}
"""Lists that may have nothing in them."""
WRITTEN = {"output", "adopt", "trace", "goal", "load", "metrics", "skeleton"}
"""Options that name what is written."""


def tried() -> list[tuple[str, str, str]]:
    """Return each command with a parameter of it that names a file, and how it is spelled."""
    group, found = CommandGroup("plan"), []
    for name in sorted(GOOD):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        words = GOOD[name].split()
        arguments = [item for item in command.params if isinstance(item, click.Argument)]
        for item in command.params:
            assert item.name
            if isinstance(item.type, click.Path) or item.name in NAMES:
                option = max(item.opts, key=len)
                found.append((name, item.name, words[arguments.index(item)] if item in arguments else option))
    return found


def words_of(name: str, parameter: str, spelled: str, given: str) -> list[str]:
    """Return the command line with something in the place of a file."""
    words = [name, *INSTEAD.get((name, parameter), GOOD[name]).split()]
    if not spelled.startswith("-"):
        words[words.index(spelled)] = given
        return words
    for other in ("-o", "--queue", "--flows", "--nodes"):
        if other in words and (other == spelled or {other, spelled} in ({"-o", "--output"}, {"--flows", "--workload"})):
            del words[words.index(other) : words.index(other) + 2]
    return [*words, *WITH.get(parameter, "").split(), spelled, given]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good files, and one bad one of each kind."""
    folder = tmp_path_factory.mktemp("places")
    spec = folder / "spec.yaml"
    spec.write_text(
        "name: tiny\nnodes: {gpu: {model: pcie-a100, count: 4}, storage: {model: storage-3fs, count: 2}}\n"
        "network: {shape: fat-tree, switch: QM8700, leaves: 2, spines: 1}\n"
    )
    assert run(["build", str(spec), "-o", str(folder / "plan")]) == 0
    (folder / "flows.csv").write_text("start_s,src,dst,bytes\n0,gpu0 mlx5_0,gpu1 mlx5_0,10\n")
    (folder / "needs.yaml").write_text(
        "name: tiny\nnodes: {gpu: {model: pcie-a100, count: 30}}\njob: {nodes: 30}\n"
        "switches: [QM8700]\nfamilies: [fat-tree]\n"
    )
    (folder / "sweep.yaml").write_text("base: spec.yaml\nstages: [design]\nparameters: {nodes.gpu.count: [4]}\n")
    (folder / "pairs.csv").write_text("source,destination,Gb/s\ngpu0,gpu1,180\n")
    (folder / "queue.yaml").write_text(
        "jobs: [{name: a, nodes: 2, steps: 2, forward: 1 s, backward: 1 s, gradients: 1 GB}]\n"
    )
    (folder / "empty").touch()
    (folder / "noise").write_bytes(bytes(range(256)) * 40)
    (folder / "words").write_text("This is no such file.\nIt is a text.\n")
    (folder / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00\x00")
    (folder / "loop").symlink_to("loop")
    (folder / "steer\x1b[2J").write_bytes(b"\x00")
    (folder / "a-folder").mkdir()
    (folder / "a-folder" / "mine").write_text("mine")
    return folder


BAD = ["missing", "empty", "noise", "words", "cut.gz", "loop", "steer\x1b[2J", "a-folder", "a-folder/mine/x", "n" * 300]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter", "spelled"), tried(), ids=lambda value: str(value).replace("_", "-"))
def test_what_is_no_such_file_is_refused_by_name(
    name: str,
    parameter: str,
    spelled: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    places = {
        "SPEC": "spec.yaml",
        "PLAN": "plan",
        "DUMP": "plan/fabric.ibnetdiscover",
        "LFTS": "plan/opensm/lfts",
        "QUEUE": "queue.yaml",
        "CONF": "plan/opensm/opensm.conf",
        "CN": "plan/opensm/cn_guids",
        "FLOWS": "flows.csv",
        "PAIRS": "pairs.csv",
        "SWEEP": "sweep.yaml",
        "NEEDS": "needs.yaml",
    }
    before = contents(folder)
    faults = []
    for bad in BAD:
        if parameter in WRITTEN and bad in ("missing", "empty", "noise", "words", "cut.gz", "steer\x1b[2J"):
            continue  # a new name, or whether an older file may go: tests of files and folders
        line = [places.get(word, word) for word in words_of(name, parameter, spelled, f"./{bad}")]
        status = run(line)
        said = capsys.readouterr()
        shown = Path(bad).name.replace("\x1b", "\\u001b")[:100]
        what = f"{shlex.join(line)[:200]}: {status}, {said.err[:300]!r}"
        harmless = (parameter == "state" and bad == "missing") or (parameter in EMPTY and bad == "empty")
        if status != (0 if harmless else 2) or (not harmless and shown not in said.err):
            faults.append(what)
        elif re.search(r"Traceback|[^\x20-\uffff\n\t]", said.err) or (contents(folder) != before and not harmless):
            faults.append(f"{what}, {contents(folder) ^ before}")
        for extra in contents(folder) - before:
            shutil.rmtree(folder / extra, ignore_errors=True)
            (folder / extra).unlink(missing_ok=True)
    assert not faults, "\n".join(faults)


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_every_command_is_tried() -> None:
    assert set(GOOD) == set(COMMANDS) - {"schema", "completion"}
    assert len(tried()) > 35
