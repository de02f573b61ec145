"""What a buyer states beside the network: spare parts, and what it takes to own the cluster for some years."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topo.spec.base import SpecModel, spelled

Share = Annotated[float, Field(ge=0.0, le=1.0, strict=False)]


class Spares(SpecModel):
    """Spare parts, each as a share of those in use, rounded up item by item: 0.02 is 2 %."""

    switches: Share = 0.0
    """Of each model of switch."""
    adapters: Share = 0.0
    """Of each model of adapter."""
    cables: Share = 0.0
    """Of each cable, fibre and transceiver, length by length."""


class Owning(SpecModel):
    """What it takes to own the cluster: nothing here has a usual value, so nothing has a default."""

    years: Annotated[int, Field(ge=1, le=50)]
    """Years of use."""
    pue: Annotated[float, Field(ge=1.0, le=5.0, strict=False)]
    """Power usage effectiveness: power of the whole building for each watt of servers and switches."""
    price_per_kwh: Annotated[float, Field(ge=0.0, le=1_000.0, strict=False)]
    """Price of a kilowatt hour, in `currency`."""
    currency: Annotated[str, *spelled("[A-Z]{3}", "a currency like USD")]
    """Currency of the energy, and of the capital that it is added to."""
