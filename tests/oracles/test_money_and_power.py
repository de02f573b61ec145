"""Price, power and cost of owning of random bills, added up piece by piece from the tables as they are on disk."""

import csv
import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from costmodel.bills import Bill
from costmodel.owning import CostOfOwning, Failures, check_budget
from costmodel.parts import NETWORK, SERVERS, Line
from helpers.recount import FOLDER, cells
from topo.amounts import Range, Sum, sums_to_dict
from topo.catalog.load import load_catalog
from topo.cluster_spec import ClusterBudget, Owning

CATALOG = load_catalog()
TYPICAL, MOST = (
    {model: float(value) for table in ("switches", "nodes") for model, value in cells(table, column).items()}
    for column in ("power_typical_w", "power_max_w")
)
END_W = {model: float(value) for model, value in cells("cables", "power_end_w").items()}
SPEED, KIND = cells("cables", "speed"), cells("cables", "kind")
INCLUDED, OWN = cells("nodes", "adapters_included"), cells("nodes", "adapter_model")
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


Piece = tuple[str, float | None, float | None]
"""Kind of a part, and its least and highest amount; None is unknown."""


def same(found: Sum, pieces: list[Piece]) -> None:
    """A sum with gaps is what the pieces are, from below and from above; half of the boxes unknown, it is unknown."""
    known = [(low, high) for _, low, high in pieces if low is not None and high is not None]
    assert bool(found.missing) == (len(known) < len(pieces))
    ends = [sum(each) for each in zip(*known, strict=True)] or [0.0, 0.0]
    assert found.known == (None if pieces and not known else Range(*map(pytest.approx, ends)))
    boxes = {kind: [low is None for of, low, _ in pieces if of == kind] for kind in ("switch", "node")}
    scant = any(lacking and sum(lacking) >= len(lacking) / 2 for lacking in boxes.values())
    assert found.mostly_unknown == scant
    assert found.bounds == (None if scant or (not known and pieces) else pytest.approx(ends))
    assert (str(found) == "unknown") == (scant or (len(known) < len(pieces) and not ends[1]))
    told = sums_to_dict({"it": found})
    assert told["it"] == (None if found.bounds is None else pytest.approx(sum(ends) / 2))


def adapters_held(lines: list[Line], currency: str) -> Counter[Line]:
    """How many pieces of each line of adapters come with servers, dealt out one by one, its own model first."""
    held = Counter[Line]()
    for server in NODES[:-1]:
        mine = [line for line in lines if line.kind == "adapter" and line.place == server]
        mine.sort(key=lambda line: line.item != OWN[server])
        dealt = [line for line in mine for _ in range(line.count)]
        servers = sum(line.count for line in lines if line.kind == "node" and line.item == server)
        room = int(INCLUDED[server]) * servers if server in INCLUDED else len(dealt) if currency == "units" else 0
        held.update(dealt[:room])
    return held


@pytest.mark.parametrize("currency", ["units", "USD", "EUR", "CHF"])
@pytest.mark.parametrize("seed", SEEDS)
def test_money_is_the_sum_of_the_price_of_every_piece(seed: int, currency: str) -> None:
    """The paper's units hold the links in the switch; the price of a server as many adapters as it says."""
    lines = random_lines(np.random.default_rng(seed))
    sides: dict[str, list[Piece]] = {"network": [], "servers": []}
    lacking: defaultdict[str, int] = defaultdict(int)
    held = adapters_held(lines, currency)
    for line in lines:
        bought = 0 if line.kind in ("cable", "optic") and currency == "units" else line.count - held[line]
        side = "servers" if line.kind in ("node", "adapter") else "network"
        prices = QUOTES.get((line.item, currency))
        priced_server = (line.place, currency) in QUOTES and any(line.place == other.item for other in lines)
        unsure = line.kind == "adapter" and line.place in OWN and line.place not in INCLUDED and priced_server
        for _ in range(bought):
            least = min(pair[0] for pair in prices) if prices else None
            sides[side].append(
                (line.kind, 0.0 if prices and unsure else least, prices and max(pair[1] for pair in prices))
            )
        if not prices and bought:
            lacking[f"{line.item} ({line.kind})"] += bought
    bill = Bill(tuple(lines), CATALOG)
    cost = bill.price(currency)
    same(cost.network, sides["network"])
    same(cost.servers, sides["servers"])
    same(cost.total, sides["network"] + sides["servers"])
    least, most = (sum(piece[end] or 0.0 for side in sides.values() for piece in side) for end in (1, 2))  # type: ignore[misc]
    for limit in (max(least - 1, 0), least + 1, most + 1):
        (check,) = check_budget(ClusterBudget(price=f"{limit:.0f} {currency}"), bill.power, 0, bill)
        assert check.verdict.holds is (False if least > limit else True if most <= limit and not lacking else None)
        assert check.verdict.holds is False or check.found.partition(" ")[0] in (*str(cost.total).split(" "), "unknown")
    assert sorted(gap.partition(": ")[0] for gap in cost.gaps) == sorted(
        f"{count} x {item}" for item, count in lacking.items()
    )
    assert sorted(cost.total.missing) == sorted(gap.partition(": ")[0] for gap in cost.gaps)


