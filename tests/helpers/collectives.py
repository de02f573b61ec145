"""Counts what trees cross: for tests of collectives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from simulate.traffic.collectives.trees import Tree


def crossings(trees: Sequence[Tree], groups: ArrayLike) -> list[int]:
    """Return how many edges of each tree join ranks of different groups (zones, leaves)."""
    group = np.asarray(groups)
    return [int(np.count_nonzero((tree >= 0) & (group != group[tree]))) for tree in trees]
