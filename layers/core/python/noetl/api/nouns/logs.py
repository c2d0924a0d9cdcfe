"""What tasks have printed."""

from __future__ import annotations

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.command_tokens import check_command
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import LOG_LINE
from noetl.domain.state import TERMINAL
from noetl.domain.task_logs import TaskLine
from noetl.domain.text.timestamps import TimeText
from noetl.services.history.log_lines import LineFilter, LineReader, make_line_filter
from noetl.services.queries.read_execution import find

MOST = 1000
"""Lines of one request."""
LONGEST = LOG_LINE.value
"""Characters of a line that a worker sends."""


class LinesBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lines: list[TaskLine]


class KeptAnswer(msgspec.Struct, frozen=True):
    execution_id: str
    lines: int


class LinesAnswer(msgspec.Struct, frozen=True):
    """A page of lines.

    ``complete``: nothing comes after these lines in this order; with the oldest first, the execution has ended. ``more``: lines are kept
    already behind these. ``scanned``: how many lines this page has looked at, ``scanned_until``: when the last of them was printed.
    ``end``: with the newest first and no cursor, the cursor from which ``order=oldest`` continues with what is printed later.
    """

    execution_id: str
    lines: list[TaskLine]
    next: str
    complete: bool
    more: bool = False
    scanned: int = 0
    scanned_until: TimeText | None = None
    end: str | None = None


def get_logs(deps: ApiDeps, request: Request) -> Answer:
    """Whether it has ended is looked at first: lines are kept before their task's end shows."""
    execution_id, limit = (
        parse.execution_id(request.params["execution_id"]),
        parse.limit(request, 200, MOST),
    )
    after, newest, wanted = parse.text_cursor(request), parse.newest_first(request), _wanted(request)
    over = find(deps.store, execution_id).status in TERMINAL
    reader = LineReader(deps.task_logs, execution_id, wanted)
    try:
        if newest:
            found = reader.newest(after or None, limit, everything=over)
        else:
            found = reader.oldest(after, limit, everything=over)
    except InvalidInputError as error:
        raise parse.bad_cursor(request.query.get("after", "")) from error
    return Answer(
        200,
        LinesAnswer(
            str(execution_id),
            list(found.lines),
            parse.cursor_text(found.next),
            (over or newest) and not found.more,
            found.more,
            found.scanned,
            found.scanned_until,
            None if found.end is None else parse.cursor_text(found.end),
        ),
    )


def _wanted(request: Request) -> LineFilter:
    query = request.query
    run, index, attempt = (parse.maybe_number(request, name) for name in ("run", "index", "attempt"))
    step, level = query.get("step") or None, query.get("level") or None
    try:
        return make_line_filter(query.get("search", ""), step, run, index, attempt, level)
    except InvalidInputError as error:
        raise BadRequestError(
            error.message, code="invalid_parameter", hint=error.hint, details=error.details
        ) from error


def put_logs(deps: ApiDeps, request: Request) -> Answer:
    """Raises InvalidInputError(code="body_invalid")."""
    execution_id = parse.execution_id(request.params["execution_id"])
    check_command(deps, request, execution_id)
    find(deps.store, execution_id)
    lines = parse.body(request, deps, LinesBody).lines
    longest = max((len(value) for line in lines for value in _texts(line)), default=0)
    if longest > LONGEST:
        raise exceeded(LOG_LINE, longest, "a line", code="body_invalid")
    if lines:
        deps.task_logs.append(execution_id, lines)
    return Answer(202, KeptAnswer(str(execution_id), len(lines)))


def _texts(line: TaskLine) -> tuple[str, ...]:
    return (line.time, line.step, line.task, line.line)
