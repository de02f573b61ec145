"""Ports of switches are conserved, whatever the shape."""

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
