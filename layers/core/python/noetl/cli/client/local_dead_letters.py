"""Dead letters of this machine: it has no queue, so there are none."""

from __future__ import annotations

import time

from noetl.cli.client import runtime_access
from noetl.services.messaging.operate_dead_letters import (
    DeadLetterPage,
    DeadLetterRequest,
    DeadLettersDone,
    LetterDeps,
    Verb,
    handle_letters,
    list_letters,
)


class DeadLettersHere:
    _reading: runtime_access.Reading

    def dead_letters(self, queue: str | None, execution: str | None, limit: int) -> DeadLetterPage:
        return list_letters(self._deps(), queue=queue, execution_id=execution)

    def handle_dead_letters(self, verb: Verb, request: DeadLetterRequest) -> DeadLettersDone:
        return handle_letters(verb, request, self._deps(), lambda: 0.0)

    def _deps(self) -> LetterDeps:
        reading = self._reading
        return LetterDeps((), reading.results, reading.store, time.time, lambda line: None)
