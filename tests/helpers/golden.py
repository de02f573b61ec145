"""Files as they were when somebody last read them: what `plan build` writes for lab-20, file by file.

To write them anew: ``python tests/helpers/golden.py``, then read the diff before it is committed.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import openpyxl

from plan.cli import run
from topo.catalog.load import config_root

FOLDER = Path(__file__).parents[1] / "golden" / "lab-20"
ELSEWHERE = {"report.html", "cable-book.html", "plan.json", "SHA256SUMS", "fabric.json", "fabric.ibnetdiscover"}
"""Held by tests of their own: pages, every figure, sums of all files, and the fabric, which is read back."""


def build(out: Path) -> None:
    """Run `plan build` on lab-20."""
    if run(["build", str(config_root() / "lab-20.yaml"), "-o", str(out)]) != 0:
        raise SystemExit("lab-20 is not built")


def texts(out: Path) -> dict[str, str]:
    """Each file of a plan by its path, workbooks as the text of their cells."""
    found = {}
    for file in sorted(out.rglob("*")):
        name = file.relative_to(out).as_posix()
        if file.suffix == ".xlsx":
            found[f"{name}.txt"] = cells(file)
        elif file.is_file() and name not in ELSEWHERE:
            found[name] = file.read_text(encoding="utf-8")
    return found


def cells(workbook: Path) -> str:
    """The values of a workbook: a line for each row, with tabs between cells."""
    lines = []
    for sheet in openpyxl.load_workbook(workbook).worksheets:
        lines.append(f"== {sheet.title}")
        for row in sheet.iter_rows(values_only=True):
            lines.append("\t".join("" if value is None else str(value) for value in row).rstrip("\t"))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the files anew."""
    with TemporaryDirectory() as folder:
        build(Path(folder) / "out")
        for name, text in texts(Path(folder) / "out").items():
            (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
            (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
