"""``noetl analyze``: why an execution does not progress."""

from __future__ import annotations

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, out_json, out_line
from noetl.services.queries.analyze import Analysis, Finding

_MARKS = {"error": "!!", "warning": "! ", "info": "  "}


def show(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """What was found, the most serious first."""
    with open_place(at) as place:
        found = place.analyze(resolve_id(place, name))
    if as_json:
        out_json(found)
        return errors.DONE
    out_line(f"execution {found.execution_id}  {found.status}{', stuck' if found.stuck else ''}")
    if not found.findings:
        out_line(found.verdict)
    for finding in found.findings:
        _print(finding)
    _print_changes(found)
    return errors.DONE


def _print(finding: Finding) -> None:
    out_line(f"{_MARKS[finding.severity]} {finding.kind}: {finding.message}")
    for step in finding.next:
        out_line(f"     try: {step}")


def _print_changes(found: Analysis) -> None:
    for change in found.changes:
        reason = f": {change.reason}" if change.reason else ""
        about = f" ({change.correlation_id})" if change.correlation_id else ""
        refused = f"; not made: {change.refused}" if change.refused else ""
        out_line(f"   {clock(change.at)} {change.name} by {change.principal}{about}{reason}{refused}")
