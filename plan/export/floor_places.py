"""``places.yaml``: where every device stands, as ``floor`` of a spec, so that it stays there when a cluster grows."""

from __future__ import annotations

import json

from plan.export.base import Export
from plan.pipeline import COMPILE, PLACE, Plan
from topo import Layout


def format_places(layout: Layout) -> str:
    """Return the floor of a spec with all places fixed, as YAML."""
    keys = layout.pinned.model_dump(mode="json", exclude_unset=True)
    fixed = keys.pop("fixed")
    lines = ["# Today's places: put this in place of `floor` of the larger spec.", "floor:"]
    lines += [f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    lines += ["  fixed:", *(f"    {json.dumps(name, ensure_ascii=False)}: {place}" for name, place in fixed.items())]
    return "\n".join(lines) + "\n"


def _places(plan: Plan, subnet: int) -> str | dict[str, str]:
    return format_places(plan.layout) if plan.layout else {}  # without a floor plan there is nothing to keep


PLACES = Export("places", "where every device stands, for a spec that grows", "Heddle: `floor` of a spec",
                (*COMPILE, *PLACE), {"places.yaml": _places})  # fmt: skip
