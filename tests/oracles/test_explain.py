"""Explanations of random small cases, computed again channel by channel, pair by pair and round by round."""

from collections import defaultdict
from itertools import pairwise
from math import exp, log
from statistics import median

import numpy as np
import pytest

import simulate
from helpers.fluids import fair_rates, routed
from helpers.networks import plain_tree
from helpers.strategies import nightly, slow_but
from routing.routed import Routed
from simulate.diagnosis import wait_counters as waits
from simulate.diagnosis.slow_links import OUTLIER, SCATTER
from simulate.diagnosis.wait_counters import explain_waits

GBYTE_S = 25.0
"""Every port of these networks, at 200 Gb/s."""


def tree(seed: int) -> Routed:
    fabric = plain_tree(seed).fabric()
    return Routed(fabric, routed(fabric))


def path(routed: Routed, source: int, target: int) -> list[int]:
    """Channels from an adapter to another, followed from table to table."""
    fabric, tables = routed.fabric, routed.tables
    found = [int(fabric.port_of(np.array([source]))[0])]
    while fabric.peer_node[found[-1]] != fabric.end_node[target]:
        switch = int(fabric.peer_node[found[-1]])
        found.append(fabric.port_id(switch, int(tables.lft[switch, tables.lid[target]])))
    return found


Cells = dict[tuple[int, int], float]


def fitted(pairs: Cells, busy: list[float]) -> Cells:
    """Traffic from channel to channel: columns get the sums that were counted, then rows, and again."""
    sent = dict(pairs)
    for _ in range(waits.FITS):
        for side in (1, 0):
            total: dict[int, float] = defaultdict(float)
            for cell, value in sent.items():
                total[cell[side]] += value
            sent = {
                cell: value * busy[cell[side]] / total[cell[side]] if total[cell[side]] else 0.0
                for cell, value in sent.items()
            }
    return sent


class Blame:
    """What each channel did to those upstream of it, with ports of these weights."""

    def __init__(
        self, sent: Cells, busy: list[float], held: list[float], start: list[float], steps: int, weight: list[float]
    ) -> None:
        n = len(busy)
        self.per_byte, whole = list(start), [0.0] * n
        for (near, far), value in sent.items():
            whole[far] += value * weight[near]
        whole = [one + waits.RARE * max(0.0, 1 - busy[at] - held[at]) if one else 0.0 for at, one in enumerate(whole)]
        for _ in range(steps):
            share, blamed = self.shares(sent, held), [0.0] * n
            for (near, far), value in sent.items():
                blamed[far] += value * weight[near] * share[near]
            self.per_byte = [one * blamed[at] / whole[at] if whole[at] else 0.0 for at, one in enumerate(self.per_byte)]
        share = self.shares(sent, held)
        self.waits = {(near, far): share[near] * value * self.per_byte[far] for (near, far), value in sent.items()}
        self.longest, reached, self.caused = [0.0] * n, [0.0] * n, [0.0] * n
        for (near, far), value in self.waits.items():
            self.longest[far] = max(self.longest[far], value)
            reached[far] = max(reached[far], value + sent[near, far])
            self.caused[far] += value
        able = [one + other for one, other in zip(busy, held, strict=True)]
        self.part = [min(1.0, able[at] / reached[at]) if reached[at] else 1.0 for at in range(n)]
        self.caused = [one * busy[at] / able[at] if able[at] else 0.0 for at, one in enumerate(self.caused)]

    def shares(self, sent: Cells, held: list[float]) -> list[float]:
        """How often each port waited for what the channels behind it are expected to cost it."""
        expected = [0.0] * len(held)
        for (near, far), value in sent.items():
            expected[near] += value * self.per_byte[far]
        return [one / expected[at] if expected[at] else 0.0 for at, one in enumerate(held)]

    def is_slow(self, port: int) -> bool:
        return self.part[port] < waits.SLOW and self.longest[port] > waits.WAITED


