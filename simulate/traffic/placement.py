"""Placement: end ports by name, and which of them each rank of a job runs on."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topo.errors import HeddleError, did_you_mean
from topo.fabric import Fabric
from topo.ports import rail_numbers

GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")


def leaf_of(fabric: Fabric, ends: ArrayLike) -> NDArray[np.int32]:
    """Return the switch that each end port hangs on.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> simulate.traffic.leaf_of(fabric, fabric.ends(role="compute")[6:10]).tolist()
    [0, 0, 1, 1]
    """
    return fabric.end_switch[np.asarray(ends, np.int64)]


def zone_of(fabric: Fabric, ends: ArrayLike) -> NDArray[np.int16]:
    """Return the zone of each end port's node, -1 where it belongs to none.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> simulate.traffic.zone_of(fabric, fabric.ends(role="compute")[:3]).tolist()
    [0, 0, 0]
    """
    return fabric.zone[fabric.end_node[np.asarray(ends, np.int64)]]


GROUPS: dict[str, Callable[[Fabric, ArrayLike], NDArray[np.integer]]] = {"leaf": leaf_of, "zone": zone_of}
"""Groups of end ports, by name."""


def by_leaf(fabric: Fabric, ends: ArrayLike) -> NDArray[np.int32]:
    """Ranks leaf after leaf, so that neighbours in a ring hang on one leaf wherever they can."""
    end = np.asarray(ends, np.int32)
    return end[np.argsort(leaf_of(fabric, end), kind="stable")]


def by_zone(fabric: Fabric, ends: ArrayLike) -> NDArray[np.int32]:
    """Ranks zone after zone, and leaf after leaf within: a ring crosses between two zones once each way.

    A double binary tree of these ranks still crosses up to eight times; the algorithm ``zone-tree`` crosses once.
    """
    end = np.asarray(ends, np.int32)
    return end[np.lexsort((leaf_of(fabric, end), zone_of(fabric, end)))]


def halving_doubling(fabric: Fabric, ends: ArrayLike) -> NDArray[np.int32]:
    """Ranks on a BiGraph such that no two partners of a halving-doubling step share a channel: EFLOPS' HDRM.

    A BiGraph has two sides of s switches, each switch linked to all of the other side and holding m of the hosts, s and
    m powers of two, m at most s. Ranks with an even number of ones stand on one side, the others on the other; so
    partners, who differ in one bit, always cross, over the one link between their switches. Of the remaining bits (all
    but the top one), the first side takes the high ones for the switch, the second side the low ones. Hosts of one
    switch agree in the former, so they differ in the latter, and so do their partners: they stand on different
    switches.

    Dong et al., "EFLOPS: algorithm and system co-design for a high performance distributed training platform",
    HPCA 2020, state the property; the construction in bits is Heddle's own.
    """
    end = np.asarray(ends, np.int32)
    switches, count = np.unique(leaf_of(fabric, end), return_counts=True)
    side = _side(fabric, switches)
    first, second = switches[~side], switches[side]
    s, m = len(first), int(count[0]) if len(count) else 0
    bounds = sorted({int(count.min(initial=m)), int(count.max(initial=m))})
    if s != len(second) or np.any(count != m) or s & (s - 1) or m & (m - 1) or not 1 <= m <= s:
        raise HeddleError(
            f"the halving-doubling mapping takes two sides of s switches with m ranks each, s and m powers of two and "
            f"m at most s; found {s} and {len(second)} switches with {'to '.join(f'{k} ' for k in bounds)}ranks"
        )
    rank = np.arange(len(end))
    word = rank & (s * m - 1)
    odd = np.array([value.bit_count() & 1 for value in rank.tolist()], bool)
    switch = np.where(odd, second[word % s], first[word // m])
    seat = np.where(odd, word // s, word % m)
    members = by_leaf(fabric, end).reshape(-1, m)
    return np.asarray(members[np.searchsorted(switches, switch), seat], np.int32)


def _side(fabric: Fabric, switches: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return the side of each switch, such that each is linked to all of the other side and none of its own."""
    if not len(switches):
        return np.zeros(0, np.bool_)
    place = np.full(fabric.n_nodes, -1)
    place[switches] = np.arange(len(switches))
    near, far = place[fabric.port_node[fabric.inner]], place[fabric.peer_node[fabric.inner]]
    both = (near >= 0) & (far >= 0)
    linked = np.zeros((len(switches), len(switches)), bool)
    linked[near[both], far[both]] = True
    side: NDArray[np.bool_] = linked[0]
    odd = (linked != (side[:, None] != side)).any(axis=1)
    if odd.any():
        raise HeddleError(
            f"the halving-doubling mapping takes a BiGraph, two sides of switches with every link between them; "
            f"{fabric.label(int(switches[odd][0]))} is not linked so"
        )
    return side


