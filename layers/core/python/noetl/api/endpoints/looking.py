"""Looking into an execution: why it stands where it stands, and templates tried out against it."""

from __future__ import annotations

from noetl.api import reading
from noetl.api.deps import ApiDeps
from noetl.api.endpoints.executions import escaped_size
from noetl.api.exchange import Answer, Request
from noetl.api.runtime_bodies import RenderBody, RenderedAnswer
from noetl.domain.errors import InvalidInputError
from noetl.services.analyze import AnalyzeDeps, analyze


def analyze_execution(deps: ApiDeps, request: Request) -> Answer:
    execution_id = reading.execution_id(request.params["execution_id"])
    look = AnalyzeDeps(deps.store, deps.inspection, deps.programs, deps.clock, deps.deliveries)
    return Answer(200, analyze(execution_id, look))


def render(deps: ApiDeps, request: Request) -> Answer:
    """What cannot be rendered is told beside what can, unless ``strict`` wants all of it."""
    from noetl.services.render_context import render_context  # templates: loaded by who needs them

    asked = reading.body(request, deps, RenderBody)
    reading.storable(asked.template, "template")
    reading.storable(asked.extra_context, "context")
    execution_id = reading.execution_id(str(asked.execution_id))
    found = render_context(
        deps.store,
        deps.programs,
        deps.results,
        execution_id,
        asked.template,
        now=deps.clock(),
        step=asked.step,
        extra=asked.extra_context,
    )
    if asked.strict and found.errors:
        first = found.errors[0]
        where = f"{first.path}: " if first.path else ""
        raise InvalidInputError(f"{where}{first.message}", code=first.code, hint=first.hint)
    answer = Answer(
        200,
        RenderedAnswer(
            str(execution_id),
            found.rendered,
            found.errors,
            found.context_keys,
            "partial" if found.errors else "ok",
        ),
    )
    text = answer.body()
    if escaped_size(text) > deps.max_answer:
        raise InvalidInputError(
            "what was rendered is too large for an answer",
            code="rendered_too_large",
            hint="render a part of it, such as its length or its first entries",
        )
    return Answer(200, text=text)
