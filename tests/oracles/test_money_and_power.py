"""Price, power and cost of owning of random bills, added up piece by piece from the tables as they are on disk."""

import csv
from collections import defaultdict
from itertools import product

import numpy as np
import pytest

from costmodel.bills import Bill
from costmodel.owning import CostOfOwning, Failures, check_budget
from costmodel.parts import Line
from helpers.recount import FOLDER, cells
from topo.amounts import Sum
from topo.catalog.load import load_catalog
from topo.cluster_spec import ClusterBudget, Owning

CATALOG = load_catalog()
TYPICAL, MOST = (
    {model: float(value) for table in ("switches", "nodes") for model, value in cells(table, column).items()}
    for column in ("power_typical_w", "power_max_w")
)
END_W = {model: float(value) for model, value in cells("cables", "power_end_w").items()}
SPEED, KIND = cells("cables", "speed"), cells("cables", "kind")
INCLUDED = cells("nodes", "adapters_included")
SWITCHES = ["QM8700", "SB7800", "QM9700", "nobody"]
NODES = ["pcie-a100", "dgx-a100", "dgx-h100", "storage-3fs", "management", "nobody"]
CABLES = [*sorted(END_W)[:3], "MCP1650-H001E30", "4xHDR", "4xEDR", "nobody"]
ITEMS = {"switch": SWITCHES, "node": NODES, "adapter": ["MCX653105A-HDAT", "nobody"], "cable": CABLES, "optic": CABLES}
SEEDS = range(60)


