"""Nodes of a job by name."""

from dataclasses import replace

import pytest

import simulate
import topo
from topo.errors import HeddleError


def test_rails_are_in_the_order_of_their_devices() -> None:
    fabric = topo.preset("dgx-b200-superpod").fabric
    job = simulate.traffic.JobNodes.of(fabric, ["gpu003", "gpu001"])
    assert job.ends.shape == (2, len(job.adapters))
    assert [fabric.names[fabric.end_node[end]] for end in job.ends[0]] == [f"gpu003 {name}" for name in job.adapters]
    some = simulate.traffic.JobNodes.of(fabric, ["gpu003", "gpu001"], "mlx5_[0-3]")
    assert some.ends.tolist() == job.ends[:, :4].tolist()


def test_refusals() -> None:
    fabric = topo.preset("dgx-b200-superpod").fabric
    with pytest.raises(HeddleError, match=r"'gpu0001'; expected a server of .* Did you mean"):
        simulate.traffic.JobNodes.of(fabric, ["gpu001", "gpu0001"])
    with pytest.raises(HeddleError, match=r"gpu001 twice"):
        simulate.traffic.JobNodes.of(fabric, ["gpu001", "gpu002", "gpu001"])
    with pytest.raises(HeddleError, match="without any"):
        simulate.traffic.JobNodes.of(fabric, ["gpu001", "gpu002"], "ib*")
    end = simulate.traffic.JobNodes.of(fabric, ["gpu001"]).ends[0, 0]
    role = fabric.role.copy()
    role[fabric.end_node[end]] = topo.Role.STORAGE
    with pytest.raises(HeddleError, match=r"7 ports: gpu001; 8 ports: gpu002"):
        simulate.traffic.JobNodes.of(replace(fabric, role=role), ["gpu001", "gpu002"])
