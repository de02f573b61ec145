"""Packets on hashed paths: pauses, DCQCN beside a plain one, queue pairs and spraying beside fluid flows."""

from dataclasses import dataclass, replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.packets import SLOT_S, line, network, steady
from helpers.random_fabrics import draw
from helpers.strategies import examples
from routing.hashed import SPRAY, Hashed
from routing.machine_code import Kernel, _interpreter
from simulate import Flows, Network, PacketModel, Packets, play
from simulate.engines import CongestionControl, Dcqcn, DeadlockError
from simulate.engines.packets.control import on_ack, on_send
from simulate.engines.packets.state import FLOW
from topo.builder import FabricBuilder
from topo.cluster import preset
from topo.errors import HeddleError
from topo.fabric import Role
from topo.speeds import LinkSpeed

NONE = CongestionControl(mark_at=0)
PLAIN = PacketModel(control=NONE)


def interpreted(kernel: Kernel, *given: object) -> None:
    """Call what only kernels call."""
    _interpreter.run(kernel.py_func, kernel.readable(given))


def hashed(fabric, queue_pairs: int = 1, hop_s: float = 0.5e-6, seed: int = 0) -> Network:
    return Network.of(Hashed(fabric, queue_pairs, seed), latency_s=0, hop_latency_s=hop_s)


def pairs_of(fabric, seed: int, n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of end ports that something connects."""
    graph = nx.MultiGraph(zip(fabric.port_node.tolist(), fabric.peer_node.tolist(), strict=True))
    rng, ends = np.random.default_rng(seed), fabric.ends(role="compute")
    ends = ends[fabric.end_switch[ends] >= 0]
    src, dst = rng.choice(ends, (2, n))
    near, far = fabric.end_switch[src], fabric.end_switch[dst]
    keep = [nx.has_path(graph, int(a), int(b)) for a, b in zip(near, far, strict=True)]
    return src[keep], dst[keep]


@pytest.mark.slow
@examples(30)
@given(seed=st.integers(0, 400), queue_pairs=st.integers(1, 5))
def test_packets_take_the_paths_of_fluid_flows(seed: int, queue_pairs: int) -> None:
    """To the byte, where each queue pair gets as many packets: what every cable carries is decided by hashes alone."""
    fabric = draw(seed)
    src, dst = pairs_of(fabric, seed)
    on, flows = hashed(fabric, queue_pairs, seed=seed), Flows.of(src, dst, 3 * queue_pairs * 4096)
    model = replace(PLAIN, buffer_bytes=1 << 26)  # what has no room in a circle would stand
    expected = pytest.approx(play(on, flows).resource_bytes, rel=1e-12)  # a fifth of a message, five times
    assert play(on, flows, engine=model).resource_bytes == expected
    engine = Packets(on, model)
    engine.begin_all(flows)
    while engine.advance():
        pass
    assert engine.loads() == expected, "step by step too"


@examples(40)
@given(seed=st.integers(0, 400))
def test_next_hops_are_all_neighbours_that_are_nearer(seed: int) -> None:
    fabric = draw(seed)
    groups, inner = Hashed(fabric).next_hops(), set(fabric.inner.tolist())
    graph = nx.MultiGraph()
    graph.add_nodes_from(range(fabric.n_switches))
    graph.add_edges_from((int(fabric.port_node[p]), int(fabric.peer_node[p])) for p in inner)
    for end in fabric.ends()[::7]:
        home = int(fabric.end_switch[end])
        if home < 0:
            assert groups.row[end] < 0
            continue
        hops = nx.single_source_shortest_path_length(graph, home)
        for switch in range(fabric.n_switches):
            far = hops.get(switch, np.inf)
            nearer = [
                p for p in fabric.ports_of(switch) if p in inner and hops.get(int(fabric.peer_node[p]), far) < far
            ]
            group = groups.group[groups.row[end], switch]
            found = [] if group < 0 else groups.port[groups.offset[group] : groups.offset[group + 1]].tolist()
            assert sorted(found) == sorted(nearer)


@pytest.mark.slow
def test_spraying_loads_equal_links_equally_and_the_least_loaded_are_more_equal() -> None:
    fabric = preset("lab-20").fabric
    hosts = fabric.ends(role="compute")
    far = np.roll(hosts, len(hosts) // 2)
    on, flows = hashed(fabric, SPRAY), Flows.of(hosts, far, 400 * 4096)
    up = (fabric.role[fabric.port_node] == Role.LEAF) & (fabric.role[fabric.peer_node] == Role.SPINE)
    spread = {}
    for adaptive in (False, True):
        outcome = play(on, flows, engine=replace(PLAIN, adaptive=adaptive))
        packets = outcome.resource_bytes[: fabric.n_ports][up & (outcome.resource_bytes[: fabric.n_ports] > 0)] / 4096
        mean = play(on, flows).resource_bytes[: fabric.n_ports][up].max() / 4096
        assert packets.mean() == pytest.approx(mean, rel=0.05)
        spread[adaptive] = packets.std() / np.sqrt(mean)
        assert outcome.makespan_s < 1.2 * play(on, flows).makespan_s
    assert spread[False] < 1.3, "at random: as spread as balls in bins"
    assert spread[True] < spread[False] / 2


@pytest.mark.parametrize("inputs", ["voq", "fifo"])
def test_pauses_alone_starve_those_who_come_from_afar_and_the_victim(inputs: str) -> None:
    """Ports share evenly, whoever stands behind them: the trunk gets a third, and all four flows on it a part of that.

    The victim's receiver is idle (the parking lot and the victim of the DCQCN paper, section 2.2).
    """
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], 1e9)
    rates = steady(hashed(line(4, 4)), replace(PLAIN, inputs=inputs), flows, 24_000)
    third, trunk = rates[4:], rates[:4]
    assert trunk == pytest.approx(np.full(4, trunk[0]), rel=0.02)
    if inputs == "voq":
        assert third == pytest.approx([1 / 3] * 2, rel=0.01)
        assert trunk == pytest.approx([1 / 9] * 4, rel=0.02)
    assert trunk[3] < 1 / 8


def test_dcqcn_gives_fair_shares_and_frees_the_victim() -> None:
    """In the paper's figure too: flows of one bottleneck have one rate, and what crosses no full link is not held."""
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], 1e10)
    on = hashed(line(4, 4))
    rates, engine = steady(on, PacketModel(), flows, 120_000), Packets(on)
    hot = rates[[0, 1, 2, 4, 5]]
    assert hot.sum() > 0.9
    assert hot == pytest.approx(np.full(5, 0.2), rel=0.25)
    assert rates[3] > 2 * steady(on, PLAIN, flows, 24_000)[3]
    engine.begin_all(flows)
    engine.advance(0.01)
    assert engine.congestion().marked > 0


