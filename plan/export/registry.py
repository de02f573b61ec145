"""The formats that a plan is exported to: what `plan build` writes, each to be had alone by `plan export`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plan.checksums import of_one_plan, read_sums
from plan.export.bom import format_bom_csv, format_bom_xlsx
from plan.export.cable_book import format_cable_book
from plan.export.cable_schedule import cable_rows, format_cable_schedule
from plan.export.graphs import format_dot, format_graphml
from plan.export.netbox import netbox_files
from plan.export.p2p import format_hca_mapping, format_p2p_xlsx
from plan.export.slurm import format_topology_conf, format_topology_yaml
from plan.export.topo_file import format_ibdm_topo, format_topo, ibnl_files
from plan.export.topograph import format_node_labels, format_topograph_model
from plan.inputs import RoleFiles, give_roles, read_plan, subnet_folders
from plan.pipeline import DESIGN, PASSES, Pass, Plan, Step, compile_fabrics, prove_tables, route_subnets, run
from plan.report.document import Report, page_of
from plan.report.page import format_report
from plan.staging import Content
from routing.opensm import opensm_files
from topo import HeddleError, format_fabric, format_ibnetdiscover

Files = dict[str, Content]
"""By path relative to the output folder."""

PLACED: tuple[Pass, ...] = DESIGN[:3]
ROUTED: tuple[Pass, ...] = (compile_fabrics, route_subnets)
PROVEN: tuple[Pass, ...] = (*ROUTED, prove_tables)


@dataclass(frozen=True)
class Export:
    """A format, or a few files that are read together."""

    name: str
    """As `plan export` takes it."""
    files: str
    """Where they lie in the output folder, or in that of each subnet."""
    purpose: str
    """What they are for."""
    make: Callable[[Plan], Files]
    passes: tuple[Pass, ...]
    """What a plan needs for it."""

    def files_of(self, path: Path, step: Step = lambda text: None, hosts: RoleFiles | None = None) -> Files:
        """Return the files for a spec, a real fabric, or a folder of ours, which are as it holds them if it does.

        Files that say what hosts are for are of use for a real fabric.

        Raises
        ------
        HeddleError
            When the input cannot be read, or the format needs a spec.
        """
        told = None if hosts is None else (hosts.roles, hosts.cn_guids, hosts.io_guids)
        if path.is_dir() and not any(told or ()) and (files := of_one_plan(self._written)(path)):
            return files
        plan = read_plan(path)
        if told and any(told):
            plan = replace(plan, fabrics=tuple(give_roles(one, *told) for one in plan.fabrics))
        if plan.cluster is None and not set(self.passes) <= set(PROVEN):
            raise HeddleError(f"{path}: found a fabric; expected a spec, or a folder of `plan build`, for {self.name}")
        done: dict[Pass, object] = {compile_fabrics: plan.fabrics, route_subnets: plan.routed}
        files = self.make(run(plan, [make for make in self.passes if not done.get(make)], step))
        if not files:
            raise HeddleError(f"{path}: found Ethernet only; expected a fabric with a subnet manager, for {self.name}")
        return files

    def _written(self, folder: Path) -> Files:
        """Return the files out of a folder that `plan build` or `plan route` wrote; none when it has none."""
        subnet_folders(folder)  # refuses a folder of somebody else
        places = self.files.split(", ")
        found: Files = {}
        for name, digest in read_sums(folder).items():
            if any(
                path == place or (place.endswith("/") and path.startswith(place))
                for place in places
                for path in (name, name.partition("/")[2])  # the second: in the folder of a subnet
            ):
                try:
                    content = found[name] = (folder / name).read_bytes()
                except OSError as error:
                    raise HeddleError(f"{folder / name}: cannot be read ({error.strerror})") from None
                if hashlib.sha256(content).hexdigest() != digest:
                    raise HeddleError(f"{folder / name}: found a file that was changed after it was written")
        return found


def _of_each(make: Callable[[Plan, int], Files]) -> Callable[[Plan], Files]:
    """Return a function that makes the files of every subnet; those of several lie in a folder each."""

    def all_of(plan: Plan) -> Files:
        folders = [""] if len(plan.subnets) == 1 else [f"{fabric.name}/" for fabric in plan.subnets]
        made = ((folder, make(plan, number)) for number, folder in enumerate(folders))
        return {f"{folder}{name}": content for folder, files in made for name, content in files.items()}

    return all_of


def _bom_csv(plan: Plan) -> Files:
    assert plan.quote is not None
    return {"bom.csv": format_bom_csv(plan.quote.cost)}


def _bom_xlsx(plan: Plan) -> Files:
    assert plan.quote is not None and plan.cluster is not None
    quote = plan.quote
    return {"bom.xlsx": format_bom_xlsx(plan.name, plan.cluster.catalog, quote.cost, quote.power, plan.layout)}


def _cables(plan: Plan) -> Files:
    assert plan.cluster is not None
    return {"cables.csv": format_cable_schedule(plan.fabrics, plan.cluster.catalog, plan.layout, plan.cablings)}


def _cable_book(plan: Plan) -> Files:
    assert plan.cluster is not None
    catalog = plan.cluster.catalog
    rows = cable_rows(plan.fabrics, catalog, plan.layout, plan.cablings)
    book = format_cable_book(plan.name, rows, catalog, plan.fabrics, plan.layout, plan.cablings or ())
    return {"cable-book.html": book}


def _netbox(plan: Plan) -> Files:
    assert plan.cluster is not None
    files = netbox_files(plan.fabrics, plan.cluster.catalog, plan.name, plan.layout, plan.cablings)
    return {f"exports/netbox/{name}": text for name, text in files.items()}


def _p2p(plan: Plan) -> Files:
    assert plan.cluster is not None
    return {
        "exports/p2p.xlsx": format_p2p_xlsx(plan.name, plan.fabrics, plan.cluster.catalog, plan.layout),
        "exports/hca_mapping.csv": format_hca_mapping(plan.fabrics),
    }


def _slurm(plan: Plan) -> Files:
    return {
        "exports/topology.conf": format_topology_conf(plan.fabrics),
        "exports/topology.yaml": format_topology_yaml(plan.fabrics),
    }


def _topograph(plan: Plan) -> Files:
    return {
        "exports/topograph.yaml": format_topograph_model(plan.fabrics),
        "exports/node-labels.yaml": format_node_labels(plan.fabrics),
    }


def _ibdm(plan: Plan, subnet: int) -> Files:
    systems = ibnl_files(plan.fabrics[subnet], plan.cluster.catalog if plan.cluster else None)
    return {
        "exports/fabric.ibdm.topo": format_ibdm_topo(plan.fabrics[subnet]),
        **{f"exports/ibnl/{name}": text for name, text in systems.items()},
    }


def _opensm(plan: Plan, subnet: int) -> Files:
    files = opensm_files(plan.routed[subnet])
    return {f"opensm/{name}": content for name, content in files.items()}


def _fabric(plan: Plan, subnet: int) -> Files:
    tables = plan.routed[subnet].tables
    fabric = replace(plan.routed[subnet].fabric, discovered_lid=tables.lid, lmc=tables.lmc)
    return {"fabric.json": format_fabric(fabric)}


def _ibnetdiscover(plan: Plan, subnet: int) -> Files:
    tables, catalog = plan.routed[subnet].tables, plan.cluster.catalog if plan.cluster else None
    fabric = replace(plan.fabrics[subnet], lmc=tables.lmc)
    return {"fabric.ibnetdiscover": format_ibnetdiscover(fabric, tables.lid, catalog)}


def _report(plan: Plan) -> Files:
    return {"report.html": format_report(Report([page_of(plan)], []))}


EXPORTS = {
    export.name: export
    for export in (
        Export("report", "report.html", "one page for people: the answer, fabric, racks, bill, failures, proof",
               _report, PASSES),
        Export("bom-csv", "bom.csv", "the bill of materials, each price with its source", _bom_csv, DESIGN),
        Export("bom-xlsx", "bom.xlsx", "the bill as a workbook with formulas, power, cables, racks", _bom_xlsx, DESIGN),
        Export("cables", "cables.csv", "every cable with both its ends, for the crew that pulls it", _cables, PLACED),
        Export("cable-book", "cable-book.html", "the same to print: racks with their elevations, bundles, labels",
               _cable_book, PLACED),
        Export("p2p", "exports/p2p.xlsx, exports/hca_mapping.csv", "the sheet of UFM's Cable Validation Tool", _p2p,
               PLACED),
        Export("slurm", "exports/topology.conf, exports/topology.yaml", "Slurm: which nodes are near each other",
               _slurm, (compile_fabrics,)),
        Export("topograph", "exports/topograph.yaml, exports/node-labels.yaml",
               "topograph and Kubernetes: a model of the tree, labels of nodes", _topograph, (compile_fabrics,)),
        Export("netbox", "exports/netbox/", "NetBox: device types, racks, devices and cables to import", _netbox,
               PLACED),
        Export("fabric", "fabric.json", "the fabric with all that is known of it, to be read back",
               _of_each(_fabric), (*ROUTED, *PLACED[1:])),
        Export("ibnetdiscover", "fabric.ibnetdiscover", "the fabric as ibnetdiscover prints it, with LIDs",
               _of_each(_ibnetdiscover), ROUTED),
        Export("opensm", "opensm/", "what OpenSM loads: tables, options, lists", _of_each(_opensm), ROUTED),
        Export("topo", "exports/fabric.topo", "the cabling for UFM and ibdiagnet",
               _of_each(lambda plan, subnet: {"exports/fabric.topo": format_topo(plan.fabrics[subnet])}),
               (compile_fabrics,)),
        Export("ibdm", "exports/fabric.ibdm.topo, exports/ibnl/", "the cabling for the open-source ibdm",
               _of_each(_ibdm), (compile_fabrics,)),
        Export("graphml", "exports/fabric.graphml", "a graph for Gephi, yEd and igraph, with the load of each link",
               _of_each(lambda plan, subnet: {
                   "exports/fabric.graphml": format_graphml(plan.fabrics[subnet], plan.proofs[subnet].load)}),
               PROVEN),
        Export("dot", "exports/fabric.dot", "a graph for Graphviz",
               _of_each(lambda plan, subnet: {"exports/fabric.dot": format_dot(plan.fabrics[subnet])}),
               (compile_fabrics,)),
    )
}  # fmt: skip
"""In the order of `plan export --list`."""

OF_ROUTE = ("report", "fabric", "ibnetdiscover", "opensm")
"""What `plan route` writes."""


def plan_files(plan: Plan, document: Mapping[str, Any], names: Iterable[str] = EXPORTS) -> Files:
    """Return the files of an output folder: ``plan.json``, which holds ``document``, and those of some formats."""
    files: Files = {"plan.json": json.dumps(document, indent=2) + "\n"}
    for name in names:
        files |= EXPORTS[name].make(plan)
    return files
