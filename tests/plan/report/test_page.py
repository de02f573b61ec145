"""The page of a report: whole in itself, the same each time, and safe whatever the names say."""

import base64
import dataclasses
import gzip
import hashlib
import html
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import routing
import simulate
import topo
from helpers.presets import routed_lab
from plan.cli import run as run_command
from plan.files import write_folder
from plan.inputs import find_preset
from plan.pipeline import BUILD, ROUTE, Plan, count_parts, run_passes
from plan.report.document import Report, page_of, simulation_page
from plan.report.page import format_report, read_report
from topo import Cluster, Fabric, HeddleError, config_root

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7 * 7 }}"


def planned(cluster: Cluster) -> Plan:
    return run_passes(Plan(cluster.name, cluster), BUILD)


def routed(fabric: Fabric) -> Plan:
    return run_passes(Plan(fabric.name, fabrics=(fabric,)), ROUTE)


def data_of(page: str) -> dict[str, object]:
    (found,) = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]+)</script>', page)
    data = json.loads(gzip.decompress(base64.b64decode(found)))
    assert isinstance(data, dict)
    return data


@pytest.fixture(scope="module")
def report() -> Report:
    return Report([page_of(planned(topo.preset("lab-20")))], [])


def test_the_same_plan_gives_the_same_page(report: Report) -> None:
    again = Report([page_of(planned(topo.preset("lab-20")))], [])
    assert format_report(report) == format_report(again)


