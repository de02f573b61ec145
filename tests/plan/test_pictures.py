"""Drawings as PNG and PDF, read back by other programs."""

import io
import re

import pytest
from PIL import Image

import topo
from plan.files import MOST_PIXELS, as_kind

LAB = topo.draw(topo.preset("lab-20")).svg


@pytest.mark.slow
def test_a_png_has_the_shape_and_the_colours_of_the_drawing() -> None:
    picture = as_kind(LAB, ".png")
    assert isinstance(picture, bytes)
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
    assert isinstance(picture, bytes)
    assert Image.open(io.BytesIO(picture)).size[0] <= MOST_PIXELS


@pytest.mark.slow
def test_a_pdf_is_a_pdf() -> None:
    document = as_kind(LAB, ".pdf")
    assert isinstance(document, bytes)
    assert document.startswith(b"%PDF")
    assert document.rstrip().endswith(b"%%EOF")


def test_an_svg_stays_as_it_is() -> None:
    assert as_kind(LAB, ".svg") is LAB
