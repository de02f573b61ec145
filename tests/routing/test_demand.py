"""Tables for a demand: never worse under it, as complete and as safe as before, no path longer; on random fabrics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import examples, fabrics, ring
from helpers.trees import damage, grow_tree
from helpers.walks import plain_walk
from routing.demand import Demand, fit_traffic
from routing.engines.base import route
from routing.proof import check_certificate, prove
from routing.routed import Routed
from routing.tables import select_endpoints
from topo.errors import FormatError, RoutingError
from topo.fabric import Fabric


def random_demand(fabric: Fabric, routed: Routed, rng: np.random.Generator, pairs: int) -> Demand:
    ends = select_endpoints(fabric, routed.tables, "adapters")
    source, destination = rng.choice(ends, (2, pairs))
    kept = source != destination
    return Demand(source[kept], destination[kept], rng.integers(1, 100, pairs)[kept].astype(float))


def plain_load(routed: Routed, demand: Demand) -> np.ndarray:
    fabric, load = routed.fabric, np.zeros(routed.fabric.n_ports)
    rate = fabric.rate_gbps[fabric.inner].max(initial=1)
    for source, dest, weight in zip(*(part.tolist() for part in vars(demand).values()), strict=True):
        for channel in plain_walk(fabric, routed.tables, source, dest)[0] or ():
            if fabric.is_inner[channel]:
                load[channel] += weight * rate / fabric.rate_gbps[channel]
    return load


def said(fitted: Routed) -> tuple[float, ...]:
    """Return the loads of the fullest link that the tables speak of: after and before, one where nothing was gained."""
    figures = fitted.why.rpartition("fullest link under the demand ")[2].split(" instead of ")
    return tuple(float(figure.replace(",", "")) for figure in figures)


def check(routed: Routed, demand: Demand) -> tuple[float, float]:
    """Hold the laws; return the fullest link before and after."""
    fitted = fit_traffic(routed, demand)
    before, after = plain_load(routed, demand).max(initial=0), plain_load(fitted, demand).max(initial=0)
    assert after <= before
    assert said(fitted) == pytest.approx((before,) if fitted.tables is routed.tables else (after, before), rel=1e-3)
    old, new = prove(routed, "all"), prove(fitted, "all")
    assert (new.missing, new.credit_loops) == (old.missing, 0)
    assert check_certificate(fitted, new)
    assert new.stretch <= old.stretch
    length = (np.arange(len(old.hops)) * old.hops).sum(), (np.arange(len(new.hops)) * new.hops).sum()
    assert length[1] <= length[0], "no path gets longer"
    return before, after


@given(fabric=fabrics(max_switches=10, max_adapters=16), seed=st.integers(0, 2**32 - 1), pairs=st.integers(1, 60))
@examples(15)
def test_a_demand_is_never_worse_off_and_nothing_else_is_lost(fabric: Fabric, seed: int, pairs: int) -> None:
    routed = route(fabric, "balanced")
    if len(select_endpoints(fabric, routed.tables, "adapters")):
        check(routed, random_demand(fabric, routed, np.random.default_rng(seed), pairs))


def test_on_random_trees_a_demand_gains() -> None:
    gains = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        tree = damage(grow_tree((4, 6), (1, 4), (1, 1)), rng, 0.1)
        routed = route(tree, "balanced")
        before, after = check(routed, random_demand(tree, routed, rng, 60))
        gains.append(after < before)
    assert sum(gains) >= 10


def test_a_permutation_that_collides_is_spread_over_all_spines() -> None:
    tree = grow_tree((4, 8), (1, 4), (1, 1))
    routed = route(tree, "fat-tree")
    hosts = tree.ends().reshape(8, 4)
    # All hosts of a leaf send to hosts whose paths share an uplink.
    entries = routed.tables.lft[0, routed.tables.lid[hosts[1:].ravel()]]
    targets = hosts[1:].ravel()[entries == entries[0]][:4]
    demand = Demand(hosts[0], targets, np.ones(4))
    assert check(routed, demand) == (4, 1)


def test_endpoints_are_a_demand_of_all_to_all() -> None:
    rng = np.random.default_rng(5)
    tree = damage(grow_tree((4, 6), (1, 4), (1, 1)), rng, 0.15)
    routed = route(tree, "minhop")
    fitted = fit_traffic(routed, "hca")
    after, before = (prove(one).load[tree.inner].max() for one in (fitted, routed))
    assert after <= before
    assert said(fitted) == pytest.approx((before,) if fitted.tables is routed.tables else (after, before), rel=1e-3)


def test_tables_with_credit_loops_are_refused() -> None:
    case = ring()
    with pytest.raises(RoutingError, match="not free of credit loops on one lane"):
        fit_traffic(Routed(case.fabric, case.tables), "hca")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected src,dst,weight"),
        ("src,dst\n", "expected src,dst,weight"),
        ("src,dst,weight\n", "found no weight above 0"),
        ("src,dst,weight\n5,6\n", ":2: found 2 columns"),
        ("src,dst,weight\n5,nobody,1\n", ":2: found no end port 'nobody'"),
        ("src,dst,weight\n\n9,10,-1\n", ":3: found the weight '-1'"),
        ("src,dst,weight\n9,10,nan\n", ":2: found the weight 'nan'"),
        ("src,dst,weight\n9,10,much\n", ":2: could not convert"),
        ("src,dst,weight\n9,9,1\n", "found no weight above 0"),
        ('src,dst,weight\n"9,10,1\n', "unexpected end"),
        ("src,dst,weight\n9,\xff\xfe,1\n", "found no end port"),
    ],
)
def test_a_demand_that_cannot_be_is_refused_with_its_line(text: str, says: str, tmp_path) -> None:
    path = tmp_path / "demand.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError) as refused:
        Demand.read(path, route(grow_tree((2, 3), (1, 2), (1, 1))))
    assert says in str(refused.value)


def test_a_demand_that_is_no_text_or_no_file_is_refused(tmp_path) -> None:
    routed = route(grow_tree((2, 3), (1, 2), (1, 1)))
    (tmp_path / "raw").write_bytes(b"\xff\x00")
    for name in ("raw", "absent", "/dev/zero"):
        with pytest.raises(FormatError, match=name):
            Demand.read(tmp_path / name, routed)