def test_the_page_is_whole_in_itself(report: Report) -> None:
    page = format_report(report)
    assert re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page) == []
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'" in policy
    for kind, pattern in (("style", r"<style>(.*?)</style>"), ("script", r"<script>(.*?)</script>")):
        (text,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
        assert len(text) < 100_000


def test_every_cable_and_its_load_are_in_it(report: Report) -> None:
    """Counted from the fabric and the proof, by the names of channels."""
    fabric = topo.preset("lab-20").fabric
    load = routing.prove(routing.route(fabric)).load
    (view,) = report.plans[0].views
    names, links = view.nodes.name, view.links
    found = {}
    for at in range(len(links.a)):
        a = f"{names[links.a[at]]}:{links.a_port[at]}"
        b = f"{names[links.b[at]]}:{links.b_port[at]}"
        found |= {f"{a} -> {b}": view.loads[0].ab[at], f"{b} -> {a}": view.loads[0].ba[at]}
    ports = [port for port in range(fabric.n_ports) if fabric.peer[port] >= 0]
    assert found == {fabric.channel_label(port): load[port] for port in ports}


@pytest.mark.slow
def test_every_link_between_switches_and_every_host_is_drawn() -> None:
    for name in ("fire-flyer-2", "torus", "dragonfly", "eflops-bigraph", "pcie-three-level", "hyperx"):
        fabric = topo.preset(name).fabric
        picture = page_of(run_passes(Plan(name, fabrics=(fabric,)), (count_parts,))).views[0].picture
        drawn = {link for *_, links in picture.lines for link in links}
        drawn |= {link for _, links in picture.curves for link in links}
        between = (fabric.port_node[fabric.links] < fabric.n_switches).all(axis=1)
        assert drawn == set(between.nonzero()[0].tolist()), name
        assert sorted(s for *_, switches, _ in picture.cells for s in switches) == list(range(fabric.n_switches))


def test_hostile_names_become_text() -> None:
    fabric = topo.preset("lab-20").fabric
    spoilt = dataclasses.replace(
        fabric,
        name=HOSTILE,
        hosts=tuple(f"{host}{HOSTILE}" for host in fabric.hosts),
        names=tuple(f"{name} {HOSTILE}" for name in fabric.names),
    )
    page = format_report(Report([page_of(routed(spoilt))], []))
    assert HOSTILE not in page
    assert "<script>alert" not in page
    assert "onerror=alert(2)>" not in page.replace(html.escape(HOSTILE), "")
    assert "{{ 7 * 7 }}" in html.unescape(page)  # text, which no template computes
    assert HOSTILE in json.dumps(data_of(page)).replace('\\"', '"')


def test_what_a_page_shows_is_read_back(report: Report, tmp_path: Path) -> None:
    write_folder(tmp_path / "out", {"plan.json": "{}", "report.html": format_report(report)})
    assert read_report(tmp_path / "out") == report


@pytest.mark.parametrize("spoil", ["changed", "no data", "not packed", "another shape"])
def test_a_page_that_is_not_ours_is_refused(report: Report, tmp_path: Path, spoil: str) -> None:
    page = format_report(report)
    packed = {
        "no data": "",
        "not packed": base64.b64encode(b"\x1f\x8bnothing").decode(),
        "another shape": base64.b64encode(gzip.compress(b'{"report": {"plans": [7]}}')).decode(),
    }
    if spoil in packed:
        page = re.sub(r'(id="data">)[^<]*', rf"\g<1>{packed[spoil]}", page)
    write_folder(tmp_path / "out", {"plan.json": "{}", "report.html": page})
    if spoil == "changed":
        (tmp_path / "out" / "report.html").write_text(page.replace("Holds", "Fails"), encoding="utf-8")
    with pytest.raises(HeddleError, match=r"report\.html"):
        read_report(tmp_path / "out")


def test_a_simulation_brings_its_channels() -> None:
    subnet = routed_lab()
    workload = simulate.read_workload(find_preset("workloads", "allreduce", "WORKLOAD"), subnet.fabric)
    simulation = simulate.play(subnet, workload)
    page = simulation_page(simulation, "one")
    carried = dict(zip(*list(simulation.outcome.channels.to_dict().values())[::3], strict=True))
    assert page.channels == {channel: round(size) for channel, size in carried.items()}
    assert data_of(format_report(Report([], [page])))


@pytest.mark.slow
def test_what_a_reader_may_check_by_command_holds(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    assert run_command(["build", str(config_root() / "lab-20.yaml"), "-o", str(out)]) == 0
    (plan,) = read_report(out).plans
    table = next(one for one in plan.tables["proof"] if one.title == "how to check each")
    claims, _, commands = (column.texts for column in table.columns)
    monkeypatch.chdir(out)
    for claim, command in zip(claims, commands, strict=True):
        name, *words = shlex.split(command)
        capsys.readouterr()
        if name == "plan":
            assert run_command(words) == 0
            said = capsys.readouterr().out
            if "over the fullest link" in claim:
                assert claim.split()[0] in said
        else:
            assert subprocess.run([name, *words], capture_output=True, check=False).returncode == 0
    assert len(claims) == 5


def test_failure_limits_price_and_power_stand_first_then_what_is_unknown_and_names_are_set_as_code(
    report: Report,
) -> None:
    page = format_report(report)
    main = page.partition("<main>")[2].partition("<section")[0]
    wanted = ["one failure", "limits", "cost", "power, typically", "power, at most"]
    assert re.findall("<dt>(.*?)</dt>", main)[:6] == [*wanted, "unknown"]
    first = main.partition('<dl class="facts">')[0]
    assert re.findall("<dt>(.*?)</dt>", first) == wanted
    shown = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    assert "`" not in shown
    assert "<code>adapters.gpu: 2</code>" in first, "the key that cures"


def test_side_by_side_every_failure_of_one_kind_is_told(report: Report) -> None:
    """Two networks have two rows of one name: neither takes the place of the other."""
    (plan,) = report.plans
    facts = [("failure of a spine", "one"), ("failure of a spine", "two")]
    both = Report([dataclasses.replace(plan, facts=facts), plan], [])
    assert "<td>one; two</td>" in format_report(both)


def test_an_adapter_is_shown_with_the_model_of_its_server(report: Report) -> None:
    nodes = topo.preset("lab-20").spec.nodes
    (view,) = report.plans[0].views
    servers = 0
    for name, model in zip(view.nodes.name, view.nodes.model, strict=True):
        if " " in name:  # a server and its adapter
            servers += 1
            assert view.models[model] == nodes[name.partition(" ")[0].rstrip("0123456789")].model, name
    assert servers >= sum(group.count for group in nodes.values())
