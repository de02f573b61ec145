"""Traffic on hashed paths over several seeds of the hash: what jobs get is a distribution, and not one draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.hashed import DRAWS as DRAWS
from routing.hashed import Hashed
from routing.hashed import percentiles as percentiles
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.workload.place import Workload
from simulate.workload.play import JobResult, Make, Step, play
from topo.errors import HeddleError, plural
from topo.table import Shown, Table

FIGURES = {"makespan_s": ("makespan", "s"), "time_s": ("time", "s"), "bus_gbytes_per_s": ("busbw", "GB/s")}
"""Of all jobs, and of one: title and unit."""


@dataclass(frozen=True, eq=False)
class Draws(Shown):
    """What became of jobs, seed by seed."""

    seeds: tuple[int, ...]
    makespan_s: NDArray[np.float64]
    """(D,) when the last flow ended."""
    jobs: tuple[tuple[JobResult, ...], ...]
    """(D,) jobs of each draw; none where single flows were played."""

    def _brief(self) -> str:
        median, low, high = percentiles(self.makespan_s)
        return f"{plural(len(self.seeds), 'seed')} of the hash: {median:.4g} s (p5 {low:.4g}, p95 {high:.4g})"

    @property
    def median(self) -> int:
        """The seed of the draw whose makespan is the median."""
        return self.seeds[int(np.argsort(self.makespan_s, kind="stable")[(len(self.seeds) - 1) // 2])]

    def rows(self) -> list[tuple[str, str, tuple[float, float, float]]]:
        """Return what was drawn, its figure, and its median, fifth and 95th percentile."""
        found = [("all", "makespan_s", percentiles(self.makespan_s))]
        for number in range(len(self.jobs[0])):
            one = [jobs[number] for jobs in self.jobs]
            times = median, low, high = percentiles([job.time_s for job in one])
            found.append((one[0].name, "time_s", times))
            rate = {job.time_s: job.bus_gbytes_per_s for job in one if job.bus_gbytes_per_s is not None}
            if rate:  # of the same draws: the least rate is that of the longest time
                found.append((one[0].name, "bus_gbytes_per_s", (rate[median], rate[high], rate[low])))
        return found

    @property
    def table(self) -> Table:
        """Median, fifth and 95th percentile of times and bandwidths."""
        rows = [(job, *FIGURES[figure], *found) for job, figure, found in self.rows()]
        seeds = plural(len(self.seeds), "seed")
        title = f"over {seeds} of the hash; other tables are of seed {self.median}, which has the median makespan"
        names, digits = ("of", "figure", "unit", "median", "p5", "p95"), [""] * 3 + [".4g"] * 3
        return Table.of_rows(title, names, rows, digits)

    def to_dict(self) -> dict[str, Any]:
        """Return the percentiles, and the makespan of each seed, as plain values, ready for JSON."""
        figures: dict[str, dict[str, dict[str, float]]] = {}
        for job, figure, (median, low, high) in self.rows():
            figures.setdefault(job, {})[figure] = {"median": median, "p5": low, "p95": high}
        makespans = dict(zip(map(str, self.seeds), self.makespan_s.tolist(), strict=True))
        return {"median_seed": self.median, "makespan_s": makespans, "figures": figures}


def play_draws(
    on: Network | Hashed,
    traffic: Flows | Workload,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    engine: str | Make = "fluid",
    step: Step = lambda message, part: None,
) -> Draws:
    """Play traffic on hashed paths once for each of several seeds of the hash.

    Parameters
    ----------
    draws, seed
        Seeds, from ``seed`` on; one where switches spray, since all draws are alike there.

    Raises
    ------
    HeddleError
        When the paths are not hashed, no draw is asked for, or as `simulate.play`.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> hashed = routing.Hashed(topo.preset("lab-20").fabric)
    >>> hosts = hashed.fabric.ends(role="compute")
    >>> found = simulate.play_draws(hashed, simulate.all_to_all(hosts, "1 GB").flows(hashed.fabric))
    >>> median, low, high = simulate.workload.percentiles(found.makespan_s)
    >>> low < median < high
    True
    """
    network = on if isinstance(on, Network) else Network.of(on)
    hashed = network.tables
    if not isinstance(hashed, Hashed):
        raise HeddleError("found forwarding tables; expected paths by a hash, which has seeds: a `routing.Hashed`")
    if draws < 1:
        raise HeddleError(f"found {draws} draws; expected 1 or more")
    seeds = tuple(range(seed, seed + (draws if hashed.is_random else 1)))
    makespan: list[float] = []
    jobs: list[tuple[JobResult, ...]] = []
    for number, one in enumerate(seeds):

        def tell(message: str, part: float | None, number: int = number) -> None:
            step(f"seed {number + 1} of {len(seeds)}: {message}", part)

        drawn = replace(network, tables=hashed.drawn(one))
        if isinstance(traffic, Workload):
            simulation = play(drawn, traffic, engine=engine, n_bins=0, step=tell)
            makespan.append(simulation.makespan_s)
            jobs.append(simulation.jobs)
        else:
            makespan.append(play(drawn, traffic, engine=engine, step=tell).makespan_s)
            jobs.append(())
    return Draws(seeds, np.array(makespan), tuple(jobs))
