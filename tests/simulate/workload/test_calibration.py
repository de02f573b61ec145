"""Calibration: what was put in comes out, within the intervals that are told."""

import numpy as np
import pytest

from plan.cli import run
from simulate.workload import Calibration, Measurement, calibrate
from simulate.workload.calibration import parse_benchmark_log
from topo.errors import HeddleError

SIZES = 2.0 ** np.arange(12, 31)
NCCL = """\
# nThread 1 nGpus 1 minBytes 8192 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
#   Rank  0 Group  0 Pid 1 on  host-0 device  0 [0x0f] GPU
host-0:1:2 [0] NCCL INFO Channel 00/0 : 2[50000] -> 6[63000] [send] via NET/IB/0
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
           0             0     float     sum      -1    21.00    0.00    0.00      0    21.10    0.00    0.00      0
       32768          8192     float     sum      -1    20.00    1.64    2.87      0    18.00    1.83    3.20    N/A
# Avg bus bandwidth    : 12.3
"""
OLD = "     1048576        262144   float     sum     60.0   17.48   30.58  0e+00    61.0   17.19   30.08  0e+00"
PERFTEST = """\
 #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]
 65536      5000             {rate}             {rate}                   0.37
"""


def log(rng: np.random.Generator, overhead: float, rate: float, noise: float) -> list[Measurement]:
    times = (overhead + SIZES / rate) * (1 + noise * rng.standard_normal(len(SIZES)))
    return [Measurement(size, time, 1.75) for size, time in zip(SIZES, times, strict=True)]


def test_a_line_is_found_again() -> None:
    found = calibrate(log(np.random.default_rng(0), 20e-6, 10e9, 0))
    assert found.overhead_s == pytest.approx((20e-6,) * 3)
    assert found.bus_gbytes_per_s == pytest.approx((17.5,) * 3)
    assert found.half_bytes == pytest.approx(200e3)
    assert found.scatter == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_intervals_hold_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    held = np.zeros(2)
    for _ in range(400):
        overhead, rate = 10 ** rng.uniform(-6, -4), 10 ** rng.uniform(9, 11)
        found = calibrate(log(rng, overhead, rate, 0.05))
        bus = found.bus_gbytes_per_s
        held += (found.overhead_s.low <= overhead <= found.overhead_s.high, bus.low <= 1.75 * rate / 1e9 <= bus.high)
    assert held / 400 == pytest.approx([0.95, 0.95], abs=0.025)


def test_reads_both_kinds_of_logs_and_passes_over_the_rest() -> None:
    assert list(parse_benchmark_log(NCCL.splitlines())) == [
        Measurement(32768, pytest.approx(20e-6), pytest.approx(1.75))
    ]
    assert list(parse_benchmark_log([OLD])) == [
        Measurement(1048576, pytest.approx(60e-6), pytest.approx(30.58 / 17.48))
    ]
    for unit, rate, bytes_s in (("MB/sec", 23000.5, 23000.5 * 2**20), ("Gb/sec", 196.5, 196.5e9 / 8)):
        (found,) = parse_benchmark_log(PERFTEST.format(unit=unit, rate=rate).splitlines())
        assert found.size_bytes / found.time_s == pytest.approx(bytes_s)


@pytest.mark.parametrize(
    "prefix", ["0: ", " 3: ", "12:", "[1,0]<stdout>: ", "[1,0]<stdout>:", "[57012,3]<stdout>: "], ids=repr
)
def test_reads_what_launchers_put_a_rank_before(prefix: str) -> None:
    tagged = [prefix + line for line in NCCL.splitlines()]
    assert list(parse_benchmark_log(tagged)) == list(parse_benchmark_log(NCCL.splitlines()))
    tagged = [prefix + line for line in PERFTEST.format(unit="Gb/sec", rate=196.5).splitlines()]
    assert len(list(parse_benchmark_log(tagged))) == 1


KNEES = [(2**16, 20e-6, 2e9), (2**22, 60e-6, 8e9), (np.inf, 300e-6, 20e9)]
"""Last size, overhead and rate of lines as protocols that take turns have them."""


def kneed(rng: np.random.Generator, lines: list[tuple[float, float, float]], noise: float) -> list[Measurement]:
    found = []
    for size in SIZES:
        _, overhead, rate = next(line for line in lines if size <= line[0])
        found.append(Measurement(size, (overhead + size / rate) * (1 + noise * rng.standard_normal()), 1.0))
    return found


@pytest.mark.parametrize("count", [1, 2, 3])
def test_as_many_lines_as_there_are(count: int) -> None:
    lines = KNEES[3 - count :]
    found = calibrate(kneed(np.random.default_rng(5), lines, 0.0))
    assert [line.last_bytes for line in found.lines[:-1]] == [line[0] for line in lines[:-1]]
    assert [line.overhead_s for line in found.lines] == pytest.approx([line[1] for line in lines], rel=1e-6)
    assert [1 / line.byte_s for line in found.lines] == pytest.approx([line[2] for line in lines], rel=1e-6)
    assert found.overhead_s.value == pytest.approx(lines[0][1])
    assert found.bus_gbytes_per_s.value == pytest.approx(20.0)
    assert found.scatter == pytest.approx(0, abs=1e-9)
    for size, measured_s, _ in kneed(np.random.default_rng(5), lines, 0.0):
        assert found.time_s(size) == pytest.approx(measured_s)
    half = found.half_bytes
    assert half / found.time_s(half) == pytest.approx(10e9, rel=1e-3)
    assert [row[0] for row in found.table.rows()].count("knee") == count - 1


