"""The inside of servers: PCIe, host memory and NVLink as resources of the same network as links.

A server looks as in section III of the paper on Fire-Flyer AI-HPC (An et al., SC'24, arXiv 2408.14158): each GPU has
PCIe lanes of its own, some GPUs share a root port, and there are one adapter, one pool of host memory, and bridges of
NVLink between neighbours. The figures are those of the catalog (`topo.hardware.models.NodeModel`), each with its
source.

::

    GPU 0 ... GPU 4   GPU 5  GPU 6   GPU 7    adapter --- fabric
      |         |       +--+---+       |         |
      |         |      root port       |         |
      +---------+----------+-----------+---------+--- host memory, processors
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.network import Devices
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.flows import Flows
from topo.errors import HeddleError
from topo.fabric import Fabric, frozen
from topo.hardware.models import NodeModel

GBYTE = 1e9
GIBYTE = 2.0**30


class _Block(IntEnum):
    """Blocks of devices of a server, in their order."""

    OVER_PCIE = 0
    BEHIND_PORT = 1
    AT_ADAPTER = 2
    OVER_NVLINK = 3
    HOST = 4
    """The processor, and host memory once for each number of memory operations."""


class _Device(NamedTuple):
    """A place where flows begin and end: the resources of its server that it sends and receives through."""

    send: dict[int, float]
    """Resource of the server: bytes of it that each byte sent takes."""
    receive: dict[int, float]


@dataclass(frozen=True, eq=False)
class Servers:
    """H servers of one model with G GPUs each, as `devices` of a network.

    Flows name a device by an end number behind those of the fabric's end ports. A GPU has several devices, one for each
    path in and out, since a byte takes different resources on each.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(servers), servers.gpus, len(servers.devices.end_port)
    (2, 8, 66)
    """

    model: NodeModel
    fabric: Fabric
    ends: NDArray[np.int32]
    """(H,) end port of each server's adapter."""
    operations: tuple[float, ...] = ()
    """Memory operations per byte for which there is a device of the host memory, see `memory`."""
    nvlink: bool = False
    """Whether bridges of NVLink are plugged in."""
    devices: Devices = field(init=False)
    """To give to `simulate.network.Network.of`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", frozen(np.asarray(self.ends, np.int32)))
        object.__setattr__(self, "operations", tuple(dict.fromkeys(self.operations)))
        if self.model.gpus < 1:
            raise HeddleError(f"{self.model.name} has no GPU; only servers with GPUs can be looked into")
        if self.gpus % self.bridged:
            raise HeddleError(
                f"{self.gpus} GPUs of {self.model.name} cannot be bridged {self.bridged} by {self.bridged}"
            )
        first, shared = self.model.first_gpu_on_shared_root_port, self.model.gpus_on_shared_root_port
        if (first is None) != (shared is None) or (first or 0) + (shared or 0) > self.gpus:
            raise HeddleError(
                f"{self.model.name} has {shared} GPUs on a shared root port, the first of them {first}; expected both, "
                f"or none, within its {self.gpus} GPUs"
            )
        if len(self) == 0:
            raise HeddleError("found no servers; expected the adapter of at least one")
        inner = (self.ends < self.fabric.n_switches) | (self.ends >= self.fabric.n_end_ports)
        if inner.any() or len(np.unique(self.ends)) < len(self.ends):
            raise HeddleError(
                "the adapters of servers must be different end ports of hosts, "
                f"{self.fabric.n_switches} to {self.fabric.n_end_ports - 1}; found {self.ends.tolist()[:10]}"
            )
        one = self._inside()
        hosts = [self.fabric.hosts[host] for host in self.fabric.host[self.fabric.end_node[self.ends]].tolist()]
        all_devices = replace(
            _side_by_side([one] * len(self)),
            end_port=np.repeat(self.ends, len(one.end_port)),
            names=tuple(f"{host} {name}" for host in hosts for name in one.names),
        )
        object.__setattr__(self, "devices", all_devices)

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def gpus(self) -> int:
        """GPUs of each server."""
        return self.model.gpus

    @property
    def bridged(self) -> int:
        """GPUs that NVLink connects with one another, 1 without."""
        return (self.model.nvlink_gpus or 1) if self.nvlink else 1

    @property
    def gpu_over_pcie(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over PCIe, to and from host memory and GPUs behind other root ports."""
        return self._numbers(_Block.OVER_PCIE)

    @property
    def gpu_behind_port(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over PCIe, to and from GPUs behind the same root port."""
        return self._numbers(_Block.BEHIND_PORT)

    @property
    def gpu_at_adapter(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over PCIe, to and from the adapter without passing through host memory."""
        return self._numbers(_Block.AT_ADAPTER)

    @property
    def gpu_over_nvlink(self) -> NDArray[np.int32]:
        """(H, G) the GPUs over NVLink, to and from those they are bridged to."""
        return self._numbers(_Block.OVER_NVLINK)

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

    def between(self, src: ArrayLike, dst: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the devices of flows straight from GPU to GPU.

        They go over NVLink where the GPUs are bridged, over PCIe within a server, else over the adapters.

        Parameters
        ----------
        src, dst : (M,)
            Rank of each GPU: server after server, ``server * G + gpu``.
        """
        source, target = np.asarray(src), np.asarray(dst)
        port = np.array([self._root_port_of(gpu) for gpu in range(self.gpus)])
        bridge = np.arange(self.gpus) // self.bridged
        from_gpu, to_gpu = source % self.gpus, target % self.gpus
        inside = source // self.gpus == target // self.gpus
        inner = [
            (inside & (bridge[from_gpu] == bridge[to_gpu]), self.gpu_over_nvlink),
            (inside & (port[from_gpu] == port[to_gpu]), self.gpu_behind_port),
            (inside, self.gpu_over_pcie),
        ]
        conditions = [condition for condition, _ in inner]

        def devices(rank: NDArray[Any]) -> NDArray[np.int32]:
            numbers = [block.ravel()[rank] for _, block in inner]
            return np.asarray(np.select(conditions, numbers, self.gpu_at_adapter.ravel()[rank]), np.int32)

        return devices(source), devices(target)

    def flows(self, schedule: Schedule, size_bytes: float) -> Flows:
        """Return the messages of a collective among all GPUs, buffers of a size; rank r is ``server * G + gpu``."""
        flows = schedule.flows(size_bytes)
        src, dst = self.between(flows.src, flows.dst)
        return replace(flows, src=src, dst=dst)

    def _root_port_of(self, gpu: int) -> int:
        """Root port that a GPU is behind: its own, or that of the first GPU on the shared one."""
        first, shared = self.model.first_gpu_on_shared_root_port, self.model.gpus_on_shared_root_port
        return first if first is not None and first <= gpu < first + (shared or 1) else gpu

    def _numbers(self, block: _Block) -> NDArray[np.int32]:
        """(H, G) end numbers of the devices of one block, (H, 1 + len(operations)) for the last."""
        host = 1 + len(self.operations)
        server = np.arange(len(self))[:, None] * (_Block.HOST * self.gpus + host)
        inside = block * self.gpus + np.arange(host if block == _Block.HOST else self.gpus)
        numbers: NDArray[np.int32] = (self.fabric.n_end_ports + server + inside).astype(np.int32)
        return numbers

    def _inside(self) -> Devices:
        """Return the devices of one server in the order of their blocks, with the names of its resources alone."""
        model = self.model
        capacity: list[float] = []
        names: list[str] = []

        def resource(name: str, figure: str, share: float = 1.0, unit: float = GBYTE) -> int:
            value = getattr(model, figure)
            if value is None:
                raise HeddleError(f"the catalog has no {figure} of {model.name}; the inside of a server needs it")
            capacity.append(value * share * unit)
            names.append(name)
            return len(names) - 1

        pcie = [
            [resource(f"PCIe {side} GPU {gpu}", "gpu_pcie_gbyte_per_s") for side in ("from", "to")]
            for gpu in range(model.gpus)
        ]
        port: dict[int, float] = {}
        if model.gpus_on_shared_root_port:
            # Both directions share it: the paper (section IV-D3) gives it 37.5 GB/s to the processor's bus, with two
            # GPUs that send in one direction already at 37, and less when both directions are used.
            port = {resource("shared root port", "root_port_gbyte_per_s"): 1.0}
        direct: list[dict[int, float]] = [{}, {}]
        if model.gpu_adapter_gibyte_per_s is not None:
            for at, name in enumerate(("GPUs straight to adapter", "adapter straight to GPUs")):
                direct[at] = {resource(name, "gpu_adapter_gibyte_per_s", unit=GIBYTE): 1.0}
        # Vendors count both directions together.
        bridge = [
            [resource(f"NVLink {side} GPU {gpu}", "nvlink_gbyte_per_s", 0.5) for side in ("from", "to")]
            for gpu in (range(model.gpus) if self.bridged > 1 else ())
        ]
        memory = resource("host memory", "memory_gbyte_per_s")

        lanes = [({out: 1.0}, {into: 1.0}) for out, into in pcie]  # in the order of the properties above
        ports = [self._root_port_of(gpu) for gpu in range(model.gpus)]
        shares = [port if ports.count(own) > 1 else {} for own in ports]
        devices = [_Device(out | share, into | share) for (out, into), share in zip(lanes, shares, strict=True)]
        devices += [_Device(out, into) for out, into in lanes]
        devices += [
            _Device(out | share | direct[0], into | share | direct[1])
            for (out, into), share in zip(lanes, shares, strict=True)
        ]
        devices += [_Device({out: 1.0}, {into: 1.0}) for out, into in bridge] or [_Device({}, {})] * model.gpus
        devices += [_Device({}, {}), *(_Device({memory: count}, {memory: count}) for count in self.operations)]
        columns: dict[str, Any] = {}
        for direction in _Device._fields:
            rows: list[dict[int, float]] = [getattr(device, direction) for device in devices]
            columns[f"{direction}_offset"] = np.cumsum([0, *map(len, rows)]).astype(np.int64)
            columns[f"{direction}_resource"] = np.array([resource for row in rows for resource in row], np.int32)
            columns[f"{direction}_use"] = np.array([use for row in rows for use in row.values()], np.float64)
        return Devices(np.zeros(len(devices), np.int32), np.array(capacity), tuple(names), **columns)


def join_devices(parts: Sequence[Devices]) -> Devices:
    """Return the devices of several sets of servers as one: those of a part are numbered behind those before it.

    Raises
    ------
    HeddleError
        When two parts have an end port in common: the inside of a server would be there twice.
    """
    ends = np.concatenate([np.unique(part.end_port) for part in parts])
    if len(np.unique(ends)) < len(ends):
        raise HeddleError("two jobs look into the same servers; expected servers of its own for each")
    return _side_by_side(parts)


def _side_by_side(parts: Sequence[Devices]) -> Devices:
    """Return several sets of devices as one, those of a part numbered behind those before it."""
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
        **columns,
    )
