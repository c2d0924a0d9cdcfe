"""Clients of a system's HTTP door, each starting work and waiting for its end: the same for every system, on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from tests.bench.load.client import Answer, Connection
from tests.bench.load.served import ENDED

FIRST_PAUSE, LAST_PAUSE = 0.002, 0.05
"""Seconds between two looks at an execution that has not ended: short at first, then ever longer."""
WAIT = 25
"""Seconds that a server which answers with the end may take."""

Ask = Callable[[Connection], Awaitable[Any]]
"""One execution, from its start to its end, over a connection. Gives its result."""


@dataclass(slots=True)
class Visit:
    """What clients saw. ``milliseconds``: one per execution, in order of size."""

    seconds: float
    milliseconds: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return len(self.milliseconds) / self.seconds

    def at(self, share: float) -> float:
        return self.milliseconds[min(len(self.milliseconds) - 1, int(len(self.milliseconds) * share))]


def visit(address: str, token: str, ask: Ask, clients: int, count: int, pause: float = 0.0) -> Visit:
    """``count`` executions by so many clients, each with one kept connection, and a pause before each (seconds)."""
    return asyncio.run(_visit(address, token, ask, clients, count, pause))


async def _visit(address: str, token: str, ask: Ask, clients: int, count: int, pause: float) -> Visit:
    numbers = iter(range(count))
    taken: list[float] = []
    parts = urlsplit(address)

    async def client() -> None:
        async with Connection(parts.hostname or "", parts.port or 80, token) as connection:
            for _ in numbers:
                if pause:
                    await asyncio.sleep(pause)
                began = time.perf_counter()
                await ask(connection)
                taken.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return Visit(time.perf_counter() - began, sorted(taken))


class NoetlDoor:
    """The API of ``noetl serve``. It is asked to answer with the end where it can, and looked at again and again where it cannot."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address, token
        description = self._once("GET", "/openapi.json")
        parameters = description["paths"]["/api/executions"]["post"].get("parameters", [])
        self.waits = any(one.get("name") == "wait" for one in parameters)

    def register(self, text: str) -> str:
        """The path of the playbook."""
        return str(self._once("POST", "/api/catalog/register", {"content": text})["path"])

    def asking(self, path: str) -> Ask:
        return partial(self._execute, path)

    def starting(self, path: str) -> Ask:
        """Starts that are answered at once."""

        async def ask(connection: Connection) -> None:
            _good(await connection.ask("POST", "/api/executions", {"path": path, "payload": {}}))

        return ask

    def result(self, path: str) -> Any:
        """What one execution gives."""

        async def ask(connection: Connection) -> None:
            place = f"/api/executions/{await self._execute(path, connection)}"
            found.append(_good(await connection.ask("GET", f"{place}/result")).json)

        found: list[Any] = []
        visit(self.address, self.token, ask, 1, 1)
        return found[0]

    async def _execute(self, path: str, connection: Connection) -> str:
        target = f"/api/executions?wait={WAIT}" if self.waits else "/api/executions"
        started = _good(await connection.ask("POST", target, {"path": path, "payload": {}})).json
        place, pause = f"/api/executions/{started['execution_id']}/status", FIRST_PAUSE
        seen = started
        while seen.get("status") not in ENDED:
            if seen is not started or not self.waits:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LAST_PAUSE)
            seen = _good(await connection.ask("GET", place)).json
        if seen["status"] != "completed":
            raise RuntimeError(f"execution {started['execution_id']} of {path} ended as {seen['status']}")
        return str(started["execution_id"])

    def _once(self, method: str, path: str, body: Any = None) -> Any:
        found: list[Any] = []

        async def ask(connection: Connection) -> None:
            found.append(_good(await connection.ask(method, path, body)).json)

        visit(self.address, self.token, ask, 1, 1)
        return found[0]


async def call(path: str, body: Any, connection: Connection) -> Any:
    """One request that answers with the end: the door of a peer."""
    return _good(await connection.ask("POST", path, body)).json


def _good(answer: Answer) -> Answer:
    if answer.status not in (200, 201):
        raise RuntimeError(f"the server answered {answer.status}: {answer.body[:300]!r}")
    return answer
