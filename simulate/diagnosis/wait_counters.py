"""Which link or collision made ports wait, from their counters and the tables.

A port waits when the buffer at the far end of its link is full: packets there wait for the ports by which they leave.
So the cause is downstream of a port that waits: a *root*, which others wait for and which does not wait itself.

1. Counters say how many bytes each port sent, not from where to where. The bytes of each port are divided among the
   next ports of the tables, in proportion to pairs, such that all sums are those counted (iterative proportional
   fitting; Deming and Stephan, Annals of Mathematical Statistics 11, 1940).
2. Each channel gets the waiting per byte that best explains how long the ports before it waited: the maximum of the
   Poisson likelihood with a weak prior, by the EM algorithm (Shepp and Vardi, IEEE Transactions on Medical Imaging 1,
   1982), starting from the waiting that a sound channel causes.
3. Others wait for a sound channel no longer than it sends or waits itself. If they waited longer, it is slow; if not,
   and it was busy, packets collided there.
4. All of it is repeated with random weights of the ports (the Bayesian bootstrap; Rubin, Annals of Statistics 9, 1981).
   The share of draws with the same verdict is its probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from routing.routed import Routed
from simulate.diagnosis.counters import Counters
from simulate.diagnosis.measured import Measured
from simulate.diagnosis.slow_links import Diagnosis, Suspect, pairs_between, walk_pairs
from simulate.engines.base import Floats
from simulate.traffic.network import Network
from topo.amounts import percent
from topo.errors import HeddleError, plural
from topo.fabric import Fabric

PAIRS = 300_000
"""Most pairs whose paths are counted; of more pairs, a sample of this size is drawn."""
FITS, STEPS, STEPS_AGAIN, DRAWS = 50, 200, 60, 19
"""Rounds of proportional fitting, steps of EM, steps of EM in each draw, and draws."""
RARE = 0.02
"""Prior pseudo-count: waiting-free traffic added to each channel, as a share of its idle time. It makes channels with
idle time a less likely explanation: of them only slow ones make others wait."""
WAITED = 0.1
"""Least share of the time that some port waited for a channel that is listed."""
SLOW = 0.75
"""Share of its rate below which a channel is slow; the estimate errs by up to a quarter."""
HARDLY = 0.1
"""Share below which it is not identified: it sent so little that a channel beside it may be the cause."""
ALIKE = 4
"""Largest ratio of the waiting for the worst channel to that for another one that is identified."""
NAMED = 10
"""Most suspects that are listed."""


@dataclass(frozen=True, eq=False)
class Waits(Diagnosis):
    """What explains the waiting of ports."""

    counters: Counters
    time_s: float
    """Time that the counters cover: how long the busiest port sent or waited."""
    waited: float
    """Share of the time of the longest wait of a port."""

    def _words(self) -> tuple[str, str, str]:
        title = f"{int(self.counters.known.sum()):,} ports, the longest wait {percent(self.waited)} of the time"
        nothing = f"no suspect; the longest wait is {100 * self.waited:.0f} % of the time"
        return title, "ports that waited", nothing

    @property
    def undecided(self) -> bool:
        """Whether a port waited long, and no cause was found."""
        return self.waited > WAITED and not self.identified

    @property
    def doubts(self) -> tuple[str, ...]:
        """What remains unexplained, and what is not known."""
        plugged, known = self.fabric.peer >= 0, self.counters.known
        lacking = int((plugged & ~known).sum())
        found = [f"{plural(lacking, 'port')} of {int(plugged.sum()):,} have no counters: what they did is not known"]
        if self.counters.full:
            found.append(f"{plural(self.counters.full, 'counter')} at the ceiling: clear them (`perfquery -R`) or give "
                         "an earlier reading (--before), and read those of 64 bits")  # fmt: skip
        if self.undecided:
            found.append(f"no cause found for the longest wait ({100 * self.waited:.0f} % of the time)")
        return tuple(found[0 if lacking else 1 :])

    def _plain_slowed(self, one: Suspect) -> dict[str, Any]:
        return {"waited": [self.fabric.channel_label(port) for port in one.slowed]}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        head = {"ports": int(self.counters.known.sum()), "full": self.counters.full, "waited": self.waited}
        return head | self._plain()


@dataclass(frozen=True, eq=False)
class _Cause:
    """What each of P channels did to those upstream of it; times as shares of the whole."""

    caused: Floats  # waiting of all upstream ports that it caused
    per_byte: Floats  # waiting that each unit of traffic meets upstream of it
    part: Floats  # share of its rate, at most 1
    longest: Floats  # longest wait of a port for it
    waits: sparse.csr_array  # (P, P) how long each port waited for each channel


def explain_waits(routed: Routed, counters: Counters, *, following: int = 5) -> Waits:
    """Find the links or collisions that made ports wait.

    Parameters
    ----------
    routed : Routed
        A fabric with the tables with which it ran.
    counters : Counters
    following : int
        Pairs to propose for a measurement.

    Raises
    ------
    HeddleError
        When nothing was sent.

    Examples
    --------
    One lane of four works between a leaf and a host, to which all others send:

    >>> import numpy as np, topo, routing, simulate
    >>> from dataclasses import replace
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> fabric, sound = routed.fabric, simulate.Network.of(routed, lane_weights=1)
    >>> hosts, rate = fabric.ends(role="compute"), sound.capacity_bytes_s.copy()
    >>> last = fabric.peer[fabric.port_of(hosts[3:4])]
    >>> rate[last] /= 4
    >>> flows = simulate.Flows.of(np.delete(hosts, 3), hosts[3], 2.0**20)
    >>> played = simulate.Packets(replace(sound, capacity_bytes_s=rate)).play(flows).congestion
    >>> lost = played.stalled_s.sum(axis=0) * sound.capacity_bytes_s
    >>> sent = played.sent_bytes.sum(axis=0).astype(float)
    >>> found = simulate.diagnosis.explain_waits(routed, simulate.diagnosis.Counters(sent, lost))
    >>> found.identified[0].ports == tuple(last.tolist())
    True
    """
    fabric = routed.fabric
    network = Network.of(routed, lane_weights=1, latency_s=0)
    rate = np.where(fabric.peer >= 0, network.capacity_bytes_s[: fabric.n_ports], np.inf)
    known = counters.known
    busy = np.where(known, counters.sent_bytes, 0.0) / rate
    held = np.where(known, counters.lost_bytes, 0.0) / rate
    time_s = float((busy + held).max(initial=0.0))
    if time_s <= 0:
        raise HeddleError("found counters of ports that have sent nothing; expected some that have")
    busy, held = busy / time_s, held / time_s
    sent = _flows(_dependencies(routed, network), busy)
    start = busy + held + 0.05
    cause = _attribute(sent, busy, held, start, STEPS)
    rng = np.random.default_rng(0)
    middle = (cause.per_byte + start) / 2
    draws = [_attribute(sent, busy, held, middle, STEPS_AGAIN, rng.exponential(size=len(busy))) for _ in range(DRAWS)]
    suspects = _suspects(fabric, cause, draws)
    identified = tuple(one for one in suspects if one.sure > 0.5)
    others = tuple(one for one in suspects if one.sure <= 0.5)[:NAMED]
    pairs = pairs_between(routed, [*identified, *others], following)
    return Waits(fabric, identified, others, pairs, counters, time_s, float(held.max()))


def _dependencies(routed: Routed, network: Network) -> sparse.csr_array:
    """Return (P, P) how many pairs cross one channel and then the other."""
    ends, n = routed.fabric.ends(), routed.fabric.n_ports
    count = len(ends)
    every = count * count <= PAIRS
    number = np.arange(count * count) if every else np.random.default_rng(0).integers(count**2, size=PAIRS)
    src, dst = (ends[part] for part in np.divmod(number, count))
    apart = src != dst
    src, dst = src[apart], dst[apart]
    alone = np.full(len(src), -1, np.int32)
    crossings, _ = walk_pairs(network, Measured(src, dst, np.ones(len(src)), alone))
    follows = crossings.pair[1:] == crossings.pair[:-1]
    before, after = crossings.channel[:-1][follows], crossings.channel[1:][follows]
    return sparse.coo_array((np.ones(len(before)), (before, after)), shape=(n, n)).tocsr()


def _ratio(above: Floats, below: Floats, nought: float = 0.0) -> Floats:
    """Return a ratio, or what it is where the lower part is 0."""
    return np.asarray(np.divide(above, below, out=np.full_like(below, nought), where=below > 0))


def _flows(pairs: sparse.csr_array, busy: Floats) -> sparse.csr_array:
    """Return (P, P) the traffic from one channel to the next: in proportion to pairs, with the counted sums."""
    sent = pairs
    for _ in range(FITS):
        sent = sent @ sparse.diags_array(_ratio(busy, sent.sum(axis=0)))
        sent = sparse.diags_array(_ratio(busy, sent.sum(axis=1))) @ sent
    return sparse.csr_array(sent)


def _attribute(
    sent: sparse.csr_array, busy: Floats, held: Floats, start: Floats, steps: int, weight: Floats | float = 1.0
) -> _Cause:
    """Return what each channel caused: EM from `start`, in waiting per byte, with (P,) `weight` of ports."""
    back = sent.T.tocsr()
    whole = np.asarray(back @ np.broadcast_to(weight, len(busy)))
    whole = np.where(whole > 0, whole + RARE * np.maximum(0.0, 1.0 - busy - held), 0.0)
    per_byte = start
    for _ in range(steps):
        per_byte = per_byte * _ratio(back @ (weight * _ratio(held, sent @ per_byte)), whole)
    share = sparse.diags_array(_ratio(held, sent @ per_byte))
    waits = sparse.csr_array(share @ sent @ sparse.diags_array(per_byte))
    longest = (sent + waits).max(axis=0).toarray().ravel()
    part = np.minimum(1.0, _ratio(busy + held, longest, 1.0))
    root = _ratio(busy, busy + held)
    return _Cause(waits.sum(axis=0) * root, per_byte, part, waits.max(axis=0).toarray().ravel(), waits)


def _suspects(fabric: Fabric, cause: _Cause, draws: list[_Cause]) -> list[Suspect]:
    """Return the links and channels that others waited for, the worst first."""
    peer = np.where(fabric.peer >= 0, fabric.peer, np.arange(fabric.n_ports))

    def slow(one: _Cause) -> NDArray[np.bool_]:
        return (one.part < SLOW) & (one.longest > WAITED)

    is_slow = slow(cause)
    weight = cause.caused + np.where(is_slow | is_slow[peer], cause.caused[peer], 0.0)
    named = np.flatnonzero((cause.longest > WAITED) & (is_slow | ~is_slow[peer]))
    suspects = []
    for port in named[np.argsort(-weight[named], kind="stable")].tolist():
        ports, kind = [port], "channel" if is_slow[port] else "collision"
        if is_slow[port] and is_slow[peer[port]]:
            if (cause.caused[peer[port]], port) > (cause.caused[port], peer[port]):
                continue
            ports, kind = [port, int(peer[port])], "link"
        part = float(cause.part[ports].min())
        same = sum(
            bool((slow(one)[ports] == is_slow[port]).any())
            and one.longest[ports].max() > WAITED
            and ALIKE * one.caused[ports].sum() > weight[named].max()
            for one in draws
        )
        sure = float(same / (len(draws) + 1) * (part >= HARDLY))
        column = cause.waits[:, ports].sum(axis=1)
        waited = np.flatnonzero(column > WAITED / 2)
        suspects.append(Suspect(kind, (port,), part, sure, tuple(waited[np.argsort(-column[waited])].tolist())))
    return suspects
