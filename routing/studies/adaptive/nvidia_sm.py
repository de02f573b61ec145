"""Options of NVIDIA's subnet manager for adaptive routing, each with the public document that it comes from.

Its adaptive engines are not in the OpenSM of Linux distributions, so that none of this is loaded by our tests; its
static engine ``updn``, which goes up and down from the same roots, is. Options whose meaning is not documented stand in
comments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.opensm.files import DIRECTORY, tree_tops
from routing.proof import prove
from routing.routed import Routed
from routing.studies.adaptive.proof import AdaptiveProof, prove_adaptive
from routing.studies.adaptive.study import legal_tables, updown_tables
from routing.studies.adaptive.tables import AdaptiveTables
from topo.dumps.roles import format_guid_list
from topo.errors import plural
from topo.fabric import Role

SOURCES = {
    "routing_engine": "MLNXSM release notes 5.10: ar_updn is the default from then on; file loads forwarding tables",
    "root_guid_file": "InfiniBand Cluster Bring-up Procedure 1.0, Adaptive Routing: one GUID a line, recommended",
    "find_roots_color_algorithm": "MLNXSM release notes 5.10: finds roots by itself, TRUE by default",
    "lfts_file": "opensm(8): the tables that engine file loads",
    "ar_sl_mask": "UFM-SDN command reference 4.10, ar-sl-mask: 0x0000 to 0xffff, 0xffff by default. That bit n stands "
    "for level n is inferred",
}
"""Where each option comes from."""


def choose_roots(routed: Routed) -> tuple[NDArray[np.intp], AdaptiveProof]:
    """Return roots from which paths up and down lose fewest pairs between hosts, and the proof of their groups.

    The tops of the trees are tried first, then all joints between zones, for where these hang on leaves, tops cut the
    zones apart; then each joint alone, below which is all that is connected. Of those the one with the least load wins.

    Examples
    --------
    >>> import topo, routing
    >>> roots, proof = routing.studies.adaptive.choose_roots(routing.route(topo.preset("lab-20").fabric))
    >>> roots, proof.holds
    (array([2, 3]), True)
    """
    fabric = routed.fabric
    joints = np.flatnonzero(fabric.role[: fabric.n_switches] == Role.JOINT)
    found = []
    tops = tree_tops(fabric)
    for several in ([tops if len(tops) else np.arange(fabric.n_switches)], [joints], joints[:, None]):
        found += [
            (roots, prove_adaptive(fabric, updown_tables(fabric, routed.tables, roots)))
            for roots in several
            if len(roots)
        ]
        if any(proof.holds for _, proof in found):
            break
    return min(found, key=lambda one: (one[1].count("lost"), one[1].max_load))


def manager_groups(routed: Routed) -> tuple[AdaptiveTables, str]:
    """Return the groups that a manager such as ``ar_updn`` makes, and in words which.

    They are those of `choose_roots`, where these lose no pair; else those that the tables make legal.

    Raises
    ------
    RoutingError
        When neither are to be had, as `legal_tables`.

    Examples
    --------
    >>> import topo, routing
    >>> routing.studies.adaptive.manager_groups(routing.route(topo.preset("lab-20").fabric))[1]
    '2 roots'
    """
    roots, proof = choose_roots(routed)
    return (proof.tables, plural(len(roots), "root")) if proof.holds else (legal_tables(routed), "legal")


def nvidia_sm_files(routed: Routed) -> dict[str, str]:
    """Return ``opensm.conf`` and ``root_guids`` for adaptive routing by NVIDIA's subnet manager, by name.

    Where no roots connect all pairs by paths up and down, the options load the static tables, and say what is lost
    otherwise. Traffic classes that must not be spread, storage for instance, are kept off adaptive routing by their
    service level, in a comment: whether the manager reads the mask so is not documented.

    Parameters
    ----------
    routed : Routed
        With tables to load where adaptive routing cannot be had.

    Examples
    --------
    >>> import topo, routing
    >>> files = routing.studies.adaptive.nvidia_sm_files(routing.route(topo.preset("lab-20").fabric))
    >>> [line for line in files["opensm.conf"].splitlines() if line[0] != "#"]
    ['routing_engine ar_updn', 'root_guid_file /etc/opensm/root_guids', 'find_roots_color_algorithm FALSE']
    """
    fabric = routed.fabric
    roots, proof = choose_roots(routed)
    static_load = prove(routed).max_load
    comment = [
        f"Adaptive routing of {fabric.name} by NVIDIA's subnet manager. Not loaded by any test: see the sources.",
        f"Groups of all ports up towards {plural(len(roots), 'root')} and then down, whatever port a switch takes: "
        f"{proof.answer}, {proof.pairs:,} pairs, {proof.count('lost'):,} lost, "
        f"{proof.count('loops'):,} channels in credit loops; {proof.max_load:,.0f} pairs over the fullest link, split "
        f"evenly, and {static_load:,} by the static tables.",
        "That the manager keeps to up and down is inferred from the name: prove what it made with",
        "plan verify FABRIC --adaptive ibdiagnet2.far",
    ]
    if proof.holds and proof.max_load > static_load:
        comment.append(
            f"All-to-alls of all hosts take {proof.max_load / static_load:.1f} times as long as by the static tables; "
            "random pairs may gain: compare both with plan simulate --adaptive before loading."
        )
    if proof.holds:
        options = {
            "routing_engine": "ar_updn",
            "root_guid_file": f"{DIRECTORY}/root_guids",
            "find_roots_color_algorithm": "FALSE",
        }
    else:
        comment.append("So the static tables are loaded, which reach all that cables connect.")
        options = {"routing_engine": "file", "lfts_file": f"{DIRECTORY}/lfts"}
    lines = [f"# {line}" for line in comment]
    for key, value in options.items():
        lines += [f"# {SOURCES[key]}", f"{key} {value}"]
    if static := {one.name: one.sl for one in fabric.traffic if Role.STORAGE in one.roles}:
        mask = 0xFFFF & ~sum(1 << level for level in static.values())
        kept = ", ".join(f"{name} (level {level})" for name, level in static.items())
        lines += [f"# Leaves static: {kept}. {SOURCES['ar_sl_mask']}.", f"# ar_sl_mask 0x{mask:04x}"]
    named = ((int(fabric.node_guid[root]), fabric.label(root)) for root in roots.tolist())
    files = {"opensm.conf": "\n".join(lines) + "\n", "root_guids": format_guid_list(named)}
    return {name: fabric.caveat_head + text for name, text in files.items()}
