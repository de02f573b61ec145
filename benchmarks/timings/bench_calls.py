"""What it costs that kernels of the simulation return now and then: CPU time of a call without events, beside one with.

    python benchmarks/timings/bench_calls.py

100,000 flows of random sizes between random hosts begin at random times of a second, or of 10 ms as packets. Calls that
play nothing are timed, and calls of the length that the engines use, in turn, so that a busy machine slows both. The
medians are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
from fluid_loads import zone

from simulate import Flows, Fluid, PacketModel, Packets
from simulate.engines.fluid import events
from simulate.engines.fluid.engine import EVENTS_A_CALL
from simulate.engines.packets import steps
from simulate.engines.packets.engine import INSTANTS_A_CALL

CALLS = 100


def compare(name: str, length: int, call: Callable[[int], object]) -> None:
    """Print what a call costs, as a share of what it plays."""
    seconds = {0: [], length: []}
    for _ in range(CALLS):
        for given, repeats in ((0, 100), (length, 1)):
            begin = process_time()
            for _ in range(repeats):
                call(given)
            seconds[given].append((process_time() - begin) / repeats)
    empty, full = (float(np.median(found)) for found in seconds.values())
    print(f"{name} = {length:,}: {1e6 * empty:.1f} us of {1e3 * full:.2f} ms, {empty / full:.2%}")


def main() -> None:
    """Compare both engines."""
    network = zone()
    rng = np.random.default_rng(0)
    ends = network.fabric.ends(role="compute")
    src, dst = rng.choice(ends, (2, 100_000))
    size, start_s = rng.integers(2**16, 2**24, len(src)), rng.random(len(src))
    fluid = Fluid(network)
    fluid.begin_all(Flows.of(src, dst, size, start_s=start_s))
    compare("EVENTS_A_CALL", EVENTS_A_CALL, lambda n: events.advance(fluid._state, np.inf, n, False))
    packets = Packets(network, PacketModel())
    packets.begin_all(Flows.of(src, dst, size / 100, start_s=start_s / 100))

    def run(length: int) -> int:
        if length:
            return packets._run(2**61, stop_at_end=False)  # which also makes room for packets
        return int(steps.run(packets._rules, packets._state, 2**61, 0, False))

    compare("INSTANTS_A_CALL", INSTANTS_A_CALL, run)


if __name__ == "__main__":
    main()
