"""What is fuzzed: every reader and every command, each with good files to begin with, through the public API alone."""

import hashlib
import io
import json
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import costmodel
import plan.cli
import routing
import simulate
import topo
from routing import opensm

CORPUS = Path(__file__).parent / "corpus"
SCALE = {"flows": 20_000, "storage-acts": 20_000, "queue-rounds": 300}
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
ROLES = "# hosts\nstorage st*\ncompute gpu0? mlx5_*\n"
FLOWS = "start_s,src,dst,bytes,sl\n0,gpu0 mlx5_0,gpu1 mlx5_0,1e6,0\n0.5,gpu1 mlx5_0,gpu2 mlx5_0,10,\n"
CHAKRA = (
    b"\x07\x0a\x050.0.4"
    b"\x08\x08\x01\x12\x02n1\x18\x04"
    b"\x1d\x08\x02\x12\x02n2\x18\x07\x2a\x01\x01\x52\x10\x0a\x09comm_size\x48\x80\x80\x40"
)


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


def command(*words: str) -> Callable[[Path], None]:
    """Run a command in the folder of the spoilt file, and look at what it prints and leaves behind."""

    def run(path: Path) -> None:
        folder = path.parent
        before = _contents(folder)
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            status = plan.cli.run([word.replace("@", str(folder) + "/").replace("FILE", str(path)) for word in words])
        said = b"".join(stream.buffer.getvalue() for stream in (out, err)).decode()
        assert status in (0, 1, 2), f"status {status}: {said[-2000:]}"
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
    network = simulate.Network.of(routed)
    files = {
        name: text if isinstance(text, bytes) else b"".join(text) for name, text in opensm.opensm_files(routed).items()
    }
    dump, as_json = topo.format_ibnetdiscover(fabric).encode(), topo.format_fabric(fabric).encode()
    good = {"spec.yaml": SPEC, "other.goal": GOAL, "other.csv": FLOWS, "jobs.yaml": JOBS, "queue.yaml": QUEUE}
    for name, text in good.items():
        (folder / name).write_text(text)
    (folder / "fabric.ibnetdiscover").write_bytes(dump)
    (folder / "lfts").write_bytes(files["lfts"])
    with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        assert plan.cli.run(["build", str(folder / "spec.yaml"), "-o", str(folder / "plan")]) == 0
    queue = simulate.parse_queue(QUEUE)
    cluster_run = simulate.ClusterRun(network, queue)
    cluster_run.play(9.0)
    state = simulate.format_saved_run(cluster_run.save())
    lst = "".join(_lst_line(fabric, a, b) for a, b in fabric.links.tolist()).encode()
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
        flows = simulate.read_flows_csv(path, fabric)
        return simulate.play(routed, simulate.bare_flows(flows, str(path))) if len(flows) else None

    def job_of(kind: str) -> Callable[[Path], object]:
        """A workload of one job, which is the spoilt file."""

        def read(path: Path) -> object:
            name = path.name.removesuffix(".0.et")
            text = f"jobs: [{{name: a, kind: {kind}, file: {json.dumps(name)}}}]"
            return simulate.parse_workload(text, fabric, folder=path.parent)

        return read

    def read_queue(path: Path) -> object:
        return simulate.ClusterRun(network, simulate.read_queue(path)).play(30.0)

    def resume(path: Path) -> object:
        run = simulate.ClusterRun(network, queue, simulate.read_saved_run(path))
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

    dumps, specs, jobs = [dump, lst], [SPEC.encode()], [JOBS.encode()]
    tables, queues = [files["lfts"]], [QUEUE.encode()]
    return [
        Target("dump", "x.ibnetdiscover", dumps, read_dump, 30),
        Target("fabric-json", "fabric.json", [as_json], read_dump, 20),
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
        Target("queue", "queue.yaml", queues, read_queue, 8),
        Target("saved-run", "state", [state], resume, 5),
        Target("needs", "needs.yaml", [needs], costmodel.read_needs),
        Target("catalog", "table.csv", catalog, read_catalog, 10),
        Target("plan check", "x.yaml", specs, command("check", "FILE"), 1),
        Target("plan cost", "x.yaml", specs, command("cost", "FILE", "--json"), 1),
        Target("plan draw", "x.ibnetdiscover", dumps, command("draw", "FILE", "-o", "@out"), 1),
        Target("plan build", "x.yaml", specs, command("build", "FILE", "-o", "@out"), 0.3),
        Target("plan route", "x.ibnetdiscover", dumps, command("route", "FILE", "-o", "@out"), 0.3),
        Target("plan verify", "lfts", tables, command("verify", "@fabric.ibnetdiscover", "FILE"), 2),
        Target("plan verify dump", "x.ibnetdiscover", dumps, command("verify", "FILE", "@lfts"), 2),
        Target("plan simulate", "jobs.yaml", jobs, command("simulate", "@plan", "-w", "FILE"), 2),
        Target("plan operate", "queue.yaml", queues, command("operate", "@plan", "-q", "FILE", "--hours", "0.01"), 1),
        Target("plan export", "x.yaml", specs, command("export", "FILE", "netbox", "-o", "@out"), 0.5),
        Target("plan export dot", "fabric.json", [as_json], command("export", "FILE", "dot", "-o", "@out"), 0.5),
        Target("plan compare", "x.yaml", specs, command("compare", "FILE"), 0.2),
    ]  # fmt: skip


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
