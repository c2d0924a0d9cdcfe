"""What tasks have printed."""

from __future__ import annotations

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.command_tokens import check_command
from noetl.api.http.exchange import Answer, Request
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import LOG_LINE
from noetl.domain.state import TERMINAL
from noetl.domain.task_logs import TaskLine
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
    """``complete``: the execution has ended, and nothing comes after these lines."""

    execution_id: str
    lines: list[TaskLine]
    next: str
    complete: bool


def get_logs(deps: ApiDeps, request: Request) -> Answer:
    """Whether it has ended is looked at first: lines are kept before their task's end shows."""
    execution_id, limit = (
        parse.execution_id(request.params["execution_id"]),
        parse.limit(request, 200, MOST),
    )
    after = parse.text_cursor(request)
    over = find(deps.store, execution_id).status in TERMINAL
    try:
        page = deps.task_logs.read(execution_id, after, limit, everything=over)
    except InvalidInputError as error:
        raise parse.bad_cursor(request.query.get("after", "")) from error
    return Answer(
        200,
        LinesAnswer(
            str(execution_id), list(page.lines), parse.cursor_text(page.next), over and not page.more
        ),
    )


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
