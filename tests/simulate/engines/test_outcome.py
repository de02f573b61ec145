"""What is said of a play."""

import numpy as np
import pytest

import routing
import simulate
import topo
from helpers.presets import routed_lab


def test_flows_are_shown_by_the_names_of_their_ends() -> None:
    """As `simulate.workload.read_flows_csv` takes them: the table of a play can be played again."""
    fabric = topo.preset("lab-20").fabric
    ends = fabric.ends()[[3, 1, 7]]
    flows = simulate.Flows.of(ends, np.roll(ends, 1), 1e6)
    table = simulate.play(routing.route(fabric), flows).flow_table.to_dict()
    assert table["src"] == [fabric.names[node] for node in fabric.end_node[ends]]
    assert table["dst"] == [fabric.names[node] for node in fabric.end_node[np.roll(ends, 1)]]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_said_how_many_flows_join_adapters_of_one_server(seed: int) -> None:
    """Counted again by the names of servers; a job of GPUs has none, nor have servers with one adapter."""
    routed = routing.route(grouped(), "minhop")
    fabric, rng = routed.fabric, np.random.default_rng(seed)
    src, dst = rng.choice(fabric.ends(), (2, 60))
    src, dst = src[src != dst], dst[src != dst]
    name = [fabric.server_of(int(node)) for node in fabric.end_node]
    inside = sum(name[a] == name[b] for a, b in zip(src, dst, strict=True))
    assert inside
    said = simulate.play(routed, simulate.Flows.of(src, dst, 1e6)).caveats
    assert [one for one in said if one.startswith("adapters, not GPUs: ")] == [
        f"adapters, not GPUs: {inside} of {len(src)} flows join adapters of one server over the network, where GPUs "
        "have a way inside: `gpu-collective` takes it"
    ]
    job = {"name": "a", "kind": "gpu-collective", "collective": "all-to-all", "size": "1 MB"}
    played = simulate.play(routed, simulate.parse_workload({"jobs": [job]}, fabric))
    lab = routed_lab()
    alone = simulate.play(lab, simulate.all_to_all(lab.fabric.ends(role="compute"), "1 MB"))
    assert not any("adapters, not GPUs" in one for one in (*played.outcome.caveats, *alone.caveats))


def grouped() -> topo.Fabric:
    """Four DGX H100 on rails."""
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}
    spec = {"name": "pod", "nodes": {"gpu": {"model": "dgx-h100", "count": 4}}, "network": network}
    return topo.parse(spec).fabric
