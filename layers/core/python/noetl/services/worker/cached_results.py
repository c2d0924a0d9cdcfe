"""The cache of task results, as a worker uses it.

A cache saves work and decides nothing: where it cannot be used, the task is run. An entry refers to the result that its execution
owns. A result that is taken is read, and belongs to the step run that takes it from then on, so it outlives its source.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError, TaskError
from noetl.domain.results.references import decoded, is_ref
from noetl.pipeline import CallCache, TaskOutcome
from noetl.ports.results import ResultStore
from noetl.ports.task_cache import CachedResult, TaskCache
from noetl.services.redaction.redaction import Secrets
from noetl.services.results.store_results import Keeper
from noetl.services.results.stored_bytes import fetch

_REFERENCE = b"noetl://execution/"


class CachedResults:
    """The cache of one command's tasks. ``now``: epoch seconds. ``log``: one line per defect."""

    def __init__(
        self,
        cache: TaskCache | None,
        results: ResultStore,
        command: Command,
        keeper: Keeper,
        secrets: Secrets,
        now: Callable[[], float],
        log: Callable[[str], None],
    ) -> None:
        self._cache, self._results, self._command = cache, results, command
        self._keeper, self._secrets, self._now, self._log = keeper, secrets, now, log

    def take(self, plan: CallCache | None) -> TaskOutcome | None:
        """Return the stored result of an earlier call.

        None when there is none, or it cannot be read any more.
        """
        if self._cache is None or plan is None or not plan.take:
            return None
        now = self._now()
        try:
            entry = self._cache.get(plan.key)
            # The younger of both times counts: a playbook that asks for fresher results gets them.
            if entry is None or not now < min(entry.until, entry.at + plan.ttl) or not is_ref(entry.ref):
                return None
            value = decoded(fetch(self._results, entry.ref), entry.ref)
        except InfrastructureError as outage:
            self._log(f"the cache cannot be read, so the task is run: {outage}")
            return None
        except NoetlError:  # removed with its execution, or damaged
            return None
        return TaskOutcome(value, meta=entry.meta, cached=source_of(entry))

    def keep(self, plan: CallCache, answer: TaskOutcome) -> None:
        """Let later calls take a result, with what the call said beside it.

        Left out are results with secrets, which are stored masked, and those that refer to other results, which may be removed first.
        """
        value = answer.result
        if self._cache is None or _REFERENCE in codec.encode(value) or self._secrets.holds_secret(value):
            return
        command, now = self._command, self._now()
        try:
            ref = self._keeper.stored(value)
            self._cache.put(
                CachedResult(
                    plan.key,
                    command.execution_id,
                    command.step,
                    command.run,
                    now,
                    now + plan.ttl,
                    ref,
                    self._secrets.redact(dict(answer.meta)),
                )
            )
        except TaskError:  # it is too large to be a result, and the step says so
            return
        except InfrastructureError as outage:
            self._log(f"a result is not cached: {outage}")


def source_of(entry: CachedResult) -> dict[str, Any]:
    """Return what history says of the call whose result was taken."""
    at = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"execution_id": str(entry.execution_id), "step": entry.step, "run": entry.run, "at": at}
