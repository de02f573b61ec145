import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from topo.catalog.load import Catalog, config_root, load_catalog
from topo.cluster import Cluster, preset, read, validate_spec
from topo.cluster_spec import ClusterSpec, Terms
from topo.errors import DesignError, SpecError
from topo.fabric import Fabric, Role
from topo.files.yaml import parse_yaml

PILOT = """\
name: pilot
nodes:
  gpu: {model: pcie-a100, count: 16}
network: {shape: fat-tree, switch: QM8700}
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def findings(text: str, catalog: Catalog, engines: list[str] | None = None) -> list[str]:
    with pytest.raises(SpecError) as caught:
        validate_spec(parse_yaml(text, "f"), catalog, engines)
    return [str(finding) for finding in caught.value.findings]


def test_fire_flyer_2() -> None:
    cluster = preset("fire-flyer-2")
    spec = cluster.spec
    assert spec.name == "fire-flyer-2"
    assert {name: group.count for name, group in spec.nodes.items()} == {"gpu": 1200, "storage": 180}
    assert [item.name for item in spec.traffic] == ["hfreduce", "nccl", "storage", "other"]
    assert spec.traffic[2].roles == (Role.STORAGE,)
    assert spec.budget.typical_power == 4e6
    assert cluster.catalog.node(spec.nodes["gpu"].model).gpus == 8
    assert spec.network.joints.placement == "border"


@pytest.mark.parametrize("key", ["budget: {price: 5 XXX}", "currency: XXX"])
def test_a_currency_in_which_nothing_has_a_price_is_refused(key: str, catalog: Catalog) -> None:
    (found,) = findings(f"{PILOT}{key}\n", catalog)
    assert found.endswith("expected a currency with prices in the catalog: EUR, USD, units")
    for name in ("EUR", "USD"):
        assert validate_spec(parse_yaml(f"{PILOT}{key.replace('XXX', name)}\n", "f"), catalog).priced_in == name


@pytest.mark.parametrize("value", ["maybe", "yes", "1", '"true"'])
def test_a_key_with_a_switch_and_a_word_names_both(value: str, catalog: Catalog) -> None:
    (found,) = findings(PILOT.replace("QM8700}", f"QM8700, split: {value}}}"), catalog)
    assert found.endswith("expected true, false or nodes")


@pytest.mark.parametrize("given, other", [("support: 0.1", "support_years"), ("support_years: 3", "support")])
def test_support_without_its_years_is_refused_and_years_without_their_price(
    given: str, other: str, catalog: Catalog
) -> None:
    (found,) = findings(f"{PILOT}terms: {{tax: 0.19, {given}}}\n", catalog)
    assert f"found no `{other}` beside `{given.partition(':')[0]}`; expected `support` and `support_years`" in found


def test_tax_is_on_prices_that_have_none_in_them(catalog: Catalog) -> None:
    """A specification in the Netherlands, where VAT is 21 %, has 22,000, 16,500 and 1,450 euros with VAT."""
    taxed = Terms(tax=0.21).apply(catalog)
    for name, gross in (("QM8700", 22_000), ("QM8790", 16_500), ("MCX653105A-HDAT", 1_450)):
        (low, *_) = sorted(point.low for point in taxed.prices[name]["EUR"].points)
        assert low == pytest.approx(gross, abs=0.01)


@pytest.mark.parametrize("value", ["5%", "high", "[1]"])
def test_a_share_that_is_no_number_is_refused_with_what_a_share_is(value: str, catalog: Catalog) -> None:
    for text in (f"spares: {{cables: {value}}}", f"terms: {{tax: {value}}}"):
        (found,) = findings(f"{PILOT}{text}\n", catalog)
        assert found.endswith("; expected a number from 0 to 1, such as 0.05")
    (found,) = findings(f"{PILOT}owning: {{years: 3, pue: {value}, price_per_kwh: 1, currency: USD}}\n", catalog)
    assert found.endswith("; expected a number from 1 to 5")


def test_a_switch_that_is_excluded_is_refused_where_it_is_named(catalog: Catalog) -> None:
    """By its line, and not as unknown; one that no network names may be excluded."""
    (found,) = findings(PILOT + "exclude: [QM8700, MFS1S00-H003V]\n", catalog)
    assert re.fullmatch(r'f:\d+:\d+: found the text "QM8700"; expected the name of a switch that .exclude. .*', found)
    assert validate_spec(parse_yaml(PILOT + "exclude: [QM8790]\n", "f"), catalog).exclude == ("QM8790",)
    assert findings(PILOT + "exclude: [[QM8700]]\n", catalog)[0].endswith("expected text")


def test_defaults(catalog: Catalog) -> None:
    spec = validate_spec(parse_yaml(PILOT, "f"), catalog)
    assert (spec.routing.engine, spec.traffic, spec.budget.power, spec.budget.switches) == ("auto", (), None, None)
    assert spec.nodes["gpu"].role is None


def test_a_role_may_be_overridden(catalog: Catalog) -> None:
    text = PILOT.replace("pcie-a100, count: 16", "storage-3fs, count: 16, role: compute")
    spec = validate_spec(parse_yaml(text, "f"), catalog)
    assert spec.nodes["gpu"].role == Role.COMPUTE
    (fabric,) = Cluster(spec, catalog).fabrics
    assert Role.STORAGE not in fabric.role


def test_specs_are_frozen(catalog: Catalog) -> None:
    spec = validate_spec(parse_yaml(PILOT, "f"), catalog)
    with pytest.raises(ValidationError):
        spec.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("preset", sorted(path.stem for path in config_root().glob("*.yaml")))
def test_what_is_written_reads_the_same(preset: str, tmp_path: Path) -> None:
    spec = read(config_root() / f"{preset}.yaml").spec
    file = tmp_path / "again.yaml"
    with file.open("w", encoding="utf-8") as stream:
        YAML(typ="safe", pure=True).dump(spec.model_dump(mode="json", exclude_none=True), stream)
    assert read(file).spec == spec


def test_unknown_engine(catalog: Catalog) -> None:
    text = PILOT + "routing: {engine: balancd}\n"
    (said,) = findings(text, catalog, ["balanced", "min-hop"])
    assert said == 'f:5:19: found the text "balancd"; expected the name of a routing engine. Did you mean `balanced`?'
    assert validate_spec(parse_yaml(text, "f"), catalog).routing.engine == "balancd"


@pytest.mark.parametrize(
    ("network", "where", "says"),
    [
        ("{shape: fat-three, switch: QM8700}", "f:4:18", "Did you mean `fat-tree`?"),
        ("{switch: QM8700}", "f:4:1", "found no `shape`; expected `shape`: one of "),
        ("{switch: QM8700, shpae: rail}", "f:4:27", "found the unknown key `shpae`; expected `shape`: one of "),
        ("{switch: QM8700, shpae: rail}", "f:4:27", "Did you mean `shape`?"),
        ("{shape: [zones]}", "f:4:18", "found a list of 1; expected one of "),
        ("{shape: fat-tree}", "f:4:1", "found no `switch`; expected the key `switch`"),
        ("{shape: fat-tree, switch: QM8700, leafs: 4}", "f:4:44", "Did you mean `leaves`?"),
        (
            "{shape: fat-tree, switch: QM8700, oversubscription: yes}",
            "f:4:62",
            'found the text "yes"; expected a number',
        ),
        ("{shape: fat-tree, switch: QM8700, leaves: true}", "f:4:52", "found true; expected a whole number"),
        ("", "f:4:1", "found nothing; expected a mapping"),
    ],
)
def test_network(network: str, where: str, says: str, catalog: Catalog) -> None:
    (said,) = findings(PILOT.replace("{shape: fat-tree, switch: QM8700}", network), catalog)
    assert said.startswith(f"{where}: ")
    assert says in said


def test_the_tag_of_a_shape_is_not_mistaken_for_its_key(catalog: Catalog) -> None:
    """`zones` is a shape and a key of it: pydantic's path holds the shape, the document the key."""
    text = PILOT.replace(
        "{shape: fat-tree, switch: QM8700}",
        "\n  shape: zones\n  zones: 1\n  tree:\n    swich: QM8700\n  joints: {switch: QM8700, count: 2, ports: 0}",
    )
    assert [said.partition(": ")[0] for said in findings(text, catalog)] == ["f:6:10", "f:7:3", "f:8:5", "f:9:45"]


