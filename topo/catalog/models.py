"""Models of hardware: switches, servers, adapters, cables, and what they cost.

Every value of a model knows its source (`HardwareModel.sources`); what no source states is None, never zero. The types
of the fields say how the cell of a table becomes a value.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SkipValidation

from topo.spec.base import ServerRole, mismatch
from topo.speeds import LinkSpeed, parse_link_speed

CONFIDENCE: dict[str, str] = {
    "Q": "read in the paper on Fire-Flyer AI-HPC itself",
    "Q-art": "read in the artifact that its authors published",
    "Q-src": "read in another primary source: a vendor's document, a repository",
    "Q-2nd": "read in a third party's note or price list",
    "I": "inferred or derived",
    "R": "recalled, confirmed in no text",
    "own": "the owner's own: a quote, an order, a measurement",
}
"""How sure a figure is."""


@dataclass(frozen=True)
class Source:
    """Where a figure comes from."""

    text: str
    """Document and place in it."""
    date: str
    """Date of the document as far as it is known (``2024-08-31``, ``2020``); of the entry where it bears none."""
    confidence: str
    """A key of `CONFIDENCE`."""
    where: str
    """``file:line`` of the row in the catalog."""


def _cell(read: Callable[[str], Any], expected: str) -> BeforeValidator:
    """Read the text of a table's cell; what is no text is a value already."""

    def check(value: Any) -> Any:
        try:
            return read(value) if isinstance(value, str) else value
        except (ValueError, KeyError):
            raise mismatch(expected) from None

    return BeforeValidator(check)


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text):
        raise ValueError
    return int(text)


def _positive(text: str) -> int:
    if not (value := _whole(text)):
        raise ValueError
    return value


MOST = 1e12
"""Of anything in a table: what is larger has a slip in it."""
A_NUMBER = f"a number such as 31000.5, from 0 to {MOST:g}"


def number(text: str) -> float:
    """Read a number from 0 to `MOST`; ValueError, which says so, for any other text."""
    try:
        value = float(text) if len(text) <= 40 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= MOST:
        raise ValueError(A_NUMBER)
    return value


Whole = Annotated[int, _cell(_whole, "a whole number, not negative")]
Positive = Annotated[int, _cell(_positive, "a whole number, at least 1")]
Number = Annotated[float, _cell(number, A_NUMBER)]
YesNo = Annotated[bool, _cell({"yes": True, "no": False}.__getitem__, "yes or no")]
Speed = Annotated[LinkSpeed, _cell(parse_link_speed, "a link speed like 4xHDR, NDR or HDR100")]


@dataclass(frozen=True, kw_only=True)
class HardwareModel:
    """What can be bought under one name."""

    name: str
    sources: Annotated[Mapping[str, Source], SkipValidation] = field(
        default_factory=lambda: MappingProxyType({}), compare=False, repr=False
    )
    """Source of each field that is not None."""
    part_number: str | None = None
    """What to order."""

    @property
    def description(self) -> str:
        """What it is, in a line for the person who buys or plugs it; the part number where the name is another.

        >>> import topo
        >>> catalog = topo.load_catalog()
        >>> catalog.cable("MCP1650-H002E26").description
        'DAC 4xHDR, QSFP56, 2 m'
        >>> catalog.switch("QM8700").description
        'InfiniBand switch, 40 ports 4xHDR, 40 x QSFP56, 1 U, MQM8700-HS2F'
        """
        ordered = "" if self.part_number in (None, self.name) else str(self.part_number)
        return ", ".join(filter(None, (*self._words(), ordered)))

    def _words(self) -> tuple[str, ...]:
        """Say what it is in phrases; one that is empty is not known."""
        return ()


