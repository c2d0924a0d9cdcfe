"""Lines about failed items of loops: which, and why."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.cli.render.output import one_line
from noetl.services.queries.read_execution import StepView

_NAMED = 5
_WIDTH = 160


def failed_lines(step: StepView) -> Iterator[str]:
    """``    3 failed: 2 × ValueError, 1 × timeout``, and a line for each of the first ones."""
    found = step.failed_items
    if found is None or not found.first:
        return
    counts = ", ".join(f"{one.count:,} × {one.code}" for one in found.errors[:_NAMED])
    among = f" (of the first {found.counted:,})" if found.counted < found.total else ""
    yield f"    {found.total:,} failed: {counts}{among}"
    for item in found.first[:_NAMED]:
        yield f"    {one_line(step.step, 40)}[{item.index}]  {one_line(item.message, _WIDTH)}"
    if found.total > _NAMED:
        yield f"    … and {found.total - min(_NAMED, len(found.first)):,} more: --json shows the first {len(found.first)}"
