"""Drawings as PNG and PDF, read back by other programs."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image

import topo
from topo.drawing.kinds import MOST_PIXELS, as_kind

LAB = topo.draw(topo.preset("lab-20")).svg


@pytest.mark.slow
def test_a_png_has_the_shape_and_the_colours_of_the_drawing() -> None:
    picture = as_kind(LAB, ".png")
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    found = re.search(r'width="(\d+)" height="(\d+)"', LAB)
    assert found
    assert image.size == (2 * int(found[1]), 2 * int(found[2]))
    colours = {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 24) or []}
    assert {topo.palette.PAPER, topo.palette.GROUND, topo.palette.INK, *topo.palette.HOSTS.values()} <= colours
    # Letters of a caption are there, and not painted over.
    bare = LAB.replace(">10 links a line<", "><")
    assert bare != LAB
    assert as_kind(bare, ".png") != picture


@pytest.mark.slow
def test_a_huge_drawing_is_made_smaller() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" class="heddle" width="40000" height="20" viewBox="0 0 40000 20"/>'
    picture = as_kind(svg, ".png")
    assert Image.open(io.BytesIO(picture)).size[0] <= MOST_PIXELS


@pytest.mark.slow
def test_a_pdf_is_a_pdf() -> None:
    document = as_kind(LAB, ".pdf")
    assert document.startswith(b"%PDF")
    assert document.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize(
    ("name", "begins"),
    [("x.svg", b"<svg"), ("X.SVG", b"<svg"), ("x.png", b"\x89PNG"), ("x.pdf", b"%PDF"), ("x.jpg", None), ("x", None)],
)
def test_a_saved_drawing_is_what_its_name_says_or_refused(name: str, begins: bytes | None, tmp_path: Path) -> None:
    drawing = topo.Drawing('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>\n')
    if begins is None:
        with pytest.raises(topo.HeddleError, match=r"expected \.svg, \.png or \.pdf"):
            drawing.save(tmp_path / name)
        assert not list(tmp_path.iterdir())
    else:
        drawing.save(str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(begins)
