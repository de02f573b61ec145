"""What a failure takes away, on clusters that nobody drew, beside brute force over pairs of servers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.clusters import clusters
from helpers.networks import HDR, Plain
from helpers.strategies import examples
from topo.amounts import Verdict
from topo.cluster import Cluster
from topo.fabric import Fabric, Kind, Role
from topo.failures.losses import Loss, _switches, find_losses, find_parting_switch, lose
from topo.failures.parts import list_parts
from topo.failures.reach import Failed, Reach
from topo.floor.racks import Feeds


def connected(fabrics: Sequence[Fabric], failed: Failed) -> set[frozenset[str]]:
    """Every pair of servers that reach one another: a walk through a graph for each subnet."""
    pairs: set[frozenset[str]] = set()
    other = set()  # servers with a port of more than a gigabit, which a network for management does not connect
    for fabric in fabrics:
        for a, b in fabric.links.tolist():
            for node in (int(fabric.port_node[a]), int(fabric.port_node[b])):
                if fabric.kind[node] == Kind.HCA and fabric.rate_gbps[a] > 1:
                    other.add(fabric.hosts[fabric.host[node]])
    for subnet, fabric in enumerate(fabrics):
        managing = all(fabric.rate_gbps[a] == 1 for a, b in fabric.links.tolist()
                       if Kind.HCA in fabric.kind[fabric.port_node[[a, b]]])  # fmt: skip
        graph = nx.MultiGraph()
        graph.add_nodes_from(range(fabric.n_nodes))
        for link, (a, b) in enumerate(fabric.port_node[fabric.links].tolist()):
            if link not in failed.links.get(subnet, ()):
                graph.add_edge(a, b)
        graph.remove_nodes_from(failed.switches.get(subnet, ()))
        adapters = [node for node in range(fabric.n_nodes) if fabric.kind[node] == Kind.HCA]
        for part in nx.connected_components(graph):
            here = {fabric.hosts[fabric.host[node]] for node in adapters if node in part} - failed.servers
            pairs |= {frozenset(pair) for pair in combinations(here, 2) if not (managing and {*pair} <= other)}
    return pairs


def roles(cluster: Cluster) -> dict[str, str]:
    """The role of every server, in words."""
    return {
        fabric.hosts[fabric.host[node]]: Role(int(fabric.role[node])).name.lower()
        for fabric in cluster.fabrics
        for node in np.flatnonzero(fabric.kind == Kind.HCA)
    }


def named(loss: Loss) -> set[frozenset[str]]:
    """Every pair of the groups that lost contact."""
    groups = [tuple(map(topo.expand, text.split(" and "))) for text in loss.apart]
    return {frozenset((a, b)) for one, other in groups for a in one for b in other if a != b}


@examples(30)
@given(clusters(), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_brute_force_finds_the_same(cluster: Cluster, random) -> None:
    reach = Reach(cluster.fabrics)
    whole = connected(cluster.fabrics, Failed())
    assert reach.whole.pairs == len(whole)
    role = roles(cluster)
    wanted = {frozenset(pair) for pair in combinations(role, 2) if "compute" in {role[name] for name in pair}}
    assert bool(reach.faults()) == bool(wanted - whole)
    subnet = random.randrange(len(cluster.fabrics))
    fabric = cluster.fabrics[subnet]
    failures = [Failed(switches={subnet: (random.randrange(fabric.n_switches),)}),
                *([Failed(links={subnet: (random.randrange(len(fabric.links)),)})] if len(fabric.links) else []),
                Failed(switches={subnet: random.sample(range(fabric.n_switches), min(2, fabric.n_switches))},
                       servers=frozenset(random.sample(reach.names, 1)))]  # fmt: skip
    for failed in failures:
        left, loss = connected(cluster.fabrics, failed), lose(reach, failed)
        assert loss.pairs == len(whole) - len(left)
        still = {name for pair in left for name in pair}
        cut = ({name for pair in whole for name in pair} - still) | failed.servers
        assert loss.servers == len(cut)
        assert loss.cut == (topo.compress(cut) if cut else "")
        for word in ("compute", "storage", "management"):
            mine, of_all = [name for name in cut if role[name] == word], [name for name in role if role[name] == word]
            assert (f"{len(mine)} of {len(of_all)} {word}" in loss.roles) == bool(mine)
        assert named(loss) == {pair for pair in whole - left if not pair & cut}


@examples(20)
@given(clusters(), st.randoms(use_true_random=False))
def test_servers_that_lose_a_network_and_what_they_lose_are_counted_port_by_port(cluster: Cluster, random) -> None:
    """Planes are one network; a server that reaches nobody has lost more than a network, and does not count."""
    reach, whole = Reach(cluster.fabrics), connected(cluster.fabrics, Failed())
    subnet = random.randrange(len(cluster.fabrics))
    failed = Failed(
        switches={subnet: random.sample(range(cluster.fabrics[subnet].n_switches), 1)},
        servers=frozenset(random.sample(reach.names, 1)),
    )
    had, has = dict[tuple[str, str], float](), dict[tuple[str, str], float]()
    for at, fabric in enumerate(cluster.fabrics):
        network = fabric.name.partition("-plane")[0]
        for a, b in fabric.links.tolist():
            nodes = [int(fabric.port_node[port]) for port in (a, b)]
            for node, far in (nodes, nodes[::-1]):
                if fabric.kind[node] == Kind.HCA and far < fabric.n_switches:
                    key = network, fabric.hosts[fabric.host[node]]
                    gbps = float(min(fabric.rate_gbps[[a, b]]))
                    works = far not in failed.switches.get(at, ()) and key[1] not in failed.servers
                    had[key] = had.get(key, 0.0) + gbps
                    has[key] = has.get(key, 0.0) + gbps * works
    loss, still = lose(reach, failed), {name for pair in connected(cluster.fabrics, failed) for name in pair}
    alone = {name for pair in whole for name in pair} - still
    off = {}
    for network, server in had:
        lost = not has[network, server] and server not in alone | failed.servers
        off[network] = off.get(network, 0) + lost
    assert loss.off == max(off.values())
    for network, number in off.items():
        of = sum(one == network for one, _ in had)
        assert (f"{number:,} of {topo.plural(of, 'server')} off {network}" in loss.networks.split(", ")) == (number > 0)
    assert loss.gbps == pytest.approx(sum(had.values()) - sum(has.values()))
    computes = {name for name, role in roles(cluster).items() if role == "compute"}
    kept = {key: 1 - has[key] / had[key] for key in had if has[key]}
    assert loss.share == pytest.approx(max((lost for key, lost in kept.items() if key[1] in computes), default=0.0))
    if loss.share:
        assert max(lost for key, lost in kept.items() if key == (loss.share_in, key[1]) and key[1] in computes) == (
            pytest.approx(loss.share)
        )
    others = {key[1]: lost for key, lost in kept.items() if key[1] not in computes}
    assert loss.share_other == pytest.approx(max(others.values(), default=0.0))
    if loss.share_other > loss.share + 1e-9:
        assert max(lost for key, lost in kept.items() if key[1] == loss.other) == pytest.approx(loss.share_other)
        assert f"{topo.percent(loss.share_other)} of {loss.other}'s" in str(loss)
    of_all = {name: [sum(rates[key] for key in had if key[1] == name) for rates in (had, has)] for name in computes}
    assert loss.gbps_compute == pytest.approx(sum(before - after for before, after in of_all.values()))
    left = [after / before for before, after in of_all.values() if after]
    assert loss.share_of_all == pytest.approx(1 - min(left, default=1.0))


def test_a_leaf_is_told_by_what_compute_servers_lose_and_the_worst_other_by_name() -> None:
    """Two appliances with two ports each make no leaf look four times as fragile, nor as one that is unlike others."""
    nodes = {"gpu": {"model": "dgx-h100", "count": 14}, "ufm": {"model": "ufm-appliance", "count": 2}}
    network = {"shape": "rail", "unit_nodes": 7, "tree": {"switch": "QM9700"}}
    spec = {"name": "x", "network": network, "nodes": nodes}
    cluster = topo.parse(spec)
    (fabric,) = cluster.fabrics
    with_gpus = {int(leaf) for leaf in fabric.end_switch[fabric.ends(Role.COMPUTE)]}
    loss = find_losses(cluster.fabrics, cluster.catalog).largest
    assert (loss.share, loss.share_other, loss.alike_compute) == (0.125, 0.5, len(with_gpus))
    assert loss.other in {"ufm0", "ufm1"} and loss.alike < loss.alike_compute
    assert f"(one of {len(with_gpus)} leaves that cost compute servers the same)" in str(loss)
    assert f"12.5% of a compute server's bandwidth in x, 50.0% of {loss.other}'s" in str(loss)


@examples(20)
@given(clusters())
def test_a_switch_takes_no_less_than_one_of_its_links_and_a_rack_no_less_than_a_switch_in_it(cluster: Cluster) -> None:
    reach = Reach(cluster.fabrics)
    for subnet, fabric in enumerate(cluster.fabrics):
        by_switch = [lose(reach, Failed(switches={subnet: (node,)})) for node in range(fabric.n_switches)]
        for link, ends in list(enumerate(fabric.port_node[fabric.links].tolist()))[::7]:
            one = lose(reach, Failed(links={subnet: (link,)}))
            for loss in (by_switch[node] for node in ends if node < fabric.n_switches):
                assert (one.pairs, one.servers, one.ports) <= (loss.pairs, loss.servers, loss.ports)
                assert one.pairs <= loss.pairs
                assert one.ports <= loss.ports
                assert (one.zones or 0) <= (loss.zones or 0) + 1e-9
    worst = find_losses(cluster.fabrics, cluster.catalog, cluster.layout).worst
    switches = [loss for loss in worst if loss.kind not in ("rack", "link", "feed")]
    links = [loss for loss in worst if loss.kind == "link"]
    assert max(loss.pairs for loss in links) <= max(loss.pairs for loss in switches)
    assert any(loss.kind == "rack" for loss in worst) == (cluster.layout is not None)
    if cluster.layout is not None:
        racks = list_parts("rack", reach, catalog=cluster.catalog, layout=cluster.layout)
        assert max(lose(reach, rack).pairs for rack in racks.values()) >= max(loss.pairs for loss in switches)


@examples(10)
@given(clusters())
def test_the_worst_switch_is_found_among_all(cluster: Cluster) -> None:
    """Twins are tried once: the worst of every switch alone is no worse."""
    reach = Reach(cluster.fabrics)
    every = [lose(reach, Failed(switches={subnet: (node,)}))
             for subnet, fabric in enumerate(cluster.fabrics) for node in range(fabric.n_switches)]  # fmt: skip
    found = find_losses(cluster.fabrics, cluster.catalog, cluster.layout)
    assert found.largest is not None
    most = max(loss.weight for loss in every)
    assert found.largest.weight == most
    alike = [loss for loss in every if (loss.weight, loss.roles) == (most, found.largest.roles)]
    kinds = [loss for loss in found.worst if loss.kind not in ("link", "rack", "feed")
             and (loss.weight, loss.roles) == (most, found.largest.roles)]  # fmt: skip
    assert sum(loss.alike for loss in kinds) == len(alike)


@pytest.mark.parametrize(("placement", "share"), [("border", 1.0), pytest.param("spread", 0.5, marks=pytest.mark.slow)])
def test_on_a_border_leaf_hangs_everything_between_two_zones(placement: str, share: float) -> None:
    spec = topo.preset("fire-flyer-2").spec.model_dump(mode="json", exclude_unset=True)
    spec["network"]["joints"]["placement"] = placement
    del spec["floor"]
    rows = topo.find_losses(topo.parse(spec).fabrics, topo.load_catalog()).worst
    worst = {loss.kind: loss for loss in reversed(rows)}  # the first of each kind
    assert worst["joint"].zones == pytest.approx(0.5)
    most = max(loss.zones for loss in worst.values())
    assert most == pytest.approx(share)
    leaf = worst["leaf"]
    assert bool(leaf.apart) == (placement == "border")
    if placement == "border":
        assert (leaf.pairs, leaf.servers, leaf.ports) == (360_000, 0, 0)
        assert leaf.apart == ("gpu[0600-1199] and gpu[0000-0599]",)


def test_servers_without_a_storage_adapter_are_an_island() -> None:
    """Each subnet alone is whole; the plan is not."""
    nodes = {"gpu": {"model": "hgx-h800", "count": 3}, "s": {"model": "storage-3fs", "count": 2}}
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}, "storage": {"switch": "QM9700"}}
    reach = Reach(topo.parse({"name": "pod", "nodes": nodes, "network": network}).fabrics)
    assert reach.faults() == ["gpu[0-2] reach no server of s[0-1]: they have no adapter on pod-storage"]
    nodes["gpu"]["model"] = "dgx-a100"  # with an adapter for storage
    assert Reach(topo.parse({"name": "pod", "nodes": nodes, "network": network}).fabrics).faults() == []


def sent(cluster: Cluster, subnet: int, failed: Failed) -> dict[int, float]:
    """Gb/s that the servers on each switch can send to other switches but joints: link by link."""
    fabric = cluster.fabrics[subnet]
    gone = failed.switches.get(subnet, ())
    down, up = dict.fromkeys(range(fabric.n_switches), 0.0), dict.fromkeys(range(fabric.n_switches), 0.0)
    for a, b in fabric.links.tolist():
        ends, rate = [int(fabric.port_node[port]) for port in (a, b)], float(min(fabric.rate_gbps[[a, b]]))
        switches = [end for end in ends if end < fabric.n_switches]
        if len(switches) == 1:
            down[switches[0]] += rate
        elif switches[0] != switches[1] and not set(switches) & set(gone) and Role.JOINT not in fabric.role[ends]:
            up[switches[0]] += rate
            up[switches[1]] += rate
    return {switch: min(down[switch], up[switch]) for switch in down if switch not in gone}


@pytest.mark.slow
@examples(20)
@given(clusters())
def test_a_plan_survives_what_takes_nothing_from_servers_that_run(cluster: Cluster) -> None:
    reach, whole = Reach(cluster.fabrics), connected(cluster.fabrics, Failed())
    beyond: dict[str, int] = {"switch": 0}
    for subnet, fabric in enumerate(cluster.fabrics):
        before = sent(cluster, subnet, Failed())
        for node in range(fabric.n_switches):
            failed = Failed(switches={subnet: (node,)})
            loss, after = lose(reach, failed), sent(cluster, subnet, failed)
            left = [after[switch] / before[switch] for switch in after if before[switch]]
            assert loss.bandwidth == pytest.approx(1 - min(left, default=1.0))
            assert loss.beyond == len(whole) - len(connected(cluster.fabrics, failed))
            beyond["switch"] = max(beyond["switch"], loss.beyond)
    for failed in (
        list_parts("rack", reach, catalog=cluster.catalog, layout=cluster.layout).values() if cluster.layout else ()
    ):
        others = {pair for pair in whole if not pair & failed.servers}
        assert lose(reach, failed, "rack").beyond == len(others) - len(connected(cluster.fabrics, failed))
        beyond["rack"] = max(beyond.get("rack", 0), len(others) - len(connected(cluster.fabrics, failed)))
    checks = find_losses(cluster.fabrics, cluster.catalog, cluster.layout).survived(["switch", "rack"])
    for kind, check in zip(("switch", "rack"), checks, strict=True):
        verdict = Verdict.CANNOT_TELL if kind not in beyond else Verdict.EXCEEDED if beyond[kind] else Verdict.HOLDS
        assert (check.what, check.verdict) == (f"survives {kind}", verdict)


@examples(20)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_a_feed_that_takes_a_server_is_not_survived(cluster: Cluster, seed: int) -> None:
    """One model after the other runs on one feed, or not, by chance."""
    if cluster.layout is None:
        return
    rng = np.random.default_rng(seed)
    runs = {device.model: ("yes", "reduced", "no")[rng.integers(3)] for device in cluster.layout.devices}
    catalog = replace(
        cluster.catalog,
        **{kind: {model: replace(known, runs_on_one_feed=runs.get(model)) for model, known in models.items()}
           for kind, models in (("switches", cluster.catalog.switches), ("nodes", cluster.catalog.nodes))},
    )  # fmt: skip
    down = {device.name for device in cluster.layout.devices if runs[device.model] == "no"}
    names = Reach(cluster.fabrics).names
    failed = Failed({subnet: [node for node in range(fabric.n_switches) if fabric.label(node) in down]
                     for subnet, fabric in enumerate(cluster.fabrics)}, servers=frozenset(down & {*names}))  # fmt: skip
    holds = not down & {*names} and connected(cluster.fabrics, failed) == connected(cluster.fabrics, Failed())
    unstated = replace(cluster.layout, floor=cluster.layout.floor.model_copy(update={"feeds": None}))
    (check,) = find_losses(cluster.fabrics, catalog, unstated).survived(["feed"])
    assert check.verdict == Verdict.CANNOT_TELL and "`floor.feeds` is not stated" in check.text
    fed = cluster.layout.floor.model_copy(update={"feeds": Feeds.model_validate({"power": "1000 MW"})})
    losses = find_losses(cluster.fabrics, catalog, replace(cluster.layout, floor=fed))
    (check,) = losses.survived(["feed"])
    assert check.verdict == (Verdict.HOLDS if holds else Verdict.EXCEEDED)
    slow = sum(runs[device.model] == "reduced" for device in cluster.layout.devices if device.name in names)
    assert losses.worst_of("feed").reduced == slow
    assert (f"{slow} server" in str(losses.worst_of("feed"))) == (slow > 0)


def test_a_spine_above_a_single_leaf_takes_nothing() -> None:
    """All servers reach one another on the leaf: no bandwidth between leaves is lost, and more spines cure nothing."""
    network = {"shape": "fat-tree", "switch": "QM8700", "levels": 2, "leaves": 1}
    cluster = topo.parse({"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": 8}}, "network": network})
    worst = find_losses(cluster.fabrics, cluster.catalog).worst
    assert [str(loss) for loss in worst if loss.kind == "spine"] == [
        "spine spine0 (each of 2): nothing lost once rerouted"
    ]


def test_a_rack_takes_its_own_servers_which_are_not_cut_off() -> None:
    """By the places of the layout: what is in the rack, and what others lose."""
    spec = {"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": 12}}, "floor": {"rack_power": "20 kW"},
            "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 2}}  # fmt: skip
    cluster = topo.parse(spec)
    layout = cluster.layout
    assert layout is not None
    (loss, *_) = (one for one in find_losses(cluster.fabrics, cluster.catalog, layout).worst if one.kind == "rack")
    rack = next(number for number in range(layout.n_racks) if layout.rack_name(number) == loss.name)
    inside = {layout.devices[at].name for at in layout.inside[rack]}
    gpus = sum(name.startswith("gpu") for name in inside)
    assert f"takes {gpus} of 12 compute servers with it" in str(loss)
    lost = 0
    (fabric,) = cluster.fabrics
    for ends in fabric.port_node[fabric.links].tolist():
        names = {fabric.label(node) if node < fabric.n_switches else fabric.server_of(node): node for node in ends}
        servers = {name for name, node in names.items() if node >= fabric.n_switches}
        lost += bool(servers) and not servers & inside and bool(names.keys() & inside)
    assert loss.ports == lost
    assert (gpus, lost) == (5, 1), "a server in the other rack has its one port on the leaf in this rack"
    for words in ("1 of 12 compute servers cut off", f"{12 - 5 - 1} pairs of other servers lost"):
        assert words in str(loss)
    assert "1 adapter port of other servers without a link" in str(loss)


def test_half_the_uplinks_are_told_by_what_a_spine_takes() -> None:
    """Both carry all that servers send; only the wider one still does without a spine."""
    nodes = {"gpu": {"model": "dgx-h100", "count": 16}}
    lost = {}
    for spines, parallel in ((2, 8), (4, 8)):
        tree = {"switch": "QM9700", "spines": spines, "parallel": parallel}
        cluster = topo.parse(
            {"name": "x", "nodes": nodes, "network": {"shape": "rail", "unit_nodes": 16, "tree": tree}}
        )
        worst = find_losses(cluster.fabrics, cluster.catalog).worst
        (lost[spines],) = (loss.bandwidth for loss in worst if loss.kind == "spine")
    assert lost == {2: 0.5, 4: 0.0}


def test_a_server_alone_on_a_leaf_that_is_cut_off_is_separated_and_one_on_the_failed_switch_is_not() -> None:
    line = Plain(3, ((0, 1, HDR), (1, 2, HDR)), (1, 0, 1))  # a server at either end of three switches
    assert find_parting_switch(Reach([line.fabric()])) == "s1"
    assert find_parting_switch(Reach([Plain(2, ((0, 1, HDR),), (1, 1)).fabric()])) == ""
    both = replace(line, hosts=(0, 0, 0), wide=((0, 2), (0, 2), (2, 0)))  # adapters at both ends
    assert find_parting_switch(Reach([both.fabric()])) == ""
    one = replace(both, wide=((0, 2), (0, 2), (2, 2)))  # at one end, with a leaf that both others have
    assert find_parting_switch(Reach([one.fabric()])) == ""
    assert find_parting_switch(Reach([replace(one, wide=((0, 2), (0, 0), (2, 2))).fabric()])) == "s1"


@examples(60)
@given(st.integers(0, 1 << 32))
def test_switches_that_are_tried_once_take_the_same(seed: int) -> None:
    """Servers with one port or several, on switches wired at random in one or two networks: twins lose as much."""
    fabrics, random = [], Random(seed)
    for network in range(random.choice([1, 1, 2])):
        builder, n = topo.FabricBuilder(f"net{network}"), random.randint(2, 7)
        zones = random.choice([1, 1, 2])
        switches = [builder.switch(f"n{network}-s{i}", model="", radix=60, role=Role.LEAF, level=1, zone=i % zones)
                    for i in range(n)]  # fmt: skip
        ports = dict.fromkeys(switches, 0)

        def port(switch: int, ports: dict[int, int] = ports) -> int:
            ports[switch] += 1
            return ports[switch]

        tree = random.random() < 0.7  # where the last two are spines, many leaves are alike but for their servers
        for a, b in combinations(switches, 2):
            up = b in switches[-2:] and a not in switches[-2:]
            for _ in range(int(up) if tree else random.choice([0, 0, 1, 1, 2])):
                builder.link(a, port(a), b, port(b), topo.LinkSpeed(4 if tree else random.choice([2, 4]), "HDR"))
        for host in range(random.randint(2, 8)):
            for device in range(random.choice([1, 1, 2])):
                role = random.choice([Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT])
                key = builder.adapter(f"h{host}", f"d{device}", model="", host_model="", role=role)
                at = random.choice(switches[: max(2, n - 2)])
                builder.link(key, 1, at, port(at), topo.LinkSpeed(4, "HDR"))
        fabrics.append(builder.build())
    reach = Reach(fabrics)
    whole = connected(fabrics, Failed())
    twins: dict[object, tuple[float, ...]] = {}
    for *_, failed, twin in _switches(reach):
        loss, gone = lose(reach, failed), whole - connected(fabrics, failed)
        assert loss.pairs == len(gone)
        assert named(loss) == {pair for pair in gone if not pair & {*topo.expand(loss.cut)}}
        assert twin is None or twins.setdefault(twin, loss.weight) == pytest.approx(loss.weight)
        assert twin is None or twins.setdefault((twin, "roles"), loss.roles) == loss.roles


@examples(15)
@given(clusters())
@pytest.mark.slow
def test_racks_that_take_most_of_anything_have_a_row_that_says_of_how_many(cluster: Cluster) -> None:
    """Rack by rack: most pairs of others, most servers and most bandwidth are each what a row shows."""
    if cluster.layout is not None:
        check_racks(cluster)


def test_a_rack_of_a_pod_that_takes_most_bandwidth_has_a_row() -> None:
    document = {
        "name": "pod",
        "nodes": {
            "gpu": {"model": "dgx-h100", "count": 64},
            "store": {"model": "storage-ndr", "count": 8, "role": "storage"},
            "head": {"model": "management-ndr", "count": 4, "role": "management"},
        },
        "network": {
            "shape": "rail",
            "unit_nodes": 32,
            "tree": {"switch": "QM9700"},
            "storage": {"shape": "fat-tree", "switch": "QM9700"},
        },
        "floor": {"rows": 2, "rack_power": "44 kW"},
    }
    check_racks(topo.parse(document))


def carried(fabric: Fabric, pods: dict[int, int], pod: int, gone: frozenset[int], fail: frozenset[int]) -> float:
    """Gb/s from servers of a pod to its cores without some switches, by networkx; servers on ``gone`` send nothing."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["servers", "cores"])

    def add(a: object, b: object, rate: float) -> None:
        known = graph.get_edge_data(a, b, {"capacity": 0.0})["capacity"]
        graph.add_edge(a, b, capacity=known + rate)

    for one, other in fabric.links.tolist():
        ends, rate = [int(fabric.port_node[port]) for port in (one, other)], float(min(fabric.rate_gbps[[one, other]]))
        if set(ends) & fail:
            continue
        for a, b in (ends, ends[::-1]):
            if pods.get(a) == pod and a not in gone and fabric.kind[b] == Kind.HCA:
                add("servers", a, rate)
            elif pods.get(a) == pod:
                add(a, b if pods.get(b) == pod else "cores", rate if fabric.kind[b] != Kind.HCA else 0.0)
    return float(nx.maximum_flow_value(graph, "servers", "cores"))


