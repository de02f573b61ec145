"""``plan collect`` and ``plan completion``: scripts that are printed and never run."""

from __future__ import annotations

import shlex

import click

from plan.commands.options import COMPLETE, as_json, print_json
from plan.render.terminal import printable

SCRIPT = """\
# Records the state of a subnet, for `plan`. Run it as root on a host that is connected to it. It only reads.
# Nothing here was run: read it first. Of a server with several adapters name one with --device (`ibstat -l` lists
# them; of XDR each has two, take the one of the subnet).
set -u
mkdir -p {folder} && cd {folder}

# nodes, cables, LIDs: what `plan route`, `plan diff` and `plan verify` take as FABRIC (a minute for 10,000 ports)
ibnetdiscover{diags} > fabric.ibnetdiscover

# forwarding tables: what they take as LFTS; older releases call it dump_lfts
dump_fts{diags} > now.lfts || dump_lfts{diags} > now.lfts

# states and speeds of all links, a second witness of the cabling
iblinkinfo --line{diags} > links.iblinkinfo

# errors since the counters were last cleared, and waiting packets; neither is cleared here
ibqueryerrors --data{diags} > errors.txt
# bit errors and light of the ports that it names, where NVIDIA's mlxlink is: LID as in fabric.ibnetdiscover, port as
# printed (16/2 is port 32 of a switch with NDR ports)
#   {{ set -x; mlxlink -d lid-LID -p PORT -m -c; set +x; }} >> errors.txt 2>&1

# all that ibdiagnet tells, where NVIDIA's is installed: ibdiagnet2.db_csv is a FABRIC too
ibdiagnet{ibdiagnet} -o ibdiagnet --get_cable_info || true

# what OpenSM holds, on the host where it runs; copied, not moved
cp -p {cache}/guid2lid . 2> /dev/null || true
cp -p {logs}/opensm-subnet.lst {logs}/opensm-lfts.dump . 2> /dev/null || true
cp -p /etc/opensm/opensm.conf /etc/opensm/qos-policy.conf /etc/opensm/partitions.conf . 2> /dev/null || true
sminfo{diags} > sm.txt

# then, wherever `plan` is installed:
#   plan verify fabric.ibnetdiscover now.lfts           are the tables complete and free of credit loops on one lane?
#     on several lanes: --lanes opensm.conf --policy qos-policy.conf, or ibdiagnet's .slvl and .psl
#   plan explain fabric.ibnetdiscover errors.txt --tables now.lfts   which cables are bad?
#   plan diff PLAN fabric.ibnetdiscover -o differences   is it cabled as planned?
#   plan route fabric.ibnetdiscover -o out               better tables
"""


@click.command(short_help="Print the commands that record the state of a real fabric.")
@click.option("--device", help="Adapter of the host that is connected to the subnet, such as mlx5_0.")
@click.option("--port", type=click.IntRange(1, 254), help="Its port.")
@click.option("--folder", default="fabric", show_default=True, help="Folder for the records.")
@click.option("--cache", default="/var/cache/opensm", show_default=True, help="OpenSM's cache.")
@click.option("--logs", default="/var/log", show_default=True, help="Folder of OpenSM's dumps.")
@as_json
def collect(device: str | None, port: int | None, folder: str, cache: str, logs: str, as_json: bool) -> None:
    """Print a shell script that records the state of a subnet: cabling, tables, speeds, errors.

    `plan` does not run the script. Its commands only read, but need the rights of an administrator.
    """
    chosen = [("-C", "-i", device), ("-P", "-p", None if port is None else str(port))]
    given = [(diags, ibdiagnet, shlex.quote(value)) for diags, ibdiagnet, value in chosen if value is not None]
    places = {"folder": folder, "cache": cache, "logs": logs}
    text = SCRIPT.format(
        diags="".join(f" {option} {value}" for option, _, value in given),
        ibdiagnet="".join(f" {option} {value}" for _, option, value in given),
        **{name: shlex.quote(path) for name, path in places.items()},
    )
    if as_json:
        print_json({"script": text})
    else:
        click.echo(printable(text), nl=False)


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
