"""Drawings: well-formed, every switch, zone and link in them, the same bytes each time, nothing on top of another."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given

from helpers.clusters import zoned
from helpers.presets import ALIKE, EACH, read_preset, subnets
from helpers.strategies import examples, fabrics
from plan.cli import run
from routing.engines.balanced import route
from routing.proof import prove
from routing.routed import Routed
from topo.builder import FabricBuilder
from topo.catalog.load import config_root
from topo.cluster import parse
from topo.drawing import draw, lay_out
from topo.drawing.scene import Scene, cable_pairs
from topo.dumps.levels import find_levels
from topo.errors import HeddleError
from topo.fabric import Fabric, Role
from topo.palette import LOADS

SVG = "{http://www.w3.org/2000/svg}"


def drawn(name: str, **more: object) -> str:
    source = read_preset(name)
    return draw(source, **more).svg


def texts(drawing: str, kind: str) -> list[str]:
    """What all elements of a kind say."""
    return ["".join(element.itertext()) for element in ElementTree.fromstring(drawing).iter(f"{SVG}{kind}")]


def check_scene(scene: Scene, fabric: Fabric) -> None:
    """Each switch has one box, each link one line, fan or pair of ends; boxes and hosts are apart and on the page."""
    assert sorted(switch for cell in scene.cells for switch in cell.switches) == list(range(fabric.n_switches))
    cables = {link for (a, b), links in cable_pairs(fabric).items() if a != b for link in links}
    inside = {cell.switches: set(cell.switches) for cell in scene.cells if len(cell.switches) > 1}
    within = {
        link
        for link in cables
        if any(set(fabric.port_node[fabric.links[link]].tolist()) <= members for members in inside.values())
    }
    whole = [link for stroke in scene.strokes if not stroke.end for link in stroke.links]
    whole += [link for fan in scene.fans for link in fan.links]
    ends = [link for stroke in scene.strokes if stroke.end for link in stroke.links]
    assert len(whole) == len(set(whole))
    assert set(whole) | set(ends) == cables - within
    assert set(np.unique(ends, return_counts=True)[1].tolist()) <= {2}
    for fan in scene.fans:
        assert sorted(link for links, _, _ in fan.spokes for link in links) == list(fan.links)
    boxes = [(cell.x, cell.y, cell.x + cell.width, cell.y + cell.height) for cell in scene.cells]
    boxes += [(h.x, h.y, h.x + h.width, h.y + h.height) for h in scene.hosts]
    for left, top, right, bottom in boxes:
        assert left >= 0 <= top
        assert right <= scene.width
        assert bottom <= scene.height
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    seated = sum(len(hosts.ports) for hosts in scene.hosts)
    assert seated == np.count_nonzero(fabric.end_switch[fabric.n_switches :] >= 0)


@pytest.mark.parametrize("name", EACH)
def test_every_preset_is_drawn_whole(name):
    for fabric in subnets(name):
        scene = lay_out(fabric)
        check_scene(scene, fabric)
        for one, other in combinations(scene.fans, 2):  # labels of 5 pixels a letter, two lines of 13 pixels each
            apart = abs(one.at[0] - other.at[0]), abs(one.at[1] - other.at[1])
            assert apart[0] >= 2.5 * len(one.label + other.label) or apart[1] >= 26


@examples(30)
@given(fabric=fabrics(ports=1))
def test_any_fabric_is_drawn_whole(fabric):
    check_scene(lay_out(find_levels(fabric)), fabric)


@pytest.mark.parametrize("name", EACH)
def test_every_switch_and_zone_is_named(name):
    drawing = drawn(name)
    titles = "\n".join(texts(drawing, "title"))
    words = set(texts(drawing, "text"))
    for fabric in subnets(name):
        assert all(fabric.label(switch) in titles for switch in range(fabric.n_switches))
    if name.startswith("fire-flyer"):
        assert {"zone 0", "zone 1", "joints"} <= words
    assert name in words


def test_the_same_bytes_each_time():
    assert drawn("slow-subtrees") == drawn("slow-subtrees")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "says"), [
    ("lab-20", ["10 links a line", "gpu00", "storage1", "head0"]),
    ("fire-flyer-2", ["800 links: 1 from each of 40 to each of 20", "10 links a line", "z1-leaf39"]),
    ("pcie-three-level", ["pod 3", "400 links: 10 from each of 20 to 2 of 40"]),
    ("dgx-baseline", ["320 cores", "core000 – core319", "pod 24", "400 links a line", "400 gpu"]),
    ("direct-zones", ["20 links"]),
    ("eflops-bigraph", ["upper side", "lower side", "256 links: 1 from each of 16 to each of 16"]),
    ("dragonfly", ["group 8"]),
    ("torus", ["layer 3"]),
    ("slim-fly", ["half 1"]),
    ("hdr-on-ndr", ["400 Gb/s", "200 Gb/s"]),
])  # fmt: skip
def test_a_person_reads(name, says):
    words = texts(drawn(name), "text")

    for words_wanted in says:
        assert words_wanted in words


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALIKE))
def test_planes_that_are_alike_are_drawn_once(name):
    words = texts(drawn(name), "text")
    last = read_preset(name).spec.network.planes - 1

    (headline,) = [line for line in words if line.startswith(f"{name}-plane[0-{last}]")]
    assert headline.endswith("each")


@pytest.mark.parametrize("value", [-1, np.nan, np.inf, None])
def test_loads_that_no_channel_can_have_are_refused(value):
    fabric = zoned()
    load = np.zeros(fabric.n_ports)
    load[0] = 0 if value is None else value
    for loads in (load[1:], [1, 2, 3], [load, load]) if value is None else (load, [load]):
        with pytest.raises(HeddleError, match="; expected an array"):
            draw([fabric], loads)
    assert value is not None or draw([fabric], load).svg


def test_planes_of_different_load_are_drawn_apart():
    source = read_preset("deepseek-v3-2048")
    planes = source.fabrics
    loads = [np.full(plane.n_ports, 1 + (number == 3), np.int64) for number, plane in enumerate(planes)]
    words = texts(draw(planes, loads, title="x").svg, "text")

    assert sum(line.startswith("deepseek-v3-2048-plane") for line in words) == 2


@pytest.mark.slow
def test_links_are_coloured_by_how_busy_they_are():
    """Each joint link carries 30,420 pairs, nearly ten times the mean; an even plane has one colour."""
    fabric = zoned()
    drawing = draw([fabric], [prove(Routed(fabric, route(fabric))).load], title="x").svg
    paths = ElementTree.fromstring(drawing).iter(f"{SVG}path")
    joint = [path for path in paths if "joint" in "".join(path.itertext())]
    even = drawn(
        "deepseek-v3-2048", loads=[np.ones(p.n_ports, np.int64) for p in read_preset("deepseek-v3-2048").fabrics]
    )
    strokes = {
        path.get("stroke") for path in ElementTree.fromstring(even).iter(f"{SVG}path") if path.get("class") == "k"
    }

    assert len(joint) == 4
    assert {path.get("stroke") for path in joint} == {LOADS[-1][1]}
    assert all("30,420 pairs" in "".join(path.itertext()) for path in joint)
    assert strokes == {LOADS[3][1]}


def test_slow_links_are_the_busier_for_it():
    """The same load on links of a quarter of the rate is four times as busy."""
    (fabric,) = subnets("hdr-on-ndr")
    drawing = draw([fabric], [np.full(fabric.n_ports, 7, np.int64)], title="x").svg
    shades = {
        path.get("stroke")
        for path in ElementTree.fromstring(drawing).iter(f"{SVG}path")
        if "graft0" in "".join(path.itertext()) and path.get("class") == "k"
    }

    assert shades == {LOADS[5][1]}, "2 / 1.1 times the mean"


HOSTILE = '<script>alert("&")</script>\x00\x1b]]>&#0;\ud800'


def test_hostile_names_are_only_text():
    fabric = zoned(leaves=4, spines=2, n_gpus=20, n_storage=0, ports=2)
    named = replace(
        fabric,
        name=HOSTILE,
        names=tuple(f"{HOSTILE}{node}" for node in range(fabric.n_nodes)),
        hosts=tuple(f"{HOSTILE}{host}" for host in range(len(fabric.hosts))),
        models=tuple(f"{HOSTILE}{model}" for model in range(len(fabric.models))),
    )
    drawing = draw([named, fabric], title=HOSTILE).svg
    elements = {element.tag for element in ElementTree.fromstring(drawing.encode()).iter()}
    kinds = {"svg", "title", "desc", "style", "g", "rect", "circle", "path", "polygon", "text"}

    assert elements <= {f"{SVG}{kind}" for kind in kinds}
    assert any('<script>alert("&")</script>' in title for title in texts(drawing, "title"))
    assert all(len(word) < 200 for word in texts(drawing, "text") if "alert" in word and "switches" not in word)


def test_a_drawing_shows_and_saves_itself(tmp_path):
    (fabric,) = subnets("lab-20")
    drawing = fabric.draw(np.ones(fabric.n_ports, np.int64), title="busy")
    drawing.save(tmp_path / "busy.svg")

    assert (tmp_path / "busy.svg").read_text(encoding="utf-8") == drawing.svg == drawing._repr_svg_()
    assert draw(read_preset("lab-20")).svg == draw(fabric).svg


def test_a_fabric_without_switches():
    builder = FabricBuilder("empty")
    builder.adapter("n", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)

    assert "no switches" in texts(draw(builder.build()).svg, "text")


@pytest.mark.slow
def test_the_command_draws_a_spec_its_plan_and_a_real_fabric(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = str(config_root() / "lab-20.yaml")

    assert run(["draw", spec]) == 0
    plain = Path("lab-20.svg").read_bytes()
    assert run(["build", spec, "-o", "out"]) == 0
    assert run(["draw", spec, "--tables", "out"]) == 0, "an older drawing is replaced"
    loaded = Path("lab-20.svg").read_bytes()
    assert run(["draw", spec, "--tables", "out/opensm/lfts", "-o", "same.svg"]) == 0
    assert run(["draw", "out/fabric.ibnetdiscover", "--json"]) == 0
    assert run(["draw", "out"]) == 0

    assert plain.startswith(b"<svg")
    assert loaded == Path("same.svg").read_bytes() != plain
    assert Path("fabric.svg").read_bytes().startswith(b"<svg")
    assert b"pairs" in Path("out.svg").read_bytes(), "a folder is drawn with its tables"
    assert '"file": "fabric.svg"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "mine"], "something that is no SVG"),
        (["-o", "no/such/x.svg"], "No such file"),
        (["-o", "."], "something that is no SVG"),
        (["--tables", "."], "no opensm/lfts"),
        (["--tables", "mine"], "mine"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_command_refuses(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("mine", encoding="utf-8")

    assert run(["draw", str(config_root() / "lab-20.yaml"), *arguments]) in (1, 2)
    assert says in capsys.readouterr().err
    assert Path("mine").read_text(encoding="utf-8") == "mine"


@pytest.mark.slow
def test_links_are_coloured_by_the_bytes_of_a_simulation(tmp_path, capsys):
    lab, played, drawing = config_root() / "lab-20.yaml", tmp_path / "played", tmp_path / "lab.svg"
    assert run(["simulate", str(lab), "-w", "allreduce", "-o", str(played)]) == 0
    assert run(["draw", str(lab), "--simulation", str(played), "-o", str(drawing)]) == 0

    assert "365,690,880 bytes" in drawing.read_text(), "what the ring's one link between leaves carries"
    assert "in times of the mean" in drawing.read_text()


@pytest.mark.parametrize(
    "content",
    [
        None,
        "channel,bytes\nnowhere:1 -> nothing:2,7\n",
        "channel,bytes\nleaf0:1 -> ",
        pytest.param(f"channel,bytes\n{'x' * 200_000},1\n", id="a cell of 200,000"),
    ],
)
def test_a_simulation_of_something_else_is_refused(tmp_path, capsys, content):
    if content is not None:
        (tmp_path / "links.csv").write_text(content)

    assert (
        run(["draw", str(config_root() / "lab-20.yaml"), "--simulation", str(tmp_path), "-o", str(tmp_path / "x.svg")])
        == 2
    )

    assert "links.csv" in capsys.readouterr().err
    assert not (tmp_path / "x.svg").exists()


def test_no_link_of_a_torus_hides_another_and_layers_fit_a_page() -> None:
    scene = lay_out(read_preset("torus").fabric)
    paths = [stroke.path for stroke in scene.strokes]
    assert len(set(paths)) == len(paths)
    assert scene.width < 900


@pytest.mark.parametrize(("groups", "switches"), [(2, 20), (3, 30), (9, 14), (33, 16)])
def test_groups_of_many_switches_fit_a_page(groups: int, switches: int) -> None:
    per_switch = -(-(groups - 1) // switches)
    shape = {"shape": "dragonfly", "switch": "QM8700", "groups": groups, "switches": switches, "hosts": 1}
    spec = {
        "name": "wide",
        "nodes": {"gpu": {"model": "pcie-a100", "count": groups * switches}},
        "network": shape | {"global_links": per_switch},
    }
    scene = lay_out(parse(spec).fabric)
    assert scene.width <= 3.6 * scene.height
    areas = [(area.x, area.y, area.x + area.width, area.y + area.height) for area in scene.areas]
    assert len(areas) == groups
    for a, b in combinations(areas, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


@pytest.mark.parametrize(("hosts", "named"), [(16, True), (64, False)])
def test_few_hosts_have_names_and_many_have_none(hosts: int, named: bool) -> None:
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": 4, "spines": 2}
    fabric = parse({"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": hosts}}, "network": network}).fabric
    scene = lay_out(fabric)
    assert scene.hosts
    assert {each.named for each in scene.hosts} == {named}
