"""`plan verify` on files that are broken, cut short or hostile: one message, or a verdict that is true."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import routing
import topo
from helpers.far import format_far
from plan.cli import run
from plan.commands.verify import show_answers
from topo.catalog.load import config_root
from topo.table import Column


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lab") / "out"
    assert run(["build", str(config_root() / "lab-20.yaml"), "-o", str(out)]) == 0
    return out


@pytest.mark.slow
def test_a_fabric_without_pairs_is_not_proven(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = (lab / "fabric.ibnetdiscover").read_text(encoding="utf-8")
    cut = tmp_path / "cut"
    cut.write_text(dump[: dump.index("\n\n", dump.index("Switch"))], encoding="utf-8")

    assert run(["verify", str(cut), str(lab / "opensm" / "lfts")]) == 2

    said = capsys.readouterr()
    assert "expected at least two" in said.err
    assert "holds" not in said.out


def test_tables_of_other_ports_are_not_called_a_fabric_that_is_cut(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (lab / "opensm" / "lfts").read_text(encoding="utf-8")
    switches = "|".join(re.findall(r" guid 0x(\w+)", text))
    (tmp_path / "other").write_text(re.sub(f"portguid 0x(?!{switches}).", "portguid 0xf", text), encoding="utf-8")

    assert run(["verify", str(lab / "fabric.ibnetdiscover"), str(tmp_path / "other")]) == 2

    *_, last = capsys.readouterr().err.splitlines()
    assert last.startswith(f"{tmp_path / 'other'}: found a LID for 0 end ports (hca) of the 22 that")
    assert "whole" not in last


@pytest.mark.slow
@pytest.mark.parametrize("part", ["fabric.ibnetdiscover", "opensm/lfts"])
def test_any_truncation_ends_in_a_message_or_a_verdict(
    lab: Path, tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (lab / part).read_bytes()
    files = {name: str(lab / name) for name in ("fabric.ibnetdiscover", "opensm/lfts")}
    files[part] = str(tmp_path / "cut")
    for size in range(0, len(whole), len(whole) // 23):
        (tmp_path / "cut").write_bytes(whole[:size])
        status = run(["verify", *files.values()])
        said = capsys.readouterr()
        assert status in (0, 1, 2)
        if part == "fabric.ibnetdiscover":
            assert said.err, "what was passed over, or why it was refused"
        else:  # every switch is on some path, and the entries towards switches stand last
            assert status or size > whole.rindex(b"Unicast")


def test_names_in_a_dump_cannot_steer_the_terminal(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = (lab / "fabric.ibnetdiscover").read_text(encoding="utf-8").replace("gpu0", "\x1b[2J\u202e[red]")
    dump = dump[dump.index("\n\n") :]  # the name of the fabric stands above; without it, it is that of the file
    evil = tmp_path / "[red]\x1b[31m[blue].txt"
    evil.write_text(dump, encoding="utf-8")
    tables = tmp_path / "lfts"
    lines = (lab / "opensm" / "lfts").read_text(encoding="utf-8").splitlines(keepends=True)
    tables.write_text("".join(line for line in lines if " 021 " not in line), encoding="utf-8")

    assert run(["verify", str(evil), str(tables)]) == 1

    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\u202e" not in said.out + said.err
    assert said.out.startswith("[red]\\u001b[31m[blue] FAILS")
    assert "[red]" in said.out.partition("missing: ")[2]


@pytest.mark.parametrize("which", [0, 1], ids=["fabric", "tables"])
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "binary", "huge"])
def test_a_file_that_is_none_is_bad_input(
    lab: Path, tmp_path: Path, which: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(9 << 30)  # sparse: it takes no room
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else bytes(range(256)) * 64)
    files = [str(lab / "fabric.ibnetdiscover"), str(lab / "opensm" / "lfts")]
    files[which] = str(path)
    capsys.readouterr()

    assert run(["verify", *files]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{path}:")
    assert run(["verify", *files, "--json"]) == 2
    result = json.loads(capsys.readouterr().out)
    assert (result["ok"], len(result["errors"])) == (False, 1)
    assert str(path) in "".join(result["errors"][0].values())


def test_questions_are_answered_after_a_verdict(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["verify", str(lab), str(lab / "opensm" / "lfts")]
    asked = ["--path", "gpu00", "26", "--over", "leaf0:21", "--without", "spine0", "--without", "leaf0:21 -> spine0:1"]
    assert run([*files, *asked]) == 0
    said = capsys.readouterr().out
    for words in (
        "holds: every pair arrives",
        "leaf0:21 -> spine0:1",
        "without spine0",
        "head1 mlx5_0",
        "more; --json",
    ):
        assert words in said
    assert "from level" not in said, "the load of all links was not asked for"
    assert "each of these parts fails alone; --together" in said
    assert run([*files, "--without", "spine0", "--without", "spine1", "--together"]) == 0
    said = capsys.readouterr().out
    assert "without spine0 and spine1" in said and "fails alone" not in said
    assert said.startswith("as it is, lab-20 holds")
    words = (
        "between 22 end ports, 242 pairs (each direction one) are lost until they are rerouted, 242 stay disconnected"
    )
    assert words in " ".join(said.split())
    assert run([*files, "--without", "spine0", "--together"]) == 2
    assert "give --without for each of them" in capsys.readouterr().err

    assert run([*files, *asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run([*files, *asked, *asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == told, "what is asked twice is answered once"
    there, back = told["paths"]
    assert (there["source"], there["destination"]) == (back["destination"], back["source"])
    assert there["channels"][0] == "gpu00 mlx5_0:1 -> leaf0:1"
    forth, back_over = told["over"][0]["directions"]
    assert ["gpu00 mlx5_0:1", "head1 mlx5_0:1"] in forth["pairs"]
    spine, link = told["without"]
    assert len(spine["pairs"]) == spine["lost"] == spine["states"][1]["missing"]
    both = [*forth["pairs"], *back_over["pairs"]]
    assert sorted(link["pairs"]) == sorted(both)
    assert [state["missing"] for state in link["states"]] == [0, len(both), 0]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (["--path", "gpu00", "storage0"], "'storage0' is the name of 2; name one: storage0 mlx5_0:1"),
        (["--over", "leaf0:1000"], "leaf0 has ports 1 to"),
        (["--without", "spine7"], "no switch, link or host 'spine7'"),
    ],
)
def test_a_question_about_what_is_not_there_is_bad_input(
    lab: Path, asked: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(lab), str(lab / "opensm" / "lfts"), *asked]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_a_folder_is_proven_by_its_own_tables_as_by_those_that_are_named(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    said = []
    for tables in ([], [str(lab / "opensm" / "lfts")]):
        assert run(["verify", str(lab), *tables, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0]["pairs"] == 22 * 21


def test_only_a_folder_has_tables_of_its_own(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(lab / "fabric.ibnetdiscover")]) == 2
    assert "only a folder of a plan has its own" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cost", "check", "compare", "build"])
def test_a_folder_in_place_of_a_spec(
    command: str, lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"build": ["-o", str(tmp_path / "new")], "compare": ["lab-20"]}.get(command, [])
    assert run([command, str(lab), *more]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{lab}: found a folder with a plan that was made already; expected the YAML file of a spec")
    assert "plan.json" in said
    assert run([command, str(tmp_path), *more]) == 2
    assert "found a folder; expected the YAML file" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_groups_of_ports_are_proven_around_the_tables(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(lab), "--groups", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["groups"]
    assert [found[kind]["lanes"] for kind in ("tables", "legal", "shortest")] == [1, 1, 1]
    assert found["legal"]["max_load"] < found["tables"]["max_load"] == 11
    assert run(["verify", str(lab), "--groups"]) == 0
    assert "ports that a switch may choose from" in capsys.readouterr().out


def test_adaptive_tables_are_proven_without_others(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabric = topo.read_fabric(lab / "fabric.ibnetdiscover")
    read = routing.opensm.read_lfts(lab / "opensm" / "lfts", fabric).tables
    tables = routing.studies.adaptive.legal_tables(routing.Routed(fabric, read))
    dump = tmp_path / "ibdiagnet2.far"
    text = format_far(fabric, tables)
    dump.write_text(text, encoding="utf-8")
    words = ["verify", str(lab / "fabric.ibnetdiscover"), "--adaptive", str(dump)]
    assert run(words) == 0
    assert "adaptive routing, whatever port a switch takes: holds" in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["adaptive"]
    assert (found["verdict"], found["faults"]) == ("holds", [])

    # The dump has one switch: what the others hold is not known, or is that of tables beside it.
    cut = text.index("Switch 0x", text.index("Switch 0x") + 1)
    dump.write_text(text[:cut], encoding="utf-8")
    assert run(words) == 3
    said = capsys.readouterr()
    assert "adaptive routing, whatever port a switch takes: cannot tell" in said.out
    assert "pairs that some choice of ports loses" in said.out
    assert "switches of the fabric without a table" in said.err
    assert run(["verify", words[1], str(lab / "opensm" / "lfts"), *words[2:]]) == 0
    assert "adaptive routing, whatever port a switch takes: holds" in capsys.readouterr().out

    # Tables of the folder beside the dump: what differs from its static ports is noted.
    dump.write_text(text, encoding="utf-8")
    assert run(["verify", str(lab), str(lab / "opensm" / "lfts"), "--adaptive", str(dump)]) == 0
    assert "differ from the static ports" not in capsys.readouterr().err


def test_a_multicast_group_that_is_no_tree_fails(lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric = topo.read_fabric(lab / "fabric.ibnetdiscover")
    leaf, spine = (int(fabric.node_guid[at]) for at in (0, 2))
    port = next(port for port in fabric.ports_of(0) if fabric.peer_node[port] == 2)
    ends = (int(fabric.port_number[port]), int(fabric.port_number[fabric.peer[port]]))
    dump = tmp_path / "opensm.mcfdbs"
    for number, status in ((ends[1], 0), (ends[1] % 20 + 1, 1)):
        dump.write_text(
            f"Switch 0x{leaf:016x}\nLID : Out Port(s)\n0xC000 : 0x001 0x{ends[0]:03x}\n"
            f"Switch 0x{spine:016x}\n0xC000 : 0x{number:03x}\n"
        )
        assert run(["verify", str(lab), "--multicast", str(dump)]) == status
        assert ("fails" in capsys.readouterr().out) == bool(status)
        assert run(["verify", str(lab), "--multicast", str(dump), "--json"]) == status
        (group,) = json.loads(capsys.readouterr().out)["multicast"]["groups"]
        assert ("which does not answer" in group["example"]) == bool(status)


def test_planned_multicast_trees_are_proven_as_those_of_a_dump(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trees = tmp_path / "trees.mcfdbs"
    assert run(["export", str(lab), "multicast", "-o", str(trees)]) == 0
    capsys.readouterr()
    assert run(["verify", str(lab), "--multicast", str(trees), "--json"]) == 0
    groups = json.loads(capsys.readouterr().out)["multicast"]["groups"]
    assert [(group["members"], group["holds"]) for group in groups] == [(22, True), (16, True), (4, True), (2, True)]


def test_the_page_on_adaptive_routing_prints_what_the_command_prints(
    lab: Path, tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (repository / "docs" / "adaptive.md").read_text(encoding="utf-8")
    fabric = topo.read_fabric(lab / "fabric.ibnetdiscover")
    read = routing.opensm.read_lfts(lab / "opensm" / "lfts", fabric).tables
    text = format_far(fabric, routing.studies.adaptive.legal_tables(routing.Routed(fabric, read)))
    # Towards the first leaf, a port of the first spine that leads to the other one.
    spine = text.index(f"Switch 0x{int(fabric.node_guid[2]):016x}")
    head, group, rest = text[:spine], *re.split(r"(?<=0     6,7,8,9,10,)", text[spine:], maxsplit=1)
    for number, dump in enumerate((text, head + group + "11," + rest)):
        path = tmp_path / f"{number}.far"
        path.write_text(dump, encoding="utf-8")
        assert run(["verify", str(lab / "fabric.ibnetdiscover"), "--adaptive", str(path)]) == number
        lines = capsys.readouterr().out.splitlines()
        for line in [*lines[:2], *(line.strip(" │")[:40] for line in lines if "credit loops, all" in line)]:
            assert line in page


@pytest.mark.parametrize("asked", ["groups", "shares", ""])
def test_what_is_asked_of_adaptive_ports_is_shown(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    answers = dict[str, object](paths=(), over=(), without=(), groups=None, shares=None)
    if asked:
        answers[asked] = SimpleNamespace(table=topo.Table(asked, (Column("port", [7]),)))
    show_answers(SimpleNamespace(**answers))  # type: ignore[arg-type]
    shown = capsys.readouterr().out
    assert ((asked in shown), "7" in shown) == (True, bool(asked))
