"""A client of the API that costs little: HTTP/1.1 over one kept connection, on asyncio's streams, and a tally of what was answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

TIMEOUT = 60.0
PROBLEM = "application/problem+json"


class BrokenAnswerError(Exception):
    """The connection ended in the middle of something: nobody knows what became of the request."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem; empty for what is none."""
        return str(self.json.get("code", "")) if self.headers.get("content-type") == PROBLEM else ""


class Connection:
    """One connection, made again after it was lost. Not for several tasks at once."""

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self.host, self.port = host, port
        self._fixed = f"Host: {host}:{port}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Raises BrokenAnswerError, OSError (not connected) and TimeoutError."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        kind = "Content-Type: application/json\r\n" if body is not None else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._fixed}{kind}{lines}Content-Length: {len(content)}\r\n\r\n"
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await self._connected()
            try:
                writer.write(head.encode("latin-1") + content)
                await writer.drain()
                return await self._answer(reader)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                await self.close()
                raise BrokenAnswerError(repr(error)) from error
            except BaseException:
                await self.close()
                raise

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof():
            await self.close()
            self._streams = await asyncio.open_connection(self.host, self.port)
        return self._streams

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in head[1:]:
            name, mark, value = line.partition(":")
            if mark:
                headers[name.lower()] = value.strip()
        content = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return Answer(int(head[0].split(" ", 2)[1]), headers, content)


@dataclass
class Tally:
    """What was asked and answered. ``wrong``: everything that must not happen, in words, the first hundred."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    broken: int = 0

    def note(self, what: str, answer: Answer, began: float) -> None:
        self.seconds[what].append(time.perf_counter() - began)
        self.statuses[what, answer.status] += 1
        if answer.status >= 400:
            self.codes[f"{answer.status} {answer.code}"] += 1

    def complain(self, text: str) -> None:
        if len(self.wrong) < 100:
            self.wrong.append(text)

    def figures(self) -> dict[str, dict[str, float]]:
        """Milliseconds by what was asked."""
        return {what: _spread(sorted(found)) for what, found in sorted(self.seconds.items())}


def _spread(ordered: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 1)

    return {"count": len(ordered), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1.0)}
