"""Lists of links against the fabrics that they were written from."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from helpers.trees import grow_tree
from topo.dumps.edge_list import parse_edge_list
from topo.errors import FormatError
from topo.fabric import Fabric, Kind

HEAD = "from,to,gbps\n"


def edges(fabric: Fabric) -> list[tuple[str, str, str]]:
    """Both ends of each cable and its rate, ends in order."""
    rows = []
    for a, b in fabric.links.tolist():
        near, far = (fabric.names[fabric.port_node[port]] for port in (a, b))
        rows.append((*sorted((near, far)), f"{fabric.rate_gbps[a]:g}"))
    return rows


@pytest.mark.parametrize("shape", [((4, 4), (1, 3), (1, 1)), ((2, 3, 2), (1, 2, 2), (1, 1, 2))])
@pytest.mark.parametrize("seed", range(3))
def test_nodes_and_cables_come_back(shape: tuple, seed: int) -> None:
    fabric = grow_tree(*shape)
    rows = edges(fabric)
    order = np.random.default_rng(seed).permutation(len(rows))
    found = parse_edge_list(HEAD + "\n".join(",".join(rows[at]) for at in order)).fabric

    assert Counter(edges(found)) == Counter(rows)
    assert {*found.names} == {*fabric.names}
    kinds = dict(zip(fabric.names, fabric.kind.tolist(), strict=True))
    assert all(kinds[name] == kind for name, kind in zip(found.names, found.kind.tolist(), strict=True))


def test_a_file_is_a_fabric(tmp_path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("# two leaves\n" + HEAD + "a mlx5_0,s,200\na mlx5_1,t,HDR\nb,s,200\nb,t,200\ns,t,100\n")
    fabric = topo.read_fabric(path)

    assert fabric.names[: fabric.n_switches] == ("s", "t", "b")
    assert fabric.hosts == ("a",)
    assert sorted(fabric.rate_gbps[fabric.links[:, 0]].tolist()) == [100, 200, 200, 200, 200]
    assert (fabric.kind[fabric.n_switches :] == Kind.HCA).all()


@pytest.mark.parametrize("row", ["a,b", "a,a,200", "a,b,333", "a,b,200,7", ",b,200"])
def test_refuses_and_says_where(row: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_edge_list(f"{HEAD}{row}\n")
    assert caught.value.line == 2


@given(st.text(st.sampled_from('ab,12 0\n#"xHDR'), max_size=80))
@examples(100)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(FormatError):
        assert parse_edge_list(HEAD + text).fabric.n_end_ports >= 0
