"""Tools that answer from a script: the registry of kinds, with replies in the place of what needs a network.

Keys of a script name a step, a task, or one iteration of them: ``fetch``, ``fetch/page``, ``fetch[2]``, ``page[2]``; a sink
may be called ``sink``. A list is used up in order, once; a mapping answers every call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.outcomes import ChildRequest
from noetl.kinds.registry import Registry
from noetl.templating.contract import RenderedSql

REAL = frozenset({"noop", "playbook", "python", "duckdb"})
STATUS_KINDS = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit"}


class ScriptedRegistry(Registry):
    """``calls``: what each key was called with, in order."""

    def __init__(self, script: Mapping[str, Any]) -> None:
        super().__init__(discover=False)
        self.script = script
        self.used: Counter[str] = Counter()
        self.calls: dict[str, list[dict[str, Any]]] = {}
        self.total = 0
        self.unexpected: list[str] = []
        self.guard = threading.Lock()

    def run(
        self, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> TaskResult | ChildRequest:
        index = _index(context)
        with self.guard:
            self.total += 1
            names = {context.step, context.task, f"{context.step}/{context.task}"}
            for entry in {"sink"} if context.task.endswith("_sink") else names:
                self.calls.setdefault(entry, []).append(_told(raw_params, context))
            key = self._key(name, context, index)
            reply = None if key is None else self._reply(key)
        if key is None:
            if name in REAL:
                return super().run(name, raw_params, context)
            return self._refuse(
                f"{context.step}/{context.task} ({name}) was called, but the case has no reply for it"
            )
        if reply is None:
            return self._refuse(f"{key} was called more often than the case has replies")
        self._load(name).params.parse(raw_params)
        return _answer(_expand(reply, index))

    def left_over(self) -> dict[str, int]:
        """Replies that nobody asked for."""
        return {
            key: len(replies) - self.used[key]
            for key, replies in self.script.items()
            if isinstance(replies, list) and self.used[key] < len(replies)
        }

    def _key(self, kind: str, context: TaskContext, index: int | None) -> str | None:
        sink = context.task.endswith("_sink")
        names = [f"{context.step}/{context.task}", context.task]
        names += ["sink"] if sink else [] if kind in REAL else [context.step]
        for name in names:
            for key in ([f"{name}[{index}]"] if index is not None else []) + [name]:
                if key in self.script:
                    return key
        return None

    def _reply(self, key: str) -> Mapping[str, Any] | None:
        replies = self.script[key]
        if isinstance(replies, Mapping):
            return replies
        place = self.used[key]
        self.used[key] += 1
        return replies[place] if place < len(replies) else None

    def _refuse(self, message: str) -> TaskResult:
        self.unexpected.append(message)
        raise TaskError(message, code="unscripted")


def _told(params: Mapping[str, Any], context: TaskContext) -> dict[str, Any]:
    """A call as cases compare it: SQL is its statements, each with its text and bound parameters."""
    plain = {
        name: [{"text": one.text, "params": dict(one.params)} for one in value.statements]
        if isinstance(value, RenderedSql)
        else value
        for name, value in params.items()
    }
    return {**plain, "input": dict(context.input)}


def _index(context: TaskContext) -> int | None:
    try:
        return int(context.lookup("loop_index"))
    except Exception:
        return None


def _answer(reply: Mapping[str, Any]) -> TaskResult:
    """``{body, status}``: an HTTP answer; ``{result, meta}``: a result as it is; ``{error: {…}}``: a failure."""
    if "error" in reply:
        error = dict(reply["error"])
        raise TaskError(error.pop("message", "scripted failure"), **error)
    if "result" in reply:
        return TaskResult(reply["result"], reply.get("meta", {}))
    status, body = reply.get("status", 200), reply.get("body")
    headers = reply.get("headers", {})
    if status >= 400:
        kind = STATUS_KINDS.get(status, "server_error" if status >= 500 else "client_error")
        raise TaskError(
            f"HTTP {status}",
            kind=kind,
            status=status,
            retryable=status in (408, 425, 429) or status >= 500,
            details={"body": body, "headers": headers},
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
    """``{repeat: a, times: 3}`` → ``"aaa"``, ``{range: 3}`` → ``[0, 1, 2]``, ``"{index}"`` → the iteration's index."""
    if isinstance(value, Mapping):
        if value.keys() == {"repeat", "times"}:
            return value["repeat"] * value["times"]
        if value.keys() == {"range"}:
            return list(range(value["range"]))
        return {key: _expand(item, index) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, index) for item in value]
    return index if value == "{index}" else value
