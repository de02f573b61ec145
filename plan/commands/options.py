"""Options and arguments that several commands share, and how a result is printed for machines."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from plan.inputs import Hashing, RoleFiles, RoutingFiles, check_name
from plan.render.terminal import printable
from topo import Finding, SpecError, Verdict

Command = TypeVar("Command", bound=Callable[..., object])


class FilePath(click.Path):
    """The path of a file or folder that is there, or could be."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, if it can be one."""
        path = Path(os.fsdecode(value))  # type: ignore[arg-type]
        check_name(path)
        return path


FILE = FilePath()


class Number(click.FloatRange):
    """A number between bounds: NaN, which no bound refuses, is none."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


STATUS = {Verdict.HOLDS: 0, Verdict.EXCEEDED: 1, Verdict.CANNOT_TELL: 3}
"""Exit status of each verdict on a plan."""


def refuse_folder(
    context: click.Context, parameter: click.Parameter, given: Path | tuple[Path, ...]
) -> Path | tuple[Path, ...]:
    """Refuse a folder where a spec is expected, and say what takes it."""
    for path in (given,) if isinstance(given, Path) else given:
        if not path.is_dir():
            continue
        plan = (path / "plan.json").is_file()
        found, hint = "a folder", "Name the file in it."
        if plan:
            found = "a folder with a plan that was made already"
            hint = "Its cost is in plan.json and bom.csv; `plan verify` proves its tables, `plan export` writes more."
        raise SpecError([Finding(str(path), found, "the YAML file of a spec", hint)])
    return given


spec_argument = click.argument("spec", type=FILE, callback=refuse_folder)
specs_argument = click.argument("specs", type=FILE, nargs=-1, required=True, callback=refuse_folder)
fabric_argument = click.argument("fabric", type=FILE)
output_folder = click.option("-o", "--output", type=FILE, required=True, help="Folder to write.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")
currency_option = click.option(
    "--currency",
    help="Of the cost: USD, EUR, ..., or units, relative ones of a paper. By default that of `budget.price` or "
    "`owning`, else USD, else another in which all switches have a price.",
)
job_option = click.option(
    "--job", type=click.IntRange(2), help="Servers of a job: say what each gets. `plan check` takes half of all, too."
)
subnet_option = click.option(
    "--subnet", help="Subnet, if FABRIC has several; a pattern such as '*-plane*' joins several into one network."
)
roles_option = click.option("--roles", type=FILE, help="File with the roles of hosts, in lines such as `storage st*`.")
endpoints_option = click.option(
    "--endpoints",
    type=click.Choice(["hca", "adapters", "all"]),
    default="hca",
    show_default=True,
    help="End ports to connect: HCAs; or also SHARP aggregation nodes and routers; or also port 0 of switches.",
)


def seed_option(what: str) -> Callable[[Command], Command]:
    """Return the option ``--seed``; ``what`` says of what."""
    return click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help=what)


def bundle(name: str, kind: type, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds options and gives their values to the command as one dataclass of this kind."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**values: object) -> object:
            bundled = {item.name: values.pop(item.name) for item in fields(kind)}
            return command(**values, **{name: kind(**bundled)})

        for option in reversed(options):  # click shows first what is added last
            called = option(called)
        return called  # type: ignore[return-value]

    return decorate


routing_options = bundle(
    "given",
    RoutingFiles,
    click.option("--tables", type=FILE, help="Forwarding tables, as `plan verify` takes them."),
    click.option(
        "--lanes", type=FILE, help="opensm.conf with service levels, lanes and weights; or ibdiagnet's .slvl."
    ),
    click.option("--policy", type=FILE, help="qos-policy.conf, with the level of each path; or ibdiagnet's .psl."),
    roles_option,
    subnet_option,
)
"""The options that say how FABRIC is routed."""


class Ecmp(click.ParamType[int]):
    """Queue pairs of a connection, or the word ``spray``."""

    name = "N|spray"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return queue pairs."""
        if value == "spray":
            return 0
        if not re.fullmatch("[1-9][0-9]{0,8}", str(value)):
            self.fail(f"found {str(value)[:40]!r}; expected a number of queue pairs, or spray", param, ctx)
        return int(str(value))


hash_options = bundle(
    "hashing",
    Hashing,
    click.option(
        "--ecmp",
        type=Ecmp(),
        help="Paths by hashes of switches over all shortest ones: queue pairs of a connection, or spray. Ethernet has "
        "1 by default; tables of InfiniBand are then left out.",
    ),
    click.option("--one-hash", is_flag=True, help="Hashes: the same on all switches (polarisation)."),
    click.option(
        "--bond",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Hashes: adapter ports of a server, one after another, that are one port (dual ToR).",
    ),
    click.option(
        "--down",
        multiple=True,
        help="Hashes: a plane, switch or link that does not work; repeatable. Tables need `plan repair` first.",
    ),
)
"""The options that say how switches choose among next hops."""


role_options = bundle(
    "hosts",
    RoleFiles,
    roles_option,
    click.option("--cn-guids", type=FILE, help="Port GUIDs of compute hosts, one per line."),
    click.option("--io-guids", type=FILE, help="Port GUIDs of storage hosts, one per line."),
)
"""The options that say what hosts are for."""


def print_json(value: object) -> None:
    """Print one object, keys in the order they come."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def answered(found: Any, *, as_json: bool) -> bool:
    """Tell a person what was skipped, and a machine everything; whether it was a machine that asked."""
    print_notes(getattr(found, "notes", ()))
    if as_json:
        print_json(found.to_dict())
    return as_json


def print_notes(notes: tuple[str, ...]) -> None:
    """Tell a person what was skipped in what was read."""
    for note in notes:
        click.echo(printable(f"plan: {note}"), err=True)
