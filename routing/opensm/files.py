"""Everything that OpenSM needs to load a plan: its files, by the names that they are installed as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from routing.lanes.classes import LanePlan, check_lanes
from routing.lanes.policy import MatchRule, PortGroup, QosPolicy, ends_of_roles
from routing.opensm.conf import format_opensm_conf, qos_options
from routing.opensm.guid2lid import format_guid2lid
from routing.opensm.lfts import lfts_sections
from routing.opensm.qos_policy import format_qos_policy
from routing.opensm.readme import format_readme, keeper_files
from routing.routed import Routed
from routing.tables import RoutingTables, lid_owners
from topo.dumps.roles import format_guid_list
from topo.errors import RoutingError
from topo.fabric import Fabric, Role

DIRECTORY = "/etc/opensm"
"""Where OpenSM's files are on Debian and with NVIDIA's packages."""

CACHE = "/var/cache/opensm"
"""OpenSM's cache folder, unless OSM_CACHE_DIR names another."""

PARTITIONS = (
    "# One partition with everybody in it. Without the word full, hosts could not talk to each other.\n"
    "Default=0x7fff, ipoib, defmember=full : ALL=full, SELF=full ;\n"
)
"""``partitions.conf`` (``osm_prtn_config.c``): members are limited by default, and two limited members cannot talk to
each other; where the file names no default partition, everybody but the subnet manager is limited."""

MAX_RULES = 4096
"""OpenSM tries the rules one by one for every path that a host asks for."""


def opensm_files(routed: Routed, *, directory: str = DIRECTORY) -> dict[str, bytes | Iterable[bytes]]:
    """Return the files of the folder ``opensm/``, by name.

    Parameters
    ----------
    routed : Routed
        Proven: OpenSM believes whatever the tables say. Classes of traffic are those of its fabric.
    directory : str
        Where the files will be installed, for the paths in ``opensm.conf``.

    Returns
    -------
    dict
        ``lfts`` comes in chunks that can be taken once: those of the largest subnets do not fit in memory.

    Raises
    ------
    DesignError
        When switches do not have the lanes that are asked for.
    RoutingError
        When OpenSM could not load the tables, or no policy can state their service levels.

    Examples
    --------
    >>> import topo, routing
    >>> files = routing.opensm.opensm_files(routing.route(topo.preset("lab-20").fabric))
    >>> sorted(files)[:4]
    ['README.md', 'cn_guids', 'guid2lid', 'heddle-keep.path']
    """
    fabric, tables, policy, path_lanes = routed.fabric, routed.tables, routed.policy, 1
    lanes = check_lanes(routed.lanes)
    if tables.path_sl is not None and tables.path_sl.any():
        if fabric.traffic:
            raise RoutingError(
                "these tables are free of credit loops only with a service level for each path, so traffic classes "
                "cannot choose it; take an engine that needs one lane, or no traffic classes"
            )
        policy = _policy_of_paths(fabric, tables)
        path_lanes = len({tables.sl2vl[sl] for sl in np.unique(tables.path_sl).tolist()})
    lists = {
        "root_guids": format_guid_list((int(fabric.node_guid[s]), fabric.label(s)) for s in tree_tops(fabric).tolist()),
        "cn_guids": _guids(fabric, Role.COMPUTE),
        "io_guids": _guids(fabric, Role.STORAGE),
    }
    commented = {
        "opensm.conf": _conf(fabric, tables, lanes, directory, [name for name, text in lists.items() if text]),
        **lists,
        "partitions.conf": PARTITIONS,
        "qos-policy.conf": format_qos_policy(policy),
        "node-name-map": format_node_name_map(
            (guid, fabric.label(node)) for node, guid in enumerate(fabric.node_guid.tolist())
        ),
        **keeper_files(directory),
    }
    texts = {
        "guid2lid": format_guid2lid(
            (int(fabric.end_guid[end]), int(tables.lid[end]), 1 if end < fabric.n_switches else 1 << tables.lmc)
            for end in np.flatnonzero(tables.lid).tolist()
        ),
        "README.md": format_readme(routed, directory, CACHE, path_lanes),
        **{name: text and fabric.caveat_head + text for name, text in commented.items()},
    }
    return {"lfts": lfts_sections(fabric, tables), **{name: text.encode() for name, text in texts.items()}}


def _conf(fabric: Fabric, tables: RoutingTables, lanes: LanePlan, directory: str, lists: Sequence[str]) -> str:
    """Return the options; of the lists of GUIDs only those that are not empty, for `ftree` fails of an empty one."""
    options: dict[str, str | int | bool] = {
        "routing_engine": "file,no_fallback",
        "lfts_file": f"{directory}/lfts",
        "reassign_lids": False,
        "honor_guid2lid_file": True,
        "lmc": tables.lmc,
        **{f"{name.removesuffix('s')}_file": f"{directory}/{name}" for name in lists},
        "partition_config_file": f"{directory}/partitions.conf",
        "node_name_map_name": f"{directory}/node-name-map",
        "qos_policy_file": f"{directory}/qos-policy.conf",
    }
    options |= qos_options(lanes) if lanes.lanes > 1 else {"qos": False}
    return format_opensm_conf(
        options,
        f"Options of OpenSM for {fabric.name}, routed by {tables.maker}.\n"
        "Without no_fallback OpenSM would route by minhop, unasked, if it could not load the tables.\n"
        "Only the exact word TRUE is true.",
    )


