"""A worker over HTTP whose server is not there yet: it waits, says so, and can be stopped meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.server.http_worker import HttpWorker, WorkerOptions
from noetl.runtime.settings import Settings

AWAY = InfrastructureError("http://127.0.0.1:9 does not answer", code="server_unreachable")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(telemetry, "log", lambda line, **more: found.append(line))
    return found


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[HttpWorker]:
    options = WorkerOptions("http://127.0.0.1:9", "t", "io", 1, connect_timeout=3600.0)
    made = HttpWorker(options, Settings(tmp_path, None))
    made.loop.pause = lambda failures: None  # type: ignore[method-assign]
    made.loop.run = lambda: None  # type: ignore[method-assign]
    made.commands.deregister = lambda: None  # type: ignore[method-assign]
    yield made
    made.close()


def answers(worker: HttpWorker, *errors: Exception) -> list[int]:
    """Raise the errors one after the other, then register; the list has one entry for each try."""
    tries: list[int] = []

    def register() -> None:
        tries.append(len(tries))
        if len(tries) <= len(errors):
            raise errors[len(tries) - 1]

    worker.commands.register = register  # type: ignore[method-assign]
    return tries


def test_a_server_that_starts_later_is_waited_for_and_said_once(worker: HttpWorker, lines: list[str]) -> None:
    tries, ready = answers(worker, AWAY, AWAY, AWAY), threading.Event()
    worker.run(ready.set)
    assert len(tries) == 4 and ready.is_set()
    assert len([line for line in lines if "does not answer; trying again for 3600 s" in line]) == 1


def test_a_server_that_stays_away_ends_the_worker_with_its_reason(tmp_path: Path, lines: list[str]) -> None:
    made = HttpWorker(
        WorkerOptions("http://127.0.0.1:9", "t", "io", 1, connect_timeout=0.0), Settings(tmp_path, None)
    )
    tries = answers(made, AWAY)
    with pytest.raises(InfrastructureError, match="does not answer"):
        made.run()
    assert len(tries) == 1 and not lines
    made.close()


def test_what_the_server_refuses_is_not_tried_again(worker: HttpWorker) -> None:
    tries = answers(worker, InvalidInputError("no pool x", code="pool_unknown"))
    with pytest.raises(InvalidInputError):
        worker.run()
    assert len(tries) == 1


def test_a_stop_ends_the_wait_and_nothing_is_ready(worker: HttpWorker, lines: list[str]) -> None:
    tries, ready = answers(worker, *[AWAY] * 50), threading.Event()
    worker.loop.pause = lambda failures: worker.stop()  # type: ignore[method-assign]
    worker.run(ready.set)
    assert len(tries) == 1 and not ready.is_set()
