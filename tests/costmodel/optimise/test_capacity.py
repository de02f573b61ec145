"""What a network is measured to carry, beside what is needed."""

import pytest

from costmodel import Needs
from costmodel.optimise import cuts
from costmodel.optimise.capacity import measure_capacity
from costmodel.optimise.problem import Problem
from helpers.networks import plain_tree
from topo.catalog.load import load_catalog


@pytest.mark.parametrize("seed", range(10))
def test_a_job_on_all_nodes_and_the_bisection_of_all_nodes_are_one_figure(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is an interval: nothing is proven here but by a routing."""
    monkeypatch.setattr(cuts, "MOST_ENUMERATED", -1)
    monkeypatch.setattr(cuts, "MOST_PROVEN", -1)
    fabric = plain_tree(seed).fabric()
    asked = {"name": "a", "nodes": {"host": {"model": "pcie-a100", "count": len(fabric.hosts)}}, "switches": ["QM8700"]}
    needs = Needs.model_validate(
        {**asked, "job": {"nodes": len(fabric.hosts), "bisection": 0.2}, "bandwidth": {"compute": 0.3}}
    )
    capacity = measure_capacity([fabric], Problem(needs, load_catalog([])))
    assert capacity.job_bisection is capacity.bisection
    if len(fabric.hosts) == 2:
        return
    parts = Needs.model_validate({**asked, "job": {"nodes": 1 + len(fabric.hosts) // 2}})
    capacity = measure_capacity([fabric], Problem(parts, load_catalog([])))
    assert capacity.job_bisection is not capacity.bisection
