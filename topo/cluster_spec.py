"""What a cluster's spec may say: its servers, its network, how it is routed, what it may take.

A spec says what is wanted; it holds no derived number.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from topo.catalog.load import Catalog
from topo.fabric import MAX_LMC, Role
from topo.floor.racks import FloorPlan
from topo.shapes import Shape
from topo.spec.base import (
    AdapterName,
    EngineName,
    GroupKey,
    GroupName,
    Name,
    NodeName,
    PartName,
    ServerRole,
    SpecModel,
    TrafficClass,
    mismatch,
    spelled,
)
from topo.spec.units import Watts


class NodeGroup(SpecModel):
    """Servers of one model."""

    model: NodeName
    """Model of the server in the catalog."""
    count: Annotated[int, Field(ge=1, le=200_000)]
    """Number of servers; a subnet of more than 49,151 LIDs is not routed."""
    role: ServerRole | None = None
    """Role of the servers, if it differs from that of the model."""

    def role_by(self, catalog: Catalog) -> Role:
        """Return the role of the servers: that of their model where none is given."""
        return catalog.node(self.model).role if self.role is None else self.role


class Network(SpecModel):
    """A network beside the first one: a fabric of its own, such as that of the storage or of the management."""

    network: Shape
    """Shape of the network."""
    adapters: Annotated[dict[GroupName, Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)]
    """Adapters of each server in it, by group of servers."""
    adapter: AdapterName | None = None
    """Model of these adapters; when left out, that of a server's storage adapters where it computes, else its own."""
    manage: Annotated[tuple[Literal["switches", "pdus"], ...], Field(max_length=2, strict=False)] = ()
    """Devices whose management port hangs in it: the ``switches`` of all other networks, but those that have none, such
    as QM9790, and the ``pdus``, the power distribution units of all racks. At most one network has this key."""


class Routing(SpecModel):
    """How `network` is routed; further networks get ``auto`` for any traffic."""

    engine: EngineName = "auto"
    """Routing engine; ``auto`` takes the one that fits the shape."""
    lmc: Annotated[int, Field(ge=0, le=MAX_LMC)] = 0
    """LID mask control: each adapter port gets 2^lmc LIDs, each with its own paths."""
    purpose: Annotated[str, Field(alias="for")] = "any"
    """Traffic that tables are made for: ``any`` weighs all kinds; ``jobs``, ``permutations`` or ``all-pairs`` above all
    else; or the file of a demand (CSV) or of a workload, relative to this file, for which paths are moved."""


def _in_a_priced_currency(text: str, info: ValidationInfo) -> str:
    """Refuse a currency, the last word, in which the catalog of the context has no price."""
    names = (info.context or {}).get("currency")
    if names is not None and text.split()[-1] not in names:
        raise mismatch(f"a currency with prices in the catalog: {', '.join(names)}")
    return text


PRICED = AfterValidator(_in_a_priced_currency)
Money = Annotated[
    str, *spelled(r"\d{1,15}(\.\d{1,2})? ([A-Z]{3}|units)", "an amount and its currency: 4200000 USD"), PRICED
]
"""An amount with its currency."""


def parse_money(text: Money) -> tuple[float, str]:
    """Split ``4200000 USD`` into amount and currency."""
    amount, currency = text.split()
    return float(amount), currency


class ClusterBudget(SpecModel):
    """What the plan may take at most; a plan that takes more is refused."""

    power: Watts | None = None
    """Maximum power of servers and network, such as ``4 MW``; one whose maximum is unknown makes this undecided."""
    typical_power: Watts | None = None
    """Typical power of servers and network: the mean under load."""
    switches: Annotated[int, Field(ge=1)] | None = None
    """Switches, as the subnet manager counts them."""
    price: Money | None = None
    """Price of everything that is bought, servers too, with its currency: ``4200000 USD``."""


Share = Annotated[float, Field(ge=0.0, le=1.0, strict=False)]


