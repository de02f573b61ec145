"""Clusters beside one another: every row of the table from the figures of each cluster alone."""

import re
from dataclasses import replace
from types import MappingProxyType

import pytest

import costmodel
import topo
from helpers.clusters import CATALOG
from topo.errors import HeddleError


def cluster(name: str, network: dict[str, object], **nodes: object) -> topo.Cluster:
    return topo.parse({"name": name, "nodes": nodes, "network": network})


TREE = cluster("tree", {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 1, "parallel": 6},
               gpu={"model": "pcie-a100", "count": 20}, store={"model": "storage-3fs", "count": 2})  # fmt: skip
PLANES = cluster("planes", {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700", "leaves": 3, "spines": 2}},
                 gpu={"model": "dgx-a100", "count": 6})  # fmt: skip
ONE = cluster("one", {"shape": "fat-tree", "switch": "QM9700", "levels": 1}, gpu={"model": "dgx-h100", "count": 4})


@pytest.mark.parametrize("clusters", [(TREE, PLANES), (PLANES, ONE, TREE)])
def test_the_figures_beside_one_another_are_those_of_each_cluster(clusters: tuple[topo.Cluster, ...]) -> None:
    found = costmodel.compare(*clusters, currency="USD")
    table = found.table
    names = [f"{number}: {each.name}" for number, each in enumerate(clusters, start=1)]
    assert [column.name for column in table.columns] == ["figure", *names]
    rows = {row[0]: row[1:] for row in table.rows()}
    assert len(rows) == len(table)
    kinds = {loss.kind for system in found.systems for loss in system.losses.worst}
    assert {row for row in rows if row.startswith("failure of a ")} == {f"failure of a {kind}" for kind in kinds}
    for at, one in enumerate(clusters):
        bill, ports = costmodel.bill(one), topo.count_ports(one.fabrics, one.catalog)
        cost, share = bill.price("USD"), costmodel.bisection(one.fabrics)
        switches = sum(fabric.n_switches for fabric in one.fabrics)
        links = sum(len(fabric.links) for fabric in one.fabrics)
        servers = [host for host in {host for fabric in one.fabrics for host in fabric.hosts} if host.startswith("gpu")]
        gpus = 8 * len(servers)
        roles = {(fabric.name, int(fabric.role[s])): [] for fabric in one.fabrics for s in range(fabric.n_switches)}
        for fabric in one.fabrics:
            for s in range(fabric.n_switches):
                roles[fabric.name, int(fabric.role[s])] += fabric.peer[fabric.ports_of(s)].tolist()
        free = {f"{sum(peer < 0 for peer in peers):,} of {len(peers):,} ({topo.Role(role).name.lower()} "
                for (_, role), peers in roles.items()}  # fmt: skip
        said = {name: row[at] for name, row in rows.items()}
        assert said["compute servers"] == str(len(servers))
        assert (said["GPUs"], said["switches"], said["links"]) == (str(gpus), str(switches), str(links))
        assert said["cables"] == f"{bill.count('cable'):,}"
        assert {re.sub(r"^\S+ (?=\d+ of)|\S+\)$", "", part) for part in said["free ports"].split(", ")} == free
        for name in ("network", "servers", "total"):
            assert said[f"{name} (USD)"] == str(getattr(cost, name))
        assert said["network for each GPU (USD)"] == f"{cost.network * (1 / gpus):,.2f}"
        gaps = said["no price (USD)"].split("; ") if cost.gaps else []
        assert gaps == [gap.partition(" (")[0] for gap in cost.gaps] and (gaps or said["no price (USD)"] == "none")
        power = bill.power
        for most, when in ((False, "typically"), (True, "at most")):  # like beside like: no maximum for a mean
            drawn = [(row.line, row.most_w if most else row.typical_w) for row in power.lines]
            for name, network in (("the network", {True}), ("servers", {False}), ("all", {True, False})):
                mine = [(line, watts) for line, watts in drawn if (line.kind != "node") in network]
                known = sum(watts * line.count for line, watts in mine if watts is not None) / 1_000
                shown = said[f"power of {name}, {when} (kW)"]
                assert shown == "unknown" or float(shown.removeprefix("at least ").replace(",", "")) == round(known, 1)
                assert (shown == f"{known:,.1f}") == all(watts is not None for _, watts in mine)
            lacking = {line.item for line, watts in drawn if watts is None}
            named = said[f"power unknown, {when}"]
            assert {part.partition(" x ")[2] for part in named.split("; ") if named != "none"} == lacking
        assert (said["bisection"], said["worst cut"]) == (str(share), share.reason or "none")
        tapers = {f"{row.taper:.3g} ({row.role} {row.model})" for row in ports.classes if row.taper}
        assert (said["taper"] == "none") == (not tapers)
        assert all(taper in said["taper"] for taper in tapers)
        several = len({row.network for row in ports.classes}) > 1  # only then it says of which
        assert not tapers or several == (not {*said["taper"].split(", ")} <= tapers)
        lost = {loss.kind: str(loss) for loss in topo.find_losses(one.fabrics, one.catalog, one.layout).worst}
        for kind in kinds:
            text = said[f"failure of a {kind}"]
            none = "the spec has no floor" if kind in ("rack", "feed") and one.layout is None else f"has no {kind}"
            assert lost[kind] in text if kind in lost else text.endswith(none)


def test_one_currency_for_all_and_two_clusters_at_least() -> None:
    """What has a price in money is compared in money; relative units are for what has no other price, or asked for."""
    only = {"QM8700": {"units": CATALOG.prices["QM8700"]["units"]}}
    paper = topo.Cluster(TREE.spec, replace(CATALOG, prices=MappingProxyType(only)))
    assert (costmodel.bill(TREE).currency, costmodel.bill(paper).currency) == ("USD", "units")
    for pair, unit in (((TREE, TREE), "USD"), ((paper, paper), "units"), ((paper, ONE), "USD"), ((TREE, ONE), "USD")):
        assert {system.cost.unit for system in costmodel.compare(*pair).systems} == {unit}
    assert {system.cost.unit for system in costmodel.compare(TREE, ONE, currency="units").systems} == {"units"}
    for given in ((), (ONE,)):
        with pytest.raises(HeddleError, match="expected two or more"):
            costmodel.compare(*given)


def test_the_share_of_a_job_stands_beside_those_of_the_others() -> None:
    found = costmodel.compare(TREE, PLANES, job=4)
    (row,) = (row for row in found.table.rows() if row[0].startswith("job of 4 servers"))
    assert row[1:] == tuple(str(costmodel.bisection(one.fabrics, 4)) for one in (TREE, PLANES))
    assert [system["job"]["nodes"] for system in found.to_dict()] == [4, 4]
    with pytest.raises(HeddleError, match="planes: found a job of 7 servers; expected 2 to 6, which compute"):
        costmodel.compare(TREE, PLANES, job=7)
