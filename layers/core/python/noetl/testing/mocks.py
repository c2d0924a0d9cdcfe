"""Replies that replace calls to the outside.

They show which reply matches a call, and the kind's result of it.

An entry of ``tools`` is one reply (it answers every call), a list of replies (one call after the other, then no more), or a list of
choices: the first whose ``when`` is part of the call's parameters answers it, ``default`` the others.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.results.references import select
from noetl.domain.text.excerpt import excerpt
from noetl.domain.text.wildcards import fits
from noetl.kinds.registry import Answer, Registry
from noetl.testing.document import check_form, is_choice
from noetl.testing.scripted import Call, ScriptedRegistry, call_of

ALWAYS_REAL = frozenset({"artifact", "duckdb", "noop", "playbook", "python", "resolve", "wait"})
"""Kinds that run as they are: routing, code in its sandbox, SQL in memory over the playbook's own files, playbooks that are beside it."""
PASTE: Mapping[str, str] = {"http": "{ body: {} }", "postgres": "{ rows: [] }", "duckdb": "{ rows: [] }"}
SHOWN = 90


class MockRegistry(ScriptedRegistry):
    """The kinds of a case. ``live``: kinds that may reach outside."""

    def __init__(self, tools: Mapping[str, Any], live: frozenset[str] = frozenset()) -> None:
        super().__init__(tools)
        self.live = live
        self.run_id = secrets.token_hex(8)
        self.playbook = ""
        """Name of the playbook whose command is run, with a colon, when it is not the tested one."""

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Answer:
        found = call_of(name, raw_params, context)
        call = replace(found, step=f"{self.playbook}{found.step}")
        reply = self.find(call)
        if reply is None:
            # Code that may share a process shares it within this run of the case alone: no case meets what another one has left.
            alone = replace(context, program=f"{context.program} {self.run_id}")
            return Registry.run(self, name, raw_params, alone)
        if name in self.names():
            self._load(name).params.parse(raw_params)
        own = raw_params.get("timeout")
        limit = (
            min(context.timeout, own) if name == "http" and isinstance(own, (int, float)) else context.timeout
        )
        self.pass_by(float(reply.get("delay", 0)), limit, context.task)
        return answer_of(name, raw_params, reply)

    def pass_by(self, seconds: float, limit: float, task: str) -> None:
        """The call takes its (virtual) time, at most what its task may have.

        Raises TaskError(kind="timeout").
        """
        self.spent += min(seconds, limit)
        if seconds > limit:
            raise TaskError(
                f"{task} took longer than {limit:g} s",
                kind="timeout",
                code="timeout",
                retryable=True,
            )

    def expand(self, reply: Mapping[str, Any], call: Call) -> Mapping[str, Any]:
        """A reply is what it says."""
        return reply

    def names_of(self, call: Call) -> list[str]:
        playbook, colon, _ = call.step.rpartition(":")
        return [f"{call.step}/{call.task}", f"{playbook}{colon}{call.task}"]

    def _key(self, call: Call) -> str | None:
        """Return the key of the reply to a call.

        A step's name means its one tool, and those of its tasks that reach outside; not what undoes it.
        """
        names = self.names_of(call)
        if call.task.endswith("_sink"):
            names.append("sink")
        elif is_own(call) or not (self.is_real(call) or call.task.endswith("_compensate")):
            names.append(call.step)
        keys = (key for name in names for key in (f"{name}[{call.index}]", name))
        return next((key for key in keys if key in self.script), None)

    def is_real(self, call: Call) -> bool:
        if call.kind == "duckdb" and call.params.get("database"):
            return call.kind in self.live
        return call.kind in ALWAYS_REAL or call.kind in self.live

    def missing(self, call: Call) -> str:
        key = call.step if is_own(call) else f"{call.step}/{call.task}"
        if call.task.endswith("_sink"):
            key = "sink"
        return (
            f"{key} ({call.kind}) reaches outside and has no reply: {describe_call(call)}\n"
            f"add under `tools`:  {key}: {PASTE.get(call.kind, '{ result: null }')}\n"
            f"or run it for real: --live {call.kind}"
        )

    def _reply(self, key: str, call: Call) -> Mapping[str, Any] | None:
        replies = self.script[key]
        if not (isinstance(replies, list) and is_choice(replies)):
            return super()._reply(key, call)
        for number, choice in enumerate(replies):
            if "default" in choice:
                found: Mapping[str, Any] = choice["default"]
                return found
            if not matches(choice["when"], call.params):
                continue
            if "replies" not in choice:
                return {name: value for name, value in choice.items() if name != "when"}
            place = self.used[f"{key} #{number + 1}"]
            self.used[f"{key} #{number + 1}"] += 1
            if place < len(choice["replies"]):
                answer: Mapping[str, Any] = choice["replies"][place]
                return answer
            return None
        return self._refuse(
            f"no `when` of {key} fits this call: {describe_call(call)}\nadd - default: {{…}} or a `when`"
        )

    def left_over(self) -> dict[str, int]:
        plain = {
            key: value
            for key, value in self.script.items()
            if isinstance(value, list) and not is_choice(value)
        }
        left = {
            key: len(replies) - self.used[key]
            for key, replies in plain.items()
            if self.used[key] < len(replies)
        }
        for key, choices in self.script.items():
            if key in plain or not isinstance(choices, list):
                continue
            for number, choice in enumerate(choices, 1):
                name = f"{key} #{number}"
                if self.used[name] < len(choice.get("replies", ())):
                    left[name] = len(choice["replies"]) - self.used[name]
        return left


