"""What every test may use: real fabrics, real tools, and reproducible properties."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ("helpers.skips",)
REPOSITORY = Path(__file__).resolve().parents[1]
SBIN = ("/usr/sbin", "/sbin")  # Debian's opensm and diagnostics are there, which is not on every user's PATH

# A test that asks for more or fewer examples than these does so with helpers.strategies.examples.
settings.register_profile("usual", deadline=None, derandomize=True, print_blob=True, max_examples=50)
settings.register_profile("fast", deadline=None, derandomize=True, print_blob=True, max_examples=10)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("usual")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; so would all be that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make nightly` run all tests on kernels that are always compiled, and on kernels that never are."""
    parser.addoption(
        "--kernels",
        choices=("as users have them", "compiled", "interpreted"),
        default="as users have them",
        help="how kernels run in the processes of the tests themselves",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Fix how kernels run, where the option says so."""
    if (how := config.getoption("kernels")) != "as users have them":
        from routing.machine_code import Kernel, is_small

        small = 2**9  # elements of an array: with more, the tests of one room take hours
        Kernel.is_interpreted = (  # type: ignore[method-assign]
            lambda kernel, given: how == "interpreted" and is_small(given, small)
        )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out values of the night by day: to make those 7,000 tests and to drop them again takes seconds."""
    if "not nightly" not in metafunc.config.option.markexpr:
        return
    parametrize = metafunc.parametrize

    def by_day(names, values, *args, ids=None, **options) -> None:  # type: ignore[no-untyped-def]
        values = list(values)
        kept = [value for value in values if all(mark.name != "nightly" for mark in getattr(value, "marks", ()))]
        if not kept or isinstance(ids, list):  # none left would be a skip; a list of names is one name a value
            kept = values
        parametrize(names, kept, *args, ids=ids, **options)

    metafunc.parametrize = by_day  # type: ignore[method-assign]


def _is_there(tool: str) -> bool:
    if "/" in tool:  # a file, as a pattern below /: usr/lib/*/umad2sim/libumad2sim.so
        return any(Path("/").glob(tool.lstrip("/")))
    return shutil.which(tool, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN))) is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose real tool is missing; under CI `helpers.skips` lets it fail, since nobody would notice."""
    missing = sorted({tool for mark in item.iter_markers("peer") for tool in mark.args if not _is_there(tool)})
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: run scripts/install-test-tools as root")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The folder of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def originals() -> Path:
    """The folder of real dumps, which are not ours to ship: HEDDLE_FABRICS, or shared/fabrics beside the checkout.

    Only what needs their very text reads them (dialects, what others measured); all else reads their twins.
    """
    folder = Path(os.environ.get("HEDDLE_FABRICS") or REPOSITORY.parent / "shared" / "fabrics")
    if not folder.is_dir():
        from helpers.skips import without  # a plugin: pytest loads it, after this module

        pytest.skip(without("real dumps"))
    return folder


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep lines of progress out of what a test reads: how many there are depends on the machine and its load."""
    monkeypatch.setattr("plan.render.terminal.PATIENCE_S", float("inf"))
    monkeypatch.setattr("plan.render.terminal._tell_of_compiling", lambda text: None)