@dataclass
class Sender:
    """A reaction point as in figures 6 and 7 of the paper, with its timers run tick by tick; rates in parts."""

    control: Dcqcn
    rate: float = 1.0
    target: float = 1.0
    alpha: float = 1.0
    steps: int = 0
    byte_steps: int = 0
    sent: int = 0
    alpha_clock: int = 0
    clock: int = 0
    since: int = 10**9

    def tick(self) -> None:
        self.alpha_clock, self.clock, self.since = self.alpha_clock + 1, self.clock + 1, self.since + 1
        if self.alpha_clock == 55:
            first = self.since > 10**8  # no rate is limited before the first notification
            self.alpha, self.alpha_clock = self.alpha if first else (1 - self.control.gain) * self.alpha, 0
        if self.clock == 55:
            self.steps, self.clock = self.steps + 1, 0
            self.rise()

    def send(self, size: int) -> None:
        self.sent += size
        if self.sent >= self.control.raise_bytes:
            self.byte_steps, self.sent = self.byte_steps + 1, self.sent - self.control.raise_bytes
            self.rise()

    def rise(self) -> None:
        most, least = max(self.steps, self.byte_steps), min(self.steps, self.byte_steps)
        if least > self.control.fast:
            self.target = min(1.0, self.target + self.control.much_more)
        elif most >= self.control.fast:
            self.target = min(1.0, self.target + self.control.more)
        self.rate = (self.rate + self.target) / 2

    def notice(self) -> None:
        if self.since >= 50:
            self.target, self.rate = self.rate, max(self.control.least, self.rate * (1 - self.alpha / 2))
            self.alpha = (1 - self.control.gain) * self.alpha + self.control.gain
            self.steps = self.byte_steps = self.sent = self.alpha_clock = self.clock = self.since = 0


