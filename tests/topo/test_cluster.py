"""A cluster out of a file, a text, a mapping and a model."""

import hashlib
from typing import Any

import pytest
from ruamel.yaml import YAML

import topo
from topo.catalog.load import config_root

PILOT: dict[str, Any] = {
    "name": "pilot",
    "nodes": {"gpu": {"model": "pcie-a100", "count": 16}},
    "network": {"shape": "fat-tree", "switch": "QM8700"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", topo.presets())
def test_a_spec_is_the_same_from_a_file_a_text_and_a_mapping(name: str) -> None:
    path = config_root() / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    cluster = topo.read(path)

    assert topo.preset(name).spec == topo.parse(text).spec == cluster.spec
    assert topo.parse(YAML(typ="safe", pure=True).load(text)).spec == cluster.spec
    assert cluster.sha256 == topo.parse(text).sha256 == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.slow
def test_a_cluster_answers_for_what_follows_from_its_spec() -> None:
    cluster = topo.preset("lab-20")

    assert cluster.fabric is cluster.fabrics[0]
    assert cluster.name == cluster.fabric.name == "lab-20"
    placed = topo.preset("fire-flyer-2")
    assert placed.layout is not None
    assert placed.cablings is not None
    assert len(placed.cablings) == 1
    plain = topo.parse(PILOT)
    assert (plain.layout, plain.cablings, plain.sha256) == (None, None, None)


def test_clusters_and_fabrics_show_themselves() -> None:
    cluster = topo.preset("lab-20")

    assert (repr(cluster), repr(cluster.fabric)) == ("<Cluster lab-20>", "<Fabric lab-20: 4 switches, 20 servers>")
    assert ">lab-20</caption>" in cluster._repr_html_()
    assert ">62</td>" in cluster.fabric._repr_html_()
    assert repr(cluster.catalog).startswith("<Catalog of ")


def test_a_fabric_knows_what_its_spec_asks_for() -> None:
    spec = PILOT | {"routing": {"engine": "dfsssp"}, "traffic": [{"name": "all", "sl": 0, "vl": 1, "weight": 64}]}
    fabric = topo.parse(spec).fabric

    assert fabric.engine == "dfsssp"
    assert fabric.traffic == (topo.TrafficClass(name="all", sl=0, vl=1, weight=64),)


@pytest.mark.slow
def test_one_of_several_subnets_must_be_chosen() -> None:
    with pytest.raises(topo.DesignError, match=r"has 4 subnets .*: choose one of its `fabrics`"):
        _ = topo.preset("four-planes-32k").fabric


def test_a_design_that_cannot_be_built_names_its_file(tmp_path) -> None:
    spec = PILOT | {"nodes": {"gpu": {"model": "pcie-a100", "count": 49_000}}}
    with pytest.raises(topo.DesignError, match=r"^[^/]"):
        topo.compile(topo.parse(spec).spec)
    path = tmp_path / "pilot.yaml"
    with path.open("w", encoding="utf-8") as stream:
        YAML(typ="safe", pure=True).dump(spec, stream)
    with pytest.raises(topo.DesignError, match=rf"^{path}:\d+:\d+: [^/]"):
        _ = topo.read(path).fabrics


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": {"gpu": {"model": "pcie-a100", "count": "x"}}}, 'nodes.gpu.count: found the text "x"; expected a '),
        ({"nodes": {"gpu": {"model": "pcie-a10", "count": 1}}}, r"nodes.gpu.model: .* Did you mean `pcie-a100`"),
        ({"network": PILOT["network"] | {"levls": 2}}, "network.levls: found the unknown key `levls`"),
        ({"traffic": [{"name": "all", "sl": 0}]}, r"traffic\[0\]: found no `vl`; expected the key `vl`"),
        ({"nodes": {3: {}}}, "nodes: found the key 3; expected a name as the key"),
        ({"catalog": "nowhere"}, 'catalog: found the text "nowhere"; expected a folder of catalog tables'),
        ({"name": {1, 2}}, "name: found a value of the type set; expected text"),
    ],
)
def test_errors_of_a_mapping_name_the_path_of_keys(change: dict[str, Any], says: str) -> None:
    with pytest.raises(topo.SpecError, match=f"^{says}"):
        topo.parse(PILOT | change)


def test_a_mapping_without_end_is_refused() -> None:
    spec: dict[str, Any] = dict(PILOT)
    spec["network"] = spec
    with pytest.raises(topo.SpecError, match="found one more level of nesting; expected at most 32 levels"):
        topo.parse(spec)
    with pytest.raises(topo.SpecError, match="found more than 20,000 values"):
        topo.parse({"list": [0] * 30_000})


def test_an_unknown_preset_is_told_the_nearest() -> None:
    with pytest.raises(topo.SpecError, match="Did you mean `lab-20`"):
        topo.preset("lab-2")


@pytest.mark.parametrize(("model", "floor", "said"), [
    ("hgx-b300", "{racks_per_row: 4}",
     "gpu (hgx-b300) has no height: give `rack_units` of hgx-b300 in nodes.csv of a `catalog` of your own; "
     "limits also need `power_max_w`, `power_typical_w`, a price (prices.csv), unknown so far"),
    ("dgx-b300", "{rack_units: 4}", "gpu (dgx-b300) is 10 rack units high"),
    ("dgx-b300", "{rack_units: 48, rack_power: 9 kW}", "gpu (dgx-b300) draws"),
])  # fmt: skip
def test_a_server_that_fits_in_no_rack_is_told_where_its_model_stands(model: str, floor: str, said: str) -> None:
    text = f"""\
name: x
floor: {floor}
nodes:
  gpu: {{model: {model}, count: 2}}
network: {{shape: fat-tree, switch: Q3400}}
"""
    with pytest.raises(topo.HeddleError) as found:
        _ = topo.parse(text).layout
    (finding,) = found.value.findings
    assert finding.where.split(":")[1] == "4"
    assert said in finding.found