@dataclass(frozen=True, kw_only=True)
class PoweredModel(HardwareModel):
    """What stands in a rack and draws power."""

    rack_units: Whole | None = None
    """Height in a rack."""
    power_typical_w: Number | None = None
    """Of a server the mean under load, of a switch without optics."""
    power_max_w: Number | None = None
    """Of a switch with a full panel of optics."""

    runs_on_one_feed: Literal["yes", "reduced", "no"] | None = None
    """Whether it goes on when one of the two feeds that its power supplies hang on fails: at full performance (``yes``)
    or at ``reduced`` performance, such as a lower clock."""

    @property
    def planned_w(self) -> float | None:
        """The least that planning has to allow: the maximum, or the typical power where that is unknown."""
        return self.power_typical_w if self.power_max_w is None else self.power_max_w


@dataclass(frozen=True, kw_only=True)
class SwitchModel(PoweredModel):
    """A switch: a box with one chip, or a frame with many."""

    radix: Positive
    """Ports on its panel, each at `speed`; without those of `uplink_ports`."""
    speed: Speed
    """Of an Ethernet port: the lanes of equal rate, ``8xNDR`` for 800 Gb/s."""
    uplink_ports: Whole = 0
    """Further ports behind those, of another kind, for links to other switches: four of 100G beside 48 of 1G."""
    uplink_speed: Speed | None = None
    """Of each of them; `speed` where it is left out."""
    uplink_connector: str | None = None
    """Shape of their cages, each of which holds one of them; `connector` where it is left out."""
    protocol: Literal["infiniband", "ethernet"] = "infiniband"
    """``infiniband``, where left out, or ``ethernet``."""
    chip: str | None = None
    """Switching chip, as device tables call it."""
    managed: YesNo | None = None
    """Whether it can run a subnet manager itself."""
    connector: str | None = None
    """Shape of its cages, such as ``QSFP56`` or ``OSFP``."""
    cages: Positive | None = None
    """Connectors of its ports, without those of `uplink_ports`, all of as many; each takes one transceiver or end of a
    copper cable, which serves all ports in it."""
    split_radix: Whole | None = None
    """Ports when each is split in two at half the lanes."""
    chips: Whole = 1
    """Switching chips inside; each is a switch to the subnet manager."""
    leaf_chips: Whole | None = None
    """Chips of a frame whose ports are on the panel."""
    spine_chips: Whole | None = None
    """Chips of a frame that link its leaf chips."""
    chip_radix: Whole | None = None
    """Ports of each chip of a frame."""
    latency_ns: Number | None = None
    """Port to port."""
    power_port_w: Number | None = None
    """The most that a port gives to what is plugged in."""

    @property
    def chip_ports(self) -> int:
        """Ports of each of its chips, none of them split, those of `uplink_ports` last."""
        return (self.chip_radix or self.radix) + self.uplink_ports

    def own_ports(self, numbered: int) -> int:
        """Return how many of the ports that are numbered on one of its chips come before those of `uplink_ports`."""
        return numbered - (self.uplink_ports if numbered >= self.chip_ports else 0)

    def _words(self) -> tuple[str, ...]:
        kind = "InfiniBand" if self.protocol == "infiniband" else "Ethernet"
        more = f" and {self.uplink_ports} {self.uplink_speed}" if self.uplink_ports else ""
        cages = f"{self.cages} x {self.connector}" if self.cages and self.connector else self.connector or ""
        return (
            f"{kind} switch, {self.radix} ports {self.speed}{more}",
            f"{self.chips} chips" if self.chips > 1 else "",
            cages,
            f"{self.rack_units} U" if self.rack_units else "",
        )


