"""The cheapest design from Python; `commands/test_cost.py` has the command."""

from pathlib import Path

import pytest

import costmodel
import plan.files
import topo
from plan.optimum import judge_tables, optimise
from plan.staging import Content

NEEDS = {"name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 30}}, "job": {"nodes": 30},
         "switches": ["QM8700"]}  # fmt: skip


def test_quotes_are_written_with_their_day_or_refused(tmp_path: Path) -> None:
    quoted = NEEDS | {"currency": "USD", "quotes": {"QM8700": 9000}}
    with pytest.raises(topo.HeddleError, match=r"pod: quotes: found prices without a day; expected `quoted`"):
        optimise(costmodel.Needs.model_validate(quoted), tmp_path / "best.yaml")
    assert list(tmp_path.iterdir()) == []
    found = optimise(costmodel.Needs.model_validate(quoted | {"quoted": "2026-11-20"}), tmp_path / "best.yaml")
    assert found.written == (tmp_path / "best.yaml",)
    assert "QM8700,USD,9000" in (tmp_path / "best-catalog" / "prices.csv").read_text()
    assert found.verdict is topo.Verdict.CANNOT_TELL, "servers have no price"


def test_a_full_disk_leaves_no_spec_without_its_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file fills it, nothing is there, and the same command works once there is room."""
    quoted = costmodel.Needs.model_validate(
        NEEDS | {"currency": "USD", "quotes": {"QM8700": 9000}, "quoted": "2026-11-20", "stages": [0.5]}
    )
    make, room = plan.files.make_file, iter(range(9))

    def until_full(path: Path, content: Content) -> str:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return make(path, content)

    monkeypatch.setattr(plan.files, "make_file", until_full)
    for files in room:
        left = iter(range(files))
        try:
            optimise(quoted, tmp_path / "best.yaml")
        except topo.HeddleError as error:
            assert "No space left" in str(error) and list(tmp_path.iterdir()) == []
        else:
            break
    assert files == 3
    assert {path.name for path in tmp_path.iterdir()} == {"best.yaml", "best-stage1.yaml", "best-catalog"}
    assert topo.read(tmp_path / "best.yaml").catalog.price("QM8700", "USD").low == 9000


def test_needs_that_no_design_is_known_to_meet() -> None:
    needs = costmodel.Needs.model_validate(NEEDS | {"nodes": {"gpu": {"model": "pcie-a100", "count": 30_000}},
                                                    "families": ["hyperx"]})  # fmt: skip
    found = optimise(needs, limit_s=0.0)
    assert found.search.winner is None
    assert found.verdict is not topo.Verdict.HOLDS
    assert found.to_dict()["winner"] is None


def test_tables_are_held_against_the_share_that_is_needed() -> None:
    lab = topo.preset("lab-20")
    for least, verdict in ((0.01, topo.Verdict.HOLDS), (1.01, topo.Verdict.EXCEEDED)):
        proof, tables = judge_tables(costmodel.Needs.model_validate(NEEDS).model_copy(update={"tables": least}), lab)
        assert proof.verdict is topo.Verdict.HOLDS
        assert tables.verdict is verdict
        assert f"{least:.1%} is needed" in tables.text
