"""Fluid flows against SimGrid 3.32 (CM02, nothing of TCP), over the same routes: each finish time."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.strategies import nightly
from routing.routed import Routed
from simulate import play
from simulate.network import Network

pytestmark = pytest.mark.peer("g++", "usr/include/simgrid/s4u.hpp")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Path]:
    """The peer of the benchmark, which knows how to write its inputs."""
    sys.path.append(str(repository / "benchmarks"))
    from simgrid_peer import build_peer

    yield build_peer(tmp_path_factory.mktemp("simgrid"))
    sys.path.remove(str(repository / "benchmarks"))


def check(program: Path, folder: Path, network: Network, load: str, optim: str) -> None:
    """Hold each finish time of a load against SimGrid's."""
    from fluid_loads import make_load
    from simgrid_peer import finish_of_real, play_in_simgrid, write_inputs

    played = make_load(load, network)
    write_inputs(folder, network, played)
    theirs = play_in_simgrid(program, folder, optim).finish_s
    ours = finish_of_real(played.flows, play(network, played.flows).finish_s)

    # A thousandth is what the field would call equal; SimGrid forgives itself a nanosecond an event.
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert np.median(np.abs(ours / theirs - 1)) < 1e-6


# With latency SimGrid's Lazy setting disagrees with its own Full, by up to a factor of five for single flows.
@pytest.mark.parametrize(("optim", "latency_s"), [("Lazy", 0.0), ("Full", 0.0), ("Full", 2e-6)])
@pytest.mark.parametrize(
    "load",
    [
        "permutation",
        "permutation-sizes",
        "coupled",
        "arrivals",
        "storage-1",
        "storage-4",
        "ring-16",
        "ring-64",
        "shift-20",
        "incast",
    ],
)
def test_every_finish_time(program: Path, tmp_path: Path, load: str, optim: str, latency_s: float) -> None:
    from fluid_loads import zone

    small = zone(leaves=8, spines=4, hosts=10)
    network = Network.of(Routed(small.fabric, small.tables), message_latency_s=latency_s)
    check(program, tmp_path, network, load, optim)


# The setting with which SimGrid is the faster one.
@pytest.mark.parametrize(
    ("load", "optim"),
    [
        ("permutation-sizes", "Lazy"),
        ("coupled", "Full"),
        ("arrivals", "Lazy"),
        nightly("storage-4", "Full"),
        ("ring-64", "Full"),
        nightly("ring-800", "Lazy"),
        ("shift-200", "Full"),
        ("incast", "Full"),
    ],
)
def test_every_finish_time_of_800_hosts(program: Path, tmp_path: Path, load: str, optim: str) -> None:
    from fluid_loads import zone

    check(program, tmp_path, zone(), load, optim)
