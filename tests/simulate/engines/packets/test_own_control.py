"""A variant of congestion control is one module: put in the place of `control.py`, the engine plays it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUENCH = '''
"""Source quench: a flow that has heard of a mark sends every so many slots from then on."""

from dataclasses import dataclass
from typing import NamedTuple

from simulate.engines.compile import inlined
from topo.table import Brief


class ControlRules(NamedTuple):
    slots: int


OFF = ControlRules(0)
FLOW_FIELDS = [("quenched", "i4"), ("allowed", "i8")]


@dataclass(frozen=True)
class CongestionControl(Brief):
    slots: int = 4
    label = "quench"

    def rules(self, tick_s):
        return ControlRules(self.slots)


Dcqcn = CongestionControl


@inlined
def on_dequeue(control, now, packets, packet, requesting, waiting_ticks):
    if control.slots > 0 and requesting > 0 and packets[packet].born >= 0:
        packets[packet].born = ~packets[packet].born


@inlined
def on_ack(control, flows, flow, marked, tick):
    if marked:
        flows[flow].quenched = 1


@inlined
def may_send(control, flows, flow, tick):
    return control.slots == 0 or flows[flow].allowed <= tick


@inlined
def on_send(control, flows, flow, tick, full, size):
    flows[flow].allowed = tick + (control.slots * full if flows[flow].quenched else 0)
'''

PLAY = """
from helpers.packets import line, network, steady
from simulate import Flows, PacketModel
from simulate.engines.packets.control import CongestionControl

flows = Flows.of([1, 2], [3, 3], 1e9)
for control in (None, CongestionControl(4), CongestionControl(8)):
    print(*steady(network(line(3)), PacketModel(control=control), flows, 2000))
"""


@pytest.mark.slow
def test_quenched_flows_send_one_packet_in_so_many_slots(repository: Path, tmp_path: Path) -> None:
    """Two senders fill a port with half a link each; once quenched, each gets 1 / slots, and the port is not full."""
    own = Path("simulate/engines/packets/control.py")
    for folder in [*own.parents][::-1]:
        (tmp_path / folder).mkdir(exist_ok=True)
        for path in (repository / folder).iterdir():
            inside = path.suffix in (".py", ".pyi") or (path / "__init__.py").exists() or path.name == "configs"
            if inside and path.relative_to(repository) not in (own, *own.parents):
                (tmp_path / folder / path.name).symlink_to(path)
    (tmp_path / own).write_text(QUENCH, encoding="utf-8")
    paths = os.pathsep.join(map(str, (tmp_path, repository / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", PLAY], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rates = [list(map(float, line.split())) for line in done.stdout.splitlines()]
    for found, expected in zip(rates, (1 / 2, 1 / 4, 1 / 8), strict=True):
        assert found == pytest.approx([expected] * 2, rel=0.02)
