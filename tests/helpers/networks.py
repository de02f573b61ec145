"""Small networks in plain words, with what they carry found without any of the product: by linear programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
from scipy.optimize import linprog

from topo.builder import FabricBuilder
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

HDR, NDR = LinkSpeed(4, "HDR"), LinkSpeed(4, "NDR")  # 200 and 400 Gb/s


@dataclass(frozen=True)
class Plain:
    """Switches 0 to n - 1 with cables between them, and adapters on them."""

    n: int
    cables: tuple[tuple[int, int, LinkSpeed], ...]
    hosts: tuple[int, ...]
    """Compute servers of one adapter each, at 200 Gb/s, on each switch."""
    storage: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    wide: tuple[tuple[int, ...], ...] = ()
    """Further compute servers, after the others: the switches of their adapters at 200 Gb/s."""

    def fabric(self, order: tuple[int, ...] = ()) -> Fabric:
        """Build it, the switches in another order if asked."""
        builder, port = FabricBuilder("plain"), [1] * self.n
        key = {
            switch: builder.switch(
                f"s{switch}", model="m", radix=64, role=Role.LEAF, level=self.levels[switch] if self.levels else 1
            )
            for switch in order or range(self.n)
        }

        def free(switch: int) -> tuple[int, int]:
            port[switch] += 1
            return key[switch], port[switch] - 1

        for a, b, speed in self.cables:
            builder.link(*free(a), *free(b), speed)
        groups = [("host", self.hosts, Role.COMPUTE), ("store", self.storage, Role.STORAGE)]
        for name, counts, role in groups:
            number = 0
            for switch, count in enumerate(counts):
                for _ in range(count):
                    adapter = builder.adapter(
                        f"{name}{number:02d}", "mlx5_0", model="hca", host_model="server", role=role
                    )
                    builder.link(adapter, 1, *free(switch), HDR)
                    number += 1
        for number, switches in enumerate(self.wide):
            for device, switch in enumerate(switches):
                adapter = builder.adapter(
                    f"wide{number:02d}", f"mlx5_{device}", model="hca", host_model="server", role=Role.COMPUTE
                )
                builder.link(adapter, 1, *free(switch), HDR)
        return builder.build()

    @property
    def servers(self) -> np.ndarray:
        """(servers, n) Gb/s of each compute server on each switch, in the order of their names."""
        each = [(switch,) for switch, count in enumerate(self.hosts) for _ in range(count)] + list(self.wide)
        return np.array([np.bincount(switches, minlength=self.n) * 200.0 for switches in each]).reshape(-1, self.n)

    @cached_property
    def gbps(self) -> np.ndarray:
        """(n, n) Gb/s between switches."""
        found = np.zeros((self.n, self.n))
        for a, b, speed in self.cables:
            found[a, b] += speed.gbps
            found[b, a] += speed.gbps
        return found

    def carried(self, sends: np.ndarray, takes: np.ndarray, *, at_most: bool = False) -> float:
        """Return the largest share at which all that is sent arrives, each receiver at that share of its rate.

        With ``at_most`` receivers take whatever they can. The variables are the share, a flow on each direction of each
        pair of switches, and what each switch takes.
        """
        arcs = [(a, b) for a, b in product(range(self.n), repeat=2) if self.gbps[a, b]]
        balance = np.zeros((self.n, 1 + len(arcs) + self.n))
        for column, (a, b) in enumerate(arcs, start=1):
            balance[a, column] += 1
            balance[b, column] -= 1
        for switch in range(self.n):
            balance[switch, 0] = -sends[switch] if at_most else takes[switch] - sends[switch]
            balance[switch, 1 + len(arcs) + switch] = 1 if at_most else 0
        most = [(0, 1)] + [(0, self.gbps[arc]) for arc in arcs] + [(0, take if at_most else 0) for take in takes]
        cost = np.zeros(balance.shape[1])
        cost[0] = -1
        return float(-linprog(cost, A_eq=balance, b_eq=np.zeros(self.n), bounds=most).fun)

    def worst_share_over_rails(self) -> float:
        """Return the least share over all halves of each rail of the wide servers, with the best routing for each.

        Adapters send to those with their number in other servers, so each rail is a commodity of its own.
        """
        arcs = [(a, b) for a, b in product(range(self.n), repeat=2) if self.gbps[a, b]]
        ends = np.array([[(a == at) - (b == at) for a, b in arcs] for at in range(self.n)]).reshape(self.n, -1)
        cost = np.append(-1.0, np.zeros(len(arcs) * len(self.wide[0])))
        capacity = np.hstack([np.zeros((len(arcs), 1)), *[np.eye(len(arcs))] * len(self.wide[0])])
        worst, rails = 1.0, [np.eye(self.n)[list(on)] * 200 for on in zip(*self.wide, strict=True)]
        ways = [[one - other for one, other in halves_of(rail)] for rail in rails]
        both = [[*each, *(-net for net in each)] or [np.zeros(self.n)] for each in ways]
        for nets in product(*both):
            balance = np.zeros((self.n * len(nets), len(cost)))
            for rail, net in enumerate(nets):
                rows = slice(rail * self.n, (rail + 1) * self.n)
                balance[rows, 0] = -net
                balance[rows, 1 + rail * len(arcs) : 1 + (rail + 1) * len(arcs)] = ends
            most = [self.gbps[arc] for arc in arcs]
            bounds = [(0, 1)] + [(0, None)] * (len(cost) - 1)
            found = linprog(cost, A_ub=capacity, b_ub=most, A_eq=balance, b_eq=np.zeros(len(balance)), bounds=bounds)
            worst = min(worst, float(-found.fun))
        return worst

    def worst_share(self) -> float:
        """Return the least share over all halves of the servers, with the best routing for each: one program each."""
        return min((self.carried(*halves) for halves in halves_of(self.servers)), default=1.0)


def halves_of(servers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield what both halves have on each switch, for all halves of equal rate; one server may belong to both.

    Other halves are mixtures of these, and a mixture asks no more of a cut than one of its parts. Each part is yielded
    once, and so are the halves that are another's in exchange.
    """
    rates, seen = servers.sum(axis=1), set()
    for count in range(len(rates) + 1):
        for chosen in combinations(range(len(rates)), count):
            lacking = rates.sum() / 2 - rates[list(chosen)].sum()
            for at in set(range(len(rates))) - set(chosen):
                if 0 <= lacking < rates[at]:
                    one = servers[list(chosen)].sum(axis=0) + servers[at] * lacking / rates[at]
                    other = servers.sum(axis=0) - one
                    if other.tobytes() not in seen and one.tobytes() not in seen:
                        seen.add(one.tobytes())
                        yield one, other