class Spares(SpecModel):
    """Spare parts, each as a share of those in use, rounded up item by item: 0.02 is 2 %."""

    switches: Share = 0.0
    """Spares of each model of switch, as a share."""
    adapters: Share = 0.0
    """Spares of each model of adapter, as a share."""
    cables: Share = 0.0
    """Spares of each cable, fibre and transceiver of each length, as a share."""


class Terms(SpecModel):
    """What prices of the catalog become for the buyer: times (1 - discount) (1 + support x years) (1 + tax).

    Prices in ``units``, which no shop has, stay as they are.
    """

    discount: Share = 0.0
    """Discount on every price, as a share."""
    discounts: dict[PartName, Share] = Field(default_factory=dict)
    """Discounts by model, or by speed of a cable such as ``4xHDR``, each in place of `discount`."""
    support: Share = 0.0
    """Price of the support of a year, as a share of the discounted price."""
    support_years: Annotated[int, Field(ge=0, le=50)] = 0
    """Years of support to buy."""
    tax: Share = 0.0
    """Tax on all of it, as a share; prices of the catalog are without any."""

    @model_validator(mode="after")
    def _support_of_some_years(self) -> Self:
        given = {"support", "support_years"} & self.model_fields_set
        if len(given) == 1:
            other = "support_years" if "support" in given else "support"
            raise mismatch("`support` and `support_years`, or neither: support costs support x years",
                           f"no `{other}` beside `{given.pop()}`")  # fmt: skip
        return self

    def apply(self, catalog: Catalog) -> Catalog:
        """Return the catalog with the prices that the buyer pays.

        >>> from topo.catalog.load import load_catalog
        >>> terms = Terms(discount=0.25, support=0.05, support_years=2, tax=0.2)
        >>> terms.apply(load_catalog()).price("SN2201", "USD").low  # 4,200 x 0.75 x 1.1 x 1.2
        4158.0
        """
        share, rest = self.support * self.support_years, 1 + self.tax
        support = f"support of {self.support_years} years at {self.support:.4g}" * bool(share)
        tax = f"tax {self.tax:.4g}" * bool(self.tax)
        prices = {}
        for name, by_currency in catalog.prices.items():
            less = self.discounts.get(name, self.discount)
            note = ", ".join(filter(None, (f"discount {less:.4g}" * bool(less), support, tax)))
            factor = round((1 - less) * ((1 + share) * rest), 12)
            prices[name] = {currency: price if currency == "units" else price.times(factor, note)
                            for currency, price in by_currency.items()}  # fmt: skip
        return replace(catalog, prices=MappingProxyType(prices))


def as_bought(catalog: Catalog, terms: Terms | None, exclude: Sequence[str]) -> Catalog:
    """Return the catalog at the buyer's terms, without the models that he excludes."""
    if exclude:
        tables = ((table, getattr(catalog, table).items()) for table in ("switches", "cables"))
        kept = {table: {name: model for name, model in rows if name not in exclude} for table, rows in tables}
        catalog = replace(catalog, **{table: MappingProxyType(models) for table, models in kept.items()})
    return catalog if terms is None else terms.apply(catalog)


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


