"""Charts by matplotlib as drawings: same data, same bytes; no date, fixed ids, letters as outlines of its own font."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from topo.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST = 40
"""Characters of a name."""


def figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def shown_name(name: str) -> str:
    r"""Return a name as matplotlib shows it: never as a formula, and at most 40 characters of it.

    Examples
    --------
    >>> from topo.drawing.figures import shown_name
    >>> shown_name("$\alpha$")
    '\\$\\alpha\\$'
    """
    return (name if len(name) <= MOST else f"{name[: MOST - 3]}...").replace("$", r"\$")


def as_drawing(figure: Figure) -> Drawing:
    """Return a figure as SVG."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "heddle", "svg.fonttype": "path"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return Drawing(out.getvalue().decode())


def as_png(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150, metadata={"Software": None})
    return out.getvalue()
