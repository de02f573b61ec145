"""Writes ibdiagnet's ``.far``, as its two public readers take it."""

import numpy as np

from routing.studies.adaptive import AdaptiveTables, LidState
from topo.fabric import Fabric


def format_far(fabric: Fabric, tables: AdaptiveTables) -> str:
    """Return the file; every other group has its ports in two sub-groups."""
    lines = ["# ibdiagnet", "File version: 1", ""]
    for switch in range(fabric.n_switches):
        lines += [f"Switch 0x{int(fabric.node_guid[switch]):016x} AR SLs: 0xffff", "Groups Definition:"]
        lines += ["Group  Sub Group  WHBF  Ports", "-" * 31]
        for group in np.unique(tables.group[:, switch]).tolist():
            if group < 0:
                continue
            ports = np.flatnonzero(tables.members[group]).tolist()
            half = len(ports) // 2 if group % 2 else 0
            for sub, part in ((0, ports[half:]), (1, ports[:half])):
                if part or not sub:
                    lines.append(f"{tables.number[group]:<6} {sub:<10} 0     {''.join(f'{port},' for port in part)}")
        lines.append("LFT Definition:")
        for table in range(tables.n_tables):
            top = tables.lft.shape[2] - 1
            lines += [f"PLFT_NUM: {table}, top: 0x{top:04x}", "LID     Static Port  Lid State  Group", "-" * 31]
            for lid in np.flatnonzero(tables.state[table, switch] != LidState.ABSENT).tolist():
                group = int(tables.group[table, switch, lid])
                state = LidState(int(tables.state[table, switch, lid])).name
                state = state if state == "HBF" else state.capitalize()
                number = tables.number[group] if group >= 0 else 0
                lines.append(f"0x{lid:04x}  {tables.lft[table, switch, lid]:<11}  {state:<9}  {number}")
    return "\n".join([*lines, "# end", ""])
