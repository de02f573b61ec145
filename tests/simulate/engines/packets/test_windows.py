"""Windows: they fill an idle path, whatever its latency, and leave room for others in the buffers of a hot one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.packets import RATE, SLOT_S, line, network
from helpers.presets import read_preset, routed, subnets
from helpers.strategies import nightly
from simulate import Flows, Network, PacketModel, play
from simulate.engines.packets import steps
from simulate.traffic import HFReduce


@pytest.mark.parametrize("hop_slots", [0.0, 0.1, 1.0, 3.4, 3.6, 7.3, 40.0])
@pytest.mark.parametrize("inputs", ["fifo", "voq"])
@pytest.mark.parametrize("credit_slots", [0.0, 2.5])
def test_one_message_fills_an_idle_path(hop_slots: float, inputs: str, credit_slots: float) -> None:
    """By default, whatever the latency: windows and buffers hold what is under way."""
    net, packets = network(line(2, 2), hop_s=hop_slots * SLOT_S), 2000
    model = PacketModel(inputs=inputs, credit_s=credit_slots * SLOT_S)
    took = play(net, Flows.of([2], [4], packets * 4096.0), engine=model).makespan_s
    assert took == pytest.approx((packets + 3 * hop_slots) * SLOT_S, rel=2e-3)


def test_a_packet_less_does_not() -> None:
    """The formula is no looser than it says: less one for what leaves meanwhile, and one for rounding."""
    net = network(line(2, 2), hop_s=7.3 * SLOT_S)
    full = int(np.ceil(2 * 3 * 7.3 + 1))
    for window, fills in ((full, True), (full - 2, False)):
        model = PacketModel(window_packets=window, buffer_bytes=128 * 4096)
        took = play(net, Flows.of([2], [4], 2000 * 4096.0), engine=model).makespan_s
        assert (took < 2000 * SLOT_S * 1.02) == fills


def test_a_place_less_in_a_buffer_does_not_fill_a_link() -> None:
    """The formula is no looser than it says: 2 x 3.3 + 1 packets, of which a part counts as one."""
    net = network(line(2, 2), hop_s=3.3 * SLOT_S)
    for places, fills in ((8, True), (7, False)):
        model = PacketModel(window_packets=0, buffer_bytes=places * 4096)
        took = play(net, Flows.of([2], [4], 2000 * 4096.0), engine=model).makespan_s
        assert (took < 2000 * SLOT_S * 1.02) == fills


@pytest.mark.parametrize("name", ["dgx-h100-48", "fire-flyer-2"])
@pytest.mark.slow
def test_links_of_the_catalog_are_full_by_default(name: str) -> None:
    """At 400 Gb/s 32 KiB are 655 ns, and a switch whose latency is unknown takes 449 ns there and back each."""
    fabric = subnets(name)[0]
    ends = fabric.ends(role="compute")
    flows = Flows.of(ends[:1], ends[-1:], 1e8)
    net = Network.of(routed(fabric))
    fluid, packets = (play(net, flows, engine=engine).makespan_s for engine in ("fluid", "packets"))
    assert packets == pytest.approx(fluid, rel=1e-3)


@pytest.mark.parametrize("buffer_packets", [8, 32, 256])
def test_a_hot_port_leaves_an_idle_one_its_fair_share(buffer_packets: int) -> None:
    """A sends to a hot port with three others, and to an idle one: by max-min it sends 1/4 there and 3/4 here."""
    net = network(line(6))
    a, d, e, f, b, c = range(1, 7)
    engine = PacketModel(buffer_bytes=buffer_packets * 4096)(net, n_bins=64)
    engine.begin_all(Flows.of([a, d, e, f, a], [b, b, b, b, c], 4096 * 8000.0))
    engine.advance(3000 * SLOT_S)
    timeline, fabric = engine.timeline, net.fabric
    assert timeline is not None
    full = int(3000 * SLOT_S / timeline.bin_s)
    into = fabric.peer[fabric.port_of(np.array([b, c]))]
    rates = timeline.load_bytes_s[into, full // 3 : full].mean(axis=1) / RATE
    assert rates == pytest.approx([1.0, 0.75], abs=0.01)


def times(flows: Flows, **model: int) -> np.ndarray:
    return play(network(line(6), hop_s=3.3 * SLOT_S), flows, engine=PacketModel(**model)).finish_s


@pytest.mark.parametrize("packets", [1, 2, 5, 9, 40])
def test_of_one_message_an_adapter_holds_back_what_a_window_does(packets: int) -> None:
    flows = Flows.of([1], [5], 300 * 4096.0)
    by_window = times(flows, window_packets=packets)
    assert times(flows, window_packets=0, adapter_packets=packets).tolist() == by_window.tolist()
    assert times(flows, window_packets=packets, adapter_packets=packets).tolist() == by_window.tolist()


def test_messages_of_an_adapter_share_its_packets_in_turn() -> None:
    """Three have the packets of one, so that together they take as long as one of three times the size."""
    alone = times(Flows.of([1], [5], 300 * 4096.0), adapter_packets=3, window_packets=0)
    shared = times(Flows.of([1, 1, 1], [3, 4, 5], 100 * 4096.0), adapter_packets=3, window_packets=0)
    assert shared.max() == pytest.approx(alone[0], rel=0.01)
    assert shared.min() == pytest.approx(shared.max(), rel=0.02)


def test_messages_of_others_have_packets_of_their_own() -> None:
    one, other = Flows.of([1], [3], 300 * 4096.0), Flows.of([2], [4], 200 * 4096.0)
    both = Flows.of([1, 2], [3, 4], [300 * 4096.0, 200 * 4096.0])
    alone = [times(flows, adapter_packets=2).tolist()[0] for flows in (one, other)]
    assert times(both, adapter_packets=2).tolist() == alone


@pytest.mark.parametrize("seed", range(6))
def test_an_adapter_with_packets_for_all_windows_changes_nothing(seed: int) -> None:
    """Nor do fewer lose a message: each ends, however few there are."""
    rng = np.random.default_rng(seed)
    src = rng.integers(1, 7, 40)
    dst = (src - 1 + rng.integers(1, 6, 40)) % 6 + 1
    flows = Flows.of(src, dst, rng.integers(1, 60_000, 40) * 10.0, start_s=rng.uniform(0, 20 * SLOT_S, 40))
    assert times(flows, window_packets=4, adapter_packets=160).tolist() == times(flows, window_packets=4).tolist()
    for window in (1, 2, 3, 0):
        few = [times(flows, window_packets=window, adapter_packets=packets).max() for packets in (1, 2, 3)]
        assert np.isfinite(few).all()
        assert few[0] > few[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "setting", "model", "within"),
    [
        (16, "| 16 |", PacketModel(), 0.05),
        nightly(64, "| 64 |", PacketModel(), 0.05),
        nightly(128, "| 128 |", PacketModel(), 0.05),
        nightly(64, "| buffers of 64 KiB |", PacketModel(buffer_bytes=1 << 16), 0.05),
        nightly(64, "| buffers of 16 KiB |", PacketModel(buffer_bytes=1 << 14), 0.05),
        nightly(64, "| windows of 32 packets |", PacketModel(window_packets=32), 0.05),
        nightly(64, "| `fifo` |", PacketModel(inputs="fifo"), 0.05),
        nightly(64, "| no windows", PacketModel(window_packets=0), 0.065),
        nightly(64, "| at most 16 packets of an adapter |", PacketModel(adapter_packets=16), 0.05),
        nightly(64, "| at most 4 packets of an adapter |", PacketModel(adapter_packets=4), 0.24),
    ],
    ids=str,
)
def test_hfreduce_takes_what_was_published(
    gpus: int, setting: str, model: PacketModel, within: float, repository: Path
) -> None:
    """Fig. 7a of arXiv 2408.14158; chunks and root port near the fits of docs/validation/fire-flyer.md."""
    cluster = read_preset("fire-flyer-2")
    node = replace(cluster.catalog.node("pcie-a100"), root_port_gbyte_per_s=33.0)
    fabric, size = cluster.fabric, 186 * 2**20
    ends = fabric.ends(role="compute")
    ends = ends[fabric.zone[fabric.end_node[ends]] == 0]
    reduce, tables, found = HFReduce(chunk_bytes=5 * 2**20), routed(fabric, "balanced"), []
    for seed in range(3):
        chosen = np.random.default_rng(seed).choice(ends, gpus // 8, replace=False).astype(np.int32)
        servers = reduce.servers(node, fabric, chosen)
        on = Network.of(tables, lane_weights=1, devices=servers.devices)
        found.append(size / play(on, reduce.flows(servers, size), engine=model).makespan_s / 1e9)
    # Which servers were used is not published, so each placement must be near.
    assert found == pytest.approx([{16: 8.10, 64: 7.95, 128: 7.78}[gpus]] * 3, rel=within)
    page = (repository / "docs" / "packets.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(setting)]
    assert f"| {', '.join(f'{rate:.2f}' for rate in found)} |" in row


@pytest.mark.parametrize("may", [False, True])
@pytest.mark.parametrize(("left", "window", "sent"), [(0, 0, 0), (3, 0, 9), (3, 2, 1), (3, 2, 2), (1, 2, 3)])
def test_a_flow_sends_if_it_has_packets_room_in_its_window_and_leave(
    monkeypatch: pytest.MonkeyPatch, may: bool, left: int, window: int, sent: int
) -> None:
    """Without leave it comes back when it has; with no packet or room it waits for what gives it some."""
    comes_back: list[tuple[int, int]] = []
    monkeypatch.setattr(steps, "may_send", lambda *_: may)
    monkeypatch.setattr(steps, "push", lambda now, heap, tick, code: comes_back.append((tick, code)))
    flow = SimpleNamespace(left=left, window=window, unacknowledged=sent, allowed=70, adapter=-1)
    state = SimpleNamespace(
        flows=[flow], now=[SimpleNamespace(tick=40, repeated=5)], heap=None,
        requesters=[SimpleNamespace(next=-1) for _ in range(4)],
    )  # fmt: skip
    able = left > 0 and (window == 0 or sent < window)
    assert steps._allowed.py_func(SimpleNamespace(control=None, n_queues=3, adapter_packets=0), state, 0) == (
        able and may
    )
    assert comes_back == [(75, steps.FLOWS)] * (able and not may)
    assert state.requesters[3].next == (3 if able and not may else -1)
