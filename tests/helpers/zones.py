"""Random zones: fat-trees that are joined at their leaves, cabled as nobody would draw them."""

import numpy as np

from topo.builder import FabricBuilder
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Role
from topo.speeds import parse_link_speed

HDR, HDR100 = parse_link_speed("4xHDR"), parse_link_speed("2xHDR")


def random_zones(seed: int) -> Fabric:
    """Two to four zones of any size, joints at random leaves, storage in all zones, slow subtrees, missing links.

    Ports are taken in random order; levels and zones are found from the wiring.
    """
    rng = np.random.default_rng(seed)
    build = FabricBuilder(f"zones-{seed}")
    n_zones, n_leaves, n_spines = int(rng.integers(2, 5)), int(rng.integers(4, 11)), int(rng.integers(3, 9))
    down = int(rng.integers(4, 9))
    radix = down + n_spines
    n_joints = int(rng.integers(1, 4))
    per_joint = max(1, min(n_leaves * down // (4 * n_joints), radix * 3 // n_zones, int(rng.integers(1, 7))))
    losses = rng.choice([0.0, 0.0, 0.04])
    free: list[list[tuple[int, int]]] = []
    for zone in range(n_zones):
        spines = [
            build.switch(f"z{zone}s{i}", model="", radix=n_leaves, role=Role.SWITCH, level=-1) for i in range(n_spines)
        ]
        leaves = [
            build.switch(f"z{zone}l{i}", model="", radix=radix, role=Role.SWITCH, level=-1) for i in range(n_leaves)
        ]
        ports = [rng.permutation(np.arange(1, radix + 1)).tolist() for _ in leaves]
        for i, leaf in enumerate(leaves):
            for spine in spines:
                port = ports[i].pop()
                if rng.random() >= losses:
                    build.link(leaf, port, spine, i + 1, HDR)
        places = [(leaf, port) for leaf, left in zip(leaves, ports, strict=True) for port in left]
        free.append([places[i] for i in rng.permutation(len(places))])
    gathered = rng.random() < 0.3  # on as few leaves as can be, which then hold few hosts
    if gathered:
        free = [sorted(places, key=lambda place: -place[0]) for places in free]
    for number in range(n_joints):
        joint = build.switch(f"j{number}", model="", radix=n_zones * per_joint, role=Role.SWITCH, level=-1)
        for zone in range(n_zones):
            for k in range(per_joint):
                build.link(joint, zone * per_joint + k + 1, *free[zone].pop(), HDR)
    for zone in range(n_zones if rng.random() < 0.3 else 0):  # a slow leaf below others
        slow = build.switch(f"z{zone}slow", model="", radix=12, role=Role.SWITCH, level=-1)
        for k in range(min(3, len(free[zone]) // 3)):
            build.link(slow, k + 1, *free[zone].pop(), HDR100)
        for k in range(6):
            host = build.adapter(f"z{zone}old{k}", "mlx5_0", model="", host_model="", role=Role.MANAGEMENT)
            build.link(host, 1, slow, 4 + k, HDR100)
    for number in range(int(rng.integers(0, n_leaves))):
        for zone in range(n_zones):
            host = build.adapter(f"st{number}", f"mlx5_{zone}", model="", host_model="", role=Role.STORAGE)
            build.link(host, 1, *free[zone].pop(), HDR)
    for zone in range(n_zones):
        for number in range(int(len(free[zone]) * rng.uniform(0.6, 1.0))):
            host = build.adapter(f"z{zone}gpu{number}", "mlx5_0", model="", host_model="", role=Role.COMPUTE)
            build.link(host, 1, *free[zone].pop(), HDR)
    return find_levels(build.build())
