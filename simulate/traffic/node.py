"""The inside of servers: PCIe, host memory and NVLink as resources of the same network as links.

A server is what the catalog says of its model (`topo.catalog.models.NodeModel`), each figure with its source. Each GPU
has PCIe lanes of its own. Below them come PCIe switches, each with an equal part of the GPUs and adapters, or root
ports, of which some GPUs may share one. There is one pool of host memory. NVLink joins all GPUs by way of NVSwitches,
or neighbours by bridges. Adapter r of every server is rail r.

::

    GPU 0   GPU 1        GPU 6   GPU 7    --- NVLink
      |       |            |       |
      +---+---+    ...     +---+---+      PCIe switches, or root ports
      |   |   |            |   |   |
     NIC  |  NIC          NIC  |  NIC     --- fabric, rails 0 to 7
          +--------------------+          host memory, processors

Between two servers, a GPU sends through the adapter of the rail that is nearest to the receiver. Where this is not near
the sender and NVLink joins the GPUs, the bytes go over NVLink to the GPU next to that adapter first, so that they stay
on their rail: NCCL calls it PXN (Agostini, "Doubling all2all performance with NVIDIA Collective Communication Library
2.12", NVIDIA 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.flows import Flows
from simulate.traffic.latency import Way
from simulate.traffic.network import GBYTE, Devices
from topo.catalog.models import NodeModel
from topo.errors import HeddleError
from topo.fabric import Fabric, frozen
from topo.table import Brief


class _Block(IntEnum):
    """Blocks of devices of a server, in their order."""

    OVER_HOST = 0
    BEHIND_PORT = 1
    OVER_NVLINK = 2
    AT_ADAPTER = 3
    """Every GPU at every adapter."""
    HOST = 4
    """The processor, and host memory once for each number of memory operations."""


class _Device(NamedTuple):
    """A place where flows begin and end: the resources of its server that it sends and receives through."""

    send: dict[int, float]
    """Resource of the server: bytes of it that each byte sent takes."""
    receive: dict[int, float]


@dataclass(frozen=True, eq=False)
class Servers(Brief):
    """H servers of one model with G GPUs and R adapters each, as `devices` of a network.

    Flows name a device by an end number behind those of the fabric's end ports. A GPU has several devices, one for each
    path in and out, since a byte takes different resources on each.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.traffic.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(servers), servers.gpus, servers.rails, len(servers.devices.end_port)
    (2, 8, 1, 66)
    """

    model: NodeModel
    fabric: Fabric
    ends: NDArray[np.int32]
    """(H, R) end port of each server's adapters, rail after rail; given as (H,) where there is one. An adapter with
    several ports is on as many rails, one after another."""
    operations: tuple[float, ...] = ()
    """Memory operations per byte for which there is a device of the host memory, see `memory`."""
    nvlink: bool | None = None
    """Whether bridges of NVLink are plugged in; what is no bridge always is."""
    devices: Devices = field(init=False)
    """To give to `simulate.traffic.network.Network.of`."""

    def __post_init__(self) -> None:
        ends = np.asarray(self.ends, np.int32)
        object.__setattr__(self, "ends", frozen(ends[:, None] if ends.ndim == 1 else ends))
        object.__setattr__(self, "operations", tuple(dict.fromkeys(self.operations)))
        model = self.model
        if model.gpus < 1:
            raise HeddleError(f"{model.name} has no GPU; only the inside of servers with GPUs is modelled")
        if self.nvlink is False and model.nvswitches is not None:
            raise HeddleError(f"the links between the GPUs of {model.name} are fixed; expected a server with bridges")
        if self.gpus % self.bridged:
            raise HeddleError(f"{self.gpus} GPUs of {model.name} cannot be bridged {self.bridged} by {self.bridged}")
        first, shared = model.first_gpu_on_shared_root_port, model.gpus_on_shared_root_port
        if (first is None) != (shared is None) or (first or 0) + (shared or 0) > self.gpus:
            raise HeddleError(
                f"{model.name} has {shared} GPUs on a shared root port, the first of them {first}; expected both, "
                f"or none, within its {self.gpus} GPUs"
            )
        if model.pcie_switches and (self.gpus % model.pcie_switches or shared):
            raise HeddleError(
                f"{model.name} has {self.gpus} GPUs below {model.pcie_switches} PCIe switches, and "
                f"{shared or 0} on a shared root port; expected an equal part below each, or root ports alone"
            )
        if len(self) == 0:
            raise HeddleError("found no servers; expected the adapters of at least one")
        inner = (self.ends < self.fabric.n_switches) | (self.ends >= self.fabric.n_end_ports)
        if inner.any() or len(np.unique(self.ends)) < self.ends.size:
            raise HeddleError(
                "the adapters of servers must be different end ports of hosts, "
                f"{self.fabric.n_switches} to {self.fabric.n_end_ports - 1}; found {self.ends.ravel().tolist()[:10]}"
            )
        if not all(ports_of_adapters(model, self.fabric, row) for row in self.ends):
            raise HeddleError(
                f"found {self.rails} adapters of each server in the fabric; {model.name} has {model.adapters}, and "
                f"what its GPUs send goes through all of them"
            )
        if not len(self.working_rails):
            raise HeddleError("found no rail on which every server has a link; take fewer servers into the job")
        one = self._inside()
        hosts = [self.fabric.hosts[host] for host in self.fabric.host[self.fabric.end_node[self.ends[:, 0]]].tolist()]
        all_devices = replace(
            join_devices([one] * len(self)),
            end_port=self.ends[:, one.end_port].ravel(),
            names=tuple(f"{host} {name}" for host in hosts for name in one.names),
        )
        object.__setattr__(self, "devices", all_devices)

    def _brief(self) -> str:
        return f"{len(self):,} x {self.model.name}"

    @property
    def tuned_devices(self) -> Devices:
        """The devices for `simulate.traffic.nccl_collective`, whose messages take no latency beside the tuner's."""
        return replace(self.devices, way=np.full(len(self.devices.way), Way.TUNED, np.uint8))

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def gpus(self) -> int:
        """GPUs of each server."""
        return self.model.gpus

    @property
    def rails(self) -> int:
        """Ports of the adapters of each server."""
        return int(self.ends.shape[1])

    @property
    def working_rails(self) -> NDArray[np.int64]:
        """Rails on which every server has a link; the others have failed, and carry nothing.

        NCCL passes over ports that are not active (``src/transport/net_ib``), and has as many channels on each server
        as on the one with the fewest. It is taken to leave the same rails out everywhere.
        """
        return np.flatnonzero((self.fabric.end_switch[self.ends] >= 0).all(axis=0))

    @property
    def bridged(self) -> int:
        """GPUs that NVLink connects with one another, 1 without."""
        return (self.model.nvlink_gpus or 1) if self.nvlink or self.model.nvswitches is not None else 1

    @property
    def copiers(self) -> NDArray[np.int64]:
        """(groups,) of each group of bridged GPUs the one that copies for all: one with a root port of its own, if any.

        The paper on Fire-Flyer AI-HPC (section IV-C) has bridged GPUs add up before they copy, and does not say which
        copies; its artifact bridges GPU 5 and GPU 6, which share a root port, to others (4 to 6, and 5 to 7).
        """
        port = self._port_of_gpu
        shared = (port[:, None] == port).sum(axis=1).reshape(-1, self.bridged) > 1
        first: NDArray[np.int64] = np.arange(0, self.gpus, self.bridged) + shared.argmin(axis=1)
        return first

    @property
    def gpu_over_host(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over PCIe, to and from host memory and GPUs behind other root ports or PCIe switches."""
        return self._numbers(_Block.OVER_HOST)

    @property
    def gpu_behind_port(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over PCIe, to and from GPUs behind the same root port or PCIe switch."""
        return self._numbers(_Block.BEHIND_PORT)

    @property
    def gpu_over_nvlink(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over NVLink, to and from those they are joined to."""
        return self._numbers(_Block.OVER_NVLINK)

    @property
    def gpu_at_adapter(self) -> NDArray[np.int32]:
        """(H, G, R) the GPUs to and from each adapter without passing through host memory."""
        return self._numbers(_Block.AT_ADAPTER).reshape(len(self), self.gpus, self.rails)

    @property
    def processor(self) -> NDArray[np.int32]:
        """(H,) the processors, which take nothing of their own: a sum is as fast as the memory operations it needs."""
        return self._numbers(_Block.HOST)[:, 0]

    def memory(self, operations: float) -> NDArray[np.int32]:
        """(H,) host memory, where each byte takes this many reads and writes together, one of `operations`."""
        if operations not in self.operations:
            raise HeddleError(
                f"found no host memory of {operations} operations a byte; expected one of {self.operations}"
            )
        return self._numbers(_Block.HOST)[:, 1 + self.operations.index(operations)]

    def between(
        self, src: ArrayLike, dst: ArrayLike, rail: ArrayLike | None = None, *, turn: ArrayLike = 0, pxn: bool = True
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the devices of (M,) flows straight from GPU to GPU, which are numbered ``server * G + gpu``.

        They go over NVLink where it joins the GPUs, over PCIe within a server, else over the adapters.

        Parameters
        ----------
        rail : (M,) or one
            Rail on which flows between servers arrive; for each one that is next to its receiver when left out.
        turn : (M,)
            Which of the rails next to a GPU, where there are several.
        pxn
            Whether they leave on that rail too, if need be over NVLink to a GPU that is next to it. Without it, or
            where NVLink leads to no such GPU, they leave by the adapter nearest to the sender.
        """
        source, target = np.asarray(src), np.asarray(dst)
        port = self._port_of_gpu
        bridge = np.arange(self.gpus) // self.bridged
        from_gpu, to_gpu = source % self.gpus, target % self.gpus
        inside = source // self.gpus == target // self.gpus
        own = self._rails_of_gpus
        turns = np.arange(max(map(len, own)))  # a GPU with fewer rails than others begins with its first again
        rails = np.array([[at[number % len(at)] for number in turns] for at in own])
        turn = np.broadcast_to(turn, source.shape)
        arrives = rails[to_gpu, turn] if rail is None else np.broadcast_to(rail, to_gpu.shape)
        reached = np.array([[self._reaches(gpu, at) for at in range(self.rails)] for gpu in range(self.gpus)])
        leaves = np.where(reached[from_gpu, arrives] & pxn, arrives, rails[from_gpu, turn])
        inner = [
            (inside & (bridge[from_gpu] == bridge[to_gpu]), self.gpu_over_nvlink),
            (inside & (port[from_gpu] == port[to_gpu]), self.gpu_behind_port),
            (inside, self.gpu_over_host),
        ]
        conditions = [condition for condition, _ in inner]

        def devices(rank: NDArray[Any], rails: NDArray[Any]) -> NDArray[np.int32]:
            numbers = [block.ravel()[rank] for _, block in inner]
            outer = self.gpu_at_adapter.reshape(-1, self.rails)[rank, rails]
            return np.asarray(np.select(conditions, numbers, outer), np.int32)

        return devices(source, leaves), devices(target, arrives)

    def between_gpus(self, flows: Flows, *, pxn: bool = True) -> Flows:
        """Return flows between ranks as flows between the devices of GPUs: rank ``s G + g`` is GPU g of server s.

        A flow to another server is split over the working rails next to its receiver: adapters, or ports of one
        adapter, that belong to the same GPU share its traffic. `pxn` is as of `between`.
        """
        most = int(max(flows.src.max(initial=-1), flows.dst.max(initial=-1)))
        if most >= len(self) * self.gpus:
            raise HeddleError(f"found rank {most}; expected ranks below {len(self) * self.gpus}, the GPUs of {self}")
        shares = np.array([len(rails) for rails in self._rails_of_gpus])
        outside = flows.src // self.gpus != flows.dst // self.gpus
        flows, turn = flows.split(np.where(outside, shares[flows.dst % self.gpus], 1))
        src, dst = self.between(flows.src, flows.dst, turn=turn, pxn=pxn)
        return replace(flows, src=src, dst=dst)

    def gpu_of(self, rail: ArrayLike) -> NDArray[np.int64]:
        """Return the first GPU that is next to the adapter of each rail."""
        return np.asarray(rail, np.int64) * self.gpus // self.rails

    @cached_property
    def _rails_of_gpus(self) -> list[list[int]]:
        """Of each GPU the working rails that it is next to; where none works, one below its PCIe switch, or near."""
        working: list[int] = self.working_rails.tolist()
        found = []
        for gpu in range(self.gpus):
            first = gpu * self.rails // self.gpus
            own = [at for at in working if at == first or (self.rails > self.gpus and self.gpu_of(at) == gpu)]
            found.append(own or [min(working, key=lambda at: (not self._below_one_switch(gpu, at), abs(at - first)))])
        return found

    @property
    def rail_of_gpu(self) -> NDArray[np.int64]:
        """(G,) the working rail next to each GPU, the first of several; one that is near where none works."""
        return np.array([rails[0] for rails in self._rails_of_gpus], np.int64)

    @property
    def end_of_gpu(self) -> NDArray[np.int32]:
        """(H G,) the end port of the adapter next to each GPU, server after server."""
        return frozen(self.ends[:, self.rail_of_gpu].ravel())

    def gpus_at(self, ends: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the ranks of the GPUs of those servers that have end ports, in their order."""
        server = np.empty(self.fabric.n_end_ports, np.int64)
        server[self.ends.T] = np.arange(len(self))
        first = np.array([*dict.fromkeys(server[ends].tolist())], np.int64)
        ranks: NDArray[np.int64] = (first[:, None] * self.gpus + np.arange(self.gpus)).ravel()
        return ranks

    def _is_near(self, gpu: int, rail: int) -> bool:
        """Say whether a GPU and an adapter share a place in order: GPU 3 and adapter 3, where there are as many."""
        return rail * self.gpus < (gpu + 1) * self.rails and gpu * self.rails < (rail + 1) * self.gpus

    def _below_one_switch(self, gpu: int, rail: int) -> bool:
        switches = self.model.pcie_switches or 0
        return switches > 0 and gpu * switches // self.gpus == rail * switches // self.rails

    def _relayed(self, gpu: int, rail: int) -> bool:
        """Say whether NVLink leads from a GPU to the one next to an adapter."""
        return gpu // self.bridged == int(self.gpu_of(rail)) // self.bridged

    def _reaches(self, gpu: int, rail: int) -> bool:
        """Say whether a GPU reaches an adapter without crossing the processor."""
        return self._is_near(gpu, rail) or self._relayed(gpu, rail) or self._below_one_switch(gpu, rail)

    @property
    def _port_of_gpu(self) -> NDArray[np.int64]:
        """(G,) PCIe switch or root port that a GPU is behind: its own, or that of the first GPU on a shared one."""
        port = np.arange(self.gpus)
        if self.model.pcie_switches:
            return port * self.model.pcie_switches // self.gpus
        if (first := self.model.first_gpu_on_shared_root_port) is not None:
            port[first : first + (self.model.gpus_on_shared_root_port or 1)] = first
        return port

    def _numbers(self, block: _Block) -> NDArray[np.int32]:
        """(H, n) end numbers of the n devices of one block."""
        sizes = [self.gpus, self.gpus, self.gpus, self.gpus * self.rails, 1 + len(self.operations)]
        server = np.arange(len(self))[:, None] * sum(sizes)
        inside = sum(sizes[:block]) + np.arange(sizes[block])
        numbers: NDArray[np.int32] = (self.fabric.n_end_ports + server + inside).astype(np.int32)
        return numbers

    def _inside(self) -> Devices:
        """Return the devices of one server in the order of their blocks: their rails as end ports, and bare names."""
        model, gpus, rails = self.model, range(self.gpus), range(self.rails)
        capacity: list[float] = []
        names: list[str] = []

        def resource(name: str, figure: str, share: float = 1.0) -> dict[int, float]:
            value = getattr(model, figure)
            if value is None:
                raise HeddleError(
                    f"The catalog has no {figure} of {model.name}, which its inside needs: add it to a nodes.csv of "
                    "your own"
                )
            capacity.append(value * share * GBYTE)
            names.append(name)
            return {len(names) - 1: 1.0}

        def both_ways(name: str, figure: str, share: float = 1.0) -> _Device:
            return _Device(*(resource(name.format(*way), figure, share) for way in (("from", "to"), ("to", "from"))))

        nothing = _Device({}, {})
        lanes = [both_ways(f"PCIe {{0}} GPU {gpu}", "gpu_host_gbyte_per_s") for gpu in gpus]
        # The way from what hangs below a PCIe switch or root port to the rest of the server.
        from_gpu, from_rail = [nothing] * self.gpus, [nothing] * self.rails
        crosses = bool(self.operations) or self.bridged < self.gpus  # else NVLink carries all that would go there
        if model.pcie_switches and crosses:
            names_up = [f"PCIe switch {at} {{1}} host" for at in range(model.pcie_switches)]
            up = [both_ways(name, "pcie_switch_gbyte_per_s") for name in names_up]
            from_gpu = [up[port] for port in self._port_of_gpu]
            from_rail = [_Device(*up[rail * model.pcie_switches // self.rails][::-1]) for rail in rails]
        elif model.gpus_on_shared_root_port:
            # Both directions share it: the paper on Fire-Flyer AI-HPC (section IV-D3) gives it 37.5 GB/s to the
            # processor's bus, with two GPUs that send in one direction already at 37, and less when both are used.
            port = resource("shared root port", "root_port_gbyte_per_s")
            ports = self._port_of_gpu.tolist()
            from_gpu = [_Device(port, port) if ports.count(own) > 1 else nothing for own in ports]
        direct = [nothing] * self.rails
        if model.gpu_adapter_gbyte_per_s is not None:
            adapters = [f"adapter {at}" if model.adapters > 1 else "adapter" for at in range(model.adapters)]
            ways = [(f"GPUs straight to {adapter}", f"{adapter} straight to GPUs") for adapter in adapters]
            paths = [_Device(*(resource(name, "gpu_adapter_gbyte_per_s") for name in way)) for way in ways]
            direct = [paths[rail * model.adapters // self.rails] for rail in rails]
        joined = [nothing] * self.gpus
        if self.bridged > 1 and model.nvlink_used_gbyte_per_s is not None:
            joined = [both_ways(f"NVLink {{0}} GPU {gpu}", "nvlink_used_gbyte_per_s") for gpu in gpus]
        elif self.bridged > 1:  # vendors count both directions together
            joined = [both_ways(f"NVLink {{0}} GPU {gpu}", "nvlink_gbyte_per_s", 0.5) for gpu in gpus]
        memory = resource("host memory", "memory_gbyte_per_s") if self.operations else {}

        def at_adapter(gpu: int, rail: int) -> _Device:
            if not self._is_near(gpu, rail) and self._relayed(gpu, rail):
                relay = int(self.gpu_of(rail))
                beyond, hop = at_adapter(relay, rail), joined[relay]
                return _Device(
                    joined[gpu].send | hop.receive | beyond.send, beyond.receive | hop.send | joined[gpu].receive
                )
            parts = [lanes[gpu], direct[rail]]
            if not self._below_one_switch(gpu, rail):
                parts[1:1] = [from_gpu[gpu], from_rail[rail]]
            return _union(*parts)

        devices = [_union(lane, share) for lane, share in zip(lanes, from_gpu, strict=True)]
        devices += lanes + joined
        devices += [at_adapter(gpu, rail) for gpu in gpus for rail in rails]
        devices += [nothing]
        devices += [_Device(used, used) for used in (dict.fromkeys(memory, count) for count in self.operations)]
        rail_of = np.full(len(devices), self.working_rails[0], np.int32)
        rail_of[3 * self.gpus : (3 + self.rails) * self.gpus] = np.tile(rails, self.gpus)
        columns: dict[str, Any] = {}
        for direction in _Device._fields:
            rows: list[dict[int, float]] = [getattr(device, direction) for device in devices]
            columns[f"{direction}_offset"] = np.cumsum([0, *map(len, rows)]).astype(np.int64)
            columns[f"{direction}_resource"] = np.array([resource for row in rows for resource in row], np.int32)
            columns[f"{direction}_use"] = np.array([use for row in rows for use in row.values()], np.float64)
        way = [Way.PCIE] * (2 * self.gpus) + [Way.NVLINK] * self.gpus + [Way.ADAPTER] * (self.gpus * self.rails)
        way += [Way.MEMORY] * (len(devices) - len(way))
        return Devices(rail_of, np.array(capacity), tuple(names), **columns, way=np.array(way, np.uint8))


def ports_of_adapters(model: NodeModel, fabric: Fabric, ends: NDArray[np.int32]) -> int:
    """Return how many ports each adapter of a server has in a fabric, 0 where these are not the server's adapters.

    ``ends`` are (R,) end ports of the server, adapter after adapter.
    """
    if not model.adapters or len(ends) % model.adapters:
        return 0
    node = fabric.end_node[ends].reshape(model.adapters, -1)
    apart = len(np.unique(node)) == model.adapters and bool((node == node[:, :1]).all())
    return node.shape[1] if apart or node.shape[1] == 1 else 0


def _union(*parts: _Device) -> _Device:
    send: dict[int, float] = {}
    receive: dict[int, float] = {}
    for part in parts:
        send, receive = send | part.send, receive | part.receive
    return _Device(send, receive)


def join_devices(parts: Sequence[Devices]) -> Devices:
    """Return several sets of devices as one: those of a part are numbered behind those before it."""
    columns: dict[str, Any] = {}
    before = np.cumsum([0, *(len(part.capacity_bytes_s) for part in parts[:-1])])
    for direction in ("send", "receive"):
        lengths = np.concatenate([np.diff(getattr(part, f"{direction}_offset")) for part in parts])
        columns[f"{direction}_offset"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        resources = [getattr(part, f"{direction}_resource") + shift for part, shift in zip(parts, before, strict=True)]
        columns[f"{direction}_resource"] = np.concatenate(resources).astype(np.int32)
        columns[f"{direction}_use"] = np.concatenate([getattr(part, f"{direction}_use") for part in parts])
    return Devices(
        end_port=np.concatenate([part.end_port for part in parts]),
        capacity_bytes_s=np.concatenate([part.capacity_bytes_s for part in parts]),
        names=tuple(name for part in parts for name in part.names),
        way=np.concatenate([part.way for part in parts]),
        **columns,
    )
