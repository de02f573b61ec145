"""The rules of the house that a machine can check."""

import ast
import csv
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Collection
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ("topo", "routing", "simulate", "costmodel", "plan")
ROOMS = "topo|routing|simulate|costmodel|plan|configs|docs|tests|scripts|notebooks|benchmarks"
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
CODE = re.compile(rf"`((?:{ROOMS})/[\w./*-]*)`")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def load_script(repository: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, repository / "scripts" / f"{name}.py")
    assert spec and spec.loader
    script = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.slow
def test_imports_go_in_one_direction(repository: Path) -> None:
    done = run(Path(sys.executable).with_name("lint-imports"), "--no-cache", cwd=repository)
    assert done.returncode == 0, done.stdout


def modules(repository: Path) -> dict[str, Path]:
    """Modules of the product by their dotted names; a package is its `__init__`."""
    found = {}
    for package in PACKAGES:
        for path in sorted((repository / package).rglob("*.py")):
            words = path.relative_to(repository).with_suffix("").parts
            found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


def faces(path: Path, product: Collection[str]) -> set[str]:
    """Packages that a module imports as such, wherever it does, and not one of their modules."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module for alias in node.names if f"{node.module}.{alias.name}" not in product}
    return names & {*PACKAGES}


@pytest.mark.slow
def test_no_module_enters_its_own_package_by_the_front_door(repository: Path) -> None:
    """What a face leads to may need the module that imports it: a circle that is closed only at run time.

    `Fabric.draw` and `Fabric.counts` belong to a fabric, and what does their work stands on `Fabric`.
    """
    product = modules(repository)
    inside = [name for name, path in product.items() if name.partition(".")[0] in faces(path, product)]
    assert inside == ["topo.fabric"]


def test_tests_mirror_the_packages(repository: Path) -> None:
    """A test of a module stands where the module does, in a file of its name or in one that imports it."""
    product, tests = modules(repository), repository / "tests"
    mirrored = [path for package in PACKAGES for path in (tests / package).rglob("test_*.py")]
    astray = [str(path) for path in mirrored if not (repository / path.parent.relative_to(tests)).is_dir()]
    assert astray == []
    for path in mirrored:
        folder, name = ".".join(path.parent.relative_to(tests).parts), path.stem.removeprefix("test_")
        package = folder.partition(".")[0]
        named = [module for module in product if module.startswith(package) and module.endswith(f".{name}")]
        assert not named or f"{folder}.{name}" in named or folder in named, path


NAMED_TWICE = {
    "routing": "BLOCK Bools EFFORT ENTRY Floats Int32s Ints MOST_PAIRS NOWHERE route",
}
"""Names that still mean several things in a package: the list may only shrink, and other packages have none."""


def top_level_names(path: Path) -> set[str]:
    """Public names that a module defines itself at its top level."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_command(node):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def is_command(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether it is a command of the command line, which has the name of the function that does its work."""
    return any("click" in ast.dump(decorator) for decorator in node.decorator_list)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_means_one_thing_in_a_package(package: str, repository: Path) -> None:
    """A public name is defined in one module of its package, so that a reader who has met it knows it."""
    counted = Counter(
        name
        for module, path in modules(repository).items()
        if module.partition(".")[0] == package
        for name in top_level_names(path)
    )
    assert {name for name, times in counted.items() if times > 1} == set(NAMED_TWICE.get(package, "").split())


def test_documents_name_no_missing_file(repository: Path) -> None:
    documents = [*repository.glob("*.md"), *repository.glob("docs/**/*.md"), *repository.glob("configs/**/*.md")]
    assert repository / "README.md" in documents
    missing = []
    for document in documents:
        text = document.read_text(encoding="utf-8")
        links = [(document.parent, link) for link in LINK.findall(text) if "://" not in link]
        for folder, name in [*links, *((repository, name) for name in CODE.findall(text))]:
            if not any(folder.glob(name)) if "*" in name else not (folder / name).exists():
                missing.append(f"{document.relative_to(repository)}: {name}")
    assert missing == []


def test_decisions_are_short_and_in_the_index(repository: Path) -> None:
    folder = repository / "docs" / "decisions"
    decisions = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("0*.md"))}
    assert [name for name, text in decisions.items() if len(text.splitlines()) > 40] == []
    numbers = [int(re.match(r"# (\d+)\. ", text)[1]) for text in decisions.values()]  # type: ignore[index]
    assert numbers == [int(name[:4]) for name in decisions]
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[(\d+)\]\((.*)\) \|", index, re.MULTILINE) == [
        (str(number), name) for number, name in zip(numbers, decisions, strict=True)
    ]


