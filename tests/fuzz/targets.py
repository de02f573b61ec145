"""What is fuzzed: every reader and every command, each with good files to begin with, through the public API alone."""

import hashlib
import io
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openpyxl

import costmodel
import plan.cli
import routing
import simulate
import topo
from helpers.dumps import format_db_csv, format_iblinkinfo, format_ndt, format_net_dump, format_planes, format_port_list
from helpers.far import format_far
from plan.export.infragraph import format_infragraph
from routing import opensm
from topo.catalog.nccl_xml import read_server

CORPUS = Path(__file__).parent / "corpus"
SCALE: dict[str, float] = {"flows": 20_000, "storage-acts": 20_000, "queue-rounds": 300, "search-cpu": 0.5}
"""Budgets of what a job may play, made small: what it takes is in proportion, and thousands are tried."""

SPEC = """name: tiny
nodes: {gpu: {model: pcie-a100, count: 4}, storage: {model: storage-3fs, count: 2}}
network: {shape: fat-tree, switch: QM8700, leaves: 2, spines: 1}
traffic:
  - {name: compute, sl: 0, vl: 0, weight: 64}
  - {name: storage, sl: 1, vl: 1, weight: 64, roles: [storage]}
"""
JOBS = """jobs:
- {name: a, kind: collective, collective: allreduce, size: 1 MiB, ranks: 4, chunks: 2}
- {name: b, kind: storage, beside: a, batches: 2, batch: 2, sample: 64 KiB, checkpoint: 1 MiB}
- {name: c, kind: training, beside: a, parallel: data, forward: 1 ms, backward: 2 ms, parameters: 10 MB}
- {name: d, kind: goal, file: other.goal, beside: a}
- {name: e, kind: flows, file: other.csv}
"""
NCCL_TESTS = """#  size  count  type  redop  root  time  algbw  busbw  #wrong
 8192  2048  float  sum  -1  21.5  0.38  0.66  0
 1048576  262144  float  sum  -1  130.1  8.06  14.11  0
 8388608  2097152  float  sum  -1  860.0  9.75  17.07  0
 16777216  4194304  float  sum  -1  1700.2  9.87  17.27  0
"""
QUEUE = """round: 1 s
failures_a_node_day: 10
jobs:
- {name: a, nodes: 2, steps: 20, forward: 1 s, backward: 1 s, gradients: 1 GB, loaded: 1 B, checkpoint: 9 B, every: 5 s}
- {name: b, nodes: 4, steps: 9, forward: 1 ms, backward: 2 s, stages: 2, activations: 9 MB, copies: 3, apart: 7 s}
"""
GOAL = """num_ranks 2
rank 0 {
l1: calc 100
l2: send 1000b to 1 tag 7
l2 requires l1
}
rank 1 {
l1: recv 1000b from 0 tag 7
l2: calc 5 // the end
l2 irequires l1
}
"""
NEEDS = """name: tiny
nodes: {gpu: {model: pcie-a100, count: 12}, storage: {model: storage-3fs, count: 2}}
job: {nodes: 6, bisection: 1.0, with_storage: true}
bandwidth: {compute: 0.1, storage: 20 GB/s}
survives_a_switch: true
switches: [QM8700]
"""
SERVER = """<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
<pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
<pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="80" rank="0">
<nvlink target="0000:03:00.0" count="4" tclass="0x030200"/></gpu></pci>
<pci busid="0000:03:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="1" sm="80" rank="1">
<nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu></pci>
<pci busid="0000:04:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1"/></nic></pci></pci></cpu></system>
"""
LINES = """check @spec.yaml
init lab-20
init --list
schema workload
cost @spec.yaml --currency USD
compare @spec.yaml @spec.yaml --currency units
route @fabric.ibnetdiscover --engine balanced --lanes 2 --endpoints all --failures 1 --seed 7
route @fabric.ibnetdiscover --for @weights.csv --roles @roles --cn-guids @cn_guids --io-guids @root_guids
verify @fabric.ibnetdiscover @lfts --lids @guid2lid --lanes @opensm.conf --policy @qos-policy.conf --expect @lfts
verify @plan --path gpu0 gpu1 --over leaf0:1 --without spine0
verify @plan --path 1 0x0a7228ccd7584d00 --without leaf0:30 --json
simulate @plan --workload @jobs.yaml --latency-ns 500 --hop-latency-ns 100 --host-gbps 100 --alone --seed 3
simulate @fabric.ibnetdiscover --flows @other.csv --tables @lfts --lanes @opensm.conf --policy @qos-policy.conf
operate @plan --queue @queue.yaml --hours 0.01 --placement random --roles @roles
ranks @plan --nodes gpu[0-3] --for ring --for tree --gigabytes 0.5
explain @plan @pairs.csv --roles @roles --next 3
diff @fabric.ibnetdiscover @spec.yaml
draw @spec.yaml --tables @lfts
draw @spec.yaml --simulation @played
export @plan p2p
report @plan @played
export @spec.yaml slurm
optimise @needs.yaml --json
"""
"""Command lines, words of which are spoilt; where they write is added afterwards."""
SLVL = "".join(f"0x10 {port} 2 0x01 0x00 0x00 0x00 0x00 0x00 0x00 0x00\n" for port in (0, 1, 3))
EDGES = "from,to,gbps\ngpu01 mlx5_0,leaf01,400\ngpu02,leaf01,HDR\nleaf01,spine01,400\nleaf02,spine01,400\n"
HTSIM = (
    "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 400\nRadix_Down 4\nRadix_Up 2\n"
    "Tier 1\nDownlink_speed_Gbps 400\nRadix_Down 2\n"
)
ASTRA = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 1.0 ]\n"
NS3 = "7 2 2 1 4 H100\n4 5 6\n0 4 2880Gbps 0.000025ms 0\n0 6 400Gbps 0.5us 0\n1 6 0.2Tb/s 1ms 0\n2 6 100000Mbps 1s 0\n"
P2P = """Rack,U,Name,HCA/Port,Rack,U,Name,Port
A,1,gpu0,1,B,2,leaf0,sw1p1
A,3,gpu1,2,B,2,leaf1,7/2
,,leaf1,9,,,spine,1
"""
TOPO = """MQM8700 leaf0
  P1 -4x-50G-> HCA_mlx5_1 gpu0 mlx5_0/P1
  P21 -> MQM8700 spine0 P1
"""
ROLES = "# hosts\nstorage st*\ncompute gpu? mlx5_*\n"
FLOWS = "start_s,src,dst,bytes,sl\n0,gpu0 mlx5_0,gpu1 mlx5_0,1e6,0\n0.5,gpu1 mlx5_0,gpu2 mlx5_0,10,\n"
PAIRS = "source,destination,Gb/s,round\ngpu0,gpu1,180,\ngpu1,gpu2,90,a\ngpu2,gpu3,91.5,a\n"
WEIGHTS = "src,dst,weight\ngpu0 mlx5_0,gpu1 mlx5_0,2\ngpu1 mlx5_0,gpu2 mlx5_0,0.5\n"
CHAKRA = (
    b"\x07\x0a\x050.0.4"
    b"\x08\x08\x01\x12\x02n1\x18\x04"
    b"\x1d\x08\x02\x12\x02n2\x18\x07\x2a\x01\x01\x52\x10\x0a\x09comm_size\x48\x80\x80\x40"
)

