"""Parts counted one by one: what a larger bill buys beyond a smaller one, and the cables of random fabrics."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.bills import Bill, make_bill
from costmodel.parts import Line
from helpers.strategies import fabrics
from topo.catalog.load import load_catalog
from topo.fabric import Fabric, Role
from topo.speeds import SPEEDS, speed_name

CATALOG = load_catalog()
KEYS = list(product(["cable", "switch"], ["a", "b"], ["x", "y", "z"]))


def counts(rng: np.random.Generator) -> dict[tuple[str, str, str], int]:
    return {key: int(rng.integers(5)) for key in KEYS if rng.random() < 0.7}


def bill(counts: dict[tuple[str, str, str], int]) -> Bill:
    lines = [Line(kind, item, count, place) for (kind, item, place), count in counts.items()]  # type: ignore[arg-type]
    return Bill(tuple(lines), CATALOG)


@pytest.mark.parametrize("seed", range(200))
def test_what_is_bought_and_what_was_there_make_the_bill(seed: int) -> None:
    """Parts are taken one by one from where they are, then from any other place; only what is short is bought."""
    rng = np.random.default_rng(seed)
    wanted, had = counts(rng), counts(rng)
    shelf = Counter(had)
    short: Counter[tuple[str, str, str]] = Counter()
    for key, count in wanted.items():
        for _ in range(count):
            if shelf[key]:
                shelf[key] -= 1
            else:
                short[key] += 1
    bought: Counter[tuple[str, str]] = Counter()
    for (kind, item, _), count in short.items():
        bought[kind, item] += count
    for kind, item in bought:
        spare = sum(left for (other, name, _), left in shelf.items() if (other, name) == (kind, item))
        bought[kind, item] = max(bought[kind, item] - spare, 0)
    found = bill(wanted).beyond(bill(had))
    told: Counter[tuple[str, str]] = Counter()
    for line in found.lines:
        assert 0 < line.count <= short[line.kind, line.item, line.place]
        told[line.kind, line.item] += line.count
    assert +told == +bought


@given(fabrics(), st.integers(0, 1_000_000))
def test_parts_are_counted_one_by_one_where_they_are(fabric: Fabric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    roles, models = [Role.LEAF, Role.SPINE, Role.COMPUTE], ("QM8700", "QM9700", "nobody")
    fabric = replace(
        fabric,
        role=rng.choice([int(role) for role in roles], fabric.n_nodes).astype(fabric.role.dtype),
        models=models,
        model=rng.integers(len(models), size=fabric.n_nodes).astype(fabric.model.dtype),
        host_model=rng.integers(len(models), size=len(fabric.hosts)).astype(fabric.host_model.dtype),
        host=np.where(rng.random(fabric.n_nodes) < 0.3, -1, fabric.host).astype(fabric.host.dtype),
        width=rng.choice([1, 2, 4], fabric.n_ports).astype(fabric.width.dtype),
        speed=rng.integers(len(SPEEDS) - 2, len(SPEEDS), fabric.n_ports).astype(fabric.speed.dtype),
    )
    expected: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for link in fabric.links.tolist():
        low, high = sorted((int(fabric.port_node[port]) for port in link), key=lambda node: fabric.level[node])
        slower = speed_name(min(fabric.width[link].tolist()), min(fabric.speed[link].tolist()))
        place = " - ".join(Role(fabric.role[node]).name.lower() for node in (low, high))
        inside = tuple(models[fabric.model[node]] for node in (low, high) if node < fabric.n_switches)
        expected[slower, place, inside] += 1
    bill = make_bill([fabric], CATALOG)
    lines = bill.of("cable").lines
    assert len(lines) == len(expected)
    assert {(line.item, line.place, line.switches): line.count for line in lines} == expected
    adapters: Counter[tuple[str, str]] = Counter()
    for node in range(fabric.n_switches, fabric.n_nodes):
        host = fabric.host[node]
        adapters[models[fabric.model[node]], models[fabric.host_model[host]] if host >= 0 else "unknown"] += 1
    assert {(line.item, line.place): line.count for line in bill.of("adapter").lines} == adapters
    servers = Counter(models[fabric.host_model[host]] for host in {*fabric.host.tolist()} - {-1})
    counted: Counter[str] = Counter()
    for line in bill.of("node").lines:
        counted[line.item] += line.count
    assert counted == servers
