import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import Bill, bill, make_bill
from costmodel.owning import quote
from costmodel.parts import Line
from helpers.clusters import CATALOG, zoned
from helpers.strategies import examples
from topo.amounts import Range, Verdict
from topo.catalog.load import Catalog
from topo.cluster_spec import ClusterBudget


def test_fire_flyer_2(catalog: Catalog) -> None:
    power = make_bill([zoned()], catalog).power
    # 250 W a switch without optics, and 4.5 W for each end of an optical cable in it: two of a cable between switches.
    network, servers = 122 * 250 + 4.5 * (2 * 1_640 + 1_560), 1_200 * 2_500 + 180 * 700
    assert [each.middle for each in (power.network_w, power.servers_w, power.total_w)] == [
        network,
        servers,
        network + servers,
    ]
    # The maximum of a switch holds its optics, and servers of unknown maximum draw at least what they do typically.
    assert power.planned_w.known == Range(122 * 490 + servers, 122 * 490 + servers)
    assert power.planned_w.missing == power.by_typical
    assert power.by_typical == ("1,200 x pcie-a100 (node)", "180 x storage-3fs (node)")
    assert power.gaps == tuple(f"{part}: maximum power unknown" for part in power.by_typical)


@pytest.mark.parametrize("models", [(), ("dgx-a100",), ("pcie-a100",), ("dgx-a100", "pcie-a100", "storage-3fs")])
def test_the_basis_of_planned_power_names_what_counts_its_typical_power(models: tuple[str, ...]) -> None:
    power = Bill(tuple(Line("node", model, 2, "compute") for model in models), CATALOG).power
    nodes = [CATALOG.node(model) for model in models]
    named = [one.name for one in nodes if one.power_max_w is None and one.power_typical_w is not None]
    assert power.basis.startswith("at maximum power")
    assert (power.basis == "at maximum power") == (not named)
    assert all((f"2 x {model} (node" in power.basis) == (model in named) for model in models)


@pytest.mark.parametrize(("part", "watts"), [("MCP1650-H002E26", 0.2), ("MFS1S00-H030V", 9.0)])
def test_a_known_cable_draws_what_its_ends_draw(part: str, watts: float, catalog: Catalog) -> None:
    between = Line("cable", part, 10, "leaf - spine", ("SB7800", "SB7800"))
    power = Bill((between, Line("cable", part, 10, "compute - leaf", ("SB7800",))), catalog).power
    assert power.network_w.middle == pytest.approx(10 * watts + 10 * watts / 2)
    assert power.planned_w.middle == power.network_w.middle  # in a switch without a known maximum that would hold it
    assert all(row.source for row in power.lines)


@pytest.mark.parametrize(("part", "watts"), [("MMA4Z00-NS", 15.0), ("CAT6-1M", 0.0)])
def test_the_mean_counts_the_maximum_of_a_transceiver_and_says_so(part: str, watts: float, catalog: Catalog) -> None:
    """Its one figure is what it draws at most; in a switch whose maximum is unknown it adds that to both."""
    power = Bill((Line("optic", part, 10, "leaf", ("SB7800",)),), catalog).power
    assert [power.of(most=most).bounds for most in (False, True)] == [[10 * watts] * 2] * 2
    assert power.optics_note == ("cable ends in switches at their maximum" if watts else "")


def test_what_is_unknown_is_named(catalog: Catalog) -> None:
    power = Bill((Line("switch", "nobody", 3, "leaf"), Line("node", "unknown", 1, "compute")), catalog).power
    assert (power.total_w.known, power.planned_w.known) == (None, None)
    assert str(power.total_w) == "unknown"
    assert power.gaps == ("3 x nobody (switch): power unknown", "1 x unknown (node): power unknown")
    assert power.to_dict()["total_w"] is None
    assert set(power.to_dict()["at_least"]) == set(power.to_dict()["ranges"])


def test_the_most_holds_the_optics_of_a_switch_once(catalog: Catalog) -> None:
    lines = (
        Line("switch", "QM8700", 2, "leaf"),
        Line("node", "dgx-a100", 3, "compute"),
        Line("cable", "4xHDR", 9, "compute - leaf", ("QM8700",)),
    )
    assert Bill(lines, catalog).power.planned_w.middle == 2 * 490 + 3 * 6_500


MODELS = ["pcie-a100", "dgx-a100", "dgx-b200", "storage-3fs", "nobody"]


@given(
    parts=st.lists(st.tuples(st.sampled_from(MODELS), st.integers(1, 200)), max_size=5),
    limit=st.floats(1.0, 1e7),
    more=st.floats(0.0, 1e7),
    unknown=st.integers(1, 9),
)
def test_a_budget_is_monotone(
    catalog: Catalog, parts: list[tuple[str, int]], limit: float, more: float, unknown: int
) -> None:
    """A larger budget holds what a smaller one holds, and a part of unknown power never makes a budget hold."""
    lines = tuple(Line("node", item, count, "compute") for item, count in parts)
    verdict = Bill(lines, catalog).power.planned_w.against(limit)
    assert RANK[Bill(lines, catalog).power.planned_w.against(limit + more)] >= RANK[verdict]
    doubtful = Bill((*lines, Line("node", "a box", unknown, "compute")), catalog).power.planned_w.against(limit)
    assert doubtful == (Verdict.EXCEEDED if verdict is Verdict.EXCEEDED else Verdict.CANNOT_TELL)


RANK = {Verdict.EXCEEDED: 0, Verdict.CANNOT_TELL: 1, Verdict.HOLDS: 2}


