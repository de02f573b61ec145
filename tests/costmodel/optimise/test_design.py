"""What checks say of a design together: every combination, by the words of the definitions."""

from dataclasses import replace
from itertools import product

import costmodel
from costmodel.optimise.capacity import COMPUTE, JOB
from costmodel.optimise.design import FLOOR_CHECKS, Design
from topo.amounts import Verdict
from topo.checks import Check


def design() -> Design:
    gpus = {"gpu": {"model": "pcie-a100", "count": 8}}
    needs = {"name": "a", "nodes": gpus, "job": {"nodes": 4}, "switches": ["QM8700"]}
    found = costmodel.optimise(costmodel.Needs.model_validate(needs)).winner
    assert found is not None
    return found


def test_every_combination_of_checks() -> None:
    """Refused by the floor: something of the floor is missed, and all else holds."""
    one, seen = design(), set()
    for (what, verdict), (other, second) in product(product([JOB, COMPUTE, "power", *FLOOR_CHECKS], Verdict), repeat=2):
        checks = (Check(what, verdict, ""), Check(other, second, ""))
        judged = replace(one, checks=checks)
        verdicts = {verdict, second}
        refused = Verdict.EXCEEDED in verdicts
        assert judged.verdict is (
            Verdict.EXCEEDED if refused else Verdict.CANNOT_TELL if Verdict.CANNOT_TELL in verdicts else Verdict.HOLDS
        )
        unknown = [check for check in checks if check.verdict is Verdict.CANNOT_TELL]
        assert judged.acceptable == (not refused and all(check.what in (JOB, COMPUTE) for check in unknown))
        others = [check.verdict for check in checks if check.what not in FLOOR_CHECKS]
        assert judged.refused_by(FLOOR_CHECKS) == (refused and set(others) <= {Verdict.HOLDS})
        seen.add((judged.acceptable, judged.refused_by(FLOOR_CHECKS)))
    assert seen == {(True, False), (False, True), (False, False)}
