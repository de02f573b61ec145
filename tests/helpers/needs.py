"""Needs for tests: small ones on switches of a few ports."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from costmodel.optimise.needs import Needs
from helpers.clusters import CATALOG
from topo.catalog.load import Catalog
from topo.catalog.models import Price, PricePoint, Source, SwitchModel
from topo.speeds import LinkSpeed

OWNING = {"years": 4, "pue": 1.5, "price_per_kwh": 0.1, "currency": "USD"}


def needs(count: int = 40, servers: int = 0, **keys: object) -> Needs:
    nodes = {"gpu": {"model": "pcie-a100", "count": count}}
    if servers:
        nodes["storage"] = {"model": "storage-3fs", "count": servers}
    return Needs.model_validate({"name": "t", "nodes": nodes, "job": {"nodes": count}, "switches": ["QM8700"]} | keys)


def small_catalog(cable: float | None = None, **switches: tuple[int, float]) -> Catalog:
    """Switches by name: radix and price, in units, or in USD where a cable has one."""
    source = Source("test", "2024", "own", "test:1")

    def price(amount: float) -> dict[str, Price]:
        currency = "units" if cable is None else "USD"
        return {currency: Price(currency, (PricePoint(amount, amount, "", source),))}

    models = {
        name: SwitchModel(name=name, radix=radix, speed=LinkSpeed(4, "HDR"), power_typical_w=1.0, power_max_w=1.0)
        for name, (radix, _) in switches.items()
    }
    prices = {name: price(amount) for name, (_, amount) in switches.items()}
    if cable is not None:
        prices["4xHDR"] = price(cable)
    return replace(CATALOG, switches=MappingProxyType(models), prices=MappingProxyType(prices))


def random_needs(seed: int) -> tuple[Needs, Catalog]:
    """Needs of up to 80 servers on switches of 6 to 16 ports, of one or two models, in units or with cables."""
    draw = np.random.default_rng(seed)
    models = {
        name: (int(draw.choice([6, 8, 12, 16])), float(draw.choice([2.0, 3.0, 5.0])))
        for name in "AB"[: draw.integers(1, 3)]
    }
    cable = [None, 0.1][int(draw.integers(2))]
    count = int(draw.integers(2, 40))
    asked = needs(
        count,
        int(draw.choice([0, 0, 3])),
        job={
            "nodes": int(draw.integers(1, count + 1)),
            "bisection": float(draw.choice([0.3, 0.5, 1.0])),
            "alone": bool(draw.integers(2)),
        },
        owning=None if cable is None or draw.integers(2) else OWNING,
        bandwidth={"compute": float(draw.choice([0.0, 0.2]))},
        survives_a_switch=bool(draw.integers(2)),
        switches=list(models),
        currency="units" if cable is None else "USD",
        growth=float(draw.choice([0.0, 0.0, 0.3])),
    )
    return asked, small_catalog(cable, **models)
