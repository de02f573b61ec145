"""Fat-trees of htsim against trees that are counted and wired by hand."""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from topo.dumps.htsim_topology import parse_htsim_topology
from topo.errors import FormatError

Tree = dict[str, list[int]]


def tree(rng: np.random.Generator) -> Tree:
    """Two or three tiers drawn at random: what each of them says, as htsim checks it."""
    tiers, hosts, tors, pods, aggs, ups = int(rng.integers(2, 4)), *(int(rng.integers(1, 4)) for _ in range(5))
    bundle = [1, *(int(rng.integers(1, 3)) for _ in range(2))]
    down = [hosts, tors * bundle[1], pods * bundle[2]]
    up = [aggs * bundle[1], ups * bundle[2]]
    header = [pods * tors * hosts, tiers, tors * hosts]
    return {"header": header, "down": down[:tiers], "up": up[: tiers - 1], "bundle": bundle[:tiers],
            "speed": [int(rate) for rate in rng.choice([100, 200, 400, 800], tiers)]}  # fmt: skip


def written(found: Tree, rng: np.random.Generator) -> str:
    lines = ["# a fat-tree", *(f"{k} {v}" for k, v in zip(("Nodes", "Tiers", "Podsize"), found["header"], strict=True))]
    for tier in range(len(found["down"])):
        said = [f"Downlink_speed_Gbps {found['speed'][tier]}", f"Radix_Down {found['down'][tier]}", "Queue_Down 1001"]
        said += [f"Radix_Up {found['up'][tier]}"] if tier < len(found["up"]) else []
        said += [f"Bundle {found['bundle'][tier]}"] if found["bundle"][tier] > 1 else ["Switch_Latency_ns 0"]
        lines += ["", f"Tier {tier}", *rng.permutation([*said, "Downlink_Latency_ns 1000"]).tolist()]
    return "\n".join(line.lower() if rng.random() < 0.3 else line for line in lines) + "\n"


@pytest.mark.parametrize("seed", range(20))
def test_every_switch_has_the_links_that_its_tier_says(seed: int, tmp_path) -> None:
    rng = np.random.default_rng(seed)
    found = tree(rng)
    (path := tmp_path / "x.topo").write_text(written(found, rng))
    fabric = topo.read_fabric(path)
    hosts, tiers, pod = found["header"]
    up, down = [*found["up"], 0], found["down"]
    tors = hosts // down[0]
    aggs = tors * up[0] // down[1]
    cores = aggs * up[1] // down[2] if tiers == 3 else 0
    assert (fabric.n_end_ports - fabric.n_switches, fabric.n_switches) == (hosts, tors + aggs + cores)
    ends = [[fabric.names[fabric.port_node[port]] for port in link] for link in fabric.links.tolist()]
    counted = Counter(name for pair in ends for name in pair)
    of = {"host": 1, "tor": down[0] + up[0], "agg": down[1] + up[1], "core": down[-1]}
    for name, links in counted.items():
        assert links == of[name.rstrip("0123456789").removesuffix(" nic").rstrip("0123456789")], name
    pod_of = {"tor": tors // (hosts // pod), "agg": aggs // (hosts // pod)}
    bundles = Counter(tuple(sorted(pair)) for pair in ends)
    for (a, b), n in bundles.items():
        kinds = a.rstrip("0123456789"), b.rstrip("0123456789")
        if kinds == ("agg", "tor"):
            assert n == found["bundle"][1]
            assert int(a[3:]) // pod_of["agg"] == int(b[3:]) // pod_of["tor"], "within a pod"
        elif kinds == ("agg", "core"):
            assert n == found["bundle"][2]
    rates = fabric.rate_gbps[fabric.links[:, 0]].tolist()
    at = [sorted({name[:3] for name in pair}) for pair in ends]
    speeds = {("hos", "tor"): 0, ("agg", "tor"): 1, ("agg", "cor"): 2}
    assert all(rate == found["speed"][speeds[tuple(kinds)]] for rate, kinds in zip(rates, at, strict=True))


TWO = "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 400\nRadix_Down 4\nRadix_Up 2\nTier 1\n"
TWO += "Downlink_speed_Gbps 400\nRadix_Down 2\n"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("Tiers 2\n", "Tiers 2\nTiers 2\n", 3, "found 'Tiers 2'; expected one of nodes, tiers, podsize, each once"),
        ("Tiers 2", "Tiers 4", 0, "found 4 tiers; expected 2 or 3"),
        ("Tiers 2", "Tiers 3", 0, "found radix_down of tier 2 to be missing"),
        ("Radix_Up 2", "Radix_Op 2", 7, "found 'Radix_Op 2'; expected one of downlink_speed_gbps"),
        ("Radix_Up 2\n", "", 0, "found radix_up of tier 0 to be missing"),
        ("Podsize 8", "Podsize 3", 0, "found 8 nodes; expected a multiple of 3"),
        ("Radix_Down 4", "Radix_Down 3", 0, "found 8 hosts of a pod; expected a multiple of 3"),
        ("Radix_Down 2", "Radix_Down 3", 0, "found radix_down 3 of tier 1; expected 2, 1 for each of 2 tors of a pod"),
        ("400\nRadix_Down 4", "333\nRadix_Down 4", 0, "found 333 Gb/s; expected the rate of a link"),
        ("Nodes 8", "Nodes 800000000", 0, "nodes"),
        ("Radix_Up 2", "Radix_Up 999999999", 0, "cable"),
    ],
)
def test_refuses_and_says_where(old: str, new: str, line: int, message: str) -> None:
    assert len(parse_htsim_topology(TWO).fabric.links) == 12
    assert old in TWO
    with pytest.raises(FormatError, match=message) as caught:
        parse_htsim_topology(TWO.replace(old, new, 1))
    assert (caught.value.line or 0) == line


@given(st.text(st.sampled_from("012 TierNodsRax_Up\n"), max_size=60))
@examples(100)
def test_any_text_is_read_or_refused(text: str) -> None:
    for head in ("", TWO):
        with suppress(FormatError):
            assert parse_htsim_topology(head + text).fabric.n_end_ports >= 0