CHAKRA_JSON = [
    b'{"version": "0.0.4"}{"id": "1", "name": "a", "type": "COMP_NODE", "durationMicros": "9"}\n{"id": "2", "type": '
    b'"COMM_COLL_NODE", "dataDeps": ["1"], "attr": [{"name": "comm_size", "int64Val": "1048576"}]}',
    b'{"workload_graph": [{"Id": 1, "NodeType": 4, "runtime": 9, "data_deps": []}, {"Id": 2, "NodeType": 7, '
    b'"data_deps": [1], "comm_size": 1048576, "is_cpu_op": false}]}',
    b'{"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "mm", "tid": 7, "ts": 5.5, '
    b'"dur": 9}, {"ph": "X", "cat": "kernel", "name": "nccl", "tid": 20, "ts": 15, "dur": 3, "args": {"dtype": '
    b'"Half", "Collective name": "allreduce", "In msg nelems": 64, "Group size": 1, "Process Group Ranks": "[0]"}}]}',
]


@dataclass(frozen=True)
class Target:
    """A reader or a command, and the file that is spoilt for it."""

    name: str
    file: str
    """Name of the file; its end matters to some readers."""
    seeds: list[bytes]
    run: Callable[[Path], object]
    weight: float = 10.0
    """How often it is taken, relative to the others."""


