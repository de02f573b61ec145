"""Models of hardware: switches, servers, adapters, cables, and what they cost.

Every value of a model knows its source (`HardwareModel.sources`); what no source tells is None, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from topo.fabric import Role
from topo.formats.catalog_csv import Source
from topo.hardware.speeds import LinkSpeed


@dataclass(frozen=True, kw_only=True)
class HardwareModel:
    """What can be bought under one name."""

    name: str
    sources: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    """Source of each field that is not None."""
    part_number: str | None = None
    """What to order."""


@dataclass(frozen=True, kw_only=True)
class SwitchModel(HardwareModel):
    """A switch: a box with one chip, or a frame with many."""

    radix: int
    """Ports on its panel, each at `speed`."""
    speed: LinkSpeed
    """Of an Ethernet port: the lanes of equal rate, ``8xNDR`` for 800 Gb/s."""
    protocol: str = "infiniband"
    """``infiniband`` or ``ethernet``."""
    chip: str | None = None
    """Switching chip, as device tables call it."""
    managed: bool | None = None
    """Whether it can run a subnet manager itself."""
    connector: str | None = None
    cages: int | None = None
    """Connectors on the panel, where one holds several ports."""
    split_radix: int | None = None
    """Ports when each is split in two at half the lanes."""
    chips: int = 1
    """Switching chips inside; each is a switch to the subnet manager."""
    leaf_chips: int | None = None
    """Chips of a frame whose ports are on the panel."""
    spine_chips: int | None = None
    """Chips of a frame that link its leaf chips."""
    chip_radix: int | None = None
    """Ports of each chip of a frame."""
    rack_units: int | None = None
    latency_ns: float | None = None
    """Port to port."""
    power_typical_w: float | None = None
    """Without optics."""
    power_max_w: float | None = None
    """With a full panel of optics."""
    power_port_w: float | None = None
    """The most that a port gives to what is plugged in."""


@dataclass(frozen=True, kw_only=True)
class NodeModel(HardwareModel):
    """A server."""

    role: Role
    gpus: int = 0
    gpu: str | None = None
    cpu: str | None = None
    sockets: int | None = None
    memory_gbyte: float | None = None
    adapters: int
    """Adapters on the network that the spec plans."""
    adapter_model: str
    """An adapter of the catalog."""
    storage_adapters: int = 0
    """Further adapters, for a storage network of its own."""
    adapters_included: bool | None = None
    """Whether the server's price holds its adapters."""
    ssds: int = 0
    ssd_tbyte: float | None = None
    """Size of each SSD."""
    ssd_read_gbyte_per_s: float | None = None
    """Each SSD, large reads."""
    ssd_write_gbyte_per_s: float | None = None
    """Each SSD, large writes that go on."""
    ssd_read_latency_us: float | None = None
    """Of a read, before its bytes flow."""
    ssd_write_latency_us: float | None = None
    rack_units: int | None = None
    power_typical_w: float | None = None
    """Mean under load."""
    power_max_w: float | None = None
    gemm_tf32_tflops: float | None = None
    """Measured, one GPU."""
    gemm_fp16_tflops: float | None = None
    """Measured, one GPU."""
    memory_gbyte_per_s: float | None = None
    """Practical bandwidth of host memory, both sockets."""
    gpu_pcie_gbyte_per_s: float | None = None
    """GPU to host memory, one direction."""
    root_port_gbyte_per_s: float | None = None
    """From a PCIe root port to the processor's bus, both directions together; GPUs that share a port share this."""
    gpus_on_shared_root_port: int | None = None
    """GPUs that share one root port, where others have their own."""
    first_gpu_on_shared_root_port: int | None = None
    """The first of them, counted from 0; the others follow it."""
    gpu_adapter_gibyte_per_s: float | None = None
    """GPU to adapter directly, without passing through host memory."""
    nvlink_gbyte_per_s: float | None = None
    """Of one GPU, both directions together, as vendors count."""
    nvlink_gpus: int | None = None
    """GPUs that NVLink connects with one another."""


@dataclass(frozen=True, kw_only=True)
class HcaModel(HardwareModel):
    """A host channel adapter."""

    ports: int
    speed: LinkSpeed
    chip: str | None = None
    """As device tables call it."""
    connector: str | None = None
    pcie: str | None = None
    """Generation and lanes, such as ``gen4 x16``."""
    power_max_w: float | None = None


@dataclass(frozen=True, kw_only=True)
class CableModel(HardwareModel):
    """A cable with both ends, or the transceiver of one end."""

    kind: str
    """``DAC`` (copper), ``AOC`` (optical, ends fixed), ``optic`` (one transceiver); ``-splitter`` for one to two."""
    speed: LinkSpeed
    """Of the undivided end."""
    connector: str | None = None
    length_m: float | None = None
    """Of a cable; a model that comes in several lengths is one model each."""
    reach_m: float | None = None
    """The most that a transceiver spans."""
    fibre: str | None = None
    """What fibre and plug a transceiver takes."""
    power_end_w: float | None = None
    """Of each end."""
    latency_ns_per_m: float | None = None
    diameter_mm: float | None = None
    kg_per_m: float | None = None


@dataclass(frozen=True)
class PricePoint:
    """One published or quoted price."""

    low: float
    high: float
    note: str
    source: Source


@dataclass(frozen=True)
class Price:
    """What a model costs in one currency: the range over all points."""

    currency: str
    """ISO 4217, or ``units``: the relative units of Table III of the paper on Fire-Flyer AI-HPC."""
    points: tuple[PricePoint, ...]

    @property
    def low(self) -> float:
        """The lowest point."""
        return min(point.low for point in self.points)

    @property
    def high(self) -> float:
        """The highest point."""
        return max(point.high for point in self.points)