def test_many_errors_are_counted(catalog: Catalog) -> None:
    with pytest.raises(SpecError) as caught:
        validate_spec(parse_yaml(PILOT + "".join(f"key{number}: 1\n" for number in range(50)), "f"), catalog)
    assert len(caught.value.findings) == 50
    said = str(caught.value).splitlines()
    assert len(said) == 21
    assert said[-1] == "30 more findings"


def test_places_inside_an_alias_are_those_of_its_anchor(catalog: Catalog) -> None:
    text = PILOT.replace("{model: pcie-a100, count: 16}", "&group {model: pcie-a100, count: 0}\n  more: *group")
    assert [said.partition(": ")[0] for said in findings(text, catalog)] == ["f:3:41", "f:3:41"]


def test_own_catalog(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    table = tmp_path / "parts" / "switches.csv"
    head = "model,radix,speed,source,date,confidence\n"
    table.write_text(f"{head}mine,36,EDR,quote,2026,own\n", encoding="utf-8")
    file = tmp_path / "spec.yaml"
    file.write_text(PILOT.replace("QM8700", "mine") + "catalog: parts/\n", encoding="utf-8")
    cluster = read(file)
    assert cluster.catalog.switch("mine").radix == 36
    assert "mine" in cluster.fabric.models

    table.write_text(f"{head}mine,thirty,EDR,quote,2026,own\n", encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{table}:2, column radix: found ")

    file.write_text(PILOT + 'catalog: "spec.yaml"\n', encoding="utf-8")
    with pytest.raises(SpecError, match=r"5:10: found the text .*; expected a folder"):
        read(file)


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("x" * 5000, "5:10: found the text .*; expected a folder"),
        ("spec.yaml/x", "5:10: found the text .*; expected a folder"),
        ("''", "5:10: found the text .*; expected a folder"),
        (".", "found a folder without tables; expected one with any of switches.csv"),
    ],
    ids=["too long", "below a file", "empty", "no tables"],
)
def test_a_catalog_that_cannot_be_one(folder: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(f"{PILOT}catalog: {folder}\n", encoding="utf-8")
    with pytest.raises(SpecError, match=says):
        read(file)


def junk() -> st.SearchStrategy[Any]:
    keys = [
        "name",
        "nodes",
        "gpu",
        "count",
        "model",
        "network",
        "shape",
        "zones",
        "tree",
        "switch",
        "joints",
        "traffic",
    ]
    words = st.sampled_from([*keys, "traffic", "sl", "roles", "pcie-a100", "fat-tree", "QM8700"])
    scalars = words | st.none() | st.booleans() | st.integers(-5, 50_000) | st.floats() | st.text(max_size=5)
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5), max_leaves=20
    )


