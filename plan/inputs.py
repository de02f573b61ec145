"""What the command is pointed at: a spec, a folder that `plan build` wrote, or a real fabric; and tables for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from topo.errors import Finding, HeddleError, SpecError, did_you_mean
from topo.fabric import Fabric
from topo.hardware.catalog import config_root

if TYPE_CHECKING:
    from routing.lanes.classes import LanePlan
    from routing.lanes.policy import QosPolicy
    from routing.routed import Routed
    from routing.tables import RoutingTables

SPEC_SUFFIXES = (".yaml", ".yml")
PLAN_FILE = "plan.json"
FABRIC_FILE = "fabric.json"


class RoutedInput(NamedTuple):
    """A fabric with tables and lanes, and what was skipped when they were read."""

    fabric: Fabric
    tables: RoutingTables
    """With the map of service levels to lanes."""
    lanes: LanePlan
    policy: QosPolicy
    """Which service level the subnet manager gives to a path."""
    notes: tuple[str, ...]

    @property
    def routed(self) -> Routed:
        """The fabric with its tables, lanes and policy."""
        from routing.routed import Routed

        return Routed(self.fabric, self.tables, self.lanes, self.policy)


def find_preset(folder: str, name: str, option: str) -> Path:
    """Return a file that is given by a preset's name, or by its path.

    Parameters
    ----------
    folder : str
        Of the presets, below that of configs.
    name, option : str
        What was given, and by which option.

    Raises
    ------
    SpecError
        When it is neither.
    """
    presets = {path.stem: path for path in sorted((config_root() / folder).glob("*.yaml"), key=lambda path: path.stem)}
    if name in presets:
        return presets[name]
    path = Path(name)
    if "/" in name or path.suffix or path.is_file():
        return path  # whatever is wrong with it is told when it is read
    expected = f"a YAML file or one of {', '.join(presets)}"
    raise SpecError([Finding(option, f'"{name[:60]}"', expected, did_you_mean(name, presets))])


def read_fabric_argument(path: Path, subnet: str | None = None) -> Fabric:
    """Read a fabric out of a spec (``.yaml``), out of a folder of `plan build`, or out of a dump of a real one.

    Parameters
    ----------
    subnet : str, optional
        Which subnet of a spec or folder that has several.

    Raises
    ------
    HeddleError
        When the file cannot be read, or it is not clear which subnet is meant.
    """
    from topo import read_fabric

    if path.suffix in SPEC_SUFFIXES:
        return _compile(path, subnet)
    if path.is_dir():
        return read_fabric(_subnet_folder(path, subnet) / FABRIC_FILE)
    _refuse_choice(path, subnet)
    return read_fabric(path)


def read_routed_argument(
    path: Path,
    subnet: str | None = None,
    tables: Path | None = None,
    lanes: Path | None = None,
    roles: Path | None = None,
    policy: Path | None = None,
    *,
    step: Callable[[str], None] = lambda text: None,
) -> RoutedInput:
    """Read a fabric and the tables that it is routed by.

    Tables that are not given are those of the folder; a spec is routed as it says. Lanes that are not given are those
    of the folder's ``opensm.conf`` or of the spec's traffic classes; a dump of a fabric has one. The policy likewise is
    that of the folder's ``qos-policy.conf`` or of the spec's traffic classes.

    Parameters
    ----------
    tables : Path, optional
        Forwarding tables, as `routing.opensm.lfts.read_lfts` reads them.
    lanes : Path, optional
        Options of OpenSM.
    roles : Path, optional
        Rules that say what hosts are for, as `topo.roles.read_role_rules` reads them.
    policy : Path, optional
        Service levels of paths, as `routing.opensm.qos_policy.read_qos_policy` reads them.
    step : callable
        Is told what is going on, for a progress display.

    Raises
    ------
    HeddleError
        When a file cannot be read, there are no tables, or it is not clear which subnet is meant.
    """
    from routing.lanes.classes import LanePlan
    from routing.lanes.policy import QosPolicy
    from routing.opensm.conf import read_lanes
    from routing.opensm.lfts import read_lfts
    from routing.opensm.qos_policy import read_qos_policy
    from topo import read_fabric

    step("reading the fabric")
    found: RoutingTables | None = None
    plan: LanePlan | None = None
    levels: QosPolicy | None = None
    if path.suffix in SPEC_SUFFIXES:
        fabric = _compile(path, subnet)
        if tables is None:
            import routing

            step("routing")
            found = routing.route(fabric).tables
        plan, levels = _lanes_of_spec(fabric, found)
    elif path.is_dir():
        folder = _subnet_folder(path, subnet)
        fabric = read_fabric(folder / FABRIC_FILE)
        tables = tables or folder / "opensm" / "lfts"
        lanes = lanes or folder / "opensm" / "opensm.conf"
        policy = policy or folder / "opensm" / "qos-policy.conf"
    else:
        _refuse_choice(path, subnet)
        fabric = read_fabric(path)
    fabric, more = give_roles(fabric, roles)
    notes = fabric.notes + more
    if found is None:
        if tables is None:
            raise HeddleError(f"{path}: a fabric without forwarding tables; name them with --tables LFTS")
        step("reading the tables")
        found, more = read_lfts(tables, fabric)
        notes += more
    if lanes is not None:
        plan = read_lanes(lanes)
    if policy is not None:
        levels = read_qos_policy(policy)
    plan = plan or LanePlan((0,) * 16, ((0, 1),))
    return RoutedInput(fabric, replace(found, sl2vl=plan.sl2vl), plan, levels or QosPolicy(), notes)


def give_roles(
    fabric: Fabric, rules: Path | None = None, compute: Path | None = None, storage: Path | None = None
) -> tuple[Fabric, tuple[str, ...]]:
    """Return a fabric with what its hosts are for, and which of what is said of them could not be used.

    Parameters
    ----------
    rules : Path, optional
        Rules over node descriptions, as `topo.roles.read_role_rules` reads them.
    compute, storage : Path, optional
        Port GUIDs of such hosts, one a line, as OpenSM is given them; they overrule the rules. With a list of those
        that compute, the others that would do so are there for management.

    Raises
    ------
    FormatError
        When a file cannot be read.
    """
    from topo.fabric import Kind, Role
    from topo.formats.guid_list import read_guid_list
    from topo.roles import apply_guids, apply_rules, read_role_rules

    notes: tuple[str, ...] = ()
    if rules is not None:
        fabric, idle = apply_rules(fabric, read_role_rules(rules))
        notes += tuple(f"{rules}: no adapter has its role from the pattern {rule.pattern!r}" for rule in idle[:5])
    if compute is not None:
        role = fabric.role.copy()
        role[(fabric.kind == Kind.HCA) & (role == Role.COMPUTE)] = Role.MANAGEMENT
        fabric = replace(fabric, role=role)
    for wanted, path in ((Role.COMPUTE, compute), (Role.STORAGE, storage)):
        if path is not None:
            fabric, unknown = apply_guids(fabric, {wanted: read_guid_list(path)})
            if unknown:
                first = ", ".join(f"0x{guid:016x}" for guid in unknown[:3])
                notes += (f"{path}: {len(unknown):,} port GUIDs that no adapter of the fabric has ({first})",)
    return fabric, notes


def give_lids(fabric: Fabric, path: Path) -> Fabric:
    """Return a fabric with the LIDs of OpenSM's ``guid2lid``, for tables that name LIDs and nothing else.

    Raises
    ------
    FormatError
        When the file cannot be read.
    """
    import numpy as np

    from routing.opensm.guid2lid import read_guid2lid

    given = read_guid2lid(path)
    lids = [given[guid][0] if guid in given else 0 for guid in fabric.end_guid.tolist()]
    return replace(fabric, discovered_lid=np.array(lids, np.uint16))


def _compile(path: Path, subnet: str | None) -> Fabric:
    from routing.engines.base import ENGINES
    from topo.cluster import read

    fabrics = {fabric.name: fabric for fabric in read(path, tuple(ENGINES)).fabrics}
    return fabrics[_one_of(path, list(fabrics), subnet)]


def _lanes_of_spec(fabric: Fabric, tables: RoutingTables | None) -> tuple[LanePlan, QosPolicy]:
    from routing.lanes.classes import lanes_of_classes, lanes_of_levels
    from routing.lanes.policy import QosPolicy, policy_of_classes

    if tables is not None and tables.path_sl is not None and tables.path_sl.any():
        return lanes_of_levels(tables.sl2vl), QosPolicy()  # the tables say it
    return lanes_of_classes(fabric.traffic), policy_of_classes(fabric, fabric.traffic)


def subnet_folders(path: Path) -> dict[str, Path]:
    """Return the folder of each subnet of a folder that `plan build` or `plan route` wrote; one alone has no name.

    Raises
    ------
    HeddleError
        When it is another folder.
    """
    if not (path / PLAN_FILE).is_file():
        raise HeddleError(f"{path}: found a folder without {PLAN_FILE}; expected one that `plan build` wrote")
    if (path / FABRIC_FILE).is_file():
        return {"": path}
    return {found.parent.name: found.parent for found in sorted(path.glob(f"*/{FABRIC_FILE}"))}


def _subnet_folder(path: Path, subnet: str | None) -> Path:
    """Return the folder that holds the files of one subnet."""
    folders = subnet_folders(path)
    if "" in folders:
        _refuse_choice(path, subnet)
        return path
    return folders[_one_of(path, list(folders), subnet)]


def _refuse_choice(path: Path, subnet: str | None) -> None:
    """Do not pass over the name of a subnet where there is no choice: the user has another file in mind."""
    if subnet is not None:
        raise HeddleError(f"{path}: found one subnet alone, and --subnet {subnet!r}; leave --subnet out")


def _one_of(path: Path, subnets: list[str], subnet: str | None) -> str:
    if subnet is None and len(subnets) == 1:
        return subnets[0]
    if subnet is None or subnet not in subnets:
        found = f"no subnet {subnet!r}" if subnet else f"{len(subnets)} subnets"
        raise HeddleError(f"{path}: found {found}; expected --subnet with one of {', '.join(subnets) or 'none'}")
    return subnet
