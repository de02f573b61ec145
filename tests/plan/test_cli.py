import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import plan.cli
from helpers.presets import PRESETS
from helpers.strategies import nightly
from plan.cli import COMMANDS, run
from topo.catalog.load import config_root
from topo.errors import DesignError


def plan_command(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plan", *arguments]
    return subprocess.run(command, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_help_names_every_command_and_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n  {name} " in text
    for status in ("0 ", "1 ", "2 ", "70"):
        assert f"\n    {status}" in text


def test_help_cuts_no_summary_short(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_ends_with_an_example_that_parses_and_a_page_about_the_command(
    name: str, capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    assert run([name, "--help"]) == 0
    example, manual = (line.split(":")[1].strip() for line in capsys.readouterr().out.splitlines()[-2:])
    assert example.startswith(f"plan {name}")
    group, words = plan.cli.plan, shlex.split(example.partition(" >")[0])
    command = group.get_command(click.Context(group), name)
    assert command is not None
    command.make_parser(click.Context(command)).parse_args(words[2:])
    assert command.make_context(name, words[2:]).params
    assert re.search(rf"plan {name}\b", (repository / manual).read_text())


def test_no_option_takes_what_is_no_number() -> None:
    group = plan.cli.plan
    context = click.Context(group)
    commands = [group, *(group.get_command(context, name) for name in COMMANDS)]
    given = [option.type for command in commands if command for option in command.params]
    numbers = [kind for kind in given if isinstance(kind, (click.FloatRange, click.types.FloatParamType))]
    assert len(numbers) > 8
    for kind in numbers:
        with pytest.raises(click.BadParameter, match="is not a number"):
            kind.convert("nan", None, None)


def test_help_imports_nothing_heavy() -> None:
    heavy = {"numpy", "numba", "pydantic", "matplotlib", "networkx", "scipy", "ruamel", "rich"}
    code = (
        "import sys; from plan.cli import COMMANDS, run\n"
        "assert not any(run(a) for a in (['--help'], *([c, '--help'] for c in COMMANDS)))\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.slow
def test_a_small_check_imports_no_solver(repository: Path) -> None:
    heavy = {"scipy", "pulp", "numba", "networkx", "matplotlib", "simpy", "pandas"}
    code = (
        "import sys; from plan.cli import run\n"
        "assert run(['check', 'configs/lab-20.yaml']) == 0\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chek", "x.yaml"], "Did you mean `check`?"),
        (["check"], "Missing argument 'SPEC'"),
        (["check", "--jsom", "x.yaml"], "--json"),
        (["build", "x.yaml", "-o", "x", "--seed", "-1"], "-1 is not in the range x>=0"),
        (["init", "fire-flyer"], "Did you mean `fire-flyer-2`?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""


PROVEN_FOR_SECONDS = ("eflops-bigraph", "dragonfly")
"""Presets whose worst cut takes the solver so long."""


@pytest.mark.slow
@pytest.mark.parametrize("preset", [nightly(name) if name in PROVEN_FOR_SECONDS else name for name in PRESETS])
def test_every_preset_checks(preset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    assert run(["init", preset, "-o", str(file)]) == 0
    assert file.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=")
    capsys.readouterr()
    assert run(["check", str(file), "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["holds"], result["name"], said.err) == (True, preset, "")


@pytest.mark.slow
def test_check_counts_fire_flyer_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(config_root() / "fire-flyer-2.yaml"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (subnet,) = told["networks"]
    # 2 x (40 + 20) + 2 switches; 1,200 + 2 x 180 adapters; 2 x 40 x 20 links to spines, 2 x 20 to joints.
    counts = {"switches": 122, "gpu_nodes": 1200, "storage_nodes": 180, "host_ports": 1560, "links": 3200}
    assert {name: subnet[name] for name in counts} == counts
    assert subnet == {"name": "fire-flyer-2"} | told["counts"]


def test_check_json_lists_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: a\nnodes: {}\nnetwork: {shape: fat-tree, switch: QM870}\n", encoding="utf-8")
    assert run(["check", str(file), "--json"]) == 2
    result = json.loads(capsys.readouterr().out)
    assert not result["ok"]
    assert [error["where"] for error in result["errors"]] == [f"{file}:2:8", f"{file}:3:36"]
    assert result["errors"][1]["hint"] == "Did you mean `QM8700`?"


def test_design_that_does_not_close_is_refused_with_its_arithmetic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (config_root() / "fire-flyer-2.yaml").read_text(encoding="utf-8")
    file = tmp_path / "too-many.yaml"
    file.write_text(text.replace("count: 1200", "count: 1250"), encoding="utf-8")
    assert run(["check", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{file}:21:3: ")
    assert "625" in said
    assert "180" in said


def test_init_lists_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == PRESETS
    assert run(["init", "--list", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["presets"]) == PRESETS


def test_init_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    assert run(["init", "lab-20", "-o", str(file), "--json"]) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"preset": "lab-20", "file": str(file)}, "")
    assert file.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=")


def test_init_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    Path("lab-20.yaml").write_text("mine", encoding="utf-8")
    Path("dangling.yaml").symlink_to("elsewhere.yaml")
    for target in ("lab-20.yaml", "dangling.yaml", "."):
        assert run(["init", "-o", target]) == 2
        assert f"{target}: found a file that exists" in capsys.readouterr().err
    assert Path("lab-20.yaml").read_text(encoding="utf-8") == "mine"
    assert not Path("elsewhere.yaml").exists()
    assert run(["init", "-o", "no/such/folder.yaml"]) == 2
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [[], ["workload"], ["queue"], ["needs"], ["sweep"]])
def test_schema_is_a_closed_json_schema(kind: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", *kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert schema["additionalProperties"] is False
    described = [
        (name, key)
        for name, part in [("spec", schema), *schema["$defs"].items()]
        for key, value in part.get("properties", {}).items()
        if key != "shape" and "description" not in value and "$ref" not in value
    ]
    assert described == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_kinds(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_PLAN_COMPLETE={shell}_complete" in script
    for words, expected in (
        (["plan", "ver"], "verify"),
        (["plan", "draw", "--tab"], "--tables"),
        (["plan", "schema", "wor"], "workload"),
    ):
        place = words[-1] if shell == "fish" else str(len(words) - 1)
        asked = {"_PLAN_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": place}
        done = plan_command(env=os.environ | asked, capture_output=True)
        assert expected in done.stdout
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gone", "extra", "arguments"),
    [
        (["pulp", "highspy"], "", ["compare", "lab.yaml", "lab.yaml"]),
        (["pulp", "highspy"], "optimise", ["optimise", str(config_root() / "needs" / "fire-flyer-2.yaml")]),
        (["pulp", "highspy"], "", ["build", "lab.yaml", "-o", "out"]),
        (["cairosvg", "pulp", "highspy"], "", ["draw", "lab.yaml"]),
        (["cairosvg"], "pictures", ["draw", "lab.yaml", "-o", "lab.png"]),
    ],
    ids=["compare", "optimise", "build", "draw", "png"],
)
def test_what_is_not_installed_is_told_by_those_who_need_it(
    gone: list[str], extra: str, arguments: list[str], tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "lab.yaml").write_text((config_root() / "lab-20.yaml").read_text(encoding="utf-8"))
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({gone})); from plan.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (2 if extra else 0), done.stderr
    assert (f"pip install 'heddle-fabric[{extra}]'" in done.stderr) == bool(extra)
    assert "Traceback" not in done.stderr


def raising(error: BaseException) -> click.Command:
    def callback(json: bool) -> None:
        raise error

    return click.Command("check", callback=callback, params=[click.Option(["--json"], is_flag=True)])


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (DesignError("805 > 800"), 1, "805 > 800\n"),
        (ZeroDivisionError("oops"), 70, "this is a bug in Heddle"),
    ],
    ids=["refused", "bug"],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_exit_status(
    as_json: bool,
    error: BaseException,
    status: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(plan.cli.CommandGroup, "get_command", lambda *_: raising(error))
    assert run(["check"] + ["--json"] * as_json) == status
    out, said = capsys.readouterr()
    if as_json:
        assert says.strip() in json.loads(out)["errors"][0]["message"] + said
    else:
        assert says in said
        assert out == ""
    assert ("Traceback" in said) == (status == 70)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["schema"], 141),
        (["compare", *[str(config_root() / "lab-20.yaml")] * 2], 141),  # tables by rich
        (["check", "no-such-file", "--json"], 2),
    ],
    ids=["text", "table", "refusal"],
)
def test_broken_pipe_is_quiet(arguments: list[str], status: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = plan_command(*arguments, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("wrong", ["--no-such-option", "no-such-file"])
def test_with_json_every_error_is_one_object(
    name: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([name, wrong, "--json"]) == 2
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["ok"], len(result["errors"]), said.err) == (False, 1, "")
    if wrong.startswith("-"):
        assert wrong in result["errors"][0]["message"]


@pytest.mark.parametrize(
    "asked", [pytest.param("schema", marks=pytest.mark.slow), "--help", "collect --json", "check none.yaml --json"]
)
def test_full_disk_is_told(asked: str) -> None:
    """On the other stream, where `--json` would have told it on the full one."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = plan_command(*asked.split(), stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert ("no such file" if "none" in asked else "no space left") in done.stderr
    assert "Traceback" not in done.stderr


def test_names_from_outside_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "no\x1b[2J\x9b31m\rsuch\u202e.yaml"]) == 2
    said = capsys.readouterr().err
    assert "no\\u001b[2J\\u009b31m\\u000dsuch\\u202e.yaml: found no such file" in said


def test_memory_that_does_not_suffice_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan.cli.CommandGroup, "get_command", lambda *_: raising(MemoryError()))
    assert run(["check"]) == 2
    assert capsys.readouterr().err.startswith("plan: not enough memory")


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", ">&- 2>&-", "--json >/dev/full"])
def test_bad_input_is_told_by_the_status_where_nothing_can_be_printed(stream: str) -> None:
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" -m plan check no-such-file {stream}'], check=False)
    assert done.returncode == 2


def test_what_a_terminal_cannot_show_is_spelled() -> None:
    code = "import plan.cli; plan.cli.run = lambda _: print('3 µs × 2', '\\u4e2d') or 0; plan.cli.main()"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 us x 2 \\u4e2d\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_bug(closed: str, tmp_path: Path) -> None:
    spec, out = config_root() / "lab-20.yaml", tmp_path / "out"
    command = f'"{sys.executable}" -m plan build "{spec}" -o "{out}" {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (out / "plan.json").is_file()