def command(folder: Path, *words: str) -> Callable[[Path], None]:
    """Run a command, and look at what it prints and leaves behind in the folder of all files."""

    def run(path: Path) -> None:
        before = _contents(folder)
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            status = plan.cli.run([word.replace("@", str(folder) + "/").replace("FILE", str(path)) for word in words])
        said = b"".join(stream.buffer.getvalue() for stream in (out, err)).decode()
        assert status in (0, 1, 2, 3), f"status {status}: {said[-2000:]}"
        assert "Traceback" not in said, said[-2000:]
        strange = sorted({char for char in said if not (char.isprintable() or char in "\n\t")})
        assert not strange, f"printed {strange}: {said[-500:]!r}"
        assert status != 2 or said.strip(), "no message"
        after = _contents(folder)
        ours = {name for name in after if name.split("/")[0] == "out"}
        touched = {name for name in before | after if before.get(name) != after.get(name)} - ours
        assert not touched, f"touched {sorted(touched)}"
        if (folder / "out").is_dir():
            shutil.rmtree(folder / "out")
        (folder / "out").unlink(missing_ok=True)

    return run


def line_of_words(folder: Path) -> Callable[[Path], None]:
    """Run the first line of the spoilt file as a command, unless its words say themselves where to write."""

    def run(path: Path) -> None:
        line = path.read_bytes().translate(None, b"\0").partition(b"\n")[0]  # no argument has a zero
        words = line.decode("utf-8", "surrogateescape").split(" ")
        if any(re.match(r"-o|-w|-q|--(output|state|trace|goal|cpu|memory|comp|reh|cl)", word) for word in words):
            return
        writes = words[0] in ("build", "route", "simulate", "draw", "export", "optimise", "init", "report", "diff")
        command(folder, *words, *(["-o", "@out"] if writes else []))(path)

    return run


SHEET = "xl/worksheets/sheet1.xml"


def workbook() -> bytes:
    """Return planned cables as a workbook."""
    book, out = openpyxl.Workbook(), io.BytesIO()
    for row in P2P.splitlines():
        book.active.append(row.split(","))
    book.save(out)
    return out.getvalue()


