"""docs/reference/files.md and docs/describe.md: every column of every table that is written, and a spec that checks."""

import csv
import io
import re
from pathlib import Path

import numpy as np
import pytest

import costmodel
import routing
import simulate
import topo
from plan.cli import run
from plan.export.p2p import P2P_HEADER
from plan.simulation import LINKS, Simulated, simulation_files
from plan.sweeps.summary import intervals, sensitivities, table_of_points

PAGE = "docs/reference/files.md"


def documented(repository: Path) -> dict[str, list[str]]:
    """Columns of each file by its name, as the page has them."""
    text = (repository / PAGE).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for section in text.split("\n## ")[1:]:
        name = re.findall("`(.*?)`", section)[0]
        for row in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE):
            first, second = (re.findall("`([^`]*)`", cell) for cell in row)
            if name.endswith("/"):
                found[name + first[0]] = second
            else:
                found.setdefault(name, []).extend(first)
    return found


def test_every_column_of_every_table_is_documented(repository: Path) -> None:
    pages, folder = documented(repository), repository / "tests" / "golden" / "lab-20"
    tables = sorted(folder.rglob("*.csv"))
    assert len(tables) > 8
    for table in tables:
        name = table.relative_to(folder).as_posix()
        name = re.sub(r"(roles|manufacturers)/.*", r"\1/*.csv", name)
        with table.open(encoding="utf-8") as file:
            assert sorted(next(csv.reader(file))) == sorted(pages[name]), name
    assert sorted(LINKS) == sorted(pages["links.csv"])


@pytest.mark.slow
def test_every_column_of_what_other_commands_write_is_documented(repository: Path) -> None:
    pages, cluster = documented(repository), topo.preset("lab-20")
    fabric, bill = cluster.fabric, costmodel.bill(cluster)
    routed = routing.route(fabric)
    job = {"name": "a", "nodes": 2, "steps": 1, "forward": "1 s", "backward": "1 s"}
    day = simulate.cluster.ClusterRun(
        simulate.Network.of(routed, latency_s=0), simulate.cluster.parse_queue({"jobs": [job]})
    )
    points = [{"point": {"seed": seed}, "figures": {"cost.total": float(seed)}} for seed in (1, 2)]
    written = {
        "jobs.csv": day.table,
        "differences.csv": topo.find_differences(fabric, fabric).table,
        "works.csv": topo.plan_growth(fabric, fabric).table,
        "bought.csv": bill.beyond(bill).table,
        "updates.csv": routing.repairs.order_updates(routed, routed).write_table,
        "points.csv": table_of_points(points),
        "intervals.csv": intervals(points),
        "sensitivities.csv": sensitivities(points),
    }
    for name, table in written.items():
        header = next(csv.reader([table.to_csv().splitlines()[0]]))
        assert [column for column in header if column not in ("seed", "cost.total")] == pages[name], name
    assert set(P2P_HEADER) == set(pages["exports/p2p.xlsx"])
    flows = simulate.workload.bare_flows(simulate.Flows.of(*fabric.ends(role="compute")[:2], 1e6), "one")
    for engine in ("fluid", "packets"):
        network = simulate.Network.of(routed, hop_latency_s=1e-7, latency_s=0)
        simulation = simulate.play(network, flows, engine=engine)
        files = simulation_files(Simulated(simulation, {}), "one")
        arrays = set(np.load(io.BytesIO(files["timeline.npz"])))
        assert arrays == set(pages["timeline.npz"]) - ({"filled_bytes"} if engine == "fluid" else set())
        assert files["links.csv"].splitlines()[0].split(",") == pages["links.csv"]
    lines = b"".join(simulate.workload.format_trace_csv(simulation.workload, simulation.outcome)).decode()
    assert lines.splitlines()[0].split(",") == pages["flows.csv"]


@pytest.mark.slow
def test_the_spec_of_every_key_is_judged_as_the_page_says(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "docs" / "describe.md").read_text(encoding="utf-8")
    spec, figures = (re.findall(f"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("yaml", "csv"))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "nodes.csv").write_text(figures, encoding="utf-8")
    for name, more, status in (("a.yaml", "", 3), ("b.yaml", "catalog: parts/\n", 0)):
        (tmp_path / name).write_text(spec + more, encoding="utf-8")
        assert run(["check", str(tmp_path / name)]) == status
        capsys.readouterr()


def test_every_column_of_the_catalog_has_its_meaning(repository: Path) -> None:
    from sphinx.pycode import ModuleAnalyzer

    told = {name for _, name in ModuleAnalyzer.for_module("topo.catalog.models").find_attr_docs()}
    for table in ("switches", "nodes", "hcas", "cables"):
        with (repository / "configs" / "catalog" / f"{table}.csv").open(encoding="utf-8") as file:
            assert set(next(csv.reader(file))) - {"model", "source", "date", "confidence"} <= told, table
