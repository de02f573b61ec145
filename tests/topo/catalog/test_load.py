import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from topo.catalog.devices import DEVICE_IDS
from topo.catalog.load import Catalog, config_root, load_catalog
from topo.catalog.models import CONFIDENCE
from topo.catalog.tables import parse_table
from topo.errors import SpecError
from topo.fabric import Role
from topo.speeds import LinkSpeed

CITED = "quote 17,2026-01,own"


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog()


def write(folder: Path, **tables: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def refusals(folder: Path) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_catalog([folder])
    return [str(finding).replace(str(folder), "parts") for finding in caught.value.findings]


@pytest.mark.parametrize(
    ("name", "radix", "speed"),
    [
        ("QM8700", 40, "4xHDR"),
        ("QM8790", 40, "4xHDR"),
        ("CS8500", 800, "4xHDR"),
        ("QM9700", 64, "4xNDR"),
        ("QM9790", 64, "4xNDR"),
        ("Q3400", 144, "4xXDR"),
        ("SN5600", 64, "8xNDR"),
        ("SB7800", 36, "4xEDR"),
    ],
)
def test_switches(shipped: Catalog, name: str, radix: int, speed: str) -> None:
    model = shipped.switch(name)
    assert (model.radix, str(model.speed)) == (radix, speed)


def test_a_frame_is_a_whole_fat_tree(shipped: Catalog) -> None:
    frame = shipped.switch("CS8500")
    assert frame.leaf_chips is not None
    assert frame.spine_chips is not None
    assert frame.chip_radix is not None
    assert frame.chips == frame.leaf_chips + frame.spine_chips == 60
    assert frame.leaf_chips * frame.chip_radix // 2 == frame.radix
    assert frame.spine_chips * frame.chip_radix == frame.radix


def test_published_nodes(shipped: Catalog) -> None:
    """Tables I, II and IV of arXiv 2408.14158v2."""
    pcie, dgx, storage = (shipped.node(name) for name in ("pcie-a100", "dgx-a100", "storage-3fs"))
    assert (pcie.role, pcie.gpus, pcie.adapters, pcie.power_typical_w) == (Role.COMPUTE, 8, 1, 2500)
    assert (dgx.gpus, dgx.adapters + dgx.storage_adapters, dgx.power_typical_w, dgx.power_max_w) == (8, 9, 4200, 6500)
    assert (storage.role, storage.adapters, storage.ssds, storage.ssd_tbyte) == (Role.STORAGE, 2, 16, 15.36)
    assert (pcie.gemm_tf32_tflops, pcie.gemm_fp16_tflops) == (107, 220)
    assert (dgx.gemm_tf32_tflops, dgx.gemm_fp16_tflops) == (131, 263)
    assert shipped.hca(pcie.adapter_model).speed == LinkSpeed(4, "HDR")
    # Table III: 11,250 and 19,000 units for 1,250 servers each.
    for name, total in (("pcie-a100", 11_250), ("dgx-a100", 19_000)):
        price = shipped.price(name, "units")
        assert price is not None
        assert price.low * 1250 == price.high * 1250 == total


def test_hdr_copper_ends_at_two_metres(shipped: Catalog) -> None:
    lengths = {
        kind: sorted(
            cable.length_m or 0
            for cable in shipped.cables.values()
            if cable.kind == kind and str(cable.speed) == "4xHDR"
        )
        for kind in ("DAC", "AOC")
    }
    assert lengths == {"DAC": [0.5, 1, 1.5, 2], "AOC": [3, 5, 10, 15, 20, 30, 50, 100]}


def test_every_value_has_its_source(shipped: Catalog) -> None:
    for models in (shipped.switches, shipped.nodes, shipped.hcas, shipped.cables):
        for model in models.values():
            for item in dataclasses.fields(model):
                if item.name in ("name", "sources"):
                    continue
                value, source = getattr(model, item.name), model.sources.get(item.name)
                assert source is not None or value is None or value == item.default, (model.name, item.name)
                if source is not None:
                    assert source.text
                    assert source.confidence in CONFIDENCE
                    assert source.where.startswith("configs/catalog/")


def test_unknown_is_none_and_never_zero(shipped: Catalog) -> None:
    assert shipped.switch("CS8500").power_typical_w is None
    assert shipped.price("CS8500", "USD") is None
    for path in (config_root() / "catalog").glob("*.csv"):
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                if row.get("figure") == "nvswitches" or row["model"] == "BMC-1GE":
                    continue  # none is a number of them; what is counted elsewhere counts nothing here
                if row.get("figure") == "power_end_w" and row["model"].startswith("CAT6"):
                    continue  # passive
                for column in ("value", "low", "high", "length_m", "radix"):
                    assert row.get(column, "") not in ("0", "0.0"), row


def test_prices_are_the_range_of_their_points(shipped: Catalog) -> None:
    price = shipped.price("QM8700", "USD")
    assert price is not None
    assert (price.low, price.high, len(price.points)) == (14_000, 18_700, 2)
    assert shipped.price("QM8700", "JPY") is None


def test_models_are_frozen(shipped: Catalog) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        shipped.switch("QM8700").radix = 41  # type: ignore[misc]
    with pytest.raises(TypeError):
        shipped.switches["X"] = shipped.switch("QM8700")  # type: ignore[index]


def test_look_up_names_the_nearest(shipped: Catalog) -> None:
    with pytest.raises(SpecError, match=r'no switch "QM870".*Did you mean `QM8700`\?'):
        shipped.switch("QM870")


def test_own_rows_extend(tmp_path: Path) -> None:
    parts = write(
        tmp_path / "parts",
        switches=f"model,radix,speed,source,date,confidence\nmy-switch,48,HDR100,{CITED}\n",
        hcas=f"model,ports,speed,source,date,confidence\nmy-hca,1,HDR100,{CITED}\n",
        nodes=f"model,role,adapters,adapter_model,source,date,confidence\nmy-node,compute,1,my-hca,{CITED}\n",
        prices=f"model,currency,low,high,source,date,confidence\nmy-switch,USD,9000,9500,{CITED}\n",
    )
    catalog = load_catalog([parts])
    assert catalog.switch("my-switch").speed == LinkSpeed(2, "HDR")
    assert catalog.node("my-node").adapter_model == "my-hca"
    assert catalog.switch("my-switch").sources["radix"].where == f"{parts}/switches.csv:2"
    price = catalog.price("my-switch", "USD")
    assert price is not None
    assert (price.low, price.high) == (9000, 9500)
    assert catalog.switch("QM8700").radix == 40


def test_own_rows_override_cell_by_cell_and_prices_wholly(tmp_path: Path, shipped: Catalog) -> None:
    first = write(
        tmp_path / "a",
        figures=f"model,figure,value,source,date,confidence\nQM8700,power_typical_w,231,{CITED}\n",
        prices=f"model,currency,low,high,source,date,confidence\nQM8700,CNY,1,2,{CITED}\nQM8700,CNY,3,4,{CITED}\n",
    )
    second = write(tmp_path / "b", switches=f"model,managed,source,date,confidence\nQM8700,no,{CITED}\n")
    model = load_catalog([first, second]).switch("QM8700")
    assert (model.power_typical_w, model.managed) == (231, False)
    assert model == dataclasses.replace(shipped.switch("QM8700"), power_typical_w=231.0, managed=False)
    assert model.sources["power_typical_w"].confidence == "own"
    assert model.sources["radix"].confidence == "Q"
    prices = load_catalog([first]).prices["QM8700"]
    assert list(prices) == ["CNY"]
    assert (prices["CNY"].low, prices["CNY"].high) == (1, 4)


def test_an_own_price_of_a_series_replaces_those_of_its_lengths_that_ship(tmp_path: Path, shipped: Catalog) -> None:
    """In its currency alone; a length that the same table names keeps its own."""
    lengths = [model for model in shipped.cables if model.startswith("MCP1650") and "USD" in shipped.prices[model]]
    first, *others = lengths
    row = "{},{},120,120,{}\n".format
    text = "model,currency,low,high,source,date,confidence\n" + row("MCP1650", "USD", CITED) + row(first, "USD", CITED)
    prices = load_catalog(
        [write(tmp_path / "a", prices=text.replace(f"{first},USD,120,120", f"{first},USD,7,8"))]
    ).prices
    assert others and all("USD" not in prices[model] for model in others)
    assert (prices["MCP1650"]["USD"].low, prices[first]["USD"].low) == (120, 7)
    euros = load_catalog([write(tmp_path / "b", prices=text.replace("USD", "EUR"))]).prices
    assert all(euros[model]["USD"] == shipped.prices[model]["USD"] for model in others)


@pytest.mark.parametrize(
    ("table", "text", "where", "says"),
    [
        ("switches", f"model,radx,source,date,confidence\nx,1,{CITED}\n", "switches.csv:1", "Did you mean `radix`?"),
        ("switches", f"model,radix,radix,source,date,confidence\nx,1,1,{CITED}\n", "switches.csv:1", "`radix` twice"),
        ("switches", "model,radix\nx,1\n", "switches.csv:1", "no column source, date, confidence"),
        ("switches", f"model,radix,source,date,confidence\nx,1,2,{CITED}\n", "switches.csv:2", "6 cells"),
        ("switches", f"model,radix,source,date,confidence\nx,4,{CITED}\n", "switches.csv:2", "no speed for x"),
        (
            "switches",
            f"model,radix,speed,source,date,confidence\nx,4,fast,{CITED}\n",
            "switches.csv:2, column speed",
            '"fast" for x; expected a link speed',
        ),
        (
            "switches",
            f"model,radix,speed,source,date,confidence\nx,-4,HDR,{CITED}\n",
            "switches.csv:2, column radix",
            '"-4" for x; expected a whole number, at least 1',
        ),
        (
            "switches",
            f"model,rack_units,source,date,confidence\nQM8700,1,{CITED}\nQM8700,2,{CITED}\n",
            "switches.csv:3",
            "QM8700 a second time",
        ),
        ("nodes", f"model,gpus,source,date,confidence\nQM8700,1,{CITED}\n", "nodes.csv:2", "not in switches.csv"),
        (
            "figures",
            f"model,figure,value,source,date,confidence\npcie-a100,adapters,0,{CITED}\n",
            "figures.csv:2, column adapters",
            '"0" for pcie-a100; expected a whole number, at least 1',
        ),
        (
            "nodes",
            f"model,adapter_model,source,date,confidence\npcie-a100,MCX653105A,{CITED}\n",
            "nodes.csv:2",
            "Did you mean `MCX653105A-HDAT`?",
        ),
        (
            "nodes",
            f"model,power_typical_w,power_max_w,source,date,confidence\ndgx-h200,12000,10200,{CITED}\n",
            "nodes.csv:2",
            "power_typical_w 12000 above power_max_w 10200 for dgx-h200; expected no more",
        ),
        (
            "switches",
            f"model,radix,source,date,confidence\nQM8700,0,{CITED}\n",
            "switches.csv:2, column radix",
            '"0" for QM8700; expected a whole number, at least 1',
        ),
        (
            "switches",
            f"model,radix,cages,source,date,confidence\nQM9700,64,33,{CITED}\n",
            "switches.csv:2",
            "33 cages for 64 ports of QM9700; expected as many ports in each cage",
        ),
        (
            "figures",
            f"model,figure,value,source,date,confidence\nQM8700,power_w,1,{CITED}\n",
            "figures.csv:2",
            'the figure "power_w"',
        ),
        (
            "figures",
            f"model,figure,value,source,date,confidence\nQM870,power_max_w,1,{CITED}\n",
            "figures.csv:2",
            "Did you mean `QM8700`?",
        ),
        (
            "figures",
            f"model,figure,value,source,date,confidence\nQM8700,power_max_w,nan,{CITED}\n",
            "figures.csv:2, column power_max_w",
            '"nan" for QM8700; expected a number such as 31000.5, from 0 to 1e+12',
        ),
        (
            "prices",
            f"model,currency,low,high,source,date,confidence\nQM8700,,1,2,{CITED}\n",
            "prices.csv:2",
            "no currency for QM8700",
        ),
        (
            "prices",
            f"model,currency,low,high,source,date,confidence\nQM8700,USD,-1,2,{CITED}\n",
            "prices.csv:2, column low",
            '"-1" for QM8700; expected a number such as 31000.5, from 0 to 1e+12',
        ),
        *(
            (
                "prices",
                f'model,currency,low,high,source,date,confidence\nQM8700,USD,1,"{high}",{CITED}\n',
                "prices.csv:2, column high",
                f'"{high}" for QM8700; expected a number such as 31000.5, from 0 to 1e+12',
            )
            for high in ("31,000", "1e300", "1e13")
        ),
        (
            "prices",
            f"model,currency,low,high,source,date,confidence\nQM8700,USD,3,2,{CITED}\n",
            "prices.csv:2",
            "3.0 above 2.0 for QM8700",
        ),
        (
            "prices",
            "model,currency,low,high,source,date,confidence\nQM8700,USD,1,2,,2026,own\n",
            "prices.csv:2, column source",
            "no source for QM8700",
        ),
        (
            "prices",
            "model,currency,low,high,source,date,confidence\nQM8700,USD,1,2,x,yesterday,own\n",
            "prices.csv:2, column date",
            '"yesterday"',
        ),
        (
            "prices",
            "model,currency,low,high,source,date,confidence\nQM8700,USD,1,2,x,2026,sure\n",
            "prices.csv:2, column confidence",
            '"sure"',
        ),
        ("switchs", "model\n", "switchs.csv", "Did you mean `switches.csv`?"),
        ("prices", 'model,"currency\n', "prices.csv:1", "not CSV"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_bad_tables(table: str, text: str, where: str, says: str, tmp_path: Path) -> None:
    (said,) = refusals(write(tmp_path / "parts", **{table: text}))
    assert said.startswith(f"parts/{where}: found ")
    assert says in said


@pytest.mark.parametrize(("column", "watts"), [("power_typical_w", 1e6), ("power_max_w", 0.5)])
def test_a_power_that_contradicts_the_one_that_ships_names_both_places(
    column: str, watts: float, tmp_path: Path, shipped: Catalog
) -> None:
    (said,) = refusals(
        write(tmp_path / "parts", switches=f"model,{column},source,date,confidence\nQM8700,{watts},{CITED}\n")
    )
    other = {"power_typical_w", "power_max_w"} - {column}
    where, _, _ = said.partition(": found power_typical_w")
    assert {*where.split(" and ")} == {"parts/switches.csv:2", shipped.switch("QM8700").sources[other.pop()].where}


def test_all_findings_are_told(tmp_path: Path) -> None:
    parts = write(
        tmp_path / "parts",
        switches="model,radix,source,date,confidence\nx y,1,,,\n",
        prices=f"model,currency,low,high,source,date,confidence\nQM8700,usd,1,2,{CITED}\nnone,USD,1,2,{CITED}\n",
    )
    assert len(refusals(parts)) == 6


def test_quotes_are_one_file_beside_the_spec(tmp_path: Path) -> None:
    """The example of docs/catalog.md, word by word."""
    document = (Path(__file__).parents[3] / "docs" / "catalog.md").read_text(encoding="utf-8")
    table = document.partition("```csv\n")[2].partition("```")[0]
    (tmp_path / "prices.csv").write_text(table)
    network = {"shape": "fat-tree", "switch": "QM9700"}
    spec = {
        "name": "x",
        "catalog": "prices.csv",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 2}},
        "network": network,
    }
    catalog = topo.parse(spec, tmp_path).catalog
    price = catalog.price("QM9700", "USD")
    assert price is not None and (price.low, price.high) == (31_000, 31_000), "quotes replace what ships"
    assert price.points[0].source.where.endswith("prices.csv:2")
    (tmp_path / "quotes.csv").write_text(table)
    with pytest.raises(SpecError, match=r"the table quotes\.csv"):
        topo.parse(spec | {"catalog": "quotes.csv"}, tmp_path)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no readable folder"):
        load_catalog([tmp_path / "none"])


@pytest.mark.slow
@given(st.text(max_size=200) | st.text(alphabet='model,source,date,confidence\n"\r \0', max_size=200))
def test_junk_is_read_or_refused(text: str) -> None:
    try:
        parse_table(text, "f.csv", ("radix",))
    except SpecError as error:
        assert all(finding.where.startswith("f.csv") for finding in error.findings)


def test_a_new_switch_is_one_row(tmp_path: Path) -> None:
    """Ports, device id, panel and cables of a fabric follow from it."""
    header = "model,protocol,chip,radix,speed,connector,source,date,confidence"
    row = "QX1,infiniband,Quantum-2,12,4xNDR,OSFP,a data sheet,2026-01,R"
    (tmp_path / "switches.csv").write_text(f"{header}\n{row}\n")
    catalog = load_catalog([tmp_path])
    network = {"shape": "fat-tree", "switch": "QX1", "leaves": 2, "spines": 1}
    spec = {"name": "own", "nodes": {"gpu": {"model": "pcie-a100", "count": 6}}, "network": network}
    fabric = topo.compile(topo.ClusterSpec.model_validate(spec), catalog).fabric
    assert {int(ports) for ports in np.diff(fabric.port_offset)[: fabric.n_switches]} == {12}
    assert topo.device_id(fabric, 0, catalog) == topo.device_id(fabric, 2, catalog) == DEVICE_IDS["Quantum-2"]
    assert topo.panels([fabric], catalog)[0].labels[:2] == ("1", "2")


def test_one_chip_has_one_latency(shipped: Catalog) -> None:
    """What a header takes through a chip does not depend on the box; unknown is no second figure."""
    of_chip: dict[str, set[float]] = {}
    for model in shipped.switches.values():
        if model.chip and model.latency_ns is not None:
            of_chip.setdefault(model.chip, set()).add(model.latency_ns)
    assert all(len(known) == 1 for known in of_chip.values()), of_chip
    assert of_chip["Quantum"] == {90.0}


def test_a_splitter_has_the_legs_that_its_data_sheet_says(shipped: Catalog) -> None:
    """NVIDIA's MCP7Y00 and MCP7Y10 lead to two ends, MCP7Y40 and MCP7Y50 to four."""
    for model, legs in {"MCP7Y00-N001": 2, "MCP7Y10-N001": 2, "MCP7Y40-N001": 4, "MCP7Y50-N001": 4}.items():
        assert shipped.cables[model].legs == legs


def test_servers_of_the_same_gpus_have_the_same_inside() -> None:
    """So that a job of GPUs that plays on one plays on all; what their adapters carry together is one figure."""
    inside: dict[tuple[str | None, int], set[tuple[float | None, ...]]] = {}
    for node in load_catalog().nodes.values():
        rates = node.nvlink_gbyte_per_s, node.nvlink_used_gbyte_per_s, node.nvlink_gpus, node.nvswitches
        cards = node.gpu_adapter_gbyte_per_s and node.gpu_adapter_gbyte_per_s * node.adapters
        inside.setdefault((node.gpu, node.gpus), set()).add((*rates, node.gpu_host_gbyte_per_s, cards))
    assert {key for key, found in inside.items() if len(found) > 1} == set()
