"""Execute the notebooks and render each, with its outputs, to docs/notebooks/NAME.md: `make notebooks`.

A rendered page names the digest of the cells that it was made from, so that a test can tell when a page is older than
its notebook. Outputs are not compared: their last digits may differ from machine to machine.

    python scripts/render_notebooks.py                      all of them
    python scripts/render_notebooks.py 02_two_zones_or_three_levels
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOKS, PAGES = ROOT / "notebooks", ROOT / "docs" / "notebooks"


def digest(notebook: Path) -> str:
    """Return the SHA-256 of the cells of a notebook: their kinds and sources, in order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return hashlib.sha256(json.dumps([[c["cell_type"], "".join(c["source"])] for c in cells]).encode()).hexdigest()


def header(notebook: Path) -> str:
    """Return the first line of the page of a notebook, which is different when its cells are."""
    return f"<!-- made by `make notebooks` from notebooks/{notebook.name}, cells {digest(notebook)[:16]} -->\n"


def is_stale(notebook: Path) -> bool:
    """Return whether the page of a notebook is missing or was made from other cells."""
    page = PAGES / f"{notebook.stem}.md"
    return not page.exists() or not page.read_text(encoding="utf-8").startswith(header(notebook))


def render(notebook: Path) -> None:
    """Execute a notebook and write its page, and its figures beside it."""
    import nbformat
    from nbconvert import MarkdownExporter
    from nbconvert.preprocessors import ExecutePreprocessor

    cells = nbformat.read(notebook, as_version=4)
    ExecutePreprocessor(timeout=600).preprocess(cells, {"metadata": {"path": str(ROOT)}})
    text, resources = MarkdownExporter().from_notebook_node(cells)
    figures = PAGES / notebook.stem
    shutil.rmtree(figures, ignore_errors=True)
    for name, data in sorted(resources["outputs"].items()):
        figures.mkdir(parents=True, exist_ok=True)
        (figures / name).write_bytes(data)
        text = text.replace(f"]({name})", f"]({notebook.stem}/{name})")
    PAGES.mkdir(exist_ok=True)
    page = PAGES / f"{notebook.stem}.md"
    page.write_text(header(notebook) + "\n" + as_github_shows(text), encoding="utf-8")


def as_github_shows(text: str) -> str:
    """Return markdown without the style sheets that GitHub drops; tables keep the alignment of their cells."""
    text = re.sub(r"<style.*?</style>\n?", "", text, flags=re.DOTALL)
    text = re.sub(r' style="text-align: ?(left|right);?"', r' align="\1"', text)
    text = re.sub(r' style="[^"]*"| class="dataframe"| border="1"', "", text)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks to render; all of them when left out")
    names = parser.parse_args().names
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or notebook.stem in names:
            print(notebook.stem, flush=True)
            render(notebook)


if __name__ == "__main__":
    main()