def quotes() -> dict[tuple[str, str], list[tuple[float, float]]]:
    found = defaultdict(list)
    with (FOLDER / "prices.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["model"], row["currency"]].append((float(row["low"]), float(row["high"])))
    return found


QUOTES = quotes()


def random_lines(rng: np.random.Generator) -> list[Line]:
    lines = []
    for kind, item in product(ITEMS, range(7)):
        if item >= len(ITEMS[kind]) or rng.random() < 0.4:
            continue
        place = str(rng.choice(NODES)) if kind == "adapter" else str(rng.choice(["compute", "leaf"]))
        in_switches = tuple(rng.choice(SWITCHES, rng.integers(3)).tolist()) if kind in ("cable", "optic") else ()
        lines.append(Line(kind, ITEMS[kind][item], int(rng.integers(1, 9)), place, in_switches))  # type: ignore[arg-type]
    return lines


def added(pieces: list[float | None]) -> tuple[float | None, bool]:
    """The sum of what is known, None where nothing is; and whether all is."""
    known = [piece for piece in pieces if piece is not None]
    return (sum(known) if known or not pieces else None), len(known) == len(pieces)


def same(found: Sum, pieces: list[float | None], high: list[float | None] | None = None) -> None:
    """A sum with gaps is what the pieces are, from below and from above."""
    low, whole = added(pieces)
    most, _ = added(pieces if high is None else high)
    assert not found.missing if whole else found.missing
    assert found.bounds == (None if low is None else pytest.approx([low, most]))


@pytest.mark.parametrize("currency", ["units", "USD", "EUR", "CHF"])
@pytest.mark.parametrize("seed", SEEDS)
def test_money_is_the_sum_of_the_price_of_every_piece(seed: int, currency: str) -> None:
    """The paper's units hold the links in the switch and the adapters in the server."""
    lines = random_lines(np.random.default_rng(seed))
    low: dict[str, list[float | None]] = {"network": [], "servers": []}
    high: dict[str, list[float | None]] = {"network": [], "servers": []}
    lacking: defaultdict[str, int] = defaultdict(int)
    for line in lines:
        free = line.kind in ("cable", "optic") and currency == "units"
        if line.kind == "adapter" and line.place in CATALOG.nodes:
            free = currency == "units" or INCLUDED.get(line.place, "no") == "yes"
        if free:
            continue
        side = "servers" if line.kind in ("node", "adapter") else "network"
        prices = QUOTES.get((line.item, currency))
        for _ in range(line.count):
            low[side].append(min(pair[0] for pair in prices) if prices else None)
            high[side].append(max(pair[1] for pair in prices) if prices else None)
        if not prices:
            lacking[f"{line.item} ({line.kind})"] += line.count
    bill = Bill(tuple(lines), CATALOG)
    cost = bill.price(currency)
    same(cost.network, low["network"], high["network"])
    same(cost.servers, low["servers"], high["servers"])
    same(cost.total, low["network"] + low["servers"], high["network"] + high["servers"])
    least, most = (sum(piece or 0.0 for side in ends.values() for piece in side) for ends in (low, high))
    for limit in (max(least - 1, 0), least + 1, most + 1):
        (check,) = check_budget(ClusterBudget(price=f"{limit:.0f} {currency}"), bill.power, 0, bill)
        assert check.verdict.holds is (False if least > limit else True if most <= limit and not lacking else None)
    assert sorted(gap.partition(": ")[0] for gap in cost.gaps) == sorted(
        f"{count} x {item}" for item, count in lacking.items()
    )


def end_w(item: str) -> float | None:
    """Of one end of a cable; where its length is unknown, of the hungriest optical one of its speed."""
    if item in KIND:
        return END_W.get(item)
    return max((END_W[one] for one in END_W if KIND[one] == "AOC" and SPEED[one] == item), default=None)


def watts(lines: list[Line]) -> tuple[dict[str, list[float | None]], list[float | None], list[Line], bool]:
    """Of every piece: typically, by side; at most. Parts that count as typical, and whether every maximum is known."""
    typical: dict[str, list[float | None]] = {"network": [], "servers": []}
    most: list[float | None] = []
    by_typical, exact = [], True
    for line in lines:
        if line.kind in ("switch", "node"):
            each, at_most = TYPICAL.get(line.item), MOST.get(line.item)
        elif line.kind in ("cable", "optic"):
            end = end_w(line.item)
            in_full = [switch in MOST for switch in line.switches]  # a maximum that holds optics
            each = len(in_full) * end if end is not None else None if in_full else 0.0
            at_most = in_full.count(False) * end if end is not None else None if False in in_full else 0.0
        else:
            continue
        exact &= at_most is not None
        by_typical += [line] if at_most is None and each is not None else []
        for _ in range(line.count):
            typical["network" if line.kind != "node" else "servers"].append(each)
            most.append(each if at_most is None else at_most)
    return typical, most, by_typical, exact


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_the_sum_of_the_watts_of_every_piece(seed: int) -> None:
    lines = random_lines(np.random.default_rng(seed))
    bill = Bill(tuple(lines), CATALOG)
    power = bill.power
    typical, most, by_typical, exact = watts(lines)
    same(power.network_w, typical["network"])
    same(power.servers_w, typical["servers"])
    same(power.total_w, typical["network"] + typical["servers"])
    known = [piece for piece in most if piece is not None]
    assert power.planned_w.bounds == (pytest.approx([sum(known)] * 2) if known or not most else None)
    assert bool(power.planned_w.missing) != exact
    assert sorted(power.by_typical) == sorted(map(str, by_typical))
    assert (power.basis == "at maximum power") == (not by_typical)
    least = sum(watt for side in typical.values() for watt in side if watt is not None)
    only_most = [row for row in power.lines if row.typical_w is None and row.max_w is not None]
    highest = least + sum(MOST[row.line.item] * row.line.count for row in only_most)
    assert (power.bounded_w.bounds or [0, 0]) == pytest.approx([least, highest])
    limit = (sum(known) or 1.0) + 1.0  # above all that is known
    (check,) = check_budget(ClusterBudget(power=f"{limit} W"), power, 0, bill)
    assert check.verdict.holds is (True if exact else None)
    (check,) = check_budget(ClusterBudget(power=f"{limit - 1.5} W"), power, 0, bill)
    assert check.verdict.holds is (False if known and sum(known) > limit - 1.5 else True if exact else None)


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_is_paid_hour_by_hour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [line for line in random_lines(rng) if line.item in TYPICAL or line.kind not in ("switch", "node")]
    lines = [line for line in lines if line.kind not in ("cable", "optic") or end_w(line.item) is not None]
    stated = Owning(years=int(rng.integers(1, 6)), pue=1.0 + rng.random(), price_per_kwh=rng.random(), currency="USD")
    bill = Bill(tuple(lines), CATALOG)
    owned = CostOfOwning(stated, bill.price("USD"), bill.power, Failures(0.0, 0.0, 0.0))
    typical = watts(lines)[0]
    kw = sum(piece for side in typical.values() for piece in side if piece is not None) / 1_000
    kwh_a_year = kw * stated.pue * 24 * 365.25
    assert owned.energy_kwh_per_year.bounds == pytest.approx([kwh_a_year] * 2)
    assert owned.energy_per_year.bounds == pytest.approx([kwh_a_year * stated.price_per_kwh] * 2)
    capital = owned.capital.bounds or [0.0, 0.0]
    energy = kwh_a_year * stated.price_per_kwh * stated.years
    assert owned.energy.bounds == pytest.approx([energy] * 2)
    assert owned.total.bounds == pytest.approx([amount + energy for amount in capital])
