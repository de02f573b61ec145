"""The command ``plan``: which commands there are, and how it ends.

Every command is a function in a module of `plan.commands`, imported when it is asked for.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import NoReturn, TextIO

import click
from click.shell_completion import shell_complete

from plan.commands.options import Number
from plan.commands.spec import COMPLETE
from plan.render.terminal import print_error, printable, spelled
from plan.signals import UNDIVIDED, impose, lift_memory, watching
from topo import HeddleError, did_you_mean

COMMANDS = {
    "init": ("spec", "dgx-h100-48 -o cluster.yaml", "describe"),
    "check": ("spec", "cluster.yaml", "describe"),
    "build": ("build", "cluster.yaml -o out", "tutorial"),
    "route": ("build", "ibnetdiscover.txt --compare opensm -o out", "route"),
    "collect": ("live", "--device mlx5_0 > collect.sh", "live"),
    "mock": ("live", "cluster.yaml --faults 3 -o mock", "live"),
    "diff": ("live", "out ibnetdiscover.txt", "live"),
    "repair": ("repair", "out --down spine0 -o repaired", "repair"),
    "keep": ("repair", "out --now /var/log/opensm-subnet.lst --load /etc/opensm/lfts", "repair"),
    "verify": ("verify", "ibnetdiscover.txt tables.lfts --path gpu00 gpu19", "route"),
    "simulate": ("simulate", "cluster.yaml -w all-to-all", "simulate"),
    "operate": ("simulate", "cluster.yaml -q queue.yaml --hours 24", "operate"),
    "ranks": ("simulate", "out --nodes gpu[00-15] -o ranks", "ranks"),
    "explain": ("live", "out pairs.csv", "explain"),
    "sweep": ("build", "sweep.yaml -o sweep", "sweep"),
    "calibrate": ("live", "all_reduce_perf.txt", "simulate"),
    "cost": ("cost", "cluster.yaml --currency USD", "catalog"),
    "compare": ("cost", "one.yaml two.yaml", "tutorial"),
    "optimise": ("cost", "needs.yaml -o winner.yaml", "optimise"),
    "draw": ("export", "cluster.yaml --view floor -o floor.svg", "floor"),
    "report": ("export", "out -o report.html", "report"),
    "export": ("export", "cluster.yaml netbox -o netbox", "commands"),
    "schema": ("spec", "cluster > cluster.json", "describe"),
    "completion": ("spec", "bash", "install"),
}
"""Module of each command, in the order of the help, its example, and its page of the manual."""

EPILOGUE = """\b
Exit status:
  0   done and proven
  1   the plan is refused: the proof or a budget fails, with what to change
  2   bad input or usage
  3   an unknown figure decides whether a budget holds; the message names it
  70  a bug in Heddle, with a traceback
  128 + the number of a signal that ended it: 130, 143
