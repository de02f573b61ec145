"""Collectives by name: the registry of algorithms, and the flows of one among hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives import steps, trees
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.trees import SHARP
from simulate.traffic.flows import EAGER_BYTES, Flows, bytes_of
from simulate.traffic.goal.schedule import Goal, flows_of_goal
from simulate.traffic.goal.text import read_goal
from simulate.traffic.graph import repeated
from simulate.traffic.placement import GROUPS
from topo.budget import FLOWS
from topo.errors import HeddleError, did_you_mean, plural, whole
from topo.fabric import Fabric, frozen
from topo.graphs import double_binary_tree
from topo.table import Brief

GROUP = "heddle.collectives"
"""Entry points of distributions that bring algorithms of their own: ``allreduce/NAME``, and the function."""

Algorithm = Callable[[int, int, ArrayLike], Schedule]
"""A function of the number of ranks, of the pieces in which a block travels, and of the (n_ranks,) zone, leaf or host
of each rank, which returns the messages; one that cannot take them raises `HeddleError`. It need not use the last two.
"""

ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "allreduce": {
        "ring": lambda n, chunks, groups: steps.ring_allreduce(n, chunks),
        "halving-doubling": lambda n, chunks, groups: steps.halving_doubling_allreduce(n),
        "double-binary-tree": lambda n, chunks, groups: trees.tree_allreduce(double_binary_tree(n), chunks),
        "zone-tree": lambda n, chunks, groups: trees.tree_allreduce(trees.zone_trees(groups), chunks),
        "hierarchical": lambda n, chunks, groups: steps.hierarchical_allreduce(groups, chunks),
    },
    "reduce-scatter": {
        "ring": lambda n, chunks, groups: steps.ring_reduce_scatter(n, chunks),
        "recursive-halving": lambda n, chunks, groups: steps.recursive_halving_reduce_scatter(n),
    },
    "all-gather": {
        "ring": lambda n, chunks, groups: steps.ring_all_gather(n, chunks),
        "recursive-doubling": lambda n, chunks, groups: steps.recursive_doubling_all_gather(n),
    },
    "broadcast": {
        "ring": lambda n, chunks, groups: trees.tree_broadcast([trees.chain_tree(n)], chunks),
        "double-binary-tree": lambda n, chunks, groups: trees.tree_broadcast(trees.two_trees_below(n, 0), chunks),
    },
    "reduce": {
        "ring": lambda n, chunks, groups: trees.tree_reduce([trees.chain_tree(n)], chunks),
        "double-binary-tree": lambda n, chunks, groups: trees.tree_reduce(trees.two_trees_below(n, 0), chunks),
    },
    "all-to-all": {"shift": lambda n, chunks, groups: steps.shift_all_to_all(n)},
    "pipeline": {
        "forward": lambda n, chunks, groups: steps.pipeline(n, chunks, backward=False),
        "forward-backward": lambda n, chunks, groups: steps.pipeline(n, chunks),
    },
}
"""Algorithms by collective and name, the default first: Heddle's own, and those that `register` adds."""

BUILT_IN = frozenset((kind, name) for kind, by_name in ALGORITHMS.items() for name in by_name)
"""Heddle's own algorithms, by collective; all others are checked whenever they are called."""

GROUPED = ("zone-tree", "hierarchical")
"""Algorithms that need to know the zone, leaf or host of each rank."""

WHOLE_BLOCKS = ("halving-doubling", "recursive-halving", "recursive-doubling", "shift")
"""Algorithms that send a block at once, however many chunks are asked for."""

ROUNDS = ("ring", "shift")
"""Algorithms whose rounds send one message of each rank, all of one size."""

PIPELINE_CHUNKS = 64
"""Chunks of `default_chunks` where a rank passes on what it has received while the rest is on its way."""

MOST_CHECKED = 1 << 24
"""Blocks of all ranks up to which an algorithm from outside is played on numbers: 128 MB."""

Group = Literal["leaf", "zone"]


