"""Topologies of ns-3 against the networks of servers, rails and planes that they were written from."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from topo.dumps.ns3_topology import parse_ns3_topology
from topo.errors import FormatError
from topo.fabric import Kind

Links = list[tuple[int, int, float]]


def network(rng: np.random.Generator) -> tuple[int, int, int, int, Links]:
    """GPUs a server, GPUs, NVSwitches, other switches, and links as two numbers and Gb/s: rails, maybe two a GPU."""
    each, servers, planes, spines = (int(rng.integers(1, most)) for most in (5, 5, 3, 4))
    gpus, nv_each = each * servers, int(rng.integers(0, 3))
    first = gpus + servers * nv_each
    links: Links = []
    for gpu in range(gpus):
        links += [(gpu, gpus + gpu // each * nv_each + nv, 2880.0) for nv in range(nv_each)]
        links += [(gpu, first + plane * each + gpu % each, 200.0) for plane in range(planes)]
    leaves = planes * each
    links += [(first + leaf, first + leaves + spine, 400.0) for leaf in range(leaves) for spine in range(spines)]
    return each, gpus, servers * nv_each, leaves + spines, links


def written(found: tuple[int, int, int, int, Links], rng: np.random.Generator, simai: bool) -> str:
    each, gpus, nv, switches, links = found
    counted = [gpus + nv + switches, each, nv, switches, len(links), "H800"]
    if not simai:
        counted = [counted[0], nv + switches, len(links)]
    lines = [" ".join(map(str, counted)), " ".join(str(gpus + at) for at in range(nv + switches))]
    for a, b, gbps in links:
        shown = rng.choice([f"{gbps:g}Gbps", f"{gbps:g}Gb/s", f"{gbps / 1000:g}Tbps", f"{gbps * 1000:.0f}Mbps"])
        lines.append(f"{a} {b} {shown} {rng.choice(['0.0005ms', '500ns', '1us', '0.000001s'])} 0")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(20))
def test_the_network_comes_back_without_what_is_inside_servers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    each, gpus, nv, _, links = found = network(rng)
    read = parse_ns3_topology(written(found, rng, simai=True))
    fabric = read.fabric

    def name(node: int) -> str:
        return f"server{node // each} gpu{node % each}" if node < gpus else f"switch{node}"

    outside = [link for link in links if not gpus <= link[1] < gpus + nv]
    ends = [[fabric.names[fabric.port_node[port]] for port in link] for link in fabric.links.tolist()]
    rates = fabric.rate_gbps[fabric.links[:, 0]].tolist()
    assert Counter((*sorted(pair), rate) for pair, rate in zip(ends, rates, strict=True)) == Counter(
        (*sorted((name(a), name(b))), rate) for a, b, rate in outside
    )
    assert fabric.hosts == tuple(f"server{at}" for at in range(gpus // each))
    assert (fabric.kind[fabric.n_switches :] == Kind.HCA).all()
    assert [reason for _, reason in read.skipped] == (
        [f"{nv:,} NVSwitches and their {len(links) - len(outside):,} links, which are inside servers"] if nv else []
    )


def test_a_file_of_hpcc_is_a_fabric(tmp_path) -> None:
    path = tmp_path / "fat.txt"
    path.write_text(
        "5 2 4\n3 4\n0 3 100Gbps 1000ns 0.000000\n1 3 100Gbps 1us 0\n2 4 100Gbps 1us 0\n3 4 400Gbps 1us 0\nx"
    )
    fabric = topo.read_fabric(path)

    assert fabric.names[: fabric.n_switches] == ("switch3", "switch4")
    assert fabric.hosts == ("host0", "host1", "host2")
    assert sorted(fabric.rate_gbps[fabric.links[:, 0]].tolist()) == [100, 100, 100, 400]
    assert fabric.notes == (f"{path}:7: skipped, what follows the 4 links that the first line counts",)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "found ''; expected how many nodes"),
        ("5 2\n", 1, "found '5 2'; expected how many nodes"),
        ("5 2 x\n", 1, "expected how many nodes"),
        ("5 2 1\n3 5\n", 2, "expected the numbers of 2 switches below 5"),
        ("5 2 1\n3\n", 2, "expected the numbers of 2 switches below 5"),
        ("5 2 1\n3 4 2\n", 2, "found 3 switches; expected 2, each once"),
        ("5 2 1\n3 3\n", 2, "found 1 switches; expected 2, each once"),
        ("5 1 1\n3\n0 3 100Gbps 1us\n", 3, "expected two different nodes below 5"),
        ("5 1 1\n3\n3 3 100Gbps 1us 0\n", 3, "expected two different nodes below 5"),
        ("5 1 1\n3\n5 3 100Gbps 1us 0\n", 3, "expected two different nodes below 5"),
        ("5 1 1\n3\n0 3 333Gbps 1us 0\n", 3, "found 333 Gb/s; expected the rate of a link"),
        ("5 1 2\n3\n0 3 100Gbps 1us 0\n", 0, "found 1 links; expected 2, as the first line says"),
    ],
)
def test_refuses_and_says_where(text: str, line: int, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        parse_ns3_topology(text)
    assert (caught.value.line or 0) == line


@given(st.text(st.sampled_from("012 0\nGbpsmu."), max_size=80))
@examples(100)
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", "4 1 1\n3\n0 3 100Gbps 1us 0\n"):
        with suppress(FormatError):
            assert parse_ns3_topology(head + text).fabric.n_end_ports >= 0
