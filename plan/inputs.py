"""What the command is pointed at: a spec, a folder that `plan build` wrote, or a real fabric; and tables for it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import routing
import simulate
import topo
from plan.checksums import of_one_plan
from topo import Finding, HeddleError, SpecError, did_you_mean, plural

if TYPE_CHECKING:
    from plan.pipeline import Plan
    from routing import Demand, Hashed, Routed
    from topo import Catalog, Cluster, Fabric

SPEC_SUFFIXES = (".yaml", ".yml")
PLAN_FILE = "plan.json"
FABRIC_FILE = "fabric.json"
CATALOG = "catalog"
"""Folder for the spec's own catalog tables in a folder of `plan build`."""
POLICY = "qos-policy.conf"
A_FABRIC = "a Fabric such as `cluster.fabric`"
"""What takes the place of a path, for `path_of`."""


def check_name(path: Path) -> None:
    """Refuse the name of what is no file and cannot become one: it is too long, or a link to itself."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        shown = str(path) if len(str(path)) <= 200 else f"{str(path)[:200]}..."
        raise HeddleError(f"{shown}: not a possible file name ({getattr(error, 'strerror', None) or error})") from None


def find_preset(folder: str, name: str, option: str, others: Sequence[str] = ()) -> Path:
    """Return the file that ``option`` gives, which takes ``others`` too: a preset of the folder, or a path."""
    name, presets = str(name), {path.stem: path for path in (topo.config_root() / folder).glob("*.yaml")}
    if name in presets:
        return presets[name]
    path = Path(name)
    check_name(path)
    if "/" in name or path.suffix or path.is_file():
        return path  # whatever is wrong with it is told when it is read
    known = [*others, *sorted(presets)]
    expected = f"a YAML file or one of {', '.join(known)}"
    raise SpecError([Finding(option, f'"{name[:60]}"', expected, did_you_mean(name, known))])


@of_one_plan
def read_fabric_argument(
    path: Path, subnet: str | None = None, *, merged: bool = False, ethernet: bool = False
) -> Fabric:
    """Read a fabric out of a spec (``.yaml``), out of a folder of `plan build`, or out of a dump of a real one.

    ``subnet`` is that of a spec or folder that has several; ``merged`` as `topo.read_fabric` takes it; with
    ``ethernet`` an Ethernet of a spec will do, by its name or where there is nothing else.
    """
    if path.suffix in SPEC_SUFFIXES:
        cluster = read_cluster(path)
        every = ethernet and (subnet is not None or not cluster.subnets)
        if not (cluster.fabrics if every else cluster.subnets):
            raise HeddleError(
                f"{path}: found Ethernet only, which has no forwarding tables; expected InfiniBand (`plan simulate`, "
                "`operate` and `sweep` play Ethernet)"
            )
        cabled = {fabric.name: fabric for fabric in cluster.cabled[: None if every else len(cluster.subnets)]}
        return cabled[_one_of(path, list(cabled), subnet)]
    if path.is_dir():
        return topo.read_fabric(_subnet_folder(path, subnet) / FABRIC_FILE)
    if subnet is not None:  # the user has another file in mind
        raise HeddleError(f"{path}: found one subnet alone, and --subnet {subnet!r}; leave --subnet out")
    return topo.read_fabric(path, merged=merged)


def path_of(given: object, instead: str = "") -> Path:
    """Return a path that a caller in Python gave; HeddleError for what is none, with what takes objects ``instead``."""
    expected = "the path of a spec, of a folder of a plan or of a fabric in a file"
    return topo.path_of(given, f"{expected}{instead and f', or {instead}'}")


def routed_of(fabric: object, given: RoutingFiles | None, step: Callable[[str], None]) -> Routed:
    """Return a routed fabric as it is, or read one as `read_routed_argument` does."""
    if isinstance(fabric, routing.Routed):
        return fabric
    return read_routed_argument(path_of(fabric, "a Routed"), given or RoutingFiles(), step)


def read_cluster(spec: str | Path | Cluster) -> Cluster:
    """Return the cluster of a YAML file, or of a preset (a string without a suffix); its engine must be known."""
    if isinstance(spec, str) and not Path(spec).suffix:
        return topo.preset(spec)
    if not isinstance(spec, topo.Cluster):
        return topo.read(path_of(spec, "a Cluster"), tuple(routing.ENGINES))
    engine, known = spec.spec.routing.engine, ("auto", *routing.ENGINES)
    if engine not in known:
        expected = f"one of {', '.join(known)}"
        raise SpecError([Finding(f"{spec.name}: routing.engine", f'"{engine}"', expected, did_you_mean(engine, known))])
    return spec


def check_currency(currency: str | None, clusters: Iterable[Cluster]) -> None:
    """Refuse a currency in which nothing has a price."""
    known = sorted({name for cluster in clusters for prices in cluster.catalog.prices.values() for name in prices})
    if currency is not None and currency not in known:
        raise HeddleError(
            f"found the currency {currency!r}; expected one with prices in the catalog: {', '.join(known)}"
        )


def catalog_of(path: Path) -> Catalog:
    """Return the catalog of a spec, or of a folder with its `CATALOG`; of anything else the one that ships."""
    if path.suffix in SPEC_SUFFIXES:
        return read_cluster(path).catalog
    own = path / CATALOG
    return topo.load_catalog([own] if own.is_dir() and (path / PLAN_FILE).is_file() else [])


def tables_of(catalog: Path | None) -> dict[str, str]:
    """Return the tables of a catalog by the names of their files: all of a folder, or one that is named itself."""
    if catalog is None or not catalog.exists():
        return {}
    files = sorted(catalog.glob("*.csv")) if catalog.is_dir() else [catalog]
    return {file.name: topo.read_text(file, topo.budgets()["catalog-bytes"]) for file in files}


def check_servers(folder: Path, catalog: Catalog) -> None:
    """Refuse a folder whose servers a catalog knows as others, or not at all; their prices and power may differ."""
    path = folder / PLAN_FILE
    try:
        planned = json.loads(path.read_text(encoding="utf-8"))["inputs"]["servers_sha256"]
        known = catalog.servers_sha256(planned)
        other = [name for name, digest in sorted(planned.items()) if known.get(name) != digest]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise HeddleError(f"{path}: found no servers_sha256 of its inputs; expected what `plan build` wrote") from None
    if other:
        raise HeddleError(
            f"{folder}: this plan was built with other figures of the server {other[0]} than the catalog and its own "
            f"tables ({CATALOG}/) have now: name the spec instead of the folder, or build the plan again"
        )


@of_one_plan
def read_plan(path: Path) -> Plan:
    """Read a spec, a folder that `plan build` or `plan route` wrote, or a real fabric, with all its subnets.

    The plan of a spec has its cluster, that of a folder its tables; no pass has run yet.
    """
    from plan.pipeline import Options, Plan

    if path.suffix in SPEC_SUFFIXES:
        cluster = read_cluster(path)
        asked = Options(traffic=traffic_of(cluster))
        return Plan(cluster.name, cluster, cluster.fabrics, str(path), options=asked)
    if path.is_dir():
        routed = tuple(read_routed_argument(path, RoutingFiles(subnet=name or None)) for name in subnet_folders(path))
        fabrics = tuple(item.fabric for item in routed)
        return Plan(path.absolute().name, fabrics=fabrics, source=str(path), routed=routed)
    return Plan(path.name.partition(".")[0], fabrics=(read_fabric_argument(path),), source=str(path))


@dataclass(frozen=True)
class RoleFiles:
    """What says what hosts are for; `give_roles` says how."""

    roles: Path | None = None
    """Rules over node descriptions, as `topo.read_role_rules` reads them."""
    cn_guids: Path | None = None
    """Port GUIDs of hosts that compute, as OpenSM is given them."""
    io_guids: Path | None = None


@dataclass(frozen=True)
class Questions:
    """What is asked of tables besides their proof; parts of the fabric by name.

    Examples
    --------
    >>> import plan
    >>> plan.Questions(over=("leaf0:21",)).groups
    False
    """

    paths: tuple[tuple[str, str], ...] = ()
    """Pairs of end ports, each asked in both directions, to all LIDs."""
    over: tuple[str, ...] = ()
    """Links, whose pairs are listed."""
    without: tuple[str, ...] = ()
    """Switches and links that fail, each alone."""
    together: bool = False
    """Whether they fail at once instead."""
    groups: bool = False
    """Whether to prove groups of ports around the tables, as adaptive routing could use them."""


@dataclass(frozen=True)
class RoutingFiles:
    """What says how a fabric is routed, where it is not what the fabric brings."""

    tables: Path | None = None
    """Forwarding tables, as `routing.opensm.read_lfts` reads them."""
    lanes: Path | None = None
    """Options of OpenSM."""
    policy: Path | None = None
    """Service levels of paths, as `routing.opensm.read_levels` reads them."""
    roles: Path | None = None
    """Rules that say what hosts are for, as `topo.read_role_rules` reads them."""
    subnet: str | None = None
    """Which subnet, where there are several."""


@dataclass(frozen=True)
class Hashing:
    """How switches choose among next hops, where no forwarding tables say so.

    Examples
    --------
    >>> import plan
    >>> plan.Hashing(ecmp=4).applies
    True
    """

    ecmp: int | None = None
    """`routing.Hashed.queue_pairs`, 0 for spraying; None for 1, and on Ethernet alone."""
    one_hash: bool = False
    """Whether all switches use one hash."""
    bond: int = 1
    """Adapter ports of a server that are one port to flows."""
    down: tuple[str, ...] = ()
    """Planes, switches and links that do not work."""

    @property
    def applies(self) -> bool:
        """Whether it asks for hashes on InfiniBand too; what is down does not."""
        return replace(self, down=()) != Hashing()


def files_of_folder(path: Path, subnet: str | None) -> RoutingFiles:
    """Return how a folder of `plan build` or `plan route` says that a subnet is routed."""
    opensm = _subnet_folder(path, subnet) / "opensm"
    return RoutingFiles(opensm / "lfts", opensm / "opensm.conf", opensm / POLICY)


WITHOUT_TABLES = (
    "no forwarding tables are given: pairs are counted on shortest paths that share links evenly (minhop), and waiting "
    "is not explained; name what was loaded with --tables LFTS, as `dump_fts` prints it"
)


@of_one_plan
def read_routed_argument(
    path: Path,
    given: RoutingFiles = RoutingFiles(),
    step: Callable[[str], None] = lambda text: None,
    *,
    otherwise: str = "",
) -> Routed:
    """Read a fabric and the tables that it is routed by; the notes of the fabric say what was skipped in all files.

    Tables that are not given are those of the folder; a spec is routed as it says. Lanes that are not given are those
    of the folder's ``opensm.conf`` or of the spec's traffic classes; a dump of a fabric has one. The policy likewise is
    that of the folder's ``qos-policy.conf`` or of the spec's traffic classes. A dump without tables is routed by the
    engine ``otherwise``, and a note says so.
    """
    if given.subnet is not None and "*" in given.subnet:
        files = [file for file in (given.tables, given.lanes, given.policy) if file is not None]
        if files:
            raise HeddleError(f"{files[0]}: found a file of one subnet; expected --subnet with the name of one")
        subnets = subnets_of(path)
        names = [name for name in subnets if fnmatchcase(name, given.subnet)] or [_one_of(path, subnets, given.subnet)]
        several = [read_routed_argument(path, replace(given, subnet=name), step) for name in names]
        return routing.studies.side_by_side(several, path.stem)
    step("reading the fabric")
    tables, lanes, policy = given.tables, given.lanes, given.policy
    if path.is_dir():
        own = files_of_folder(path, given.subnet)
        tables, lanes, policy = tables or own.tables, lanes or own.lanes, policy or own.policy
    fabric = give_roles(read_fabric_argument(path, given.subnet), RoleFiles(given.roles))
    assumed = tables is None and path.suffix not in SPEC_SUFFIXES
    if assumed and not otherwise:
        raise HeddleError(
            f"{path}: a fabric without forwarding tables; name them with --tables LFTS, as `dump_fts` prints them; an "
            "Ethernet has none: play it with --ecmp"
        )
    if tables is not None:
        step("reading the tables")
        found = routing.opensm.read_lfts(tables, fabric)
        fabric = replace(fabric, notes=fabric.notes + found.notes)
        routed = routing.Routed(fabric, found.tables)
    else:
        step("routing")
        fabric = replace(fabric, notes=(*fabric.notes, WITHOUT_TABLES)) if assumed else fabric
        routed = routing.route(fabric, otherwise) if assumed else route_as_asked(read_cluster(path), fabric)
    return give_levels(routed, lanes, policy)


def give_levels(routed: Routed, lanes: str | Path | None, policy: str | Path | None) -> Routed:
    """Return a routed fabric with the lanes and the levels of paths that files say, where they are given."""
    if lanes is not None:
        routed = replace(routed, lanes=routing.opensm.read_lanes(lanes))
    if policy is not None:
        levels = routing.opensm.read_levels(policy, routed.fabric, routed.tables)
        if isinstance(levels, routing.RoutingTables):
            routed = replace(routed, tables=levels)
        else:
            routed = replace(routed, policy=levels)
    return replace(routed, tables=replace(routed.tables, sl2vl=routed.lanes.sl2vl))


def read_paths_argument(
    path: Path,
    given: RoutingFiles = RoutingFiles(),
    hashing: Hashing = Hashing(),
    step: Callable[[str], None] = lambda text: None,
) -> Routed | Hashed:
    """Read a fabric and what gives flows their paths: tables, as `read_routed_argument` does, or hashes of switches.

    Hashes are those of an Ethernet, which ``given`` names, or all of whose fabrics are taken; with ``hashing`` those
    of any other fabric too, without its tables.
    """
    import numpy as np

    cluster = read_cluster(path) if path.suffix in SPEC_SUFFIXES else None
    others = cluster.cabled[len(cluster.subnets) :] if cluster and given.subnet else ()
    named = {fabric.name: fabric for fabric in others if fnmatchcase(fabric.name, given.subnet or "")}
    if not hashing.applies and (cluster is None or cluster.subnets) and not named:
        if hashing.down:
            parts = " ".join(f"--down {shlex.quote(part)}" for part in hashing.down)
            files = f"{path} --tables {given.tables}" if given.tables else path
            raise HeddleError(
                f"{path}: found --down beside forwarding tables, which lead into what is down; expected repaired "
                f"tables: `plan repair {files} {parts} -o REPAIRED`, then the same command on REPAIRED without --down. "
                "Hashes instead of tables: --ecmp 1"
            )
        return read_routed_argument(path, given, step)
    for file in (given.tables, given.lanes, given.policy):
        if file is not None:
            raise HeddleError(f"{file}: found a file for forwarding tables; expected none where switches hash")
    step("reading the fabric")
    if cluster is not None:
        known = named or {fabric.name: fabric for fabric in cluster.cabled[: len(cluster.subnets) or None]}
        names = [name for name in known if fnmatchcase(name, given.subnet or "*")]
        name = path.stem
    else:
        names = [name for name in subnets_of(path) if fnmatchcase(name, given.subnet or "*")] or [given.subnet or ""]
        known = {name: read_fabric_argument(path, name or None) for name in names}
        name = path.name.partition(".")[0]
    fabrics = [known[one] for one in names or [_one_of(path, list(known), given.subnet)]]
    whole = fabrics[0] if len(fabrics) == 1 else routing.studies.join_fabrics(fabrics, name)
    whole = give_roles(whole, RoleFiles(given.roles))
    for part in hashing.down:
        plane = next((fabric.names[: fabric.n_switches] for fabric in fabrics if fabric.name == part), None)
        try:
            failed = routing.find_ports(whole, part) if plane is None else np.flatnonzero(
                np.isin(whole.port_node, np.flatnonzero(np.isin(whole.names, plane))))  # fmt: skip
        except HeddleError as error:
            planes = f" Planes: {', '.join(fabric.name for fabric in fabrics)}." if len(fabrics) > 1 else ""
            raise HeddleError(f"--down: {error}{planes}") from None
        whole = whole.without(failed)
    return routing.Hashed(whole, 1 if hashing.ecmp is None else hashing.ecmp, 0, hashing.one_hash, hashing.bond)


def read_traffic(name: str, catalog: Catalog, seed: int) -> Callable[[Routed], Demand]:
    """Return what finds the demand of a CSV file or a workload on a routed fabric.

    ``name`` is a file that ends in ``.csv``, or a workload by file or name of a preset (``seed`` is its seed): what it
    sends in all, in bytes. ``catalog`` says what the servers are.
    """

    def demand(routed: Routed) -> Demand:
        import numpy as np

        if name.endswith(".csv"):
            return routing.Demand.read(name, routed)
        path = find_preset("workloads", name, "--for", get_args(topo.Purpose))
        workload, n = simulate.read_workload(path, routed.fabric, seed, catalog), routed.fabric.n_end_ports
        end_of = np.append(np.arange(n), workload.devices.end_port)  # GPUs send over the ports of their servers
        flows, (src, dst) = workload.flows, end_of[[workload.flows.src, workload.flows.dst]]
        sent = (src != dst) & (flows.size_bytes > 0)
        pairs, pair = np.unique(src[sent] * n + dst[sent], return_inverse=True)
        if not len(pairs):
            raise HeddleError(f"{path}: nothing is sent over the network; expected a workload that does")
        weight = np.bincount(pair, weights=flows.size_bytes[sent]).astype(np.float64)
        return routing.Demand((pairs // n).astype(np.int32), (pairs % n).astype(np.int32), weight)

    return demand


def traffic_of(cluster: Cluster, seed: int = 0) -> Callable[[Routed], Demand | None] | None:
    """Return what finds the demand that the spec of a cluster names for its `network`; None where it names none."""
    file = cluster.traffic_file
    if file is None:
        return None
    find = read_traffic(str(file), cluster.catalog, seed)
    return lambda routed: None if cluster.network_of(routed.fabric.name) else find(routed)


def route_as_asked(cluster: Cluster, fabric: Fabric) -> Routed:
    """Return a subnet of a cluster with the tables that its spec asks for."""
    routed, traffic = routing.route(fabric, fabric.engine), traffic_of(cluster)
    demand = None if traffic is None else traffic(routed)
    return routed if demand is None else routing.fit_traffic(routed, demand)


def give_roles(fabric: Fabric, hosts: RoleFiles | None) -> Fabric:
    """Return a fabric with what its hosts are for; its notes say which rules and port GUIDs fit no adapter.

    Lists of port GUIDs overrule the rules. With a list of those that compute, the others that would do so are there for
    management.
    """
    if hosts is None or hosts == RoleFiles():
        return fabric
    notes = fabric.notes
    if hosts.roles is not None:
        fabric, idle = topo.apply_rules(fabric, topo.read_role_rules(hosts.roles))
        notes += tuple(f"{hosts.roles}: no adapter has its role from the pattern {rule.pattern!r}" for rule in idle[:5])
    if hosts.cn_guids is not None:
        role = fabric.role.copy()
        role[(fabric.kind == topo.Kind.HCA) & (role == topo.Role.COMPUTE)] = topo.Role.MANAGEMENT
        fabric = replace(fabric, role=role)
    for wanted, path in ((topo.Role.COMPUTE, hosts.cn_guids), (topo.Role.STORAGE, hosts.io_guids)):
        if path is not None:
            guids = topo.read_guid_list(path)
            # Without storage, the list of its ports that we write is empty.
            if not guids and wanted == topo.Role.COMPUTE:
                raise topo.FormatError("found no GUID; expected one per line, such as 0x0c42a10300a9b026", str(path))
            fabric, unknown = topo.apply_guids(fabric, {wanted: guids})
            if unknown:
                first = ", ".join(f"0x{guid:016x}" for guid in unknown[:3])
                notes += (f"{path}: {len(unknown):,} port GUIDs that no adapter of the fabric has ({first})",)
    return replace(fabric, notes=notes)


def give_lids(fabric: Fabric, path: Path) -> Fabric:
    """Return a fabric with the LIDs of OpenSM's ``guid2lid``, for tables that name LIDs and nothing else."""
    import numpy as np

    given = routing.opensm.read_guid2lid(path)
    lids = [given[guid][0] if guid in given else 0 for guid in fabric.end_guid.tolist()]
    lmc = max((len(lids) for lids in given.values()), default=1).bit_length() - 1
    return replace(fabric, discovered_lid=np.array(lids, np.uint16), lmc=lmc)


