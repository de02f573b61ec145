"""Device ids by chip, whatever the speed of links; latencies of hops: a cable and the switch behind it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.engines.base import route
from simulate import Network, play
from simulate.traffic.flows import Flows
from topo import hop_latencies, load_catalog
from topo.builder import FabricBuilder
from topo.catalog.devices import DEVICE_IDS, device_id
from topo.cluster import preset
from topo.dumps.ibnetdiscover import format_ibnetdiscover, parse_ibnetdiscover
from topo.fabric import Fabric, Role
from topo.speeds import SPEEDS, LinkSpeed


@pytest.fixture(scope="module")
def lab() -> Fabric:
    fabric = preset("lab-20").fabric
    length = np.random.default_rng(0).integers(1, 30, fabric.n_ports).astype(float)
    length = np.minimum(length, np.where(fabric.peer >= 0, length[fabric.peer], np.inf))  # both ends of a cable
    return replace(fabric, length_m=np.where(fabric.peer >= 0, length, np.nan))


def test_a_message_waits_for_the_cables_and_switches_on_its_way(lab: Fabric) -> None:
    routed = route(lab)
    network = Network.of(routed, latency_s=1e-6)
    src, dst = lab.ends(role="compute")[[0, -1]]
    flows = Flows.of(src, dst, 0)
    crossed = network.routes(flows.src, flows.dst, flows.sl).resource
    switches = len(crossed) - 1
    expected = 1e-6 + 4.9e-9 * lab.length_m[crossed].sum() + 90e-9 * switches
    for engine in ("fluid", "packets"):
        assert play(network, flows, engine=engine).makespan_s == pytest.approx(expected, rel=2e-3)


def test_what_is_not_known_is_assumed_and_said(lab: Fabric) -> None:
    catalog, plugged = load_catalog(), lab.peer >= 0
    known, bare = hop_latencies(lab, catalog), hop_latencies(replace(lab, length_m=np.zeros(0)), catalog)
    unknown = replace(lab, models=tuple(name.replace("QM8700", "QM9700") for name in lab.models))
    other = hop_latencies(unknown, catalog)
    into_switch = (lab.peer_node >= 0) & (lab.peer_node < lab.n_switches)
    assert known.assumed == ()
    assert bare.assumed == ("10 m for each of 62 cables of unknown length",)
    assert (known.time_s - bare.time_s)[plugged] == pytest.approx(4.9e-9 * (lab.length_m[plugged] - 10))
    assert other.assumed == ("400 ns for switches without a latency in the catalog (QM9700)",)
    assert other.time_s - known.time_s == pytest.approx(np.where(into_switch, 310e-9, 0.0))
    assert all(np.all(found.time_s[plugged] > 0) for found in (known, bare, other)), "never zero"


CATALOG = load_catalog()
CHIPPED = [name for name, model in CATALOG.switches.items() if model.chip in DEVICE_IDS]
SPEED = st.sampled_from([name for name in SPEEDS if name != "GE"])


@given(st.lists(st.tuples(st.sampled_from(CHIPPED), SPEED), min_size=1, max_size=6))
def test_the_chip_decides_the_device_id_whatever_is_plugged_in(switches: list[tuple[str, str]]) -> None:
    builder = FabricBuilder("mixed")
    for number, (model, speed) in enumerate(switches):
        switch = builder.switch(f"sw{number}", model=model, radix=8, role=Role.LEAF, level=1)
        for port, generation in enumerate((speed, "SDR"), 1):
            adapter = builder.adapter(
                f"gpu{number}", f"mlx5_{port}", model="BMC-1GE", host_model="pcie-a100", role=Role.COMPUTE
            )
            builder.link(adapter, 1, switch, port, LinkSpeed(4, generation))
    fabric = builder.build()
    chips = [CATALOG.switches[model].chip or "" for model, _ in switches]
    assert [device_id(fabric, node) for node in range(len(switches))] == [DEVICE_IDS[chip] for chip in chips]
    read = parse_ibnetdiscover(format_ibnetdiscover(fabric)).fabric
    assert [read.models[model] for model in read.model[: len(switches)]] == chips


def test_a_switch_that_says_its_model_has_the_chip_of_that() -> None:
    builder = FabricBuilder("dump")
    for name in ("MQM9700", "Quantum-2", "unheard-of"):
        builder.switch(name, model=name, radix=8, role=Role.LEAF, level=1)
    fabric = builder.build()
    assert [device_id(fabric, node) for node in range(3)] == [
        DEVICE_IDS[c] for c in ("Quantum-2", "Quantum-2", "InfiniScale-IV")
    ]
    own = replace(CATALOG, switches={"unheard-of": replace(CATALOG.switches["QM9700"], name="unheard-of")})
    assert device_id(fabric, 2, own) == DEVICE_IDS["Quantum-2"]
