"""A fuzzer with an oracle of meaning: what means something else gives another plan, or is refused.

Each key of each spec gets other legal values; in dumps, cables are removed and rates are changed. A reader that skips a
key, or a pass that forgets a figure, gives the plan of before.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

import costmodel
import plan
import routing
import topo
from helpers.dumps import format_db_csv, format_iblinkinfo, format_net_dump
from helpers.random_fabrics import draw
from helpers.strategies import is_nightly, nightly, slow_but
from topo.changes.differences import find_differences
from topo.cluster_spec import ClusterSpec
from topo.errors import HeddleError

SPECS = """
name: tree
nodes: {gpu: {model: pcie-a100, count: 14}, st: {model: storage-3fs, count: 4},
  old: {model: pcie-a100, count: 4, role: storage}}
network:
  {shape: fat-tree, switch: QM8700, spine_switch: QM8790, split: false, levels: 2, leaves: 4, spines: 2, parallel: 3,
   oversubscription: 2, grafts: [{nodes: [old], switch: SB7800, uplinks: 2, onto: leaves, split: false, leaves: 1}]}
networks: {disks: {network: {shape: fat-tree, switch: QM8700}, adapters: {gpu: 1, st: 2}, adapter: MCX653105A-HDAT}}
floor:
  {rows: 3, racks_per_row: 3, rack_units: 42, rack_power: 12 kW, rack_typical_power: 11 kW, switches: end,
   stand_ins: together, feeds: {count: 3, power: 6 kW, spare: 1}, fixed: {spine0: R01-03 U40},
   rack_width: 0.7 m, row_pitch: 2.5 m, tray_height: 0.6 m, slack: 1 m, rack_slack: 0.4 m}
routing: {engine: balanced, lmc: 1, for: jobs}
traffic: [{name: compute, sl: 0, vl: 0, weight: 64}, {name: disk, sl: 1, vl: 1, weight: 32, roles: [storage]}]
budget: {power: 1 MW, typical_power: 200 kW, switches: 12, price: 5000000 USD}
terms: {discount: 0.1, discounts: {QM8700: 0.2}, support: 0.05, support_years: 2, tax: 0.19}
exclude: [MFS1S00-H003V]
survives: [switch]
spares: {switches: 1.0, adapters: 0.5, cables: 0.3}
owning: {years: 4, pue: 1.3, price_per_kwh: 0.1, currency: USD}
---
name: three-levels
nodes: {gpu: {model: pcie-a100, count: 60}}
network:
  {shape: fat-tree, switch: SB7800, core_switch: QM8700, levels: 3, leaves: 4, leaves_per_pod: 2, spines: 2, cores: 2,
   oversubscription: 2, spine_oversubscription: 2}
---
name: rails
nodes: {gpu: {model: dgx-h100, count: 6}, st: {model: storage-ndr, count: 2}}
network: {shape: rail, unit_nodes: 3, rails: 8, tree: {switch: QM9700}, storage: {switch: QM9700, leaves: 2, spines: 1}}
network_name: gpus
networks:
  oob: {network: {shape: fat-tree, switch: SN2201}, adapters: {gpu: 1, st: 1}, adapter: BMC-1GE, manage: [switches]}
---
name: joined
nodes: {gpu: {model: pcie-a100, count: 60}, st: {model: storage-3fs, count: 4}}
network:
  {shape: zones, zones: 2, tree: {switch: QM8700, leaves: 3, spines: 4}, shared: [st],
   joints: {switch: QM8700, count: 2, ports: 2, placement: spread}}
---
name: direct
nodes: {gpu: {model: pcie-a100, count: 60}, st: {model: storage-3fs, count: 4}}
network:
  {shape: zones, zones: 2, tree: {switch: QM8700, leaves: 3, spines: 4}, shared: [st],
   direct: {ports: 4, placement: spread}}
