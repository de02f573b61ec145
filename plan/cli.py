"""The command ``plan``: which commands there are, and how it ends.

Every command is a function in a module of `plan.commands`, imported when it is asked for.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from plan.render.terminal import printable
from topo import FormatError, HeddleError, SpecError, did_you_mean

COMMANDS: dict[str, str] = {
    "init": "plan.commands.spec",
    "check": "plan.commands.spec",
    "build": "plan.commands.build",
    "route": "plan.commands.route",
    "verify": "plan.commands.verify",
    "simulate": "plan.commands.simulate",
    "operate": "plan.commands.operate",
    "cost": "plan.commands.cost",
    "compare": "plan.commands.cost",
    "optimise": "plan.commands.cost",
    "draw": "plan.commands.draw",
    "export": "plan.commands.export",
    "schema": "plan.commands.spec",
}
"""Module of each command, in the order of the help; the function is called as the command is."""

EPILOGUE = """\b
Exit status:
  0   done and proven
  1   the plan is refused: the proof or a budget fails, with what to change
  2   bad input or usage
  70  a bug in Heddle, with a traceback
"""
BUG = 70
"""EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
"""128 + SIGINT, as shells count."""
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
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for, or refuse it with the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"There are {', '.join(COMMANDS)}."
            raise click.UsageError(f"no command {args[0][:60]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, and write out what it prints while a broken pipe can still be told from other failures."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ENOSPC):
                raise
            drop_output()
            if error.errno == errno.EPIPE:  # whoever read our output has gone
                raise click.exceptions.Exit(BROKEN_PIPE) from None
            raise HeddleError(f"{error.filename or 'output'}: no space left on the device") from None
        return result


def drop_output() -> None:
    """Let what is still buffered go nowhere; the interpreter would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.command(cls=CommandGroup, epilog=EPILOGUE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("heddle-fabric"), prog_name="heddle")
def plan() -> None:
    """Plan, route, prove and price the network of an AI cluster."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and leave with its exit status: one message for bad input, a traceback only for our bugs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, stop)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before we began, as by >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open until we end
    sys.exit(run(arguments))


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by way of every `finally`, so that nothing half done stays behind."""
    sys.exit(128 + number)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; with ``--json``, what is wrong is one JSON object like any result."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in takewhile(lambda word: word != "--", given)
    try:
        status = plan.main(arguments, prog_name="plan", standalone_mode=False)
    except click.exceptions.Abort:  # what click makes of an interrupt
        click.echo("plan: interrupted", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        if not as_json:
            error.show()
            return error.exit_code
        return refuse(error.exit_code, [{"message": error.format_message()}])
    except HeddleError as error:
        if not as_json:
            click.echo(printable(str(error)), err=True)  # begins with file:line:column where there is one
            return error.exit_code
        return refuse(error.exit_code, describe_error(error))
    except MemoryError:
        message = "not enough memory for this; take a smaller cluster or a larger machine"
        if not as_json:
            click.echo(f"plan: {message}", err=True)
            return HeddleError.exit_code
        return refuse(HeddleError.exit_code, [{"message": message}])
    except Exception as error:
        traceback.print_exc()
        click.echo("plan: this is a bug in Heddle; please report it with the traceback above", err=True)
        return refuse(BUG, [{"message": f"a bug in Heddle: {type(error).__name__}: {error}"}]) if as_json else BUG
    return status if isinstance(status, int) else 0


def refuse(status: int, errors: list[dict[str, str]]) -> int:
    """Print the JSON object that takes the place of a result, and return the exit status."""
    try:
        click.echo(json.dumps({"ok": False, "errors": errors}, indent=2))
    except BrokenPipeError:
        drop_output()
    return status


def describe_error(error: HeddleError) -> list[dict[str, str]]:
    """Return what is wrong as plain objects: findings where there are any, else the message."""
    if isinstance(error, SpecError):
        return [
            {"where": item.where, "found": item.found, "expected": item.expected, "hint": item.hint}
            for item in error.findings
        ]
    if isinstance(error, FormatError):
        return [{"where": f"{error.path}:{error.line}" if error.line else error.path, "message": error.reason}]
    return [{"message": str(error)}]