class ClusterSpec(SpecModel):
    """A cluster: its servers, its network, how it is routed, what it may take."""

    name: Name
    """Name of the cluster."""
    catalog: str | None = None
    """Folder with catalog tables of your own, or one table such as ``prices.csv``, relative to this file; rows extend
    or override those that ship."""
    nodes: Annotated[dict[GroupKey, NodeGroup], Field(min_length=1, max_length=100)]
    """Groups of servers; a server has the name of its group and a number: ``gpu0042``."""
    network: Shape
    """Shape of the network between the adapters of the servers."""
    network_name: Name | None = None
    """Name of `network` in rows and files: ``compute`` makes it ``hall-compute``; that of the cluster when left out."""
    adapters: dict[GroupName, Annotated[int, Field(ge=1, le=64)]] = Field(default_factory=dict)
    """Adapters of each server in `network`, by group of servers; those of its model when left out, none of a group that
    does not compute and is in one of `networks`."""
    networks: Annotated[dict[Name, Network], Field(max_length=16)] = Field(default_factory=dict)
    """Further networks. A group that does not compute and is in one of these is in `network` only with `adapters`."""
    floor: FloorPlan | None = None
    """The room; without it there are no racks and no cable lengths."""
    routing: Routing = Routing()
    """Engine and LIDs."""
    traffic: Annotated[tuple[TrafficClass, ...], Field(max_length=16, strict=False)] = ()
    """Classes of traffic; without any, everything travels on one lane."""
    budget: ClusterBudget = ClusterBudget()
    """Limits of the plan."""
    survives: Annotated[tuple[Literal["switch", "link", "rack", "feed"], ...], Field(max_length=4, strict=False)] = ()
    """Kinds of parts of which any one may fail: all servers but those in a failed rack must reach one another."""
    spares: Spares = Spares()
    """Spare parts to buy."""
    terms: Terms | None = None
    """Discounts, support and tax on the prices of the catalog."""
    exclude: Annotated[tuple[PartName, ...], Field(max_length=200, strict=False)] = ()
    """Switches, cables and transceivers that must not be used."""
    owning: Owning | None = None
    """Years of use and price of energy, for the cost of ownership."""
    currency: Annotated[str, *spelled("units|[A-Z]{3}", "units, or a currency like USD"), PRICED] | None = None
    """Currency of what the plan costs; that of `budget.price`, else of `owning`, when left out. All are the same."""

    @field_validator("owning", "currency")
    @classmethod
    def _of_one_currency(cls, value: Owning | str | None, info: ValidationInfo) -> Owning | str | None:
        budget, owning = info.data.get("budget"), info.data.get("owning")
        now = value.currency if isinstance(value, Owning) else value
        stated = {"budget.price": budget and budget.price and parse_money(budget.price)[1],
                  "owning.currency": owning and owning.currency}  # fmt: skip
        for key, other in stated.items():
            if now and other and other != now:
                raise mismatch(f"{other}, the currency of `{key}`: prices are added up", now)
        return value

    @field_validator("networks")
    @classmethod
    def _managed_once(cls, networks: dict[str, Network]) -> dict[str, Network]:
        managing = [name for name, network in networks.items() if network.manage]
        if len(managing) > 1:
            raise mismatch("`manage` in one network: a device has one management port", f"it in {', '.join(managing)}")
        return networks

    @field_validator("traffic")
    @classmethod
    def _each_class_once(cls, traffic: tuple[TrafficClass, ...]) -> tuple[TrafficClass, ...]:
        for what in ("name", "sl"):
            value, times = Counter(getattr(item, what) for item in traffic).most_common(1)[0] if traffic else (0, 1)
            if times > 1:
                raise mismatch(f"another {what} for each class", f"{times} classes with {what} {value}")
        return traffic

    def in_network(self, group: str, role: Role) -> bool:
        """Whether a group of servers of this role is in `network`: all are but those that only `networks` name."""
        named = any(group in network.adapters for network in self.networks.values())
        return role == Role.COMPUTE or group in self.adapters or not named

    @property
    def priced_in(self) -> str | None:
        """The currency that the spec names: `currency`, of its price limit, or of what owning costs; None for none."""
        if self.currency or self.budget.price:
            return self.currency or parse_money(self.budget.price or "")[1]
        return None if self.owning is None else self.owning.currency

    def to_yaml(self, comment: str = "") -> str:
        """Return the YAML of what was set, which reads back as the same spec; ``comment`` goes above it."""
        from ruamel.yaml import YAML

        yaml, out = YAML(), io.StringIO()
        yaml.default_flow_style, yaml.width = False, 120
        out.writelines(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
        yaml.dump(self.model_dump(mode="json", exclude_unset=True), out)
        return out.getvalue()
