"""What is no host of a fabric takes part in no collective."""

import pytest

import simulate
from helpers.presets import routed_lab
from topo.errors import HeddleError

ROUTED = routed_lab()


@pytest.mark.parametrize("hosts", [[4, 4], [0, 4], [4, 10**6], [-1, 4]])
def test_hosts_are_different_end_ports_of_adapters(hosts: list[int]) -> None:
    with pytest.raises(HeddleError, match="expected different end ports of adapters"):
        simulate.play(ROUTED, simulate.allreduce(hosts, "1 MiB"))


@pytest.mark.parametrize("hosts", [["gpu00", "gpu01"], [1.5, 2.5], [[4, 5], [6, 7]], [2**70, 4], None])
def test_hosts_are_whole_numbers(hosts: object) -> None:
    with pytest.raises(HeddleError, match="hosts that are not end ports"):
        simulate.allreduce(hosts, "1 MiB")  # type: ignore[arg-type]


def test_a_role_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(HeddleError, match="'gpu'; expected one of compute, storage"):
        ROUTED.fabric.ends(role="gpu")


def test_an_outcome_without_a_timeline_is_not_drawn_as_an_empty_chart() -> None:
    outcome = simulate.play(ROUTED, simulate.allreduce(ROUTED.fabric.ends(role="compute"), "1 MiB"))
    with pytest.raises(HeddleError, match="n_bins"):
        simulate.draw_timeline(outcome)