def blamed(routed: Routed, counters: simulate.diagnosis.Counters) -> list[tuple[str, int, float, float, set[int]]]:
    """Kind, channel, part, probability and those that waited, of each suspect, the worst first."""
    fabric, n = routed.fabric, routed.fabric.n_ports
    known = counters.known.tolist()

    def times(values: np.ndarray) -> list[float]:
        plugged = fabric.peer >= 0
        return [float(values[at]) / (GBYTE_S * 1e9) if known[at] and plugged[at] else 0.0 for at in range(n)]

    busy, held = times(counters.sent_bytes), times(counters.lost_bytes)
    time_s = max(one + other for one, other in zip(busy, held, strict=True))
    busy, held = [one / time_s for one in busy], [one / time_s for one in held]
    pairs: Cells = defaultdict(float)
    for a in fabric.ends().tolist():
        for b in fabric.ends().tolist():
            crossed = path(routed, a, b) if a != b else []
            for near, far in pairwise(crossed):
                pairs[near, far] += 1
    sent = fitted(pairs, busy)
    start = [one + other + 0.05 for one, other in zip(busy, held, strict=True)]
    first = Blame(sent, busy, held, start, waits.STEPS, [1.0] * n)
    middle = [(one + other) / 2 for one, other in zip(first.per_byte, start, strict=True)]
    rng = np.random.default_rng(0)
    draws = [
        Blame(sent, busy, held, middle, waits.STEPS_AGAIN, rng.exponential(size=n).tolist()) for _ in range(waits.DRAWS)
    ]
    peer = [int(other) if other >= 0 else at for at, other in enumerate(fabric.peer.tolist())]
    slow = [first.is_slow(at) for at in range(n)]
    weight = [first.caused[at] + (first.caused[peer[at]] if slow[at] or slow[peer[at]] else 0.0) for at in range(n)]
    named = [at for at in range(n) if first.longest[at] > waits.WAITED and (slow[at] or not slow[peer[at]])]
    found = []
    for at in sorted(named, key=lambda at: -weight[at]):
        both = slow[at] and slow[peer[at]]
        if both and first.caused[peer[at]] > first.caused[at]:
            continue  # a link that is slow both ways is named once
        ports = {at, peer[at]} if both else {at}
        part, kind = (
            min(first.part[port] for port in ports),
            ("link" if both else "channel" if slow[at] else "collision"),
        )
        same = sum(
            any(one.is_slow(port) == slow[at] for port in ports)
            and max(one.longest[port] for port in ports) > waits.WAITED
            and waits.ALIKE * sum(one.caused[port] for port in ports) > max(weight[each] for each in named)
            for one in draws
        )
        sure = same / (waits.DRAWS + 1) if part >= waits.HARDLY else 0.0
        waited = {
            near for near in range(n) if sum(first.waits.get((near, port), 0.0) for port in ports) > waits.WAITED / 2
        }
        found.append((kind, at, part, sure, waited))
    return found


@pytest.mark.parametrize("seed", [*slow_but(range(12), 0, 1, 2), *(nightly(seed) for seed in range(12, 200))])
def test_what_is_blamed_for_waiting_is_what_a_plain_count_blames(seed: int) -> None:
    """Random messages, and ports that wait now and then; of some ports nothing is known."""
    rng, routes = np.random.default_rng(seed), tree(seed)
    fabric, n = routes.fabric, routes.fabric.n_ports
    sent, ends = np.zeros(n), fabric.ends()
    for _ in range(40):
        a, b = rng.choice(ends, 2, replace=len(ends) < 2).tolist()
        sent[path(routes, a, b)] += 1e9 * rng.random()
    lost = np.where((sent > 0) & (rng.random(n) < 0.4), sent.max() * rng.exponential(size=n), 0.0)
    sent[rng.random(n) < 0.1 * (seed % 2)] = np.nan
    counters = simulate.diagnosis.Counters(sent, lost)
    found = explain_waits(routes, counters)
    wanted = blamed(routes, counters)
    sure = [one for one in wanted if one[3] > 0.5]
    rest = [one for one in wanted if one[3] <= 0.5][: waits.NAMED]
    for suspects, expected in ((found.identified, sure), (found.others, rest)):
        assert [(one.kind, one.ports, set(one.slowed)) for one in suspects] == [
            (kind, (at,), slowed) for kind, at, _, _, slowed in expected
        ]
        assert [one.part for one in suspects] == pytest.approx([part for _, _, part, _, _ in expected])
        assert [one.sure for one in suspects] == pytest.approx([one[3] for one in expected])


