import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import costmodel
import topo
from costmodel.optimise import cuts
from plan.cli import run
from plan.commands.cost import _explain
from topo.catalog.load import config_root

SPEC = str(config_root() / "fire-flyer-2.yaml")


@pytest.mark.slow
def test_cost_in_money_names_every_gap(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", SPEC, "--currency", "USD", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    gaps = [line for line in document["lines"] if line["unit_price"] is None and not line["included"]]
    assert len(gaps) == len(document["cost"]["gaps"]) > 0
    priced = [line for line in document["lines"] if line["unit_price"] and line["kind"] in ("switch", "cable")]
    assert sum(line["count"] * line["unit_price"][0] for line in priced) == document["cost"]["ranges"]["network"][0]
    assert document["cost"]["total"] is document["cost"]["ranges"]["total"] is None, "no GPU server has a price"
    assert sum(line["count"] for line in document["lines"] if line["kind"] == "cable") == 3_200


@pytest.mark.slow
def test_cost_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", SPEC, "--currency", "units"]) == 0
    shown = capsys.readouterr().out
    assert "366" in shown
    assert "not in the total: 180 x storage-3fs" in shown
    assert "as nothing names a currency" not in shown
    assert run(["cost", SPEC]) == 0
    assert "in USD, as nothing names a currency (`--currency`, or `currency` in the spec)" in capsys.readouterr().out


def test_energy_of_a_year_stands_beside_that_of_all_years_and_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "own.yaml"
    spec.write_text(
        "name: own\nnodes: {gpu: {model: pcie-a100, count: 16}, head: {model: management, count: 2}}\n"
        "network: {shape: fat-tree, switch: QM8700}\n"
        "owning: {years: 5, pue: 1.3, price_per_kwh: 0.12, currency: USD}\n"
    )
    assert run(["cost", str(spec)]) == 0
    said = capsys.readouterr().out
    (year, all_years) = re.findall(r"price of the energy (?:a year|in 5 years) +│ at least ([\d,]+) +│ USD", said)
    assert int(all_years.replace(",", "")) == pytest.approx(5 * int(year.replace(",", "")), abs=3)
    assert re.search("^not in the energy, typical power unknown: 2 x management", said, re.MULTILINE)
    assert "total unknown USD" in said and re.search(r"total of 5 years +│ unknown +│ USD", said), (
        "no server has a price"
    )


def test_compare_computes_the_tables_of_the_paper_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", SPEC, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["systems"] is None
    assert len(document["published"]) == 24
    assert run(["compare", SPEC]) == 0
    assert "Tables II and III" in capsys.readouterr().out


NEEDS = """
name: pilot
nodes: {gpu: {model: pcie-a100, count: 60}}
job: {nodes: 60}
switches: [QM8700]
"""


def test_optimise_writes_a_spec_that_the_other_commands_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    needs.write_text(NEEDS, encoding="utf-8")
    assert run(["optimise", str(needs), "-o", str(winner)]) == 0
    shown = capsys.readouterr().out
    assert "9 units; no design of these families costs less than 9" in shown
    assert run(["check", str(winner)]) == 0
    capsys.readouterr()
    assert run(["cost", str(winner), "--currency", "units", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["network"] == 9.0
    before = winner.read_bytes()
    assert run(["optimise", str(needs), "-o", str(winner)]) == 2
    assert winner.read_bytes() == before
    assert "found a file" in capsys.readouterr().err


@pytest.mark.slow
def test_a_winner_is_priced_as_its_needs_quote_and_knows_their_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "nodes.csv").write_text(
        "model,role,gpus,gpu,adapters,adapter_model,source,date,confidence\n"
        "mine,compute,4,RTX,1,MCX653105A-HDAT,a quote,2026,own\n",
        encoding="utf-8",
    )
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    text = (
        NEEDS.replace("pcie-a100", "mine") + "currency: EUR\nquotes: {QM8700: 20000, 4xHDR: 100}\nquoted: 2026-11-20\n"
    )
    needs.write_text(text + "catalog: own\n", encoding="utf-8")
    assert run(["optimise", str(needs), "-o", str(winner), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["winner"]
    assert run(["cost", str(winner), "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost["unit"] == "EUR"
    assert cost["network"] == found["price"] == 20_000 * found["switches"] + 100 * found["cables"]
    assert run(["check", str(winner)]) == 0
    prices = (tmp_path / "winner-catalog" / "prices.csv").read_text(encoding="utf-8")
    assert "QM8700,EUR,20000.0,20000.0,,quoted in the needs of pilot,2026-11-20,own" in prices
    needs.write_text((text + "catalog: own\n").replace("quoted: 2026-11-20", "quoted: soon"), encoding="utf-8")
    assert run(["optimise", str(needs)]) == 2
    assert "a date, such as 2026-11-20" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("asked", [True, False])
def test_the_spec_of_the_winner_keeps_the_limits_of_the_needs(
    asked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Servers of eight ports on rails, of which any leaf may fail; the budget is that of the needs."""
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    text = NEEDS.replace("pcie-a100, count: 60", "dgx-b200, count: 8").replace("60", "8").replace("QM8700", "QM9790")
    text += "quotes: {QM9790: 3}\nfamilies: [rail]\nbudget: {power: 200 kW, switches: 20}\n"
    text += f"survives_a_switch: {str(asked).lower()}\n"
    needs.write_text(text, encoding="utf-8")
    assert run(["optimise", str(needs), "-o", str(winner), "--json"]) == 0
    spec = topo.read(winner).spec
    assert spec.survives == (("switch",) if asked else ())
    assert (spec.budget.power, spec.budget.switches) == (200e3, 20)
    capsys.readouterr()
    assert run(["check", str(winner)]) == 0


@pytest.mark.slow
def test_with_a_floor_the_winner_is_priced_by_the_lengths_of_its_cables_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    text = NEEDS.replace("pcie-a100, count: 60", "hgx-b200, count: 9").replace("60", "9").replace("QM8700", "QM9790")
    text += "families: [fat-tree]\ncurrency: USD\nquotes: {QM9790: 27500, 4xNDR: 1150}\nfloor: {rack_units: 48}\n"
    needs.write_text(text, encoding="utf-8")
    assert run(["optimise", str(needs), "-o", str(winner), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run(["cost", str(winner), "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]["network"]
    assert found["winner"]["cost"] == found["winner"]["price"] == cost
    assert cost < found["winner"]["compared"]
    assert found["certificate"].startswith(f"{cost:,.0f} USD, ")
    assert "with each cable at its length" in found["certificate"]


def test_a_quote_by_speed_that_counts_nowhere_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a floor all links of NDR from an OSFP adapter are transceivers and fibres, which have no price by speed."""
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    needs.write_text(
        "name: pod\nnodes: {gpu: {model: dgx-h100, count: 8}}\njob: {nodes: 8}\nswitches: [QM9700]\n"
        "currency: USD\nquotes: {QM9700: 30000, 4xNDR: 500}\nfloor: {rack_units: 48}\n",
        encoding="utf-8",
    )
    assert run(["optimise", str(needs), "-o", str(winner)]) == 0
    assert "the price of 4xNDR counts nowhere" in capsys.readouterr().out
    assert run(["cost", str(winner)]) == 0
    assert "the price of 4xNDR counts nowhere" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_finalists_are_routed_and_what_bandwidth_costs_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    text = NEEDS.replace("60", "100").replace("{nodes: 100}", "{nodes: 100, bisection: 0.5}")
    needs.write_text(text, encoding="utf-8")
    asked = ["optimise", str(needs), "-o", str(winner), "--finalists", "2", "--trade-offs", "--json"]
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    names = [found["winner"]["name"], *(other["name"] for other in found["others"])]
    assert [each["name"] for each in found["finalists"]] == names
    assert all(each["proven"] and 0 < each["jobs"] < 1 for each in found["finalists"])
    assert found["others"][0]["price"] >= found["winner"]["price"]
    assert all(each["worst_job"] == "gpu00 to gpu99" for each in found["finalists"])
    assert (tmp_path / "winner.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert (tmp_path / "winner.png").read_bytes().startswith(b"\x89PNG")
    winner.unlink()
    assert run(asked) == 2  # the drawing is not written over
    assert not winner.exists()


def test_optimise_without_a_way_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    needs = tmp_path / "needs.yaml"
    needs.write_text(NEEDS + "budget: {switches: 2}\n", encoding="utf-8")
    assert run(["optimise", str(needs), "--json"]) == 1
    document = json.loads(capfd.readouterr().out)  # the solver, which is no Python, writes nothing there either
    assert document["winner"] is None
    assert document["bound"] is None


@pytest.mark.parametrize("command", ["cost", "compare", "optimise"])
def test_bad_input_is_one_message_and_status_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\nnodes: 3\n", encoding="utf-8")
    assert run([command, str(bad)]) == 2
    error = capsys.readouterr().err
    assert "bad.yaml:2:8" in error
    assert "Traceback" not in error
    assert run([command, str(tmp_path / "absent.yaml")]) == 2


@pytest.mark.parametrize("currency", ["XYZ", "[/x]", ""])
def test_a_currency_without_any_price_is_no_bill_of_zero(currency: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", SPEC, "--currency", currency]) == 2
    assert "expected one with prices in the catalog: EUR, USD, units" in capsys.readouterr().err


@pytest.mark.slow
def test_compare_sets_any_specs_beside_one_another(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("dgx-b200-superpod", "dgx-a100-superpod", "lab-20")
    specs = [str(config_root() / f"{name}.yaml") for name in names]
    assert run(["compare", *specs, "--currency", "USD", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [system["name"] for system in document["systems"]] == list(names)
    assert document["published"] is None
    for spec, system in zip(specs, document["systems"], strict=True):
        assert run(["cost", spec, "--currency", "USD", "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        assert (system["cost"], system["power"]) == (alone["cost"], alone["power"])
    assert run(["compare", *specs[:2]]) == 0
    shown = capsys.readouterr().out
    assert "Tables II and III" not in shown
    assert "no price" in shown and "power of" in shown
    assert "unknown" in shown


@pytest.mark.slow
def test_compare_has_the_times_of_jobs_that_a_simulation_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One spec has another network beside that of its jobs."""
    lab = str(config_root() / "lab-20.yaml")
    two = tmp_path / "two.yaml"
    two.write_text(
        "name: two\nnodes: {gpu: {model: dgx-h100, count: 4}, st: {model: storage-ndr, count: 2}}\n"
        "network: {shape: rail, unit_nodes: 4, tree: {switch: QM9700, spines: 2, parallel: 2}}\nnetworks:\n"
        "  storage: {network: {shape: fat-tree, switch: QM9700}, adapters: {gpu: 2, st: 2}}\n"
    )
    assert run(["compare", lab, str(two), "-w", "allreduce", "--json"]) == 0
    times = json.loads(capsys.readouterr().out)["times_s"]
    for spec, more, found in ((lab, [], times[0]), (str(two), ["--subnet", "two"], times[1])):
        assert run(["simulate", spec, "-w", "allreduce", *more, "--json"]) == 0
        jobs = json.loads(capsys.readouterr().out)["jobs"]
        assert found == {job["name"]: pytest.approx(job["time_s"]) for job in jobs} and found
    assert run(["compare", lab, str(two), "-w", "allreduce"]) == 0
    assert "times of jobs" in capsys.readouterr().out


def test_a_spec_that_is_not_the_papers_needs_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(config_root() / "lab-20.yaml")]) == 2
    assert "expected another spec to compare with" in capsys.readouterr().err


TAPERED = str(config_root() / "tapered-three-to-one.yaml")


@pytest.mark.slow
def test_the_worst_cut_stands_beside_the_bisection_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaves of 30 servers with ten uplinks, whichever command is asked."""
    cut = "leaf00 (30 servers, 6,000 Gb/s) has 2,000 Gb/s to the rest, as each of 20 such sets"
    assert run(["check", TAPERED]) == 0
    said = capsys.readouterr().out
    assert "33.3% of its rate (8.333 GB/s) for each server while" in said and cut in " ".join(
        said.replace("│", " ").split()
    )
    assert run(["check", TAPERED, "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["bandwidth"]
    assert run(["compare", TAPERED, TAPERED, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["systems"][0]
    for found in (checked, compared):
        for name in ("bisection", "bisection_least"):
            assert found[name] == pytest.approx(1 / 3)
        worst = found["worst_cut"]
        assert worst["switches"] == worst["with_servers"] == ["leaf00"]
        assert (worst["servers"], worst["leaves_gbps"], worst["asked_gbps"]) == (30, 2_000, 6_000)
        assert worst["alike"] == 20
    drawing = tmp_path / "cut.svg"
    assert run(["draw", TAPERED, "--view", "cut", "-o", str(drawing)]) == 0
    svg = drawing.read_text(encoding="utf-8")
    assert f"worst cut: {cut}" in svg
    assert "bisection 33.3%" in svg
    assert run(["draw", TAPERED, "--view", "cut", "--tables", str(drawing)]) == 2
    needs = tmp_path / "needs.yaml"
    asked = NEEDS.replace("60", "120").replace("{nodes: 120}", "{nodes: 120, bisection: 0.2}")
    needs.write_text(asked + "families: [fat-tree]\n", encoding="utf-8")
    assert run(["optimise", str(needs), "--json"]) == 0
    winner = json.loads(capsys.readouterr().out)["winner"]
    worst, share = winner["worst_cut"], winner["job_bisection"]
    assert share == worst["leaves_gbps"] / worst["asked_gbps"] == winner["bisection"]
    assert run(["optimise", str(needs)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"holds, proven ({share:.1%}, 20.0% needed): leaf" in shown
    assert f"has {worst['leaves_gbps']:,.0f} Gb/s to the rest" in shown


@pytest.mark.slow
def test_the_report_of_a_plan_names_the_worst_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["build", TAPERED, "-o", str(tmp_path / "out")]) == 0
    cut = "sends to the other; leaf00 (30 servers, 6,000 Gb/s) has 2,000 Gb/s to the rest, as each of 20 such sets"
    assert cut in " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert cut in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_bandwidth_that_is_only_not_refuted_ends_with_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuts, "MOST_ENUMERATED", -1)
    monkeypatch.setattr(cuts, "MOST_PROVEN", -1)
    monkeypatch.setattr(cuts, "spread_share", lambda *_: 0.0)
    needs = tmp_path / "needs.yaml"
    needs.write_text(NEEDS, encoding="utf-8")
    assert run(["optimise", str(needs)]) == 3
    assert "a job of 60 nodes: not refuted (at most 100.0%, 100.0% needed)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "growth: 0.5\n", "growth: 0.3\nstages: [0.5]\nmoving: 20\n"])
def test_the_bill_of_the_winner_is_its_certificate(
    more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs, winner = tmp_path / "needs.yaml", tmp_path / "winner.yaml"
    quotes = "currency: USD\nquoted: 2026-01-01\nquotes: {QM8700: 22000, 4xHDR: 600}\n"
    needs.write_text(NEEDS + quotes + more, encoding="utf-8")
    assert run(["optimise", str(needs), "-o", str(winner), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["winner"]
    assert "survives" not in winner.read_text(), "servers of one port do not live on"
    assert run(["cost", str(winner), "--currency", "USD", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["network"] == found["cost"] == found["price"] - found["moving"]
    if found["stages"]:
        assert found["stages"][-1]["price"] == found["cost"]


@pytest.mark.parametrize("said", [{}, {"tried": ["a"]}, {"refused": ["no"]}, {"ended": "time"}, {"winner": "a"}])
def test_only_a_search_that_found_and_refused_nothing_says_that_there_is_no_room(
    said: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    needs = SimpleNamespace(families=["torus"], switches=["QM8700"], currency="USD")
    found = SimpleNamespace(
        **{"winner": None, "tried": [], "refused": [], "ended": "", "unpriced": (), "needs": needs, "others": True}
        | said
    )
    if found.winner:
        found.winner = SimpleNamespace(stages=(), checks=(), idle=())
    _explain(found, "")  # type: ignore[arg-type]
    assert ("no design of torus on QM8700 has room" in capsys.readouterr().out) == (not said)


@pytest.mark.parametrize("command", ["check", "build", "cost"])
@pytest.mark.parametrize("currency", [None, "units", "EUR"])
def test_every_command_takes_the_same_currency(
    command: str, currency: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """USD where nothing names another; what the option names comes before the spec, in all commands alike."""
    spec = tmp_path / "pod.yaml"
    spec.write_text(SMALL_POD)
    words = ["-o", str(tmp_path / "out")] * (command == "build") + ["--currency", str(currency)] * (
        currency is not None
    )
    assert run([command, str(spec), *words, "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)["cost"]
    assert cost == costmodel.bill(topo.read(spec)).price(currency or "USD").to_dict()
    if command == "build":
        assert f",{currency or 'USD'}," in (tmp_path / "out" / "bom.csv").read_text()
    assert run([command, str(spec), *words[: 2 * (command == "build")], "--currency", "CHF"]) == 2
    assert "expected one with prices in the catalog" in capsys.readouterr().err


SMALL_POD = "name: pod\nnodes: {gpu: {model: pcie-a100, count: 4}}\nnetwork: {shape: fat-tree, switch: QM8700}\n"


@pytest.mark.parametrize("limit", [1, 10**9])
def test_a_total_of_which_too_little_is_known_is_unknown_in_all_places(
    limit: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is known may exceed a limit alone, and is then told; else no place gives a total that lacks the servers."""
    spec = tmp_path / "pod.yaml"
    owning = "owning: {years: 5, pue: 1.3, price_per_kwh: 0.12, currency: USD}\n"
    spec.write_text(f"{SMALL_POD}{owning}budget: {{price: {limit} USD}}\n")
    assert run(["check", str(spec)]) == (1 if limit == 1 else 3)
    said = " ".join(capsys.readouterr().out.split())
    assert "total unknown USD" in said and "both unknown USD in" in said
    assert ("price at least" in said) == (limit == 1) and ("price unknown" in said) == (limit > 1)
    assert run(["cost", str(spec), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["cost"]["total"] is document["owning"]["capital"] is document["owning"]["total"] is None
    assert {"total", "servers"} <= {*document["cost"]["at_least"]}


def test_the_skeleton_of_prices_is_a_table_that_a_spec_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, prices = tmp_path / "pod.yaml", tmp_path / "prices.csv"
    spec.write_text(SMALL_POD)
    assert run(["cost", str(spec), "--skeleton", str(prices)]) == 0
    assert "fill in price, source and date" in capsys.readouterr().err
    assert run(["cost", str(spec), "--skeleton", str(prices)]) == 2
    spec.write_text(f"{SMALL_POD}catalog: prices.csv\n")
    assert run(["cost", str(spec)]) == 2
    assert "no source for pcie-a100" in capsys.readouterr().err, "what is not filled in is refused"
    prices.write_text(prices.read_text().replace(",USD,,,", ",USD,5,6,").replace(",,,own", ",a quote,2026-11-27,own"))
    capsys.readouterr()
    assert run(["cost", str(spec), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cost"]["gaps"] == []


@pytest.mark.parametrize(("limit", "status"), [("1 USD", 1), ("900000 USD", 3)])
def test_a_search_that_lacks_a_price_says_that_nothing_is_known_to_do(
    limit: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Servers without a price leave a limit undecided; a limit that switches alone exceed leaves nothing."""
    needs = tmp_path / "needs.yaml"
    needs.write_text(f"{NEEDS}currency: USD\nfamilies: [fat-tree]\nbudget: {{price: {limit}}}\n")
    assert run(["optimise", str(needs)]) == status
    said = " ".join(capsys.readouterr().out.split())
    assert ("no design is known to meet the needs, and what is unknown" in said) == (status == 3)
    assert ("no design meets the needs, and why not" in said) == (status == 1)
