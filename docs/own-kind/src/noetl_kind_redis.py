"""Sends commands to Redis: a kind from outside, in one file. Nothing here is imported before a playbook uses the kind."""

from __future__ import annotations

import socket
import time
from typing import Annotated, Any

from pydantic import Field

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="redis",
    summary="Sends a command to Redis.",
    pool="io",
    default_timeout=10.0,
    aliases={"cmd": "command"},
    needs_network=True,
)

EXAMPLE: dict[str, Any] = {"auth": "cache", "command": ["INCRBY", "visits", 1]}


class Params(KindParams):
    """A command and its arguments."""

    auth: Annotated[str, Field(description="A credential with host, port and password.")]
    command: Annotated[
        list[str | int | float], Field(min_length=1, description="The command, then its arguments.")
    ]


def run(params: Params, context: TaskContext) -> TaskResult:
    """What Redis answered. Raises TaskError: ``redis_error`` (client_error), ``redis_away`` (connection, retryable)."""
    data = context.credential(params.auth).data
    until = time.monotonic() + context.timeout
    try:
        with socket.create_connection((data["host"], int(data.get("port", 6379))), context.timeout) as link:
            link.settimeout(max(0.01, until - time.monotonic()))
            answers = link.makefile("rb")
            if data.get("password"):
                _ask(link, answers, ["AUTH", str(data["password"])])
            return TaskResult(_ask(link, answers, params.command))
    except TimeoutError:
        raise TaskError(
            "Redis did not answer in time", kind="timeout", code="timeout", retryable=True
        ) from None
    except OSError as error:
        raise TaskError(
            f"Redis is away: {error}", kind="connection", code="redis_away", retryable=True
        ) from None


def _ask(link: socket.socket, answers: Any, words: list[Any]) -> Any:
    """One command in the Redis serialization protocol (RESP)."""
    texts = [str(word).encode() for word in words]
    link.sendall(b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(text), text) for text in texts))
    return _read(answers)


def _read(answers: Any) -> Any:
    line = answers.readline().rstrip(b"\r\n")
    mark, rest = line[:1], line[1:]
    if mark == b"+":
        return rest.decode()
    if mark == b":":
        return int(rest)
    if mark == b"$":
        return None if rest == b"-1" else answers.read(int(rest) + 2)[:-2].decode("utf-8", "replace")
    if mark == b"*":
        return [_read(answers) for _ in range(int(rest))]
    raise TaskError(f"Redis said: {rest.decode('utf-8', 'replace')}", kind="client_error", code="redis_error")
