"""Hostile texts and numbers in every body of the API that other suites send plain ones in, whichever transport carries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

Ask = Callable[[str, str, Any], tuple[int, Any]]
"""Method, path and body; the status and the answer."""
TEXTS = {
    "nul": "x\0y",
    "half of a pair": "x\ud800y",
    "direction": "\u202eevil\u2066",
    "control": "\x01\x1b[31m\x7f\x85",
    "long": "k" * 10_000,
}
NUMBERS = {"digits": 10**3999, "30 digits": -(10**29) - 7}
FAILING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fails, path: hostile/fails }
workflow:
  - step: start
    tool: { kind: python, code: "raise ValueError('no')" }
"""
ASKING = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: asks, path: hostile/asks }
workflow:
  - step: start
    tool: { kind: wait, callback: true }
"""
PLAIN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: plain, path: hostile/plain }
workflow:
  - step: start
    tool: { kind: noop, args: { given: "{{ workload }}" } }
"""
LISTS = {
    "executions": "/api/executions",
    "credentials": "/api/credentials",
    "schedules": "/api/schedules",
    "triggers": "/api/triggers",
    "pools": "/api/worker/pools",
}


def document(text: str) -> dict[str, Any]:
    """A document with ``text`` in every place that takes one; keys at its top stay names."""
    return {text[:200] or "k": text, "in": [{text: text}], **NUMBERS}


def redrive(ask: Ask, execution_id: str, text: str) -> list[tuple[int, Any]]:
    at = f"/api/executions/{execution_id}/redrive"
    bodies = [{"from": text}, {"from": f"start[{text}]"}, {"from": "start", "args": {text: 1}}]
    bodies += [{"version": 10**29}, {"from": "start", "args": document(text), "reason": text[:2000]}]
    return [ask("POST", at, body) for body in bodies]


def credentials(ask: Ask, text: str) -> list[tuple[int, Any]]:
    plain = {"name": "kept", "type": "generic", "data": {"k": "v"}}
    bodies = [{**plain, "name": text}, {**plain, "type": text}, {**plain, "data": document(text)}]
    found = [ask("POST", "/api/credentials", body) for body in bodies]
    return [
        *found,
        ask("GET", f"/api/credentials/{path(text)}", None),
        ask("GET", "/api/credentials/kept", None),
    ]


def triggers(ask: Ask, text: str) -> list[tuple[int, Any]]:
    plain = {"name": "hook", "path": "hostile/plain", "source": {"type": "webhook"}}
    more = {"event_id": text, "payload": document(text)}
    bodies = [
        {**plain, "name": text},
        {**plain, "path": text},
        {**plain, "event_id": "{{ event.body." + text + " }}"},
    ]
    sources: list[dict[str, Any]] = [
        {"type": text},
        {"type": "webhook", "credential": text, "header": text},
        {"type": "s3", "bucket": text, "prefix": text, "suffix": text},
        {"type": "eventbridge", "pattern": {"source": [text], text: [1]}, "bus": text},
        {"type": "sqs", "queue": text},
        {"type": "file", "folder": text, "pattern": text},
        {"type": "file", "folder": f"/{text}"},
        {"type": "file", "folder": "/tmp", "pattern": text},
    ]
    bodies += [{**plain, "source": source} for source in sources]
    found = [ask("POST", "/api/triggers", body) for body in [*bodies, {**plain, **more}, plain]]
    hooks = [answer["hook"] for status, answer in found if status < 300 and answer.get("hook")][-1:]
    found += [ask("POST", hook, body) for hook in hooks for body in (document(text), {"body": [text]})]
    return [
        *found,
        ask("PATCH", "/api/triggers/hook", {"payload": document(text)}),
        ask("GET", f"/api/triggers/{path(text)}", None),
    ]


def schedules(ask: Ask, text: str) -> list[tuple[int, Any]]:
    plain = {"name": "hourly", "path": "hostile/plain", "rate": "1 hour"}
    bodies = [{**plain, field: text} for field in ("name", "path", "rate", "timezone", "overlap")]
    bodies += [
        {**plain, "catch_up_max": 10**29},
        {**plain, "payload": {text: 1}},
        {**plain, "payload": document(text)},
    ]
    found = [ask("POST", "/api/schedules", body) for body in bodies]
    return [
        *found,
        ask("GET", f"/api/schedules/{path(text)}", None),
        ask("GET", "/api/schedules/hourly", None),
    ]


def workers(ask: Ask, text: str) -> list[tuple[int, Any]]:
    bodies = [{"name": text}, {"name": "w", "pool": text}, {"name": "w", "capacity": 10**29}]
    found = [ask("POST", "/api/worker/pool/register", body) for body in bodies]
    found += [ask("POST", f"/api/worker/pool/{verb}", {"name": text}) for verb in ("heartbeat", "deregister")]
    return [*found, ask("POST", "/api/commands/claim", {"name": text, "limit": 10**29})]


ENDS = ("result", "error", "text of an error", "step")
"""What the last report about a command holds a hostile text in."""


DOORS = (credentials, triggers, schedules, workers)
"""Those that need nothing to be there."""


def reports(ask: Ask, claimed: dict[str, Any], text: str, end: str) -> list[tuple[int, Any]]:
    """Reports of a worker about one command: what does not fit, a sign of life, and an outcome at last."""
    plain = {name: claimed[name] for name in ("execution_id", "step", "command")}
    error = {"message": text, "code": text, "details": document(text), "hint": text}
    small = text[:300]
    wishes: dict[str, dict[str, Any]] = {
        "name": {**plain, "name": text},
        "command": {**plain, "name": "call.done", "payload": {"result": 1}, "command": text},
        "sign of life": {**plain, "name": "command.heartbeat", "payload": document(text)},
        "result": {**plain, "name": "call.done", "payload": {"result": document(small)}},
        "error": {**plain, "name": "call.error", "payload": {"error": error}},
        "text of an error": {**plain, "name": "call.error", "payload": {"error": text, **document(text)}},
        "step": {**plain, "name": "call.done", "payload": {"result": 1}, "step": text},
    }
    return [ask("POST", "/api/events", wishes[name]) for name in ("name", "command", "sign of life", end)]


def answers(ask: Ask, execution_id: str, text: str) -> list[tuple[int, Any]]:
    found = ask("GET", f"/api/executions/{execution_id}/callbacks", None)[1]["callbacks"]
    wrong = ask("POST", f"/api/callbacks/{path(text)}", {})
    return [wrong, ask("POST", f"/api/callbacks/{found[0]['token']}", document(text))]


def path(text: str) -> str:
    """A text as a part of an address."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def check(found: list[tuple[int, Any]]) -> None:
    """What is refused says why, in a problem with a code; nothing is a defect of the server."""
    for status, answer in found:
        assert status < 500, answer
        assert status < 300 or (answer["code"] and answer["detail"]), answer


def check_lists(ask: Ask) -> None:
    """Every list shows every row."""
    for rows, at in LISTS.items():
        status, answer = ask("GET", at, None)
        assert status == 200, (at, answer)
        assert not [one for one in answer[rows] if isinstance(one, dict) and one.get("unreadable")], at
