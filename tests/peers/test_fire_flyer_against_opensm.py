"""Fire-Flyer 2 before the real subnet manager: it loads our tables, and its own engines fail as they are known to."""

import pytest

from helpers.clusters import zoned
from helpers.strategies import nightly
from plan.opensm_lab.ibsim import run_ibdmchk, simulated
from routing.engines.balanced import route
from routing.opensm.files import opensm_files
from routing.proof import prove
from routing.routed import Routed
from topo.dumps.ibnetdiscover import parse_ibnetdiscover
from topo.fabric import Kind, Role

pytestmark = pytest.mark.peer("ibsim", "opensm", "ibdmchk", "ibnetdiscover", "usr/lib/*/umad2sim/libumad2sim.so")

PAIRS = 2_432_040
LEAST = 30_420
"""Pairs over each joint link when they are shared evenly: 780 x 780 / 20."""


@pytest.mark.parametrize("placement", [nightly("border"), "spread"])
def test_opensm_loads_our_tables_entry_for_entry(placement, tmp_path):
    fabric = zoned(placement)
    tables = route(fabric)
    with simulated(fabric, tmp_path) as subnet:
        found = parse_ibnetdiscover(subnet.ibnetdiscover()).fabric
        run = subnet.opensm("file", opensm_files(Routed(fabric, tables)))
        verdict = run_ibdmchk(run)

    assert cabling(found) == cabling(fabric)
    assert (run.tables.lid == tables.lid).all(), "guid2lid is honoured"
    assert (run.tables.lft == tables.lft).all()
    assert (verdict.pairs, verdict.missing, verdict.loops) == (PAIRS, 0, False)


def cabling(fabric):
    """The cables by names and panel numbers, which do not depend on the order of nodes."""
    ends = [
        [(fabric.names[fabric.port_node[port]], int(fabric.port_number[port])) for port in link]
        for link in fabric.links.tolist()
    ]
    return {tuple(sorted(link)) for link in ends}


@pytest.mark.parametrize(
    ("placement", "engine", "missing", "loops", "load"),
    [
        pytest.param("spread", "minhop", 0, True, 1.2, id="minhop deadlocks"),
        nightly("spread", "updn", 1_216_800, False, 0, id="updn loses all pairs between zones"),
        nightly("spread", "ftree", 1_216_800, False, 0, id="ftree loses them too"),
        nightly("spread", "dfsssp", 0, True, 1.2, id="dfsssp deadlocks on one lane"),
        pytest.param("spread", "nue", 0, False, 2, id="nue is complete without loops, and far from even"),
        nightly("border", "minhop", 0, False, 2, id="gathered: minhop overloads a joint link twice"),
        nightly("border", "updn", 1_216_800, False, 0, id="gathered: updn loses all pairs between zones"),
        nightly("border", "dfsssp", 0, False, 1, id="gathered: dfsssp happens to be even and free of loops"),
    ],
)
def test_stock_engines_of_opensm(placement, engine, missing, loops, load, tmp_path):
    """Each with what it asks for: spines as roots, compute nodes listed, quality of service; all on one lane.

    ``load`` is the most loaded joint link as a multiple of the least possible: at least so much.
    """
    fabric = zoned(placement)
    spines = fabric.node_guid[: fabric.n_switches][fabric.role[: fabric.n_switches] == Role.SPINE]
    hosts = fabric.port_guid[fabric.kind[fabric.port_node] == Kind.HCA]
    lists = {"root_guids": spines, "cn_guids": hosts}
    files = {name: b"".join(b"0x%016x\n" % guid for guid in guids.tolist()) for name, guids in lists.items()}
    options = ["-Q"] if engine == "dfsssp" else ["--nue_max_num_vls", "1"] if engine == "nue" else []
    with simulated(fabric, tmp_path) as subnet:
        run = subnet.opensm(engine, files if engine in ("updn", "ftree") else {}, options=options)
        verdict = run_ibdmchk(run)
    proof = prove(Routed(fabric, run.tables))
    joining = (fabric.role[fabric.port_node] == Role.JOINT) & (fabric.peer >= 0)

    assert (proof.missing, proof.credit_loops > 0) == (missing, loops)
    assert verdict.missing == missing, "ibdmchk agrees on what is missing"
    assert verdict.loops == (None if missing else loops), "and on what loops; it does not look where pairs are missing"
    assert proof.load[joining].max() >= load * LEAST
