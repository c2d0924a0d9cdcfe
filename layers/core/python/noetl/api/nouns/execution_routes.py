"""Starting executions and looking at them."""

from __future__ import annotations

from typing import Any

from noetl.api.history import event_pages
from noetl.api.http import bodies
from noetl.api.http.exchange import BYTES
from noetl.api.http.result_bodies import ResultAnswer
from noetl.api.http.route import AFTER, FLAG, ONE, Parameter, Route, limit
from noetl.api.http.waiting import LONGEST
from noetl.api.nouns import executions, graphs, logs, results, waited_start
from noetl.api.nouns.graphs import ExecutionGraphAnswer
from noetl.domain.event_names import VOCABULARIES
from noetl.domain.task_logs import LEVELS
from noetl.services.history.loop_bands import MOST as MOST_BANDS
from noetl.services.history.loop_bands import LoopBands
from noetl.services.queries.read_execution import STATUSES
from noetl.services.queries.result_entries import ResultEntries

_STATUS = Parameter("status", "Only executions of this status.", {"type": "string", "enum": list(STATUSES)})
_WANTED = (
    _STATUS,
    Parameter("path", "Only executions of this playbook."),
    Parameter("version", "Only those that run this version of `path`.", {"type": "string"}),
    Parameter("roots", "`true`: leave out executions that another one started.", FLAG),
    Parameter("parent", "Only what this execution has started.", {"type": "string", "pattern": "^[0-9]+$"}),
    Parameter("ids", "Only these: execution ids with commas between them, at most 100."),
    Parameter(
        "labels", "Only executions that have all of these labels: `name=value` with commas between them."
    ),
    Parameter("principal", "Only executions that this principal started."),
    Parameter(
        "error_code",
        "Only executions that failed with this code, or with an error of this kind that has no code.",
    ),
    Parameter(
        "text", "Only executions whose path, name or label contains this text, in upper or lower case."
    ),
    Parameter("started_after", "From this moment on: RFC 3339, or seconds since 1970."),
    Parameter("started_before", "Before this moment."),
)
_VOCABULARY = Parameter(
    "vocabulary",
    "Names of events: as they are stored, the formal or the canonical ones.",
    {"type": "string", "enum": list(VOCABULARIES), "default": "stored"},
)


_ORDERS = {"type": "string", "enum": ["oldest", "newest"], "default": "oldest"}
_ORDER = Parameter(
    "order", "`newest`: from the end, without the items of loops, which have a route of their own.", _ORDERS
)
_NUMBER = {"type": "integer", "minimum": 0}

_TYPES = Parameter(
    "types",
    "Only events of these types of the vocabulary: names with commas between them, such as step.failed,call.error.",
)
_STEP = Parameter("step", "Only events that name this step; none, where no event does.")


def _wait(about: str) -> Parameter:
    """Return the parameter `wait`; a deployment or a busy server may answer sooner."""
    return Parameter(
        "wait", f"{about} It may be sooner.", {"type": "number", "minimum": 0, "maximum": LONGEST}
    )


_FULL = Parameter(
    "full", "`false`: without `completed_steps`, which costs a look at the steps.", {**FLAG, "default": True}
)
_WAIT = _wait("Answer when the execution has ended, or after so many seconds.")


def _start(path: str, name: str) -> Route:
    return Route(
        "POST",
        path,
        name,
        "Start an execution. It is durable when this answers; the same Idempotency-Key with the same body returns the same answer.",
        "execute",
        waited_start.start,
        {201: bodies.StartedAnswer},
        "executions",
        query=(
            _wait(
                "Answer when the execution has ended, with status, error and result (which needs the scope `read` as well), or with its id and"
                " status after so many seconds."
            ),
        ),
        body=bodies.StartBody,
        or_yaml=True,
        keyed=True,
        refuses=(429,),
    )