def register(kind: str, name: str, algorithm: Algorithm) -> None:
    """Register an algorithm of a collective, which workloads, training and traces can then name.

    An entry point of the group ``heddle.collectives`` called ``KIND/NAME`` registers a function of another
    distribution, also for the command.

    Parameters
    ----------
    kind, name
        Name of the collective, one of `ALGORITHMS`, and of the algorithm.
    algorithm
        Called as ``algorithm(n_ranks, chunks, groups)``; returns a `Schedule`. Whenever it is called, its messages are
        played on numbers, so that what does not make the collective is refused. In the end rank r has block r of equal
        parts of the buffer in a reduce-scatter, and brought it in an all-gather; rank 0 is the root.

    Raises
    ------
    HeddleError
        When there is no such collective, or the name is taken.

    Examples
    --------
    An allreduce in which rank 0 sums what all others send, and sends them the sum:

    >>> import numpy as np, topo, routing, simulate
    >>> def star(n_ranks, chunks, groups):
    ...     others = np.arange(1, n_ranks)
    ...     number = np.arange(len(others))
    ...     return simulate.traffic.Schedule.of(
    ...         n_ranks, 1,
    ...         src=np.concatenate([others, 0 * others]), dst=np.concatenate([0 * others, others]), block=0,
    ...         reduce=np.repeat([True, False], len(others)), step=np.repeat([0, 1], len(others)),
    ...         after=[(len(others) + number[:, None], number[None, :])],
    ...     )
    >>> simulate.traffic.register("allreduce", "star", star)
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> f"{simulate.play(routed, simulate.allreduce(hosts, '186 MiB', 'star')).makespan_s * 1e3:.1f} ms"
    '234.0 ms'
    >>> del simulate.traffic.ALGORITHMS["allreduce"]["star"]
    """
    if not callable(algorithm):
        raise HeddleError(f"found the algorithm {algorithm!r:.60}; expected a function of n_ranks, chunks and groups")
    if kind not in ALGORITHMS:
        raise HeddleError(f"found the collective {kind!r}; expected one of {', '.join(ALGORITHMS)}")
    if name in ALGORITHMS[kind] or (kind, name) == ("allreduce", SHARP):
        raise HeddleError(f"found the name {name!r}, which an algorithm for {kind!r} has; expected another name")
    ALGORITHMS[kind][name] = algorithm


def _outside(point: EntryPoint) -> Algorithm:
    """Return an algorithm that another distribution brings; loaded at first use."""

    def load(n_ranks: int, chunks: int, groups: ArrayLike) -> Schedule:
        try:
            algorithm = cast(Algorithm, point.load())
        except Exception as error:
            raise HeddleError(f"the algorithm {point.name} ({point.value}) cannot be loaded: {error}") from error
        return algorithm(n_ranks, chunks, groups)

    return load


for _point in entry_points(group=GROUP):
    _kind, _, _name = _point.name.partition("/")
    register(_kind, _name, _outside(_point))


def default_chunks(collective: str, algorithm: str) -> int:
    """Return the chunks of an algorithm where none are given: `PIPELINE_CHUNKS` of trees, broadcast and reduce; else 1.

    >>> from simulate.traffic.collectives.algorithms import default_chunks
    >>> default_chunks("allreduce", "ring"), default_chunks("broadcast", "ring")
    (1, 64)
    """
    pipelined = algorithm.endswith("tree") or algorithm == SHARP or collective in ("broadcast", "reduce")
    return PIPELINE_CHUNKS if pipelined else 1