def mostly(good: Any) -> st.SearchStrategy[Any]:
    return st.just(good) | st.just(good) | junk()


SPECS = st.fixed_dictionaries(
    {
        "name": mostly("pilot"),
        "nodes": mostly({"gpu": {"model": "pcie-a100", "count": 16}})
        | st.fixed_dictionaries({"gpu": st.fixed_dictionaries({"model": mostly("pcie-a100"), "count": mostly(3)})}),
        "network": mostly({"shape": "fat-tree", "switch": "QM8700"})
        | st.fixed_dictionaries(
            {
                "shape": mostly("zones"),
                "zones": mostly(2),
                "tree": mostly({"switch": "QM8700"}) | st.fixed_dictionaries({"switch": mostly("QM8700")}),
                "joints": mostly({"switch": "QM8700", "count": 2, "ports": 4}),
            }
        ),
    },
    optional={"traffic": junk(), "budget": junk(), "routing": junk(), "catalog": st.none(), "extra": junk()},
)


@pytest.mark.slow
@given(SPECS | junk())
def test_junk_is_a_spec_or_refused_with_places(catalog: Catalog, value: Any) -> None:
    stream = StringIO()
    YAML(typ="safe", pure=True).dump(value, stream)
    try:
        spec = validate_spec(parse_yaml(stream.getvalue(), "f"), catalog)
    except SpecError as error:
        assert all(finding.where.startswith("f") for finding in error.findings)
        assert all(finding.found and finding.expected for finding in error.findings)
    else:
        assert isinstance(spec, ClusterSpec)


