"""Heddle as somebody meets it who has read the README: four imports, and all that they say of themselves is true."""

import doctest
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import costmodel
import plan
import routing
import routing.lanes
import routing.opensm
import routing.quality
import routing.repairs
import routing.studies
import simulate
import topo

ROOMS = (
    *(routing.lanes, routing.opensm, routing.quality, routing.repairs, routing.studies),
    *(simulate.traffic, simulate.workload, simulate.engines, simulate.cluster, simulate.diagnosis),
)
FACES = {face.__name__: face for face in (topo, routing, simulate, costmodel, plan, *ROOMS)}
MOST = {"routing": 25, "simulate": 30}
"""Names of a face at most; the rest is in faces of rooms."""
SLOW = {
    "Bill",
    "Cost",
    "Fabric",
    "bisection",
    "bound",
    "compare",
    "draw_ports",
    "fill_trays",
    "serving_gbps",
    "trade_off",
}
NAMES = [
    pytest.param(face, name, marks=[pytest.mark.slow] if name in SLOW else [])
    for face, module in FACES.items()
    for name in module.__all__
]
LISTED = re.compile(r"^(?:    )?``(\w+)``  \S", re.MULTILINE)


def test_from_a_preset_to_time_bill_and_picture() -> None:
    cluster = topo.preset("lab-20")
    fabric = cluster.fabric
    assert (fabric.counts().switches, len(fabric.ends(role="compute"))) == (4, 16)

    routed = routing.route(fabric)
    proof = routing.prove(routed)
    assert proof.holds
    assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)
    assert routing.check_certificate(routed, proof)
    assert 0 < routing.measure(routed, seed=0).ebb <= 1

    hosts = fabric.ends(role="compute", zone=0)
    outcome = simulate.play(routed, simulate.allreduce(hosts, "186 MiB", "ring"))
    # Each host sends 2 (n - 1) / n of the bytes, and a ring in order of the hosts is alone on its links: 200 Gb/s.
    least = 2 * (len(hosts) - 1) / len(hosts) * 186 * 2**20 / 25e9
    assert outcome.makespan_s == pytest.approx(least, rel=0.01)
    assert outcome.links.to_pandas() is not None

    cost = costmodel.bill(cluster).price("USD")
    assert cost.unit == "USD"
    assert "<svg" in fabric.draw(proof.load)._repr_svg_()
    for shown in (cluster, fabric.counts(), routed, proof, outcome, cost):
        assert "<" in shown._repr_html_()


def test_a_spec_of_ones_own() -> None:
    spec = topo.preset("lab-20").spec.model_dump(exclude_unset=True, mode="json")
    assert topo.parse(spec).counts == topo.preset("lab-20").counts
    with pytest.raises(topo.HeddleError, match="leav"):
        topo.parse(spec | {"network": {**spec["network"], "leavs": 3}})


@pytest.mark.slow
def test_the_example_of_the_readme_runs(repository: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (repository / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert "import topo, routing, simulate, costmodel" in blocks[0]
    for block in blocks:
        exec(block, {})


def test_faces_cost_nothing_until_they_are_used() -> None:
    """Nothing heavy comes with an import, or with a look at what there is."""
    code = (
        f"import sys, {', '.join(FACES)}\n"
        f"names = [dir(face) for face in ({', '.join(FACES)})]\n"
        "heavy = 'numba pydantic scipy numpy networkx simpy pandas pulp ruamel matplotlib'.split()\n"
        "print(sorted(set(heavy) & set(sys.modules)), min(map(len, names)) >= 5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] True\n", "")


@pytest.mark.parametrize("face", FACES)
def test_a_face_lists_exactly_what_it_has(face: str) -> None:
    module = FACES[face]
    listed = LISTED.findall(module.__doc__ or "")
    assert sorted(listed) == sorted(module.__all__)
    assert sorted(set(listed)) == sorted(listed), "each once"
    assert set(dir(module)) >= set(module.__all__)
    assert len(listed) <= MOST.get(face.partition(".")[0], len(listed))


@pytest.mark.parametrize("face", FACES)
def test_no_module_takes_the_place_of_a_name_of_its_package(face: str) -> None:
    """Once ``routing.x`` is imported, it stands where a name x of another module of `routing` would."""
    for name in FACES[face].__all__:
        module = f"{face}.{name}"
        thing = public(face, name)
        if importlib.util.find_spec(module) and not isinstance(thing, ModuleType):
            assert getattr(thing, "__module__", "").startswith(module)


def public(face: str, name: str) -> object:
    return getattr(FACES[face], name)


@pytest.mark.parametrize(("face", "name"), NAMES)
def test_a_name_is_documented_with_an_example_that_runs(face: str, name: str) -> None:
    thing = public(face, name)
    if isinstance(thing, ModuleType):
        assert thing is importlib.import_module(f"{face}.{name}")
        return
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return  # a table of engines, a constant: its place in the docstring of the face says what it is
    documentation = inspect.getdoc(thing) or ""
    assert documentation
    if inspect.isfunction(thing):
        assert "Examples\n--------" in documentation
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    module = importlib.import_module(thing.__module__)
    runner = doctest.DocTestRunner(verbose=False)
    said: list[str] = []
    for test in finder.find(thing, name, module=module, globs={}):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


HERE = Path(__file__).parents[1]
SHOWN = {(thing.__module__, thing.__name__) for module in FACES.values() for name in module.__all__
         if isinstance(thing := getattr(module, name), type | FunctionType)}  # fmt: skip


@pytest.mark.parametrize("module", [
    ".".join(path.relative_to(HERE).with_suffix("").parts).removesuffix(".__init__")
    for package in ("topo", "routing", "simulate", "costmodel", "plan")
    for path in sorted((HERE / package).rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")
])  # fmt: skip
def test_examples_of_what_is_on_no_face_run(module: str) -> None:
    thing, said = importlib.import_module(module), []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(thing):
        if (thing.__name__, test.name.removeprefix(f"{thing.__name__}.").partition(".")[0]) not in SHOWN:
            runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize(
    "word",
    ["upgrade", "bonding", "redundancy", "breakout", "troubleshooting", "NetBox", "Prometheus", "Spectrum-X", "RoCE"],
)
def test_words_that_people_look_for_lead_somewhere(word: str, repository: Path) -> None:
    pages = [path.read_text() for path in (repository / "docs").glob("*.md")]
    assert any(re.search(rf"\b{word}\b", page, re.IGNORECASE) for page in pages)
