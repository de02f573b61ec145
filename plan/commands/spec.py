"""``plan init``, ``check``, ``schema`` and ``completion``: a spec to start from, whether it holds, help to write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import topo
from plan.commands.options import FILE, STATUS, as_json, currency_option, job_option, print_json, spec_argument
from topo import Finding, SpecError

SCHEMA_FILE = "heddle.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
"""What editors with a YAML language server look for on the first line."""
DEFAULT_PRESET = "lab-20"
COMPLETE = "_PLAN_COMPLETE"
"""Variable by which the script of `plan completion` asks for words, as click names it."""


@click.command()
@click.argument("preset", default=DEFAULT_PRESET)
@click.option("-o", "--output", type=FILE, help="File to write; PRESET.yaml by default.")
@click.option("--list", "only_list", is_flag=True, help="List the presets.")
@as_json
def init(preset: str, output: Path | None, only_list: bool, as_json: bool) -> None:
    """Write a commented spec to start from.

    PRESET is one of `plan init --list`, by default lab-20. An existing file is never overwritten.
    """
    from plan.files import write_file

    about = topo.presets()
    if only_list:
        if as_json:
            print_json({"presets": about})
        else:
            width = max(map(len, about))
            click.echo("\n".join(f"{name:{width}}  {text}" for name, text in about.items()))
        return
    if preset not in about:
        hint = topo.did_you_mean(preset, about)
        raise SpecError([Finding("PRESET", f'"{preset[:60]}"', f"one of {', '.join(about)}", hint)])
    output = output or Path(f"{preset}.yaml")
    text = SCHEMA_LINE + (topo.config_root() / f"{preset}.yaml").read_text(encoding="utf-8")
    write_file(output, text, new=True)
    if as_json:
        print_json({"preset": preset, "file": str(output)})
    else:
        click.echo(f"wrote {output}", err=True)
        click.echo(f"next: plan check {output}; for completion in your editor: plan schema > {SCHEMA_FILE}", err=True)


@click.command()
@spec_argument
@job_option
@currency_option
@as_json
def check(spec: Path, job: int | None, currency: str | None, as_json: bool) -> int:
    """Validate a spec and summarise the result.

    The output is that of `plan build` without routing: parts, cost, power, effects of single failures, unknown figures.
    Nothing is written. Every error shows the file, line and column, what was found, and what was expected.

    Exit status 1: the plan exceeds its own budget, or servers that must reach each other do not; 3: an unknown figure
    decides whether a budget holds.
    """
    from plan import building
    from plan.render.views import show_plan

    checked = building.check(spec, job=job, currency=currency)
    if as_json:
        print_json({"name": checked.name, "holds": checked.verdict.holds, **checked.summary()})
    else:
        show_plan(checked)
    return STATUS[checked.verdict]


KINDS = {
    "cluster": ("topo", "ClusterSpec", "Heddle cluster spec"),
    "workload": ("simulate.workload", "WorkloadSpec", "Heddle workload"),
    "queue": ("simulate.cluster", "QueueSpec", "Heddle queue"),
    "needs": ("costmodel", "Needs", "Heddle needs"),
    "sweep": ("plan.sweeps.spec", "SweepSpec", "Heddle sweep"),
}
"""Module and name of the model of each kind of YAML, and the title of its schema."""
OUTPUTS = {"plan.json": "plan.schema.json", "diff": "diff.schema.json"}
"""The file of the schema of what commands write."""


@click.command()
@click.argument("kind", type=click.Choice((*KINDS, *OUTPUTS)), default="cluster")
@as_json
def schema(kind: str, as_json: bool) -> None:
    """Print the JSON Schema of a kind of YAML, for editors.

    KIND is the content of the YAML, by default the spec of a cluster. Editors with a YAML language server use the
    schema to complete and check it. `plan.json` is the file of that name in an output folder, `diff` what `plan diff
    --json` prints of a fabric beside its plan. The output is always JSON.
    """
    print_json(schema_of(kind))


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of YAML, or of what a command writes."""
    from importlib import import_module, resources
    from importlib.metadata import version

    if kind in OUTPUTS:
        found = json.loads(resources.files("plan").joinpath(OUTPUTS[kind]).read_text("utf-8"))
    else:
        module, name, title = KINDS[kind]
        found = getattr(import_module(module), name).model_json_schema() | {"title": title}
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$id": f"urn:heddle-fabric:{version('heddle-fabric')}:{kind}", **found}


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@as_json
def completion(shell: str, as_json: bool) -> None:
    """Print the script that lets a shell complete `plan`.

    Bash: `plan completion bash > ~/.local/share/bash-completion/completions/plan`. Zsh: `plan completion zsh > _plan`
    in a folder of $fpath. Fish: `plan completion fish > ~/.config/fish/completions/plan.fish`. Then open a new shell.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    maker = found(click.get_current_context().find_root().command, {}, "plan", COMPLETE)
    script = maker.source_template % maker.source_vars()  # `source` runs Bash to ask for its version
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
