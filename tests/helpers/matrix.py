"""Sixty clusters: six servers x five networks x storage or none."""

from itertools import product

SERVERS = {"pcie-a100": "QM8700", "dgx-a100": "QM8790", "dgx-h100": "QM9700", "dgx-b200": "QM9790",
           "hgx-h800": "QM9700", "dgx-b300": "Q3400"}  # fmt: skip
NETWORKS = ("one tree", "tapered", "rails", "planes", "zones")
NAMES = ("gpu", "leaf", "spine", "node", "core", "joint")


def spec(model: str, network: str, storage: bool, floor: bool, turn: int) -> dict[str, object]:
    """A cluster as somebody might describe it."""
    switch = SERVERS[model]
    tree = {"switch": switch}
    adapters = 1 if model == "pcie-a100" else 8
    name = NAMES[turn % len(NAMES)]
    nodes = {name: {"model": model, "count": 5 + 3 * (turn % 4)}}
    apart = {"storage": tree} if storage and model != "pcie-a100" and model != "hgx-h800" else {}
    if storage and not (network == "planes" and adapters == 8):
        kind = "storage-3fs" if switch.startswith("QM8") else "storage-ndr"
        nodes["st"] = {"model": kind, "count": 1 + turn % 3}
    shapes: dict[str, dict[str, object]] = {
        "one tree": {"shape": "fat-tree", **tree},
        "tapered": {"shape": "fat-tree", **tree, "oversubscription": 3.0, "levels": 2},
        "rails": {"shape": "rail", "unit_nodes": 4, "tree": tree, **apart},
        "planes": {"shape": "planes", "planes": adapters, "tree": tree},
        "zones": {"shape": "zones", "zones": 2, "tree": tree, "joints": {"switch": switch, "count": 2, "ports": 4}},
    }
    room = {"floor": {"rack_units": 48, "row_pitch": f"{2 + 9 * (turn % 3)} m"}} if floor else {}
    return {"name": "matrix", "nodes": nodes, "network": shapes[network], **room}


CLUSTERS = list(product(SERVERS, NETWORKS, (False, True)))
"""Model, network and storage of each; its place in the list is the last argument of `spec`."""
