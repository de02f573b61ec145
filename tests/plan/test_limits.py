"""The budget of a command: it ends with one message and its name, whatever it does."""

import resource
import subprocess
import sys

import pytest


def plan(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "plan", *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )


@pytest.mark.slow
def test_cpu_seconds_of_a_command(repository, tmp_path):
    done = plan("--cpu", 2, "build", repository / "configs" / "four-planes-32k.yaml", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("(budget command-cpu); give more with `plan --cpu`\n")
    assert "Traceback" not in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_memory_of_a_command(repository, tmp_path):
    done = plan("--memory", 0.25, "build", repository / "configs" / "four-planes-32k.yaml", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "budget command-memory" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_memory_for_compiled_code(repository, tmp_path):
    """LLVM aborts where it gets none, so it is not asked."""
    spec = repository / "configs" / "fire-flyer-2.yaml"
    done = plan("--memory", 0.25, "build", spec, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "budget command-memory" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("kind", "mib"), [(resource.RLIMIT_DATA, 100), (resource.RLIMIT_AS, 500)])
def test_memory_that_libraries_cannot_be_loaded_in_is_refused(repository, kind, mib):
    spec = repository / "configs" / "lab-20.yaml"
    done = plan("check", spec, preexec_fn=lambda: resource.setrlimit(kind, (mib * 2**20, mib * 2**20)))
    assert done.returncode == 2
    assert done.stderr.startswith(f"plan: found a limit of {mib} MiB on memory; expected ")


def test_a_lower_limit_of_the_shell_stays():
    code = "import resource, plan.signals as l; l.impose(1000, 8); print(resource.getrlimit(resource.RLIMIT_CPU)[0])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (77, 77)),
    )
    assert done.stdout == "77\n"