def subnet_folders(path: Path) -> dict[str, Path]:
    """Return the folder of each subnet of a folder that `plan build` or `plan route` wrote; one alone has no name."""
    if not (path / PLAN_FILE).is_file():
        raise HeddleError(f"{path}: found a folder without {PLAN_FILE}; expected one that `plan build` wrote")
    if (path / FABRIC_FILE).is_file():
        return {"": path}
    return {found.parent.name: found.parent for found in sorted(path.glob(f"*/{FABRIC_FILE}"))}


def subnets_of(path: Path) -> list[str]:
    """Return the names of the subnets of a spec or a folder of ours, of a fabric in a file none."""
    if path.is_dir():
        return list(subnet_folders(path))
    return [fabric.name for fabric in read_cluster(path).subnets] if path.suffix in SPEC_SUFFIXES else []


def _subnet_folder(path: Path, subnet: str | None) -> Path:
    folders = subnet_folders(path)
    if "" in folders:
        if subnet is not None:
            _one_of(path, [topo.read_fabric(path / FABRIC_FILE).name], subnet)
        return path
    if not folders:
        raise HeddleError(
            f"{path}: found a folder without tables, as of Ethernet; expected the spec that it is built of"
        )
    return folders[_one_of(path, list(folders), subnet)]


def _one_of(path: Path, subnets: list[str], subnet: str | None) -> str:
    if subnet is None and len(subnets) == 1:
        return subnets[0]
    if subnet is None or subnet not in subnets:
        found = f"no subnet {subnet!r}" if subnet else f"{plural(len(subnets), 'subnet')}"
        raise HeddleError(f"{path}: found {found}; expected --subnet with one of {', '.join(subnets) or 'none'}")
    return subnet
