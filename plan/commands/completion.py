"""``plan completion``: the script by which a shell completes commands, options and files."""

from __future__ import annotations

import click

from plan.commands.options import COMPLETE, as_json, print_json


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
