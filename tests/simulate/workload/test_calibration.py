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


def test_intervals_hold_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    held = np.zeros(2)
    for _ in range(1000):
        overhead, rate = 10 ** rng.uniform(-6, -4), 10 ** rng.uniform(9, 11)
        found = calibrate(log(rng, overhead, rate, 0.05))
        bus = found.bus_gbytes_per_s
        held += (found.overhead_s.low <= overhead <= found.overhead_s.high, bus.low <= 1.75 * rate / 1e9 <= bus.high)
    assert held / 1000 == pytest.approx([0.95, 0.95], abs=0.025)


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


def test_the_rate_is_never_below_a_measured_one() -> None:
    """A sweep whose protocol changes fits no line: the rate is the highest of the log, and so is the interval's end."""
    times = np.where(SIZES < 2**20, 20e-6 + SIZES / 1e9, 500e-6 + SIZES / 20e9)
    found = calibrate([Measurement(size, time, 1.0) for size, time in zip(SIZES, times, strict=True)])
    highest = float((SIZES / times).max()) / 1e9
    assert found.bus_gbytes_per_s.value >= highest
    assert found.bus_gbytes_per_s.high >= found.bus_gbytes_per_s.value >= found.bus_gbytes_per_s.low


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
    found = calibrate(log(np.random.default_rng(2), 20e-6, 10e9, 0.05), "a log")
    assert isinstance(found, Calibration)
    assert found.table.title == "calibrated on 19 lines of a log"
    assert [row[4] for row in found.table.rows()] == ["us", "GB/s", "KiB", "%"]
