"""Options that several commands share."""

import click
from click.testing import CliRunner

from plan.commands.options import output_folder


def test_a_folder_to_write_must_be_named() -> None:
    @click.command()
    @output_folder
    def write(output: object) -> None:
        click.echo(f"into {output}")

    missing = CliRunner().invoke(write, [])
    assert (missing.exit_code, "Missing option '-o'" in missing.output) == (2, True)
    assert CliRunner().invoke(write, ["-o", "there"]).output == "into there\n"
