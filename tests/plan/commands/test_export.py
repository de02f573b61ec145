"""`plan export`: each format alone is what `plan build` writes, from a spec and from a folder."""

import hashlib
import io
import json
import shutil
from pathlib import Path

import pytest

import plan as planned
import plan.export
from plan.cli import run
from plan.export import registry
from plan.export.registry import EXPORTS, OF_BUILD, OF_ROUTE
from topo.catalog.load import config_root
from topo.errors import HeddleError

LAB = config_root() / "lab-20.yaml"
HOSTS = '''
"""``hosts.txt``: every host, a line each."""

from plan.export.base import Export
from plan.pipeline import COMPILE

HOSTS = Export("hosts", "every host by name", "people", COMPILE,
               {"exports/hosts.txt": lambda plan, subnet: "".join(f"{name}\\n" for name in plan.fabrics[0].hosts)})
'''
PLANES = """
name: pair
nodes: {gpu: {model: hgx-h800, count: 4}}
network: {shape: planes, planes: 8, tree: {switch: QM9700, leaves: 2, spines: 1}}
"""


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Of one subnet with a floor, and of several: the spec, and the folder that is built of it."""
    folder = tmp_path_factory.mktemp("exports")
    (folder / "pair.yaml").write_text(PLANES, encoding="utf-8")
    (folder / "lab.yaml").write_text(LAB.read_text(encoding="utf-8") + "floor: {}\n", encoding="utf-8")
    for name in ("lab", "pair"):
        assert run(["build", str(folder / f"{name}.yaml"), "-o", str(folder / name)]) == 0
    return {name: (folder / f"{name}.yaml", folder / name) for name in ("lab", "pair")}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lab", "pair"])
@pytest.mark.parametrize("format", EXPORTS)
def test_every_format_alone_is_what_the_build_has(format: str, name: str, specs: dict[str, tuple[Path, Path]]) -> None:
    spec, folder = specs[name]
    built, export = contents(folder), EXPORTS[format]
    if (format, name) == ("places", "pair"):
        with pytest.raises(HeddleError, match="found no floor plan; expected a spec with `floor`, for places"):
            export.files_of(spec)
        return
    of_spec, of_folder = export.files_of(spec), export.files_of(folder)

    assert of_spec
    assert set(of_spec) == set(of_folder)
    if not export.built:
        assert of_spec == of_folder
        return
    assert set(of_spec) <= set(built)
    for path, content in of_spec.items():
        whole = (
            content.encode()
            if isinstance(content, str)
            else b"".join([content] if isinstance(content, bytes) else content)
        )
        assert whole == built[path] == of_folder[path], path


@pytest.mark.parametrize("name", ["lab", pytest.param("pair", marks=pytest.mark.slow)])
def test_the_formats_together_are_the_folder(name: str, specs: dict[str, tuple[Path, Path]]) -> None:
    folder = specs[name][1]
    formats = [format for format in OF_BUILD if (format, name) != ("places", "pair")]  # which has no floor
    made = [path for format in formats for path in EXPORTS[format].files_of(folder)]
    assert sorted([*made, "plan.json", "SHA256SUMS"]) == sorted(contents(folder))


def test_one_file_goes_to_standard_output_or_where_it_is_told(
    specs: dict[str, tuple[Path, Path]], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    spec, folder = specs["lab"]
    assert run(["export", str(spec), "cables"]) == 0
    assert capfdbinary.readouterr().out == (folder / "cables.csv").read_bytes()
    assert run(["export", str(folder), "cables", "-o", str(tmp_path / "c.csv")]) == 0
    assert (tmp_path / "c.csv").read_bytes() == (folder / "cables.csv").read_bytes()
    assert run(["export", str(folder), "slurm"]) == 2, "two files"
    assert run(["export", str(folder), "slurm", "-o", str(tmp_path / "slurm"), "--json"]) == 0
    assert sorted(path.name for path in (tmp_path / "slurm").iterdir()) == [
        "SHA256SUMS", "topology.conf", "topology.yaml"
    ]  # fmt: skip


def test_a_real_fabric_gives_what_needs_no_spec(
    specs: dict[str, tuple[Path, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump, routed = specs["lab"][1] / "fabric.ibnetdiscover", tmp_path / "routed"
    assert run(["route", str(dump), "-o", str(routed)]) == 0
    for source in (dump, routed):
        assert run(["export", str(source), "graphml", "-o", str(tmp_path / "g")]) == 0
        assert b'attr.name="load"' in (tmp_path / "g").read_bytes()
        capsys.readouterr()
        assert run(["export", str(source), "bom-csv"]) == 2
        assert "expected a spec" in capsys.readouterr().err
    for format in OF_ROUTE:
        for path, content in EXPORTS[format].files_of(routed).items():
            assert content == (routed / path).read_bytes()


XDR = """
name: pod
nodes: {gpu: {model: dgx-b300, count: 2}}
network: {shape: planes, planes: 8, tree: {switch: %s, leaves: 2, spines: 1}}
"""


@pytest.mark.parametrize("switch", ["Q3400", "QM9700"])
def test_files_of_tables_that_are_not_to_be_loaded_say_so(switch: str, tmp_path: Path, capsys) -> None:
    """A file where its format has comments, and the command for all, also where it copies them out of a folder."""
    model = {"Q3400": "dgx-b300", "QM9700": "dgx-h100"}[switch]
    spec, out = tmp_path / "pod.yaml", tmp_path / "out"
    spec.write_text((XDR % switch).replace("dgx-b300", model), encoding="utf-8")
    assert run(["route", str(spec), "--subnet", "pod-plane0", "-o", str(out)]) == 0
    told = switch == "Q3400"
    for source, options in ((spec, ["--subnet", "pod-plane0"]), (out, [])):
        for format in ("topo", "topoconfig", "nvidia-sm", "opensm"):
            capsys.readouterr()
            suffix = {"topo": ".topo", "topoconfig": ".conf"}.get(format, "")
            place = tmp_path / f"{source.name}-{format}{suffix}"
            assert run(["export", str(source), format, *options, "-o", str(place)]) == 0
            assert ("not to be loaded as they are" in capsys.readouterr().err) == told, (source, format)
            for path in [place] if suffix else [place / "opensm.conf"]:
                text = path.read_text(encoding="utf-8")
                assert text.startswith("# Caveat: ") == (told and format != "topoconfig"), path


def test_refuses_what_it_does_not_know(
    specs: dict[str, tuple[Path, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, folder = specs["lab"]
    for arguments, says in (
        ([str(spec), "slrum"], "Did you mean `slurm`?"),
        ([str(spec)], "--list"),
        ([str(tmp_path), "slurm"], "without plan.json"),
        ([str(spec), "cables", "-o", str(spec)], "an input"),
        ([str(folder), "opensm", "-o", str(folder)], "found plan.json of a plan"),
    ):
        assert run(["export", *arguments]) == 2, arguments
        assert says in capsys.readouterr().err
    assert (folder / "plan.json").is_file()


def test_lists_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(EXPORTS)
    assert [line.strip() for line in lines[1::2]] == [f"for {export.consumer}" for export in EXPORTS.values()]
    assert run(["export", "--list", "--json"]) == 0
    listed = json.load(io.StringIO(capsys.readouterr().out))["formats"]
    assert list(listed) == list(EXPORTS)
    assert all(one["consumer"] for one in listed.values())


def test_a_file_that_was_changed_is_not_handed_on(
    specs: dict[str, tuple[Path, Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["build", str(LAB), "-o", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "cables.csv").open("a") as file:
        file.write("C99\n")
    assert run(["export", str(tmp_path / "out"), "cables"]) == 2
    assert "changed after it was written" in capsys.readouterr().err


def spoilt(specs: dict[str, tuple[Path, Path]], folder: Path) -> Path:
    shutil.copytree(specs["lab"][1], folder)
    return folder


def test_a_forged_list_of_files_leads_out_of_no_folder(specs, tmp_path: Path, capsys) -> None:
    folder = spoilt(specs, tmp_path / "a" / "plan")
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    with (folder / "SHA256SUMS").open("a") as sums:
        sums.write(f"{digest}  opensm/../../../secret\n")
    assert run(["export", str(folder), "opensm", "-o", str(tmp_path / "b" / "c" / "out")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "secret"]
    assert not [path for path in (tmp_path / "b").rglob("*") if path.is_file() and path.read_bytes() == b"secret"]


@pytest.mark.parametrize("lost", ["opensm/lfts", "SHA256SUMS"])
def test_a_folder_that_has_lost_a_file_is_bad_input(lost: str, specs, tmp_path: Path, capsys) -> None:
    folder = spoilt(specs, tmp_path / "plan")
    (folder / lost).unlink()
    assert run(["export", str(folder), "opensm", "-o", str(tmp_path / "out")]) == 2
    assert f"{lost}: cannot be read" in capsys.readouterr().err


def test_an_export_is_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module beside the others is all that a new format takes: it is listed, exported alone, and built."""
    (tmp_path / "hosts.py").write_text(HOSTS)
    monkeypatch.setattr(plan.export, "__path__", [*plan.export.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "EXPORTS", registry.find_exports())

    assert run(["export", "--list"]) == 0
    assert "hosts          every host by name" in capsys.readouterr().out
    assert run(["export", str(LAB), "hosts"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "gpu00"
    assert run(["export", str(LAB), "host"]) == 2
    assert "Did you mean `hosts`?" in capsys.readouterr().err
    built = planned.build(LAB)
    assert registry.plan_files(built, {}, ["hosts"])["exports/hosts.txt"].count("\n") == 20
