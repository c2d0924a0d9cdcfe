"""Scripted tools: the registry of kinds, with replies in place of network calls.

Keys of a script name a step, a task, or one iteration of them: ``fetch``, ``fetch/page``, ``fetch[2]``, ``page[2]``; a sink
may be called ``sink``. A list is used up in order, once; a mapping answers every call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.registry import Answer, Registry
from noetl.templating.contract import RenderedSql

REAL = frozenset({"artifact", "duckdb", "noop", "playbook", "python", "resolve", "wait"})
STATUS_KINDS = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit"}


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a script sees it.

    ``index``: of the iteration, None outside of loops; ``params``: the parameters of the call.
    """

    kind: str
    step: str
    task: str
    index: int | None
    params: Mapping[str, Any]


class Script:
    """Replies by key, and what was asked.

    ``calls``: what each key was called with, in order. Safe to share between threads.
    """

    def __init__(self, script: Mapping[str, Any]) -> None:
        self.script = script
        self.used: Counter[str] = Counter()
        self.calls: dict[str, list[Mapping[str, Any]]] = {}
        self.total = 0
        self.spent = 0.0
        self.unexpected: list[str] = []
        self.guard = threading.Lock()

    def find(self, call: Call) -> Mapping[str, Any] | None:
        """The reply to a call, for ``answer``; None: the real kind answers it.

        Raises TaskError(code="unscripted").
        """
        with self.guard:
            self.total += 1
            names = {call.step, *self.names_of(call)}
            for entry in {"sink"} if call.task.endswith("_sink") else names:
                self.calls.setdefault(entry, []).append(call.params)
            key = self._key(call)
            reply = None if key is None else self._reply(key, call)
        if key is None:
            return None if self.is_real(call) else self._refuse(self.missing(call))
        if reply is None:
            return self._refuse(f"{key} was called more often than the case has replies")
        return self.expand(reply, call)

    def expand(self, reply: Mapping[str, Any], call: Call) -> Mapping[str, Any]:
        """Short spellings of large values, and the iteration's index."""
        found: Mapping[str, Any] = _expand(reply, call.index)
        return found

    def names_of(self, call: Call) -> list[str]:
        """Names of the task that was called, the most exact first."""
        return [f"{call.step}/{call.task}", call.task]

    def is_real(self, call: Call) -> bool:
        """Whether the kind itself answers a call that no key names."""
        return call.kind in REAL

    def missing(self, call: Call) -> str:
        """What to say of a call that no key names."""
        return f"{call.step}/{call.task} ({call.kind}) was called, but the case has no reply for it"

    def left_over(self) -> dict[str, int]:
        """Return the number of replies without a call, by key."""
        return {
            key: len(replies) - self.used[key]
            for key, replies in self.script.items()
            if isinstance(replies, list) and self.used[key] < len(replies)
        }

    def _key(self, call: Call) -> str | None:
        sink = call.task.endswith("_sink")
        names = self.names_of(call)
        names += ["sink"] if sink else [] if self.is_real(call) else [call.step]
        for name in names:
            for key in ([f"{name}[{call.index}]"] if call.index is not None else []) + [name]:
                if key in self.script:
                    return key
        return None

    def _reply(self, key: str, call: Call) -> Mapping[str, Any] | None:
        replies = self.script[key]
        if isinstance(replies, Mapping):
            return replies
        place = self.used[key]
        self.used[key] += 1
        return replies[place] if place < len(replies) else None

    def _refuse(self, message: str) -> Mapping[str, Any]:
        self.unexpected.append(message)
        raise TaskError(message, code="unscripted")


class ScriptedRegistry(Script, Registry):
    """A script in the place of the kinds that need a network."""

    def __init__(self, script: Mapping[str, Any]) -> None:
        Registry.__init__(self, discover=False)
        Script.__init__(self, script)

    def stop(self, name: str, state: Mapping[str, Any], context: TaskContext) -> None:
        """Record a stop like a call: ``fetch.stop``."""
        with self.guard:
            for key in {context.step, f"{context.step}/{context.task}", context.task}:
                self.calls.setdefault(f"{key}.stop", []).append({"state": dict(state)})

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Answer:
        reply = self.find(call_of(name, raw_params, context))
        if reply is None:
            return super().run(name, raw_params, context)
        self._load(name).params.parse(raw_params)
        with self.guard:
            self.spent += reply.get("takes", 0.0)
        accepted = raw_params.get("accept_status") if name == "http" else None
        return answer({key: value for key, value in reply.items() if key != "takes"}, accepted)


def call_of(kind: str, params: Mapping[str, Any], context: TaskContext) -> Call:
    """A call of a kind as a script sees it."""
    call_params = _call_params(params, context.input)
    if context.pending is not None:
        call_params["pending"] = dict(context.pending)
    return Call(kind, context.step, context.task, _index(context), call_params)


def _call_params(params: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call, as cases compare them.

    SQL is its statements, each with its text and bound parameters.
    """
    plain = {
        name: [{"text": one.text, "params": dict(one.params)} for one in value.statements]
        if isinstance(value, RenderedSql)
        else value
        for name, value in params.items()
    }
    return {**plain, "input": dict(given)}


def _index(context: TaskContext) -> int | None:
    try:
        return int(context.lookup("loop_index"))
    except Exception:
        return None


def answer(reply: Mapping[str, Any], accepted: Any = None) -> TaskResult | PollRequest:
    """Return the answer that a reply describes.

    ``{body, status}``: an HTTP answer; ``{result, meta}``: a result as it is; ``{error: {…}}``: a failure;
    ``{pending: {delay, state}}``: work in another system, to be asked for again. ``accepted``: what ``accept_status`` says.
    """
    from noetl.kinds.http.call import accepted_of

    if "pending" in reply:
        return PollRequest(dict(reply["pending"].get("state") or {}), reply["pending"]["delay"])
    if "error" in reply:
        error = dict(reply["error"])
        raise TaskError(error.pop("message", "scripted failure"), **error)
    if "result" in reply:
        return TaskResult(reply["result"], reply.get("meta", {}))
    status, body = reply.get("status", 200), reply.get("body")
    headers = reply.get("headers", {})
    if status >= 400 and status not in accepted_of(accepted):
        kind = STATUS_KINDS.get(status, "server_error" if status >= 500 else "client_error")
        details = {"body": body, "headers": headers}
        if "retry-after" in headers:
            details["retry_after"] = float(headers["retry-after"])
        raise TaskError(
            f"HTTP {status}",
            kind=kind,
            status=status,
            retryable=status in (408, 425, 429) or status >= 500,
            details=details,
        )
    envelope = {
        "status_code": status,
        "headers": headers,
        "url": "http://api.test/",
        "elapsed": 0.0,
        "data": body,
    }
    return TaskResult(envelope, {"http": {"status": status, "headers": headers}})


def _expand(value: Any, index: int | None) -> Any:
    """Expand the short forms of values.

    ``{repeat: a, times: 3}`` → ``"aaa"``, ``{range: 3}`` → ``[0, 1, 2]``, ``"{index}"`` → the iteration's index.
    """
    if isinstance(value, Mapping):
        if value.keys() == {"repeat", "times"}:
            return value["repeat"] * value["times"]
        if value.keys() == {"range"}:
            return list(range(value["range"]))
        return {key: _expand(item, index) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, index) for item in value]
    return index if value == "{index}" else value
