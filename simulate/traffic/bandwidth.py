"""Bandwidth of a collective as the field reports it: algorithm bandwidth and bus bandwidth."""

from __future__ import annotations

from topo.errors import HeddleError


def algorithm_gbytes_per_s(size_bytes: float, time_s: float) -> float:
    """Return size over time in GB/s (10^9 bytes), the ``algbw`` of nccl-tests.

    Parameters
    ----------
    size_bytes
        The largest buffer that a rank holds: the data of one rank for allreduce, reduce, broadcast and all-to-all, the
        input of reduce-scatter, the result of all-gather (nccl-tests counts so too).
    """
    if time_s <= 0:
        raise HeddleError(f"found a time of {time_s} s; bandwidth needs a time above 0")
    return size_bytes / time_s / 1e9


def bus_factor(collective: str, n_ranks: int) -> float:
    """Return what turns algorithm bandwidth into bus bandwidth (nccl-tests, ``doc/PERFORMANCE.md``).

    Bus bandwidth is the same for any number of ranks when each link carries what it can: an allreduce must move
    ``2 (n - 1) / n`` of the buffer through each rank's link, the other collectives ``(n - 1) / n`` or all of it. A
    pipeline counts as nccl-tests count ``sendrecv``.

    Raises
    ------
    HeddleError
        When the collective has no such factor.
    """
    if n_ranks < 1:
        raise HeddleError(f"found {n_ranks} ranks; expected at least one")
    part = (n_ranks - 1) / n_ranks
    factors = {
        "allreduce": 2 * part,
        "reduce-scatter": part,
        "all-gather": part,
        "all-to-all": part,
        "broadcast": 1.0,
        "reduce": 1.0,
        "pipeline": 1.0,
    }
    if collective not in factors:
        raise HeddleError(f"found the collective {collective!r}; bus bandwidth is defined for {', '.join(factors)}")
    return factors[collective]


def bus_gbytes_per_s(collective: str, n_ranks: int, size_bytes: float, time_s: float) -> float:
    """Return the ``busbw`` of nccl-tests in GB/s: what a link carries, to compare with its rate."""
    return algorithm_gbytes_per_s(size_bytes, time_s) * bus_factor(collective, n_ranks)
