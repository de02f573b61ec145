"""Which tests may be skipped under CI, and why: everything else that is skipped there fails.

A plugin of pytest; `tests/conftest.py` loads it. On a user's machine a test may be skipped for any reason.
"""

import os
from collections import Counter

import pytest

UNDER_CI = os.environ.get("CI", "").lower() == "true"
ALLOWED = {
    "LogGOPSim": "no distribution has it; build it, and put LogGOPSim, txt2bin and schedgen on the PATH",
    "ASTRA-sim": "no distribution has it; put AstraSim_Analytical_Congestion_Aware and ..._Unaware on the PATH",
    "consumers": "the programs that read our exports could not be installed; `make consumers` says why",
    "real dumps": "they are not ours to ship; set HEDDLE_FABRICS to the folder that holds them",
}
"""What tests may do without under CI, with the reason."""


def without(kind: str) -> str:
    """Return the reason of a skip that is allowed under CI."""
    return f"{kind}: {ALLOWED[kind]}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def _kind(reason: str) -> str | None:
    return next((kind for kind in ALLOWED if reason == without(kind)), None)


def _judged(report):
    """Return a report; a failed one where it is a skip under CI that is not allowed."""
    if UNDER_CI and report.skipped and not hasattr(report, "wasxfail") and _kind(_reason(report)) is None:
        report.longrepr = f"skipped under CI, where only {', '.join(ALLOWED)} may be missing: {_reason(report)}"
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    """Judge the report of a test."""
    return _judged((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report():
    """Judge the report of a module, which may be skipped as a whole."""
    return _judged((yield))


def pytest_terminal_summary(terminalreporter) -> None:
    """Count the tests that were skipped, by reason."""
    skipped = Counter(_kind(_reason(report)) or "other" for report in terminalreporter.stats.get("skipped", ()))
    for kind, number in sorted(skipped.items()):
        terminalreporter.write_line(
            f"{number} skipped: {without(kind) if kind in ALLOWED else 'for other reasons (-rs)'}"
        )