@examples(25)
@given(st.integers(0, 1 << 32))
def test_a_pod_loses_what_networkx_says_of_a_tree_with_missing_cables(seed: int) -> None:
    """Leaves, spines and cores of which some cables are missing; twins are tried once, and lose the same."""
    random = Random(seed)
    builder = topo.FabricBuilder("tree")
    ports: dict[int, int] = {}

    def port(switch: int) -> int:
        ports[switch] = ports.get(switch, 0) + 1
        return ports[switch]

    def join(a: int, b: int, links: int) -> None:
        for _ in range(links):
            builder.link(a, port(a), b, port(b), topo.LinkSpeed(random.choice(widths), "HDR"))

    widths = random.choice([[4], [2, 4]])
    n_pods, n_leaves, n_spines, n_cores = random.randint(2, 3), *(random.randint(1, 3) for _ in range(3))
    whole = random.random() < 0.4  # of whole trees, switches are alike
    some = [1] if whole else [0, 1, 1, 2]
    cores = [builder.switch(f"c{i}", model="", radix=60, role=Role.CORE, level=3) for i in range(n_cores)]
    host = 0
    for pod in range(n_pods):
        spines = [builder.switch(f"s{pod}-{i}", model="", radix=60, role=Role.SPINE, level=2) for i in range(n_spines)]
        leaves = [builder.switch(f"l{pod}-{i}", model="", radix=60, role=Role.LEAF, level=1) for i in range(n_leaves)]
        for spine in spines:
            for core in cores:
                join(spine, core, random.choice(some))
            for leaf in leaves:
                join(leaf, spine, 1 if whole else random.choice([1, 1, 2]))
        for leaf in leaves:
            for _ in range(2 if whole else random.randint(0, 3)):
                key = builder.adapter(f"h{host}", "d", model="", host_model="", role=Role.COMPUTE)
                builder.link(key, 1, leaf, port(leaf), topo.LinkSpeed(4, "HDR"))
                host += 1
    fabric = builder.build()
    pods = {node: int(fabric.label(node)[1 : fabric.label(node).index("-")])
            for node in range(fabric.n_switches) if fabric.role[node] != Role.CORE}  # fmt: skip
    reach, twins = Reach([fabric]), dict[object, tuple[float, ...]]()
    parts = nx.Graph(fabric.port_node[fabric.links].tolist())
    on = {switch for switch in pods if switch in parts and any(fabric.kind[b] == Kind.HCA for b in parts[switch])}

    def others(*mine: int) -> bool:
        """Whether there are servers elsewhere that those on these switches can send to."""
        first = next((switch for switch in mine if switch in on), None)
        return first is not None and bool(on.difference(mine) & nx.node_connected_component(parts, first))

    for *_, failed, twin in _switches(reach):
        loss, fail = lose(reach, failed), frozenset(failed.switches[0])
        lost = [1.0 - after / before for pod in range(n_pods)
                if any(others(one, *(b for b in pods if pods[b] == pod and b != one)) for one in on if pods[one] == pod)
                and (before := carried(fabric, pods, pod, fail, frozenset()))
                and (after := carried(fabric, pods, pod, fail, fail)) is not None]  # fmt: skip
        leaves = [left / before for switch, before in at_leaves(fabric, frozenset()).items()
                  if before and others(switch)
                  and (left := at_leaves(fabric, fail).get(switch)) is not None]  # fmt: skip
        assert loss.bandwidth == pytest.approx(max([*lost, 1.0 - min(leaves, default=1.0), 0.0]))
        assert twin is None or twins.setdefault(twin, loss.weight) == pytest.approx(loss.weight)


