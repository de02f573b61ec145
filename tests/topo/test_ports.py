"""Ports of switches are conserved, whatever the shape."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import topo


@pytest.mark.parametrize(
    "name", ["lab-20", "torus", "dragonfly", "eflops-bigraph", "direct-zones", "hdr-on-ndr", "pgft"]
)
def test_every_port_is_counted_once(name: str) -> None:
    fabrics = topo.preset(name).fabrics
    classes = topo.count_ports(fabrics).classes
    assert sum(row.switches for row in classes) == sum(fabric.n_switches for fabric in fabrics)
    assert sum(row.ports for row in classes) == sum(fabric.first_adapter_port for fabric in fabrics)
    assert sum(row.free for row in classes) == sum(int(np.sum(f.peer[: f.first_adapter_port] < 0)) for f in fabrics)
    assert all(row.down + row.up + row.across + row.free == row.ports for row in classes)


def test_a_taper_is_that_of_the_spec() -> None:
    leaf, _ = topo.count_ports(topo.preset("tapered-three-to-one").fabrics).classes
    assert leaf.taper == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("name", ["fire-flyer-2", "direct-zones", "dragonfly", "lab-20"])
def test_free_ports_of_zones_add_up(name: str) -> None:
    (fabric,) = topo.preset(name).fabrics
    for row in topo.count_ports([fabric]).classes:
        mine = [s for s in range(fabric.n_switches) if topo.Role(int(fabric.role[s])).name.lower() == row.role]
        free = {
            zone: sum(
                int(np.count_nonzero(fabric.peer[fabric.port_offset[s] : fabric.port_offset[s + 1]] < 0))
                for s in mine
                if fabric.zone[s] == zone
            )
            for zone in {int(fabric.zone[s]) for s in mine}
        }
        assert row.free_by_zone == (free if len(free) > 1 else {})


@pytest.mark.parametrize("seed", range(5))
def test_each_slow_cable_is_counted_at_its_speed(seed: int) -> None:
    """Some cables between leaves and spines of a tree are made slow; counted again cable by cable."""
    fabric, rng = topo.preset("tapered-three-to-one").fabric, np.random.default_rng(seed)
    speed, found = fabric.speed.copy(), Counter[str]()
    inner = rng.permutation(fabric.inner_links)
    for a, b in inner[: rng.integers(1, 9)].tolist():
        name = str(rng.choice(["QDR", "EDR"]))
        speed[a if rng.random() < 0.5 else b] = topo.SPEEDS.index(name)  # a cable runs at the speed of its slower end
        found[name] += 1
    said = topo.slow_cables(replace(fabric, speed=speed))
    assert sorted(line.partition(":")[0] for line in said) == sorted(
        f"{count} of {len(inner)} cables between leaf and spine {verb} at 4x{name} beside 4xHDR"
        for name, count in found.items()
        for verb in ("run" if count > 1 else "runs",)
    )
