"""Pages for a browser: whatever a name holds it becomes text, and nothing is loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import topo

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(package: str, template: str, *styles_and_scripts: str, **values: Any) -> str:
    """Return a page out of a template of a package; ``values`` are what else it names.

    The template has the text of each of the package's styles and scripts by the last part of its name (``css``), and by
    ``css_hash`` the hash by which a Content Security Policy lets it in.
    """
    for name in styles_and_scripts:
        text, key = resources.files(package).joinpath(name).read_text("utf-8"), name.rpartition(".")[2]
        text += f"{topo.palette.STYLE}\n" if key == "css" else ""  # of the pictures in it
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        values |= {key: text, f"{key}_hash": f"sha256-{digest}"}
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    """Return what compiles the templates of a package, each once: that takes longer than to fill it in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(package, "")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
