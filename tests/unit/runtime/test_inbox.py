"""Events on their way to the engine, while something is away that the engine needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.domain.events import Cancel, Event
from noetl.runtime import inbox as inboxes
from noetl.runtime.inbox import Inbox


class Engine:
    """``away``: the code of what cannot be reached; ``needs``: the executions that need it."""

    def __init__(self, away: str, needs: set[int]) -> None:
        self.away = away
        self.needs = needs
        self.handled: list[int] = []
        self.lines: list[str] = []
        self.changed = threading.Condition()
        self.inbox = Inbox(self.handle, self.changed, self.lines.append)

    def handle(self, events: Sequence[Event]) -> None:
        if self.away and any(event.execution_id in self.needs for event in events):
            raise InfrastructureError("it does not answer", code=self.away)
        with self.changed:
            self.handled += [event.execution_id for event in events]
            self.changed.notify_all()

    def wait(self, wanted: list[int]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.handled == wanted, 10), (self.handled, self.lines)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(inboxes, "RETRY_SECONDS", (0.01,))
    monkeypatch.setattr(inboxes, "ASIDE_SECONDS", (0.01,))
    yield


def test_nobody_waits_for_a_tier_that_others_need() -> None:
    engine = Engine("aws_unreachable", {2})
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2, 3))
    engine.inbox.start()
    engine.wait([1, 3])
    engine.inbox.put([Cancel(2, "cancel", "p"), Cancel(4, "cancel", "p")])
    engine.wait([1, 3, 4])
    assert any(engine.inbox.counts()), "what waits is not settled"
    engine.away = ""
    engine.wait([1, 3, 4, 2])
    engine.inbox.close()
    assert any("execution 2" in line and "does not answer" in line for line in engine.lines)


def test_everything_waits_for_the_database_in_its_order() -> None:
    engine = Engine("database_unreachable", {1, 2, 3})
    engine.inbox.put(Cancel(number, "cancel", "p") for number in (1, 2, 3))
    engine.inbox.start()
    with engine.changed:
        assert not engine.changed.wait_for(lambda: engine.handled, 0.05)
    engine.away = ""
    engine.wait([1, 2, 3])
    engine.inbox.close()