MAPPINGS: dict[str, Callable[[Fabric, ArrayLike, np.random.Generator], NDArray[np.int32]]] = {
    "as-placed": lambda fabric, ends, rng: np.asarray(ends, np.int32),
    "by-leaf": lambda fabric, ends, rng: by_leaf(fabric, ends),
    "by-zone": lambda fabric, ends, rng: by_zone(fabric, ends),
    "halving-doubling": lambda fabric, ends, rng: halving_doubling(fabric, ends),
    "random": lambda fabric, ends, rng: rng.permutation(np.asarray(ends, np.int32)),
}
"""Mappings by the name that a workload gives them: ranks in the order of the nodes given, and in others. Random order
is what a scheduler that ignores the network does at worst."""


def map_ranks(fabric: Fabric, hosts: ArrayLike, mapping: str = "by-zone", seed: int = 0) -> NDArray[np.int32]:
    """Return end ports in another order: rank r of what is played among them runs on the r-th.

    Parameters
    ----------
    mapping
        ``as-placed``, ``by-leaf``, ``by-zone``, ``halving-doubling`` (on a BiGraph) or ``random``.

    Returns
    -------
    (n,) int32

    Raises
    ------
    HeddleError
        When there is no such mapping, or the end ports do not fit it.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> moved = simulate.traffic.map_ranks(fabric, hosts[::-1], "by-leaf")
    >>> bool((moved == simulate.traffic.map_ranks(fabric, hosts)).all())
    False
    """
    if mapping not in MAPPINGS:
        raise HeddleError(f"found the mapping {mapping!r}; expected one of {', '.join(MAPPINGS)}")
    return MAPPINGS[mapping](fabric, hosts, np.random.default_rng(seed))


def rails_of_hosts(fabric: Fabric, *, unplugged: bool = False) -> dict[int, NDArray[np.int32]]:
    """Return the adapter ports of each host, rail after rail: ``mlx5_2`` before ``mlx5_10``.

    Parameters
    ----------
    unplugged : bool
        Whether to return those without a link too, as after the failure of a leaf.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("dgx-b200-superpod").fabric
    >>> rails = simulate.traffic.rails_of_hosts(fabric)
    >>> [fabric.names[fabric.end_node[end]] for end in rails[0][:3]]
    ['gpu000 mlx5_0', 'gpu000 mlx5_1', 'gpu000 mlx5_2']
    """
    rail, host = rail_numbers(fabric), fabric.host[fabric.end_node]
    ends = np.flatnonzero((rail >= 0) & (unplugged | (fabric.end_switch >= 0)))
    by_host: dict[int, list[int]] = {number: [] for number in host[ends].tolist()}
    for end in ends[np.argsort(rail[ends], kind="stable")].tolist():
        by_host[int(host[end])].append(end)
    return {number: np.array(rails, np.int32) for number, rails in by_host.items()}


class EndPortNames:
    """The adapter ports of a fabric by name.

    A name is a NodeDescription (``gpu0001 mlx5_0``), a host (``gpu0001``), either with a port number (``gpu0001
    mlx5_0:2``), or a port GUID (``0x98039b0300c1f2aa``), which is always unique.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._by_name: dict[str, list[int]] = {}
        self._by_guid: dict[int, int] = {}
        plugged = np.flatnonzero(fabric.end_switch[fabric.n_switches :] >= 0) + fabric.n_switches
        ports = plugged - fabric.n_switches + fabric.first_adapter_port
        number, guid = fabric.port_number[ports].tolist(), fabric.end_guid[plugged].tolist()
        for at, (end, node) in enumerate(zip(plugged.tolist(), fabric.end_node[plugged].tolist(), strict=True)):
            host = int(fabric.host[node])
            names = {fabric.names[node]} | ({fabric.hosts[host]} if host >= 0 else set())
            for name in names:
                self._by_name.setdefault(name, []).append(end)
                self._by_name.setdefault(f"{name}:{number[at]}", []).append(end)
            self._by_guid[guid[at]] = end

    def find(self, name: str) -> list[int]:
        """Return the end ports that a name fits: one when it is good, none or several when it is not."""
        found = self._by_name.get(name, [])
        if not found and GUID.fullmatch(name):
            end = self._by_guid.get(int(name, 16))
            return [] if end is None else [end]
        return found

    def advice(self, name: str) -> tuple[str, str]:
        """Return what was expected in place of a name that `find` does not fit to one end port, and a hint."""
        found = self.find(name)
        if found:
            shown = ", ".join(f'"{self.unique_name(end)}"' for end in found[:3])
            return "the name of one adapter port", f"{len(found)} ports fit: {shown}{', ...' if found[3:] else ''}."
        # Likeness is slow to tell: of a large fabric, only look at names that begin alike.
        candidates = [known for known in self._by_name if known[:3] == name[:3]] or [*self._by_name]
        return "an adapter port of this fabric, plugged in", did_you_mean(name, candidates[:5000])

    def unique_name(self, end: int) -> str:
        """Return a name that `find` fits to this end port alone, the shortest there is."""
        fabric = self.fabric
        name = fabric.names[int(fabric.end_node[end])]
        port = end - fabric.n_switches + fabric.first_adapter_port
        for text in (name, f"{name}:{int(fabric.port_number[port])}"):
            if self._by_name.get(text) == [end]:
                return text
        return f"0x{int(fabric.end_guid[end]):016x}"
