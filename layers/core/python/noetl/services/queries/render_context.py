"""Rendering of templates against the current state of an execution.

Authors and remote workers use it. It only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Program
from noetl.engine.scopes.scope import EngineScope
from noetl.engine.scopes.slot_view import Overlay, View
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.history.execution_state import demand_state
from noetl.services.history.moments import Folded
from noetl.services.queries.read_execution import find
from noetl.services.queries.rendered_values import Rendered
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.stored_bytes import outages
from noetl.services.support.template_writer import TemplateWriter
from noetl.templating import wrap

NAMES_SHOWN = 500
_SCOPES = frozenset(("args", "workload", "ctx", "vars", "step", "run", "undo"))


def render_context(
    store: ExecutionStore,
    programs: Callable[[str], Program],
    results: ResultStore,
    execution_id: int,
    template: Any,
    *,
    now: float,
    step: str | None = None,
    extra: Mapping[str, Any] | None = None,
    moment: Folded | None = None,
) -> Rendered:
    """Render a template against an execution.

    ``template``: a text, or any JSON value with texts in it. The engine's rules for names apply.
    ``step``: with the arguments, and the result so far, of its latest run that is under way. ``extra``: further names, which win.
    ``moment``: the execution as it was then.
    Raises NotFoundError, ConflictError (it has not started), InvalidInputError (too much at once, no such step or name).
    """
    info = find(store, execution_id)
    if not info.version:
        raise ConflictError(
            f"execution {execution_id} has not started yet, so there is nothing to render against",
            code="execution_not_started",
            hint="it does within moments, or at its `trigger_at`: try again then",
            retryable=True,
        )
    if moment is None:
        state, slots = demand_state(info), dict(store.slots(execution_id))
    else:
        state, slots = moment.state, moment.slots
    program = programs(state.program or info.program)
    run = _latest_run(program, state, step)
    args = {} if run is None else slots.get(("args", str(run.run)), {})
    view = View(slots, scopes=_SCOPES, hydrate=make_hydrate(results))
    scope = EngineScope(program, execution_id, Overlay(view), now, args, _further(extra or {}, view), run)
    writer = TemplateWriter(scope)
    with outages():
        rendered = writer.render(template, "", 0)
    return Rendered(rendered, writer.errors, list(_names(scope)))


def _further(extra: Mapping[str, Any], view: View) -> dict[str, Any]:
    for name in extra:
        if not name.isidentifier() or name.startswith("_"):
            raise InvalidInputError(
                f"{name[:80]!r} in extra_context is no name that a template could use", code="invalid_name"
            )
    return {name: wrap(value, view.load) for name, value in extra.items()}


def _latest_run(program: Program, state: ExecutionState, step: str | None) -> Token | None:
    """Find the run of ``step`` that is under way and was entered last.

    Raises InvalidInputError when there is no such step.
    """
    if step is None:
        return None
    known = [one.name for one in program.steps]
    if step not in known:
        raise InvalidInputError(
            f"the playbook has no step {step[:80]!r}",
            code="unknown_step",
            hint=f"its steps are {', '.join(known[:20])}",
        )
    runs = [token for token in state.tokens.values() if token.step == step]
    return max(runs, key=lambda token: token.run, default=None)


def _names(scope: EngineScope) -> Iterator[str]:
    """Names of the moment, not those of runs or of the program's own bookkeeping."""
    known = sorted({name for name in scope.names() if not name.isdigit() and not name.startswith(("_", "$"))})
    yield from known[:NAMES_SHOWN]
