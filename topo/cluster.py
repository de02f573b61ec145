"""A cluster: what its spec says, the hardware that it names, and the fabrics that follow from both.

Whatever form a spec has (a YAML file, its text, a mapping, a model made in Python), it becomes a `Cluster`, which
compiles, places and cables itself on the first question for it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import isdir, isfile  # False for what cannot be looked at too, such as a name that is too long
from pathlib import Path
from typing import Any, get_args

import numpy as np

from topo.budget import YAML_BYTES
from topo.builder import distinct_names
from topo.catalog.devices import list_frames
from topo.catalog.load import Catalog, load_catalog
from topo.cluster_spec import ClusterSpec, as_bought
from topo.counts import Counts, count
from topo.errors import DesignError, Findings, SpecError, did_you_mean, plural, refusal
from topo.fabric import MAX_PORTS, Fabric, Purpose, Role
from topo.files.text import config_root, path_of, read_text
from topo.files.yaml import Document, describe, given_document, read_yaml
from topo.floor.cables import Cabling, choose_cables
from topo.floor.racks import Layout, make_device, place_devices
from topo.shapes.base import HostGroup, ShapeModel
from topo.shapes.rail import Rail
from topo.spec.validation import validate
from topo.speeds import SPEEDS
from topo.table import Shown, Table

PROTOCOLS = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}
"""Names of the protocols of switches."""


@dataclass(frozen=True, eq=False)
class Cluster(Shown):
    """A spec with its catalog, and what follows from it: fabrics, positions on the floor, cables.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("lab-20")
    >>> cluster.name, len(cluster.fabrics), cluster.fabric.n_switches
    ('lab-20', 1, 4)
    """

    _made_by = "`topo.preset`, `topo.read` or `topo.parse`"

    spec: ClusterSpec
    catalog: Catalog
    """Hardware: what ships, and the spec's own tables."""
    document: Document | None = None
    """Text of the spec, in which messages about its design name lines; None where there is none."""
    sha256: str | None = None
    """Digest of the text that it was read from; None for a spec that had no text."""
    folder: Path = Path()
    """What files that the spec names are relative to."""

    def _brief(self) -> str:
        return self.name

    @property
    def table(self) -> Table:
        """How many of everything it has."""
        return replace(self.counts.table, title=self.name)

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self.spec.name

    @cached_property
    def fabrics(self) -> tuple[Fabric, ...]:
        """Compiled fabrics: one a subnet, of which a cluster of several planes has several, and one an Ethernet.

        DesignError, which holds the arithmetic, when the design cannot be built.
        """
        name = next((name for name, one in self.spec.networks.items() if "pdus" in one.manage), "")
        pdus: tuple[str, ...] = ()
        tried: set[tuple[str, ...]] = set()
        with self._placed():
            if name and self.spec.floor is None:
                raise DesignError("the PDUs are those of racks: give a `floor`", "networks", name, "manage")
            while pdus not in tried:  # each port that is added takes a share of a switch, whose rack takes fewer
                tried.add(pdus)
                fabrics, placed = self._compile(pdus), pdus
                if name and self.spec.floor:
                    with self._placed("floor"):
                        pdus = place_devices(fabrics, self.catalog, self.spec.floor).pdu_names
                if pdus == placed:
                    return fabrics
            raise DesignError(
                f"with the ports of {len(placed)} PDUs there are {len(pdus)}, and so on in a circle: leave ports of "
                "its switches free (`leaves`)", "networks", name, "manage",
            )  # fmt: skip

    def _compile(self, pdus: Sequence[str]) -> tuple[Fabric, ...]:
        """Compile the networks, the one that manages devices last, with these power distribution units."""
        spec, groups = self.spec, resolve_groups(self.spec, self.catalog)
        if not any(group.count for group in groups):
            raise DesignError(f"{self.name} has no nodes: give at least one group under `nodes` a count", "nodes")
        first, *others = _hung(spec, groups, self.catalog)
        findings, fabrics = Findings(), list[Fabric]()
        with findings.under("network"):
            if spec.network_name in spec.networks:
                raise DesignError(f"`network_name` is {spec.network_name}, as an entry of `networks`: take another")
            own = f"{self.name}-{spec.network_name}" if spec.network_name else self.name
            compiled = _of_one_protocol(spec.network.compile(first, self.catalog, own), self.catalog)
            asked = spec.routing
            purpose: Purpose = next((one for one in get_args(Purpose) if one == asked.purpose), "any")
            fabrics += [replace(fabric, engine=asked.engine, lmc=asked.lmc, purpose=purpose) for fabric in compiled]
        networks = zip(spec.networks.items(), others, strict=True)
        for (name, network), hung in sorted(networks, key=lambda item: bool(item[0][1].manage)):
            with findings.under("networks", name, said=f"networks.{name}: "):
                for what in dict.fromkeys(network.manage):  # devices that are no servers, with a port each
                    names = self._switch_names(fabrics) if what == "switches" else tuple(pdus)
                    port = self.catalog.hca("BMC-1GE")
                    group = HostGroup(what, len(names), "", Role.MANAGEMENT, 1, port.name, port.speed, devices=names)
                    hung += [group] if names else []
                compiled = network.network.compile(hung, self.catalog, f"{self.name}-{name}")
                fabrics += _of_one_protocol(compiled, self.catalog)
        if findings.found:  # findings about the floor belong to the same error
            self._find_misfits(findings)
        findings.refuse()
        return tuple(replace(fabric, traffic=spec.traffic) for fabric in self._named(fabrics))

    def _named(self, fabrics: Sequence[Fabric]) -> tuple[Fabric, ...]:
        """Return fabrics, those with a subnet manager first, with unique names of switches."""
        ordered = sorted(fabrics, key=lambda fabric: self.catalog.protocol_of(fabric) == "ethernet")
        return distinct_names(ordered, self.name, self.spec.nodes)

    def _switch_names(self, fabrics: Sequence[Fabric]) -> tuple[str, ...]:
        """Return the names of the switches and frames of some networks that have a port for management."""
        names: list[str] = []
        for subnet, fabric in enumerate(self._named(fabrics)):
            frames = list_frames(fabric, subnet, self.catalog)
            names += [frames.get(node) or fabric.label(node) for node in range(fabric.n_switches)
                      if self.catalog.switch(fabric.model_of(node)).managed is not False]  # fmt: skip
        return tuple(dict.fromkeys(names))

    @cached_property
    def subnets(self) -> tuple[Fabric, ...]:
        """Those of `fabrics` that a subnet manager runs, which is none of Ethernet; they come first there.

        >>> import topo
        >>> len(topo.preset("lab-20").subnets), len(topo.preset("four-planes-32k").subnets)
        (1, 0)
        """
        return tuple(fabric for fabric in self.fabrics if self.catalog.protocol_of(fabric) != "ethernet")

    @property
    def ways_to_free(self) -> tuple[str, ...]:
        """Keys of rails that leave ports of leaves for other servers, with what they cost, the cheaper first.

        >>> import topo
        >>> topo.preset("lab-20").ways_to_free
        ()
        """
        shape = self.spec.network
        if not isinstance(shape, Rail):
            return ()
        nodes = [replace(group, adapters=group.adapters // shape.planes)
                 for group in _hung(self.spec, resolve_groups(self.spec, self.catalog), self.catalog)[0]
                 if group.role == Role.COMPUTE]  # fmt: skip
        return tuple(shape.ways_to_free(1, nodes, self.catalog))

    @property
    def traffic_file(self) -> Path | None:
        """File of the traffic that tables of `network` are made for; None where the spec names none."""
        asked = self.spec.routing.purpose
        return None if asked in get_args(Purpose) else self.folder / asked

    def network_of(self, subnet: str) -> str | None:
        """Return the entry of `networks` that has a subnet of this name; None where it is one of `network`."""
        names = filter(None, (self.spec.network_name, *self.spec.networks))
        found = max((name for name in names if f"{subnet}-".startswith(f"{self.name}-{name}-")), key=len, default=None)
        return found if found in self.spec.networks else None

    @property
    def fabric(self) -> Fabric:
        """The fabric of a cluster of one subnet; DesignError where there are several, and as `fabrics`."""
        if len(self.fabrics) > 1:
            names = ", ".join(fabric.name for fabric in self.fabrics)
            raise DesignError(
                f"{self.name} has {plural(len(self.fabrics), 'subnet')} ({names}): choose one of its `fabrics`"
            )
        return self.fabrics[0]

    @cached_property
    def layout(self) -> Layout | None:
        """Position of every device; None if the spec has no floor, DesignError if it cannot hold the cluster."""
        findings = Findings()
        with self._placed():
            self._find_misfits(findings)
            findings.refuse()
        with self._placed("floor"):
            return place_devices(self.fabrics, self.catalog, self.spec.floor) if self.spec.floor else None

    def _find_misfits(self, findings: Findings) -> None:
        """Collect the servers that fit in no rack of the floor, at the group that names their model."""
        for group, node in self.spec.nodes.items():
            if self.spec.floor and node.count:
                with findings.under("nodes", group):
                    make_device(group, node.model, self.catalog, self.spec.floor)

    @cached_property
    def cablings(self) -> tuple[Cabling, ...] | None:
        """Cables of each subnet; None if the spec has no floor, DesignError if a cable cannot reach."""
        with self._placed("floor"):
            return choose_cables(self.fabrics, self.layout, self.catalog) if self.layout else None

    @cached_property
    def cabled(self) -> tuple[Fabric, ...]:
        """Fabrics that know the length of each cable; as `fabrics` where the spec has no floor plan."""
        return self.fabrics if self.cablings is None else tuple(map(_with_lengths, self.fabrics, self.cablings))

    @cached_property
    def counts(self) -> Counts:
        """How many of everything it has."""
        return count(self.fabrics, self.catalog)

    @contextmanager
    def _placed(self, *keys: str) -> Iterator[None]:
        """Give each finding of the design that is built in the body its place in the spec, under these keys."""
        try:
            yield
        except DesignError as error:
            if self.document is None:
                raise
            where = self.document.where
            placed = (replace(one, where=one.where or where(*keys, *one.keys)) for one in error.findings)
            raise DesignError(placed) from None


def read(path: str | Path, engines: Sequence[str] | None = None) -> Cluster:
    """Read a cluster's YAML file, and the catalog tables that it names.

    SpecError has every finding, at its file, line and column. ``engines`` are the names of routing engines that the
    spec may have; any name passes when left out.

    Examples
    --------
    >>> import topo
    >>> topo.read(topo.config_root() / "lab-20.yaml").name
    'lab-20'
    """
    path = path_of(path, "the path of a spec")
    try:
        return _cluster(read_yaml(path), path.parent, engines)
    except SpecError:
        from topo.dumps.fabric_file import is_fabric  # a dozen readers, for a file that is no spec

        if not is_fabric(path):
            raise
        hint = (
            "For a fabric use `plan route`, `plan verify` or `plan draw`, or in Python `topo.read_fabric`. A "
            "file that ends in .yaml or .yml is a spec: give it another name."
        )
        raise refusal(path, "a fabric", "the spec of a cluster", hint) from None


def parse(spec: str | Mapping[str, Any], folder: str | Path = ".", engines: Sequence[str] | None = None) -> Cluster:
    """Make a cluster of a spec that is given as YAML text or as a mapping of plain values.

    Parameters
    ----------
    spec : str or mapping
        What a YAML file would hold. SpecError has every finding: at its line and column in a text, at its path of keys
        in a mapping.
    folder : str or Path
        Folder that the spec's key ``catalog`` is relative to.
    engines : sequence of str, optional
        As in `read`.

    Examples
    --------
    >>> import topo
    >>> network = {"shape": "fat-tree", "switch": "QM8700"}
    >>> nodes = {"gpu": {"model": "pcie-a100", "count": 100}}
    >>> topo.parse({"name": "pilot", "nodes": nodes, "network": network}).fabric.n_switches
    9
    >>> topo.parse({"name": "pilot", "nodes": {"gpu": {"model": "pcie-a100", "count": "100"}}, "network": network})
    Traceback (most recent call last):
    topo.errors.SpecError: nodes.gpu.count: found the text "100"; expected a whole number
    """
    return _cluster(given_document(spec, "spec", "topo.read"), Path(folder), engines)


def preset(name: str) -> Cluster:
    """Return one of the clusters that ship, such as ``fire-flyer-2``; SpecError when there is none of that name.

    Examples
    --------
    >>> import topo
    >>> topo.preset("fire-flyer-2").fabric.n_switches
    122
    """
    name, files = str(name), _preset_files()
    if name not in files:
        raise refusal("preset", f'"{name[:60]}"', f"one of {', '.join(files)}", did_you_mean(name, files))
    return read(files[name])


def presets() -> dict[str, str]:
    """Return the names of the clusters that ship, each with a line about it.

    Examples
    --------
    >>> import topo
    >>> topo.presets()["lab-20"]
    'A small lab: 20 servers on one fat-tree of two levels, without oversubscription.'
    """
    files = _preset_files().items()
    return {name: read_text(file, YAML_BYTES).partition("\n")[0].lstrip("# ") for name, file in files}


def _preset_files() -> dict[str, Path]:
    return {file.stem: file for file in sorted(config_root().glob("*.yaml"), key=lambda file: file.stem)}


def compile(spec: ClusterSpec, catalog: Catalog | None = None) -> Cluster:
    """Compile a spec that was made or changed in Python, with the hardware of a catalog, or what ships.

    DesignError, which holds the arithmetic, when the design cannot be built.

    Examples
    --------
    >>> import topo
    >>> spec = topo.preset("lab-20").spec
    >>> topo.compile(spec.model_copy(update={"name": "twin"})).fabric.name
    'twin'
    """
    cluster = Cluster(spec, as_bought(catalog or load_catalog(), spec.terms, spec.exclude))
    _ = cluster.fabrics  # now, so that a design that cannot be built is refused here
    return cluster


def _with_lengths(fabric: Fabric, cabling: Cabling) -> Fabric:
    """Return the fabric with the length of the cable in each port."""
    of_part = [np.nan if part.length_m is None else part.length_m for part in cabling.parts]
    length = np.full(fabric.n_ports, np.nan)
    length[fabric.links] = np.array([*of_part, np.nan])[cabling.part][:, None]
    return replace(fabric, length_m=length)


def _cluster(document: Document, folder: Path, engines: Sequence[str] | None) -> Cluster:
    catalog = load_catalog(catalog_folders(document, folder))
    spec = validate_spec(document, catalog, engines)
    catalog = as_bought(catalog, spec.terms, spec.exclude)
    sha256 = hashlib.sha256(document.text.encode()).hexdigest() if document.text else None
    cluster = Cluster(spec, catalog, document if document.text else None, sha256, folder)
    if cluster.traffic_file is not None and not isfile(cluster.traffic_file):  # noqa: PTH113
        words, asked = get_args(Purpose), spec.routing.purpose
        expected = f"one of {', '.join(words)}, or a demand (CSV) or workload by its file, relative to this file"
        raise refusal(document.where("routing", "for"), describe(asked), expected, did_you_mean(asked, words))
    return cluster


def validate_spec(document: Document, catalog: Catalog, engines: Sequence[str] | None = None) -> ClusterSpec:
    """Return what a document says of a cluster with this hardware; a SpecError has every finding."""
    names = known_names(document, catalog) | ({} if engines is None else {"routing engine": ["auto", *engines]})
    excluded = document.value.get("exclude") if isinstance(document.value, dict) else None
    names["currency"] = sorted({currency for prices in catalog.prices.values() for currency in prices})
    names["excluded switch"] = excluded if isinstance(excluded, list) else []
    return validate(ClusterSpec, document, names)


def known_names(document: Document, catalog: Catalog) -> dict[str, list[str]]:
    """Return the names that a document may refer to, by what they are names of."""
    nodes = document.value.get("nodes") if isinstance(document.value, dict) else None
    return {
        "switch": list(catalog.switches), "node model": list(catalog.nodes), "adapter": list(catalog.hcas),
        "part": catalog.parts, "node group": list(nodes) if isinstance(nodes, dict) else [],
    }  # fmt: skip


def catalog_folders(document: Document, base: Path) -> list[Path]:
    """Return the folder that a document's key ``catalog`` names, if it is there."""
    named = document.value.get("catalog") if isinstance(document.value, dict) else None
    if not isinstance(named, str):  # absent, or an error that validation reports
        return []
    folder = base / named
    if not named or not (isdir(folder) or (isfile(folder) and folder.suffix == ".csv")):  # noqa: PTH112, PTH113
        expected = "a folder of catalog tables, or one table such as prices.csv, relative to this file"
        raise refusal(document.where("catalog"), describe(named), expected, "Remove the key if it has no value.")
    return [folder]


def _of_one_protocol(fabrics: Sequence[Fabric], catalog: Catalog) -> Sequence[Fabric]:
    """Return compiled fabrics, and refuse links between InfiniBand and Ethernet."""
    for fabric in fabrics:
        infiniband = catalog.protocol_of(fabric) == "infiniband"
        names = sorted(fabric.models[model] for model in set(fabric.model[: fabric.n_switches].tolist()))
        if len({catalog.switch(name).protocol for name in names}) > 1:
            of = " and ".join(f"{name} of {PROTOCOLS[catalog.switch(name).protocol]}" for name in names)
            raise DesignError(f"{fabric.name} has the switches {of}, which cannot be linked")
        ports = np.diff(fabric.port_offset)
        if infiniband and ports.max() > MAX_PORTS:
            of = f"{fabric.label(int(ports.argmax()))} would have {ports.max()} ports"
            raise DesignError(f"{of}; a forwarding table of InfiniBand can name at most {MAX_PORTS}")
        gigabit = np.flatnonzero((fabric.peer >= 0) & (fabric.speed == SPEEDS.index("GE")))
        if infiniband and len(gigabit):
            raise DesignError(
                f"{fabric.port_label(int(gigabit[-1]))} is gigabit Ethernet, and the switches of {fabric.name} are of "
                "InfiniBand: take an Ethernet switch with such ports, as SN2201 is"
            )
    return fabrics


def _hung(spec: ClusterSpec, groups: Sequence[HostGroup], catalog: Catalog) -> list[list[HostGroup]]:
    """Return what hangs in `network`, then in each of `networks`; adapters are numbered in this order, by kind."""
    first = [replace(group, adapters=spec.adapters.get(group.name, group.adapters)) for group in groups
             if spec.in_network(group.name, group.role)]  # fmt: skip
    if not first:
        raise DesignError(f"`network` of {spec.name} has no nodes: all groups are in `networks` only")
    used = Counter[tuple[str, str]]()
    for one in first:
        used[one.name, one.device_name] = one.adapters + _for_storage(spec.network, one, catalog)
    hung = [first]
    for network in spec.networks.values():
        hung.append([])
        for group in (group for group in groups if group.name in network.adapters):
            model = catalog.node(group.model)
            further = group.role == Role.COMPUTE and model.storage_adapter_model
            adapter = catalog.hca(network.adapter or further or model.adapter_model)
            kind, count = (group.name, adapter.device), network.adapters[group.name]
            hung[-1].append(group.with_adapters(adapter, count, used[kind]))
            used[kind] += count + _for_storage(network.network, group, catalog)
    return hung


def _for_storage(shape: ShapeModel, group: HostGroup, catalog: Catalog) -> int:
    """Return the adapters of a server that hang in the storage fabric of a network of rails."""
    return catalog.node(group.model).storage_adapters if isinstance(shape, Rail) and shape.storage else 0


def resolve_groups(spec: ClusterSpec, catalog: Catalog) -> list[HostGroup]:
    """Look up the models of the node groups: their roles, adapters and link speeds."""
    groups = []
    for name, node in spec.nodes.items():
        model, role = catalog.node(node.model), node.role_by(catalog)
        adapter = catalog.hca(model.adapter_model)
        group = HostGroup(name, node.count, model.name, role, model.adapters, adapter.name, adapter.speed)
        groups.append(replace(group, device_name=adapter.device))
    return groups