def at_leaves(fabric: Fabric, fail: frozenset[int]) -> dict[int, float]:
    """Gb/s that servers on each switch that works can send to others."""
    down, up = dict[int, float](), dict[int, float]()
    for one, other in fabric.links.tolist():
        ends, rate = [int(fabric.port_node[port]) for port in (one, other)], float(min(fabric.rate_gbps[[one, other]]))
        for a, b in (ends, ends[::-1]):
            if a < fabric.n_switches and a not in fail and b not in fail:
                side = up if b < fabric.n_switches else down
                side[a] = side.get(a, 0.0) + rate
    return {switch: min(rate, up.get(switch, 0.0)) for switch, rate in down.items()}


@examples(40)
@given(st.randoms(use_true_random=False), st.booleans())
def test_servers_lose_none_to_one_another_whose_leaves_alone_give_them_full_rate(random: Random, alike: bool) -> None:
    """Without the only spine, halves of servers have the maximum flow that networkx finds over each leaf alone."""
    builder, n_leaves = topo.FabricBuilder("tree"), random.randint(2, 3)
    spine = builder.switch("spine", model="", radix=8, role=Role.SPINE, level=2)
    leaves = [builder.switch(f"l{i}", model="", radix=60, role=Role.LEAF, level=1) for i in range(n_leaves)]
    free = [1] * n_leaves
    graph, rate = nx.DiGraph(), dict[int, int]()
    pattern = random.choices(range(n_leaves), k=3)
    for server in range(random.randint(2, 4)):
        width = random.choice([2, 4])
        for number, leaf in enumerate(pattern if alike else random.choices(range(n_leaves), k=3)):
            key = builder.adapter(f"h{server}", f"mlx5_{number}", model="", host_model="", role=Role.COMPUTE)
            builder.link(key, 1, leaves[leaf], free[leaf], topo.LinkSpeed(width, "HDR"))
            free[leaf] += 1
            for a, b in (((server, "sends"), leaf), (leaf, (server, "gets"))):
                graph.add_edge(a, b, capacity=graph.get_edge_data(a, b, {"capacity": 0})["capacity"] + width)
        rate[server] = 3 * width
    for leaf, key in enumerate(leaves):
        builder.link(key, free[leaf], spine, leaf + 1, topo.LinkSpeed(4, "HDR"))

    def full(one: Iterable[int], other: Iterable[int]) -> bool:
        halves = graph.copy()
        for server in one:
            halves.add_edge("one", (server, "sends"), capacity=rate[server])
        for server in other:
            halves.add_edge((server, "gets"), "other", capacity=rate[server])
        return nx.maximum_flow_value(halves, "one", "other") == min(sum(map(rate.get, half)) for half in (one, other))

    spines = Failed(switches={0: (spine,)})
    fabric = builder.build()
    loss = lose(Reach([fabric]), spines)
    if len({*fabric.end_switch[fabric.ends()].tolist()}) == 1:  # nobody is elsewhere
        assert loss.bandwidth == 0.0
        return
    assert loss.bandwidth == 1.0 and (", none to one another" in str(loss)) != loss.between_servers
    if not loss.between_servers:
        assert all(full(one, rate.keys() - {*one}) for n in range(1, len(rate)) for one in combinations(rate, n))
    elif len({*rate.values()}) == 1:
        assert not all(full([a], [b]) for a, b in combinations(rate, 2))