def schedule(
    collective: str, algorithm: str, n_ranks: int, *, chunks: int | None = None, groups: ArrayLike | None = None
) -> Schedule:
    """Return the schedule of a collective by an algorithm of `ALGORITHMS`.

    Parameters
    ----------
    chunks
        Pieces in which a block travels, so that a rank passes on the first while it receives the second; micro-batches
        of a pipeline. Algorithms of halving and doubling, and all-to-all, send whole blocks. `default_chunks` when
        left out.
    groups : (n_ranks,)
        Zone, leaf or host of each rank, for ``zone-tree`` and ``hierarchical``; None is one group.
    """
    known = ALGORITHMS.get(collective)
    if known is None or algorithm not in known:
        found = f"the collective {collective!r}" if known is None else f"the algorithm {algorithm!r} for {collective!r}"
        hint = did_you_mean(collective, ALGORITHMS) if known is None else did_you_mean(algorithm, known)
        expected = ", ".join(ALGORITHMS if known is None else known)
        raise HeddleError(f"found {found}; expected one of {expected}. {hint}".strip())
    chunks = default_chunks(collective, algorithm) if chunks is None else chunks
    if n_ranks < 1 or chunks < 1:
        raise HeddleError(f"found {n_ranks} ranks and {chunks} chunks; expected at least one of each")
    most = _most_messages(collective, algorithm, n_ranks, chunks)
    if most > FLOWS.limit:
        raise HeddleError(
            f"{collective} by {algorithm} of {n_ranks:,} ranks in {chunks:,} chunks has some {most:,} messages; "
            f"expected {FLOWS}"
        )
    groups = [0] * n_ranks if groups is None else groups
    if (collective, algorithm) in BUILT_IN:
        return known[algorithm](n_ranks, chunks, groups)
    return _checked(collective, algorithm, known[algorithm], n_ranks, chunks, groups)


def _checked(
    collective: str, name: str, algorithm: Algorithm, n_ranks: int, chunks: int, groups: ArrayLike
) -> Schedule:
    """Return what an algorithm from outside makes, played on numbers: two orders that its waits allow must be right.

    HeddleError when it fails, or its messages do not make the collective. More than `MOST_CHECKED` blocks of all ranks
    are not played.
    """
    try:
        made = algorithm(n_ranks, chunks, groups)
    except HeddleError:
        raise
    except Exception as error:
        raise HeddleError(f"the algorithm {name} of {collective} fails: {type(error).__name__}: {error}") from error
    made, n = Schedule.checked(made, n_ranks, name), n_ranks
    each, odd = divmod(made.n_blocks, max(n, 1))
    if odd and collective in ("reduce-scatter", "all-gather", "all-to-all"):
        raise HeddleError(f"{name} has {made.n_blocks} blocks; {collective} needs as many for each of {n} ranks")
    for seed in range(2 if made.n_blocks * n <= MOST_CHECKED else 0):
        rng = np.random.default_rng(seed)
        start = rng.integers(-1000, 1000, (n, made.n_blocks)).astype(np.float64)
        end, rank, block = made.played(start, rng), np.arange(n)[:, None], np.arange(made.n_blocks)
        total, owner = start.sum(axis=0), block // max(each, 1)
        match collective:
            case "allreduce":
                wrong = end != total
            case "reduce-scatter":
                wrong = (owner == rank) & (end != total)
            case "all-gather":
                wrong = end != start[owner, block]
            case "broadcast":
                wrong = end != start[0]
            case "reduce":
                wrong = (end != total) & (rank == 0)
            case "all-to-all":
                wrong = end != start.reshape(n, n, each).transpose(1, 0, 2).reshape(n, -1)
            case _:  # a pipeline: what goes forward
                wrong = (rank == n - 1) & (block < chunks) & (end != start[0])
        for at, where in np.argwhere(wrong)[:1].tolist():
            raise HeddleError(
                f"{name} is no {collective}: block {where} of rank {at} is wrong in the end, as the messages, their "
                "`reduce` and what they wait for say; add what is missing"
            )
    return made


def _most_messages(collective: str, algorithm: str, n_ranks: int, chunks: int) -> int:
    """Return an upper bound, which is exact for the collectives that have a `Collective.first_round`."""
    if algorithm in WHOLE_BLOCKS and algorithm not in ROUNDS:
        return 2 * n_ranks * n_ranks.bit_length()
    if algorithm.endswith("tree") or collective in ("broadcast", "reduce", "pipeline"):
        return 4 * n_ranks * chunks
    rounds = (n_ranks - (algorithm in ROUNDS)) * (1 if algorithm in WHOLE_BLOCKS else chunks)
    return n_ranks * rounds * (2 if collective == "allreduce" else 1)


