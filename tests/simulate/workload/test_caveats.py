"""Caveats of jobs: figures of the page that measured them, and recounts of what failed and of what limits."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import CATALOG, tree, zoned
from routing.engines.base import route
from simulate import Network, find_bottlenecks, parse_workload, play
from simulate.workload.caveats import MEASURED
from simulate.workload.play import Simulation
from topo.catalog.load import Catalog
from topo.fabric import Fabric

PAGE = Path(__file__).parents[3] / "docs" / "validation" / "fire-flyer.md"
ZONED = zoned(leaves=3, spines=2, n_gpus=12, n_storage=0, joints=1, ports=1)
TREE = tree(12, leaves=3, spines=2)


def run(fabric: Fabric, *jobs: dict[str, object], catalog: Catalog = CATALOG, **how: float) -> Simulation:
    given = [{"name": f"j{at}", "size": "2 MiB"} | job for at, job in enumerate(jobs)]
    workload = parse_workload({"jobs": given}, fabric, catalog=catalog)
    return play(Network.of(route(fabric, "dfsssp"), **how), workload)


def of(simulation: Simulation, keyword: str) -> list[str]:
    return [said for said in simulation.caveats if said.startswith(f"{keyword}: ")]


def gpus(algorithm: str, **keys: object) -> dict[str, object]:
    return {"kind": "gpu-collective", "algorithm": algorithm} | keys


def test_errors_are_those_of_the_page() -> None:
    row = r"^\| Fig\. 7[^|]*\| ([\w-]+) \| (\d+)[^|]*\|[^|]*\|[^|]*\| ([+-][\d.]+)% "
    rows = re.findall(row, PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 21
    names = {"hfreduce": "HFReduce", "hfreduce-nvlink": "HFReduce with NVLink", "nccl": "NCCL"}
    found: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    for system, count, error in rows:
        far = system == "nccl" and int(count) > 512
        found.setdefault((names[system], far), []).append((int(count), float(error)))
    expected = {
        (system, *((min(column), max(column)) for column in zip(*points, strict=True)))
        for (system, _), points in found.items()
    }
    assert {tuple(row) for row in MEASURED} == expected


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (gpus("hfreduce"), "HFReduce on pcie-a100 took 1.15 to 1.45 times as long, on 16 to 1,440 GPUs"),
        pytest.param(
            gpus("hfreduce", nvlink=True),
            "HFReduce with NVLink on pcie-a100 took 0.95 to 1.41 times as long",
            marks=pytest.mark.slow,
        ),
        (gpus("hfreduce", chunk="6 MiB"), "HFReduce on pcie-a100 took 1.15"),  # the root port is still a data sheet's
        (gpus("ring"), "NCCL on pcie-a100 took 0.86 to 1.28 times as long"),
        (gpus("auto", collective="all-to-all"), None),
        ({"kind": "collective", "rank": "adapter", "collective": "allreduce"}, None),
    ],
)
def test_what_was_measured_is_said_of_these_servers_alone(job: dict[str, object], says: str | None) -> None:
    found = of(run(TREE, job), "measured")
    assert [says in one for one in found if says] == ([] if says is None else [True])
    assert len(found) == (says is not None)


def test_who_calibrates_both_numbers_is_told_nothing() -> None:
    node = CATALOG.nodes["pcie-a100"]
    own = replace(node.sources["root_port_gbyte_per_s"], confidence="own")
    node = replace(node, root_port_gbyte_per_s=33.0, sources={**node.sources, "root_port_gbyte_per_s": own})
    catalog = replace(CATALOG, nodes={**CATALOG.nodes, "pcie-a100": node})
    assert of(run(TREE, gpus("hfreduce"), catalog=catalog), "measured")
    assert not of(run(TREE, gpus("hfreduce", chunk="6 MiB"), catalog=catalog), "measured")


@pytest.mark.parametrize(
    ("job", "ratios"),
    [
        (gpus("hfreduce", size="186 MiB"), (1.151, 1.445)),
        (gpus("hfreduce", size="186 MiB", chunk="6 MiB"), None),  # the ratios are of neither number calibrated
        (gpus("auto", size="186 MiB", ranks=8, repeat=2), (0.862, 1.276)),
        (gpus("ring", size="186 MiB", ranks=8), None),  # measured was what NCCL chose
        (gpus("ring", size="2 MiB"), None),  # nobody measured that
        (gpus("auto", size="186 MiB", collective="all-gather"), None),
    ],
)
def test_a_time_from_data_sheets_stands_beside_that_by_measurements(
    job: dict[str, object], ratios: tuple[float, float] | None
) -> None:
    simulation = run(
        TREE, {"ranks": 8} | job, {"kind": "collective", "rank": "adapter", "collective": "allreduce", "ranks": 2}
    )
    found, other = simulation.jobs
    assert other.measured_s is None
    assert ("as measured" in simulation.table.to_dict()) == (ratios is not None)
    if ratios is None:
        assert found.measured_s is None
    else:
        assert found.measured_s == pytest.approx([found.once_s * ratio for ratio in ratios])
        assert found.to_dict()["measured_s"] == [*found.measured_s]
        assert found.measured in simulation.table.to_dict()["as measured"]
    calibrate = "calibrate with `chunk: 6 MiB`"
    assert any(calibrate in said for said in simulation.caveats) == (job["algorithm"] == "hfreduce")


def test_a_collective_of_adapters_says_that_it_is_not_of_gpus() -> None:
    simulation = run(
        TREE, gpus("ring", ranks=2), {"kind": "collective", "rank": "adapter", "collective": "allreduce", "ranks": 2}
    )
    (said,) = of(simulation, "between adapters alone")
    assert said.endswith("`kind: gpu-collective` has it [j1]")
    assert simulation.table.to_dict()["each"] == ["gpu", "adapter"]
    assert simulation.table.to_dict()["servers"] == [2, 2]


def test_jobs_alike_share_a_caveat_that_names_three() -> None:
    (found,) = of(run(TREE, *[gpus("hfreduce", ranks=2)] * 5), "measured")
    assert found.endswith("[j0, j1, j2 and 2 more]")


@pytest.mark.slow
@given(st.sets(st.integers(0, 11), max_size=9), st.sampled_from(["gpu-collective", "collective"]), st.booleans())
def test_servers_that_a_failure_cuts_off_are_counted_and_told(lost: set[int], kind: str, zone: bool) -> None:
    ports = [int(ZONED.port_of(np.array([end]))[0]) for end in ZONED.ends()[[*lost]]] if lost else []
    left = ZONED.without(np.array(ports, np.int32))
    plugged = {ZONED.names[ZONED.end_node[end]].split()[0]: int(end) for end in ZONED.ends()}
    wanted = {name: end for name, end in plugged.items() if not zone or ZONED.zone[ZONED.end_node[end]] == 1}
    here = {name: end for name, end in wanted.items() if left.end_switch[end] >= 0}
    if not here:
        return
    job = {"kind": kind, "collective": "allreduce"} | ({"zone": 1} if zone else {})
    simulation = run(left, job)
    (found,) = simulation.jobs

    assert found.servers == len(here) and found.left_out == len(wanted) - len(here)
    assert found.leaves == len({int(left.end_switch[end]) for end in here.values()})
    assert found.zones == tuple(sorted({int(ZONED.zone[ZONED.end_node[end]]) for end in here.values()}))
    said = of(simulation, "smaller after a failure")
    assert len(said) == bool(found.left_out)
    assert all(f"after a failure: {found.left_out} " in one for one in said)
    shown = simulation.place_table.to_dict()
    assert shown["servers"] == [len(here)] and shown["zones"] == [", ".join(map(str, found.zones))]


def test_a_job_of_stated_size_is_not_smaller() -> None:
    left = ZONED.without(ZONED.port_of(ZONED.ends()[:3]))
    assert not of(run(left, gpus("ring", ranks=4)), "smaller after a failure")


@pytest.mark.parametrize("algorithm", ["ring", "tree", pytest.param("hfreduce", marks=pytest.mark.slow)])
@pytest.mark.parametrize("host_gbps", [200.0, 60.0])
def test_where_the_network_is_said_not_to_limit_a_faster_one_gives_nothing(algorithm: str, host_gbps: float) -> None:
    simulation = run(ZONED, gpus(algorithm, size="16 MiB"), host_gbps=host_gbps)
    said = of(simulation, "not the network")
    if said:
        network = simulation.outcome.network
        capacity = network.capacity_bytes_s.copy()
        capacity[: ZONED.n_ports] *= 10
        faster = play(replace(network, capacity_bytes_s=capacity), simulation.outcome.flows)
        assert faster.makespan_s == pytest.approx(simulation.makespan_s, rel=1e-6)
    whats = find_bottlenecks(simulation).path.to_dict()["what"]
    assert bool(said) == (not any(" to " in what and "GPU" not in what for what in whats))
    assert algorithm == "hfreduce" or bool(said) == (host_gbps == 200.0)


def test_caveats_of_jobs_are_in_every_form_of_the_result() -> None:
    simulation = run(TREE, gpus("ring"))
    assert {"measured", "not the network"} <= {*simulation.keywords}
    assert simulation.to_dict()["caveats"] == list(simulation.caveats) == simulation.caveat_table.to_dict()["caveat"]
    assert "measured" in repr(simulation)
    assert not of(play(Network.of(route(TREE, "dfsssp")), simulation.workload, engine="packets"), "not the network")
    assert all(keyword in unescape(simulation._repr_html_()) for keyword in simulation.keywords)
