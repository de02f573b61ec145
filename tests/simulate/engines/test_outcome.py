"""What is said of a play."""

import numpy as np

import routing
import simulate
import topo


def test_flows_are_shown_by_the_names_of_their_ends() -> None:
    """As `simulate.workload.read_flows_csv` takes them: the table of a play can be played again."""
    fabric = topo.preset("lab-20").fabric
    ends = fabric.ends()[[3, 1, 7]]
    flows = simulate.Flows.of(ends, np.roll(ends, 1), 1e6)
    table = simulate.play(routing.route(fabric), flows).flow_table.to_dict()
    assert table["src"] == [fabric.names[node] for node in fabric.end_node[ends]]
    assert table["dst"] == [fabric.names[node] for node in fabric.end_node[np.roll(ends, 1)]]
