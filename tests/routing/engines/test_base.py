"""The registry of engines: ours, and those that other distributions bring."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import routing
from helpers import strategies
from helpers.presets import subnets
from helpers.trees import grow_tree
from routing.engines.base import ENGINES, GROUP, Outside
from routing.proof import prove
from routing.routed import Routed
from topo.errors import HeddleError, RoutingError


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_routes_a_tree_completely(name: str) -> None:
    fabric = replace(grow_tree((2, 4), (1, 2), (1, 1)), zone=np.zeros(6 + 8, np.int16))
    tables = ENGINES[name].route(fabric)
    assert tables.engine == name
    assert prove(Routed(fabric, tables)).holds


class Mine:
    """An engine as another distribution would bring it."""

    name, purpose, max_lanes = "mine", "for a test", 1

    def route(self, fabric, lid=None, *, lanes=None):
        return ENGINES["minhop"].route(fabric, lid, lanes=lanes)


mine = Mine()
LAB = subnets("lab-20")[0]


def test_an_engine_from_outside_is_found_by_its_entry_point(monkeypatch) -> None:
    found = Outside(EntryPoint("mine", f"{__name__}:mine", GROUP))
    monkeypatch.setitem(ENGINES, "mine", found)
    routed = routing.route(LAB, "mine")
    assert (found.purpose, found.max_lanes) == ("for a test", 1)
    assert (routed.tables.engine, routed.why) == ("mine", "as asked")
    monkeypatch.setitem(ENGINES, "gone", Outside(EntryPoint("gone", "no.such.module:engine", GROUP)))
    with pytest.raises(RoutingError, match=r"the engine gone .* cannot be loaded"):
        routing.route(LAB, "gone")
    with pytest.raises(HeddleError, match="Did you mean `mine`"):
        routing.route(LAB, "minee")


def test_an_engine_object_routes_as_its_tables_say() -> None:
    routed = routing.route(LAB, mine)
    assert routed.tables.engine == "mine"
    assert np.array_equal(routed.tables.lft, routing.route(LAB, "minhop").tables.lft)
    with_lids = routing.route(LAB, mine, lmc=1)
    assert with_lids.tables.lmc == 1
    assert prove(with_lids).holds


class Liar(Mine):
    """An engine whose tables have a fault."""

    name = "liar"

    def __init__(self, spoil):
        self.spoil = spoil

    def route(self, fabric, lid=None, *, lanes=None):
        return self.spoil(super().route(fabric, lid, lanes=lanes))


def without_an_entry(tables):
    lft = tables.lft.copy()
    lft[0, tables.lid[-1]] = routing.NO_PATH
    return replace(tables, lft=lft)


def on_two_lanes(tables):
    level = np.zeros_like(tables.lft)
    level[0] = 1
    return replace(tables, path_sl=level, sl2vl=(0, 1, *[0] * 14))


LIES = {
    "an entry is missing": (
        without_an_entry,
        r"lab-20: the tables of liar fail the proof: \d+ pairs .*leaf0 has no en",
    ),
    "nothing": (lambda _: None, "returned a NoneType; expected routing.RoutingTables"),
    "a fault of the program": (lambda _: 1 // 0, "the engine liar failed: ZeroDivisionError"),
    "another fabric": (lambda tables: replace(tables, lft=tables.lft[1:]), "the tables of another fabric"),
    "no LIDs": (lambda tables: replace(tables, lid=tables.lid * 0), "changed the LIDs"),
    "too many lanes": (on_two_lanes, "use 2 lanes; expected at most 1"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_engine_from_outside_is_not_believed(lie: str) -> None:
    spoil, said = LIES[lie]
    with pytest.raises(RoutingError, match=said):
        routing.route(LAB, Liar(spoil))


def test_credit_loops_of_an_engine_from_outside_are_refused() -> None:
    ring = strategies.ring(6).fabric
    assert not prove(routing.route(ring, "minhop")).holds
    with pytest.raises(RoutingError, match=r"fail the proof: \d+ channels in credit loops"):
        routing.route(ring, mine)
    assert prove(routing.route(ring, mine, lanes=4)).holds  # the lanes break them, as for any engine


def test_what_is_no_engine_is_refused() -> None:
    class Minhop(Mine):
        name = "minhop"

    with pytest.raises(HeddleError, match="found 7 for an engine; expected"):
        routing.route(LAB, 7)  # type: ignore[arg-type]
    with pytest.raises(HeddleError, match="the name 'minhop', which another engine has"):
        routing.route(LAB, Minhop())
    with pytest.raises(HeddleError, match="only the engine auto"):
        routing.route(LAB, "minhop", entrants=[mine])


@pytest.mark.slow
def test_a_registered_engine_is_known_by_name_and_enters_auto(tmp_path, monkeypatch) -> None:
    """As CONTRIBUTING says: a distribution beside Heddle with an entry point, and no file of Heddle."""
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[heddle.engines]\ntheirs = their_engine:engine\n")
    (tmp_path / "their_engine.py").write_text(
        "from routing import ENGINES\n"
        "class Theirs:\n"
        "    name, purpose, max_lanes = 'theirs', 'for a test', 1\n"
        "    def route(self, fabric, lid=None, *, lanes=None):\n"
        "        return ENGINES['minhop'].route(fabric, lid)\n"
        "engine = Theirs()\n"
    )
    code = (
        "import topo, routing\n"
        "fabric = topo.preset('lab-20').fabric\n"
        "print(routing.route(fabric, 'theirs').tables.engine)\n"
        "print([row.engine for row in routing.route(fabric, 'auto').candidates])\n"
    )
    root = Path(routing.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["theirs", "['balanced', 'fat-tree', 'minhop', 'dfsssp', 'theirs']"], done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [({"lmc": odd}, "LMC: found .* from 0 to 7") for odd in (-1, 8, 2.5, True, "1", [1, 2])]
    + [({"lanes": odd}, "lanes: found .* from 1 to 8") for odd in (0, 9, 1.5, True)],
)
def test_numbers_out_of_the_bounds_of_infiniband_are_refused(given: dict[str, object], message: str) -> None:
    """LMC is a field of three bits; from Python as from the command."""
    with pytest.raises(HeddleError, match=message):
        routing.route(LAB, **given)
    assert routing.route(LAB, lmc=np.int64(1)).tables.lmc == 1
