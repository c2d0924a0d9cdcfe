"""Claims of clients that have gone: a command that they took would wait for the end of its lease."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from noetl.api.http.exchange import Request
from noetl.api.nouns import workers
from tests.unit.api.ground import Ground

CLAIM = Request(
    "POST", "/api/commands/claim", headers={"content-type": "application/json"}, body=b'{"name": "w"}'
)


@pytest.mark.parametrize(
    "looks", [[True], [False, True]], ids=["before it is handled", "while it is handled"]
)
def test_a_client_that_has_gone_takes_no_command(looks: list[bool]) -> None:
    ground = Ground()
    ground.offered()
    assert ground.deps.workers is not None
    ground.deps.workers.register("w", "io", 1, "")
    seen: Iterator[bool] = iter(looks)
    assert workers.claim(ground.deps, replace(CLAIM, gone=lambda: next(seen))).value.commands == []
    assert len(workers.claim(ground.deps, CLAIM).value.commands) == 1, "another one has it at once"
