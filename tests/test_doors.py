"""Slips at the doors of Python: each is an error of Heddle that says what was expected, and none a traceback."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plan
import routing
import simulate
import topo
from topo.errors import HeddleError

CLUSTER = topo.preset("lab-20")
ROUTED = routing.route(CLUSTER.fabric)
HOSTS = ROUTED.fabric.ends(role="compute")


@pytest.mark.parametrize(
    ("slip", "message"),
    [
        (lambda: plan.check(CLUSTER, job=2.5), "job: found 2.5; expected a whole number from 2"),
        (lambda: plan.build(CLUSTER, seed=-1), "seed: found -1; expected a whole number from 0"),
        (lambda: routing.measure(ROUTED, seed=-1), "seed: found -1; expected a whole number from 0"),
        (lambda: plan.check(CLUSTER, currency="zz"), "^found the currency 'zz'; expected one with prices"),
        (lambda: plan.export_files(topo.config_root() / "lab-20.yaml", "slrm"), "^found the format 'slrm'"),
        (
            lambda: routing.Hashed(ROUTED.fabric, queue_pairs=2.5),
            r"queue pairs \(0 sprays\): found 2.5; expected a whole number from 0",
        ),
        (lambda: routing.Hashed(ROUTED.fabric, queue_pairs=True), "found True; expected a whole number from 0 to 128"),
        (lambda: simulate.Flows.of([1.7], [2], 1e6), r"found src \[1.7\]; expected whole numbers"),
        (lambda: simulate.Flows.of([1], [True], 1e6), r"found dst \[True\]; expected whole numbers"),
        (lambda: simulate.Flows.of([1], [2], 1e6, sl=1.5), r"found sl .*1.5.*; expected whole numbers"),
        (lambda: simulate.Flows.of([1], [2**40], 1e6), "found dst 1099511627776 to .*; expected numbers up to 2,147,"),
        (lambda: simulate.Flows.of([1, 2], [2, 3], 1e6, after=([1.5], [0])), r"found after \[1.5\]; expected"),
        (
            lambda: plan.verify(ROUTED),
            "^found <Routed .*>; expected .*, or a Routed for `routing.prove`$",
        ),
        (
            lambda: plan.simulate(ROUTED, "allreduce"),
            "^found <Routed .*>; .* or a Routed for `simulate.play`$",
        ),
        (
            lambda: plan.order_ranks(CLUSTER, "gpu[00-15]"),
            "^found <Cluster lab-20>; expected .*, or a Routed$",
        ),
        (lambda: plan.operate(ROUTED), "^found <Routed .*>; expected the path of a spec, .* or of a fabric in a file$"),
        (lambda: plan.diff(CLUSTER, ROUTED.fabric), "^found <Cluster lab-20>; expected .*, or a Fabric such as"),
        (lambda: plan.grow(CLUSTER, ROUTED.fabric), "^found <Fabric lab-20.*>; expected .*, or a Cluster$"),
        (lambda: plan.route(CLUSTER), "^found <Cluster lab-20>; expected .*, or a Fabric such as `cluster.fabric`"),
        (lambda: plan.route([]), "^found no fabric; expected one or more"),
        (lambda: plan.mock(CLUSTER), "^found <Cluster lab-20>; expected .*, or a Fabric such as"),
        (lambda: plan.optimise(CLUSTER), "^found <Cluster lab-20>; expected Needs, their file, or the name of needs"),
        (lambda: topo.read(None), "^found None; expected the path of a spec$"),
        (lambda: topo.read_fabric(CLUSTER), "^found <Cluster lab-20>; expected the path of a fabric in a file$"),
        (lambda: topo.preset(None), '^preset: found "None"; expected one of '),
        (lambda: simulate.preset(None, ROUTED.fabric), '^preset: found "None"; expected one of '),
        (lambda: simulate.Network.of(ROUTED, hop_latency_s="1 us"), "^found hop_latency_s '1 us'; expected seconds as"),
        (lambda: replace(ROUTED.tables, lft=[[1]]), "^found lft of type list; expected a NumPy array$"),
        (lambda: ROUTED.fabric.without("nope"), "found ports that are no numbers; `routing.find_ports`"),
        (lambda: simulate.Network.of(ROUTED, hop_latency_s=[1, 2]), r"hop_latency_s of shape \(2,\); expected one"),
        (lambda: simulate.Flows.of([20], [21, 22], [1, 2, 3]), r"src \(1,\), dst \(2,\), size_bytes \(3,\)"),
        (lambda: simulate.Flows.of([20], [21], "1 MX"), "found the size '1 MX'; expected a size in B, kB"),
        (lambda: simulate.allreduce(HOSTS, None), "found the size None; expected bytes, more than 0"),
        (lambda: simulate.allreduce(HOSTS, [1]), r"found the size \[1\]; expected bytes, more than 0"),
        (lambda: simulate.allreduce(HOSTS, 0), "found the size 0; expected bytes, more than 0"),
        (lambda: simulate.collective("allreduce", HOSTS, 1, repeat=0), "repeat: found 0; expected a whole number"),
        (lambda: simulate.allreduce(HOSTS, 1, chunks=0), "chunks: found 0; expected a whole number from 1"),
        (lambda: simulate.play(ROUTED, simulate.allreduce(HOSTS, 1), n_bins=-4), "n_bins: found -4; expected a whole"),
    ],
)
def test_a_slip_is_told(slip: Callable[[], object], message: str) -> None:
    with pytest.raises(HeddleError, match=message):
        slip()


def test_objects_serve_where_files_do(tmp_path: Path) -> None:
    ranks = plan.order_ranks(ROUTED, "gpu[00-15]", ["ring"]).orders[0]
    assert ranks.after.worst <= ranks.before.worst
    assert ROUTED.fabric.without([]).peer.tolist() == ROUTED.fabric.peer.tolist()
    (tmp_path / "w.yaml").write_text("jobs: [{name: a, kind: collective, collective: allreduce, size: 1 MB, ranks: 2}]")
    spec = topo.config_root() / "lab-20.yaml"
    assert len(plan.simulate(spec, tmp_path / "w.yaml").simulation.jobs) == 1


def test_what_one_door_takes_another_takes() -> None:
    """Engines a routed fabric as `play` does, flows a size in text as collectives do, specs the numbers of NumPy."""
    flows = simulate.Flows.of(HOSTS[:1], HOSTS[1:2], "25 MB")
    assert flows.size_bytes.tolist() == [25e6]
    assert simulate.Fluid(ROUTED).play(flows).makespan_s == simulate.play(ROUTED, flows).makespan_s
    spec = {"name": "t", "nodes": {"gpu": {"model": "pcie-a100", "count": np.int64(8)}}}
    spec |= {"network": {"shape": "fat-tree", "switch": "QM8700"}}
    assert len(topo.parse(spec).fabric.ends()) == 8
    assert topo.parse(spec | {"catalog": topo.config_root() / "catalog"}).counts.gpu_nodes == 8
    spec["nodes"] = {"gpu": {"model": "pcie-a100", "count": np.float64(8.5)}}
    with pytest.raises(HeddleError, match="expected a whole number"):
        topo.parse(spec)
