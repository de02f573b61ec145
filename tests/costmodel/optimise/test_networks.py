"""Several networks at once: each as if it were alone, one bill, and limits that all share."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import plan
import topo
from costmodel.bills import bill
from costmodel.optimise.networks import optimise_networks
from costmodel.parts import NETWORK
from helpers.strategies import examples
from plan.cli import run
from topo.errors import HeddleError

NODES = {"gpu": {"model": "pcie-a100", "count": 60}, "disk": {"model": "storage-3fs", "count": 8}}
BASE = {
    "name": "pod",
    "nodes": NODES,
    "job": {"nodes": 60, "bisection": 0.5},
    "switches": ["QM8700"],
    "families": ["fat-tree"],
    "currency": "USD",
    "quotes": {"QM8700": 15000, "4xHDR": 250, "2xHDR": 200, "pcie-a100": 90000, "storage-3fs": 50000},
    "quoted": "2026-11-20",
    "networks": {
        "storage": {
            "adapters": {"gpu": 1, "disk": 2},
            "adapter": "MCX653105A-HDAT",
            "bandwidth": {"storage": 0.5},
            "families": ["fat-tree"],
        }
    },
}


def needs(**more: object) -> costmodel.Needs:
    return costmodel.Needs.model_validate({**BASE, **more})


@examples(8)
@given(nodes=st.integers(2, 90), bisection=st.sampled_from([0.2, 0.5, 1.0]), growth=st.sampled_from([0.0, 0.2]))
def test_two_networks_of_the_same_servers_cost_twice_as_much(nodes, bisection, growth) -> None:
    """A network that asks for what the first asks for is the first once more."""
    one = {
        **{key: BASE[key] for key in ("name", "switches", "families", "currency", "quotes")},
        "nodes": {"gpu": {"model": "pcie-a100", "count": nodes}},
        "job": {"nodes": nodes, "bisection": bisection},
        "growth": growth,
    }
    more = {"adapters": {"gpu": 1}, "job": one["job"], "families": one["families"]}
    alone = costmodel.optimise(costmodel.Needs.model_validate(one))
    both = optimise_networks(costmodel.Needs.model_validate({**one, "networks": {"b": more}}), costmodel.optimise)
    assert alone.winner is not None
    assert [found.winner and found.winner.price for found in both.searches.values()] == [alone.winner.price] * 2
    assert both.cost.known is not None
    assert both.cost.known.middle == pytest.approx(2 * alone.winner.price)
    assert (both.verdict, both.proven) == (alone.verdict, alone.proven)


def test_the_certificate_is_the_bill_of_the_spec_that_is_written(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    found = plan.optimise(needs(), file).networks
    assert found is not None
    assert found.verdict.holds
    assert found.proven
    cluster = topo.read(file)
    assert [fabric.name for fabric in cluster.fabrics] == ["pod", "pod-storage"]
    assert bill(cluster).of(*NETWORK).price("USD").network == found.cost
    assert {port.model for port in cluster.spec.nodes.values()} == {"pcie-a100", "storage-3fs"}
    hosts = [len(fabric.ends()) for fabric in cluster.fabrics]
    assert hosts == [60, 60 + 16]


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [
        ({"network_price": 1e9}, "holds"),
        ({"network_price": 100_000}, "exceeded"),  # the least price is proven
        ({"budget": {"price": "5000000 USD"}}, "exceeded"),  # 60 x 90,000 alone
        ({"budget": {"switches": 2}}, "cannot tell"),  # dearer networks may have fewer
        ({"supply": {"QM8700": {"stock": 5}}}, "cannot tell"),  # each has enough, both have not
    ],
)
def test_limits_are_those_of_all_networks_together(limit: dict[str, object], verdict: str) -> None:
    found = optimise_networks(needs(**limit), costmodel.optimise)
    assert str(found.verdict) == verdict
    assert (verdict == "holds") == all(check.verdict.holds for check in found.checks)
    assert all(each.verdict.holds for each in found.searches.values()), "alone each holds"


def test_a_network_that_no_switch_can_carry_is_named() -> None:
    found = optimise_networks(needs(supply={"QM8700": {"stock": 2}}), costmodel.optimise)
    assert (found.spec, str(found.verdict)) == (None, "exceeded")
    assert "no design was found for pod" in found.certificate


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"networks": {"storage": {"adapters": {"gpus": 1}}}}, "Did you mean `gpu`?"),
        ({"networks": {"storage": {"adapters": {"gpu": 1}, "bandwidth": {"storage": 1.0}}}}, "role storage"),
        ({"networks": {"storage": {"adapters": {"gpu": 1}, "job": {"nodes": 61}}}}, "at most 60"),
        ({"networks": {"storage": {"adapters": {"gpu": 1}, "switches": ["QM97000"]}}}, "QM9700"),
        ({"stages": [0.5]}, "one network"),
        ({"vendors": {"one": {"QM8700": 1}}}, "one network"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_place(more, says, tmp_path, capsys) -> None:
    file = tmp_path / "needs.yaml"
    file.write_text(yaml.safe_dump({**BASE, **more}))
    assert run(["optimise", str(file), "-o", str(tmp_path / "pod.yaml")]) == 2
    said = capsys.readouterr().err
    assert f"{file}:" in said
    assert says in said
    assert list(tmp_path.iterdir()) == [file]


def test_options_of_one_network_are_refused_beside_several(tmp_path: Path, capsys) -> None:
    with pytest.raises(HeddleError, match="one network"):
        plan.optimise(needs(), trade_offs=True)
    with pytest.raises(HeddleError, match="expected groups of `nodes`: gpu, disk"):
        optimise_networks(needs(networks={"x": {"adapters": {"gpus": 1}}}), costmodel.optimise)


@pytest.mark.slow
def test_the_command_says_what_python_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "needs.yaml"
    file.write_text(yaml.safe_dump(BASE))
    assert run(["optimise", str(file), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = plan.optimise(file)
    assert said == json.loads(json.dumps(found.to_dict()))
    assert run(["optimise", str(file)]) == 0
    assert f"storage: {found.networks.searches['storage'].winner.proof}" in capsys.readouterr().out.replace("\n", " ")
