"""The collection of a loop: a list from its template, or one that a worker reads first.

The engine has no access to users' buckets and files, and never loads a large result. A source (``s3://…``), a large result, or a template
that would have to load one is read by a command of stage ``collection``, which leaves a manifest of parts (domain/results/paged_list.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain import ids
from noetl.domain.collection_sources import is_source
from noetl.domain.commands import Command
from noetl.domain.errors import TemplateError
from noetl.domain.facts.facts import CommandIssued
from noetl.domain.results.references import canonical, format_of, is_ref, size_of
from noetl.domain.state import Token
from noetl.dsl.program import Loop, Step
from noetl.engine.decision import Decider
from noetl.engine.scopes.scope import freeze
from noetl.templating import render, unwrap
from noetl.templating.access import describe

LOAD_BYTES = 256 * 1024
"""Largest result the engine loads for ``loop.in``."""
POOL = "io"


class _TooLarge(BaseException):
    """The signal that a value is too large for the engine; not an error.

    A worker evaluates it then. A BaseException, because template evaluation turns every Exception into an author's error.
    """


def collection_of(d: Decider, step: Step, token: Token) -> list[Any] | None:
    """Return the list that a loop runs over; None when a worker has to read it.

    Raises TemplateError(code="template_type") for anything else.
    """
    assert step.loop is not None
    scope = d.scope(token.run)
    scope.hydrate = lambda ref: _load(d, ref)
    try:
        value = unwrap(render(step.loop.collection, scope))
        if is_ref(value):
            value = _load(d, value)
    except _TooLarge:
        return None
    return None if is_source(value) else listed(value, step.loop)


def _load(d: Decider, ref: Mapping[str, Any]) -> Any:
    ref = canonical(ref)
    if not 0 < size_of(ref) <= LOAD_BYTES or format_of(ref) != "json":
        raise _TooLarge
    return d.view.load(ref)


def listed(value: Any, loop: Loop) -> list[Any]:
    """Return the list behind a value; of a SQL result, its rows.

    Raises TemplateError for anything else: there is never one silent iteration over a text.
    """
    if isinstance(value, dict) and isinstance(value.get("rows"), list) and "row_count" in value:
        value = value["rows"]
    if isinstance(value, list):
        return value
    shown = repr(value)
    place = getattr(loop.collection, "pos", loop.pos)
    raise TemplateError(
        f"loop.in is not a list but {describe(value)}: {shown[:80]}",
        code="template_type",
        hint="give a list, or where one is (s3://bucket/key.csv); a mapping needs `| list` or `.items()`",
        details={"line": place.line, "column": place.column, "value": shown[:80]},
    )


def issue_reading(d: Decider, step: Step, token: Token) -> None:
    """Issue the first turn of the command that reads the collection."""
    command = reading(d, step, token, turn=0)
    d.emit(CommandIssued(token.run, step.name, command.command_id, command.pool, "collection"))
    d.decision.issue.append(command)


def reading(
    d: Decider, step: Step, token: Token, turn: int, machine: dict[str, Any] | None = None
) -> Command:
    """Build a turn of the command by which a worker evaluates ``loop.in``.

    Its scope is frozen as it is now.
    """
    return Command(
        d.execution_id,
        ids.command_id(token.run, f"collection.{token.round + 1}"),
        token.run,
        step.name,
        d.program.hash,
        POOL,
        stage="collection",
        turn=turn,
        scope=freeze(d.scope(token.run), step.enter_reads),
        machine=machine,
    )