@pytest.mark.parametrize("seed", range(6))
def test_the_rate_of_a_flow_is_that_of_a_plain_reaction_point(seed: int) -> None:
    """A microsecond a tick; acknowledgements with and without marks, and packets, at random ticks."""
    rng = np.random.default_rng(seed)
    control = Dcqcn(raise_bytes=int(rng.choice([20_000, 10_000_000])), fast=int(rng.integers(1, 6)))
    rules, flows, plain = control.rules(1e-6), np.zeros(1, FLOW), Sender(control)
    for tick in range(1, 4000):
        plain.tick()
        if rng.random() < (0.02 if tick % 1000 < 200 else 0.0002):
            interpreted(on_ack, rules, flows, 0, True, tick)
            plain.notice()
        elif rng.random() < 0.1:
            interpreted(on_ack, rules, flows, 0, False, tick)
        if flows["rate"][0] > 0:
            plain.send(4096)
        interpreted(on_send, rules, flows, 0, tick, 1000, 4096)
        if flows["rate"][0] > 0:
            assert flows["rate"][0] == pytest.approx(plain.rate, rel=1e-9)
            assert flows["target"][0] == pytest.approx(plain.target, rel=1e-9)
            assert flows["allowed"][0] - tick == int(np.ceil(1000 / flows["rate"][0]))
        elif flows["alpha"][0] > 0:
            assert plain.rate > 0.999, "as good as the whole link"
            plain.rate = plain.target = 1.0


def test_pauses_and_resumes_are_counted() -> None:
    """Two senders and one port: each buffer fills once, then sends two packets for every two that leave it."""
    model, sent = replace(PLAIN, buffer_bytes=10 * 4096), 200
    on = hashed(line(3), hop_s=0.01 * SLOT_S)
    outcome = play(on, Flows.of([1, 2], [3, 3], sent * 4096), engine=model)
    assert outcome.makespan_s == pytest.approx(2 * sent * SLOT_S, rel=0.01), "the port never idles"
    pauses = outcome.congestion.pauses[0]
    adapters = on.fabric.first_adapter_port + np.arange(3)
    # A buffer of 10 fills at half the rate of its link, when 20 packets are sent; then it takes two each time.
    assert pauses[adapters[:2]] == pytest.approx((sent - 20) / 2 + 2, abs=1)
    assert pauses.sum() == pauses[adapters[:2]].sum()
    assert not play(on, Flows.of([1, 2], [2, 3], sent * 4096), engine=model).congestion.pauses.any()


def test_a_ring_of_switches_deadlocks_by_pauses_and_the_circle_is_named() -> None:
    n = 5
    builder = FabricBuilder("ring")
    for number in range(n):
        builder.switch(f"switch{number}", model="switch", radix=4, role=Role.SWITCH, level=1)
    for number in range(n):
        for port in (1, 4):
            adapter = builder.adapter(f"{number}-{port}", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
            builder.link(number, port, adapter, 1, LinkSpeed(4, "HDR"))
        builder.link(number, 2, (number + 1) % n, 3, LinkSpeed(4, "HDR"))
    fabric = builder.build()
    hosts = fabric.ends()
    with pytest.raises(DeadlockError, match="5 full buffers wait for each other") as caught:
        play(hashed(fabric), Flows.of(hosts, np.roll(hosts, -4), 1e8), engine=PLAIN)
    assert len(caught.value.deadlock.channel) == n


def test_what_packets_cannot_play_on_hashes_is_refused() -> None:
    fabric = preset("lab-20").fabric
    for tables, model, said in (
        (Hashed(fabric, 4), PacketModel(adaptive=True), "expected spraying"),
        (Hashed(fabric, 4, bond=2), PacketModel(), "one queue pair a connection"),
    ):
        with pytest.raises(HeddleError, match=said):
            play(Network.of(tables), Flows.of([], [], 1), engine=model)
    for wrong in (
        {"all_s": 1e-9},
        {"likely": 2.0},
        {"gain": -1.0},
        {"least": 0.0},
        {"notice_s": 0.0},
        {"raise_bytes": 0},
    ):
        with pytest.raises(HeddleError, match=f"found {next(iter(wrong))}"):
            Dcqcn(**wrong)


def test_infiniband_has_credits_and_no_control() -> None:
    on = network(line(3))
    assert PacketModel().on(on).label == PacketModel().label
    assert "DCQCN" in PacketModel().on(hashed(line(3))).label
