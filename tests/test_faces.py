"""Faces: the docstring of a package lists exactly its public names, and every example in a public docstring runs."""

import doctest
import importlib
import inspect
import re

import pytest

FACES = ("topo", "routing", "simulate", "costmodel")
WITH_EXAMPLES = ("topo", "routing", "simulate", "costmodel")
"""Faces of which each function has an example."""
NAME = re.compile(r"^    ``(\w+)``  \S", re.MULTILINE)


PUBLIC = [(package, name) for package in FACES for name in importlib.import_module(package).__all__]


@pytest.mark.parametrize("package", FACES)
def test_the_docstring_lists_exactly_the_public_names(package: str) -> None:
    face = importlib.import_module(package)
    listed = NAME.findall(face.__doc__ or "")

    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(face.__all__)
    for name in face.__all__:
        assert getattr(face, name) is not None


@pytest.mark.parametrize(("package", "name"), PUBLIC)
def test_public_names_are_documented_and_their_examples_run(package: str, name: str, repository, monkeypatch) -> None:
    monkeypatch.chdir(repository)
    value = getattr(importlib.import_module(package), name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    assert inspect.getdoc(value)
    home = importlib.import_module(value.__module__)
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    for test in finder.find(value, name, module=home, globs=dict(vars(home))):
        runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
        out: list[str] = []
        runner.run(test, out=out.append)
        assert runner.failures == 0, "".join(out)


@pytest.mark.parametrize(("package", "name"), [pair for pair in PUBLIC if pair[0] in WITH_EXAMPLES])
def test_functions_of_a_face_have_an_example(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    if inspect.isfunction(value):
        assert ">>> " in (inspect.getdoc(value) or "")


def test_the_front_door_in_the_readme_runs(repository) -> None:
    """The Python of README.md, from a preset to times, prices and a picture, with no import but those of the faces."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    assert re.findall(r"^.*\bimport\b.*$", code, re.MULTILINE) == ["import topo, routing, simulate, costmodel"]
    names: dict = {}
    exec(code, names)
    assert names["outcome"].makespan_s > 0
