"""The reader of a loop's collection: one worker streams it into a manifest of parts.

No process ever holds all of it. The answer is a ``Collected``: a short list itself, or the reference of a manifest. A result that is
stored as a manifest already (the results of a loop) is not written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.collection_sources import is_source
from noetl.domain.commands import Collected, Command
from noetl.domain.errors import InfrastructureError, NoetlError, TaskError
from noetl.domain.kinds import TaskContext
from noetl.domain.outcomes.outcomes import Outcome, Suspend
from noetl.domain.outcomes.report_checks import short_error
from noetl.domain.results.manifests import STORED
from noetl.domain.results.paged_list import PART_BYTES, PartsWriter
from noetl.domain.results.references import canonical, format_of, is_ref
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import LOOP_ITEMS
from noetl.dsl.program import Loop, Program, Step
from noetl.engine.collections import listed
from noetl.engine.scopes.scope import EngineScope
from noetl.engine.scopes.slot_view import SCOPES, Overlay, View
from noetl.kinds.rows.formats import FORMATS
from noetl.kinds.rows.reading import Readable
from noetl.kinds.support.collection_source import SPEC, elements, read_elements
from noetl.pipeline.errors import error_of, positioned
from noetl.services.redaction.redaction import Secrets
from noetl.services.results.artifacts import TaskArtifacts
from noetl.services.results.stored_bytes import store_calls
from noetl.services.results.stored_lists import is_parted
from noetl.services.support.parallel_puts import ParallelPuts
from noetl.services.worker.task_errors import internal
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.templating import render, unwrap

RETRY_SECONDS = (1.0, 5.0, 20.0)
"""Delays before a source that could not be reached is asked again."""


def read_collection(command: Command, program: Program, step: Step, deps: WorkerDeps) -> Outcome:
    """Run a command of stage ``collection`` and return its outcome.

    Raises InfrastructureError and ResultsUnreachable when the result store is unavailable.
    """
    loop = step.loop
    if loop is None:
        raise LookupError(f"step {step.name} has no loop")
    reading = _Reading(command, program, step, deps)
    try:
        found = reading.collect(loop)
    except InfrastructureError:
        raise
    except NoetlError as error:
        return reading.refused(error, loop)
    except ImportError as missing:
        hint = "pip install 'noetl-serverless[local]'"
        lacking = TaskError(f"{missing.name} is not installed here", code="dependency_missing", hint=hint)
        return reading.refused(lacking, loop)
    except Exception as error:
        deps.log(f"defect while {step.name} read its collection: {type(error).__name__}: {error}")
        return Outcome("error", error=internal(error))
    return Outcome("ok", result=msgspec.to_builtins(found))


class _Reading:
    def __init__(self, command: Command, program: Program, step: Step, deps: WorkerDeps) -> None:
        self.command = command
        self.program = program
        self.step = step
        self.deps = deps
        self.secrets = Secrets(deps.credentials, command.execution_id, program, command.scope.workload)
        self.revoked: Callable[[], bool] = lambda: deps.revoked(command.execution_id, command.run)

    def collect(self, loop: Loop) -> Collected:
        value = unwrap(render(loop.collection, self._scope()))
        if is_source(value):
            return self._write(elements(value, self._context()))
        if is_ref(value):
            return self._of_result(value)
        return self._write(listed(value, loop))

    def refused(self, error: NoetlError, loop: Loop) -> Outcome:
        """Build an error with the place of ``in``; a transient one is retried a few times."""
        place = getattr(loop.collection, "pos", loop.pos)
        info = positioned(error_of(error, self.program.source_name), place, self.program.source_name)
        info = self.secrets.redact_error(info)
        tries = int((self.command.machine or {}).get("tries", 0))
        if info.retryable and tries < len(RETRY_SECONDS):
            again = Suspend(machine={"tries": tries + 1}, delay=RETRY_SECONDS[tries])
            return Outcome("suspended", suspend=again)
        return Outcome("error", error=short_error(info))

    def _scope(self) -> EngineScope:
        """Build the names that ``loop.in`` sees, as the engine sees them."""
        frozen = self.command.scope
        slots: dict[tuple[str, str], Any] = {
            (where, name): value
            for where, values in (
                ("workload", frozen.workload),
                ("ctx", frozen.ctx),
                ("vars", frozen.vars),
                ("step", frozen.steps),
            )
            for name, value in values.items()
        }
        view = View(slots, scopes=SCOPES, hydrate=self.deps.hydrate)
        return EngineScope(
            self.program, self.command.execution_id, Overlay(view), frozen.now, frozen.args, frozen.extra
        )

    def _context(self) -> TaskContext:
        command, deps = self.command, self.deps
        return TaskContext(
            command.execution_id,
            command.step,
            "loop.in",
            1,
            f"{command.execution_id}/{command.run}/collection",
            min(SPEC.default_timeout, deps.longest),
            deps.settings_of(self.program),
            self.secrets.credential,
            self.revoked,
        )

    def _of_result(self, ref: Mapping[str, Any]) -> Collected:
        """Read a large result: its manifest as it is, else its elements as a stream."""
        ref = canonical(ref)
        form = format_of(ref)
        if form not in FORMATS:
            raise TaskError(
                f"loop.in is a result of {form}, not a list",
                kind="schema",
                code="template_type",
                hint="give a list, or a result of csv, jsonl, json or parquet",
            )
        settings = self.deps.settings_of(self.program)
        artifacts = TaskArtifacts(
            self.deps.results,
            self.command.execution_id,
            self.command.step,
            max_bytes=settings.artifact_max_bytes,
            folder=settings.work_dir,
        )
        what = f"the result {ref['ref']}"
        with artifacts.open(ref) as stream:
            start = stream.read(len(STORED))
            if form == "json" and start == STORED:
                return self._of_manifest(ref)
            return self._write(read_elements(_Whole(start, stream), form, what, None, self._context()))

    def _of_manifest(self, ref: Mapping[str, Any]) -> Collected:
        assert self.deps.lists is not None and self.deps.hydrate is not None and self.step.loop is not None
        if is_parted(self.deps.lists.value(ref)):
            return Collected(len(self.deps.lists.open(ref)), ref=dict(ref))
        return self._write(listed(self.deps.hydrate(ref), self.step.loop))

    def _write(self, values: Iterable[Any]) -> Collected:
        """Write elements inline while they fit, then in parts."""
        limit = self.deps.inline_bytes
        few: list[Any] = []
        held = 0
        rest = iter(values)
        for value in map(self.secrets.redact, rest):
            few.append(value)
            held += len(codec.encode(value)) + 1
            if held > limit:
                break
        else:
            return Collected(len(few), few)
        tier = self.deps.results.choose(PART_BYTES)
        with store_calls(), ParallelPuts(tier) as puts:
            writer = PartsWriter(
                puts.put,
                self.command.execution_id,
                self.command.step,
                run=self.command.run,
                tier=tier.name,
                item_limit=limit,
            )
            writer.extend(self._wanted(chain(few, rest)))
            ref = writer.close()
        return Collected(writer.count, ref=ref)

    def _wanted(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield elements until the step run is no longer wanted."""
        for number, value in enumerate(values):
            if number >= LOOP_ITEMS.value:
                raise exceeded(LOOP_ITEMS, None, f"the loop of step {self.step.name}")
            if number % 10_000 == 9_999 and self.revoked():
                raise TaskError("the step was given up", kind="cancelled", code="cancelled")
            yield self.secrets.redact(value)


class _Whole:
    """A stream of which the beginning has been read already."""

    def __init__(self, start: bytes, rest: Readable) -> None:
        self._start = start
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        if self._start:
            found, self._start = self._start[:size], self._start[size:]
            return found
        return self._rest.read(size)