def groups_of(fabric: Fabric, ends: ArrayLike, algorithm: str, group: Group | None = None) -> NDArray[np.integer]:
    """Return the zone or leaf of each end port: leaves for ``hierarchical`` and zones for others, unless asked for."""
    return GROUPS[group or ("leaf" if algorithm == "hierarchical" else "zone")](fabric, ends)


@dataclass(frozen=True, eq=False)
class Collective(Brief):
    """A collective among hosts. It becomes flows on a fabric, which knows the zones and leaves of the hosts."""

    _made_by = "`simulate.allreduce(hosts, size)`"

    kind: str
    """``allreduce``, ``reduce-scatter``, ``all-gather``, ``broadcast``, ``reduce``, ``all-to-all`` or ``pipeline``."""
    hosts: NDArray[np.int32]
    """(n_ranks,) end port of each rank."""
    size_bytes: float
    """Largest buffer that a rank holds."""
    algorithm: str
    chunks: int = 1
    group: Group | None = None
    repeat: int = 1
    compute_s: float = 0.0
    """Computation of each rank before each repetition."""
    eager_bytes: float = EAGER_BYTES
    """Larger messages wait until their receiver begins the round."""
    every_switch: bool = False
    """Whether every switch adds up for ``sharp``, and not those alone whose aggregation node the fabric names."""
    source: Algorithm | Goal | None = None
    """What makes the messages; None for the registered algorithm of that name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", frozen(np.asarray(self.hosts, np.int32).ravel()))

    def _brief(self) -> str:
        chunks = f" in {self.chunks} chunks" if self.chunks > 1 else ""
        who = f"among {plural(len(self.hosts), 'host')} by {self.algorithm}"
        return f"{self.kind} of {self.size_bytes:.4g} bytes {who}{chunks}"

    @property
    def messages(self) -> int:
        """Messages of all repetitions: exactly for the algorithms of `ROUNDS`, and at most for others."""
        return self.repeat * _most_messages(self.kind, self.algorithm, len(self.hosts), self.chunks)

    @property
    def is_too_large(self) -> bool:
        """Whether it has more messages than can be played, in rounds that may be alike."""
        alike = self.source is None and self.algorithm in ROUNDS and self.kind not in ("broadcast", "reduce")
        return alike and not self.compute_s and self.messages > FLOWS.limit

    def first_round(self, fabric: Fabric) -> Flows:
        """Return the first round of a ring or an all-to-all as flows between end ports."""
        self._check_hosts(fabric)
        shift = self.algorithm == "shift"
        size = self.size_bytes / len(self.hosts) / (1 if shift else self.chunks)
        asks = shift and size > self.eager_bytes
        return Flows.of(self.hosts, np.roll(self.hosts, -1), size, rendezvous=asks)

    def schedule(self, fabric: Fabric) -> Schedule:
        """Return the messages between ranks, once."""
        if self.algorithm == SHARP:
            tree, ends = self._in_network(fabric)
            if (most := 2 * len(ends) * self.chunks) > FLOWS.limit:
                raise HeddleError(f"{len(ends):,} ranks and switches send some {most:,} chunks; expected {FLOWS}")
            return trees.tree_allreduce([tree], self.chunks)
        groups = groups_of(fabric, self.hosts, self.algorithm, self.group)
        if callable(self.source):
            return _checked(self.kind, self.algorithm, self.source, len(self.hosts), self.chunks, groups)
        return schedule(self.kind, self.algorithm, len(self.hosts), chunks=self.chunks, groups=groups)

    def _check_hosts(self, fabric: Fabric) -> None:
        odd = (self.hosts < fabric.n_switches) | (self.hosts >= fabric.n_end_ports)
        if odd.any() or len(np.unique(self.hosts)) < len(self.hosts):
            first = int(self.hosts[odd][0]) if odd.any() else "one twice"
            raise HeddleError(
                f"found {first} among the hosts of {self.kind}; expected different end ports of adapters, "
                f"{fabric.n_switches} to {fabric.n_end_ports - 1}, such as fabric.ends(role='compute') returns"
            )

    def flows(self, fabric: Fabric) -> Flows:
        """Return the flows between the end ports of a fabric, all repetitions one after another."""
        self._check_hosts(fabric)
        return self.between_ranks(fabric).placed(self.ends(fabric))

    def between_ranks(self, fabric: Fabric, messages: Schedule | None = None) -> Flows:
        """Return the flows between ranks; ``messages`` is what `schedule` returns, where it is at hand."""
        if isinstance(self.source, Goal):
            once = flows_of_goal(self.source, self.eager_bytes)
        else:
            once = (messages or self.schedule(fabric)).flows(self.size_bytes, self.eager_bytes)
        once = once.waiting_first(self.compute_s)
        return repeated(once, self.repeat) if len(once) else once

    def ends(self, fabric: Fabric) -> NDArray[np.int32]:
        """Return the end port of each rank, and of the switches that add up for ``sharp`` behind them."""
        return self._in_network(fabric)[1] if self.algorithm == SHARP else self.hosts

    def _in_network(self, fabric: Fabric) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return trees.aggregation_tree(fabric, self.hosts, every_switch=self.every_switch)


def collective(
    kind: str,
    hosts: ArrayLike,
    size: float | str,
    algorithm: str | Algorithm | Path | None = None,
    *,
    chunks: int | None = None,
    group: Group | None = None,
    repeat: int = 1,
    every_switch: bool = False,
) -> Collective:
    """Return a collective among hosts, to be played on a network.

    Parameters
    ----------
    kind
        ``allreduce``, ``reduce-scatter``, ``all-gather``, ``broadcast``, ``reduce``, ``all-to-all`` or ``pipeline``.
    hosts : (n_ranks,)
        End port of each rank, such as ``fabric.ends(role="compute")``.
    size
        Largest buffer that a rank holds: a number of bytes, or text such as ``"186 MiB"``.
    algorithm
        Name of a registered algorithm of the collective; a function, as `simulate.traffic.register` takes it; or the
        path of a GOAL schedule that was written for a buffer of this size, text or (``.bin``) binary. By default the
        first registered one, which is the ring where there is one.
    chunks
        Pieces in which a block travels; by default 64 for trees, broadcast and reduce, and 1 for others.
    group
        Groups of ``zone-tree`` and ``hierarchical``: ``"zone"`` or ``"leaf"``. By default zones for the one, leaves
        for the other.
    every_switch
        Whether every switch adds up for ``sharp``, where the fabric names no aggregation nodes, such as that of a spec.

    Returns
    -------
    Collective
        Its method ``flows(fabric)`` returns the flows; `simulate.play` does so.

    Raises
    ------
    HeddleError
        When there is no such algorithm, the size is none, or a GOAL schedule has another number of ranks.
    FormatError
        When the GOAL schedule cannot be read, with the line.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> gather = simulate.collective("all-gather", hosts, "8 MiB")
    >>> gather.algorithm, len(gather.flows(fabric))
    ('ring', 240)
    """
    algorithms = ALGORITHMS.get(kind, {})
    source = read_goal(algorithm) if isinstance(algorithm, Path) else algorithm if callable(algorithm) else None
    name = getattr(algorithm, "name" if isinstance(source, Goal) else "__name__", "") if source else algorithm
    name = str(name or next(iter(algorithms), ""))
    if not algorithms or (source is None and name not in algorithms and (kind, name) != ("allreduce", SHARP)):
        schedule(kind, name, 1)  # raises, with the names that there are
    size = bytes_of(size) if isinstance(size, str) else size
    number = np.asarray(size)
    if number.shape or number.dtype.kind not in "iuf" or not 0 < size < np.inf:
        raise HeddleError(f"found the size {size!r:.60}; expected bytes, more than 0, or text such as '186 MiB'")
    repeat = whole("repeat", repeat, 1)
    chunks = (1 if source else default_chunks(kind, name)) if chunks is None else whole("chunks", chunks, 1)
    try:
        ranks = np.asarray(hosts)
        if ranks.ndim != 1 or (len(ranks) and ranks.dtype.kind not in "iu"):
            raise TypeError
        ranks = ranks.astype(np.int32)
    except (TypeError, ValueError, OverflowError):
        expected = "a list of end ports, such as fabric.ends(role='compute') returns"
        raise HeddleError(f"found hosts that are not end ports; expected {expected}") from None
    if isinstance(source, Goal) and source.n_ranks != len(ranks):
        raise HeddleError(f"{source.path}: found {plural(source.n_ranks, 'rank')}; expected {len(ranks)}, one a host")
    return Collective(kind, ranks, size, name, chunks, group, repeat, every_switch=every_switch, source=source)


def allreduce(hosts: ArrayLike, size: float | str, algorithm: str = "ring", *, chunks: int | None = None) -> Collective:
    """Return an allreduce among hosts, to be played on a network: the sum of all buffers at every rank.

    See `collective` for all else.

    Parameters
    ----------
    algorithm
        ``ring``, ``halving-doubling``, ``double-binary-tree``, ``zone-tree`` (one pair of ranks joins each zone to the
        next), ``hierarchical`` (within leaves, across them, within again) or ``sharp`` (switches add up; see
        `collective` for those of a spec).

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> len(simulate.allreduce(hosts, "186 MiB", "zone-tree").flows(fabric))
    3840
    """
    return collective("allreduce", hosts, size, algorithm, chunks=chunks)


def all_to_all(hosts: ArrayLike, size: float | str) -> Collective:
    """Return an all-to-all among hosts: every rank sends a different part of its buffer to every other rank.

    Examples
    --------
    >>> import simulate
    >>> simulate.all_to_all([20, 21, 22], "3 MB").size_bytes
    3000000
    """
    return collective("all-to-all", hosts, size)


def algorithm_gbytes_per_s(size_bytes: float, time_s: float) -> float:
    """Return size over time in GB/s (10^9 bytes), the ``algbw`` of nccl-tests.

    The size is the largest buffer that a rank holds: the input of a reduce-scatter, the result of an all-gather.
    """
    if time_s <= 0:
        raise HeddleError(f"found a time of {time_s} s; bandwidth needs a time above 0")
    return size_bytes / time_s / 1e9


def bus_factor(collective: str, n_ranks: int) -> float:
    """Return what turns algorithm bandwidth into bus bandwidth (nccl-tests, ``doc/PERFORMANCE.md``).

    Bus bandwidth is the same for any number of ranks when each link carries what it can: an allreduce must move
    ``2 (n - 1) / n`` of the buffer through each rank's link, the other collectives ``(n - 1) / n`` or all of it. A
    pipeline counts as nccl-tests count ``sendrecv``.
    """
    if n_ranks < 1:
        raise HeddleError(f"found {n_ranks} ranks; expected at least one")
    part = (n_ranks - 1) / n_ranks
    factors = {"allreduce": 2 * part} | dict.fromkeys(("reduce-scatter", "all-gather", "all-to-all"), part)
    factors |= dict.fromkeys(("broadcast", "reduce", "pipeline"), 1.0)
    if collective not in factors:
        raise HeddleError(f"found the collective {collective!r}; bus bandwidth is defined for {', '.join(factors)}")
    return factors[collective]


def bus_gbytes_per_s(collective: str, n_ranks: int, size_bytes: float, time_s: float) -> float:
    """Return the ``busbw`` of nccl-tests in GB/s: what a link carries, to compare with its rate."""
    return algorithm_gbytes_per_s(size_bytes, time_s) * bus_factor(collective, n_ranks)