@given(
    gpus=st.integers(1, 2000),
    storage=st.integers(1, 300),
    zones=st.integers(2, 4),
    ports=st.integers(1, 60),
    joints=st.integers(1, 6),
    placement=st.sampled_from(["border", "spread"]),
    switch=st.sampled_from(["QM8700", "SB7800", "QM9700"]),
)
def test_random_specs_compile_or_are_refused_with_numbers(
    catalog: Catalog, gpus: int, storage: int, zones: int, ports: int, joints: int, placement: str, switch: str
) -> None:
    text = f"""\
name: random
nodes:
  gpu: {{model: pcie-a100, count: {gpus}}}
  storage: {{model: storage-3fs, count: {storage}}}
network:
  shape: zones
  zones: {zones}
  tree: {{switch: {switch}}}
  shared: {"[storage]" if zones == 2 else "[]"}
  joints: {{switch: {switch}, count: {joints}, ports: {ports}, placement: {placement}}}
"""
    spec = validate_spec(parse_yaml(text, "f"), catalog)
    try:
        (fabric,) = Cluster(spec, catalog).fabrics
    except DesignError as error:
        assert any(character.isdigit() for character in str(error))
        return
    assert_ports_consistent(fabric)
    assert len(fabric.hosts) == gpus + storage


def assert_ports_consistent(fabric: Fabric) -> None:
    for port, peer in enumerate(fabric.peer.tolist()):
        if peer >= 0:
            assert fabric.peer[peer] == port
            assert fabric.speed[peer] == fabric.speed[port]
            assert fabric.width[peer] == fabric.width[port]


@pytest.mark.parametrize("currency", ["", "currency: USD\n", "currency: EUR\n"])
@pytest.mark.parametrize("budget", ["", "budget: {price: 9000000 USD}\n", "budget: {price: 9000000 EUR}\n"])
@pytest.mark.parametrize("owns", ["", "USD", "CNY"])
def test_a_spec_has_one_currency_or_is_refused_where_it_has_two(
    currency: str, budget: str, owns: str, catalog: Catalog
) -> None:
    owning = f"owning: {{years: 5, pue: 1.3, price_per_kwh: 0.1, currency: {owns}}}\n" if owns else ""
    named = {text[-4:-1].strip("}") for text in (currency, budget.replace("}", "")) if text} | (
        {owns} if owns else set()
    )
    text = PILOT + owning + budget + currency
    if len(named) > 1:
        with pytest.raises(SpecError, match=r"expected (USD|EUR|CNY), the currency of `(budget|owning)\."):
            validate_spec(parse_yaml(text, "spec.yaml"), catalog)
    else:
        spec = validate_spec(parse_yaml(text, "spec.yaml"), catalog)
        assert spec.priced_in == (named.pop() if named else None)