@pytest.mark.slow
def test_noise_is_no_knee_and_knees_are_seen_through_noise() -> None:
    """One line is one in 99 of 100 cases; three lines are found wherever 2 % of noise leaves them apart."""
    rng = np.random.default_rng(6)
    assert sum(len(calibrate(log(rng, 20e-6, 10e9, 0.05)).lines) > 1 for _ in range(300)) <= 9
    for _ in range(50):
        found = calibrate(kneed(rng, KNEES, 0.02))
        assert len(found.lines) == 3
        assert found.scatter < 0.04


def test_lines_are_the_best_of_all() -> None:
    """Beside every way to cut the sizes into three, tried one by one."""
    rng = np.random.default_rng(7)
    measured = kneed(rng, KNEES, 0.03)
    found = calibrate(measured)
    sizes = np.array([one.size_bytes for one in measured])
    times = np.array([one.time_s for one in measured])

    def squares(part: slice) -> float:
        rows = np.stack([1 / times[part], sizes[part] / times[part]], axis=1)
        best = np.inf
        for columns in ([0], [1], [0, 1]):
            solution, *_ = np.linalg.lstsq(rows[:, columns] * [1, 1e-9][: len(columns)], np.ones(len(rows)), rcond=None)
            if (solution >= 0).all():
                left = rows[:, columns] * [1, 1e-9][: len(columns)] @ solution - 1
                best = min(best, float(left @ left))
        return best

    cuts = [
        squares(slice(0, a)) + squares(slice(a, b)) + squares(slice(b, None))
        for a in range(3, len(sizes))
        for b in range(a + 3, len(sizes) - 2)
    ]
    assert found.scatter**2 * (len(sizes) - 6) == pytest.approx(min(cuts), rel=1e-6)


def test_the_rate_is_never_below_a_measured_one() -> None:
    """perftest with a dip at 64 KiB, where the line ends below what the largest message reaches."""
    rates = {64: 1.6, 512: 12.8, 4096: 80.0, 16384: 86.0, 65536: 108.0, 262144: 162.0, 2**20: 187.0, 2**23: 196.0}
    found = calibrate([Measurement(size, size * 8e-9 / rate, 1.0) for size, rate in rates.items()])
    assert found.bus_gbytes_per_s.value == pytest.approx(24.5)
    assert found.bus_gbytes_per_s.high >= found.bus_gbytes_per_s.value >= found.bus_gbytes_per_s.low
    times = np.where(SIZES < 2**20, 20e-6 + SIZES / 1e9, 500e-6 + SIZES / 20e9)
    found = calibrate([Measurement(size, time, 1.0) for size, time in zip(SIZES, times, strict=True)])
    assert found.bus_gbytes_per_s.value >= float((SIZES / times).max()) / 1e9


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([Measurement(1e3, 1e-5)] * 9, "found 1 size; expected three or more"),
        ([Measurement(size, 1e-3 / size) for size in (1e3, 1e4, 1e5)], "larger operations do not take longer"),
        ([Measurement(1e3, 1e-5), Measurement(2e3, 3e-5), Measurement(4e3, 2e-5)], "times scatter too much"),
    ],
)
def test_refuses_what_is_no_line(measured: list[Measurement], message: str) -> None:
    with pytest.raises(HeddleError, match=message):
        calibrate(measured)


def test_the_command_says_what_to_simulate_with(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    rows = [
        f" {int(size)} {int(size) // 4} float sum -1 {20 + size / 1e4:.2f} {size / (20e3 + size / 10):.6f} "
        f"{1.75 * size / (20e3 + size / 10):.6f} 0"
        for size in SIZES
    ]
    path = tmp_path / "nccl.log"
    path.write_text("\n".join(rows))
    assert run(["calibrate", str(path)]) == 0
    assert "plan simulate --host-gbps 140" in capsys.readouterr().out
    assert run(["calibrate", str(path), "--json"]) == 0
    assert '"low":' in capsys.readouterr().out
    path.write_text("no benchmark")
    assert run(["calibrate", str(path)]) == 2
    assert "nccl.log: found no measurement; expected a log of nccl-tests" in capsys.readouterr().err


def test_its_table_is_for_people() -> None:
    found = calibrate(log(np.random.default_rng(2), 20e-6, 10e9, 0), "a log")
    assert isinstance(found, Calibration)
    assert found.table.title == "calibrated on 19 measurements of a log"
    assert [row[4] for row in found.table.rows()] == ["us", "GB/s", "KiB", "%"]
