"""A cluster's spec as YAML, with no more than what was set."""

from __future__ import annotations

import io

from ruamel.yaml import YAML

from topo import ClusterSpec


def format_spec(spec: ClusterSpec, comment: str = "") -> str:
    """Return YAML that reads back as the same spec; ``comment`` goes above it, line by line."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    out = io.StringIO()
    for line in comment.splitlines():
        out.write(f"# {line}".rstrip() + "\n")
    yaml.dump(spec.model_dump(mode="json", exclude_unset=True), out)
    return out.getvalue()
