"""Tables, and the one line in which a terminal shows what holds much."""

import csv
import dataclasses
import importlib
import io
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import routing
import simulate
import topo
from topo.errors import HeddleError, plural
from topo.table import Brief, Column, Table

FACES = ("topo", "routing", "simulate", "costmodel")
PUBLIC = {
    name: getattr(importlib.import_module(face), name) for face in FACES for name in dir(importlib.import_module(face))
}
LARGE = re.compile(
    r"NDArray|tuple\[(?!(int|float), \.\.\.)|Mapping|Sequence|\b(Fabric|Routed|RoutingTables|Flows|Proof|Bill|Cost)\b"
)
"""Types of fields that may hold more than a line."""


@pytest.mark.parametrize("name", sorted(name for name, value in PUBLIC.items() if dataclasses.is_dataclass(value)))
def test_a_public_result_that_may_hold_much_is_shown_in_a_line(name: str) -> None:
    large = [field.name for field in dataclasses.fields(PUBLIC[name]) if field.repr and LARGE.search(str(field.type))]
    if large and name not in ("LanePlan", "Loss", "Servers", "Sum"):
        assert issubclass(PUBLIC[name], Brief), large


@pytest.fixture(scope="module")
def shown() -> list[object]:
    """One of each kind of result."""
    cluster = topo.preset("lab-20")
    fabric = cluster.fabric
    routed = routing.route(fabric)
    traffic = simulate.allreduce(fabric.ends(role="compute")[:8], "1 MiB")
    outcome = simulate.play(routed, traffic, n_bins=4)
    workload = simulate.preset("allreduce", fabric)
    bill, quote = costmodel.bill(cluster), costmodel.quote(cluster)
    return [
        *(cluster, cluster.catalog, fabric, fabric.counts(), topo.Drawing("<svg/>")),
        *(routed, routed.tables, routed.policy, routing.prove(routed), routing.measure(routed)),
        *(
            routing.studies.study_failures(fabric, 1),
            routing.studies.study_loss(routed, "spine0"),
            routing.studies.link_use(routed, "leaf0:21"),
        ),
        *(outcome, outcome.network, outcome.flows, outcome.timeline, outcome.links, outcome.links.columns[0], traffic),
        *(workload, simulate.play(routed, workload), routing.trace(routed, *traffic.hosts[:2].tolist())),
        *(bill, bill.power, bill.price("USD"), quote, costmodel.published(), costmodel.compare(cluster, cluster)),
    ]


def test_results_are_one_short_line_that_names_them(shown: list[object]) -> None:
    for result in shown:
        line = repr(result)
        assert re.fullmatch(rf"<{type(result).__name__} [^\n]{{1,160}}>", line), line[:300]
        assert not re.search(r"array\(|dtype|object at", line)


def test_a_result_in_place_of_another_is_refused_with_what_makes_the_other(shown: list[object]) -> None:
    """Each verb says of every other result what it found, what it expected, and the call that gives it."""
    verbs = {
        "Fabric": (routing.route, topo.format_fabric, lambda it: simulate.preset("allreduce", it)),
        "Routed": (
            routing.prove,
            routing.measure,
            simulate.Network.of,
            lambda it: routing.trace(it, 0, 1),
            lambda it: routing.find_end(it, "gpu00"),
            lambda it: routing.studies.link_use(it, "leaf0:21"),
            lambda it: routing.studies.study_loss(it, "spine0"),
            lambda it: routing.fit_traffic(it, "hca"),
        ),
        "Cluster": (costmodel.bill, costmodel.quote, costmodel.own, costmodel.compare),
    }
    for kind, functions in verbs.items():
        for result in (*shown, None, "lab-20", [1, 2]):
            if type(result).__name__ == kind:
                continue
            for function in functions:
                with pytest.raises(topo.HeddleError) as refused:
                    function(result)
                assert re.match(rf"found .*; expected a {kind}, as `.*`.* returns$", str(refused.value))
                assert type(result).__name__ in str(refused.value)


def test_what_is_no_traffic_is_not_played(shown: list[object]) -> None:
    routed = next(result for result in shown if isinstance(result, routing.Routed))
    for wrong in (*routed.fabric.ends()[:2].tolist(), "allreduce", routed, None):
        with pytest.raises(topo.HeddleError, match=r"expected Flows, a Collective or a Workload, as `"):
            simulate.play(routed, wrong)  # type: ignore[call-overload]


@given(st.integers(0, 10**7), st.sampled_from(["zone", "host port"]))
def test_one_has_no_s(number: int, noun: str) -> None:
    said = plural(number, noun)
    assert int(said.split()[0].replace(",", "")) == number
    assert said.endswith(noun if number == 1 else f"{noun}s")


words = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)


@given(st.lists(st.tuples(words, st.none() | st.floats(allow_nan=False)), max_size=8), words)
def test_csv_gives_back_every_value(rows: list[tuple[str, float | None]], title: str) -> None:
    table = Table(
        title, (Column("name", [name for name, _ in rows]), Column("rate", [rate for _, rate in rows], "Gb/s"))
    )
    heading, *read = csv.reader(io.StringIO(table.to_csv()))
    assert heading == ["name", "rate (Gb/s)"]
    assert [(topo.plain_text(name), float(rate) if rate else None) for name, rate in read] == rows
    assert list(table.rows()) == rows
    assert len(table) == len(rows) == len(list(table.texts()))


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="unequal"):
        Table("t", (Column("a", [1]), Column("b", np.arange(2))))


def test_without_pandas_a_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HeddleError, match=r"heddle-fabric\[pandas\]"):
        Table("one", ()).to_pandas()


@pytest.mark.parametrize(("value", "text"), [(-0.001, "0.00"), (-0.0, "0.00"), (-0.01, "-0.01"), (0.0, "0.00")])
def test_what_rounds_to_nothing_has_no_sign(value: float, text: str) -> None:
    assert Column("saved", [value], digits=".2f").text(0) == text