@dataclass(frozen=True, kw_only=True)
class NodeModel(PoweredModel):
    """A server."""

    role: ServerRole
    """``compute``, ``storage`` or ``management``."""
    gpus: Whole = 0
    """GPUs of the server."""
    gpu: str | None = None
    """Their model."""
    cpu: str | None = None
    """Model of its processors."""
    sockets: Whole | None = None
    """Processors."""
    memory_gbyte: Number | None = None
    """Memory of the host."""
    adapters: Positive
    """Adapters on the network that the spec plans, at least one."""
    adapter_model: str
    """An adapter of the catalog."""
    cages: Positive | None = None
    """Connectors that the adapters share, consecutive ones in each; an adapter has its own where this is not given."""
    storage_adapters: Whole = 0
    """Further adapters, for a storage network of its own."""
    storage_adapter_model: str | None = None
    """Their model, where it is another."""
    adapters_included: Whole | None = None
    """How many adapters, counted by port, the server's price holds; each further one is priced. Where it is left out,
    a bill is between a price with all of them and one with none."""
    ssds: Whole = 0
    """SSDs of a storage server."""
    ssd_tbyte: Number | None = None
    """Size of each SSD."""
    ssd_read_gbyte_per_s: Number | None = None
    """Each SSD, large reads."""
    ssd_write_gbyte_per_s: Number | None = None
    """Each SSD, large writes that go on."""
    ssd_read_latency_us: Number | None = None
    """Of a read, before its bytes flow."""
    ssd_write_latency_us: Number | None = None
    """Of a write, likewise."""
    gemm_tf32_tflops: Number | None = None
    """Measured, one GPU."""
    gemm_fp16_tflops: Number | None = None
    """Measured, one GPU."""
    memory_gbyte_per_s: Number | None = None
    """Practical bandwidth of host memory, both sockets."""
    gpu_host_gbyte_per_s: Number | None = None
    """GPU to its processor, one direction: over PCIe, or NVLink-C2C."""
    pcie_switches: Whole | None = None
    """PCIe switches. The GPUs, and the adapters, hang below them in equal parts and in order."""
    pcie_switch_gbyte_per_s: Number | None = None
    """From a PCIe switch to the processor, one direction; all that hangs below it shares this."""
    root_port_gbyte_per_s: Number | None = None
    """From a PCIe root port to the processor's bus, both directions together; GPUs that share a port share this."""
    gpus_on_shared_root_port: Whole | None = None
    """GPUs that share one root port, where others have their own."""
    first_gpu_on_shared_root_port: Whole | None = None
    """The first of them, counted from 0; the others follow it."""
    gpu_adapter_gbyte_per_s: Number | None = None
    """What GPUs reach through one adapter directly, one direction, without passing through host memory."""
    nvlink_gbyte_per_s: Number | None = None
    """Of one GPU, both directions together, as vendors count."""
    nvlink_used_gbyte_per_s: Number | None = None
    """What NCCL gets of one GPU's NVLink in one direction; half of `nvlink_gbyte_per_s` where it is left out."""
    nvlink_gpus: Whole | None = None
    """GPUs that NVLink connects with one another."""
    trays: Whole = 1
    """Hosts that it is to a scheduler, each with an operating system of its own: those of a rack that NVLink joins."""
    nvswitches: Whole | None = None
    """NVSwitches that NVLink runs through; 0 where fixed links join every two GPUs, such as Infinity Fabric. Where
    it is left out, NVLink is bridges, which may be plugged in or not."""

    @property
    def figures_sha256(self) -> str:
        """Digest of what jobs meet in it, apart from what it costs, its height, its power and its trays."""
        bought = {*PoweredModel.__dataclass_fields__, "adapters_included", "trays"}
        figures = [(key, repr(value)) for key, value in sorted(vars(self).items()) if key not in bought]
        return hashlib.sha256(repr(figures).encode()).hexdigest()

    def _words(self) -> tuple[str, ...]:
        return (
            f"{self.role.name.lower()} server",
            f"{self.gpus} x {self.gpu or 'GPU'}" if self.gpus else "",
            f"{self.sockets or 1} x {self.cpu}" if self.cpu else "",
            f"{self.ssds} SSDs" if self.ssds else "",
            f"{self.rack_units} U" if self.rack_units else "",
        )


