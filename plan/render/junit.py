"""Findings as JUnit writes them, which CI servers show as failed tests."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from plan.render.terminal import printable


def format_junit(suite: str, passed: int, failures: Iterable[tuple[str, str, str]]) -> bytes:
    """Return a suite of tests in the form of Ant's JUnit task, which Jenkins, GitLab and GitHub's actions read.

    Parameters
    ----------
    suite : str
        What was examined.
    passed : int
        How many parts of it are as they should be; one test stands for all of them.
    failures : iterable of (str, str, str)
        Kind, place, and what to do.

    Examples
    --------
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