def end_w(item: str) -> float | None:
    """Of one end of a cable; where its length is unknown, of the hungriest optical one of its speed."""
    if item in KIND:
        return END_W.get(item)
    return max((END_W[one] for one in END_W if KIND[one] == "AOC" and SPEED[one] == item), default=None)


def watts(lines: list[Line]) -> tuple[dict[str, list[Piece]], dict[str, list[Piece]], Counter[str]]:
    """Typical power of every piece by side, its maximum by side, and the parts whose maximum alone is unknown."""
    typical: dict[str, list[Piece]] = {"network": [], "servers": []}
    most: dict[str, list[Piece]] = {"network": [], "servers": []}
    by_typical = Counter[str]()
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
        by_typical[f"{line.item} ({line.kind})"] += line.count if at_most is None and each is not None else 0
        side = "network" if line.kind != "node" else "servers"
        typical[side] += [(line.kind, each, each)] * line.count
        most[side] += [(line.kind, at_most, at_most)] * line.count
    return typical, most, +by_typical


@pytest.mark.parametrize("seed", SEEDS)
def test_power_is_the_sum_of_the_watts_of_every_piece(seed: int) -> None:
    lines = random_lines(np.random.default_rng(seed))
    bill = Bill(tuple(lines), CATALOG)
    power = bill.power
    typical, most, by_typical = watts(lines)
    for found, side in ((power.of(*NETWORK), "network"), (power.of(*SERVERS), "servers")):
        same(found, typical[side])
    for found, side in ((power.of(*NETWORK, most=True), "network"), (power.of(*SERVERS, most=True), "servers")):
        same(found, most[side])
    same(power.total_w, typical["network"] + typical["servers"])
    same(power.of(most=True), most["network"] + most["servers"])
    ends = [
        *zip(typical["network"], most["network"], strict=True),
        *zip(typical["servers"], most["servers"], strict=True),
    ]
    planned: list[Piece] = [least if at_most[1] is None else at_most for least, at_most in ends]
    same(replace(power.planned_w, missing=power.planned_w.missing[: -len(by_typical) or None]), planned)
    exact = all(at_most[1] is not None for _, at_most in ends)
    assert bool(power.planned_w.missing) != exact
    assert sorted(power.by_typical) == sorted(f"{number} x {part}" for part, number in by_typical.items())
    assert (power.basis == "at maximum power") == (not by_typical)
    least = sum(piece[1] for side in typical.values() for piece in side if piece[1] is not None)
    only_most = [row for row in power.lines if row.typical_w is None and row.max_w is not None]
    highest = least + sum(MOST[row.line.item] * row.line.count for row in only_most)
    within = power.bounded_w.known or Range(0, 0)
    assert (within.low, within.high) == pytest.approx((least, highest))
    known = sum(piece[1] or 0.0 for piece in planned)
    limit = (known or 1.0) + 1.0  # above all that is known
    (check,) = check_budget(ClusterBudget(power=f"{limit} W"), power, 0, bill)
    assert check.verdict.holds is (True if exact else None)
    silent = {row.line.item for row in power.lines if row.most_w is None}
    asked = re.findall(r" x (\S+?)[, ]", check.cure)  # the parts whose figure would decide it, four of each table
    assert set(asked) <= silent and bool(asked) == bool(silent)
    assert all(("`power_max_w`" in check.cure) == bool(silent & {*SWITCHES, *NODES}) for _ in asked)
    (check,) = check_budget(ClusterBudget(power=f"{limit - 1.5} W"), power, 0, bill)
    assert check.verdict.holds is (False if known > limit - 1.5 else True if exact else None)


@pytest.mark.parametrize("seed", SEEDS)
def test_energy_is_paid_hour_by_hour(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [line for line in random_lines(rng) if line.item in TYPICAL or line.kind not in ("switch", "node")]
    lines = [line for line in lines if line.kind not in ("cable", "optic") or end_w(line.item) is not None]
    stated = Owning(years=int(rng.integers(1, 6)), pue=1.0 + rng.random(), price_per_kwh=rng.random(), currency="USD")
    bill = Bill(tuple(lines), CATALOG)
    owned = CostOfOwning(stated, bill.price("USD"), bill.power, Failures(0.0, 0.0, 0.0))
    typical = watts(lines)[0]
    kw = sum(piece[1] or 0.0 for side in typical.values() for piece in side) / 1_000
    kwh_a_year = kw * stated.pue * 24 * 365.25
    assert owned.energy_kwh_per_year.bounds == pytest.approx([kwh_a_year] * 2)
    assert owned.energy_per_year.bounds == pytest.approx([kwh_a_year * stated.price_per_kwh] * 2)
    energy = kwh_a_year * stated.price_per_kwh * stated.years
    assert owned.energy.bounds == pytest.approx([energy] * 2)
    capital = owned.capital
    assert (str(owned.total) == "unknown") == (capital.mostly_unknown or (str(capital) == "unknown" and not energy))
    if capital.known is not None:
        assert owned.total.known == Range(
            *(pytest.approx(end + energy) for end in (capital.known.low, capital.known.high))
        )
