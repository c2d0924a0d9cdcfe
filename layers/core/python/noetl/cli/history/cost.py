"""``noetl cost``: what an execution cost, by step."""

from __future__ import annotations

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import duration, out, out_json, out_line, table
from noetl.domain.text.number_text import number_text
from noetl.services.queries.step_costs import CostView, FamilyCost, PlaybookCost, StepCost


def show(execution: str, *, family: bool, as_json: bool, at: CommandTarget) -> int:
    """Print a line per step, and what they cost together."""
    with open_place(at) as place:
        found = place.cost(resolve_id(place, execution), family=family)
    if as_json:
        out_json(found)
        return errors.DONE
    _show_steps(found)
    if found.family is not None:
        _show_family(found.family)
    if not found.complete:
        out_line("not complete: there is more than one look adds up, or something that cannot be read")
    return errors.DONE


def _show_steps(found: CostView) -> None:
    rows = [
        (one.step, f"{one.runs:,}", f"{one.items:,}" if one.items else "", *_amounts(one))
        for one in found.steps
    ]
    rows.append(("in all", "", "", *_amounts(found)))
    out(
        table(("STEP", "RUNS", "ITEMS", "CALLS", "TOOL TIME", "" if found.cost is None else "CTX.COST"), rows)
    )


def _show_family(family: FamilyCost) -> None:
    rows = [(one.path, f"{one.executions:,}", *_amounts(one)) for one in family.playbooks]
    rows.append(("with this execution", "", *_amounts(family)))
    out("")
    out(
        table(
            ("SUB-EXECUTIONS OF", "COUNT", "CALLS", "TOOL TIME", "" if family.cost is None else "CTX.COST"),
            rows,
        )
    )


def _amounts(of: StepCost | PlaybookCost | CostView | FamilyCost) -> tuple[str, str, str]:
    cost = "" if of.cost is None else number_text(of.cost, ",.10g")
    return f"{of.calls:,}", duration(of.tool_ms), cost