MIXED = """
name: mixed
nodes:
  gpu: {{model: hgx-h100, count: {gpus}}}
  store: {{model: storage-ndr, count: {stores}}}
network: {{shape: fat-tree, switch: QM9790}}
networks:
  storage:
    network: {{shape: fat-tree, switch: QM9700, spine_switch: {spine}, leaves: 2, spines: 1}}
    adapters: {{gpu: 1, store: 2}}
  in-band:
    network: {{shape: fat-tree, switch: {ethernet}}}
    adapters: {{gpu: 1, store: 1}}
floor: {{rack_units: 48}}
"""


def recounted(cluster: topo.Cluster) -> tuple[float, bool]:
    """Least maximum power of all devices and of each plugged end, and whether it is the whole: device by device."""
    catalog, watts, whole, seen = cluster.catalog, 0.0, True, set()
    for fabric, cabling in zip(cluster.fabrics, cluster.cablings, strict=True):
        for node in range(fabric.n_nodes):
            if node < fabric.n_switches:
                switch = catalog.switch(fabric.model_of(node))
                ports = [port for port in fabric.ports_of(node) if fabric.peer[port] >= 0]
                watts += switch.power_max_w or switch.power_typical_w or 0.0
                whole &= switch.power_max_w is not None
                if switch.power_max_w is not None:
                    continue
                for port in ports:
                    link = int(np.flatnonzero((fabric.links == port).any(axis=1))[0])
                    fibre = cabling.optic[port] >= 0
                    plug = ("cage", int(cabling.cage[port])) if fibre else ("cable", int(cabling.cable[link]), node)
                    part = cabling.optic_of(port) if fibre else cabling.parts[cabling.part[link]].item
                    if plug not in seen:
                        seen.add(plug)
                        watts += catalog.cables[part].power_end_w or 0.0
                        whole &= catalog.cables[part].power_end_w is not None
            elif fabric.server_of(node) not in seen:
                seen.add(fabric.server_of(node))
                server = catalog.node(fabric.server_model_of(node))
                watts += server.power_max_w or server.power_typical_w or 0.0
                whole &= server.power_max_w is not None
    return watts, whole


@examples(12)
@given(
    gpus=st.integers(1, 20),
    stores=st.integers(1, 9),
    spine=st.sampled_from(["QM9700", "QM9790"]),
    ethernet=st.sampled_from(["SN5600", "SN2201"]),
    unknown=st.sets(st.sampled_from(["QM9700", "QM9790", "hgx-h100", "storage-ndr"])),
    typical=st.booleans(),
)
def test_a_limit_of_power_holds_only_where_every_maximum_is_known(
    gpus: int, stores: int, spine: str, ethernet: str, unknown: set[str], typical: bool
) -> None:
    """Each optic counts once: in the maximum of its switch where that is known, else by itself."""

    def known(model):
        power = {
            "power_max_w": None if model.name in unknown else 1_000.0,
            "power_typical_w": 300.0 if typical else None,
        }
        return replace(model, **power)

    switches = {name: known(model) for name, model in CATALOG.switches.items()}
    nodes = {name: known(model) for name, model in CATALOG.nodes.items()}
    catalog = replace(CATALOG, switches=MappingProxyType(switches), nodes=MappingProxyType(nodes))
    text = MIXED.format(gpus=gpus, stores=stores, spine=spine, ethernet=ethernet)
    if ethernet == "SN2201":
        text = text.replace("adapters: {gpu: 1, store: 1}", "adapters: {gpu: 1, store: 1}\n    adapter: BMC-1GE")
    cluster = replace(topo.parse(text), catalog=catalog)
    planned = bill(cluster).power.planned_w
    watts, whole = recounted(cluster)
    assert (planned.known.high if planned.known else 0.0) == pytest.approx(watts)
    assert (not planned.missing) == whole
    roomy = replace(
        cluster, spec=cluster.spec.model_copy(update={"budget": ClusterBudget(power=f"{watts + 1.0:.3f} W")})
    )
    assert quote(roomy).checks[0].verdict is (Verdict.HOLDS if whole else Verdict.CANNOT_TELL)
    tight = replace(
        cluster, spec=cluster.spec.model_copy(update={"budget": ClusterBudget(power=f"{watts - 1.0:.3f} W")})
    )
    assert quote(tight).checks[0].verdict is (Verdict.EXCEEDED if watts else Verdict.CANNOT_TELL)


def test_typical_power_has_a_limit_of_its_own() -> None:
    """A mean is held against a mean; a part that is known by its maximum only is bounded by it."""
    cluster = topo.preset("lab-20")  # 16 x 2,500 W + 2 x 700 W, the network, and 2 servers of at most 800 W
    for limit, verdict in ((44_460, Verdict.HOLDS), (43_000, Verdict.CANNOT_TELL), (42_800, Verdict.EXCEEDED)):
        budget = ClusterBudget(typical_power=f"{limit} W")
        (check,) = quote(replace(cluster, spec=cluster.spec.model_copy(update={"budget": budget}))).checks
        assert (check.what, check.verdict) == ("typical_power", verdict)


def test_the_page_on_ethernet_has_the_power_of_the_switches_that_it_counts(repository: Path) -> None:
    page = (repository / "docs" / "ethernet.md").read_text(encoding="utf-8")
    number = r"[^|\d]*([\d,.]+)[^|]*\|"
    rows = {name: re.search(rf"^\| {name} \|{number}{number}$", page, re.MULTILINE).groups()
            for name in ("switches", "network, typical power")}  # fmt: skip
    watts = topo.load_catalog().switch("SN5600").power_typical_w
    for switches, power_kw in zip(*rows.values(), strict=True):
        assert float(power_kw.replace(",", "")) == round(int(switches.replace(",", "")) * watts / 1000, 1)
