"""The registry of engines: ours, and those that other distributions bring."""

from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import routing
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

    purpose, max_lanes = "for a test", 1

    def route(self, fabric, lid=None, *, lanes=None):
        return ENGINES["minhop"].route(fabric, lid, lanes=lanes)


mine = Mine()


def test_an_engine_from_outside_is_found_by_its_entry_point(monkeypatch) -> None:
    found = Outside(EntryPoint("mine", f"{__name__}:mine", GROUP))
    monkeypatch.setitem(ENGINES, "mine", found)
    fabric = subnets("lab-20")[0]
    routed = routing.route(fabric, "mine")
    assert (found.purpose, found.max_lanes) == ("for a test", 1)
    assert (routed.tables.engine, routed.why) == ("minhop", "as asked")
    monkeypatch.setitem(ENGINES, "gone", Outside(EntryPoint("gone", "no.such.module:engine", GROUP)))
    with pytest.raises(RoutingError, match=r"the engine gone .* cannot be loaded"):
        routing.route(fabric, "gone")
    with pytest.raises(HeddleError, match="Did you mean `mine`"):
        routing.route(fabric, "minee")
