"""Links with errors: who is named, in any of the three formats, and how many pairs cross what is named."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import routing
import simulate
import topo
from helpers.presets import routed_lab
from helpers.random_fabrics import draw
from helpers.strategies import slow_but
from plan.cli import run
from routing.routed import Routed
from simulate.diagnosis.bad_links import find_bad_links
from simulate.diagnosis.counters import ERRORS, parse_counters

THRESHOLD = 10


def drawn(seed: int) -> tuple[Routed, dict[int, dict[str, int]]]:
    """A routed fabric, and counters of some of its plugged ports."""
    routed, rng = routing.route(draw(seed), "minhop"), np.random.default_rng(seed)
    plugged = np.flatnonzero(routed.fabric.peer >= 0)
    ports = rng.choice(plugged, min(12, len(plugged)), replace=False)
    return routed, {
        int(port): {name: int(rng.choice([0, 1, 10, 11, 2**bits - 1])) for name, bits in ERRORS.items()}
        for port in ports
    }


def place(routed: Routed, port: int) -> tuple[int, int]:
    """GUID of the node of a port, and the port's number."""
    node = int(routed.fabric.port_node[port])
    return int(routed.fabric.node_guid[node]), port - int(routed.fabric.port_offset[node]) + 1


def as_queried(routed: Routed, counters: dict[int, dict[str, int]]) -> list[str]:
    lines = []
    for port, each in counters.items():
        guid, number = place(routed, port)
        values = " ".join(f"[{name} == {value}]" for name, value in each.items() if value > THRESHOLD)
        lines.append(f"   GUID {guid:#x} port {number}: {values} [PortXmitData == 5] [PortXmitWait == 1]")
    return lines


