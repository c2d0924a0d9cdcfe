"""`--dry-run` of `noetl run` and `noetl redrive`: what would run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli import errors
from noetl.cli.actions.playbook_files import full
from noetl.cli.actions.run_request import RunRequest, checked_text
from noetl.cli.actions.unknown_sets import check_sets
from noetl.cli.client import runtime_access
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import NewExecution
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import out, out_json, pretty, table
from noetl.domain.errors import ConflictError
from noetl.dsl.nodes import as_written
from noetl.dsl.program import Node, Program, Step
from noetl.runtime.task_folders import refuse_open_programs
from noetl.services.catalog.playbook_needs import needs_of
from noetl.services.executions.start_execution import check_payload

if TYPE_CHECKING:
    from noetl.services.executions.redrive_preview import RedrivePreview, StepAgain


def show_plan(request: RunRequest, start: NewExecution, *, as_json: bool, at: CommandTarget) -> int:
    """Check playbook and payload as a start would, print the plan, and start nothing.

    Raises InvalidInputError for a payload that does not fit.
    """
    program = _program(request, at, warn=not as_json)
    check_payload(program, start.payload)
    check_sets(program, request.sets, strict=request.strict)
    needs = needs_of(program)
    folders = () if at.remote else runtime_access.settings(at.home).task_folders
    refuse_open_programs(folders)
    plan: dict[str, Any] = {
        "dry_run": True,
        "path": program.path,
        "workload": _workload(program.workload, start.payload),
        "steps": [{"step": step.name, "kinds": _kinds(step), "next": _next(step)} for step in program.steps],
        "credentials": sorted({need.name for need in needs.credentials}),
        "playbooks": sorted({need.name for need in needs.playbooks}),
        "task_folders": list(folders),
    }
    if as_json:
        out_json(plan)
        return errors.DONE
    count = len(program.steps)
    out(f"{program.path}: valid, {count} step{'s' * (count != 1)}. Nothing was started.")
    out(f"workload: {pretty(plan['workload'])}")
    rows = [(one["step"], ", ".join(one["kinds"]) or "-", ", ".join(one["next"])) for one in plan["steps"]]
    out(table(("STEP", "CALLS", "NEXT"), rows))
    for what in ("credentials", "playbooks"):
        if plan[what]:
            out(f"needs the {what}: {', '.join(plan[what])}")
    if plan["task_folders"]:
        out(f"tasks read and write: {', '.join(plan['task_folders'])}; shell commands begin in the first")
    return errors.DONE


def show_redrive(plan: RedrivePreview, as_json: bool) -> None:
    """Print what a redrive would run."""
    if as_json:
        out_json({"dry_run": True, **msgspec.to_builtins(plan)})
        return
    out(f"execution {plan.execution_id}: nothing was changed. A redrive")
    rows = [(WHAT[one.action], f"{one.step}{_which(one)}") for one in plan.begins]
    rows += [(what, ", ".join(steps)) for what, steps in _rest(plan) if steps]
    out(table(("WHAT", "STEPS"), rows))


WHAT = {"run": "runs", "join": "waits at the join of", "leave": "leaves, with the given output,"}


def _which(one: StepAgain) -> str:
    """Say which items of a loop run again, and how often the step does."""
    items = {None: "", "all": " (all items)", "failed": " (items that failed or never ran)"}
    times = f" ({one.count} times)" if one.count > 1 else ""
    return items.get(one.items, f" (item {one.items})") + times


def _rest(plan: RedrivePreview) -> Sequence[tuple[str, list[str]]]:
    return ("then may run", plan.follows), ("keeps the results of", plan.kept)


def _program(request: RunRequest, at: CommandTarget, *, warn: bool) -> Program:
    target = request.target
    text, program = checked_text(target, at, warn=warn, strict=request.strict)
    if program is not None:
        return program
    if text is not None:  # a file for a server: what this machine cannot compile is an error of the check
        return runtime_access.compile_playbook(text, full(target), at.home).program
    with open_place(at) as place:
        found = place.program(place.find(target))
    if found is None:
        raise ConflictError(
            f"{target} cannot be compiled here",
            code="unknown_kinds",
            hint="start it: the server knows its kinds",
        )
    return found


def _workload(node: Node, payload: dict[str, Any]) -> dict[str, Any]:
    """Show the workload with the payload over it.

    A computed default is shown as its template.
    """
    from noetl.domain.patches.scope_patches import deep_merge

    given = as_written(node)
    merged: dict[str, Any] = deep_merge(given if isinstance(given, dict) else {}, payload)
    return merged


def _kinds(step: Step) -> list[str]:
    kinds = [task.kind for task in step.body.tasks] if step.body else []
    return [f"loop of {kind}" for kind in kinds] if step.loop else kinds


def _next(step: Step) -> list[str]:
    return list(dict.fromkeys([arc.target for arc in step.arcs] + [route.target for route in step.routes]))