@examples(12)
@given(st.randoms(use_true_random=False), st.integers(1, 3), st.booleans())
def test_a_network_for_management_connects_those_alone_that_have_no_other(random, heads: int, both: bool) -> None:
    """Appliances with a port in the fabric and one for management lose no pair of servers with a leaf of the latter."""
    mgmt = {"network": {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C", "leaves": 2},
            "adapters": {"gpu": 1, "head": 1, "store": 1}, "adapter": "BMC-1GE"}  # fmt: skip
    storage = {"network": {"shape": "fat-tree", "switch": "QM9700", "leaves": 2, "spines": 2},
               "adapters": {"gpu": 2, "store": 2}}  # fmt: skip
    models = {"gpu": ("dgx-h100", 8), "head": ("management-ndr", heads), "store": ("storage-ndr", 3)}
    spec = {
        "name": "x",
        "nodes": {name: {"model": model, "count": count} for name, (model, count) in models.items()},
        "network": {"shape": "rail", "unit_nodes": 16, "tree": {"switch": "QM9700", "spines": 2, "parallel": 4}},
        "networks": {"mgmt": mgmt, "storage": storage},
    } | ({"adapters": {"head": 2}} if both else {})
    cluster = topo.parse(spec)
    reach, whole = Reach(cluster.fabrics), connected(cluster.fabrics, Failed())
    servers = 8 + heads + 3
    never = heads * 3 if both else 0  # a head in the fabric and a store have a network for management in common alone
    assert reach.whole.pairs == len(whole) == servers * (servers - 1) // 2 - never
    for subnet, fabric in enumerate(cluster.fabrics):
        node = random.randrange(fabric.n_switches)
        failed = Failed(switches={subnet: (node,)})
        loss, left = lose(reach, failed), connected(cluster.fabrics, failed)
        assert loss.pairs == len(whole) - len(left)
        assert named(loss) == {pair for pair in whole - left if not pair & {*topo.expand(loss.cut)}}
        assert both <= loss.survived


def test_a_core_takes_its_share_of_what_pods_send_to_one_another() -> None:
    """80 cores of 160 spines with 20 uplinks: a spine has a link to each of 20 cores, a pod 20 spines."""
    network = {"shape": "fat-tree", "switch": "QM8700", "levels": 3}
    cluster = topo.parse({"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": 3200}}, "network": network})
    core = next(loss for loss in find_losses(cluster.fabrics, cluster.catalog).worst if loss.kind == "core")
    cores = sum(cluster.fabrics[0].role == Role.CORE)
    assert core.bandwidth == pytest.approx(1 / cores) and core.alike == cores
    assert f"servers in a pod lose {topo.percent(1 / cores)} of their bandwidth to other pods" in str(core)


