"""Routes that inspect an execution: analysis, and templates rendered against it."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.history.moments import read_at
from noetl.api.http import parse
from noetl.api.http import runtime_bodies as bodies
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.route import ONE, Route
from noetl.api.http.runtime_bodies import RenderBody, RenderedAnswer
from noetl.api.nouns.executions import escaped_size
from noetl.domain.errors import InvalidInputError
from noetl.services.queries.analyze import Analysis, AnalyzeDeps, analyze
from noetl.services.queries.read_execution import find


def analyze_execution(deps: ApiDeps, request: Request) -> Answer:
    execution_id = parse.execution_id(request.params["execution_id"])
    look = AnalyzeDeps(deps.store, deps.inspection, deps.programs, deps.clock, deps.deliveries)
    return Answer(200, analyze(execution_id, look))


def render(deps: ApiDeps, request: Request) -> Answer:
    """Render a template; parts that fail are reported beside the others unless ``strict``."""
    from noetl.services.queries.render_context import render_context  # templates: loaded by who needs them

    body = parse.body(request, deps, RenderBody)
    parse.storable(body.template, "template")
    parse.storable(body.extra_context, "context")
    execution_id = parse.execution_id(str(body.execution_id))
    moment = None
    if body.at is not None:
        info = find(deps.store, execution_id)
        moment = deps.histories.fold(deps.store, info, read_at(body.at, "at")).folded
    found = render_context(
        deps.store,
        deps.programs,
        deps.results,
        execution_id,
        body.template,
        now=deps.clock() if moment is None or moment.last is None else moment.last.at,
        step=body.step,
        extra=body.extra_context,
        moment=moment,
    )
    if body.strict and found.errors:
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


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        f"{ONE}/analyze",
        "analyzeExecution",
        "Explain why an execution is not progressing: what failed, what is stuck or orphaned, what it waits for, and what to try next.",
        "read",
        analyze_execution,
        {200: Analysis},
        "executions",
    ),
    Route(
        "POST",
        "/api/context/render",
        "renderContext",
        "The values of templates against an execution, as it is or as it was at a moment. Nothing is changed.",
        "read",
        render,
        {200: bodies.RenderedAnswer},
        "executions",
        body=bodies.RenderBody,
        refuses=(409, 410, 429),
    ),
)
