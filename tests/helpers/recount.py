"""Count parts again from the lists that a cabling crew gets, by code that knows nothing of how they were made.

Only files are read: ``cables.csv`` for what is plugged where, and the catalog's tables for how many ports a cage has.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "configs" / "catalog"


def cells(table: str, column: str) -> dict[str, str]:
    """One column of a table by model, figures included."""
    with (FOLDER / f"{table}.csv").open(newline="") as file:
        found = {row["model"]: row[column] for row in csv.DictReader(file) if row.get(column)}
    with (FOLDER / "figures.csv").open(newline="") as file:
        found |= {row["model"]: row["value"] for row in csv.DictReader(file) if row["figure"] == column}
    return found


CAGES = {model: int(count) for model, count in (cells("switches", "cages") | cells("nodes", "cages")).items()}
UPLINKS = {model: int(count) for model, count in cells("switches", "uplink_ports").items()}
"""Ports of a kind of their own, each in a cage behind the others."""
PORTS = {model: int(count) for model, count in (cells("switches", "radix") | cells("nodes", "adapters")).items()}
KINDS = cells("cables", "kind")
OPTIC_PORTS = {model: int(count) for model, count in cells("cables", "ports").items()}


def ends(rows: Iterable[dict[str, str]]) -> list[tuple[str, str, dict[str, str], str]]:
    """Device, port, row and side of each end of each link."""
    return [(row[f"{side}_device"], row[f"{side}_port"], row, side) for row in rows for side in "ab"]


def cage(port: str) -> str:
    """Name of the cage of a port by what is printed: 11 of 11/2, sw3 of sw3p1."""
    if xdr := re.fullmatch(r"(sw\d+)p\d+(s\d)?", port):
        return xdr[1]
    return port.split("/")[0]


def named(port: str) -> bool:
    """Whether a port is called by its device, which has a cage of its own."""
    return bool(re.fullmatch(r"mlx5_\d+|bmc|mgmt", port))


def parts(rows: list[dict[str, str]], models: dict[str, str]) -> Counter[str]:
    """Pieces of each cable, fibre and transceiver, each cable once by its number and each transceiver once a cage."""
    count: Counter[str] = Counter()
    for number in {row["cable_id"] for row in rows}:
        (item,) = {row["part_number"] for row in rows if row["cable_id"] == number}
        count[item] += 1
    caged: dict[tuple[str, str], set[str]] = {}
    for device, port, row, side in ends(rows):
        caged.setdefault((device, cage(port)), set()).add(row[f"{side}_transceiver"])
    for held in caged.values():
        (optic,) = held  # one in each cage, the same for all its ports, or none
        if optic:
            count[optic] += 1
    return count


def faults(rows: list[dict[str, str]], models: dict[str, str]) -> list[str]:
    """What no crew could plug: two cables in one port, a port that no panel has, more links in a cage than it holds."""
    wrong = []
    twice = [end for end, n in Counter((device, port) for device, port, _, _ in ends(rows)).items() if n > 1]
    wrong += [f"two cables in {device} {port}" for device, port in twice]
    for device, port, row, side in ends(rows):
        model = models[device]
        if not named(port):
            number = int(re.search(r"\d+", cage(port))[0])
            if not 1 <= number <= CAGES[model] + UPLINKS.get(model, 0):
                wrong.append(f"{device} ({model}) has no cage {number}")
        optic = row[f"{side}_transceiver"]
        shared = 1 if named(port) else max(PORTS[model] // CAGES.get(model, PORTS[model]), 1)
        if optic and OPTIC_PORTS.get(optic, 1) != shared:
            wrong.append(f"a transceiver of {OPTIC_PORTS.get(optic, 1)} ports in {device} {port}")
        if (row["type"].startswith("fibre")) != bool(optic):
            wrong.append(f"{row['type']} in {device} {port}, and the transceiver {optic or 'none'}")
    return wrong