def tree_tops(fabric: Fabric) -> NDArray[np.intp]:
    """Return the switches at the top of their tree, for engines that go up and down: no joint, and none above them."""
    switch = np.arange(fabric.n_switches)
    in_tree = (fabric.role[switch] != Role.JOINT) & (fabric.level[switch] > 0)
    low, high = fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]
    below = in_tree[low] & in_tree[high] & (fabric.level[low] < fabric.level[high])
    covered = np.zeros(fabric.n_switches, bool)
    covered[low[below]] = True
    # A leaf that lost all its uplinks has nothing above it either, and is no root for that.
    top = fabric.level[switch] >= min(2, int(fabric.level[switch].max(initial=0)))
    return np.flatnonzero(in_tree & top & ~covered)


def format_node_name_map(names: Iterable[tuple[int, str]]) -> str:
    """Return what OpenSM and the diagnostics call each node, for pairs of node GUID and name.

    A name keeps 63 printable ASCII characters; ``"`` and ``#`` would end it for the readers (``cl_nodenamemap.c``).
    """

    def clean(name: str) -> str:
        return "".join(c if " " <= c <= "~" and c not in '"#' else " " for c in name[:63])

    return "".join(f'0x{guid:016x} "{clean(name)}"\n' for guid, name in names)


def _guids(fabric: Fabric, role: Role) -> str:
    """Return the list of port GUIDs of the plugged-in adapters of nodes with a role, and their names."""
    ends = ends_of_roles(fabric, role)
    return format_guid_list((int(fabric.end_guid[end]), fabric.names[int(fabric.end_node[end])]) for end in ends)


def _policy_of_paths(fabric: Fabric, tables: RoutingTables) -> QosPolicy:
    """Return the policy that answers every query with the level that the tables need.

    Switches whose hosts have the same levels towards everything are one group of sources, with a rule for each level
    but 0: its destinations. Or conversely, where destinations that have the same levels from everywhere make
    fewer rules. So OpenSM looks for a port in one group a rule, and in a second one where that holds it. RoutingError
    when that takes more rules than `MAX_RULES`.
    """
    assert tables.path_sl is not None
    owner = lid_owners(tables)
    lids = np.flatnonzero(owner >= fabric.n_switches)
    ends = fabric.n_switches + np.flatnonzero(fabric.end_switch[fabric.n_switches :] >= 0)
    switches, home = np.unique(fabric.end_switch[ends], return_inverse=True)
    levels = tables.path_sl[np.ix_(switches, lids)]
    dests, guid = owner[lids], fabric.end_guid
    by_source = _alike([(ends[home == row], levels[row]) for row in range(len(switches))])
    by_dest = _alike([(dests[[column]], levels[:, column]) for column in range(len(lids))])
    counts = [sum(len(np.unique(row[row > 0])) for _, row in parts) for parts in (by_source, by_dest)]
    if min(counts) > MAX_RULES:
        raise RoutingError(
            f"{min(counts):,} rules would be needed to tell OpenSM the service level of each path, and it should not "
            f"have to try more than {MAX_RULES:,} for a query; take an engine that needs one lane"
        )
    sources_first = counts[0] <= counts[1]
    groups, rules = [], []
    for number, (members, row) in enumerate(by_source if sources_first else by_dest):
        here = f"part-{number}"
        groups.append(PortGroup(here, tuple(guid[members].tolist())))
        for sl in np.unique(row[row > 0]).tolist():
            there, others = f"{here}-level-{sl}", dests[row == sl] if sources_first else ends[row[home] == sl]
            groups.append(PortGroup(there, tuple(guid[others].tolist())))
            source, destination = (here, there) if sources_first else (there, here)
            rules.append(MatchRule(f"level-{sl}", (source,), (destination,)))
    used = np.unique(levels).tolist()
    return QosPolicy(tuple((f"level-{sl}", sl) for sl in used if sl), tuple(groups), tuple(rules))


Part = tuple[NDArray[np.integer], NDArray[np.uint8]]
"""End ports, and the levels of paths between them and each of some others."""


def _alike(parts: Sequence[Part]) -> list[Part]:
    """Put together the parts whose levels are the same, and leave out those on level 0 throughout."""
    found: dict[bytes, list[Part]] = {}
    for part in parts:
        found.setdefault(part[1].tobytes(), []).append(part)
    return [
        (np.concatenate([members for members, _ in same]), same[0][1]) for same in found.values() if same[0][1].any()
    ]
