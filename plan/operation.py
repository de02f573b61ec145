"""``plan.operate``: a queue of jobs that trains on a fabric for hours or days, and can be stopped and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from plan.files import check_replaceable, check_writable, write_file, write_folder
from plan.inputs import Hashing, RoutingFiles, catalog_of, find_preset, path_of, read_paths_argument, subnets_of
from plan.pipeline import Progress, silent
from routing import Hashed
from simulate import Network
from simulate.cluster import ClusterRun, draw_run, format_saved_run, read_queue, read_saved_run
from topo import HeddleError, Shown, Table

SAVING = 0.05
"""The most of the time that saving now and then may take."""


@dataclass(frozen=True, eq=False)
class Operated(Shown):
    """What `operate` returns: the run, and whether it came to its end."""

    run: ClusterRun
    finished: bool
    notes: tuple[str, ...]
    """What was skipped in what was read."""

    @property
    def table(self) -> Table:
        """Jobs, one a row."""
        return self.run.table

    def to_dict(self) -> dict[str, Any]:
        """Return what ``operate.json`` holds."""
        run, classes = self.run, self.run.link_classes
        label = run.env.network.fabric.channel_label
        return {
            "time_s": run.now_s,
            "stopped": not self.finished,
            "utilisation": run.utilisation,
            "jobs": [job.to_dict() for job in run.records],
            "links": None if classes is None else [item.to_dict(label(item.hottest)) for item in classes],
        }


def operate(
    fabric: str | Path,
    queue: str = "day",
    *,
    hours: float = 24.0,
    placement: str | None = None,
    state: str | Path | None = None,
    save_every_s: float = 60.0,
    given: RoutingFiles | None = None,
    hashing: Hashing | None = None,
    seed: int = 0,
    output: str | Path | None = None,
    step: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Operated:
    """Play a queue of training jobs on a routed fabric.

    Parameters
    ----------
    fabric : str or Path
        A spec, a folder of a plan, or a real fabric with its tables.
    queue : str
        A YAML file, or the name of a preset.
    hours : float
        Simulated time; the run ends earlier when all jobs have ended.
    placement : str, optional
        Policy that places jobs, instead of the queue's.
    state : str or Path, optional
        File to resume from, if it exists, and to save to; the result of a resumed run is the same to the last bit.
    save_every_s : float
        Real time between two saves, longer where saving takes long.
    given : RoutingFiles, optional
        How the fabric is routed, and which subnets are played: all when none is named.
    hashing : Hashing, optional
        How its switches choose paths where no tables do, as on Ethernet.
    seed : int
        Of draws and failures, and of the hash.
    output : str or Path, optional
        Folder for the report, the figures, and the chart of jobs and failures.
    step, stop : callable
        Progress callback, called as ``step(message, done)``; asked whether to leave off.

    Raises
    ------
    HeddleError
        When a file cannot be read or must not be replaced, or a saved run is of another fabric or queue.

    Examples
    --------
    >>> import json, pathlib, plan, tempfile, topo
    >>> queue = pathlib.Path(tempfile.mkdtemp()) / "queue.yaml"
    >>> job = {"name": "one", "nodes": 8, "steps": 100, "forward": "0.1 s", "backward": "0.2 s", "gradients": "5 GB"}
    >>> _ = queue.write_text(json.dumps({"failures_a_node_day": 0, "jobs": [job]}))
    >>> plan.operate(topo.config_root() / "lab-20.yaml", str(queue), hours=0.001).run.now_s
    3.6
    """
    saving = None if state is None else Path(state)
    if saving is not None and not saving.is_dir():
        check_writable(saving)
    check_replaceable(output)
    queue_file = find_preset("queues", queue, "--queue")
    jobs = read_queue(queue_file, seed)
    if placement is not None:
        jobs = jobs.under(placement=placement)
    given = given or RoutingFiles()
    source = path_of(fabric)
    if given.subnet is None and len(subnets_of(source)) > 1:
        given = replace(given, subnet="*")
    routed = read_paths_argument(source, given, hashing or Hashing(), step)
    routed = routed.drawn(seed) if isinstance(routed, Hashed) else routed
    saved = read_saved_run(saving) if saving is not None and saving.exists() else None
    network = Network.of(routed, catalog=catalog_of(source))
    until_s, finished = hours * 3600.0, False
    try:
        run = ClusterRun(network, jobs, saved)

        def progress(now_s: float) -> None:
            replaying = run.env.replaying
            step("catching up" if replaying else "playing", run.env.replayed if replaying else now_s / until_s)

        due_s = [monotonic() + save_every_s]
        while not finished and not stop():
            finished = run.play(until_s, progress=progress, stop=lambda: stop() or monotonic() > due_s[0])
            begun_s = monotonic()
            if saving is not None and not run.env.replaying:  # else the file has gone further
                step("writing")
                write_file(saving, format_saved_run(run.save()))
            due_s[0] = monotonic() + max(save_every_s, (monotonic() - begun_s) / SAVING)
    except HeddleError as error:
        if saving is None or not str(error).startswith("a saved"):
            raise
        raise HeddleError(f"{saving}: {error}") from None
    operated = Operated(run, finished, routed.fabric.notes)
    if output is not None:
        from plan.report.document import Report, run_page  # which most runs do without
        from plan.report.page import format_report

        step("writing")
        files = {
            "report.html": format_report(Report([], [run_page(run, queue_file.stem)])),
            "operate.json": json.dumps(operated.to_dict(), indent=2) + "\n",
            "jobs.csv": run.table.to_csv(),
            "timeline.svg": draw_run(run).svg,
        }
        write_folder(Path(output), files)
    return operated
