"""Latencies of hops: a cable and the switch behind it, and nothing that is not known."""

from dataclasses import replace

import numpy as np
import pytest

from routing.engines.base import route
from simulate import Network, play
from simulate.traffic.flows import Flows
from topo import hop_latencies, load_catalog
from topo.cluster import preset
from topo.errors import HeddleError
from topo.fabric import Fabric


@pytest.fixture(scope="module")
def lab() -> Fabric:
    fabric = preset("lab-20").fabric
    length = np.random.default_rng(0).integers(1, 30, fabric.n_ports).astype(float)
    length = np.minimum(length, np.where(fabric.peer >= 0, length[fabric.peer], np.inf))  # both ends of a cable
    return replace(fabric, length_m=np.where(fabric.peer >= 0, length, np.nan))


def test_a_message_waits_for_the_cables_and_switches_on_its_way(lab: Fabric) -> None:
    times, routed = hop_latencies(lab, load_catalog()), route(lab)
    network = Network.of(routed, hop_latency_s=times)
    src, dst = lab.ends(role="compute")[[0, -1]]
    flows = Flows.of(src, dst, 0)
    crossed = network.routes(flows.src, flows.dst, flows.sl).resource
    switches = len(crossed) - 1
    expected = 4.9e-9 * lab.length_m[crossed].sum() + 90e-9 * switches
    for engine in ("fluid", "packets"):
        assert play(network, flows, engine=engine).makespan_s == pytest.approx(expected, rel=2e-3)


def test_what_is_not_known_is_asked_for(lab: Fabric) -> None:
    catalog = load_catalog()
    with pytest.raises(HeddleError, match=r"no length of 62 cables.*--hop-latency-ns"):
        hop_latencies(replace(lab, length_m=np.zeros(0)), catalog)
    unknown = replace(lab, models=tuple(name.replace("QM8700", "QM9700") for name in lab.models))
    with pytest.raises(HeddleError, match=r"no latency_ns of its switches \(QM9700\)"):
        hop_latencies(unknown, catalog)
