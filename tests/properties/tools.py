"""Tools whose answer depends on what they are asked alone: the undisturbed run says what every other run has to give.

An ``http`` call is steered by its query parameters; everything else it is asked goes into its value ``v`` (0 … 999).

| parameter | the call |
|---|---|
| ``fail_first: n`` | fails with 503 in its first n tries (``only: [indexes]`` limits that to some iterations) |
| ``fail: kind`` | always fails, with that kind of error (``only`` as above) |
| ``pages: n``, ``page: k`` | answers page k of n: ``{rows: [two numbers], next: k + 1 or null}`` |
| ``polls: n`` | goes on elsewhere: it is asked for n times before it comes to anything |
| ``size: n`` | answers with a text of n bytes besides ``v`` |
| ``run: x`` | answers with ``run: x`` besides ``v`` |
| ``run: x``, ``saw: y`` | is noted in ``mixed`` unless both are the same: a run saw the result of another |
| ``arrived: x``, ``sent: name`` | is noted in ``changed`` unless x is what was sent under that name |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.registry import Answer, Registry

STEERING = frozenset({"fail_first", "fail", "only", "size", "polls"})
PATIENCE = 100_000.0
"""Seconds that a call has: the disturbances of a run may take hours."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the outside world sees it. ``asked``: what of it may not differ between attempts."""

    execution_id: int
    key: str
    asked: tuple[str, str, int | None, str]


class PureTools(Registry):
    """``calls``: every call, repeated ones too. ``poll_seconds``: between two questions of ``polls``.

    ``spend``: told of each call before it answers, so that time may pass. ``sent``: told of the tokens of callbacks that are sent
    (``body: {callback: …}``).
    """

    poll_seconds = 3.0

    def __init__(
        self, spend: Callable[[], None] = lambda: None, sent: Callable[[str], None] = lambda token: None
    ) -> None:
        super().__init__(discover=False)
        self.spend = spend
        self._sent = sent
        self.calls: list[Call] = []
        self.sent: dict[str, bytes] = {}
        """Values as they left, encoded, by name."""
        self.mixed: list[str] = []
        self.changed: list[str] = []

    def spec(self, name: str) -> KindSpec:
        found = super().spec(name)
        return replace(found, default_timeout=PATIENCE) if name == "http" else found

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Answer:
        if name != "http":
            return super().run(name, raw_params, context)
        self._load(name).params.parse(raw_params)
        params = dict(raw_params.get("params") or {})
        index = _index(context)
        asked = (context.step, context.task, index, codec.encode(params).decode())
        token = (raw_params.get("body") or {}).get("callback")
        if token:
            self._sent(token)
        self.keep(Call(context.execution_id, context.idempotency_key, asked))
        if "saw" in params and params["saw"] != params.get("run"):
            self.mixed.append(f"{context.step}: {params}")
        if "sent" in params and codec.encode(params.get("arrived")) != self.sent[params["sent"]]:
            self.changed.append(f"{context.step}: {params}, sent was {self.sent[params['sent']]!r}")
        self.spend()
        asked_for = (context.pending or {}).get("times", 0)
        if asked_for < params.get("polls", 0):
            return PollRequest({"times": asked_for + 1}, self.poll_seconds)
        body = _answer(params, context.attempt, index, asked)
        return TaskResult({"status_code": 200, "headers": {}, "url": "", "elapsed": 0.0, "data": body})

    def keep(self, call: Call) -> None:
        """Note a call."""
        self.calls.append(call)


def _answer(
    params: dict[str, Any], attempt: int, index: int | None, asked: tuple[Any, ...]
) -> dict[str, Any]:
    chosen = "only" not in params or index in params["only"]
    if chosen and attempt <= params.get("fail_first", 0):
        raise TaskError("HTTP 503", kind="server_error", status=503, retryable=True)
    if chosen and "fail" in params:
        raise TaskError(f"refused with {params['fail']}", kind=params["fail"], retryable=False)
    if "pages" in params:
        page = params.get("page", 1)
        return {"rows": [10 * page, 10 * page + 1], "next": page + 1 if page < params["pages"] else None}
    inputs = {name: value for name, value in params.items() if name not in STEERING}
    digest = hashlib.sha256(codec.encode([*asked[:3], inputs])).digest()
    body: dict[str, Any] = {"v": int.from_bytes(digest[:4], "big") % 1000}
    if "sent" in params:
        body["echo"] = params.get("arrived")
    if "run" in params:
        body["run"] = params["run"]
    if "size" in params:
        body["text"] = digest.hex()[:1] * params["size"]
    return body


def _index(context: TaskContext) -> int | None:
    try:
        return int(context.lookup("loop_index"))
    except (KeyError, TypeError):
        return None
