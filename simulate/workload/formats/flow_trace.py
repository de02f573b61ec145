"""Every flow of a simulation, a row each: as CSV, or as Parquet where pyarrow is installed."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.engines.outcome import Outcome
from simulate.workload.place import Workload
from topo.errors import HeddleError
from topo.files.csv import format_cell

COLUMNS = ("job", "step", "src", "dst", "bytes", "sl", "lane", "start_s", "finish_s", "bottleneck")
"""Job; step in a collective or tag in a trace; names of the end ports; size; service level; virtual lane; begin and
end; the channel that held the flow back when it ended, empty for a flow that crosses none."""

ROWS = 100_000
"""Rows of a chunk of CSV, and of a row group of Parquet."""


def format_trace_csv(workload: Workload, outcome: Outcome) -> Iterator[bytes]:
    """Yield the flows as CSV in the order of the workload, some rows at a time.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> flows = simulate.Flows.of(hosts[0], hosts[1], 1e6, start_s=0.5)
    >>> played = simulate.play(routed, simulate.workload.bare_flows(flows, "mine"))
    >>> print(b"".join(simulate.workload.format_trace_csv(played.workload, played.outcome)).decode().splitlines()[1])
    flows,0,gpu00 mlx5_0,gpu01 mlx5_0,1000000.0,0,0,0.5,0.500042788,gpu00 mlx5_0:1 -> leaf0:1
    """
    jobs, ends, channels = _names(workload, outcome)
    jobs = [format_cell(name) for name in jobs]
    ends = {end: format_cell(name) for end, name in ends.items()}
    limits = {channel: format_cell(name) for channel, name in channels.items()}
    yield (",".join(COLUMNS) + "\n").encode()
    for first in range(0, len(workload.flows), ROWS):
        part = slice(first, first + ROWS)
        values = [column.tolist() for column in _numbers(workload, outcome, part)]
        rows = (
            f"{jobs[job]},{step},{ends[src]},{ends[dst]},{size},{sl},{lane},{start},{finish},{limits.get(limit, '')}\n"
            for job, step, src, dst, size, sl, lane, start, finish, limit in zip(*values, strict=True)
        )
        yield "".join(rows).encode()


def check_parquet() -> None:
    """Refuse to go on when Parquet cannot be written.

    Raises
    ------
    HeddleError
        When pyarrow is not installed.

    Examples
    --------
    >>> import simulate
    >>> simulate.workload.check_parquet()  # doctest: +SKIP
    """
    if find_spec("pyarrow") is None:
        raise HeddleError(
            "Parquet needs pyarrow, which is not installed: pip install 'heddle-fabric[parquet]', or name a .csv file"
        )


def format_trace_parquet(workload: Workload, outcome: Outcome) -> bytes:
    """Return the flows as a Parquet file; names are dictionaries, so that each is kept once.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> flows = simulate.Flows.of(hosts[0], hosts[1], 1e6, start_s=0.5)
    >>> played = simulate.play(routed, simulate.workload.bare_flows(flows, "mine"))
    >>> data = simulate.workload.format_trace_parquet(played.workload, played.outcome)  # doctest: +SKIP
    """
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    jobs, ends, channels = _names(workload, outcome)
    columns = dict(zip(COLUMNS, _numbers(workload, outcome, slice(None)), strict=True))
    arrays = {name: pa.array(column) for name, column in columns.items()}
    for name, texts in (("job", dict(enumerate(jobs))), ("src", ends), ("dst", ends), ("bottleneck", channels)):
        keys = np.array(sorted(texts), np.int64)
        found = np.searchsorted(keys, columns[name])
        known = columns[name] >= 0
        index = pa.array(np.where(known, found, 0).astype(np.int32), mask=~known)
        values = pa.array([texts[key] for key in keys.tolist()], pa.string())
        arrays[name] = pa.DictionaryArray.from_arrays(index, values)
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink, row_group_size=ROWS, compression="zstd")
    return sink.getvalue()


def _names(workload: Workload, outcome: Outcome) -> tuple[list[str], dict[int, str], dict[int, str]]:
    """Return the names of the jobs, of the end ports and of the bottlenecks that occur."""
    if outcome.rounds is not None:
        raise HeddleError("one round was played for all: there is no trace of every flow; take fewer ranks")
    limits = np.unique(outcome.bottleneck)
    channels = {limit: outcome.network.resource_label(limit) for limit in limits[limits >= 0].tolist()}
    return [job.spec.name for job in workload.jobs], outcome.end_names(), channels


def _numbers(workload: Workload, outcome: Outcome, part: slice) -> list[NDArray[Any]]:
    """Return the columns of some flows, with numbers in place of names."""
    flows, routes, network = workload.flows, outcome.routes, outcome.network
    src, dst, sl = flows.src[part], flows.dst[part], flows.sl[part]
    first = workload.job[part], flows.tag[part], src, dst, flows.size_bytes[part]
    then = outcome.start_s[part], outcome.finish_s[part], outcome.bottleneck[part]
    return [*first, network.levels(src, dst, sl), routes.lane[routes.route[part]], *then]
