"""Clusters beside one another: every row of the table from the figures of each cluster alone."""

import pytest

import costmodel
import topo
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
        bill, ports = costmodel.bill(one), topo.count_ports(one.fabrics)
        cost, share = bill.price("USD"), costmodel.bisection(one.fabrics)
        switches = sum(fabric.n_switches for fabric in one.fabrics)
        links = sum(len(fabric.links) for fabric in one.fabrics)
        servers = [host for host in {host for fabric in one.fabrics for host in fabric.hosts} if host.startswith("gpu")]
        gpus = 8 * len(servers)
        free = sum(int((fabric.peer[: fabric.first_adapter_port] < 0).sum()) for fabric in one.fabrics)
        said = {name: row[at] for name, row in rows.items()}
        assert said["compute servers"] == str(len(servers))
        assert (said["GPUs"], said["switches"], said["links"]) == (str(gpus), str(switches), str(links))
        assert said["cables"] == f"{bill.count('cable'):,}"
        assert said["free ports"] == f"{free:,}"
        for name in ("network", "servers", "total"):
            assert said[f"{name} (USD)"] == cost.told(name)
        assert said["network for each GPU (USD)"] == f"{cost.network * (1 / gpus):,.2f}"
        gaps = said["no price (USD)"].split("; ") if cost.gaps else []
        assert gaps == [gap.partition(" (")[0] for gap in cost.gaps] and (gaps or said["no price (USD)"] == "none")
        power = bill.power
        assert said["power of the network, typically (kW)"] == f"{power.network_w * 1e-3:,.1f}"
        assert said["power, typically (kW)"] == f"{power.total_w * 1e-3:,.1f}"
        assert said["power, planned (kW)"] == f"{power.planned_w * 1e-3:,.1f}"
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
    assert costmodel.bill(TREE).currency == "units" != costmodel.bill(ONE).currency
    for pair, unit in (((TREE, TREE), "units"), ((TREE, ONE), "USD"), ((ONE, ONE), costmodel.bill(ONE).currency)):
        assert {system.cost.unit for system in costmodel.compare(*pair).systems} == {unit}
    for given in ((), (ONE,)):
        with pytest.raises(HeddleError, match="expected two or more"):
            costmodel.compare(*given)