def plain(seed: int, *, most_switches: int = 5, most_hosts: int = 8) -> Plain:
    """Return a few switches linked at random, with a few servers on some of them; not all can be reached."""
    draw = np.random.default_rng(seed)
    n, hosts = int(draw.integers(1, most_switches + 1)), int(draw.integers(2, most_hosts + 1))
    cables = []
    for _ in range(int(draw.integers(0, 3 * n)) if n > 1 else 0):
        a, b = draw.choice(n, 2, replace=False).tolist()
        cables.append((a, b, HDR))
    at = draw.integers(0, n, hosts)
    return Plain(n, tuple(cables), tuple(np.bincount(at, minlength=n).tolist()))


def plain_tree(seed: int) -> Plain:
    """Return a random tree of two or three levels, rarely even: leaves 0, 1, ..., then spines by pod, then cores."""
    draw = np.random.default_rng(seed)
    pods = int(draw.integers(1, 4))
    leaves, spines = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    cores = int(draw.integers(1, 3)) if pods > 1 else 0
    first_core = pods * (leaves + spines)
    cables = []
    spoilt = draw.random() < 0.5
    for pod in range(pods):
        base = pod * (leaves + spines)
        for leaf, spine in product(range(leaves), range(spines)):
            cables += [(base + leaf, base + leaves + spine, HDR)] * int(draw.integers(1, 3) if spoilt else 1)
        for spine, core in product(range(spines), range(cores)):
            cables += [(base + leaves + spine, first_core + core, HDR)] * int(draw.integers(1, 3) if spoilt else 2)
    levels = ([1] * leaves + [2] * spines) * pods + [3] * cores
    like = int(draw.integers(1, 4))
    hosts = [(int(draw.integers(0, 4)) if spoilt else like) if level == 1 else 0 for level in levels]
    hosts[0] += sum(hosts) < 2
    hosts[0] += sum(hosts) < 2
    return Plain(len(levels), tuple(cables), tuple(hosts), levels=tuple(levels))


def plain_wide(seed: int) -> Plain:
    """Return a few switches linked at random, with a few servers of several adapters, and some of one."""
    draw = np.random.default_rng(seed)
    n, count, most = int(draw.integers(2, 6)), int(draw.integers(3, 7)), int(draw.integers(2, 5))
    cables = [(int(draw.integers(0, b)), b, HDR) for b in range(1, n)]
    for _ in range(int(draw.integers(0, n))):
        a, b = draw.choice(n, 2, replace=False).tolist()
        cables.append((a, b, HDR))
    alike = draw.random() < 0.7
    wide = tuple(
        tuple(draw.integers(0, n, most if alike else int(draw.integers(1, most + 1))).tolist()) for _ in range(count)
    )
    if draw.random() < 0.3:  # rails
        wide = tuple(tuple((np.arange(most) % n).tolist()) for _ in range(count - 1)) + wide[:1]
    hosts = tuple(np.bincount(draw.integers(0, n, int(draw.integers(0, 3))), minlength=n).tolist())
    return Plain(n, tuple(cables), hosts if not alike else (0,) * n, wide=wide)