@pytest.mark.slow
def test_a_border_leaf_that_is_not_the_worst_leaf_has_a_row() -> None:
    """Fire-Flyer 2: a leaf that cuts off servers and one on which all joints hang are both rows."""
    spec = topo.preset("fire-flyer-2").spec.model_dump(mode="json", exclude_unset=True)
    del spec["floor"]
    cluster = topo.parse(spec)
    reach = Reach(cluster.fabrics)
    each = [lose(reach, Failed(switches={0: (int(node),)})) for node in np.flatnonzero(cluster.fabrics[0].role == 4)]
    rows = [loss for loss in find_losses(cluster.fabrics, cluster.catalog).worst if loss.kind == "leaf"]
    for figure in ("servers", "zones", "bandwidth", "off"):
        assert max(getattr(row, figure) for row in rows) == max(getattr(loss, figure) for loss in each)


def check_racks(cluster: Cluster) -> None:
    assert cluster.layout is not None
    reach = Reach(cluster.fabrics)
    parts = list_parts("rack", reach, catalog=cluster.catalog, layout=cluster.layout)
    each = [lose(reach, failed, "rack", name) for name, failed in parts.items()]
    rows = [loss for loss in find_losses(cluster.fabrics, cluster.catalog, cluster.layout).worst if loss.kind == "rack"]
    assert max(row.weight for row in rows) == max(loss.weight for loss in each)
    for figure in ("servers", "bandwidth"):
        assert max(getattr(row, figure) for row in rows) == max(getattr(loss, figure) for loss in each)
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert f"{row.of:,})" in str(row) and row.of == len(parts)
        assert 1 <= row.alike <= sum(loss.weight == row.weight for loss in each)