def test_measurements_are_in_validation_with_the_command_that_makes_them(repository: Path) -> None:
    """Pages for users say what to do and how to read it; how good that is stands in `docs/validation`."""
    folder = repository / "docs" / "validation"
    pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    index, manual = pages.pop("README"), (repository / "docs" / "index.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([\w-]+)\.md\)", index))
    assert set(pages) == linked == set(re.findall(r"validation/([a-z-]+)", manual))
    made = re.compile(r"benchmarks/\w+/\w+\.py|scripts/\w+\.py|python -m pytest")
    assert [name for name, text in pages.items() if not made.search(text)] == []
    users = {path.name: path.read_text(encoding="utf-8") for path in (repository / "docs").glob("*.md")}
    assert [name for name, text in users.items() if "benchmarks/" in text] == []


def test_contributing_names_every_room(repository: Path) -> None:
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Rooms") : text.index("## House rules")]
    rooms = [path.parent for package in PACKAGES for path in (repository / package).glob("*/__init__.py")]
    assert [str(room.relative_to(repository)) for room in rooms if f"{room.name}/`" not in table] == []


def test_documents_name_no_missing_make_target(repository: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    documents = "\n".join((repository / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md"))
    named = set(re.findall(r"(?:^ *|`)make ([a-z]+)", documents, re.MULTILINE))
    assert {"plan", "test"} <= named <= targets


@pytest.mark.slow
def test_wheel_carries_packages_and_configs(repository: Path, tmp_path: Path) -> None:
    offline = ("--no-deps", "--no-build-isolation", "--no-index")
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", *offline, "-w", tmp_path, repository, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("heddle_fabric-*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["importlinter"]["root_packages"]
    assert {path.parent.name for path in site.glob("*/__init__.py")} == set(packages)
    assert {path.parent.name for path in site.glob("*/py.typed")} == set(packages)

    def files_below(folder: Path) -> dict[Path, bytes]:
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}

    installed = site / "topo" / "configs"
    assert files_below(installed) == files_below(repository / "configs") != {}
    question = "import topo.catalog.load; print(topo.catalog.load.config_root())"
    asked = run(sys.executable, "-c", question, cwd=tmp_path, PYTHONPATH=str(site))
    assert asked.stdout.strip() == str(installed), asked.stderr


def test_rendered_notebooks_are_of_these_notebooks(repository: Path) -> None:
    """Each page in docs/notebooks was made from the cells of its notebook: `make notebooks` makes them anew."""
    script = load_script(repository, "render_notebooks")
    notebooks = sorted(script.NOTEBOOKS.glob("*.ipynb"))
    assert notebooks
    assert [notebook.name for notebook in notebooks if script.is_stale(notebook)] == []
    assert {page.stem for page in script.PAGES.glob("*.md")} == {notebook.stem for notebook in notebooks}
    assert sum(path.stat().st_size for path in script.PAGES.rglob("*.*")) < 2_000_000


@pytest.mark.parametrize("where", ["costmodel/price.py", "routing/engines/modulo.py", "topo/shapes/"])
@pytest.mark.slow
def test_every_mutant_is_one_edit_of_one_line_that_still_compiles(repository: Path, where: str) -> None:
    script = load_script(repository, "mutate")
    drawn = list(script.draw(40, 1, where))
    assert len(drawn) > 10 and drawn == list(script.draw(40, 1, where)) != list(script.draw(40, 2, where))
    for mutant in drawn:
        source = (repository / mutant.file).read_text(encoding="utf-8")
        compile(mutant.text, mutant.file, "exec", dont_inherit=True)
        before, after = (ast.dump(ast.parse(text)) for text in (source, mutant.text))
        assert before != after, mutant
        lines, others = source.splitlines(), mutant.text.splitlines()
        same = next(at for at, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b)
        assert same + 1 >= mutant.line and lines[same + 1 + len(lines) - len(others) :] == others[same + 1 :], mutant


def test_tests_of_the_same_name_run_first_and_then_the_quickest(repository: Path) -> None:
    script = load_script(repository, "mutate")
    known = {
        "tests/plan/test_x.py": {"digest": "", "tests": {"quick": {"s": 0.1, "lines": {"topo/a.py": f"{1 << 5:x}"}}}},
        "tests/topo/test_a.py": {"digest": "", "tests": {"slow": {"s": 9.0, "lines": {"topo/a.py": f"{3 << 5:x}"}}}},
        "tests/topo/test_b.py": {"digest": "", "tests": {"other": {"s": 0.1, "lines": {"topo/a.py": f"{1 << 9:x}"}}}},
    }

    def order(reach: range) -> list[str]:
        return list(script.tests_of(script.Mutant("topo/a.py", reach, 5, "", "", ""), known)[0])

    assert order(range(5, 6)) == ["slow", "quick"]
    assert order(range(7, 9)) == []
    assert order(range(1, 20)) == ["slow", "other", "quick"]  # done on import: whoever runs anything of the file


def test_every_known_survivor_has_a_reason(repository: Path) -> None:
    with (repository / "scripts" / "survivors.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows and all(row["file"] and row["before"] and row["reason"] for row in rows)
