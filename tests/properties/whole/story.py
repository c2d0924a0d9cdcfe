"""One story: playbooks are registered, executions are started, steered and brought to their end, all through the doors of a server."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from noetl.domain.state import TERMINAL
from tests.properties import hostile
from tests.properties.whole import asking
from tests.properties.whole.laws import check
from tests.properties.whole.programs import damaged, playbook
from tests.properties.whole.served import Served

STILL = 60.0
"""Seconds in which nothing changes, although something should."""
LOOKS = 4
"""Looks at an execution that finds the same reason why it stands still, before the story cancels it."""
CALLERS = 4


@dataclass(frozen=True)
class Story:
    """``seed`` draws everything else. ``programs``: playbooks. ``starts``: executions. ``changes``: requests that change some of them.
    ``probes``: requests that are about nothing. ``rude``: the share of hostile words. ``wrong``: playbooks that are damaged.
    ``commands``: command lines that run beside the server."""

    seed: int
    programs: int = 2
    starts: int = 10
    changes: int = 20
    probes: int = 20
    wrong: int = 3
    commands: int = 2
    rude: float = 0.5

    @property
    def words(self) -> str:
        """The arguments of the command that replays it."""
        shape = (self.programs, self.starts, self.changes, self.probes, self.wrong, self.commands, self.rude)
        return " ".join(map(str, (self.seed, "--shape", *shape)))


@dataclass
class Told:
    """``roots``: executions that were accepted. ``stuck``: what stood still for a reason that was told, by its kind."""

    roots: list[str] = field(default_factory=list)
    executions: int = 0
    stuck: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)


def play(story: Story, served: Served) -> Told:
    """Play it. Raises AssertionError with everything that broke a law."""
    rng, told = random.Random(f"story {story.seed}"), Told()
    served.wrong.clear()
    served.log.clear()
    began = time.time() - 1
    steps = _register(story, rng, served)
    _start(story, rng, served, told, list(steps))
    _steer(story, rng, served, told, steps)
    rows = settle(served, rng, story.rude, began, told)
    check(served, rows, told.roots)
    told.executions = len(rows)
    told.ends.update(row["status"] for row in rows)
    served.outside.forget()
    assert not served.wrong, "\n".join(served.wrong[:20])
    return told


def _register(story: Story, rng: random.Random, served: Served) -> dict[str, list[str]]:
    """Path → names of its steps. Damaged playbooks are refused with a place, or they are right."""
    found: dict[str, list[str]] = {}
    for number in range(story.programs):
        name = f"w{story.seed}_{number}"
        text = playbook(rng, name, crowded=rng.random() < 0.4)
        reply = served.register(text)
        if reply.status not in (200, 201):
            served.broke("no-server-error", f"a right playbook is refused: {reply.json}\n{text}")
            continue
        found[f"properties/{name}"] = [step["step"] for step in json.loads(text)["workflow"]]
    for number in range(story.wrong):
        text = damaged(rng, playbook(rng, f"x{story.seed}_{number}", crowded=False))
        path = {"path": hostile.text(rng)} if rng.random() < 0.2 else {}
        name = {"source_name": hostile.text(rng)} if rng.random() < 0.2 else {}
        reply = served.register(text, **path, **name)
        if reply.status == 422 and reply.json["code"] == "invalid_playbook":
            for one in reply.json["errors"]:
                if not (one["line"] >= 1 and one["column"] >= 1):
                    served.broke("no-server-error", f"no place: {one}\n{text[:3000]}")
    return found


def _start(story: Story, rng: random.Random, served: Served, told: Told, paths: list[str]) -> None:
    """Start them, some by several callers at the same moment with one key."""
    with ThreadPoolExecutor(CALLERS) as callers:
        for number in range(story.starts):
            path = rng.choice(paths) if paths else "properties/leaf"
            body: dict[str, Any] = {"path": path, "payload": asking.payload(rng, story.rude)}
            if rng.random() < 0.1:
                body["priority"] = rng.choice((1000, -1000, 1001, 0))
            if rng.random() < 0.05:
                body["trigger_at"] = rng.choice(("2020-01-01T00:00:00Z", str(time.time()), "tomorrow"))
            keyed = asking.headers(rng, story.rude)
            several = rng.choice((1, 1, 2, 4)) if keyed else 1
            asked = [
                callers.submit(served.ask, "POST", "/api/executions", body, **keyed) for _ in range(several)
            ]
            replies = [one.result() for one in asked]
            ids = {reply.json["execution_id"] for reply in replies if reply.status == 201}
            if len(ids) > 1:
                served.broke("one-key-one-start", f"several executions: {keyed}: {ids}")
            if not ids:
                plain = {"path": "properties/leaf", "payload": {"n": number}}
                ids = {served.ask("POST", "/api/executions", plain).json["execution_id"]}
            told.roots += sorted(ids)


def _steer(story: Story, rng: random.Random, served: Served, told: Told, steps: dict[str, list[str]]) -> None:
    """Change them from several threads at once, and ask for other things meanwhile."""
    names = [name for some in steps.values() for name in some] or ["start"]

    def change(seed: str, execution_id: str) -> None:
        asking.change(served, random.Random(seed), story.rude, execution_id, names)

    def probe(seed: str, execution_id: str) -> None:
        asking.probe(served, random.Random(seed), execution_id)

    asked = [(change, number) for number in range(story.changes)]
    asked += [(probe, number) for number in range(story.probes)]
    rng.shuffle(asked)
    with ThreadPoolExecutor(CALLERS) as callers:
        waiting = [
            callers.submit(what, f"{what.__name__} {story.seed} {number}", rng.choice(told.roots))
            for what, number in asked
        ]
        for number in range(story.commands):
            asking.command(
                served, random.Random(f"command {story.seed} {number}"), rng.choice(told.roots), names
            )
        for one in waiting:
            one.result()


def settle(served: Served, rng: random.Random, rude: float, began: float, told: Told) -> list[dict[str, Any]]:
    """Give what is waited for until everything has ended. The rows of the list; what stands still is noted in ``served.wrong``."""
    looks: dict[str, tuple[str, int]] = {}
    before: Any = None
    until = time.monotonic() + STILL
    pause = 0.02
    while True:
        rows = list(served.pages(f"/api/executions?started_after={began:.3f}&limit=500", "executions"))
        live = [row for row in rows if row["status"] not in TERMINAL]
        if not live or served.wrong:
            return rows
        seen = (len(rows), [(row["execution_id"], row["status"]) for row in live])
        if seen != before:
            before, until, pause = seen, time.monotonic() + STILL, 0.02
        elif time.monotonic() > until:
            for row in live:
                reply = served.ask("POST", f"/api/executions/{row['execution_id']}/analyze")
                served.broke("everything-ends", f"stands still: {row}: {reply.json}")
            return rows
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)
        for row in live:
            _give(served, rng, rude, row["execution_id"], looks, told)


def _give(
    served: Served,
    rng: random.Random,
    rude: float,
    execution_id: str,
    looks: dict[str, tuple[str, int]],
    told: Told,
) -> None:
    """Give an execution what it waits for; cancel it when it waits for what never comes, and says so."""
    at = f"/api/executions/{execution_id}"
    view = served.ask("GET", at).json
    if view["status"] in TERMINAL:
        return
    if view["status"] == "paused":
        served.ask("POST", f"{at}/resume", {})
    for callback in view["awaiting"] and served.ask("GET", f"{at}/callbacks").json["callbacks"]:
        where = f"/api/callbacks/{callback['token']}"
        reply = served.ask("POST", where, asking.answer(rng, rude))
        if 400 <= reply.status < 500 and reply.status not in (404, 409, 410):
            served.ask("POST", where, {"approved": True})
    if view["parked"]:
        served.ask("PATCH", f"{at}/ctx", {"patch": {"approved": True}})
    found = served.ask("POST", f"{at}/analyze").json
    kinds = " ".join(sorted({one["kind"] for one in found["findings"]}))
    if found["status"] in TERMINAL:
        return
    last, count = looks.get(execution_id, ("", 0))
    looks[execution_id] = (kinds, count + 1 if kinds == last else 1)
    if found["stuck"] and looks[execution_id][1] >= LOOKS:
        told.stuck[kinds] += 1
        served.ask("POST", f"{at}/cancel", {"reason": "the story ends"})
        looks[execution_id] = ("", 0)
