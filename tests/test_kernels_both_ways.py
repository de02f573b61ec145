"""Compiled and interpreted code is one law: every call of a kernel on random small fabrics, both ways, same bytes.

Each call of a kernel is made twice, interpreted on copies of its arguments and compiled on the arguments themselves;
results, everything that it wrote, the state of generators, and what it raises must be the same. So one run of routing
and simulation compares hundreds of calls.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import routing
import simulate
import topo
from helpers.random_fabrics import draw
from helpers.strategies import examples, fabrics
from routing import machine_code
from routing.machine_code import Kernel
from topo.dumps.levels import find_levels
from topo.errors import HeddleError


def copied(value: Any, seen: dict[int, Any]) -> Any:
    """A copy of an argument, in which arrays that were one are one, and what is read-only stays so."""
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, np.ndarray):
        new: Any = value.copy()
        new.flags.writeable = value.flags.writeable
    elif isinstance(value, tuple):
        parts = [copied(one, seen) for one in value]
        new = type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    elif isinstance(value, np.random.Generator):
        new = np.random.default_rng()
        new.bit_generator.state = value.bit_generator.state
    else:
        new = value
    seen[id(value)] = new
    return new


def plain(value: Any) -> Any:
    """Bytes and numbers of a result or an argument."""
    if isinstance(value, np.ndarray) and value.dtype.names:  # without the gaps between fields
        return tuple((name, value[name].tobytes()) for name in value.dtype.names)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return float(value).hex() if isinstance(value, float | np.floating) else value if value is None else int(value)


def same(one: Any, other: Any, where: str = "") -> bool:
    """Whether two outcomes are equal; says where they differ first."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(same(*pair, f"{where}.{at}") for at, pair in enumerate(zip(one, other, strict=True)))
    assert one == other, where
    return True


def outcome(call: Any, given: tuple[Any, ...]) -> Any:
    """What a call returns and leaves in its arguments; or the kind of its error."""
    try:
        found = plain(call(*given))
    except (ArithmeticError, ValueError, IndexError) as error:
        return type(error).__name__.replace("FloatingPointError", "ZeroDivisionError")
    return found, tuple(map(plain, given))


@contextmanager
def both_ways() -> Iterator[Counter[str]]:
    """Compare every call of a kernel, and count them by name."""
    called: Counter[str] = Counter()

    def twice(self: Kernel, *given: Any) -> Any:
        if machine_code._interpreter.at_work:
            return self.py_func(*given)
        called[self.name] += 1
        seen: dict[int, Any] = {}
        copies = tuple(copied(value, seen) for value in given)
        interpreted = outcome(lambda *args: machine_code._interpreter.run(self.py_func, self.readable(args)), copies)
        results = []

        def compiled(*args: Any) -> Any:
            results.append(self.compiled(*args))
            return results[0]

        assert same(outcome(compiled, given), interpreted), self.name
        return results[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", twice)
        yield called


def small(seed: int) -> topo.Fabric:
    number = seed
    while (fabric := draw(number)).n_switches > 8 or not len(fabric.inner_links) or len(fabric.ends()) > 40:
        number += 1009
    return fabric


def exercise(seed: int) -> None:
    """Route a fabric by every engine, and ask everything of its tables; what is refused is refused."""
    fabric, rng = small(seed), np.random.default_rng(seed)
    routed = routing.route(fabric, "balanced")
    for engine in routing.ENGINES:
        with suppress(HeddleError):
            tables = routing.route(fabric, engine)
            routing.prove(tables, "all")
            routing.measure(tables)
    links = fabric.inner_links[:, 0]
    done = routing.repairs.repair(routed, rng.choice(links, min(3, len(links))))
    done.updates.table  # noqa: B018
    routing.prove(done.after)
    lfts = routing.opensm.format_lfts(fabric, routed.tables)
    assert np.array_equal(routing.opensm.parse_lfts(lfts, fabric).tables.lft, routed.tables.lft)
    with suppress(HeddleError):
        routing.studies.adaptive.study_adaptive(routed)
    with suppress(HeddleError):
        routing.studies.bound(fabric)
    with suppress(HeddleError):
        routing.studies.measure_lids(routing.route(fabric, "balanced", lmc=1))
    with suppress(HeddleError):
        routing.lanes.fit_lanes(fabric, routing.route(fabric, "minhop").tables, 8)
    hosts = fabric.ends()
    network = simulate.Network.of(routed, hop_latency_s=1e-7)
    simulate.order_ranks(network, rng.permutation(hosts)[:6].tolist(), "tree")
    for engine in (simulate.Fluid(network), simulate.Packets(network)):
        for _ in range(6):
            src, dst = rng.choice(hosts, 2, replace=False)
            engine.begin(int(src), int(dst), int(rng.integers(1, 9) * 4096))
        while engine.advance():
            pass


def results(fabric: topo.Fabric, engine: str) -> list[Any]:
    """Tables of an engine, what is proven and measured of them, and flows; of what is refused, the error."""
    hosts = fabric.ends()
    flows = simulate.Flows.of(hosts, np.roll(hosts, 1), 4096.0 * (1 + np.arange(len(hosts)) % 3))
    found: list[Any] = []
    try:
        routed = routing.route(fabric, engine)
        proof = routing.prove(routed, "all")
        found += [routed.tables.lft.tobytes(), plain(proof.load), proof.missing, proof.credit_loops]
        found.append(repr(routing.measure(routed).to_dict()))
        found.append(routing.studies.adaptive.study_adaptive(routed).to_dict())
        network = simulate.Network.of(routed, hop_latency_s=1e-7, lane_weights=1)
        found += [play(network).play(flows).finish_s.tobytes() for play in (simulate.Fluid, simulate.Packets)]
    except HeddleError as error:
        found.append(str(error))
    return found


def no_tree() -> topo.Fabric:
    """Seven switches in no tree, with hosts on two of them: it divided by zero, but only when compiled."""
    build, speed = topo.FabricBuilder("odd"), topo.LinkSpeed(4, "HDR")
    switches = [build.switch(f"sw{at}", model="", radix=8, role=topo.Role.SWITCH, level=-1) for at in range(7)]
    free = [iter(range(1, 9)) for _ in switches]
    for a, b in ((0, 4), (0, 2), (0, 1), (0, 6), (1, 4), (1, 5), (1, 2), (2, 3), (2, 3), (2, 4), (2, 5), (5, 6)):
        build.link(switches[a], next(free[a]), switches[b], next(free[b]), speed)
    for host, at in enumerate((2, 2, 5, 5)):
        adapter = build.adapter(f"h{host}", "mlx5_0", model="", host_model="", role=topo.Role.COMPUTE)
        build.link(adapter, 1, switches[at], next(free[at]), speed)
    return find_levels(build.build())


@pytest.mark.slow
@examples(60)
@given(fabrics(max_switches=6, max_adapters=6), st.sampled_from(sorted(routing.ENGINES)))
@example(no_tree(), "balanced")
def test_what_is_interpreted_is_what_is_compiled(fabric: topo.Fabric, engine: str) -> None:
    """On any wiring: switches without a cable, cables of a switch to itself, islands. An error is one in both ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "is_interpreted", lambda *_: True)
        interpreted = results(fabric, engine)
        patch.setattr(Kernel, "is_interpreted", lambda *_: False)
        assert results(fabric, engine) == interpreted


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_every_call_of_a_kernel_is_the_same_both_ways(seed: int) -> None:
    with both_ways() as called:
        exercise(seed)
    assert len(called) > 30