ROUTES: tuple[Route, ...] = (
    _start("/api/execute", "execute"),
    _start("/api/executions", "startExecution"),
    Route(
        "GET",
        "/api/executions",
        "listExecutions",
        "Executions, newest first.",
        "read",
        executions.list_executions,
        {200: bodies.ExecutionPage},
        "executions",
        query=(*_WANTED, AFTER, limit(50, 500)),
    ),
    Route(
        "GET",
        ONE,
        "getExecution",
        "An execution with its steps.",
        "read",
        waited_start.get_execution,
        {200: bodies.ExecutionAnswer},
        "executions",
        query=(
            _WAIT,
            Parameter("lean", "`true`: without `steps`, which have a route of their own.", FLAG),
        ),
    ),
    Route(
        "GET",
        f"{ONE}/status",
        "getExecutionStatus",
        "The status of an execution; cheap enough to poll.",
        "read",
        waited_start.get_status,
        {200: bodies.StatusAnswer},
        "executions",
        query=(_WAIT, _FULL),
    ),
    Route(
        "GET",
        f"{ONE}/events",
        "getExecutionEvents",
        "The history of an execution, page by page. A page of a filter may be short, or empty, without being the last: `more` says that.",
        "read",
        event_pages.get_events,
        {200: bodies.EventPage},
        "executions",
        query=(AFTER, limit(200, 1000), _VOCABULARY, _ORDER, _TYPES, _STEP),
    ),
    Route(
        "GET",
        f"{ONE}/loops/{{run}}/items",
        "getLoopItems",
        "The items of a loop by step run: how each ended, its error, and the beginning of its result. An item that runs is not there yet.",
        "read",
        executions.get_loop_items,
        {200: bodies.LoopItemPage},
        "executions",
        query=(
            AFTER,
            limit(100, executions.ITEMS),
            Parameter("failed", "`true`: only items that failed.", FLAG),
        ),
    ),
    Route(
        "GET",
        f"{ONE}/loops/{{run}}/bands",
        "getLoopBands",
        "A loop over time: how many items ended, done and failed, in each of a few spans; the answer does not grow with the loop.",
        "read",
        executions.get_loop_bands,
        {200: LoopBands},
        "executions",
        query=(
            Parameter(
                "bands",
                "How many spans the time from the first end to the last is cut into.",
                {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_BANDS,
                    "default": executions.BANDS,
                },
            ),
        ),
    ),
    Route(
        "GET",
        f"{ONE}/steps",
        "getExecutionSteps",
        "The step runs of an execution, in the order they began.",
        "read",
        executions.get_steps,
        {200: bodies.StepPage},
        "executions",
        query=(
            AFTER,
            limit(200, executions.STEPS),
            Parameter("phases", "`true`: with the phases of each run: queued, running, waiting …", FLAG),
        ),
    ),
    Route(
        "GET",
        f"{ONE}/entries",
        "getResultEntries",
        "The names of the entries of an execution's results, by step, as templates reach them; no value.",
        "read",
        results.get_entries,
        {200: ResultEntries},
        "executions",
        refuses=(429,),
    ),
    Route(
        "GET",
        f"{ONE}/graph",
        "getExecutionGraph",
        "The graph of the playbook that an execution runs, with what became of each step and which ways were taken.",
        "read",
        graphs.get_execution_graph,
        {200: ExecutionGraphAnswer},
        "executions",
        query=(
            Parameter("lean", "`true`: without `states`, which the steps of the execution say, too.", FLAG),
        ),
    ),
    Route(
        "GET",
        f"{ONE}/result",
        "getExecutionResult",
        "The result of a completed execution; one that is too large for an answer can be downloaded. 409 while it runs, and when it failed.",
        "read",
        results.get_result,
        {200: ResultAnswer},
        "executions",
        query=(
            Parameter("parts", "`true`: every large value as its reference, with a link.", FLAG),
            Parameter(
                "ref", "The reference of one result of this execution: a link to it, and nothing else."
            ),
            Parameter("store", "The tier that a reference says; with `ref`."),
        ),
        refuses=(409, 410),
    ),
    Route(
        "GET",
        f"{ONE}/logs",
        "getExecutionLogs",
        "What tasks of an execution have printed. A page may be short, or empty, without being the last: `complete` marks the last.",
        "read",
        logs.get_logs,
        {200: logs.LinesAnswer},
        "executions",
        query=(
            AFTER,
            limit(200, logs.MOST),
            Parameter("order", "`newest`: from the end.", _ORDERS),
            Parameter("search", "Only lines with this text; upper and lower case are the same."),
            Parameter("step", "Only lines of this step; none, where it has printed nothing."),
            Parameter("run", "Only lines of this step run.", _NUMBER),
            Parameter("index", "Only lines of this item of a loop, from 0.", _NUMBER),
            Parameter("attempt", "Only lines of this attempt of a task, from 1.", _NUMBER),
            Parameter(
                "level",
                "Only lines whose text begins with this level or a graver one.",
                {"type": "string", "enum": list(LEVELS)},
            ),
        ),
    ),
    Route(
        "POST",
        f"{ONE}/logs",
        "addExecutionLogs",
        "Keep lines that tasks have printed: from workers over HTTP. A request that is repeated keeps them twice.",
        "worker",
        logs.put_logs,
        {202: logs.KeptAnswer},
        "workers",
        body=logs.LinesBody,
        of_command=True,
    ),
    Route(
        "GET",
        "/api/downloads/{link}",
        "download",
        "One object behind a link that a result named. Links of a deployment lead to its bucket instead.",
        None,
        results.download,
        {200: Any},
        "executions",
        media=BYTES,
        refuses=(410,),
    ),
)
