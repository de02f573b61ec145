"""Several networks at once: each is the cheapest of its own, since they share no switch and no cable.

The least price of all is the sum of the least prices, so the certificates of all are one of the whole. What they share
is what a buyer has: budgets, stock and floor. These are compared with the cheapest networks together. Where one is
exceeded, dearer networks may still keep it, and the verdict says that it cannot tell, except for a price that is proven
to be the least, and for power that the servers exceed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from costmodel.optimise.design import PRICE_CHECKS, bill_bought, check_floor
from costmodel.optimise.needs import FurtherNetwork, Needs
from costmodel.optimise.problem import Problem
from costmodel.optimise.search import Search, price_basis
from costmodel.parts import NETWORK
from topo.amounts import Sum, Verdict, listed, sums_to_dict
from topo.catalog.load import Catalog, load_catalog
from topo.checks import Check
from topo.cluster import Cluster
from topo.cluster_spec import ClusterBudget, ClusterSpec, Network
from topo.errors import HeddleError
from topo.fabric import Role
from topo.table import Column, Shown, Table, plain

SearchOne = Callable[[Needs, Catalog], Search]
"""Searches the cheapest design of one network, as `costmodel.optimise` does."""


@dataclass(frozen=True)
class Networks(Shown):
    """The cheapest design of each network of needs with several, and what they are together."""

    needs: Needs
    searches: dict[str, Search]
    """By network; the first has the name of the needs."""
    spec: ClusterSpec | None
    """The cluster with the winners; None where a network has none."""
    cost: Sum
    """Price of switches, cables and optics of all networks, on a floor each cable at its length."""
    checks: tuple[Check, ...]
    """Each limit that the networks share."""

    @property
    def verdict(self) -> Verdict:
        """Whether each network is proven to meet its needs, and all of them what they share.

        Cannot tell where a part has no price, as for one network.
        """
        found = [*(each.verdict for each in self.searches.values()), *(check.verdict for check in self.checks)]
        unpriced = any(each.unpriced for each in self.searches.values())
        return Verdict.all_of([*found, *[Verdict.CANNOT_TELL] * unpriced])

    @property
    def proven(self) -> bool:
        """Whether the networks are known to be the cheapest."""
        return all(found.proven for found in self.searches.values())

    @property
    def certificate(self) -> str:
        """What is proven, in one sentence."""
        lacking = [name for name, found in self.searches.items() if found.winner is None]
        if lacking:
            return f"no design was found for {listed(lacking)}"
        known = [f"{self.cost} {self.needs.currency} for {len(self.searches)} networks"]
        if not any(found.unpriced for found in self.searches.values()):
            least = sum(found.bound for found in self.searches.values())
            basis = price_basis(self.needs)
            known.append(f"none of these families cost less than {least:,.0f}{basis and f', with {basis}'}")
        known += (f"{name}: {found.winner.proof}" for name, found in self.searches.items() if found.winner is not None)
        return "; ".join([*known, *(check.text for check in self.checks if check.verdict is not Verdict.HOLDS)])

    def _brief(self) -> str:
        return self.certificate

    @property
    def table(self) -> Table:
        """The cheapest design of each network."""
        found = list(self.searches.values())
        winners = [each.winner for each in found]
        return Table(
            f"{self.needs.name}: the cheapest design of each network",
            (
                Column("network", list(self.searches)),
                Column("design", [winner.name if winner else "none meets the needs" for winner in winners]),
                Column("price", [str(winner.total) if winner else None for winner in winners], self.needs.currency),
                Column("switches", [winner.switches if winner else None for winner in winners]),
                Column("needs", [str(each.verdict) for each in found]),
                Column("no price", [", ".join(each.unpriced) or "none" for each in found]),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {
            "networks": {name: found.to_dict() for name, found in self.searches.items()},
            "verdict": str(self.verdict),
            "certificate": self.certificate,
            "proven": self.proven,
            "currency": self.needs.currency,
            **sums_to_dict({"price": self.cost}),
            "checks": plain(self.checks),
            "spec": None if self.spec is None else self.spec.model_dump(mode="json", exclude_unset=True),
        }


def optimise_networks(needs: Needs, search: SearchOne) -> Networks:
    """Find the cheapest design of each network of needs with `Needs.networks`.

    Parameters
    ----------
    needs : Needs
        The requirements: see `costmodel.read_needs`.
    search : callable
        ``search(needs, catalog)`` searches one network, as `costmodel.optimise` does.

    Raises
    ------
    topo.HeddleError
        When a network names a group that there is not.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}}, "job": {"nodes": 60},
    ...     "switches": ["QM8700"], "networks": {"storage": {"adapters": {"gpu": 1}}},
    ... })
    >>> found = costmodel.optimise_networks(needs, costmodel.optimise)
    >>> list(found.searches), found.proven, list(found.spec.networks)
    (['pod', 'storage'], True, ['storage'])
    """
    catalog = load_catalog([Path(needs.catalog)] if needs.catalog else [])
    unknown = sorted({group for network in needs.networks.values() for group in network.adapters} - set(needs.nodes))
    if unknown:
        raise HeddleError(f"networks: found {listed(unknown)}; expected groups of `nodes`: {listed(needs.nodes)}")
    searches = {needs.name: search(_alone(needs, nodes=needs.first_network(catalog)), catalog)}
    for name, network in needs.networks.items():
        searches[name] = search(*_further(needs, name, network, catalog))
    winners = [found.winner for found in searches.values()]
    if None in winners:
        return Networks(needs, searches, None, Sum(), ())
    first, *others = (winner.spec.network for winner in winners if winner is not None)
    networks = {
        name: Network(network=shape, **network.model_dump(include={"adapters", "adapter"}, exclude_unset=True))
        for (name, network), shape in zip(needs.networks.items(), others, strict=True)
    }
    problem = Problem(needs, catalog)
    full = Cluster(problem.spec.model_copy(update={"network": first, "networks": networks}), problem.catalog)
    spec = full.spec.model_copy(update={"nodes": needs.nodes})
    bought = Cluster(spec, problem.catalog) if needs.growth else full
    _, bill, _, limits = bill_bought(bought, needs, placed=needs.floor is not None)
    checks = [*limits, *check_floor(full, needs)]
    least = needs.floor is None and all(found.proven for found in searches.values())
    sure = {*(PRICE_CHECKS if least else ()), *(check.what for check in problem.exceeded_by_servers)}
    cost = bill.of(*NETWORK).price(needs.currency).network
    return Networks(needs, searches, spec, cost, tuple(_judged(checks, sure)))


def _alone(needs: Needs, **update: object) -> Needs:
    """Return needs of one network, without what all networks share."""
    shared = {"budget": ClusterBudget(), "network_price": None, "floor": None, "reach": None}
    return needs.model_copy(update={**shared, "networks": {}, **update})


def _further(needs: Needs, name: str, network: FurtherNetwork, catalog: Catalog) -> tuple[Needs, Catalog]:
    """Return the needs of a further network, and the catalog in which its servers have its adapters."""
    nodes, models = {}, dict(catalog.nodes)
    for group, adapters in network.adapters.items():
        node = needs.nodes[group]
        model = catalog.node(node.model)
        further = model.storage_adapter_model if node.role_by(catalog) is Role.COMPUTE else None
        adapter = network.adapter or further or model.adapter_model
        alias = f"{node.model} of {group}"  # two groups of a model may have different adapters here
        models[alias] = replace(model, name=alias, adapters=adapters, adapter_model=adapter, cages=None)
        nodes[group] = node.model_copy(update={"model": alias})
    shared = ("job", "bandwidth", "between_rails", "survives_a_switch", "families")
    asked = {key: getattr(network, key) for key in shared}
    switches = network.switches or needs.switches
    alone = _alone(needs, name=f"{needs.name}-{name}", nodes=nodes, switches=switches, **asked)
    return alone, replace(catalog, nodes=MappingProxyType(models))


def _judged(checks: list[Check], sure: Container[str]) -> Iterator[Check]:
    """Yield checks of the cheapest networks as checks of all: dearer ones may keep a limit that is not ``sure``."""
    for check in checks:
        if check.verdict is Verdict.EXCEEDED and check.what not in sure:
            text = f"{check.text}: the cheapest networks exceed it, others may not"
            yield replace(check, verdict=Verdict.CANNOT_TELL, text=text)
        else:
            yield check
