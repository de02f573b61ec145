"""Reads workloads, the YAML and the files that its jobs name, and gives them as GOAL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simulate.traffic.flows import Flows
from simulate.traffic.goal.schedule import flows_of_goal, goal_of_flows
from simulate.traffic.goal.text import format_goal, read_goal
from simulate.traffic.network import GBPS
from simulate.traffic.placement import EndPortNames
from simulate.workload.chakra import Roofline, flows_of_chakra
from simulate.workload.formats.chakra import read_chakra
from simulate.workload.formats.flows_csv import read_flows_csv
from simulate.workload.formats.simai import read_simai
from simulate.workload.place import RunningJob, Workload, ends_of, place_workload
from simulate.workload.simai import SimaiWorkload
from simulate.workload.spec import XML, ChakraJob, FlowsJob, GoalJob, ServerJob, SimaiJob, WorkloadSpec
from topo.catalog.load import Catalog, load_catalog
from topo.catalog.nccl_xml import read_server
from topo.errors import HeddleError, did_you_mean, refusal
from topo.fabric import Fabric, frozen
from topo.files.text import config_root
from topo.files.yaml import Document, given_document, read_yaml
from topo.spec.validation import validate


def read_workload(path: str | Path, fabric: Fabric, seed: int = 0, catalog: Catalog | None = None) -> Workload:
    """Read a workload's YAML and the files that it names, and place its jobs on a fabric.

    Parameters
    ----------
    seed
        Of random mappings, and of what clients of storage draw.
    catalog
        What is inside servers; that which ships when left out.

    Returns
    -------
    Workload
        The jobs with their end ports, and their flows: to be played by `simulate.play`.

    Raises
    ------
    SpecError, FormatError
        With the place of what cannot be read or placed.

    Examples
    --------
    >>> import topo, simulate
    >>> path = topo.config_root() / "workloads" / "allreduce.yaml"
    >>> workload = simulate.read_workload(path, topo.preset("lab-20").fabric)
    >>> [job.spec.name for job in workload.jobs], len(workload.flows)
    (['allreduce'], 480)
    """
    return _read(read_yaml(Path(path)), Path(path).parent, fabric, seed, catalog)


def parse_workload(
    spec: str | Mapping[str, Any],
    fabric: Fabric,
    seed: int = 0,
    *,
    folder: str | Path = ".",
    catalog: Catalog | None = None,
) -> Workload:
    """Make a workload, as `read_workload` does, of a spec that is given as YAML text or as a mapping of plain values.

    Parameters
    ----------
    folder
        Folder that files which jobs name are relative to.

    Raises
    ------
    SpecError, FormatError
        As `read_workload`: at its line and column in a text, at its path of keys in a mapping.

    Examples
    --------
    >>> import topo, simulate
    >>> job = {"name": "sum", "kind": "collective", "collective": "allreduce", "size": "186 MiB", "ranks": 4}
    >>> len(simulate.parse_workload({"jobs": [job]}, topo.preset("lab-20").fabric).flows)
    24
    """
    document = given_document(spec, "workload", "simulate.read_workload")
    return _read(document, Path(folder), fabric, seed, catalog)


def preset(name: str, fabric: Fabric, seed: int = 0) -> Workload:
    """Return one of the workloads that ship, placed on a fabric.

    Parameters
    ----------
    name
        Such as ``allreduce-zone-tree``.

    Raises
    ------
    SpecError
        When there is none of that name, or it does not fit the fabric.

    Examples
    --------
    >>> import topo, simulate
    >>> workload = simulate.preset("hfreduce", topo.preset("lab-20").fabric)
    >>> [(job.spec.kind, job.n_ranks) for job in workload.jobs]
    [('gpu-collective', 128)]
    """
    name, presets = str(name), {path.stem: path for path in sorted((config_root() / "workloads").glob("*.yaml"))}
    if name not in presets:
        expected = f"one of {', '.join(presets)}"
        raise refusal("preset", f'"{name[:60]}"', expected, did_you_mean(name, presets))
    return read_workload(presets[name], fabric, seed)


def bare_flows(flows: Flows, path: str) -> Workload:
    """Return flows between end ports as a workload of one job, called ``flows``, from a file.

    Examples
    --------
    >>> import simulate
    >>> simulate.workload.bare_flows(simulate.Flows.of(4, 5, 1e6), "mine").jobs[0].spec.name
    'flows'
    """
    ends = ends_of(flows)
    job = RunningJob(FlowsJob(name="flows", kind="flows", file=path), path, ends, len(ends))
    return Workload((job,), flows, frozen(np.zeros(len(flows), np.int32)))


def format_as_goal(workload: Workload, fabric: Fabric) -> str:
    """Return a workload as a GOAL schedule; its ranks are the adapter ports that take part, in the fabric's order.

    Raises
    ------
    HeddleError
        When it holds what GOAL cannot say.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> workload = simulate.workload.bare_flows(simulate.Flows.of(hosts[0], hosts[1], 1e6), "mine")
    >>> print(simulate.workload.format_as_goal(workload, fabric).splitlines()[-2])
    l1: recv 1000000b from 0 tag 0
    """
    for cannot, why in (
        (workload.acts, "a storage job acts as it is played"),
        (len(workload.devices.end_port), "a job looks into servers"),
        (workload.in_rounds is not None, "a job has too many messages to be written"),
    ):
        if cannot:
            raise HeddleError(f"{why}, which GOAL cannot say; leave --goal out")
    ends = ends_of(workload.flows)
    rank = np.zeros(fabric.n_end_ports, np.int32)
    rank[ends] = np.arange(len(ends))
    names = EndPortNames(fabric)
    head = "".join(f"// rank {number} is {names.unique_name(end)}\n" for number, end in enumerate(ends.tolist()))
    return head + format_goal(goal_of_flows(workload.flows.placed(rank), max(len(ends), 1)))


def _read(document: Document, folder: Path, fabric: Fabric, seed: int, catalog: Catalog | None) -> Workload:
    Fabric.given(fabric)
    spec = validate(WorkloadSpec, document)
    traces: dict[str, Flows] = {}
    steps: dict[str, SimaiWorkload] = {}
    for job in spec.jobs:
        if isinstance(job, GoalJob):
            traces[job.name] = flows_of_goal(read_goal(folder / job.file), job.eager)
        elif isinstance(job, SimaiJob):
            steps[job.name] = read_simai(folder / job.file, job.gpus)
        elif isinstance(job, ChakraJob):
            traces[job.name] = flows_of_chakra(
                read_chakra(folder / job.file),
                job.algorithms,
                str(folder / job.file),
                roofline=Roofline(job.flops, np.inf if job.memory is None else job.memory * GBPS),
                eager_bytes=job.eager,
                port_bytes_s=float(fabric.rate_gbps[fabric.first_adapter_port :].max(initial=1.0)) * GBPS,
            )
        elif isinstance(job, FlowsJob):
            traces[job.name] = read_flows_csv(folder / job.file, fabric if job.rank is None else None)
    models = dict((catalog or load_catalog()).nodes)
    for job in spec.jobs:
        if isinstance(job, ServerJob) and job.server and job.server.endswith(XML):
            models[job.server] = read_server(folder / job.server)
    return place_workload(spec, document, fabric, traces, np.random.default_rng(seed), models, steps)
