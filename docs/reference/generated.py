"""Directives that write pages of the reference out of the code: commands, files, faces."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx


class Written(Directive):
    """A directive whose content is reStructuredText that it writes itself."""

    has_content = False

    def lines(self) -> Iterator[str]:
        """Yield the text."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        """Return the text as nodes."""
        found = nodes.section()
        found.document = self.state.document
        self.state.nested_parse(StringList(list(self.lines()), type(self).__name__), 0, found, match_titles=1)
        return found.children


class Commands(Written):
    """Every command as its help says it."""

    def lines(self) -> Iterator[str]:
        """Yield the text."""
        from plan.cli import COMMANDS, plan

        for name in COMMANDS:
            with click.Context(plan, info_name="plan") as parent:
                command = plan.get_command(parent, name)
                assert command is not None
                with click.Context(command, info_name=name, parent=parent) as context:
                    context.max_content_width = 96
                    context.terminal_width = 96
                    text = command.get_help(context)
            yield from (f".. rubric:: plan {name}", "", "::", "")
            yield from (f"    {line}".rstrip() for line in text.splitlines())
            yield ""


class Outputs(Written):
    """Every file of an output folder, and what it is for."""

    def lines(self) -> Iterator[str]:
        """Yield the text."""
        from plan.export.registry import EXPORTS

        yield from (".. list-table::", "   :header-rows: 1", "   :widths: 35 15 50", "")
        yield from ("   * - files", "     - `plan export`", "     - what they are for")
        rows = [("plan.json", "", "every figure, for programs"), ("SHA256SUMS", "", "the digest of every other file")]
        rows += [
            (", ".join(export.files), name, f"{export.purpose}; for {export.consumer}")
            for name, export in EXPORTS.items()
        ]
        for files, name, purpose in rows:
            listed = ", ".join(f"``{file}``" for file in files.split(", "))
            yield from (f"   * - {listed}", f"     - {name and f'``{name}``'}", f"     - {purpose}")
        yield ""


class Face(Written):
    """All public names of a package, with their docstrings."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Yield the text."""
        face = importlib.import_module(self.arguments[0])
        yield from (f".. rubric:: {face.__name__}", "")
        for name in face.__all__:
            value = getattr(face, name)
            if inspect.ismodule(value):
                continue
            if not callable(value):
                found = re.search(rf"``{name}``  (.*)", face.__doc__ or "")
                yield from (f".. py:data:: {face.__name__}.{name}", "", f"   {found[1] if found else ''}", "")
                continue
            is_class = inspect.isclass(value)
            kind = "exception" if is_class and issubclass(value, Exception) else "class" if is_class else "function"
            yield from (f".. auto{kind}:: {face.__name__}.{name}", "")


class Picture(Directive):
    """A drawing as it stands in the page: of a preset, with the loads of its tables or of an allreduce, or its room."""

    required_arguments = 1
    option_spec = dict.fromkeys(("workload", "view", "chart"), directives.unchanged) | {"loads": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the picture, which only pages for a browser show."""
        import routing
        import simulate
        import topo

        cluster, view = topo.preset(self.arguments[0]), self.options.get("view")
        if "workload" in self.options:
            routed = routing.route(cluster.fabric)
            hosts = cluster.fabric.ends(role="compute")
            flows = simulate.allreduce(hosts, "186 MiB", self.options["workload"])
            played = simulate.play(routed, flows, n_bins=100)
            charts = {"timeline": simulate.draw_timeline, "ports": simulate.draw_ports}
            found = charts[self.options["chart"]](played) if "chart" in self.options else played.draw()
        elif view == "floor":
            found = topo.draw_floor(cluster.fabrics, cluster.layout, cluster.cablings, title=cluster.name)
        elif view == "racks":
            found = topo.draw_racks(cluster.fabrics, cluster.layout, title=cluster.name)[0]
        elif "loads" in self.options:
            found = topo.draw(cluster, [routing.prove(routing.route(fabric)).load for fabric in cluster.subnets])
        else:
            found = topo.draw(cluster)
        return [_shown(self.state.document.settings.env.app, found.svg)]


def _shown(app: Sphinx, svg: str) -> nodes.Node:
    """Return a picture that leads to a file with it in full size, since wide ones are small on a page."""
    name = f"{hashlib.sha256(svg.encode()).hexdigest()[:12]}.svg"
    folder = Path(app.outdir, "_static", "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(svg, encoding="utf-8")
    link = f'<a href="_static/pictures/{name}" title="full size">{svg}</a>'
    return nodes.raw("", f'<div class="picture">{link}</div>', format="html")


class Chart(Directive):
    """A chart that a command writes for the YAML below: ``sweep`` or ``operate``, and the name of the file."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the YAML, and the chart, which only pages for a browser show."""
        from topo import config_root

        command, file = self.arguments
        content = "\n".join(self.content)
        words = {"sweep": ["in.yaml"], "operate": ["lab-20.yaml", "-q", "in.yaml"]}[command]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "in.yaml").write_text(content, encoding="utf-8")
            shutil.copy(config_root() / "lab-20.yaml", folder)
            line = [sys.executable, "-m", "plan", command, *words, "-o", "out"]
            subprocess.run(line, cwd=folder, capture_output=True, check=True)
            svg = Path(folder, "out", file).read_text(encoding="utf-8")
        shown = nodes.literal_block(content, content, language="yaml")
        return [shown, _shown(self.state.document.settings.env.app, svg)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    given = {
        "commands": Commands,
        "outputs": Outputs,
        "face": Face,
        "picture": Picture,
        "chart": Chart,
    }
    for name, directive in given.items():
        app.add_directive(name, directive)
    return {"parallel_read_safe": True}
