"""Times passes of a resident keeper, in seconds of CPU, without what OpenSM and its tools take.

python benchmarks/timings/bench_keeper.py            a small lab and Fire-Flyer 2: nothing to do, then single links
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from plan.keeping import Keeper
from plan.opensm_lab.ibsim import as_simulated
from routing.engines.base import route
from routing.opensm.lfts import format_lfts
from topo.cluster import preset
from topo.dumps.ibnetdiscover import format_ibnetdiscover

LINKS = 9


def measure(name: str, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of a pass with nothing to do, and the median of passes that repair one link."""
    routed = route(as_simulated(preset(name).fabric))
    fabric, now, file = routed.fabric, folder / "now", folder / "lfts"
    whole = format_lfts(fabric, routed.tables)
    switches = whole

    def reload() -> None:
        nonlocal switches
        switches = file.read_bytes()

    keeper = Keeper(routed, now, file, lambda: switches, reload, switch_life_s=0)

    def keep_s() -> float:
        begin = time.process_time()
        keeper.keep()
        return time.process_time() - begin

    now.write_text(format_ibnetdiscover(fabric), encoding="utf-8")
    keep_s()  # compiles
    idle, repairs = keep_s(), []
    for link in np.random.default_rng(1).choice(fabric.inner_links[:, 0], LINKS, replace=False):
        switches = whole
        now.write_text(format_ibnetdiscover(fabric.without(np.array([link]))), encoding="utf-8")
        repairs.append(keep_s())
    return idle, float(np.median(repairs))


def main() -> int:
    """Print a line for each cluster."""
    for name in ("lab-20", "fire-flyer-2"):
        with TemporaryDirectory() as folder:
            idle, repair = measure(name, Path(folder))
        print(f"{name}: {idle:.3f} s with nothing to do, {repair:.3f} s to repair a link (median of {LINKS})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
