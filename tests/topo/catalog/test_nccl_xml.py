"""NCCL's description of a server: what was described comes back, and what a model cannot say is refused."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from topo.catalog.nccl_xml import parse_server
from topo.errors import FormatError

GBYTE = {"8.0 GT/s PCIe": 12.0, "16 GT/s": 24.0, "32.0 GT/s PCIe": 48.0, "64.0 GT/s PCIe": 96.0}
"""GB/s of 16 lanes, as NCCL prints them of its graph (INFO GRAPH: PCI/24.0, PCI/48.0)."""


def describe(
    gpus: int, nics: int, bridges: int, *, sm: int = 90, speed: str = "32.0 GT/s PCIe", uplink: str = "",
    nvlink: str = "", links: int = 18, storage: int = 0, vendor: str = "GenuineIntel", width: int = 16,
) -> str:  # fmt: skip
    """Return the XML of a server; ``nvlink`` is switches, all or pairs."""

    def gpu(at: int) -> str:
        others = [one for one in range(gpus) if one != at and (nvlink == "all" or one // 2 == at // 2)]
        targets = {"": [], "switches": [f"0000:a{one}:00.0" for one in range(2)]}.get(
            nvlink, [bus(one) for one in others]
        )
        kind = "0x068000" if nvlink == "switches" else "0x030200"
        share = links // max(len(targets), 1)
        inner = "".join(f'<nvlink target="{one}" count="{share}" tclass="{kind}"/>' for one in targets)
        return device("0x030200", bus(at), f'<gpu dev="{at}" sm="{sm}" rank="{at}" gdr="1">{inner}</gpu>', speed)

    def bus(at: int) -> str:
        return f"0000:{16 + at:02X}:00.0"

    def nic(at: int, mbps: int = 400_000) -> str:
        net = f'<net name="mlx5_{at}" dev="{at}" speed="{mbps}" port="1" guid="0x{at + 1}" maxconn="131072" gdr="1"/>'
        return device("0x020700", f"0000:{80 + at:02x}:00.0", f"<nic>{net}</nic>", speed)

    def device(kind: str, at: str, inner: str, rate: str) -> str:
        return f'<pci busid="{at}" class="{kind}" link_speed="{rate}" link_width="{width}">{inner}</pci>'

    devices = [gpu(at) for at in range(gpus)], [nic(at) for at in range(nics)]
    if bridges:
        tops = []
        for at in range(bridges):
            parts = ["".join(found[len(found) * at // bridges : len(found) * (at + 1) // bridges]) for found in devices]
            inner = device("0x060400", f"0000:0{at}:01.0", parts[0], speed)  # a switch in a switch
            tops.append(device("0x060400", f"0000:0{at}:00.0", inner + parts[1], uplink or speed))
    else:
        tops = [*devices[0], *devices[1]]
    tops += [nic(nics + at, 100_000) for at in range(storage)]
    half = len(tops) // 2
    cpus = [f'<cpu numaid="{at}" arch="x86_64" vendor="{vendor}">{"".join(part)}</cpu>'
            for at, part in enumerate((tops[:half], tops[half:]))]  # fmt: skip
    return f'<system version="1">{"".join(cpus)}</system>'


@given(
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.sampled_from(sorted(GBYTE)),
    st.sampled_from(sorted(GBYTE)), st.integers(0, 2), st.sampled_from([8, 16]),
)  # fmt: skip
def test_what_was_described_comes_back(
    bridges: int, per_gpu: int, per_nic: int, speed: str, uplink: str, storage: int, width: int
) -> None:
    text = describe(bridges * per_gpu, bridges * per_nic, bridges, speed=speed, uplink=uplink, storage=storage,
                    width=width)  # fmt: skip
    found = parse_server(text, "mine.xml")
    assert (found.gpus, found.adapters, found.pcie_switches) == (bridges * per_gpu, bridges * per_nic, bridges)
    assert found.gpu_host_gbyte_per_s == found.gpu_adapter_gbyte_per_s == GBYTE[speed] * width / 16
    assert found.pcie_switch_gbyte_per_s == GBYTE[uplink] * width / 16
    assert (found.nvlink_gpus, found.nvswitches, found.nvlink_used_gbyte_per_s) == (None, None, None)
    assert found.memory_gbyte_per_s is None  # NCCL does not tell


@pytest.mark.parametrize(("sm", "links", "like"), [(80, 12, "dgx-a100"), (90, 18, "dgx-h100"), (100, 18, "dgx-b200")])
def test_nvlink_is_that_of_the_catalog(sm: int, links: int, like: str) -> None:
    model = topo.load_catalog().node(like)
    found = parse_server(describe(8, 8, 4, sm=sm, nvlink="switches", links=links), "mine.xml")
    assert found.nvlink_used_gbyte_per_s == pytest.approx(model.nvlink_used_gbyte_per_s)
    assert (found.nvlink_gpus, found.nvswitches) == (8, 2)
    assert found.gpu in (model.gpu or "")


@pytest.mark.parametrize(("nvlink", "joined"), [("all", 4), ("pairs", 2)])
def test_links_between_gpus_join_all_or_pairs(nvlink: str, joined: int) -> None:
    found = parse_server(describe(4, 1, 0, sm=86, nvlink=nvlink, links=3, vendor="AuthenticAMD"), "mine.xml")
    assert (found.nvlink_gpus, found.nvswitches, found.cpu) == (joined, 0, "EPYC")
    assert found.nvlink_used_gbyte_per_s == 36
    assert parse_server(describe(4, 1, 0, sm=89, nvlink=nvlink, links=3), "x").nvlink_used_gbyte_per_s == 60


def test_without_bridges_the_fastest_adapters_count() -> None:
    found = parse_server(describe(4, 2, 0, storage=2), "mine.xml")
    assert (found.adapters, found.pcie_switches, found.pcie_switch_gbyte_per_s) == (2, None, None)


CUBE = re.sub(r'<nvlink target="0000:11:00.0"[^>]*>', "", describe(8, 8, 4, nvlink="all", links=14))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<system>", "found no XML"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><system/>", "found a document type"),
        ("<topology/>", "found the element 'topology'"),
        ('<system version="1"/>', "found 0 GPUs and 0 adapters"),
        (describe(8, 0, 4), "found 8 GPUs and 0 adapters"),
        (describe(6, 4, 4), "GPUs below bridges as"),
        (describe(8, 6, 4), "adapters below bridges as"),
        (describe(2, 2, 2).replace('sm="90" rank="1"', 'sm="80" rank="1"'), "GPUs of compute capability 80, 90"),
        (describe(2, 2, 2).replace('<cpu numaid="1"', '<cpu host_hash="0x1" numaid="1"'), "found several hosts"),
        (CUBE, "NVLink from some GPUs to some"),
    ],
)
def test_what_a_model_cannot_say_is_refused(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=re.escape(words)):
        parse_server(text, "mine.xml", "mine.xml")


def test_the_example_of_a_published_dump_is_read() -> None:
    """One GPU of a DGX A100 with a 100G adapter, below three bridges, as notes on NCCL's start-up print it."""
    switches = "".join(f'<nvlink target="0000:{at}:00.0" count="2" tclass="0x068000"/>' for at in ("e7", "e4"))
    pci = '<pci busid="0000:{}:00.0" class="{}" link_speed="{} GT/s" link_width="16">'
    bridges = "".join(pci.format(at, "0x060400", 8) for at in (11, 13, 15))
    text = (
        f'<system version="1"><cpu numaid="0" vendor="GenuineIntel">{bridges}{pci.format(17, "0x030200", 16)}'
        f'<gpu dev="0" sm="80" rank="0" gdr="1">{switches}</gpu></pci></pci></pci>{pci.format("1c", "0x020000", 8)}'
        '<nic><net name="mlx5_0" dev="0" speed="100000" port="1" gdr="1"/></nic></pci></pci></cpu></system>'
    )
    found = parse_server(text, "x")
    assert (found.gpus, found.adapters, found.pcie_switches, found.gpu) == (1, 1, 1, "A100")
    assert (found.gpu_host_gbyte_per_s, found.gpu_adapter_gbyte_per_s, found.pcie_switch_gbyte_per_s) == (24, 12, 12)
    assert found.nvlink_gpus is None  # there is no other


def test_more_of_anything_never_takes_from_another() -> None:
    """Rates grow with the generation of PCIe, and with lanes."""
    rates = [parse_server(describe(2, 2, 2, speed=speed), "x").gpu_host_gbyte_per_s for speed in GBYTE]
    assert all(a < b for a, b in pairwise(rates))
