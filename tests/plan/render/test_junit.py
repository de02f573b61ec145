"""JUnit's form as another writer has it: pytest's own file has all elements and attributes that ours has."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import examples
from plan.render.html import format_junit


@examples(30)
@given(
    failures=st.lists(st.tuples(st.sampled_from(["missing", "moved"]), st.text(), st.text()), max_size=4),
    suite=st.text(),
)
def test_any_text_is_well_formed_and_counted(failures: list[tuple[str, str, str]], suite: str) -> None:
    root = ElementTree.fromstring(format_junit(suite, 7, failures))
    cases = root.findall("testcase")
    assert int(root.attrib["tests"]) == len(cases) == len(failures) + 1
    failed = [failure.attrib["type"] for case in cases for failure in case]
    assert failed == [kind for kind, _, _ in failures]
    assert int(root.attrib["failures"]) == len(failed)


@pytest.mark.slow
def test_pytest_writes_the_same_elements_and_attributes(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "theirs.xml"]
    subprocess.run([*command, "test_two.py"], cwd=tmp_path, capture_output=True, check=False)
    theirs = ElementTree.parse(tmp_path / "theirs.xml").getroot()
    known = {element.tag: set(element.attrib) for element in theirs.iter()}
    ours = ElementTree.fromstring(format_junit("cabling", 1, [("missing", "leaf0:1", "plug it")]))
    for element in ours.iter():
        assert set(element.attrib) <= known[element.tag] | {"type"}
