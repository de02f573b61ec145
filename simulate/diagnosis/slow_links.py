"""Which link or collision explains measured bandwidths, how sure that is, and what to measure next.

Each pair has an expected bandwidth: that of the slowest link of its path, or its max-min fair rate where several pairs
were measured at once. The ratio of measured to expected bandwidth scatters about 1; its median and scatter are robust
estimates, so a few slow pairs do not change them. For each link, the likelihood of the measurements is averaged over
the shares of its rate at which it may run, and divided by the likelihood without a fault (a Bayes factor). A single
pair contributes at most `OUTLIER`. A link is *identified* when it, or another that the same pairs cross, is more likely
slow than not, with the prior probability `PRIOR` that there is any fault. So at most a share `PRIOR` of sound fabrics
gets a link identified (Markov's inequality), if the scatter is as assumed.

Where switches hash, a pair crosses a link with a probability: a share c of pairs on all shortest paths, spread evenly,
is the chance that one queue pair takes the link, and 1 - (1 - c)^k that of any of k. The likelihood of a pair is then
the mean of that with the fault and that without, by this chance. Links that all pairs are equally likely to cross, such
as the cables from a leaf to its spines, cannot be told apart, and are one suspect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.hashed import SPRAY, Hashed
from routing.names import end_label
from routing.routed import Routed
from routing.studies.loss import pairs_over
from simulate.diagnosis.measured import Measured
from simulate.engines.base import Floats
from simulate.engines.fluid.engine import Fluid
from simulate.traffic.flows import Flows
from simulate.traffic.network import GBPS, Network
from topo.amounts import percent
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Frozen
from topo.graphs import rows_of
from topo.table import Shown, Table

PARTS = np.geomspace(0.02, 0.95, 60)
"""Shares of its rate at which a link may run."""
PRIOR = 0.01
"""Prior probability that any link is slow."""
OUTLIER = 9.0
"""Largest contribution of one pair to the log-likelihood."""
SCATTER = 0.005
"""Smallest relative scatter that is assumed."""
DOUBT = 0.02
"""Least probability of a link that is listed without being identified."""
FAR = 5.5
"""Standard deviations below the expected bandwidth from which a pair is slow: by chance 1 of 50 million is."""
SOUND = 0.85
"""Least share of the rate of their links that sound pairs reach at the median: health checks of a large cloud pass 170
of 200 Gb/s of HDR, and 380 of 400 of NDR (https://github.com/Azure/azurehpc-health-checks)."""
MOST_IDENTIFIED = 16
"""Most faults that are searched for."""
LANES = {0.25: "one lane of four", 0.5: "half of its lanes, or half of its speed", 0.75: "three lanes of four"}
"""Common causes, by share of the rate."""


@dataclass(frozen=True)
class Suspect:
    """Links, or a collision, that explain slow pairs."""

    kind: str
    """``link``, ``channel`` (a link in one direction alone) or ``collision``."""
    ports: tuple[int, ...]
    """A port of each link, or the sending ports of channels, that explain the same pairs equally well."""
    part: float
    """Part of its rate that a link seems to give; of a collision, that each pair should get by the tables."""
    sure: float
    """Probability that one of the links, or the collision, is the cause."""
    slowed: tuple[int, ...]
    """Measured pairs that are slower for it, by number; of counters, the channels that waited for it."""

    def describe(self, fabric: Fabric) -> str:
        """Name it in one line."""
        name = fabric.channel_label(self.ports[0])
        others = f" (or one of {len(self.ports) - 1:,} more that the same pairs cross)" if len(self.ports) > 1 else ""
        if self.kind == "collision":
            return f"collision on {name}{others}"
        like = next((words for part, words in LANES.items() if abs(self.part / part - 1) < 0.07), "")
        return f"{self.kind} {name}{others} at {self.part:.2f} of its rate{f', as with {like}' if like else ''}"


@dataclass(frozen=True, eq=False)
class Diagnosis(Frozen, Shown):
    """Suspects, and what to measure next."""

    fabric: Fabric
    identified: tuple[Suspect, ...]
    """More likely the cause than not; those that explain most first."""
    others: tuple[Suspect, ...]
    """Possible causes, the likeliest first."""
    following: tuple[tuple[int, int], ...]
    """End ports of the most informative pairs to measure next."""

    def _words(self) -> tuple[str, str, str]:
        """Say what was looked at, what suspects slow down, and that nothing is identified."""
        raise NotImplementedError

    def _plain_slowed(self, one: Suspect) -> dict[str, Any]:
        """Return what a suspect slows down, by name."""
        raise NotImplementedError

    def _brief(self) -> str:
        return "; ".join(one.describe(self.fabric) for one in self.identified[:3]) or self._words()[2]

    @property
    def table(self) -> Table:
        """Suspects, those identified first."""
        title, slowed, _ = self._words()
        verdicts = ["identified"] * len(self.identified) + ["cannot tell"] * len(self.others)
        return Table.of(
            title,
            zip((*self.identified, *self.others), verdicts, strict=True),
            (lambda row: row[0].describe(self.fabric), "suspect"),
            (lambda row: row[1], "verdict"),
            (lambda row: row[0].sure, "sure", "", ".3f"),
            (lambda row: len(row[0].slowed), slowed),
        )

    @property
    def _next(self) -> list[list[str]]:
        return [[end_label(self.fabric, end) for end in pair] for pair in self.following]

    @property
    def next_table(self) -> Table:
        """Pairs to measure next, alone."""
        return Table.of_rows("to measure next, one at a time", ("source", "destination"), self._next)

    def _shown(self) -> tuple[Table, ...]:
        return self.table, self.next_table

    def _plain(self, **more: Any) -> dict[str, Any]:
        """Return suspects, what else is given, and pairs as plain values."""

        def plain(one: Suspect) -> dict[str, Any]:
            channels = [self.fabric.channel_label(port) for port in one.ports]
            named = {"kind": one.kind, "channels": channels, "part": one.part, "sure": one.sure}
            return named | self._plain_slowed(one)

        identified, others = ([plain(one) for one in suspects] for suspects in (self.identified, self.others))
        return {"identified": identified, "others": others, **more, "next": self._next}


@dataclass(frozen=True, eq=False)
class Explanation(Diagnosis):
    """What explains measured bandwidths."""

    measured: Measured
    reached: tuple[tuple[float, float], ...]
    """For each rate of links, Gb/s: the rate, and what pairs over such links get alone, at the median."""
    usual: float
    """Share of the rate of their links that pairs are expected to reach: the median, of several rates the least."""
    scatter: float
    """Relative standard deviation of pairs without a fault."""
    unclear: int
    """Slow pairs that nothing identified explains."""
    faster: int
    """Pairs so far above the others of their rate that these cannot be what hosts reach."""

    def _words(self) -> tuple[str, str, str]:
        scatter = percent(self.scatter)
        reached = ", ".join(f"{got:,.1f} of {rate:,.5g}" for rate, got in self.reached)
        title = f"{plural(len(self.measured.src), 'pair')}, median {reached} Gb/s, scatter {scatter}"
        return title, "slow pairs", f"nothing explains more than scatter of {scatter}"

    @property
    def undecided(self) -> bool:
        """Whether something is slow for which no cause was found."""
        return self.unclear > 0 or self.faster > 0 or self.usual < SOUND

    @property
    def doubts(self) -> tuple[str, ...]:
        """What remains unexplained."""
        slow = (
            f"most pairs are slow: the median is {percent(self.usual)} of the rate of their links, and sound pairs "
            f"reach {percent(SOUND)} or more; look at what all have in common: the size of messages, the PCIe slots of "
            "the adapters, the unit of the file"
        )
        unclear = f"{self.unclear:,} slow pairs without an explanation"
        faster = (
            f"{plural(self.faster, 'pair')} far faster than most: over half of all may be slow for one cause, such "
            "as a level of switches; compare pairs within leaves with pairs between them"
        )
        return (slow,) * (self.usual < SOUND) + (unclear,) * (self.unclear > 0) + (faster,) * (self.faster > 0)

    def _plain_slowed(self, one: Suspect) -> dict[str, Any]:
        ends = self.measured.src, self.measured.dst
        return {"pairs": [[end_label(self.fabric, int(end[at])) for end in ends] for at in one.slowed]}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        reached = [{"of_gbps": rate, "gbps": got} for rate, got in self.reached]
        head = {"pairs": len(self.measured.src), "reached": reached, "usual": self.usual, "scatter": self.scatter}
        return head | self._plain(unclear=self.unclear, faster=self.faster)


@dataclass(frozen=True, eq=False)
class Crossings:
    """Which measured pair crosses which channel: one entry for each of both, a pair's in the order of its path."""

    pair: NDArray[np.int64]
    channel: NDArray[np.int64]
    link: NDArray[np.int64]  # lower port of the channel's link
    shared_gbps: NDArray[np.float64]
    """What a pair that crosses the channel gets of it: its rate over the pairs of the round that cross it, and by the
    part of the pair's bytes that does."""
    chance: NDArray[np.float64]  # probability that the pair crosses it, below 1 where switches hash

    def met(self, on: NDArray[np.generic], gain: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which entries, of those of a slow link, cross it more likely than not: `gain` is the evidence."""
        with np.errstate(divide="ignore"):
            odds: NDArray[np.float64] = np.log(self.chance[on]) - np.log1p(-self.chance[on])
        return np.asarray(odds + gain > 0)


def explain(routed: Routed | Hashed, measured: Measured, *, following: int = 5) -> Explanation:
    """Find the links or collisions that explain measured bandwidths of pairs.

    Parameters
    ----------
    routed : Routed or Hashed
        A fabric with the tables with which they were measured; or whose switches hash, whatever the seed.
    measured : Measured
        One at a time where switches hash.
    following : int
        Pairs to propose for the next measurement.

    Raises
    ------
    FlowError
        When no path connects a pair.
    HeddleError
        When pairs were measured at once on hashed paths: nobody knows which of them met. When a pair is faster than
        its links, by more than the measurements scatter.

    Examples
    --------
    >>> import numpy as np, topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> src, dst = (part.ravel() for part in np.meshgrid(hosts, hosts))
    >>> src, dst = src[src != dst], dst[src != dst]
    >>> gbps = np.where(dst == hosts[3], 97.0, 193.0)
    >>> found = simulate.diagnosis.explain(routed, simulate.diagnosis.Measured(src, dst, gbps, np.full(len(src), -1)))
    >>> [one.describe(routed.fabric) for one in found.identified]
    ['channel leaf0:4 -> gpu03 mlx5_0:1 at 0.50 of its rate, as with half of its lanes, or half of its speed']
    """
    if isinstance(routed, Hashed) and (measured.round >= 0).any():
        raise HeddleError(
            "found pairs that were measured at once (`round`) where switches hash, so that nobody knows which of them "
            "met; expected pairs one at a time"
        )
    if isinstance(routed, Hashed) and routed.bond > 1:
        raise HeddleError(
            f"found bonds of {routed.bond} ports, on which the queue pairs of a sound pair may meet; expected pairs of "
            "single ports, without bonds"
        )
    network = Network.of(routed, lane_weights=1, latency_s=0)
    fabric = routed.fabric
    crossings, alone = walk_pairs(network, measured)
    together, limit = _play_rounds(network, measured, alone)
    log_found = np.log(measured.gbps)
    ratio = log_found - np.log(together)
    log_scale = _scale(ratio, alone)
    residual = ratio - log_scale
    scatter = max(SCATTER, 1.4826 * float(np.median(np.abs(residual))))
    if len(above := np.flatnonzero(log_found - np.log(alone) > FAR * scatter)):
        first = int(above[0])
        raise HeddleError(
            f"{end_label(fabric, measured.src[first])} to {end_label(fabric, measured.dst[first])}: found "
            f"{measured.gbps[first]:,.1f} Gb/s over links of {alone[first]:,.5g} Gb/s ({plural(len(above), 'pair')} "
            "so); expected no more than links carry. Are the unit of the file and the link speeds of the fabric right, "
            "and is each figure of one direction and one port?"
        )
    rates = np.unique(alone).tolist()
    reached = tuple((rate, rate * float(np.exp(np.median(ratio[alone == rate])))) for rate in rates)
    usual = float(np.exp(log_scale.min()))
    log_found -= log_scale
    should = together.copy()
    collisions = _collisions(crossings, measured, log_found, alone, together, limit, scatter)
    identified = [one for one in collisions if one.sure > 0.5]
    while True:
        suspects = _slow_links(fabric, crossings, log_found, should, scatter)
        if not suspects or suspects[0].sure <= 0.5 or len(identified) >= MOST_IDENTIFIED:
            break
        identified.append(suspects[0])
        crossed = crossings.link if suspects[0].kind == "link" else crossings.channel
        on = np.isin(crossed, suspects[0].ports)
        pair, slowed = crossings.pair[on], suspects[0].part * crossings.shared_gbps[on]
        met = crossings.met(on, _gain(log_found[pair], should[pair], slowed, scatter))
        np.minimum.at(should, pair[met], slowed[met])
    others = suspects[:10]
    unclear = int(np.count_nonzero(log_found - np.log(should) < -FAR * scatter))
    faster = int(np.count_nonzero(residual > FAR * scatter))
    pairs = pairs_between(routed, [*identified, *others], following, measured)
    identified.sort(key=lambda one: -len(one.slowed) * one.sure)
    return Explanation(
        fabric, tuple(identified), tuple(others), pairs, measured, reached, usual, scatter, unclear, faster
    )


def walk_pairs(network: Network, measured: Measured) -> tuple[Crossings, Floats]:
    """Return what each pair crosses, and the Gb/s of the slowest link that it crosses for sure."""
    hashed = network.tables if isinstance(network.tables, Hashed) else None
    spread = network if hashed is None else replace(network, tables=replace(hashed, queue_pairs=SPRAY))
    routes = spread.routes(measured.src, measured.dst, np.zeros(len(measured.src), np.int8))
    hops, places = rows_of(routes.offset, routes.route)
    channel = routes.resource[places].astype(np.int64)
    pair = np.repeat(np.arange(len(hops)), hops)
    share = routes.use[places] if len(routes.use) else np.ones(len(places))
    chance, sharing = np.ones(len(places)), share
    if hashed is not None and hashed.queue_pairs != SPRAY:
        # Sums of shares end a little beside 1, and a pair that crosses a link for sure has all queue pairs on it.
        chance = np.where(share > 1 - 1e-9, 1.0, 1 - (1 - np.minimum(share, 1.0)) ** hashed.queue_pairs)
        sharing = np.where(chance == 1.0, 1.0, 1 / hashed.queue_pairs)
    rate = network.capacity_bytes_s[channel] / GBPS
    alone = np.minimum.reduceat(np.where(chance == 1.0, rate / sharing, np.inf), np.cumsum(hops) - hops)
    round_of = measured.round[pair]
    at_once = round_of >= 0
    key = round_of[at_once] * np.int64(network.fabric.n_ports) + channel[at_once]
    _, number, count = np.unique(key, return_inverse=True, return_counts=True)
    sharing[at_once] = count[number]
    link = np.minimum(channel, network.fabric.peer[channel])
    return Crossings(pair, channel, link, rate / sharing, chance), alone


def _play_rounds(network: Network, measured: Measured, alone: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return the Gb/s that each pair gets beside those of its round, and the channel that limits it; -1 if alone."""
    together, limit = alone.copy(), np.full(len(alone), -1, np.int64)
    order = np.argsort(measured.round, kind="stable")
    order = order[measured.round[order] >= 0]
    for members in np.split(order, np.flatnonzero(np.diff(measured.round[order])) + 1):
        if len(members) < 2:
            continue
        outcome = Fluid(network).play(Flows.of(measured.src[members], measured.dst[members], 1e9))
        together[members] = 1e9 / outcome.finish_s / GBPS
        limit[members] = outcome.bottleneck
    return together, limit


def _scale(log_ratio: Floats, alone: Floats) -> Floats:
    """Return (N,) the log of the median ratio of measured to expected bandwidth among pairs of the same rate."""
    _, kind, count = np.unique(alone, return_inverse=True, return_counts=True)
    usual = [np.median(log_ratio[kind == at] if n >= 20 else log_ratio) for at, n in enumerate(count.tolist())]
    return np.array(usual)[kind]


def _gain(log_found: Floats, should: Floats, slowed: Floats, scatter: float) -> Floats:
    """Return by how much better rates are explained that may be no more than ``slowed``, as logarithms of odds.

    That is the difference of the negative log-likelihoods, each at most `OUTLIER`.
    """
    before, now = (0.5 * ((log_found - np.log(gbps)) / scatter) ** 2 for gbps in (should, np.minimum(should, slowed)))
    return np.asarray(np.minimum(before, OUTLIER) - np.minimum(now, OUTLIER))


def _collisions(
    crossings: Crossings, measured: Measured, log_found: Floats, alone: Floats, together: Floats,
    limit: NDArray[np.int64], scatter: float,
) -> list[Suspect]:  # fmt: skip
    """Return a suspect for each channel on which pairs of one round are slower than alone."""
    slower = np.flatnonzero((limit >= 0) & (together < 0.97 * alone))
    gain = _gain(log_found, alone, together, scatter)
    found = []
    keys = np.stack([measured.round[slower], limit[slower]], axis=1)
    for played, channel in np.unique(keys, axis=0).tolist():
        members = slower[(keys == (played, channel)).all(axis=1)]
        evidence = float(gain[members].sum())
        in_round = measured.round[crossings.pair] == played
        used = {int(one): frozenset(crossings.pair[in_round & (crossings.channel == one)].tolist())
                for one in np.unique(crossings.channel[in_round & np.isin(crossings.pair, members)])}  # fmt: skip
        alike = [one for one, pairs in used.items() if pairs == used[channel] and one != channel]
        part = float(np.median(together[members] / alone[members]))
        sure = float(1 / (1 + np.exp(-min(evidence, 700.0))))
        found.append(Suspect("collision", (channel, *alike), part, sure, tuple(members.tolist())))
    return sorted(found, key=lambda one: -one.sure)


def _slow_links(
    fabric: Fabric, crossings: Crossings, log_found: Floats, should: Floats, scatter: float
) -> list[Suspect]:
    """Return links that may be slow, the likeliest first; links that the same pairs cross are one suspect."""
    lower, both = np.unique(crossings.link, return_inverse=True)
    sender, one = np.unique(crossings.channel, return_inverse=True)
    # A link whose pairs all cross it one way is not told from that channel of it, and named as a link.
    ways = np.bincount(np.searchsorted(lower, np.minimum(sender, fabric.peer[sender])), minlength=len(lower))
    split = (ways > 1)[both]
    ports = np.concatenate([lower, sender])
    entry = np.concatenate([np.arange(len(split)), np.flatnonzero(split)])
    number = np.concatenate([both, one[split] + len(lower)])
    group, first = _alike(crossings, entry, number, len(ports))
    chosen = first[group[number]] == number
    entry, of_group = entry[chosen], group[number[chosen]]
    pair, shared, chance = crossings.pair[entry], crossings.shared_gbps[entry], crossings.chance[entry]
    found, now = log_found[pair], should[pair]

    def gains(part: float) -> Floats:
        return _gain(found, now, part * shared, scatter)

    odds = (np.log1p(chance * np.expm1(gains(part))) for part in PARTS)
    evidence = np.array([np.bincount(of_group, each, minlength=len(first)) for each in odds])
    top = np.maximum(evidence.max(axis=0), -700.0)
    log_factor = top + np.log(np.mean(np.exp(evidence - top), axis=0) + 1e-300)
    members = np.bincount(group[group >= 0], minlength=len(first))
    log_odds = log_factor + np.log(np.maximum(members, 1) * PRIOR / (3 * max(1, len(fabric.links))))
    rest = max(0.0, float(log_odds.max(initial=0.0)))
    weight = np.exp(log_odds - rest)
    sure = weight / (weight.sum() + np.exp(-rest))
    suspects: list[Suspect] = []
    likely = np.argsort(-sure, kind="stable")[:50]
    for at in likely[sure[likely] >= DOUBT].tolist():
        on = of_group == at
        part = float(PARTS[evidence[:, at].argmax()])
        slower = (part * shared[on] < now[on]) & crossings.met(entry[on], gains(part)[on])
        got = np.exp(found[on]) / shared[on]
        near = got[(got > part / 1.2) & (got < part * 1.2)]
        part = float(np.median(near)) if len(near) else part
        kind = "link" if first[at] < len(lower) else "channel"
        named = dict.fromkeys(ports[group == at].tolist())
        slowed = np.unique(pair[on][slower])
        suspects.append(Suspect(kind, tuple(named), part, float(sure[at]), tuple(slowed.tolist())))
    return sorted(suspects, key=lambda one: -one.sure)


def _alike(
    crossings: Crossings, entry: NDArray[np.int64], number: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group links and channels, `number` of each entry of the crossings, that the same pairs cross alike.

    Returns (count,) the group of each, -1 for one without an entry, and the lowest number of each group.
    """
    # A sum of 64 random bits for each pair, and for what it gets there, tells sets apart.
    rng = np.random.default_rng(0)
    gets = np.stack([crossings.shared_gbps[entry], crossings.chance[entry]])
    _, kind = np.unique(gets.round(9), axis=1, return_inverse=True)
    bits = rng.integers(2**63, size=int(crossings.pair.max(initial=0)) + 1, dtype=np.uint64)
    odd = bits * np.uint64(2) + np.uint64(1)
    term = odd[crossings.pair[entry]] * rng.integers(2**63, size=len(entry) + 1, dtype=np.uint64)[kind.ravel()]
    total = np.zeros(count, np.uint64)
    np.add.at(total, number, term)
    used = np.unique(number)
    _, first, which = np.unique(total[used], return_index=True, return_inverse=True)
    group = np.full(count, -1, np.int64)
    group[used] = which
    return group, used[first]


def pairs_between(
    routed: Routed | Hashed, suspects: list[Suspect], count: int, measured: Measured | None = None
) -> tuple[tuple[int, int], ...]:
    """Return the pairs that separate suspects best: each crosses about half of the probability in every part so far.

    Pairs are among the end ports that were measured, but new; without measurements, among all adapters.
    """
    fabric = routed.fabric
    probability: dict[int, float] = {}
    for one in suspects:
        for port in one.ports[:8] if one.kind != "collision" else ():
            probability[port] = max(probability.get(port, 0.0), one.sure / len(one.ports))
    ports = np.array(sorted(probability, key=lambda port: -probability[port])[:16], np.int64)
    if not len(ports) or not count:
        return ()

    def some(n: int) -> NDArray[np.int64]:  # of so many, evenly
        return np.unique(np.linspace(0, n - 1, min(n, 4000)).astype(np.int64))

    ends = fabric.ends() if measured is None else np.unique(np.concatenate([measured.src, measured.dst]))
    if isinstance(routed, Hashed):  # each may cross any link, and is chosen by what it crosses
        over = np.stack([ends[part] for part in np.divmod(some(len(ends) ** 2), len(ends))], axis=1)
        over = over[routed.reaches(over[:, 0], over[:, 1])]
    else:
        over = pairs_over(routed, np.concatenate([ports, fabric.peer[ports]]), ends)
    over = over[over[:, 0] != over[:, 1]]
    known = set() if measured is None else set(zip(measured.src.tolist(), measured.dst.tolist(), strict=True))
    chosen = over[some(len(over))] if len(over) else over
    chosen = np.array([pair for pair in chosen.tolist() if tuple(pair) not in known], np.int32).reshape(-1, 2)
    if not len(chosen):
        return ()
    empty = Measured(chosen[:, 0], chosen[:, 1], np.ones(len(chosen)), np.full(len(chosen), -1, np.int32))
    crossings, _ = walk_pairs(Network.of(routed, lane_weights=1, latency_s=0), empty)
    crosses = np.zeros((len(chosen), len(ports)), bool)
    for at, port in enumerate(np.minimum(ports, fabric.peer[ports]).tolist()):
        crosses[crossings.pair[crossings.link == port], at] = True
    weight = np.array([probability[port] for port in ports.tolist()])
    cells = [np.ones(len(ports), bool)]
    picked: list[tuple[int, int]] = []
    for _ in range(count):
        split = sum(np.minimum(crosses @ (weight * cell), (~crosses) @ (weight * cell)) for cell in cells)
        best = int(np.argmax(split + 1e-9 * (crosses @ weight)))
        if picked and np.max(split) <= 1e-6:
            break
        picked.append((int(chosen[best, 0]), int(chosen[best, 1])))
        cells = [part for cell in cells for part in (cell & crosses[best], cell & ~crosses[best]) if part.any()]
    return tuple(picked)
