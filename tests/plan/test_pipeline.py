"""Passes say what they need and add, and the page of passes says what they say."""

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import routing
import topo
from plan import building, pipeline
from plan.inputs import read_routed_argument
from plan.pipeline import BUILD, ROUTE, Options, Pass, Plan
from plan.render.views import facts

LAB = topo.preset("lab-20")
INPUTS = {"name", "cluster", "source", "fabric_sha256", "options"}
GROUPS = ("DESIGN", "CHECK", "BUILD", "ROUTE", "STUDY")


def test_the_page_of_passes(repository: Path) -> None:
    page = (repository / "docs" / "dev" / "passes.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    passes = [*dict.fromkeys((*BUILD, *ROUTE))]
    assert [row for row in rows if len(row) == 4] == [
        [f"`{one.name}`", one.purpose, *(", ".join(f"`{name}`" for name in names) or "-"
                                         for names in (one.needs, (*one.adds, *one.refines)))]
        for one in passes
    ]  # fmt: skip
    groups = {row[0].strip("`"): re.findall(r"`(\w+)`", row[2]) for row in rows if len(row) == 3}
    assert groups == {name: [one.name for one in getattr(pipeline, name)] for name in GROUPS}


@pytest.mark.parametrize(
    ("given", "passes"), [(Plan(LAB.name, LAB), BUILD), (Plan("found", fabrics=(LAB.fabric,)), ROUTE)], ids="BR"
)
def test_a_pass_needs_and_adds_what_it_says(given: Plan, passes: tuple[Pass, ...]) -> None:
    """On a plan that has the inputs and what the pass needs, and nothing else, it fills what it says, and nothing else.

    What it completes it needs only as far as that is there.
    """
    empty = {one.name: getattr(Plan(""), one.name) for one in fields(Plan)}
    whole = given
    for one in passes:
        bare = replace(whole, **{name: value for name, value in empty.items() if name not in INPUTS | {*one.needs}})
        made, whole = one(bare), one(whole)
        changed = {name for name in empty if getattr(made, name) is not getattr(bare, name)}
        assert changed <= {*one.adds, *one.refines}, one.name
        for name in one.adds:
            assert type(getattr(made, name)) is type(getattr(whole, name)), (one.name, name)
    assert {name for one in passes for name in one.adds} <= {*empty}


def test_a_group_has_what_each_of_its_passes_needs() -> None:
    for name in GROUPS:
        there = INPUTS | ({"fabrics"} if name == "ROUTE" else {"fabrics", "routed"} if name == "STUDY" else set())
        for one in getattr(pipeline, name):
            assert {*one.needs} <= there, (name, one.name)
            there |= {*one.adds}


@pytest.mark.slow
def test_planes_are_routed_once_and_come_out_as_if_each_were_routed_alone() -> None:
    """A copy in all arrays gets the same tables; one that lacks a cable, or has names that a reason holds, does not."""
    network = {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700", "leaves": 3, "spines": 2}}
    nodes = {"gpu": {"model": "hgx-h800", "count": 12}}
    cluster = topo.parse({"name": "planes", "nodes": nodes, "network": network, "routing": {"lmc": 1}})
    plan = pipeline.run_passes(Plan("planes", cluster), BUILD[:6])
    assert plan.routed[0].tables is plan.routed[1].tables
    assert plan.proofs[0] is plan.proofs[1]
    fabric, routed = plan.fabrics[1], plan.routed[1]
    alone = routing.route(fabric, fabric.engine)
    assert (alone.tables.lft == routed.tables.lft).all() and (alone.tables.lid == routed.tables.lid).all()
    assert routed.fabric is fabric and alone.to_dict() == routed.to_dict() | {"engine_reason": alone.why}
    assert alone.why == routed.why
    proof = routing.prove(alone)
    assert proof.to_dict() == plan.proofs[1].to_dict() and (proof.load == plan.proofs[1].load).all()
    quality = routing.measure(alone, proof=proof).at_most(plan.bounds[1].ebb)
    assert quality.to_dict() == plan.qualities[1].to_dict()
    assert routing.studies.bound(fabric, reached=proof.max_load).to_dict() == plan.bounds[1].to_dict()
    assert routing.studies.measure_lids(alone).to_dict() == plan.multipaths[1].to_dict()
    peer = fabric.peer.copy()
    peer[fabric.links[fabric.is_inner[fabric.links[:, 0]]][0]] = -1
    broken = replace(fabric, peer=peer)
    assert not broken.is_copy_of(fabric)
    assert not (routing.route(broken, like=[routed]).tables.lft == alone.tables.lft).all()
    refused = replace(routed, candidates=(replace(routed.candidates[0], refusal="p0-leaf0 is odd"),))
    assert routing.route(fabric, like=[refused]).tables is not refused.tables


@pytest.mark.slow
def test_the_traffic_that_a_spec_names_is_that_of_the_option(tmp_path: Path) -> None:
    """Alike from every command that routes a spec, from wherever it is called; what is no file is refused once."""
    text = "name: own\nnodes: {gpu: {model: pcie-a100, count: 20}}\n"
    text += "network: {shape: fat-tree, switch: QM8700, leaves: 4, spines: 2}\n"
    bare, own, demand = tmp_path / "bare.yaml", tmp_path / "own.yaml", tmp_path / "sent.csv"
    bare.write_text(text)
    own.write_text(text + "routing: {engine: minhop, for: sent.csv}\n")
    demand.write_text("src,dst,weight\n" + "".join(f"gpu{i:02},gpu{5 + i:02},1\n" for i in range(5)))
    asked = building.route(bare, purpose=str(demand), options=Options(engine="minhop")).routed[0]
    assert "under the demand" in asked.why
    several = [building.build(own).routed[0], building.route(own).routed[0], read_routed_argument(own)]
    for routed in several:
        assert (routed.tables.lft == asked.tables.lft).all()
    demand.write_text("src,dst,weight\ngpu00,gpu99,1\n")
    with pytest.raises(topo.HeddleError, match=r"sent\.csv:2: .*gpu99"):
        building.build(own)
    demand.unlink()
    with pytest.raises(topo.SpecError, match=r'own\.yaml:4:32: found the text "sent\.csv"; expected one of any, jobs'):
        building.check(own)


def test_the_traffic_of_a_spec_is_that_of_its_network(tmp_path: Path) -> None:
    """A job of GPUs sends nothing over the network of storage, whose tables are what they are without it."""
    text = "name: two\nnodes: {gpu: {model: dgx-h100, count: 4}}\n"
    text += "network: {shape: fat-tree, switch: QM9700, leaves: 4, spines: 2}\nnetworks:\n"
    text += "".join(
        f"  {name}: {{network: {{shape: fat-tree, switch: QM9700}}, adapters: {{gpu: 1}}}}\n" for name in ("a", "b")
    )
    (tmp_path / "job.yaml").write_text(
        "jobs: [{name: sum, kind: collective, collective: allreduce, ranks: 32, size: 1 GiB}]\n"
    )
    spec, bare = tmp_path / "two.yaml", tmp_path / "bare.yaml"
    bare.write_text(text)
    spec.write_text(text + "routing: {for: job.yaml}\n")
    asked, plain = building.build(spec).routed, building.build(bare).routed
    assert [routed.fabric.name for routed in asked] == ["two", "two-a", "two-b"]
    assert ["under the demand" in routed.why for routed in asked] == [True, False, False]
    for one, other in zip(asked[1:], plain[1:], strict=True):
        assert (one.tables.lft == other.tables.lft).all()


@pytest.mark.slow
def test_no_figure_is_above_its_own_bound() -> None:
    """On small trees at random: the mean of a sample of halves is above the bound over all halves now and then."""
    rng, above = np.random.default_rng(0), 0
    for hosts, leaves, spines, parallel in [(8, 2, 2, 1), *rng.integers((4, 2, 1, 1), (17, 5, 4, 3), (24, 4)).tolist()]:
        tree = {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves, "spines": spines, "parallel": parallel}
        nodes = {"gpu": {"model": "pcie-a100", "count": hosts}}
        cluster = topo.parse({"name": "small", "nodes": nodes, "network": tree})
        plan = pipeline.run_passes(Plan("small", cluster), BUILD)
        (quality,), (bounds,) = plan.qualities, plan.bounds
        above += routing.measure(plan.routed[0]).ebb > bounds.ebb
        assert quality.ebb <= bounds.ebb and quality.max_load >= bounds.max_load
        figures = plan.to_dict()["quality"]
        assert figures["ebb"] <= figures["ebb_bound"]
        (row,) = (said for name, said in facts(plan) if name == "effective bisection")
        printed, error, most = re.search(r"^([\d.]+)( ±)? .* at most ([\d.]+)\.", row).groups()  # type: ignore[union-attr]
        assert float(printed) <= float(most)
        assert (error is None) == (quality.ebb == bounds.ebb), "a bound has no error"
    assert above


@pytest.mark.parametrize(("switch", "model"), [("Q3400", "dgx-b300"), ("QM9700", "dgx-h100")])
def test_tables_of_switches_of_several_chips_stand_beside_a_caveat(switch: str, model: str) -> None:
    tree = {"shape": "fat-tree", "switch": switch, "leaves": 2, "spines": 2, "parallel": 8}
    cluster = topo.parse({"name": "pod", "nodes": {"gpu": {"model": model, "count": 2}}, "network": tree})
    rows = dict(facts(pipeline.run_passes(Plan("pod", cluster), BUILD)))
    assert ("caveat" in rows) == (switch == "Q3400")
    assert list(rows)[list(rows).index("proof") + 1] == ("caveat" if switch == "Q3400" else "load")