---
name: planes
nodes: {gpu: {model: hgx-h800, count: 8}}
network: {shape: planes, planes: 4, tree: {switch: QM9700, leaves: 2, spines: 1}}
---
name: dragonfly
nodes: {gpu: {model: pcie-a100, count: 12}, old: {model: pcie-a100, count: 4}}
network:
  {shape: dragonfly, switch: QM8700, groups: 3, switches: 2, hosts: 2, global_links: 3, parallel: 2,
   others: [{nodes: [old], groups: 1, switches: 2, hosts: 2, global_links: 3, parallel: 1}]}
---
name: sparse-dragonfly
nodes: {gpu: {model: pcie-a100, count: 12}}
network: {shape: dragonfly, switch: QM8700, groups: 3, switches: 2, hosts: 2, global_links: 3, between: 1}
---
name: dragonfly-plus
nodes: {gpu: {model: pcie-a100, count: 24}}
network: {shape: dragonfly+, switch: QM8700, groups: 3, leaves: 2, spines: 2, hosts: 4, global_links: 2}
---
name: slim-fly
nodes: {gpu: {model: pcie-a100, count: 50}}
network: {shape: slim-fly, switch: QM8700, q: 5, hosts: 1}
---
name: torus
nodes: {gpu: {model: pcie-a100, count: 24}}
network: {shape: torus, switch: SB7800, sizes: [3, 4], hosts: 2, parallel: 2}
---
name: hyperx
nodes: {gpu: {model: pcie-a100, count: 24}}
network: {shape: hyperx, switch: SB7800, sizes: [3, 4], hosts: 2, parallel: 2}
---
name: bigraph
nodes: {gpu: {model: pcie-a100, count: 24}}
network: {shape: bigraph, switch: SB7800, side: 3, parallel: 2}
---
name: k-ary
nodes: {gpu: {model: pcie-a100, count: 8}}
network: {shape: k-ary-n-tree, switch: SB7800, k: 2, n: 3}
---
name: pgft
nodes: {gpu: {model: pcie-a100, count: 12}}
network: {shape: pgft, switch: SB7800, m: [4, 3], w: [1, 2], p: [1, 2]}
"""
DOCUMENTS: list[dict[str, Any]] = list(YAML(typ="safe").load_all(SPECS))
WORDS = [
    ("SB7800", "QM8700", "QM8790", "QM9700"), ("pcie-a100", "dgx-a100", "dgx-h100"), ("storage-3fs", "storage-ndr"),
    ("MCX653105A-HDAT", "MCX75310AAS-NEAT"), ("compute", "storage", "management"), ("switch", "link", "rack"),
    ("servers", "middle", "end"), ("border", "spread"), ("spines", "leaves"), ("balanced", "fat-tree", "shortest"),
    ("jobs", "permutations", "any"), ("USD", "EUR"), ("together", "apart"), ("MFS1S00-H003V", "MFS1S00-H005V"),
]  # fmt: skip
"""Words that stand for each other."""


def others(value: Any) -> list[Any]:
    """Other values of the same kind."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value + 1]
    if isinstance(value, float):
        return [2 * value, value / 2]
    if unit := re.fullmatch(r"([\d.]+) (\w+)", value):
        return [f"{factor * float(unit[1]):g} {unit[2]}" for factor in (2, 0.5)]
    if place := re.fullmatch(r"(R\d+)-0(\d) U(\d+)", value):
        return [f"{place[1]}-0{int(place[2]) + 1} U{place[3]}", f"{place[1]}-0{place[2]} U{int(place[3]) - 9}"]
    for words in WORDS:
        if value in words:
            return [word for word in words if word != value]
    return [f"{value}x"]


