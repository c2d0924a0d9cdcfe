"""What templates come to against an execution as it stands: for authors who try one out, and for workers elsewhere. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.domain.errors import ConflictError, InvalidInputError, NoetlError
from noetl.domain.state import ExecutionState, decode_state
from noetl.dsl.program import Expr, Program, Text
from noetl.engine.scope import EngineScope
from noetl.engine.view import Overlay, View
from noetl.ports.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.services.hydration import make_hydrate, outages
from noetl.services.read_execution import find
from noetl.services.rendered import Rendered, RenderError
from noetl.templating import render, wrap

MOST_TEMPLATES = 50
"""Texts with templates in one request: each may use its half second."""
MOST_DEPTH = 100
NAMES_SHOWN = 500
_SCOPES = frozenset(("args", "workload", "ctx", "vars", "step", "undo"))


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
) -> Rendered:
    """``template``: a text, or any JSON value with texts in it; what it says is seen by the engine's rules for names.

    ``step``: with the arguments of its latest run that is under way. ``extra``: further names, which win.
    Raises NotFoundError, ConflictError (it has not started), InvalidInputError (too much at once, no such step or name).
    """
    info = find(store, execution_id)
    if not info.state:
        raise ConflictError(
            f"execution {execution_id} has not started yet, so there is nothing to render against",
            code="execution_not_started",
            hint="it does within moments: try again",
            retryable=True,
        )
    program, state, slots = programs(info.program), decode_state(info.state), dict(store.slots(execution_id))
    args = _arguments(program, state, slots, step)
    view = View(slots, scopes=_SCOPES, hydrate=make_hydrate(results))
    scope = EngineScope(program, execution_id, Overlay(view), now, args, _further(extra or {}, view))
    writer = _Writer(scope)
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


def _arguments(
    program: Program, state: ExecutionState, slots: Mapping[tuple[str, str], Any], step: str | None
) -> Mapping[str, Any]:
    if step is None:
        return {}
    known = [one.name for one in program.steps]
    if step not in known:
        raise InvalidInputError(
            f"the playbook has no step {step[:80]!r}",
            code="unknown_step",
            hint=f"its steps are {', '.join(known[:20])}",
        )
    runs = [token.run for token in state.tokens.values() if token.step == step]
    found = slots.get(("args", str(max(runs)))) if runs else None
    return found if isinstance(found, Mapping) else {}


def _names(scope: EngineScope) -> Iterator[str]:
    """Names of the moment, not those of runs or of the program's own bookkeeping."""
    known = sorted({name for name in scope.names() if not name.isdigit() and not name.startswith(("_", "$"))})
    yield from known[:NAMES_SHOWN]


class _Writer:
    """Renders text by text, so that one that fails does not hide the others."""

    def __init__(self, scope: EngineScope) -> None:
        self.scope = scope
        self.errors: list[RenderError] = []
        self.templates = 0

    def render(self, value: Any, path: str, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise InvalidInputError(
                f"the template is nested more than {MOST_DEPTH} deep", code="template_too_large"
            )
        if isinstance(value, str):
            return self._text(value, path) if "{" in value else value
        if isinstance(value, Mapping):
            return {
                key: self.render(one, f"{path}.{key}" if path else key, depth + 1)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.render(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
        return value

    def _text(self, text: str, path: str) -> Any:
        # The reader of templates is the compiler's, which an API that serves other requests need not load.
        from noetl.dsl.expressions import analyse, has_template
        from noetl.dsl.template_rules import TemplateProblem

        if not has_template(text):
            return text
        self.templates += 1
        if self.templates > MOST_TEMPLATES:
            raise InvalidInputError(
                f"more than {MOST_TEMPLATES} templates at once",
                code="template_too_large",
                hint="send them in several requests",
            )
        try:
            expression = analyse(text).expression
            return render(Text(text) if expression is None else Expr(expression), self.scope)
        except TemplateProblem as problem:
            self._failed(path, problem.code.replace("-", "_"), problem.message, problem.hint)
        except NoetlError as error:
            self._failed(path, error.code, error.message, error.hint)
        return None

    def _failed(self, path: str, code: str, message: str, hint: str | None) -> None:
        self.errors.append(RenderError(path, code, message, hint))