@dataclass(frozen=True, kw_only=True)
class HcaModel(HardwareModel):
    """A host channel adapter."""

    ports: Whole
    """Ports of the adapter."""
    speed: Speed
    """Of each."""
    chip: str | None = None
    """As device tables call it."""
    device: str = "mlx5"
    """What servers call it, before its number."""
    connector: str | None = None
    """Shape of its cages."""
    pcie: str | None = None
    """Generation and lanes, such as ``gen4 x16``."""
    power_max_w: Number | None = None
    """The most that it draws."""

    def _words(self) -> tuple[str, ...]:
        ports = f"{self.ports} port{'s' if self.ports > 1 else ''} {self.speed}"
        return (f"{self.chip or ''} adapter".strip(), ports, self.connector or "", self.pcie or "")


@dataclass(frozen=True, kw_only=True)
class CableModel(HardwareModel):
    """A cable with both ends, or the transceiver of one end."""

    kind: Literal[
        "TP", "DAC", "ACC", "AOC", "optic", "fibre", "DAC-splitter", "ACC-splitter", "AOC-splitter", "fibre-splitter"
    ]
    """``TP`` (twisted pairs), ``DAC`` (copper), ``ACC`` (copper with amplifiers), ``AOC`` (optical, ends fixed),
    ``optic`` (one transceiver), ``fibre`` (between two transceivers); ``-splitter`` for one end to several."""
    protocol: Literal["infiniband", "ethernet"] | None = None
    """The one that it is made for, where it is not made for both."""
    speed: Speed | None = None
    """Of a cable's undivided end, all its links together; of one port of a transceiver; a fibre has none."""
    ports: Whole = 1
    """Ports of a transceiver, each with a fibre of its own."""
    legs: Whole = 2
    """Ends of a splitter on its divided side."""
    connector: str | None = None
    """The cage that it fits; of a splitter at its undivided end."""
    far_connector: str | None = None
    """That of the other end, or of each leg, where it is another."""
    length_m: Number | None = None
    """Of a cable; a model that comes in several lengths is one model each."""
    reach_m: Number | None = None
    """The most that a transceiver spans."""
    fibre: str | None = None
    """Fibre and plug that a transceiver takes, or that a fibre is; two transceivers with the same can be linked."""
    power_end_w: Number | None = None
    """Of each end, at most where a source tells: it is counted in the mean too, as the upper bound that is known."""
    latency_ns_per_m: Number | None = None
    """Of the light or the signal in it."""
    diameter_mm: Number | None = None
    """Of the cable."""
    kg_per_m: Number | None = None
    """Its weight."""

    def _words(self) -> tuple[str, ...]:
        kind = {"optic": "transceiver", "TP": "twisted pairs"}.get(self.kind, self.kind.replace("-", " "))
        plugs = " to ".join(filter(None, (self.connector, self.far_connector)))
        return (
            f"{kind} {self.speed or ''}".strip(),
            f"{self.ports} ports" if self.ports > 1 else "",
            f"{self.legs} legs" if "splitter" in self.kind else "",
            plugs,
            self.fibre or "",
            f"{self.length_m:g} m" if self.length_m is not None else "",
            f"reach {self.reach_m:g} m" if self.reach_m is not None else "",
        )


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

    def times(self, factor: float, note: str) -> Price:
        """Return the price times a factor, in whole cents; the note of each point explains the factor."""
        points = tuple(replace(point, low=round(point.low * factor, 2), high=round(point.high * factor, 2),
                               note=", ".join(filter(None, (point.note, note)))) for point in self.points)  # fmt: skip
        return replace(self, points=points)

    @property
    def is_own(self) -> bool:
        """Whether all points are the owner's own."""
        return all(point.source.confidence == "own" for point in self.points)

    @property
    def low(self) -> float:
        """The lowest point."""
        return min(point.low for point in self.points)

    @property
    def high(self) -> float:
        """The highest point."""
        return max(point.high for point in self.points)