"""
EXTRAS = {"cairosvg": "pictures", "highspy": "optimise", "openpyxl": "workbooks", "pulp": "optimise"}
"""Which extra of ours installs a package that not every command needs."""
BUG = 70
"""EX_SOFTWARE of sysexits.h."""
BROKEN_PIPE = 141
"""128 + SIGPIPE."""


class CommandGroup(click.Group):
    """The commands of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, example, page = COMMANDS[cmd_name]
        command = getattr(import_module(f"plan.commands.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        command.epilog = f"\b\nExample: plan {cmd_name} {example}\nManual:  docs/{page}.md"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for, or refuse it with the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"There are {', '.join(COMMANDS)}."
            raise click.UsageError(f"no command {args[0][:60]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.command(cls=CommandGroup, epilog=EPILOGUE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="heddle-fabric", prog_name="heddle")
@click.option("--cpu", type=click.IntRange(min=1), help="Seconds of CPU that the command may take.")
@click.option("--memory", type=Number(min=0.25, max=1e6), help="GiB of memory that it may take.")
def plan(cpu: int | None, memory: float | None) -> None:
    """Plan, route, prove and price the network of an AI cluster."""
    impose(cpu, memory)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit status: one message for bad input, a traceback only for our bugs."""
    for name in ("stdout", "stderr"):
        prepare_stream(name)
    try:
        with watching():
            status = run(arguments)
            with printing(sys.stdout), printing(sys.stderr):
                pass
            with UNDIVIDED:  # unless a signal is ending it already
                os._exit(status)  # Python's own end takes seconds after compiled code, unwatched
    except RuntimeError as error:  # of `watching`
        sys.exit(refuse(error, as_json=False))


def prepare_stream(name: str) -> None:
    """Make sure that a standard stream takes whatever is printed."""
    stream = getattr(sys, name)
    if stream is None:  # closed before we began, as by >&-
        setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open until we end
    elif isinstance(stream, io.TextIOWrapper):
        codecs.register_error("spelled", spelled)
        stream.reconfigure(errors="spelled")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; with ``--json``, what is wrong is one JSON object like any result."""
    if COMPLETE in os.environ:
        return shell_complete(plan, {}, "plan", COMPLETE, os.environ[COMPLETE])
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in takewhile(lambda word: word != "--", given)
    try:
        try:
            # Not by click's `main`, which takes a reader that has gone for status 1: a plan that is refused.
            with plan.make_context("plan", list(given)) as context:
                status = plan.invoke(context)
        except click.exceptions.Exit as leaving:
            status = leaving.exit_code
        sys.stdout.flush()
    except Exception as error:
        with UNDIVIDED:  # what fails because the command is ending is not told
            return refuse(error, as_json)
    return status if isinstance(status, int) else 0


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error came of a lack of memory, which libraries turn into errors of their own as they clean up."""
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error is not None


def refuse(error: Exception, as_json: bool) -> int:
    """Tell why the command does not do what is asked, on a stream that may be gone, and return the exit status."""
    if isinstance(error, OSError) and error.errno == errno.EPIPE:  # whoever read our output has gone
        drop(sys.stdout)
        return BROKEN_PIPE
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        drop(sys.stdout)
        as_json = False
        error = HeddleError(f"{error.filename or 'output'}: no space left on the device")
    elif out_of_memory(error):
        lift_memory()
        error = HeddleError(
            "plan: not enough memory for this (budget command-memory, or what the machine has); take a smaller "
            "cluster, a larger machine, or more with `plan --memory`"
        )
    elif isinstance(error, RuntimeError) and "start new thread" in str(error):
        error = HeddleError(
            "plan: no thread can be started; expected room for some. See `ulimit -u`, or pids of cgroups"
        )
    elif isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        error = HeddleError(f"plan: {error.name} is not installed: pip install 'heddle-fabric[{extra}]'")
    status: int = getattr(error, "exit_code", BUG)  # click's errors and ours have one
    if as_json:
        try:
            click.echo(json.dumps({"ok": False, "errors": describe_error(error)}, indent=2))
            sys.stdout.flush()
        except OSError as failed:  # a full device: as a sentence, then; of a reader that has gone the status is enough
            drop(sys.stdout)
            as_json = failed.errno == errno.EPIPE
    with printing(sys.stderr):
        if status == BUG:
            traceback.print_exception(error)
            click.echo("plan: this is a bug in Heddle; please report it with the traceback above", err=True)
        elif not as_json and isinstance(error, click.ClickException):
            shown = io.StringIO()
            error.show(shown)  # repeats words of the command line as they are
            click.echo(printable(shown.getvalue()), err=True, nl=False)
        elif not as_json:
            print_error(str(error))
    return status


@contextmanager
def printing(stream: TextIO) -> Iterator[None]:
    """Print to a stream whose device may be full or whose reader may be gone: the exit status says enough then."""
    try:
        yield
        stream.flush()
    except OSError:
        drop(stream)


def drop(stream: TextIO) -> None:
    """Let what is still buffered go nowhere; the interpreter would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def describe_error(error: Exception) -> list[dict[str, str]]:
    """Return each finding as a plain object."""
    if isinstance(error, click.ClickException):
        return [{"message": error.format_message()}]
    if isinstance(error, HeddleError):
        return [finding.to_dict() for finding in error.findings]
    return [{"message": f"a bug in Heddle: {type(error).__name__}: {error}"}]
