"""Pages for a browser, which load nothing from anywhere, and JUnit for CI; whatever a name holds becomes text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import topo
from plan.render.terminal import printable

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


def format_junit(suite: str, passed: int, failures: Iterable[tuple[str, str, str]]) -> bytes:
    """Return a suite of tests in the form of Ant's JUnit task, which Jenkins, GitLab and GitHub's actions read.

    One test stands for all the parts that ``passed``; of each failure there are kind, place, and what to do.

    >>> print(format_junit("cables", 2, [("missing", "leaf0:1", "plug it")]).decode())
    <testsuite name="cables" tests="2" failures="1"><testcase classname="cables" name="2 as planned" /><testcase \
classname="cables" name="leaf0:1"><failure type="missing" message="plug it" /></testcase></testsuite>
    """
    failed, suite = list(failures), printable(suite)
    root = ElementTree.Element("testsuite", name=suite, tests=str(len(failed) + 1), failures=str(len(failed)))
    ElementTree.SubElement(root, "testcase", classname=suite, name=f"{passed:,} as planned")
    for kind, place, do in failed:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name=printable(place))
        ElementTree.SubElement(case, "failure", type=kind, message=printable(do))
    text: bytes = ElementTree.tostring(root, encoding="utf-8")
    return text
