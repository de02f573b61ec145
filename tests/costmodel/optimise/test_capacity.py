"""What a network is measured to carry, beside what is needed."""

import numpy as np
import pytest

from costmodel import Needs
from costmodel.optimise import cuts
from costmodel.optimise.capacity import measure_capacity
from costmodel.optimise.problem import Problem
from helpers.clusters import CATALOG, gpus, storage
from helpers.networks import plain_tree
from helpers.strategies import slow_but
from topo.amounts import Verdict
from topo.catalog.load import load_catalog
from topo.fabric import Role
from topo.shapes.fat_tree import FatTree


@pytest.mark.parametrize("seed", slow_but(range(10), 0, 1))
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


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_of_what_all_servers_send_those_that_are_installed_send_their_share(share: float) -> None:
    """The need is a rate of the whole; half of the servers owe half of it."""
    fabric = FatTree(switch="QM8700", leaves=2, spines=1).compile([gpus(20), storage(6)], CATALOG, "test")[0]

    def verdict(installed: float, gbyte_s: float) -> Verdict:
        needs = Needs.model_validate(
            {
                "name": "a",
                "nodes": {"gpu": {"model": "pcie-a100", "count": 20}, "st": {"model": "storage-3fs", "count": 6}},
                "job": {"nodes": 4, "bisection": 0.1},
                "bandwidth": {"storage": f"{gbyte_s} GB/s"},
                "switches": ["QM8700"],
            }
        )
        found = measure_capacity([fabric], Problem(needs, CATALOG), installed)
        (check,) = (check for check in found.checks if check.what == "bandwidth of storage")
        assert found.serving_gbps[Role.STORAGE] == pytest.approx(sent)
        return check.verdict

    ports = fabric.port_of(fabric.ends(role="storage"))
    sent = float(np.minimum(fabric.rate_gbps[ports], fabric.rate_gbps[fabric.peer[ports]]).sum())  # nothing in the way
    need = sent / 8 / share
    assert verdict(1.0, need) is Verdict.EXCEEDED
    assert verdict(share * 0.99, need) is Verdict.HOLDS
    assert verdict(share * 1.01, need) is Verdict.EXCEEDED
