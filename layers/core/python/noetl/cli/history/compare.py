"""``noetl compare``: where two executions differ."""

from __future__ import annotations

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, duration, out, out_json, out_line, table
from noetl.domain import codec
from noetl.services.queries.compare_executions import Comparison, RunSide, SideView
from noetl.services.queries.differing_by_nature import ComparedChange


def show(a: str, b: str, *, as_json: bool, at: CommandTarget) -> int:
    """Print what differs, the first step run that does marked."""
    with open_place(at) as place:
        found = place.compare(resolve_id(place, a), resolve_id(place, b))
    if as_json:
        out_json(found)
        return errors.DONE
    _show_side("a", found.a)
    _show_side("b", found.b)
    _show_changes("input", found.input)
    _show_diff(found)
    _show_steps(found)
    _show_changes("context", found.context)
    _show_changes("result", found.result)
    return errors.DONE


def _show_side(name: str, side: SideView) -> None:
    version = "" if side.version is None else f"@{side.version}"
    out_line(
        f"{name}  {side.execution_id}  {side.path}{version}  {side.status}"
        f"  started {clock(side.started_at)}  {duration(side.duration_ms)}"
    )
    if side.error:
        out_line(f"   {side.error}")


def _show_changes(title: str, changes: list[ComparedChange]) -> None:
    if not changes:
        return
    out_line(f"{title}:")
    for change in changes:
        shown = "too large to show" if change.omitted else f"{_text(change.before)} -> {_text(change.after)}"
        out_line(f"  {change.path} {change.kind}: {shown}{_by_nature(change)}")


def _by_nature(change: ComparedChange) -> str:
    return f" (always differs: {change.by_nature})" if change.by_nature else ""


def _text(value: object) -> str:
    text = codec.encode(value).decode()
    return text if len(text) <= 200 else text[:199] + "…"


def _show_diff(found: Comparison) -> None:
    if found.same_program:
        out_line("playbook: both run the same program")
    for line in found.diff:
        out_line(f"  {line}")


def _show_steps(found: Comparison) -> None:
    if found.divergence is None:
        out_line("steps: all runs are alike")
    else:
        first = found.steps[found.divergence]
        out_line(f"first divergence: {first.step}, run {first.occurrence}: {', '.join(first.differs)}")
        for change in first.changes:
            out_line(f"  {change.path}: {_text(change.before)} -> {_text(change.after)}{_by_nature(change)}")
    rows = [
        (
            "*" if index == found.divergence else "",
            f"{run.step} {run.occurrence}" if run.occurrence > 1 else run.step,
            *_side_cells(run.a),
            *_side_cells(run.b),
            ", ".join(run.differs),
        )
        for index, run in enumerate(found.steps)
    ]
    if rows:
        out(table(("", "STEP", "A", "TIME", "B", "TIME", "DIFFERS"), rows))
    if found.steps_left_out:
        out_line(f"{found.steps_left_out} more")


def _side_cells(side: RunSide | None) -> tuple[str, str]:
    return ("–", "") if side is None else (side.status, duration(side.duration_ms))
