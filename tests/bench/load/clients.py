"""What two hundred clients do: start executions (with and without keys), poll, patch, set variables, list, cancel; and what they remember,
so that it can be compared with the database."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from tests.bench.load.client import Answer, BrokenAnswerError, Connection, Tally

QUICK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: quick, path: load/quick }
workload: { mark: "" }
workflow:
  - { step: start, tool: { kind: noop, args: { mark: "{{ workload.mark }}" } }, next: end }
  - { step: end, tool: { kind: noop, args: { mark: "{{ start.data.mark }}" } } }
"""
GATED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: gated, path: load/gated }
workload: { mark: "" }
workflow:
  - { step: start, tool: { kind: noop, args: { n: 1 } }, vars: { n: "{{ result.n }}" }, next: gate }
  - step: gate
    spec:
      policy:
        admit:
          rules: [{ when: "{{ ctx.approved | default(false) }}", then: { allow: true } }, { else: { then: { allow: false } } }]
    tool: { kind: noop, args: { note: "{{ vars.note | default('none') }}" } }
"""
WORKED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: worked, path: load/worked }
workload: { mark: "" }
workflow:
  - { step: start, tool: { kind: python, args: { mark: "{{ workload.mark }}" }, code: "result = {'mark': mark}" } }
"""
PLAYBOOKS = (QUICK, GATED, WORKED)
TRIES = 200
"""How often a client asks again before it gives up; outages last a few seconds."""


@dataclass(slots=True)
class Asked:
    """One start that a client wanted. ``ids``: what it was answered; ``tries``: how many requests may have started something."""

    mark: str
    key: str
    ids: set[str] = field(default_factory=set)
    tries: int = 0


@dataclass
class Load:
    """What all clients share. ``until``: monotonic seconds from when no client begins anything new, if enough has happened by then."""

    host: str
    port: int
    token: str
    until: float
    pause: float = 0.0
    wanted: int = 0
    """So many starts have to be accepted, and all outages have to be over."""
    outages: int = 0
    """Those to come."""
    tally: Tally = field(default_factory=Tally)
    asked: list[Asked] = field(default_factory=list)
    away: bool = False
    """Whether the database is down just now, or was a moment ago: 503 is right then, and wrong otherwise."""

    def connection(self) -> Connection:
        return Connection(self.host, self.port, self.token)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until and not self.outages and self.accepted >= self.wanted

    @property
    def accepted(self) -> int:
        """How many starts were accepted."""
        return sum(bool(asked.ids) for asked in self.asked)


class Client:
    """One client: one story after the other, each about one execution."""

    def __init__(self, load: Load, number: int) -> None:
        self.load, self.number = load, number
        self.http = load.connection()
        self.random = random.Random(number)

    async def run(self) -> None:
        story = 0
        await asyncio.sleep(self.random.random() * 0.2)
        async with self.http:
            while not self.load.over:
                story += 1
                try:
                    await self._story(f"c{self.number}-{story}")
                except GaveUpError as error:
                    self.load.tally.complain(f"client {self.number}: {error}")
                await asyncio.sleep(self.random.random() * self.load.pause)

    async def _story(self, mark: str) -> None:
        path = self.random.choices(("load/quick", "load/gated", "load/worked"), (5, 4, 1))[0]
        asked = Asked(mark, f"key-{mark}" if self.random.random() < 0.5 else "")
        self.load.asked.append(asked)
        execution_id = await self._start(asked, path)
        if execution_id is None:
            return
        if asked.key and self.random.random() < 0.2:
            await self._start(asked, path)
        place = f"/api/executions/{execution_id}"
        gated = path == "load/gated"
        if gated and self.random.random() < 0.2:
            await self._steer("cancel", "POST", f"{place}/cancel", {"reason": "load"})
        elif gated:
            await self._steer("vars", "POST", f"/api/vars/{execution_id}", {"variables": {"note": mark}})
            await self._ask("list vars", "GET", f"/api/vars/{execution_id}", fits=(200,))
            await self._steer("patch", "PATCH", f"{place}/ctx", {"patch": {"approved": True}})
        if self.random.random() < 0.2:
            await self._ask("list", "GET", "/api/executions?limit=20", fits=(200,))
        await self._follow(place)

    async def _start(self, asked: Asked, path: str) -> str | None:
        """Without a key, one request and no more: whether it started something nobody knows when it was not answered."""
        headers = {"Idempotency-Key": asked.key} if asked.key else {}
        body = {"path": path, "payload": {"mark": asked.mark}}
        for _ in range(TRIES):
            asked.tries += 1
            answer = await self._once("start", "POST", "/api/executions", body, headers)
            if answer is not None and answer.status == 201:
                asked.ids.add(answer.json["execution_id"])
                return str(answer.json["execution_id"])
            if not asked.key:
                return None
            await self._wait(answer)
        raise GaveUpError(f"start {asked.mark}")

    async def _steer(self, what: str, method: str, path: str, body: Any) -> None:
        """202, or 409 because it is over (or has not begun, which passes)."""
        for _ in range(TRIES):
            answer = await self._once(what, method, path, body, {})
            if (
                answer is not None
                and answer.status in (200, 202, 409)
                and "retry-after" not in answer.headers
            ):
                return
            await self._wait(answer)
        raise GaveUpError(f"{method} {path}")

    async def _follow(self, place: str) -> None:
        """Until it has ended, or the clients stop: whether it ends then is looked at later."""
        while not self.load.over:
            found = await self._ask("status", "GET", f"{place}/status", fits=(200,))
            if found.json["ended"]:
                return
            await asyncio.sleep(0.02 + self.random.random() * 0.1)

    async def _ask(self, what: str, method: str, path: str, *, fits: tuple[int, ...]) -> Answer:
        for _ in range(TRIES):
            answer = await self._once(what, method, path, None, {})
            if answer is not None and answer.status in fits:
                return answer
            await self._wait(answer)
        raise GaveUpError(f"{method} {path}")

    async def _once(
        self, what: str, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> Answer | None:
        """None: the connection was lost. Everything that no client may ever see is told to the tally."""
        tally, began, away = self.load.tally, time.perf_counter(), self.load.away
        try:
            answer = await self.http.ask(method, path, body, headers)
        except (BrokenAnswerError, OSError, TimeoutError) as error:
            tally.broken += 1
            tally.complain(f"{what}: no answer: {error!r}")
            return None
        tally.note(what, answer, began)
        if answer.status >= 500:
            fit = answer.status == 503 and answer.code and answer.headers.get("retry-after", "").isdigit()
            if not fit or not (away or self.load.away):
                tally.complain(f"{what}: {answer.status} {answer.headers} {answer.body[:300]!r}")
        elif answer.status not in (200, 201, 202, 409):
            tally.complain(f"{what}: {answer.status} {answer.body[:300]!r}")
        return answer

    async def _wait(self, answer: Answer | None) -> None:
        seconds = float(answer.headers.get("retry-after", 0.2)) if answer is not None else 0.2
        await asyncio.sleep(min(seconds, 1.0) * (0.5 + self.random.random() / 2))


class GaveUpError(Exception):
    """Asked again and again, for nothing."""
