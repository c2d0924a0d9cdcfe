"""Two servers get different answers to one callback at the same moment: one counts, and the other one's sender is told so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from noetl.adapters.memory import MemoryResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.domain import ids
from noetl.domain.callbacks import CallbackId, digest_of, make_token, run_key
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import ConflictError, InfrastructureError
from noetl.domain.events import Pause, Resume
from noetl.services.callbacks.complete_callback import CallbackDeps, answer
from tests.contract.conftest import Harness
from tests.contract.test_left_loops import ME, Engine
from tests.waiting import wait_until

WAIT = '  - { step: start, tool: [ask: { kind: http, url: "http://api.test/x" }, answer: { kind: wait, callback: true }] }\n'
RING = KeyRing.of(["a key of this test"])
FIRST, SECOND = {"approved": False}, {"approved": True}


class Meanwhile:
    """A store in which something happens just before an event is posted."""

    def __init__(self, store: Any, first: Callable[[], object]) -> None:
        self._store, self._first = store, first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def post(self, *arguments: Any) -> Any:
        self._first()
        return self._store.post(*arguments)


class Asked:
    """An execution that has a callback, and what answers it."""

    def __init__(self, harness: Any) -> None:
        self.harness = harness
        self.engine = Engine(harness, WAIT)
        self.callback = CallbackId(self.engine.id, self.engine.first.command_id, 0)
        self.event_id = ids.callback_event(self.callback.place, 0)
        self.token = make_token(run_key(self.engine.id, self.engine.first.run, RING), self.callback)

    def answer(self, body: Any, first: Callable[[], object] | None = None) -> Any:
        store = self.engine.store if first is None else Meanwhile(self.engine.store, first)
        deps = CallbackDeps(store, self.harness.results, lambda name: self.engine.program, lambda fresh: RING)
        return answer(self.token, body, deps, ME)

    def pause(self) -> None:
        self.engine.handle(Pause(self.engine.id, "p", self.engine.program.hash))

    def held(self, body: Any = FIRST) -> None:
        """Answer it while the execution is paused, and let the engine hold the answer."""
        self.engine.handle(self.answer(body).event)

    def digests(self) -> list[str]:
        """What the history of the execution says that the answer was."""
        found = self.engine.store.find_events(self.engine.id, (self.event_id,))
        return [
            digest
            for digest in map(digest_of, (FIRST, SECOND))
            if any(digest in str(one.facts) for one in found)
        ]


@pytest.fixture
def asked(harness) -> Asked:
    return Asked(harness)


def test_the_answer_that_is_held_for_a_pause_counts(asked):
    asked.pause()
    with pytest.raises(ConflictError) as refused:
        asked.answer(SECOND, first=asked.held)
    assert refused.value.code == "callback_used"
    assert asked.engine.store.open_work(asked.engine.id)["outbox"] == 1, "the one that lost is withdrawn"
    asked.engine.handle(Resume(asked.engine.id, "r", asked.engine.program.hash))
    asked.engine.handle(*asked.engine.store.undelivered(ME, 10))
    assert asked.digests() == [digest_of(FIRST)]


def test_the_same_words_are_the_same_answer(asked):
    asked.pause()
    taken = asked.answer(FIRST, first=asked.held)
    assert taken.callback == asked.callback


def test_an_answer_that_was_posted_counts_although_its_door_failed(asked, monkeypatch):
    """The sender repeats it, and hears that it is known: nothing else would hand it to the engine."""
    posted, find = [], asked.engine.store.find_events

    def fail_once(*about):
        if posted == ["now"]:
            posted.append("failed")
            raise InfrastructureError("in use", code="database_busy")
        return find(*about)

    monkeypatch.setattr(asked.engine.store, "find_events", fail_once)
    with pytest.raises(InfrastructureError):
        asked.answer(FIRST, first=lambda: posted.append("now"))
    assert asked.answer(FIRST).event is None
    asked.engine.handle(*asked.engine.store.undelivered(ME, 10))
    assert asked.digests() == [digest_of(FIRST)]


@pytest.mark.postgres
def test_the_answer_that_is_applied_while_another_is_posted_counts(database):
    """The statement that posts looks at history first, and comes to the outbox when the row of the other answer has just gone from there."""
    store = PostgresExecutionStore(database)
    asked = Asked(Harness(store, MemoryResultStore(), lambda seconds: None, "postgres"))
    admin, watch = psycopg.connect(database), psycopg.connect(database, autocommit=True)

    def waits() -> bool:
        return bool(watch.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall())

    def commit() -> None:
        wait_until(waits)
        admin.commit()

    committer = threading.Thread(target=commit)

    def apply() -> None:
        asked.answer(FIRST)
        key = (asked.engine.id, asked.event_id)
        admin.execute("DELETE FROM noetl.outbox WHERE execution_id = %s AND event_id = %s", key)
        admin.execute(
            "INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, at, facts)"
            " VALUES (%s, %s, 0, 2, 'callback.received', now(), %s)",
            (*key, f'[{{"digest": "{digest_of(FIRST)}"}}]'),
        )
        committer.start()

    with admin, watch, pytest.raises(ConflictError) as refused:
        asked.answer(SECOND, first=apply)
    committer.join()
    assert refused.value.code == "callback_used"
    assert store.open_work(asked.engine.id)["outbox"] == 0
    store.close()
