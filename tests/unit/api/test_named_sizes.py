"""Limits of names, lists and numbers in requests: one below and at each is accepted, one above is refused with its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes import table
from noetl.domain.sizes.table import (
    AHEAD_SECONDS,
    ANSWER_BYTES,
    BATCH_BYTES,
    BATCH_EVENTS,
    BATCH_PLAYBOOKS,
    BODY_BYTES,
    BODY_VALUES,
    CAPABILITY,
    CATCH_UP,
    COMMAND_NAME,
    CORRELATION_ID,
    CREDENTIAL_BYTES,
    CREDENTIAL_NAME,
    CREDENTIAL_TYPE,
    CURSOR,
    DEAD_LETTER_IDS,
    IDEMPOTENCY_KEY,
    IDENTIFIER,
    INLINE_BYTES,
    LABEL,
    LABELS,
    LIMIT_KEY,
    LOG_LINE,
    LOG_SEARCH,
    MIGRATED_BYTES,
    NEXT_MOMENTS,
    PATCH_OPERATIONS,
    PATH,
    PRIORITY,
    REASON,
    REFERENCE,
    REQUEST_IDS,
    SAVED_VIEW_BYTES,
    SAVED_VIEW_NAME,
    SAVED_VIEWS,
    SCHEDULE_NAME,
    SOURCE_NAME,
    SQL_ROWS,
    SQL_TEXT,
    TOKEN_SECONDS,
    TRIGGER_NAME,
    TRIGGER_TEMPLATE,
    TRIGGER_TEXT,
    WORKER_NAME,
    WORKERS,
    Size,
)
from tests.parts import over
from tests.unit.api.ground import HELLO, Ground, Reply
from tests.unit.api.test_events_in import body_of
from tests.unit.api.test_sizes import live

Ask = Callable[[Ground, int], Reply]


def schedule(**over: Any) -> dict[str, Any]:
    return {"path": "demo/hello", "name": "hourly", "rate": "1 hour", **over}


def trigger(**over: Any) -> dict[str, Any]:
    return {"name": "orders", "path": "demo/hello", "source": {"type": "webhook"}, **over}


def credential(**over: Any) -> dict[str, Any]:
    return {"name": "kept", "type": "generic", "data": {"k": "v"}, **over}


def next_moments(ground: Ground, count: int) -> Reply:
    ground.ask("POST", "/api/schedules", schedule())
    return ground.ask("GET", "/api/schedules/hourly/next", query={"count": str(count)})


def batch(ground: Ground, count: int) -> Reply:
    command = ground.issued()
    return ground.ask("POST", "/api/events/batch", {"events": [body_of(ground, command)] * count})


def patch(ground: Ground, count: int) -> Reply:
    operations = [{"op": "add", "path": "/a", "value": 1}] * count
    return ground.ask("PATCH", f"/api/executions/{live(ground)}/ctx", {"patch": operations})


def ids(ground: Ground, count: int) -> Reply:
    return ground.ask("GET", "/api/executions", query={"ids": ",".join(["7"] * count)})


def registered(ground: Ground, length: int) -> Reply:
    text = HELLO.replace("demo/hello", "p" * length)
    return ground.ask("POST", "/api/catalog/register", text, headers={"content-type": "application/yaml"})


def named_source(door: str) -> Ask:
    return lambda ground, length: ground.ask(
        "POST", f"/api/catalog/{door}", {"content": HELLO, "source_name": "s" * length}
    )


def rewritten(door: str) -> Ask:
    """``door``: what rewrites a playbook."""
    return lambda ground, length: ground.ask(
        "POST", f"/api/catalog/{door}", {"content": HELLO + "#" * (length - len(HELLO))}
    )


def worker(ground: Ground, length: int) -> Reply:
    return ground.ask(
        "POST", "/api/worker/pool/register", {"name": "w" * length, "pool": "io", "capacity": 1}
    )


def started(ground: Ground, **over: Any) -> Reply:
    headers = over.pop("headers", {})
    return ground.ask("POST", "/api/executions", {"path": "demo/hello", **over}, headers=headers)


def cursor(path: str) -> Ask:
    """A list that goes on after a cursor. Nothing made one of these, so what is short enough is refused for what it says."""
    return lambda ground, length: ground.ask("GET", at(ground, path), query={"after": "7" * length})


def at(ground: Ground, path: str) -> str:
    return path.replace("{id}", ground.start() if "{id}" in path else "")


def body_bytes(path: str) -> Ask:
    """A body of so many bytes, padded with blanks."""
    around = '{"path": "demo/hello"}' if path == "/api/executions" else "{}"
    return lambda ground, count: ground.ask("POST", path, around.ljust(count))


def values(path: str, around: str) -> Ask:
    """A body of so many lists, mappings and commas, most of them empty lists in a list. Those within a text count nothing."""
    given = around.replace("X", json.dumps({"text": '[,{\\"' * 1000, "x": ["Y"]}))
    outside = sum(around.count(mark) for mark in "[{,") + 3

    def ask(ground: Ground, count: int) -> Reply:
        lists, commas = divmod(count - outside - 1, 2)
        return ground.ask(
            "POST", path or hook(ground), given.replace('"Y"', "[]" + ",[]" * lists + ",1" * commas)
        )

    return ask


def hook(ground: Ground) -> str:
    path: str = ground.ask("POST", "/api/triggers", trigger()).json["hook"]
    return path


def batch_bytes(ground: Ground, count: int) -> Reply:
    text = json.dumps({"events": [body_of(ground, ground.issued())]})
    return ground.ask("POST", "/api/events/batch", text.ljust(count))


def capability(ground: Ground, length: int) -> Reply:
    return ground.ask("POST", "/api/commands/give-back", {"command": "A" * length})


def reported(ground: Ground, count: int) -> Reply:
    """A worker says a result of so many bytes itself."""
    return ground.ask("POST", "/api/events", body_of(ground, ground.issued(), result="r" * (count - 2)))


def changed(method: str, path: str, body: dict[str, Any], field: str) -> Ask:
    return lambda ground, length: ground.ask(
        method, path.replace("{id}", live(ground)), {**body, field: "r" * length}
    )


def stored(ground: Ground, length: int) -> Reply:
    head = f"noetl://execution/{(started := ground.start())}/result/"
    path = f"/api/result/{started}/{'n' * (length - len(head))}"
    return ground.ask("PUT", path, "{}", headers=ground.shown(started))


def resolved(ground: Ground, length: int) -> Reply:
    head = f"noetl://execution/{(started := ground.start())}/result/"
    query = {"ref": head + "n" * (length - len(head))}
    return ground.ask("GET", "/api/result/resolve", query=query, headers=ground.shown(started))


def pattern(ground: Ground, length: int) -> Reply:
    source = {"type": "file", "folder": "/in", "pattern": "p" * length}
    return ground.ask("POST", "/api/triggers", trigger(source=source))


def lines(field: str) -> Ask:
    line = {"time": "2026-03-01T00:00:00.000Z", "step": "s", "task": "t", "line": "l"}

    def ask(ground: Ground, length: int) -> Reply:
        started = ground.start()
        body = {"lines": [line | {field: "l" * length}]}
        return ground.ask("POST", f"/api/executions/{started}/logs", body, headers=ground.shown(started))

    return ask


def many_workers(ground: Ground, count: int) -> Reply:
    for number in range(count - 1):
        ground.deps.workers.register(f"w{number}", "io", 1, "me")
    return worker(ground, 3)


def ahead(ground: Ground, seconds: int) -> Reply:
    return started(ground, trigger_at=instant(int(ground.database.now) + seconds))


def answered(ground: Ground, count: int) -> Reply:
    """An answer of about so many bytes: a kept result, read whole."""
    from noetl.api.http.dispatch import _check_size
    from noetl.api.http.exchange import Answer
    from noetl.api.http.problems import problem
    from noetl.api.nouns.executions import escaped_size

    found = Answer(200, text="x" * (count - escaped_size("")))
    try:
        _check_size(found)
    except InvalidInputError as error:
        found = problem(error)
    return Reply({"statusCode": found.status, "headers": {}, "body": found.body()})


def token(ground: Ground, seconds: int) -> Reply:
    return ground.ask("POST", "/api/tokens", {"name": "ci", "scopes": ["read"], "expires_in": seconds})


def searched(ground: Ground, length: int) -> Reply:
    return ground.ask("GET", f"/api/executions/{ground.start()}/logs", query={"search": "s" * length})


LISTS = ("/api/catalog", "/api/limits", "/api/credentials", "/api/access/credentials", "/api/triggers", "/api/schedules", "/api/executions",
    "/api/executions/{id}/events", "/api/executions/{id}/steps", "/api/executions/{id}/logs", "/api/catalog/demo/hello/versions")  # fmt: skip


CTX, TOKENS = "/api/executions/{id}/ctx", "/api/executions/{id}/tokens"
PATCHED: dict[str, Any] = {"patch": {"a": 1}}


def playbooks(ground, count):
    items = [{"content": HELLO}] * count
    return ground.ask("POST", "/api/catalog/register/batch", {"items": items})


VIEWS = "/api/views/executions"


def views(ground: Ground, count: int) -> Reply:
    replies = [ground.ask("PUT", f"{VIEWS}/v{number}", {"search": {}}) for number in range(count)]
    return replies[-1]


CASES: dict[str, tuple[Size, Ask, int, str]] = {
    "schedule": (SCHEDULE_NAME, lambda g, n: g.ask("POST", "/api/schedules", schedule(name="s" * n)), 422, "invalid_schedule_name"),
    "catch_up": (CATCH_UP, lambda g, n: g.ask("POST", "/api/schedules", schedule(catch_up_max=n)), 422, "invalid_schedule"),
    "next": (NEXT_MOMENTS, next_moments, 400, "invalid_parameter"),
    "trigger": (TRIGGER_NAME, lambda g, n: g.ask("POST", "/api/triggers", trigger(name="t" * n)), 422, "invalid_trigger_name"),
    "event_id": (TRIGGER_TEMPLATE, lambda g, n: g.ask("POST", "/api/triggers", trigger(event_id="e" * n)), 422, "invalid_trigger"),
    "credential": (CREDENTIAL_NAME, lambda g, n: g.ask("POST", "/api/credentials", credential(name="c" * n)), 422, "invalid_credential_name"),
    "type": (CREDENTIAL_TYPE, lambda g, n: g.ask("POST", "/api/credentials", credential(type="c" * n)), 422, "invalid_credential"),
    "data": (CREDENTIAL_BYTES, lambda g, n: g.ask("POST", "/api/credentials", credential(data={"k": "v" * (n - 8)})), 422, "invalid_credential"),
    "limit": (LIMIT_KEY, lambda g, n: g.ask("PUT", f"/api/limits/execution:{'l' * n}", {"concurrent": 1}), 422, "invalid_limit"),
    "worker": (WORKER_NAME, worker, 422, "body_invalid"),
    "idempotency": (IDEMPOTENCY_KEY, lambda g, n: started(g, headers={"idempotency-key": "k" * n}), 400, "invalid_parameter"),
    "priority": (PRIORITY, lambda g, n: started(g, priority=n), 422, "body_invalid"),
    "lowest priority": (PRIORITY, lambda g, n: started(g, priority=-n), 422, "body_invalid"),
    "label": (LABEL, lambda g, n: started(g, labels={"team": "v" * n}), 422, "invalid_label"),
    "label's name": (LABEL, lambda g, n: started(g, labels={"t" * n: "v"}), 422, "invalid_label"),
    "labels": (LABELS, lambda g, n: started(g, labels={f"l{k}": "v" for k in range(n)}), 422, "size_limit"),
    "batch of playbooks": (BATCH_PLAYBOOKS, playbooks, 422, "batch_size"),
    "batch": (BATCH_EVENTS, batch, 422, "batch_size"),
    "operations": (PATCH_OPERATIONS, patch, 422, "invalid_patch"),
    "ids": (REQUEST_IDS, ids, 400, "invalid_parameter"),
    "dead letters": (
        DEAD_LETTER_IDS,
        lambda g, n: g.ask("POST", "/api/dead-letters/retry", {"ids": ["x"] * n}),
        422,
        "dead_letters_invalid",
    ),
    "query": (SQL_TEXT, lambda g, n: g.ask("POST", "/api/sql", {"sql": f"SELECT {'1' * (n - 7)}"}), 422, "sql_refused"),
    "rows": (SQL_ROWS, lambda g, n: g.ask("POST", "/api/sql", {"sql": "SELECT 1", "limit": n}), 422, "sql_refused"),
    "token": (TOKEN_SECONDS, token, 422, "invalid_token"),
    "search": (LOG_SEARCH, searched, 400, "invalid_parameter"),
    "path": (PATH, registered, 422, "invalid_playbook"),
    "path of a schedule": (PATH, lambda g, n: g.ask("POST", "/api/schedules", schedule(path="p" * n)), 422, "invalid_path"),
    "path of a trigger": (PATH, lambda g, n: g.ask("POST", "/api/triggers", trigger(path="p" * n)), 422, "invalid_path"),
    "path beside": (PATH, lambda g, n: g.ask("POST", "/api/catalog/register", {"content": HELLO, "path": "p" * n}), 422, "invalid_path"),
    "source name": (SOURCE_NAME, named_source("register"), 422, "invalid_source_name"),
    "source name to migrate": (SOURCE_NAME, named_source("migrate"), 422, "invalid_source_name"),
    "migrated": (MIGRATED_BYTES, rewritten("migrate"), 422, "size_limit"),
    "formatted": (MIGRATED_BYTES, rewritten("format"), 422, "size_limit"),
    "batch bytes": (BATCH_BYTES, batch_bytes, 413, "body_too_large"),
    "body": (BODY_BYTES, body_bytes("/api/executions"), 413, "body_too_large"),
    "values": (BODY_VALUES, values("/api/executions", '{"path": "demo/hello", "payload": X}'), 413, "body_too_large"),
    "values of a webhook": (BODY_VALUES, values("", "X"), 413, "body_too_large"),
    "answer": (ANSWER_BYTES, answered, 422, "answer_too_large"),
    "capability": (CAPABILITY, capability, 422, "capability_invalid"),
    "command": (COMMAND_NAME, lambda g, n: g.ask("POST", f"/api/commands/7:{'c' * n}/claim", {"name": "w"}), 400, "invalid_command"),
    "result of a worker": (INLINE_BYTES, reported, 422, "event_invalid"),
    "reference stored": (REFERENCE, stored, 400, "invalid_reference"),
    "reference resolved": (REFERENCE, resolved, 400, "invalid_reference"),
    "trigger pattern": (TRIGGER_TEXT, pattern, 422, "invalid_trigger"),
    "view": (SAVED_VIEW_NAME, lambda g, n: g.ask("PUT", f"{VIEWS}/{'v' * n}", {"search": {}}), 422, "invalid_saved_view"),
    "views": (SAVED_VIEWS, views, 422, "saved_views_full"),
    "search of a view": (SAVED_VIEW_BYTES, lambda g, n: g.ask("PUT", f"{VIEWS}/v", {"search": {"q": "s" * (n - 8)}}), 422, "invalid_saved_view"),
    "workers": (WORKERS, many_workers, 422, "too_many_workers"),
    "ahead": (AHEAD_SECONDS, ahead, 422, "invalid_trigger_at"),
    "reason of a patch": (REASON, changed("PATCH", CTX, PATCHED, "reason"), 422, "size_limit"),
    "reason of a token": (REASON, changed("POST", TOKENS, {"step": "start"}, "reason"), 422, "size_limit"),
    "reason of a cancel": (REASON, changed("POST", "/api/executions/{id}/cancel", {}, "reason"), 422, "size_limit"),
    "reason of a pause": (REASON, changed("POST", "/api/executions/{id}/pause", {}, "reason"), 422, "size_limit"),
    "correlation of a patch": (CORRELATION_ID, changed("PATCH", CTX, PATCHED, "correlation_id"), 422, "size_limit"),
    "correlation of a token": (CORRELATION_ID, changed("POST", TOKENS, {"step": "start"}, "correlation_id"), 422, "size_limit"),
    "source of variables": (IDENTIFIER, changed("POST", "/api/vars/{id}", {"variables": {"a": 1}}, "source_step"), 422, "size_limit"),
    "line": (LOG_LINE, lines("line"), 422, "body_invalid"),
    "task of a line": (LOG_LINE, lines("task"), 422, "body_invalid"),
    **{f"cursor of {path}": (CURSOR, cursor(path), 400, "invalid_cursor") for path in LISTS},
}  # fmt: skip


def test_a_report_of_a_worker_may_have_more_values_than_other_requests(ground: Ground) -> None:
    """Each of its results is as long as one may be that is not stored."""
    ground.register()
    results = "[" + "[]," * 10_900 + "[]]"
    assert len(results) <= INLINE_BYTES.value
    told = json.dumps(body_of(ground, ground.issued(), result="R")).replace('"R"', results)
    count = 2 * BATCH_BYTES.value // 3 // len(results)
    assert 2 * 10_900 * count > BODY_VALUES.value
    reply = ground.ask("POST", "/api/events/batch", f'{{"events": [{",".join([told] * count)}]}}')
    assert reply.status == 202, reply


FITS = {
    "command": 404,
    "capability": 422,
    "reference resolved": 404,
    "path of a schedule": 404,
    "path of a trigger": 404,
}
"""Status of what is short enough, and has another flaw: these doors take nothing that a test can make as long as it likes."""


@over("case, above", [(case, above) for case in CASES for above in (0, 1)], ground=Ground)
def test_a_request_at_its_limit(ground: Ground, case: str, above: int) -> None:
    ask_about(ground, case, above)


@pytest.mark.full
@over("case", CASES, ground=Ground)
def test_a_request_below_its_limit(ground: Ground, case: str) -> None:
    ask_about(ground, case, -1)


def ask_about(ground: Ground, case: str, above: int) -> None:
    """Ask for as much as a limit is, and so much more, and look at the answer."""
    size, ask, status, code = CASES[case]
    ground.register()
    reply = ask(ground, size.value + above if size.unit != "value" or above else size.value)
    if above > 0:
        assert (reply.status, reply.json["code"]) == (status, code), reply
        tells(reply.json, size)
    elif case in FITS:
        assert reply.status == FITS[case] and "details" not in reply.json, reply
    elif size is CURSOR:
        assert reply.status < 300 or "limit" not in reply.json.get("details", {}), reply
        assert reply.status < 500, reply
    else:
        assert reply.status < 300, reply


def tells(problem: dict[str, Any], size: Size) -> None:
    """Whether a problem says which limit, what was found, where, and what to do."""
    if size is PRIORITY:
        assert "`$.priority`" in problem["detail"] and str(size.value) in problem["detail"]
    elif "errors" in problem:
        (error,) = problem["errors"]
        assert error["line"] and error["column"] and error["fix"] and str(size.value) in error["message"]
    else:
        details = problem["details"]
        assert (details["limit"], details["most"], details["unit"]) == (size.name, size.value, size.unit)
        assert details["found"] > size.value and "place" in details
        assert str(size.value) in problem["detail"] and problem["hint"]
        assert getattr(table, size.name.upper()) is size


def sizes_under_test() -> set[Size]:
    """Limits that have a case here, for the test that every limit has one."""
    return {size for size, *_ in CASES.values()}
