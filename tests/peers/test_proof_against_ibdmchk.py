"""ibdmchk judges the same tables as our proof: pairs, missing pairs, hops, and whether there is a credit loop."""

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import ANY

import pytest
from hypothesis import assume, given

from helpers.ibdmchk import fdbs_sections, format_subnet_list, write_ibdmchk_inputs
from helpers.strategies import Case, cases, examples, past_switch_0_on_lane_5, ring, spoil, tree
from routing.opensm.ibdmchk import IbdmchkReport, parse_report
from routing.opensm.lfts import parse_lfts
from routing.proof import prove
from routing.routed import Routed
from topo.dumps.subnet_lst import parse_subnet_lst

pytestmark = pytest.mark.peer("ibdmchk")


def judge(case: Case) -> IbdmchkReport:
    """What ibdmchk says of a case."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = ["ibdmchk", *write_ibdmchk_inputs(folder, case.fabric, case.tables)]
        return parse_report(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout)


def assert_agreement(case: Case) -> IbdmchkReport:
    report, proof = judge(case), prove(Routed(case.fabric, case.tables))
    assert (report.pairs, report.missing) == (proof.pairs, proof.missing)
    assert report.hops == {length: count for length, count in enumerate(proof.hops.tolist()) if count}
    assert report.loops == (proof.credit_loops > 0 if proof.missing == 0 else None)
    return report


@examples(100)
@given(case=cases(lids=False, lanes=False, connected=True))
def test_ibdmchk_agrees_on_random_tables_whole_and_spoilt(case: Case) -> None:
    assume(prove(Routed(case.fabric, case.tables)).pairs)
    assert_agreement(case)


@examples(50)
@given(case=cases(corrupt=False, lanes=True, connected=True, ports=1))
def test_ibdmchk_agrees_on_lanes(case: Case) -> None:
    assume(prove(Routed(case.fabric, case.tables)).pairs)
    assert_agreement(case)


def test_ibdmchk_agrees_on_a_ring_with_one_lane_and_with_two() -> None:
    case = ring()
    assert assert_agreement(case).loops
    assert assert_agreement(past_switch_0_on_lane_5(case)).loops is False


def test_ibdmchk_agrees_on_trees() -> None:
    assert assert_agreement(tree(4)) == IbdmchkReport(pairs=240, missing=0, hops={1: 48, 3: 192}, loops=False)
    detours = spoil(tree(3), (3, 12, 2), (1, 12, 5), (4, 10, 3), (2, 10, 4))
    assert assert_agreement(detours).loops
    assert assert_agreement(spoil(tree(3), (0, 9, 255))).missing == 3


def test_what_ibdmchk_reads_is_read_back_by_us_too() -> None:
    case = tree(3)
    fabric = parse_subnet_lst(format_subnet_list(case.fabric, case.tables)).fabric
    assert sorted(fabric.names) == sorted(case.fabric.names)
    assert len(fabric.links) == len(case.fabric.links)
    tables = parse_lfts("".join(fdbs_sections(case.fabric, case.tables)).encode(), fabric).tables
    assert prove(Routed(fabric, tables)).to_dict() == {**prove(Routed(case.fabric, case.tables)).to_dict(), "load": ANY}