def book_parts(book: bytes) -> dict[str, bytes]:
    """Return the parts that a workbook is a zip of."""
    with zipfile.ZipFile(io.BytesIO(book)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def with_sheet(path: Path, book: bytes) -> Path:
    """Put a spoilt sheet into a workbook that is whole: of a spoilt zip, little is read."""
    whole = path.with_suffix(".xlsx")
    with zipfile.ZipFile(whole, "w") as packed:
        for name, data in (book_parts(book) | {SHEET: path.read_bytes()}).items():
            packed.writestr(name, data)
    return whole


def _contents(folder: Path) -> dict[str, str]:
    """Digest of each file below a folder, those beside it included."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def build(folder: Path) -> list[Target]:
    """Return all targets; files that are not spoilt are in a folder."""
    cluster = topo.parse(SPEC)
    fabric = cluster.fabric
    routed = routing.route(fabric, fabric.engine)
    network = simulate.Network.of(routed, latency_s=0)
    files = {
        name: text if isinstance(text, bytes) else b"".join(text) for name, text in opensm.opensm_files(routed).items()
    }
    dump, as_json = topo.format_ibnetdiscover(fabric).encode(), topo.format_fabric(fabric).encode()
    good = {"spec.yaml": SPEC, "other.goal": GOAL, "other.csv": FLOWS, "jobs.yaml": JOBS, "queue.yaml": QUEUE}
    good |= {"needs.yaml": NEEDS, "weights.csv": WEIGHTS, "pairs.csv": PAIRS, "roles": ROLES}
    for name, text in good.items():
        (folder / name).write_text(text)
    for name, data in ({"fabric.ibnetdiscover": dump} | files).items():
        (folder / name).write_bytes(data)
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        assert plan.cli.run(["build", f"{folder}/spec.yaml", "-o", f"{folder}/plan"]) == 0
        assert plan.cli.run(["simulate", f"{folder}/plan", "-w", f"{folder}/jobs.yaml", "-o", f"{folder}/played"]) == 0
        assert plan.cli.run([*OPERATE.replace("@", f"{folder}/").split(), f"{folder}/state"]) == 0
    queue = simulate.cluster.parse_queue(QUEUE)
    cluster_run = simulate.cluster.ClusterRun(network, queue)
    cluster_run.play(9.0)
    state = simulate.cluster.format_saved_run(cluster_run.save())
    lst = "".join(_lst_line(fabric, a, b) for a, b in fabric.links.tolist()).encode()
    conf, policy = [files["opensm.conf"]], [files["qos-policy.conf"]]
    saved = (folder / "state").read_bytes()
    played = (folder / "played" / "links.csv").read_bytes()
    needs = (topo.config_root() / "needs" / "fire-flyer-2.yaml").read_bytes()
    catalog = [path.read_bytes() for path in sorted((topo.config_root() / "catalog").glob("*.csv"))]

    def read_tables(path: Path) -> object:
        found = opensm.read_lfts(path, fabric)
        return routing.prove(routing.Routed(fabric, found.tables))

    def read_dump(path: Path) -> object:
        found = topo.read_fabric(path)
        return topo.count([found]), topo.format_ibnetdiscover(found), topo.format_fabric(found)

    def read_spec(path: Path) -> object:
        return [item.n_ports for item in topo.read(path).fabrics]

    def read_workload(path: Path) -> object:
        return simulate.play(routed, simulate.read_workload(path, fabric)).outcome.makespan_s

    def read_flows(path: Path) -> object:
        flows = simulate.workload.read_flows_csv(path, fabric)
        return simulate.play(routed, simulate.workload.bare_flows(flows, str(path))) if len(flows) else None

    def job_of(kind: str) -> Callable[[Path], object]:
        """A workload of one job, which is the spoilt file."""

        def read(path: Path) -> object:
            name = path.name.removesuffix(".0.et").removesuffix(".0.json")
            text = f"jobs: [{{name: a, kind: {kind}, file: {json.dumps(name)}}}]"
            return simulate.parse_workload(text, fabric, folder=path.parent)

        return read

    def read_queue(path: Path) -> object:
        return simulate.cluster.ClusterRun(network, simulate.cluster.read_queue(path)).play(30.0)

    def resume(path: Path) -> object:
        run = simulate.cluster.ClusterRun(network, queue, simulate.cluster.read_saved_run(path))
        return run.play(15.0)

    def read_roles(path: Path) -> object:
        return topo.apply_rules(fabric, topo.read_role_rules(path))

    def read_catalog(path: Path) -> object:
        for name in ("switches", "prices", "cables", "nodes", "hcas", "figures"):
            (path.parent / f"{name}.csv").unlink(missing_ok=True)
        head = path.read_bytes().partition(b"\n")[0]
        kind = next((name for name, word in KINDS.items() if word in head), "switches")
        path.replace(path.with_name(f"{kind}.csv"))
        try:
            return topo.load_catalog([path.parent])
        finally:
            path.with_name(f"{kind}.csv").unlink()

    lists = {"db-csv": format_db_csv(fabric), "net-dump": format_net_dump(fabric), "ndt": format_ndt(fabric),
             "iblinkinfo": format_iblinkinfo(fabric), "iblinkinfo-line": format_iblinkinfo(fabric, line=True),
             "planes": format_planes(fabric, np.random.default_rng(0)), "p2p": P2P, "topo": TOPO,
             "edges": EDGES, "ns3": NS3, "htsim": HTSIM, "astra": ASTRA, "port-list": format_port_list(fabric),
             "lldp": topo.format_lldp(fabric, list(map(str, fabric.port_number.tolist())))}  # fmt: skip
    book = workbook()
    guid, lid = int(fabric.node_guid[0]), int(fabric.discovered_lid[0]) if len(fabric.discovered_lid) else 1
    counters = [
        f'Errors for "gpu"\n   GUID {guid:#x} port 1: [PortXmitWait == 12 (1K)] [PortXmitData == 90 (9MB)]\n'.encode(),
        f"START_PM_INFO\nNodeGUID,PortNumber,PortXmitData,PortXmitWaitExt\n{guid:#x},1,90,12\nEND_PM_INFO\n".encode(),
        f"# Port counters: Lid {lid} port 1\nPortXmitData:.....90\nPortXmitWait:.....12\n".encode(),
        f"+ mlxlink -d lid-{lid} -p 1 -m -c\nRx Power Current [dBm] : 1.8,-12.5 [-10.41..6]\n"
        "Effective Physical BER : 2E-9\nLink Down Counter : 44\n".encode(),
    ]
    psl = "".join(f"0x{int(fabric.node_guid[4]):016x} {lid} {lid % 2}\n" for lid in (1, 2, 5)).encode()
    far = format_far(fabric, routing.studies.adaptive.legal_tables(routing.route(fabric))).encode()
    mcfdbs = f"Switch {int(fabric.node_guid[0]):#x}\nLID : Out Port(s)\n0xC001 : 0x001  0x002\n".encode()
    dumps, specs, jobs = [dump, lst], [SPEC.encode()], [JOBS.encode()]
    tables, queues = [files["lfts"]], [QUEUE.encode()]
    return [
        Target("dump", "x.ibnetdiscover", dumps, read_dump, 30),
        *(Target(name, "x", [text.encode()], read_dump, 5) for name, text in lists.items()),
        Target("p2p-workbook", "x.xlsx", [book], read_dump, 5),
        Target("p2p-workbook-sheet", "x", [book_parts(book)[SHEET]], lambda path: read_dump(with_sheet(path, book)), 5),
        Target("fabric-json", "fabric.json", [as_json], read_dump, 20),
        Target("infragraph", "x.json", [format_infragraph([fabric], topo.load_catalog()).encode()], read_dump, 5),
        Target("spec", "x.yaml", specs + _presets(), read_spec, 30),
        Target("lfts", "lfts", tables, read_tables, 30),
        Target("opensm-conf", "opensm.conf", [files["opensm.conf"]], opensm.read_lanes),
        Target("guid2lid", "guid2lid", [files["guid2lid"]], opensm.read_guid2lid),
        Target("qos-policy", "qos-policy.conf", [files["qos-policy.conf"]], opensm.read_qos_policy),
        Target("guid-list", "guids", [files["cn_guids"], files["root_guids"]], topo.read_guid_list),
        Target("roles", "roles", [ROLES.encode()], read_roles),
        Target("workload", "jobs.yaml", jobs, read_workload, 30),
        Target("flows", "x.csv", [FLOWS.encode()], read_flows),
        Target("goal", "x.goal", [GOAL.encode()], job_of("goal"), 20),
        Target("chakra", "x.0.et", [CHAKRA], job_of("chakra"), 20),
        Target("chakra as JSON", "x.0.json", CHAKRA_JSON, job_of("chakra"), 20),
        Target("queue", "queue.yaml", queues, read_queue, 8),
        Target("saved-run", "state", [state], resume, 5),
        Target("needs", "needs.yaml", [needs, NEEDS.encode()], costmodel.read_needs),
        Target("catalog", "table.csv", catalog, read_catalog, 10),
        Target("server", "mine.xml", [SERVER.encode()], read_server, 5),
        Target("line of words", "words", [line.encode() for line in LINES.splitlines()], line_of_words(folder), 8),
        *(
            Target(f"plan {name}", file, seeds, command(folder, *words.split()), weight)
            for name, file, seeds, words, weight in (
                ("check", "x.yaml", specs, "check FILE", 1),
                ("cost", "x.yaml", specs, "cost FILE --json", 1),
                ("optimise", "needs.yaml", [NEEDS.encode()], "optimise FILE -o @out", 1),
                ("draw", "x.ibnetdiscover", dumps, "draw FILE -o @out", 1),
                ("diff", "x", [*dumps, *(text.encode() for text in lists.values())], "diff @plan FILE -o @out", 1),
                ("diff plan", "x", [text.encode() for text in lists.values()], f"diff FILE {ROUTED} --json", 1),
                ("draw simulated", "played/links.csv", [played], "draw @spec.yaml --simulation @played -o @out", 1),
                ("build", "x.yaml", specs, "build FILE -o @out", 0.3),
                ("route", "x.ibnetdiscover", dumps, "route FILE -o @out", 0.3),
                ("route traffic", "x.csv", [WEIGHTS.encode()], f"route {ROUTED} --for FILE -o @out", 0.5),
                ("route jobs", "jobs.yaml", jobs, "route @plan --for FILE -o @out", 0.3),
                ("route roles", "roles", [ROLES.encode()], f"route {ROUTED} --roles FILE -o @out", 0.3),
                ("route guids", "cn_guids", [files["cn_guids"]], f"route {ROUTED} --cn-guids FILE -o @out", 0.3),
                ("verify", "lfts", tables, f"verify {ROUTED} FILE", 2),
                ("verify dump", "x.ibnetdiscover", dumps, "verify FILE @lfts", 2),
                ("verify lids", "guid2lid", [files["guid2lid"]], f"verify {ROUTED} @lfts --lids FILE", 1),
                ("verify lanes", "opensm.conf", conf, f"verify {ROUTED} @lfts --lanes FILE --policy {POLICY}", 1),
                ("verify slvl", "slvl", [SLVL.encode()], f"verify {ROUTED} @lfts --lanes FILE", 1),
                ("verify psl", "psl", [psl], f"verify {ROUTED} @lfts --lanes {CONF} --policy FILE", 1),
                ("verify policy", "qos-policy.conf", policy, f"verify {ROUTED} @lfts --lanes {CONF} --policy FILE", 1),
                ("verify adaptive", "x.far", [far], f"verify {ROUTED} --adaptive FILE", 2),
                ("verify multicast", "x.mcfdbs", [mcfdbs], f"verify {ROUTED} @lfts --multicast FILE", 1),
                ("verify folder", "plan/fabric.json", [as_json], "verify @plan", 1),
                ("verify expect", "x", tables, f"verify {ROUTED} @lfts --expect FILE", 1),
                ("simulate", "jobs.yaml", jobs, "simulate @plan -w FILE", 2),
                ("simulate flows", "x.csv", [FLOWS.encode()], f"simulate {ROUTED} --flows FILE --tables @lfts", 1),
                ("operate", "queue.yaml", queues, "operate @plan -q FILE --hours 0.01", 1),
                ("operate state", "out", [saved], f"{OPERATE} FILE", 1),
                ("ranks", "nodes", [b"gpu[0-2]\ngpu3\n"], "ranks @plan --nodes FILE --for ring", 0.5),
                ("calibrate", "x.log", [NCCL_TESTS.encode()], "calibrate FILE", 1),
                ("explain", "x.csv", [PAIRS.encode(), *counters], "explain @plan FILE", 1),
                ("export", "x.yaml", specs, "export FILE netbox -o @out", 0.5),
                ("export dot", "fabric.json", [as_json], "export FILE dot -o @out", 0.5),
                ("export p2p", "x.yaml", specs, "export FILE p2p -o @out", 0.5),
                ("export ibdm", "x.ibnetdiscover", dumps, "export FILE ibdm -o @out", 0.5),
                ("export topograph", "x.ibnetdiscover", dumps, "export FILE topograph -o @out", 0.3),
                ("simulate charts", "jobs.yaml", jobs, "simulate @plan -w FILE -o @out", 0.2),
                ("compare", "x.yaml", specs, "compare FILE FILE", 0.3),
            )
        ),
    ]  # fmt: skip


ROUTED, CONF, POLICY = "@fabric.ibnetdiscover", "@opensm.conf", "@qos-policy.conf"

OPERATE = "operate @plan -q @queue.yaml --hours 0.01 --state"

KINDS = {"prices": b"price", "nodes": b"adapters", "cables": b"length", "switches": b"radix", "figures": b"figure"}
"""Word in the header of each table of the catalog."""


def _presets() -> list[bytes]:
    """The small specs that ship, of every shape."""
    names = ("lab-20", "torus", "hyperx", "dragonfly", "slim-fly", "pgft", "k-ary-tree", "eflops-bigraph")
    return [(topo.config_root() / f"{name}.yaml").read_bytes() for name in names]


def _lst_line(fabric: topo.Fabric, a: int, b: int) -> str:
    """A cable as OpenSM lists it."""

    def end(port: int) -> str:
        node = int(fabric.port_node[port])
        kind = "SW" if fabric.kind[node] == topo.Kind.SWITCH else "CA"
        n_ports = int(fabric.port_offset[node + 1] - fabric.port_offset[node])
        guids = f"SystemGUID:{int(fabric.node_guid[node]):016X} NodeGUID:{int(fabric.node_guid[node]):016X}"
        return (
            f"{{ {kind} Ports:{n_ports:02X} {guids} PortGUID:{int(fabric.port_guid[port]):016X} VenID:000002C9 "
            f"DevID:10190000 Rev:00000000 {{{fabric.names[node]}}} LID:{node + 1:04X} "
            f"PN:{int(fabric.port_number[port]):02X} }}"
        )

    return f"{end(a)} {end(b)} PHY=4x LOG=ACT SPD=50\n"


def pick(targets: Sequence[Target], rng: random.Random) -> Target:
    """Choose a target."""
    return rng.choices(targets, [target.weight for target in targets])[0]
