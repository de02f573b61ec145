"""Networks of ASTRA-sim beside graphs of networkx: products of rings, complete graphs and stars."""

from collections import Counter
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from topo.dumps.astra_topology import parse_astra_topology
from topo.errors import FormatError

GRAPHS = {"Ring": nx.cycle_graph, "FullyConnected": nx.complete_graph}


def written(shapes: list[str], counts: list[int], rates: list[float]) -> str:
    return (
        f"# a network\ntopology: [ {', '.join(shapes)} ]  # Ring, FullyConnected, Switch\n"
        f"npus_count: {counts}\n\nbandwidth: {rates}  # GB/s\nlatency: {[500.0] * len(counts)}\n"
    )


@pytest.mark.parametrize("seed", range(20))
def test_dimensions_without_switches_are_a_product_of_graphs(seed: int, tmp_path) -> None:
    rng = np.random.default_rng(seed)
    shapes = rng.choice(list(GRAPHS), rng.integers(1, 4)).tolist()
    counts = [int(count) for count in rng.integers(2, 5, len(shapes))]
    (path := tmp_path / "network.astra").write_text(written(shapes, counts, [25.0] * len(shapes)))
    fabric = topo.read_fabric(path)
    graph = nx.empty_graph(1)
    for shape, count in zip(shapes, counts, strict=True):
        graph = nx.cartesian_product(nx.Graph(GRAPHS[shape](count)), graph)
    found = nx.Graph()
    found.add_nodes_from(range(fabric.n_switches))
    found.add_edges_from(fabric.port_node[fabric.inner_links].tolist())
    assert len(fabric.inner_links) == graph.number_of_edges(), "no cable twice, also of a ring of two"
    assert nx.is_isomorphic(found, graph)
    own = fabric.rate_gbps[fabric.port_of(fabric.ends())]
    assert (own >= 200 * max(degree for _, degree in graph.degree)).all() and len(set(own.tolist())) == 1


def test_npus_are_numbered_from_the_first_dimension_on(tmp_path) -> None:
    fabric = parse_astra_topology(written(["Ring", "Switch"], [4, 2], [50, 25.0])).fabric
    names = [
        tuple(sorted(fabric.names[node] for node in pair)) for pair in fabric.port_node[fabric.inner_links].tolist()
    ]
    rates = Counter(zip(names, fabric.rate_gbps[fabric.inner_links[:, 0]].tolist(), strict=True))
    ring = [(f"npu{a}", f"npu{b}") for a, b in ((0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (6, 7), (4, 7))]
    star = [(f"npu{npu}", f"switch1-{npu % 4}") for npu in range(8)]
    assert rates == Counter([(pair, 400.0) for pair in ring] + [(pair, 200.0) for pair in star])


def test_one_switch_has_the_npus_as_adapters() -> None:
    fabric = parse_astra_topology(written(["Switch"], [8], [50.0])).fabric
    assert (fabric.n_switches, len(fabric.links), fabric.hosts) == (1, 8, tuple(f"npu{npu}" for npu in range(8)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Ring, Switch",
            "Ring, Mesh",
            "found a dimension of Mesh, 2, 50.0; expected lists of equal length: topology of ",
        ),
        ("[4, 2]", "[4]", "expected lists of equal length"),
        ("[4, 2]", "[4, 1]", "found a dimension of Switch, 1"),
        ("[4, 2]", "[4, true]", "found a dimension of Switch, True"),
        ("npus_count", "npus", "expected lists of equal length"),
        ("[50.0, 50.0]", "[50.0, 51.0]", "found 408 Gb/s; expected the rate of a link"),
        ("[4, 2]", "[40000000, 2]", "nodes"),
        ("Ring, Switch", "Ring, Switch ]]", "is no network of ASTRA-sim"),
    ],
)
def test_refuses_and_says_why(old: str, new: str, message: str) -> None:
    text = written(["Ring", "Switch"], [4, 2], [50.0, 50.0])
    assert old in text
    with pytest.raises(FormatError, match=message):
        parse_astra_topology(text.replace(old, new))


def test_a_name_of_a_spec_is_refused_with_what_to_do(tmp_path) -> None:
    (path := tmp_path / "network.yml").write_text(written(["Switch"], [8], [50.0]))
    with pytest.raises(topo.SpecError, match=r"file that ends in \.yaml or \.yml is a spec: give it another name"):
        topo.read(path)


@given(st.text(st.sampled_from("[]012, :topRingSwich\n-&*"), max_size=60))
@examples(100)
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", written(["Switch"], [8], [50.0])):
        with suppress(FormatError):
            assert parse_astra_topology(head + text).fabric.n_end_ports >= 0