def as_table(routed: Routed, counters: dict[int, dict[str, int]]) -> list[str]:
    columns = {name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_") for name in ERRORS}
    lines = ["START_PM_INFO", ",".join(["NodeGUID", "PortGUID", "PortNumber", *columns.values()])]
    for port, each in counters.items():
        guid, number = place(routed, port)
        lines.append(",".join([hex(guid), "0x0", str(number), *(str(each[name]) for name in columns)]))
    return [*lines, "END_PM_INFO"]


def as_performance(routed: Routed, counters: dict[int, dict[str, int]]) -> list[str]:
    lines, fabric = [], routed.fabric
    for port, each in counters.items():
        node = int(fabric.port_node[port])
        ends = np.flatnonzero(fabric.end_node == node)
        (lid, *_) = [
            int(routed.tables.lid[end]) for end in ends
            if node < fabric.n_switches or int(fabric.port_of(ends)[list(ends).index(end)]) == port
        ]  # fmt: skip
        lines.append(f"# Port counters: Lid {lid} port {place(routed, port)[1]} (CapMask: 0x1400)")
        lines += [f"{name}:{'.' * 10}{value}" for name, value in each.items()]
    return lines


@pytest.mark.parametrize("seed", slow_but(range(8), 0, 1))
def test_the_same_links_are_named_whatever_tool_has_printed_them(seed: int) -> None:
    routed, counters = drawn(seed)
    peer = routed.fabric.peer
    guilty = {frozenset((port, int(peer[port]))) for port, each in counters.items() if max(each.values()) > THRESHOLD}
    names = {" to ".join(routed.fabric.port_label(port) for port in sorted(link)) for link in guilty}
    found = [find_bad_links(routed, parse_counters(make(routed, counters), routed))
             for make in (as_queried, as_table, as_performance)]  # fmt: skip
    for each in found:
        assert {link.link for link in each.links} == names
        assert [link.link for link in each.links] == [link.link for link in found[0].links]
    named = {" to ".join(routed.fabric.port_label(port) for port in sorted(link)): link for link in guilty}
    down = [
        sum(value
            for port in named[one.link] for name, value in counters.get(port, {}).items()
            if name in ("LinkDownedCounter", "LinkErrorRecoveryCounter") and value > THRESHOLD)
        for one in found[0].links
    ]  # fmt: skip
    assert down == sorted(down, reverse=True), "those that went down first"


def test_pairs_that_cross_a_link_are_those_whose_walks_do() -> None:
    routed, rng = routed_lab(), np.random.default_rng(4)
    fabric, ends = routed.fabric, routed.fabric.ends().tolist()
    ports = rng.choice(np.flatnonzero(fabric.peer >= 0), 12, replace=False)
    counters = {int(port): dict.fromkeys(ERRORS, 0) | {"PortRcvErrors": 99} for port in ports}
    found = find_bad_links(routed, parse_counters(as_table(routed, counters), routed))
    walks = [set(routing.trace(routed, a, b).channels) for a in ends for b in ends if a != b]
    links = {f"{fabric.port_label(p)} to {fabric.port_label(int(fabric.peer[p]))}": {p, int(fabric.peer[p])}
             for p in range(fabric.n_ports) if fabric.peer[p] > p}  # fmt: skip
    assert len(found.links) > 5
    for one in found.links:
        assert one.pairs == sum(bool(links[one.link] & walk) for walk in walks)
        assert one.share == pytest.approx(one.pairs / len(walks))


def test_what_was_counted_before_is_subtracted() -> None:
    routed, _ = drawn(0)
    port = int(np.flatnonzero(routed.fabric.peer >= 0)[0])

    def read(errors: int) -> object:
        return parse_counters(as_table(routed, {port: dict.fromkeys(ERRORS, 0) | {"PortRcvErrors": errors}}), routed)

    assert find_bad_links(routed, read(500).since(read(495))).links == ()
    (one,) = find_bad_links(routed, read(500).since(read(400))).links
    assert "100 bad packets" in one.says
    (cleared,) = find_bad_links(routed, read(30).since(read(400))).links
    assert "30 bad packets" in cleared.says


@pytest.mark.parametrize("seed", range(4))
def test_links_below_their_rate_are_named_whatever_was_counted(seed: int) -> None:
    """As many links as have such a port or one above the threshold, and those below their rate first."""
    routed, counters = drawn(seed)
    fabric, found = routed.fabric, parse_counters(as_table(routed, counters), routed)
    slow = np.random.default_rng(seed).choice(fabric.inner, 3).tolist()
    links = find_bad_links(routed, replace(found, degraded=dict.fromkeys(slow, ("could be 4X", 0.5)))).links

    def ends(port: int) -> frozenset[int]:
        return frozenset((port, int(fabric.peer[port])))

    first = {ends(port) for port in slow}
    bad = {ends(port) for port, each in counters.items() if max(each.values()) > THRESHOLD}
    assert len(links) == len(first | bad)
    assert ["could be 4X" in one.says for one in links] == [at < len(first) for at in range(len(links))]


def test_the_command_names_a_link_below_its_rate_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    routed = routed_lab()
    guid = int(routed.fabric.node_guid[0])
    file = tmp_path / "errors.txt"
    file.write_text(
        f'Errors for {guid:#x} "leaf0"\n'
        f"   GUID {guid:#x} port 28: [SymbolErrorCounter == 65535] [LinkDownedCounter == 255]\n"
        f"   GUID {guid:#x} port 27: [LinkDownedCounter == 1]\n"
        '         Link info:      2   27[  ] ==( 4X           5.0 Gbps Active/  LinkUp)==>  0x1 6 11[  ] "spine0" '
        "( Could be 53.125 Gbps)\n"
    )
    assert run(["explain", "configs/lab-20.yaml", str(file), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)["bad_links"]
    assert [link["link"].split(" ")[0] for link in said] == ["leaf0:27", "leaf0:28"]
    assert said[0]["says"] == "leaf0:27: down once, 4X at 5.0 Gb/s a lane, could be 53.125 Gbps (9 % of its rate)"
    assert said[1]["says"] == "leaf0:28: at least 65,535 symbol errors, down at least 255 times"
    assert said[0]["pairs"] > 0
    assert run(["explain", "configs/lab-20.yaml", str(file)]) == 1
    assert "links with errors or below their rate, the worst first" in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(6))
def test_links_stand_in_the_order_of_what_they_cost(seed: int) -> None:
    """Random rates, counters and pulled cables: by rate lost, all of it where a link went down for good; then downs."""
    rng = np.random.default_rng(seed)
    routed = routing.route(draw(seed), "minhop")
    fabric, lines, cost = routed.fabric, [], dict[str, tuple[float, int, int]]()
    peer = fabric.peer.copy()
    pulled = rng.choice(fabric.inner, 3, replace=False)
    peer[[*pulled, *peer[pulled]]] = -1
    routed = replace(routed, fabric=replace(fabric, peer=peer))
    plugged = [int(port) for port in fabric.inner if peer[port] > port]
    for port in [*pulled.tolist(), *rng.choice(plugged, min(8, len(plugged)), replace=False).tolist()]:
        guid, number = place(routed, port)
        down, errors, lanes = int(rng.choice([0, 3, 200])), int(rng.integers(1, 5000)), int(rng.choice([1, 2, 3, 4]))
        lines.append(f"GUID {guid:#x} port {number}: [LinkDownedCounter == {down}] [PortRcvErrors == {errors}]")
        left = 1.0
        if peer[port] >= 0 and lanes < 4:
            lines.append(f'  Link info: 1 2[ ] ==( {lanes}X 25 Gbps Active/ LinkUp)==> 0x1 6 1[ ] "x" ( Could be 4X)')
            left = lanes / 4
        elif peer[port] < 0 and down:
            left = 0.0
        label = fabric.port_label(port)
        ends = f"{label} to {fabric.port_label(int(peer[port]))}" if peer[port] >= 0 else f"{label}, no link now"
        cost[ends] = (-left, down, down + errors)
    found = find_bad_links(routed, parse_counters(lines, routed))
    assert {one.link for one in found.links} == set(cost)
    costs = [cost[one.link] for one in found.links]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("make", [as_queried, as_table, as_performance])
def test_counters_of_what_the_fabric_does_not_have_are_told(make: Callable[..., list[str]]) -> None:
    """Of the counters of a whole fabric, those of switches that have dropped out since, whatever tool printed them."""
    whole, counters = drawn(5)
    fabric = whole.fabric
    known = min(counters)
    lines = make(whole, counters)
    guid, lid = fabric.node_guid.copy(), whole.tables.lid.copy()
    gone = set(fabric.port_node[list(counters)].tolist()) - {int(fabric.port_node[known])}
    names = {
        (f"{int(guid[node]):#018x}", f"LID {lid[end]}")
        for node in gone
        for end in (fabric.end_node == node).nonzero()[0]
    }
    guid[list(gone)] += np.uint64(1 << 40)
    port_guid = np.where(np.isin(fabric.port_node, list(gone)), 0, fabric.port_guid).astype(np.uint64)
    lid[np.isin(fabric.end_node, list(gone))] = 0
    after = replace(
        whole, fabric=replace(fabric, node_guid=guid, port_guid=port_guid), tables=replace(whole.tables, lid=lid)
    )
    found = find_bad_links(after, parse_counters(lines, after))
    ports = [port for port in counters if fabric.port_node[port] in gone]
    assert sum(one.ports for one in found.absent) == len(ports) > 0
    assert {one.device for one in found.absent} <= {name for pair in names for name in pair}
    down = [
        sum(map(int, re.findall(r"(?:down|retrained) (?:at least )?(\d+) times", one.worst))) for one in found.absent
    ]
    assert down == sorted(down, reverse=True)
    bad = [port for port in ports if max(counters[port].values()) > THRESHOLD]
    assert any(one.worst for one in found.absent) == bool(bad)


@pytest.mark.parametrize("guid", ["0x0", "-0x5", "0x1" + "0" * 99, "0xdead"])
@pytest.mark.parametrize("number", ["0", "-3", "255", "9" * 60, "ALL"])
def test_what_can_be_no_port_is_no_port(guid: str, number: str) -> None:
    """Port 0 is a switch itself, 255 is all ports of a device at once; a hostile file has anything."""
    routed, counters = drawn(5)
    lines = as_table(routed, counters)
    rows = [
        ",".join([node, "0x0", number, *["99"] * len(ERRORS)])
        for node in (guid, f"{place(routed, min(counters))[0]:#x}")
    ]
    last = f"# Port counters: Lid {int(routed.tables.lid[0])} port {number} (CapMask: 0x1400)"
    mixed = [*lines[:-1], *rows, lines[-1], last, "PortRcvErrors:....99"]
    assert parse_counters(mixed, routed).errors == parse_counters(lines, routed).errors


@pytest.mark.slow
def test_the_command_names_a_switch_that_has_dropped_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guid = int(topo.preset("lab-20").fabric.node_guid[0])
    file = tmp_path / "errors.txt"

    def explain(text: str, *options: str) -> tuple[int, str]:
        file.write_text(f"GUID {guid:#x} port 1: [PortXmitData == 100]\nGUID {guid:#x} port 99: []\n" + text)
        return run(["explain", "configs/lab-20.yaml", str(file), *options]), capsys.readouterr().out

    lost = "GUID 0xdead port 7: [SymbolErrorCounter == 9000] [LinkDownedCounter == 40]\nGUID 0xdead port 8: []\n"
    status, shown = explain(lost)
    assert (status, "3 ports with counters that FABRIC does not have" in shown) == (1, True)
    assert "port 7: 9,000 symbol errors, down 40 times" in shown
    _, said = explain(lost, "--json")
    assert json.loads(said)["absent"] == [
        {"device": "0x000000000000dead", "ports": 2, "worst": "port 7: 9,000 symbol errors, down 40 times"},
        {"device": "leaf0", "ports": 1, "worst": ""},
    ]
    status, shown = explain("")
    assert (status, "1 port with counters" in shown, "no fault found" in shown) == (0, True, True)


HEAD = (
    "Ty : # : #IB : GUID : LID : Sta : PhysSta : LWA : LSA : Conn LID (#) : FEC mode : RTR : Raw BER : "
    "Effective BER : Symbol BER : Symbol Err : Effective Err : Node Desc"
)


def as_net_dump_ext(routed: Routed, ber: dict[int, str]) -> list[str]:
    """As ibdiagnet2.net_dump_ext: a row a port, behind comments."""
    lines = ["# This file was automatically generated by IBDIAG", "# 2.19", HEAD]
    for port, rate in ber.items():
        guid, number = place(routed, port)
        name = f'"MF0;{routed.fabric.label(int(routed.fabric.port_node[port]))}:MQM9700/U1"'
        state = f"SW : sw{number}p1 : {number} : {guid:#x} : 10 (0xa) : ACT : LINK_UP : 4x : 200 : 20 (0x14)"
        lines.append(f"{state} : RS : NO-RTR : 1e-6 : {rate} : 3e-14 : 4 : 5 : {name}")
    return lines


@pytest.mark.parametrize("seed", slow_but(range(4), 0))
def test_bit_error_rates_rank_links_and_none_is_unknown(seed: int, tmp_path: Path) -> None:
    routed, rng = routing.route(draw(seed), "minhop"), np.random.default_rng(seed)
    plugged = np.flatnonzero(routed.fabric.peer >= 0).tolist()
    rates = ("N/A", "15e-255", "0", "1e-12", "1.5e-12", "3e-9", "2E-10", "")
    told = {port: str(rng.choice(rates)) for port in plugged}
    told[plugged[0]], told[plugged[-1]] = "3e-9", "15e-255"
    lines = as_net_dump_ext(routed, told)
    found = find_bad_links(routed, parse_counters(lines, routed))
    known = {port: float(text) for port, text in told.items() if text not in ("N/A", "")}
    bad = {frozenset((port, int(routed.fabric.peer[port]))) for port, rate in known.items() if rate > 1e-12}
    label = routed.fabric.port_label
    assert {frozenset(one.link.split(" to ")) for one in found.links} == {frozenset(map(label, pair)) for pair in bad}
    assert found.without_ber == len(plugged) - len(known)
    rate_at = {label(port): rate for port, rate in known.items()}
    worst = [max(rate_at.get(end, 0) for end in one.link.split(" to ")) for one in found.links]
    assert worst == sorted(worst, reverse=True)
    (tmp_path / "x").write_text("\n".join(lines))
    assert simulate.diagnosis.are_counters(tmp_path / "x")


def test_a_bit_error_rate_is_said_with_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """200 Gb/s times 5e-12 is one error a second."""
    routed = routed_lab()
    port = int(routed.fabric.inner[0])
    queried = as_queried(routed, {port: dict.fromkeys(ERRORS, 99)})
    told = find_bad_links(routed, parse_counters([*queried, *as_net_dump_ext(routed, {port: "5e-12"})], routed))
    assert told.links[0].says.endswith("bit error rate 5e-12, one in 1 s")
    assert "99 symbol errors" in told.links[0].says
    sound = find_bad_links(routed, parse_counters(as_net_dump_ext(routed, {port: "1e-13"}), routed))
    assert not sound.found and sound.without_ber == 123
    (tmp_path / "x").write_text("\n".join(as_net_dump_ext(routed, {port: "1e-13"})))
    assert run(["explain", str(topo.config_root() / "lab-20.yaml"), str(tmp_path / "x")]) == 0
    assert "the bit error rate of 123 ports is not known" in capsys.readouterr().out


def test_counters_of_64_bits_count_on_where_others_stop() -> None:
    """As ibdiagnet writes them beside those of 16 and 8 bits, or alone, or without a value."""
    routed = routed_lab()
    guid, head = f"{int(routed.fabric.node_guid[0]):#x}", "NodeGUID,PortNumber,"
    for columns, row, says in (
        ("SymbolErrorCounter,SymbolErrorCounterExt", "65535,70000", "70,000 symbol errors"),
        ("SymbolErrorCounterExt,SymbolErrorCounter", "70000,65535", "70,000 symbol errors"),
        ("LinkDownedCounterExt", "300", "down 300 times"),
        ("LinkDownedCounter,LinkDownedCounterExt", "40,N/A", "down 40 times"),
        ("PortRcvErrors,PortRcvErrorsExt", "40,0xfffffffe", "4,294,967,294 bad packets"),
    ):
        lines = ["START_PM_INFO", head + columns, f"{guid},27,{row}", "END_PM_INFO"]
        (bad,) = find_bad_links(routed, parse_counters(lines, routed)).links
        assert bad.says == f"leaf0:27: {says}"


def as_mlxlink(name: str, values: dict[str, str], form: str) -> list[str]:
    """What mlxlink prints of a port: text, text in colour, or JSON; all name the same values."""
    if form == "compact":
        return [f"+ {name} --json", json.dumps({"result": {"output": {"Module Info": values}}}, separators=(",", ":"))]
    if form == "json":
        body = ",\n".join(f'         "{key}" : "{value}"' for key, value in values.items())
        return (
            f'+ {name} --json\n{{"result" : {{"output" : {{\n      "Module Info" : {{\n{body}\n}} }} }} }}'.splitlines()
        )
    on, off = ("\x1b[1;32m", "\x1b[0m") if form == "colour" else ("", "")
    return [f"root@adm:~# {name}", "Module Info", "-----------"] + [
        f"{key:35}: {on}{value}{off} " for key, value in values.items()
    ]


@pytest.mark.parametrize("form", ["text", "colour", "json", "compact"])
@pytest.mark.parametrize("seed", range(3))
def test_mlxlink_accuses_a_port_for_its_errors_its_bit_errors_and_its_light(seed: int, form: str) -> None:
    """Brute force: a port is listed exactly if a counter is above ten, the rate above 1e-12, a lane out of limits."""
    routed, rng = routed_lab(), np.random.default_rng(seed)
    fabric, lines, wanted = routed.fabric, [], set()
    lid = routed.tables.lid[fabric.end_of(np.arange(fabric.n_ports))]
    for port in rng.choice(np.flatnonzero(fabric.peer >= 0), 20, replace=False).tolist():
        down, ber = int(rng.choice([0, 10, 11, 300])), str(rng.choice(["15E-255", "1E-12", "2E-9"]))
        lanes = rng.choice([-12.5, -3.25, 0, 2, 6.5], 4)
        low, high = [(-10.41, 6), (0, 0)][int(rng.integers(2))]  # copper has no limits
        values = {
            "Rx Power Current [dBm]": f"{','.join(f'{one:g}' for one in lanes)} [{low}..{high}]",
            "Symbol Errors": "0", "Effective Physical BER": ber, "Raw Physical BER": "1E-5",
            "Link Down Counter": str(down),
        }  # fmt: skip
        number = int(fabric.port_number[port])
        lines += as_mlxlink(f"mlxlink -d lid-{int(lid[port])} -p {number} -m -c", values, form)
        if down > 10 or float(ber) > 1e-12 or (low < high and not all(low <= one <= high for one in lanes)):
            wanted.add(min(port, int(fabric.peer[port])))
    found = find_bad_links(routed, parse_counters(lines, routed)).links
    assert {one.link for one in found} == {f"{fabric.port_label(a)} to {fabric.port_label(int(fabric.peer[a]))}"
                                           for a in wanted}  # fmt: skip


def test_mlxlink_names_adapters_by_host_and_others_are_kept_as_absent() -> None:
    routed = routed_lab()
    bad = {"Link Down Counter": "99"}
    for name, link in (
        ("gpu03# mlxlink -d mlx5_0 -c", "leaf0:4 to gpu03 mlx5_0:1"),
        ("+ mlxlink -d /dev/mst/SW_MT54000_leaf0_lid-0x0001 --port 21 -c", "leaf0:21 to spine0:1"),
        ("+ mlxlink -d lid-00001 -p 21 -c", "leaf0:21 to spine0:1"),
    ):
        text = [name, *as_mlxlink("x", bad, "text")[1:]]
        (found,) = find_bad_links(routed, parse_counters(text, routed)).links
        assert found.link == link
    for name, device in (("gpu99# mlxlink -d mlx5_0 -c", "gpu99 mlx5_0"), ("+ mlxlink -d lid-77 -p 3 -c", "LID 77")):
        text = [name, *as_mlxlink("x", bad, "text")[1:], "+ mlxlink -d lid-1 -p 1 -c", "Effective Physical BER : 1E-15"]
        found = find_bad_links(routed, parse_counters(text, routed))
        assert found.links == () and [one.device for one in found.absent] == [device]
    for name in ("+ mlxlink -d mlx5_0 -c", "+ mlxlink -d lid-1 -p 1/2 -c"):  # no host; a half of a port that has none
        with pytest.raises(topo.FormatError, match=r"mlxlink -d lid-7 -p 31 -m -c.* 1 port that the fabric does not"):
            parse_counters([name, *as_mlxlink("x", bad, "text")[1:]], routed)


def one_switch(model: str, radix: int) -> Routed:
    """Adapters on all ports of a switch whose LID is 1."""
    builder, speed = topo.FabricBuilder("one"), topo.LinkSpeed(4, "NDR")
    leaf = builder.switch("leaf", model=model, radix=radix, role=topo.Role.SWITCH, level=0)
    for number in range(1, radix + 1):
        nic = builder.adapter(f"n{number}", "mlx5_0", model="", host_model="", role=topo.Role.COMPUTE)
        builder.link(leaf, number, nic, 1, speed)
    return routing.route(builder.build(), "minhop")


def printed(model: str, radix: int) -> list[str]:
    """What stands beside each port of a switch, in the order of its ports in InfiniBand."""
    if model == "QM9700":
        halves = [""] if radix <= 65 else ["/1", "/2"]
        return [f"{cage}/{port}{half}" for cage in range(1, 33) for port in (1, 2) for half in halves]
    return [f"{port}{half}" for port in range(1, 41) for half in ([""] if radix <= 41 else ["/1", "/2"])]


@pytest.mark.parametrize(("model", "radix"), [("QM9700", 65), ("QM9700", 129), ("QM8700", 41), ("QM8700", 80)])
def test_mlxlink_names_ports_as_they_are_printed(model: str, radix: int) -> None:
    """All in turn; a first port and a first half may be left out, so that port 31 of a QM9700 is the 61st."""
    routed = one_switch(model, radix)
    labels = printed(model, radix)
    names = {label: at for at, label in enumerate(labels, 1)}
    for _ in range(2):
        names |= {name.removesuffix("/1"): at for name, at in names.items()}
    lines = []
    for name, at in names.items():
        lines += [f"+ mlxlink -d lid-1 --port_type NETWORK --port {name} -c", f"Link Down Counter : {at + 10}"]
        told = parse_counters(lines[-2:], routed).errors
        assert told == {routed.fabric.port_id(0, at): {"LinkDownedCounter": at + 10}}, name
    assert len(find_bad_links(routed, parse_counters(lines, routed)).links) == len(labels)  # none of its own
    for name in ("0/1", "1/3", "1/1/1/1", "x", "200", "200/1"):
        with pytest.raises(topo.FormatError):
            parse_counters([f"+ mlxlink -d lid-1 -p {name} -c", "Link Down Counter : 99"], routed)


def test_cages_of_quantum_3_are_not_guessed() -> None:
    routed = one_switch("Q3400", 144)
    for label in ("2", "2/1", "2/1/2"):
        lines = [f"+ mlxlink -d lid-1 -p {label} -c", "Link Down Counter : 99"]
        lines += ["+ mlxlink -d lid-2 -c", "Effective Physical BER : 1E-15"]
        found = find_bad_links(routed, parse_counters(lines, routed))
        assert found.links == () and [one.device for one in found.absent] == [f"LID 1 port {label}"]


def test_what_mlxlink_writes_of_a_module_is_read_as_it_nests_it() -> None:
    """Lists of lanes beside the values, tabs, names in the order of the alphabet, and what is not there."""
    routed = routed_lab()
    module = {"CDR RX": {"values": ["ON"] * 4}, "Rx Power Current [dBm]": "-31.549,1.2,1,0.9 [-9.914..6.999]",
              "Tx Power Current [dBm]": "N/A", "Wavelength [nm]": "1311"}  # fmt: skip
    counts = {"Effective Physical BER": "N/A", "Link Down Counter": "12", "Raw Physical BER": "1E-3",
              "Raw Physical BER Per Lane": {"values": ["1E-3"] * 4}, "Time Since Last Clear [Min]": "9.1"}  # fmt: skip
    found = {"result": {"output": {"Module Info": module, "Physical Counters and BER Info": counts}}}
    text = json.dumps(found, indent="\t", separators=(",", " : ")).replace(": {", ":\n{").replace(": [", ":\n[")
    lines = ["root@gpu03:~/logs# mlxlink -d mlx5_0 -m -c --json", *text.splitlines()]
    (bad,) = find_bad_links(routed, parse_counters(lines, routed)).links
    assert bad.says == "gpu03 mlx5_0:1: down 12 times, receives -31.549 dBm, allowed -9.914 to 6.999"
