"""Waiting explained: what the engine of packets counted on random fabrics with a fault that is known."""

from collections import Counter

import numpy as np
import pytest

import routing
import simulate
from helpers.counted import count
from helpers.presets import routed_lab
from helpers.strategies import nightly
from simulate.diagnosis.wait_counters import explain_waits
from topo.errors import HeddleError


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "fault"), [nightly(9, "link"), (10, "collision")])
def test_the_cause_comes_first(seed: int, fault: str) -> None:
    counted = count(seed, fault)
    assert counted is not None
    found = explain_waits(counted.routed, counted.counters)
    assert found.identified[0].ports[0] in counted.cause
    assert (found.identified[0].kind == "collision") == (fault == "collision")
    if fault == "link":
        assert 0.2 < found.identified[0].part < 0.5
        assert found.following


@pytest.mark.slow
@pytest.mark.nightly
def test_how_often_the_cause_comes_first() -> None:
    """The table of docs/validation/explain.md."""
    tally = {fault: Counter[str]() for fault in ("link", "collision", "")}
    for seed in range(30):
        for fault, row in tally.items():
            counted = count(seed, fault)
            if counted is None:
                continue
            found = explain_waits(counted.routed, counted.counters)
            firsts = [one.ports[0] in counted.cause for one in (*found.identified, *found.others)]
            row["runs"] += 1
            row["first"] += any(firsts[:1])
            row["first three"] += any(firsts[:3])
            row["slow"] += any(one.kind != "collision" for one in found.identified)
    link, collision, none = tally.values()
    assert collision["first"] >= 0.85 * collision["runs"], tally
    assert link["first"] >= 0.55 * link["runs"], tally
    assert link["first three"] >= 0.7 * link["runs"], tally
    assert none["slow"] <= 0.1 * none["runs"], tally


def lab() -> tuple[routing.Routed, np.ndarray, np.ndarray]:
    routed = routed_lab()
    return routed, np.full(routed.fabric.n_ports, 1e9), np.zeros(routed.fabric.n_ports)


def test_ports_that_do_not_wait_identify_nothing() -> None:
    routed, sent, lost = lab()
    found = explain_waits(routed, simulate.diagnosis.Counters(sent, lost))
    assert (found.identified, found.others, found.doubts) == ((), (), ())


def test_ports_that_are_not_known_are_told() -> None:
    routed, sent, lost = lab()
    sent[:5] = np.nan
    lost[-1] = 5e9
    assert "have no counters" in explain_waits(routed, simulate.diagnosis.Counters(sent, lost)).doubts[0]


def test_counters_of_an_idle_fabric_are_refused() -> None:
    routed, sent, lost = lab()
    with pytest.raises(HeddleError, match="sent nothing"):
        explain_waits(routed, simulate.diagnosis.Counters(0 * sent, lost))


def test_all_that_wait_for_one_receiver_name_it() -> None:
    """Hosts of a leaf wait, and the port to one of them sends all the time: they collide there."""
    routed, sent, lost = lab()
    fabric = routed.fabric
    hosts = fabric.ends(role="compute")
    switch = fabric.peer_node[fabric.port_of(hosts)]
    near = hosts[switch == switch[0]]
    sent[:] = 1e6
    ports = fabric.port_of(near)
    sent[ports[1:]], lost[ports[1:]] = 1e9, 9e9
    sent[fabric.peer[ports[0]]] = 1e9 * (len(near) - 1)
    found = explain_waits(routed, simulate.diagnosis.Counters(sent, lost))
    assert found.identified[0].ports == (int(fabric.peer[ports[0]]),)
    assert set(found.identified[0].slowed) == set(ports[1:].tolist())
