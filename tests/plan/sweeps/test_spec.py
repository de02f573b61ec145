"""The points that follow from what a sweep says."""

from plan.sweeps.spec import SweepSpec


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