def changes(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each place of a document with each other value, by day with two of them."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        here = (*path, key)
        if isinstance(value, dict | list):
            yield from changes(value, here)
        elif key != "shape":
            yield from ((here, other) for other in (others(value) if is_nightly() else others(value)[:2]))


def plan_of(document: dict[str, Any], *, routes: bool) -> str:
    """Everything that follows from a spec, but for the digest of the spec itself; or that it is refused."""
    try:
        cluster = topo.parse(document)
        found = plan.build(cluster) if routes else plan.check(cluster)
    except HeddleError as error:
        return f"refused: {error}"
    said = {name: value for name, value in found.to_dict().items() if name != "inputs"}
    fabrics = [topo.format_ibnetdiscover(fabric) for fabric in cluster.fabrics]
    files = [each for routed in found.routed for each in routing.opensm.opensm_files(routed).values()]
    places = cluster.layout and [
        cluster.layout.rack.tolist(),
        cluster.layout.unit.tolist(),
        cluster.layout.row.tolist(),
    ]
    quote = costmodel.quote(cluster)
    tables = [quote.table, quote.power.table, *([quote.owning.table] if quote.owning else [])]
    bought = [list(table.rows()) for table in tables]
    return repr([said, fabrics, files, places, bought])


def unchanged(document: dict[str, Any]) -> list[str]:
    """Changes that give the same plan."""
    before = {routes: plan_of(document, routes=routes) for routes in (False, True)}
    assert not before[True].startswith("refused"), before
    found = []
    for path, other in changes(document):
        changed = copy.deepcopy(document)
        part = changed
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = other
        routes = path[0] in ("routing", "traffic")
        if plan_of(changed, routes=routes) == before[routes]:
            found.append(f"{'.'.join(map(str, path))}: {other}")
    return found


LOOSER = {
    "tree": (
        "floor.rows",
        "floor.racks_per_row: 4",
        "floor.racks_per_row: 7",
        "floor.rack_power",
        "floor.feeds.power",
        "floor.feeds.spare",
    ),
    "sparse-dragonfly": ("network.global_links",),
    "dragonfly": ("network.global_links: 4", "network.others.0.global_links: 4"),
}
"""Of some specs: limits that may become looser, and then change nothing: room, power and ports that nobody asks for.
The fourth link of two switches is no third link to each of three groups."""


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["name"])
def test_no_value_of_a_spec_is_forgotten(document: dict[str, Any]) -> None:
    looser = LOOSER.get(document["name"], ())
    assert [found for found in unchanged(document) if not found.startswith(looser)] == []


def keys(part: Any) -> set[str]:
    if isinstance(part, dict):
        return set(part) | {key for value in part.values() for key in keys(value)}
    return {key for value in part for key in keys(value)} if isinstance(part, list) else set()


def test_every_key_of_the_schema_is_changed() -> None:
    schema = ClusterSpec.model_json_schema()
    every = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", {})}
    assert every - set().union(*map(keys, DOCUMENTS)) == {"catalog"}  # tests/topo/catalog reads folders


FORMATS = {
    "ibnetdiscover": topo.format_ibnetdiscover,
    "ibdiagnet2.db_csv": format_db_csv,
    "ibdiagnet2.net_dump": format_net_dump,
    "iblinkinfo": partial(format_iblinkinfo, line=True),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", [*slow_but(range(3), 0), *(nightly(seed) for seed in range(3, 200))])
def test_a_cable_that_is_removed_or_has_another_rate_is_seen_in_every_dump(
    seed: int, form: str, tmp_path: Path
) -> None:
    """That cable, and no other."""

    def read(there: topo.Fabric) -> topo.Fabric:
        path = tmp_path / form
        path.write_text(FORMATS[form](there), encoding="utf-8")
        return topo.read_fabric(path)

    rng, number = np.random.default_rng(seed), seed
    while len((fabric := draw(number)).links) > 300:
        number += 1009
    before = read(fabric)
    inner = fabric.inner_links  # a host without a cable is in no list
    link = inner[rng.integers(len(inner))]
    gone = find_differences(before, read(fabric.without(link))).found
    assert [one.kind for one in gone] == ["missing"] or {one.kind for one in gone} == {"absent"}
    width = fabric.width.copy()
    width[link] = np.where(width[link] > 1, 1, 4)
    other = read(replace(fabric, width=width))
    (found,) = find_differences(other, before).found or find_differences(before, other).found
    assert found.kind == "degraded"
    assert {before.port_label(port) for port in found.ports} == {fabric.port_label(port) for port in link.tolist()}
