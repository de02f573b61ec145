"""The points that follow from what a sweep says, and the sweeps of the manual."""

import re
import shutil
from pathlib import Path

import pytest

from plan.sweeps.spec import SweepSpec, read_sweep
from topo.catalog.load import config_root
from topo.errors import SpecError


def test_each_is_nothing_and_then_every_part_of_its_kind_alone() -> None:
    asked = []

    def parts(kind: str) -> list[str]:
        asked.append(kind)
        return [f"{kind}-a", f"{kind}-b"]

    spec = SweepSpec.model_validate({"base": "x.yaml", "parameters": {"failed.switch": "each", "seed": [3, 4]}})
    assert spec.points(parts) == [
        {"failed.switch": failed, "seed": seed} for failed in (0, "switch-a", "switch-b") for seed in (3, 4)
    ]
    assert asked == ["switch"]


def test_each_in_a_list_is_no_part(tmp_path: Path) -> None:
    shutil.copy(config_root() / "lab-20.yaml", tmp_path)
    (tmp_path / "s.yaml").write_text("{base: lab-20.yaml, stages: [route], parameters: {failed.switch: [each]}}")
    with pytest.raises(SpecError, match=r"found `each` in a list; expected .*`failed.switch: each`"):
        read_sweep(tmp_path / "s.yaml")


def test_what_a_path_lacks_in_the_base_can_be_copied_from_the_message(tmp_path: Path) -> None:
    """The key that the message proposes is one with which the same sweep is read."""
    lab, sweep = tmp_path / "lab.yaml", tmp_path / "s.yaml"
    shutil.copy(config_root() / "lab-20.yaml", lab)
    assert "floor" not in lab.read_text() and "routing" not in lab.read_text()
    for name in ("routing.engine", "floor.walls.front"):
        sweep.write_text(f"base: lab.yaml\nparameters:\n  {name}: [1, 2]\n")
        with pytest.raises(SpecError, match=rf's.yaml:3:{len(name) + 5}: found "{name}"') as told:
            read_sweep(sweep)
        (proposed,) = re.findall("`(.*)` there first", str(told.value))
        lab.write_text(lab.read_text() + proposed.replace("...", "0") + "\n")
        assert read_sweep(sweep)[0].points() == [{name: 1}, {name: 2}]


def test_the_sweeps_of_the_manual_are_read(tmp_path: Path, repository: Path) -> None:
    for file in config_root().glob("*.yaml"):
        shutil.copy(file, tmp_path)
    shutil.copy(config_root() / "lab-20.yaml", tmp_path / "mine.yaml")
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((repository / "docs").rglob("*.md")))
    sweeps = [block for block in text.split("```") if re.search("^base: ", block, re.MULTILINE)]
    assert len(sweeps) >= 4
    for sweep in sweeps:
        (tmp_path / "sweep-of-the-manual.yaml").write_text(sweep[sweep.index("base: ") :], encoding="utf-8")
        read_sweep(tmp_path / "sweep-of-the-manual.yaml")
