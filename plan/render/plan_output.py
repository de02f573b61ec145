"""A plan as files: what lies in the output folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from plan.export.bom import format_bom_csv, format_bom_xlsx
from plan.export.cable_schedule import format_cable_schedule
from plan.export.graphs import format_dot, format_graphml
from plan.export.netbox import netbox_files
from plan.export.p2p import format_hca_mapping, format_p2p_xlsx
from plan.export.slurm import format_topology_conf, format_topology_yaml
from plan.export.topo_file import format_ibdm_topo, format_topo, ibnl_files
from plan.files import Content
from plan.pipeline import Plan
from plan.subnet import Subnet, subnet_files, subnets_document, versions
from topo.hardware.catalog import Catalog


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what ``plan.json`` holds: figures over all subnets, then each subnet's own."""
    return {
        "name": plan.spec.name,
        "holds": plan.holds,
        "exceeded": plan.pricing.exceeded,
        "counts": plan.pricing.cluster.counts.to_dict(),
        **subnets_document(plan.subnets),
        "cost": plan.pricing.cost.to_dict(),
        "power": plan.pricing.power.to_dict(),
        "owning": plan.pricing.owning and plan.pricing.owning.to_dict(),
        "inputs": {
            "spec_sha256": plan.spec_sha256,
            "catalog_sha256": _catalog_sha256(plan.catalog),
            "seed": plan.seed,
        },
        "versions": versions(),
    }


def plan_files(plan: Plan) -> Mapping[str, Content]:
    """Return the files of the output folder, by path relative to it."""
    fabrics = [subnet.fabric for subnet in plan.subnets]
    files: dict[str, Content] = {
        "plan.json": json.dumps(plan_document(plan), indent=2) + "\n",
        "bom.csv": format_bom_csv(plan.pricing.cost),
        "bom.xlsx": format_bom_xlsx(plan.pricing.cost, plan.pricing.power, plan.pricing.cluster.layout),
        "cables.csv": format_cable_schedule(
            fabrics, plan.catalog, plan.pricing.cluster.layout, plan.pricing.cluster.cablings
        ),
        "exports/p2p.xlsx": format_p2p_xlsx(fabrics, plan.pricing.cluster.layout),
        "exports/hca_mapping.csv": format_hca_mapping(fabrics),
        "exports/topology.conf": format_topology_conf(fabrics),
        "exports/topology.yaml": format_topology_yaml(fabrics),
    }
    netbox = netbox_files(
        fabrics, plan.catalog, plan.spec.name, plan.pricing.cluster.layout, plan.pricing.cluster.cablings
    )
    files |= {f"exports/netbox/{name}": text for name, text in netbox.items()}
    for subnet, folder in zip(plan.subnets, _folders(plan.subnets), strict=True):
        fabric = subnet.fabric
        files |= {f"{folder}{name}": content for name, content in subnet_files(subnet).items()}
        files[f"{folder}exports/fabric.topo"] = format_topo(fabric)
        files[f"{folder}exports/fabric.ibdm.topo"] = format_ibdm_topo(fabric)
        files |= {f"{folder}exports/ibnl/{name}": text for name, text in ibnl_files(fabric).items()}
        files[f"{folder}exports/fabric.graphml"] = format_graphml(fabric, subnet.proof.load)
        files[f"{folder}exports/fabric.dot"] = format_dot(fabric)
    return files


def _folders(subnets: Sequence[Subnet]) -> list[str]:
    """One subnet lies at the top; several lie in a folder each."""
    return [""] if len(subnets) == 1 else [f"{subnet.fabric.name}/" for subnet in subnets]


def _catalog_sha256(catalog: Catalog) -> str:
    """Digest of every figure of the catalog, the user's own rows included."""
    tables = (catalog.switches, catalog.nodes, catalog.hcas, catalog.cables, catalog.prices)
    rows = [sorted((name, repr(row)) for name, row in table.items()) for table in tables]
    return hashlib.sha256(repr(rows).encode()).hexdigest()
