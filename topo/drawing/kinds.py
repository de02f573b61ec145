"""A drawing as a file of the kind that its name asks for: SVG as it is, PNG and PDF by CairoSVG."""

from __future__ import annotations

import re

from topo.errors import HeddleError

SHARP = 2.0
"""Pixels of a PNG for each unit of the drawing, for screens and paper of today."""
MOST_PIXELS = 16_000
"""Along the longer side of a PNG: Cairo has no larger surfaces, and viewers get slow before that."""
SIZE = re.compile(r'<svg[^>]* width="(\d+)" height="(\d+)"')


def as_kind(svg: str, suffix: str) -> bytes:
    """Return a drawing as a file with this suffix; HeddleError for others, and if the library Cairo is missing."""
    if suffix not in (".svg", ".png", ".pdf"):
        raise HeddleError(f"found a picture of the kind {suffix!r}; expected .svg, .png or .pdf")
    if suffix == ".svg":
        return svg.encode()
    try:
        import cairosvg
    except OSError:  # a package of Python that opens a library of the system
        raise HeddleError("PNG and PDF need the library Cairo: apt-get install libcairo2") from None
    # CairoSVG would paint the white around letters over the letters.
    plain = re.sub(r"paint-order:stroke;[^}]*", "", svg).encode()
    if suffix == ".pdf":
        return bytes(cairosvg.svg2pdf(bytestring=plain))
    size = SIZE.search(svg)
    longer = max(map(int, size.groups())) if size else MOST_PIXELS
    return bytes(cairosvg.svg2png(bytestring=plain, scale=min(SHARP, MOST_PIXELS / longer)))