def own_label(step: str) -> str:
    """What the compiler calls the task of a step that has one tool without a name."""
    return f"{step}_task"


def shown_calls(calls: Mapping[str, int]) -> dict[str, int]:
    """Count each step or task once, as ``fetch`` or ``fetch/page``.

    Other names that replies may use are left out.
    """
    counts: dict[str, int] = {}
    for name, count in calls.items():
        step, _, task = name.rpartition("/")
        if name == "sink":
            counts[name] = count
        elif step:
            own = task == own_label(step.rpartition(":")[2])
            counts[step if own else name] = count
    return counts


def is_own(call: Call) -> bool:
    """Whether a call is that of a step's one tool."""
    return call.task in (call.step, own_label(call.step.rpartition(":")[2]))


def describe_call(call: Call) -> str:
    """What a call asked for, on one line."""
    params = {name: value for name, value in call.params.items() if value not in (None, {}, [])}
    if call.kind == "http" and isinstance(params.get("url"), str):
        rest = {name: value for name, value in params.items() if name not in ("method", "url")}
        return excerpt(
            f"{params.get('method', 'GET')} {params['url']} {shown(rest) if rest else ''}".strip(), SHOWN
        )
    return excerpt(shown(params), SHOWN)


def shown(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(json.loads(codec.encode(value)), ensure_ascii=False)


def matches(part: Any, whole: Any) -> bool:
    """Return whether ``part`` is in ``whole``.

    Mappings are compared by their keys, texts with ``*`` for anything, other values as they are.
    """
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and matches(item, whole[key]) for key, item in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(matches, part, whole))
    if isinstance(part, str) and isinstance(whole, str) and "*" in part:
        return fits(part.split("*"), whole)
    return type(part) is type(whole) and bool(part == whole)


def answer_of(kind: str, params: Mapping[str, Any], reply: Mapping[str, Any]) -> TaskResult:
    """Return what the kind makes of a reply.

    Raises TaskError: the failure that the reply describes.
    """
    form = check_form(reply)
    if form == "error":
        error = dict(reply["error"])
        raise TaskError(error.pop("message", "a failure of this test"), **error)
    if form == "result":
        return TaskResult(reply.get("result"), reply.get("meta", {}))
    if form == "affected":
        return TaskResult({"affected_rows": reply["affected_rows"]})
    if form == "rows":
        rows = reply.get("rows", [])
        columns = reply.get("columns") or list(dict.fromkeys(name for row in rows for name in row))
        return TaskResult({"columns": columns, "rows": rows, "row_count": len(rows)})
    return _http(params, reply)


def _http(params: Mapping[str, Any], reply: Mapping[str, Any]) -> TaskResult:
    """The answer goes through what the http kind does with one."""
    from noetl.kinds.http.call import accepted_of
    from noetl.kinds.http.client import Answer, Request
    from noetl.kinds.http.response import failure_of, helper_of, result_of
    from noetl.kinds.support.net_guard import parse_url

    body, status = reply.get("body"), reply.get("status", 200)
    headers = {name.lower(): value for name, value in reply.get("headers", {}).items()}
    if body is not None and "content-type" not in headers:
        headers = {"content-type": "application/json", **headers}
    raw = b"" if body is None else codec.encode(body)
    if isinstance(body, str) and "json" not in headers["content-type"]:
        raw = body.encode()
    url = str(params.get("url") or params.get("endpoint") or "http://mock.test/")
    request = Request(str(params.get("method", "GET")).upper(), parse_url(url), {})
    answer = Answer(status, headers, url, raw)
    if (status >= 400 and status not in accepted_of(params.get("accept_status"))) or status < 200:
        raise failure_of(request, answer)
    result = result_of(answer, 0.0)
    if isinstance(how := params.get("paginate"), Mapping):
        result |= _last_page(how, result["data"])
    return TaskResult(result, {"http": helper_of(answer)})


def _last_page(how: Mapping[str, Any], body: Any) -> dict[str, Any]:
    """A call that reads pages: the reply is the only one, or the items of all."""
    items = body if isinstance(body, list) else select(body, str(how.get("items") or "$"))
    items = items if isinstance(items, list) else []
    return {"data": items, "pages": 1, "count": len(items), "more": False}
