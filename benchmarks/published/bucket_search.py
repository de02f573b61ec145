"""A search for the bucket size of data-parallel training with the shortest step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from topo.errors import HeddleError


def search_bucket(
    step_s: Callable[[float], float], least_bytes: float, most_bytes: float, *, tries: int = 5, rounds: int = 3
) -> dict[float, float]:
    """Search the bucket size with the shortest step; return the steps that were tried, by bucket size, in order.

    Sizes in equal ratios are tried; then, round after round, as many between the neighbours of the best. Steps fall
    and rise with the bucket size, but not smoothly, since buckets hold whole layers: the best found may be one of
    several, and a search that looks at gradients would be led astray.

    Parameters
    ----------
    step_s
        Seconds of a step with a bucket size in bytes.
    """
    if not 0 < least_bytes < most_bytes or tries < 3:
        raise HeddleError(
            f"found buckets from {least_bytes} to {most_bytes} bytes in {tries} tries; expected a rising range, 3 tries"
        )
    found: dict[float, float] = {}
    for _ in range(rounds):
        for size in np.geomspace(least_bytes, most_bytes, tries).round().tolist():
            if size not in found:
                found[size] = step_s(size)
        sizes = sorted(found)
        best = sizes.index(min(sizes, key=lambda size: found[size]))
        least_bytes, most_bytes = sizes[max(best - 1, 0)], sizes[min(best + 1, len(sizes) - 1)]
    return dict(sorted(found.items()))
