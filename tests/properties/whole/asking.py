"""What callers of the story ask for: bodies, keys, paths and parameters, by a share in the worst words there are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from noetl.domain.sizes.table import DOCUMENT_DEPTH, INTEGER_DIGITS, NAME
from tests.properties import hostile
from tests.properties.whole.served import Served

BYTES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b'{"path": NaN}',
    b'{"a": 1, "a": 2}',
    b'{"payload": {"\\ud800": "\\u0000"}}',
    b"\xff\xfe{}",
    b"[" * 3000,
    b"1" * 5000,
    b"\xef\xbb\xbf{}",
)
"""Bodies that are no JSON, or not what is asked for."""


def payload(rng: random.Random, rude: float) -> dict[str, Any]:
    """Draw a payload; a rude one may hold anything, also what exceeds a limit."""
    if rng.random() >= rude:
        return {"data": rng.randint(0, 9), "items": list(range(rng.randint(0, 4)))}
    found: dict[str, Any] = {**hostile.mapping(rng), "data": hostile.value(rng), "key": hostile.text(rng)}
    found["items"] = rng.choice(([hostile.value(rng) for _ in range(3)], hostile.value(rng)))
    over = rng.choice((-1, 0, 0, 1))
    chance = rng.random()
    if chance < 0.05:
        found["data"] = nested(DOCUMENT_DEPTH.value - 2 + over)
    elif chance < 0.1:
        found["data"] = int("9" * (INTEGER_DIGITS.value + over))
    elif chance < 0.15:
        found[rng.choice(("k", "\u00e9", "\U0001f600")) * (NAME.value + over)] = 1
    return found


def nested(depth: int) -> Any:
    """A value of that many lists."""
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


def headers(rng: random.Random, rude: float) -> dict[str, str]:
    """Draw an idempotency key that HTTP can carry, or none."""
    if rng.random() < 0.5:
        return {}
    if rng.random() >= rude:
        return {"Idempotency_Key": f"key {rng.randrange(10**9)}"}
    text = hostile.text(rng).encode("utf-8", "surrogatepass").decode("latin-1")
    return {"Idempotency_Key": "".join(letter for letter in text if letter not in "\r\n\x00") or "k"}


def words(rng: random.Random, rude: float) -> dict[str, str]:
    """Draw who and why."""
    if rng.random() >= rude:
        return {"reason": "because"}
    return {"reason": hostile.text(rng)}


def patch(rng: random.Random, rude: float) -> Any:
    """Draw a patch of a context: a merge patch, or operations."""
    if rng.random() >= rude:
        return {"note": rng.randint(0, 9)}
    if rng.random() < 0.5:
        return {hostile.name(rng): hostile.value(rng) for _ in range(rng.randint(0, 3))}
    op = rng.choice(("add", "remove", "replace", "test", "copy", "move", "nothing"))
    pointer = "/" + hostile.text(rng).replace("~", "~0")
    return [
        {
            "op": op,
            "path": rng.choice((pointer, hostile.text(rng))),
            "value": hostile.value(rng),
            "from": pointer,
        }
        if op in ("copy", "move")
        else {"op": op, "path": pointer, "value": hostile.value(rng)}
    ]


def encoded(text: str) -> str:
    """A text as a part of an address."""
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def change(served: Served, rng: random.Random, rude: float, execution_id: str, steps: list[str]) -> str:
    """Ask one thing of an execution. The name of what was asked."""
    what = rng.choice(
        ("pause", "pause", "resume", "cancel", "redrive", "redrive", "ctx", "ctx", "tokens", "vars", "many")
    )
    at, told = f"/api/executions/{execution_id}", words(rng, rude)
    step = hostile.text(rng) if rng.random() < rude / 3 else rng.choice(steps)
    keyed = headers(rng, rude)
    if what in ("pause", "resume", "cancel"):
        told = {**told, **({"cascade": False} if rng.random() < 0.2 else {})}  # type: ignore[dict-item]
        served.ask("POST", f"{at}/{what}", told, **keyed)
    elif what == "redrive":
        wish: dict[str, Any] = {**told}
        if rng.random() < 0.5:
            wish["from"] = rng.choice((step, f"{step}[0]", f"{step}[failed]", f"{step}[{10**30}]"))
        if rng.random() < 0.3:
            wish["args"] = {hostile.name(rng): hostile.value(rng)}
        served.ask("POST", f"{at}/redrive", wish, **keyed)
    elif what == "ctx":
        body = {"patch": patch(rng, rude), **told, "correlation_id": hostile.text(rng)[:300]}
        served.ask("PATCH", f"{at}/ctx", body, **keyed)
    elif what == "tokens":
        body = {"step": step, "args": {"run": hostile.value(rng), "left": 0}, **told}
        served.ask("POST", f"{at}/tokens", body, **keyed)
    elif what == "vars":
        body = {"variables": {hostile.name(rng): hostile.value(rng)}, **told}
        served.ask("POST", f"/api/vars/{execution_id}", body)
    else:
        verb = rng.choice(("pause", "resume", "redrive"))
        body = {"filter": {"ids": [execution_id]}, **told, "dry_run": rng.random() < 0.3}
        served.ask("POST", f"/api/executions/{verb}", body, **keyed)
    return what


def command(served: Served, rng: random.Random, execution_id: str, steps: list[str]) -> None:
    """Run one command line beside the server."""
    reason = hostile.text(rng).replace("\x00", "")
    step, name = rng.choice(steps), hostile.name(rng)
    lines: tuple[tuple[str, ...], ...] = (
        ("ctx", "patch", execution_id, "--set", f"{name}={hostile.text(rng)}", "--reason", reason),
        ("pause", execution_id, "--reason", reason),
        ("resume", execution_id, "--timeout", "100ms"),
        ("cancel", execution_id, "--reason", reason),
        ("redrive", execution_id, "--from", rng.choice((step, f"{step}[failed]", reason)), "--quiet"),
        ("run", "properties/nest", "--set", f"n={rng.randint(0, 9)}", "--set", "m=3", "--quiet"),
        ("run", "properties/leaf", "--set", f"{name}={reason}", "--quiet"),
        ("inject", execution_id, step, "--reason", reason),
        ("status", reason),
        ("list", "--status", reason),
    )
    served.noetl(*rng.choice(lines))


def probe(served: Served, rng: random.Random, execution_id: str) -> None:
    """Ask for something in the worst words; any answer is right that is no 5xx."""
    word, other = encoded(hostile.text(rng)), encoded(hostile.text(rng))
    one = f"/api/executions/{execution_id}"
    asked: Callable[[], Any] = rng.choice(
        (
            lambda: served.ask("GET", f"/api/executions?after={word}&limit={other}"),
            lambda: served.ask("GET", f"/api/executions?path={word}&version={other}"),
            lambda: served.ask("GET", f"/api/executions?started_after={word}"),
            lambda: served.ask("GET", f"/api/executions?parent={word}&status={other}"),
            lambda: served.ask("GET", f"/api/executions?ids={word},{execution_id}"),
            lambda: served.ask("GET", f"/api/executions/{word}/{rng.choice(('status', 'events', 'result'))}"),
            lambda: served.ask("GET", f"{one}/events?after={word}&vocabulary={other}"),
            lambda: served.ask("GET", f"{one}/steps?after={word}"),
            lambda: served.ask("GET", f"{one}/logs?after={word}"),
            lambda: served.ask("GET", f"{one}/result?ref={word}&store={other}"),
            lambda: served.ask("GET", f"/api/vars/{execution_id}/{word}"),
            lambda: served.ask("DELETE", f"/api/vars/{execution_id}/{word}"),
            lambda: served.ask("GET", f"/api/catalog/{word}?version={other}"),
            lambda: served.ask("GET", f"/api/catalog?after={word}"),
            lambda: served.ask("GET", f"/api/limits/{word}"),
            lambda: served.ask("GET", f"/api/callbacks/{word}"),
            lambda: served.ask("POST", f"/api/callbacks/{word}", hostile.value(rng)),
            lambda: served.ask("GET", f"/api/credentials/{word}"),
            lambda: served.ask("GET", f"/api/schedules/{word}/next?count={other}"),
            lambda: served.ask("GET", f"/api/triggers/{word}"),
            lambda: served.ask("GET", f"/api/result/resolve?ref={word}"),
            lambda: served.ask("GET", f"/{word}/{other}"),
            lambda: served.ask("POST", "/api/events", hostile.value(rng)),
            lambda: served.ask("POST", "/api/executions", rng.choice(BYTES)),
            lambda: served.ask("POST", "/api/catalog/register", rng.choice(BYTES)),
            lambda: served.ask("POST", f"{one}/pause", rng.choice(BYTES)),
            lambda: served.ask("PATCH", f"{one}/ctx", rng.choice(BYTES)),
            lambda: served.ask(
                "POST", "/api/executions/cancel", {"filter": {"path": hostile.name(rng) + "x"}}
            ),
            lambda: served.ask("POST", "/api/executions", start(rng)),
            lambda: served.ask("POST", "/api/context/render", render(rng, execution_id)),
        )
    )
    asked()


def start(rng: random.Random) -> dict[str, Any]:
    """A request to start what is not there."""
    body = {
        "path": "properties/none",
        rng.choice(("path", "version", "program", "catalog_id", "trigger_at")): hostile.text(rng),
    }
    return {**body, "payload": hostile.mapping(rng)}


def render(rng: random.Random, execution_id: str) -> dict[str, Any]:
    """A template that is to be tried out, with names of the caller's."""
    found = rng.choice((hostile.value(rng), "{{ workload.data }}", {hostile.name(rng): "{{ workload }}"}))
    return {"execution_id": execution_id, "template": found, "extra_context": hostile.mapping(rng)}


def answer(rng: random.Random, rude: float) -> Any:
    """The body that answers a callback."""
    if rng.random() >= rude:
        return {"approved": True}
    return rng.choice((hostile.value(rng), json.loads('{"v": "{{ workload }}"}')))
