"""SimPy processes on a network that can be stopped and resumed, with the same results to the last bit.

Processes of SimPy cannot be saved. But all that they learn from the network is which transfers have ended when; and
they do the same again when they are told the same. So a saved run holds the ends of all transfers until it was stopped,
and the network as it was then. To go on, the processes are run from the beginning without a network, which is quick,
and are told the ends; then the network takes over.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from simulate.engines.base import Finished
from simulate.engines.fluid.engine import Fluid
from simulate.engines.simpy_bridge import NetworkEnvironment
from simulate.traffic.network import Network
from topo.errors import HeddleError

UNFIT = "a saved run does not fit its processes; go on with those that it was saved from"

Arrays = dict[str, NDArray[Any]]


class ResumableEnvironment(NetworkEnvironment):
    """A `NetworkEnvironment` that gives `snapshot` between two steps, and goes on from one.

    Its processes must do the same whenever they are told the same: randomness from seeded generators of their own, no
    clocks, no files. It must be run with `step` alone: ``run(until=...)`` adds steps of its own.

    Parameters
    ----------
    saved
        A snapshot of a run of the same processes on the same network, from a file of your own.

    Raises
    ------
    HeddleError
        When it was saved of another network, or by another version.
    """

    engine: Fluid

    def __init__(self, network: Network, saved: Arrays | None = None) -> None:
        super().__init__(network, make=partial(Fluid, aggregate_from=0), keep=False)  # it plays the same, saved or not
        self._n_steps = 0
        self._ends: list[tuple[int, int, int, float, float, int]] = []
        """Step, transfer, and the last flow's `Finished`."""
        self._saved = saved
        self._announced = 0
        """Saved ends that have been announced to the processes."""
        if saved is not None:
            if not np.array_equal(saved.get("run.network", np.zeros(0)), _digest(network)):
                raise HeddleError(
                    "a saved run is of another fabric, or of other tables; continue with its own fabric and tables"
                )
            try:
                whole, real = saved["run.whole"], saved["run.real"]
                self._resume_at = int(saved["run.steps"][0])
            except KeyError as error:
                raise HeddleError(f"a saved run has no {error}; it was saved by another version") from None
            ends = zip(whole.tolist(), real.tolist(), strict=True)
            self._ends = [(a, b, c, x, y, d) for (a, b, c, d), (x, y) in ends]

    @property
    def replaying(self) -> bool:
        """Whether the processes are still replaying what was saved."""
        return self._saved is not None

    @property
    def replayed(self) -> float:
        """The part of the saved run that has been replayed."""
        return 1.0 if self._saved is None else self._n_steps / max(self._resume_at, 1)

    def step(self) -> None:
        """Process the next event, after what the network does before it."""
        super().step()
        self._n_steps += 1

    def snapshot(self) -> Arrays:
        """Return all that is needed to resume from here, once what was saved has been replayed."""
        self._catch_up()
        if self._saved is not None:
            raise HeddleError("a run that still catches up cannot be saved; the saved one holds as much")
        return {
            "run.network": _digest(self.network),
            "run.steps": np.array([self._n_steps]),
            "run.whole": np.array([(*end[:3], end[5]) for end in self._ends], np.int64).reshape(-1, 4),
            "run.real": np.array([end[3:5] for end in self._ends], np.float64).reshape(-1, 2),
            "run.next": np.array([self._next_s]),
            "run.transfer": np.array(list(self._transfer.items()), np.int64).reshape(-1, 2),
            "run.left": np.array(list(self._left.items()), np.int64).reshape(-1, 2),
            **self.engine.snapshot(),
        }

    def _start(self, begin: Callable[[float], range]) -> simpy.Event:
        if self._saved is None:
            return super()._start(begin)
        arrival = self.event()
        self._arrival.append(arrival)
        return arrival

    def _advance(self) -> None:
        self._catch_up()
        if self._saved is None:
            super()._advance()
        elif not self._queue:
            raise HeddleError(UNFIT)

    def _catch_up(self) -> None:
        """Announce the transfers that ended before this step; let the network take over after the last."""
        if self._saved is None:
            return
        done: list[tuple[int, Finished]] = []
        while self._announced < len(self._ends) and self._ends[self._announced][0] == self._n_steps:
            _, number, flow, start_s, finish_s, bottleneck = self._ends[self._announced]
            if number >= len(self._arrival) or self._arrival[number] is None:
                raise HeddleError(UNFIT)
            if done and done[0][1].finish_s != finish_s:  # another instant
                super()._announce(done)
                done = []
            done.append((number, Finished(flow, start_s, finish_s, bottleneck)))
            self._announced += 1
        if done:
            super()._announce(done)
        if self._n_steps == self._resume_at:
            self._take_over(self._saved)

    def _announce(self, done: list[tuple[int, Finished]]) -> None:
        self._ends += [(self._n_steps, number, *finished) for number, finished in done]
        super()._announce(done)

    def _take_over(self, saved: Arrays) -> None:
        self.engine = Fluid.restored(self.network, saved)
        self._next_s = float(saved["run.next"][0])
        self._transfer = dict(saved["run.transfer"].tolist())
        self._left = dict(saved["run.left"].tolist())
        self._saved = None
        under_way = {number for number, arrival in enumerate(self._arrival) if arrival is not None}
        flows = Counter(self._transfer.values())
        if self._left != flows or not set(flows) <= under_way or sorted(self._transfer) != self.engine.numbers:
            raise HeddleError(UNFIT)


def _digest(network: Network) -> NDArray[np.uint8]:
    """Return (32,) SHA-256 of all that decides how flows move."""
    found = hashlib.sha256()
    for part in (network.fabric, network.tables, network.devices, network):
        for item in fields(part):
            value = getattr(part, item.name)
            if isinstance(value, np.ndarray):
                found.update(f"{item.name} {value.dtype.str} {value.shape}\n".encode())
                found.update(np.ascontiguousarray(value).tobytes())
            elif isinstance(value, (int, float, tuple)):
                found.update(f"{item.name} {value!r}\n".encode())
    return np.frombuffer(found.digest(), np.uint8)