def mean_rates(paths: list[list[int]], n: int) -> list[float]:
    """Gb/s of each pair of a round over its whole time, all with as many bytes: max-min fair from end to end."""
    use = np.zeros((len(paths), n))
    for row, crossed in enumerate(paths):
        use[row, crossed] = 1.0
    left, time_s, took_s = np.ones(len(paths)), 0.0, np.zeros(len(paths))
    going = np.arange(len(paths))
    while len(going):
        rate = fair_rates(np.full(n, 200.0), use[going])
        step_s = (left[going] / rate).min()
        time_s += step_s
        left[going] -= rate * step_s
        took_s[going] = time_s
        going = going[left[going] > 1e-12]
    return (1 / took_s).tolist()


def capped(difference: float, scatter: float) -> float:
    return min(0.5 * (difference / scatter) ** 2, OUTLIER)


@pytest.mark.parametrize("seed", [*slow_but(range(40), *range(10)), *(nightly(seed) for seed in range(40, 500))])
def test_pairs_that_collide_are_those_that_share_a_channel_in_their_round(seed: int) -> None:
    """Rounds of random pairs with noise, some of them as fast as if they were alone: the collision is then refuted."""
    rng, routes = np.random.default_rng(seed), tree(seed)
    ends, n = routes.fabric.ends().tolist(), routes.fabric.n_ports
    if len(ends) < 3:
        return
    src, dst, rounds = [], [], []
    for number in range(int(rng.integers(1, 4))):
        others = rng.permutation(ends)
        for a, b in zip(rng.permutation(ends).tolist(), others.tolist(), strict=True):
            if a != b and rng.random() < 0.8:
                src.append(a), dst.append(b), rounds.append(number)
    for _ in range(20):
        a, b = rng.choice(ends, 2, replace=False).tolist()
        src.append(a), dst.append(b), rounds.append(-1)
    paths = [path(routes, a, b) for a, b in zip(src, dst, strict=True)]
    together = [200.0] * len(paths)
    for number in set(rounds) - {-1}:
        members = [at for at, one in enumerate(rounds) if one == number]
        for at, rate in zip(members, mean_rates([paths[at] for at in members], n), strict=True):
            together[at] = rate
    as_alone = set(np.flatnonzero(rng.random(4) < 0.3).tolist())
    gbps = [
        0.9 * (200.0 if number in as_alone else rate) * exp(0.02 * rng.standard_normal())
        for number, rate in zip(rounds, together, strict=True)
    ]
    measured = simulate.diagnosis.Measured(*(np.array(each, np.int32) for each in (src, dst)), np.array(gbps),
                                           np.array(rounds, np.int32))  # fmt: skip
    found = simulate.diagnosis.explain(routes, measured)

    shift = median(log(one) - log(rate) for one, rate in zip(gbps, together, strict=True))
    away = [log(one) - log(rate) - shift for one, rate in zip(gbps, together, strict=True)]
    scatter = max(SCATTER, 1.4826 * median(map(abs, away)))
    assert found.scatter == pytest.approx(scatter)
    slower = {at for at, rate in enumerate(together) if rounds[at] >= 0 and rate < 0.97 * 200}
    gain = [
        capped(off + log(rate / 200), scatter) - capped(off, scatter) for off, rate in zip(away, together, strict=True)
    ]
    told: set[int] = set()
    for one in found.identified:
        if one.kind != "collision":
            continue
        members = set(one.slowed)
        (number,) = {rounds[at] for at in members}
        assert members <= slower and not members & told
        told |= members
        # All of them cross each channel that is named, and so does the same set of pairs of their round.
        crossing = [
            {at for at, each in enumerate(paths) if rounds[at] == number and port in each} for port in one.ports
        ]
        assert all(members <= each == crossing[0] for each in crossing)
        assert len(crossing[0]) > 1
        assert {port for at in members for port in paths[at]
                if {at for at, each in enumerate(paths) if rounds[at] == number and port in each} == crossing[0]
                } == set(one.ports)  # fmt: skip
        assert one.part == pytest.approx(median(together[at] / 200 for at in members))
        assert one.sure == pytest.approx(1 / (1 + exp(-sum(gain[at] for at in members))))
    for number in set(rounds) - {-1}:
        mine = {at for at in slower if rounds[at] == number}
        if all(gain[at] > 0 for at in mine):  # whatever channel holds them, its pairs speak for it
            assert mine <= told
        if all(gain[at] < 0 for at in mine):
            assert not mine & told
