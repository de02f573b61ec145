"""Places that a plan writes, read back: everything stands where it stood, also beside more servers."""

from hypothesis import assume, example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

import topo
from helpers.strategies import examples
from plan.export.fabric import format_places
from topo.floor.racks import LEADING_ZEROS

floors = st.fixed_dictionaries(
    {"rack_units": st.sampled_from([42, 48])},
    optional={
        "rows": st.integers(1, 4),
        "racks_per_row": st.integers(3, 20),
        "switches": st.sampled_from(["servers", "middle", "end"]),
        "stand_ins": st.sampled_from(["apart", "together"]),
        "rack_power": st.sampled_from(["22 kW", "44 kW"]),
    },
)


def stands(cluster: topo.Cluster) -> dict[str, tuple[str, int]]:
    layout = cluster.layout
    assert layout is not None
    at = zip(layout.devices, layout.rack.tolist(), layout.unit.tolist(), strict=True)
    return {LEADING_ZEROS.sub("", device.name): (layout.rack_name(rack), unit) for device, rack, unit in at}


@examples(25)
@example(count=8, more=8, floor={"rack_units": 48, "rows": 2})
@given(count=st.integers(2, 30), more=st.integers(0, 90), floor=floors)
def test_what_stands_stays_where_a_cluster_grows(count: int, more: int, floor: dict[str, object]) -> None:
    def spec(count: int, floor: object) -> topo.Cluster:
        nodes = {"gpu": {"model": "dgx-h100", "count": count}, "head": {"model": "management", "count": 2}}
        tree = {"shape": "fat-tree", "switch": "QM9700", "leaves": 12, "spines": 4, "parallel": 4}
        return topo.parse({"name": "x", "nodes": nodes, "network": tree, "floor": floor})

    small = spec(count, floor)
    try:
        before = stands(small)
    except topo.DesignError:
        assume(False)
    assert small.layout is not None
    pinned = YAML(typ="safe").load(format_places(small.layout))["floor"]
    assert stands(spec(count, pinned)) == before
    pinned.pop("rows", None)  # the room that the new racks need
    try:
        after = stands(spec(count + more, pinned))
    except topo.DesignError as error:
        assert "leaf ports" in str(error)
        return
    assert before.items() <= after.items()
    assert len(after) == len(before) + more
