"""``report.html``: a plan on one page."""

from __future__ import annotations

from plan.export.base import Export
from plan.pipeline import BUILD
from plan.report.document import Report, page_of
from plan.report.page import format_report

REPORT = Export("report", "one page for people: the answer, fabric, racks, bill, failures, proof", "browsers (HTML5)",
                BUILD,
                {"report.html": lambda plan, subnet: format_report(Report([page_of(plan)], []))})  # fmt: skip
