"""The runner of a pipeline: calls, checks of results, redaction, storage of large values.

Everything that the items of a command share is prepared once, in ``TaskRunner``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError, PlaybookError, TaskError
from noetl.domain.kinds import ResultOptions, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import (
    CallbackRequest,
    ErrorInfo,
    Outcome,
    PollRequest,
    Suspend,
    WaitRequest,
)
from noetl.domain.outcomes.report_checks import short_error
from noetl.domain.sizes.gate import find_unfit
from noetl.domain.text.untrusted_text import task_line
from noetl.domain.wait_request import within
from noetl.dsl.program import Pipeline, Program, ResultSpec, Step, aliases_of
from noetl.pipeline import ChildIds, Item, PipelineRun, RunTask, Surroundings, TaskOutcome, declared_workload
from noetl.pipeline.errors import error_of
from noetl.pipeline.inline import PLAIN_KINDS, with_whole_params
from noetl.pipeline.overlay import Overlay
from noetl.pipeline.preview import call_input
from noetl.pipeline.result_binding import settled
from noetl.pipeline.tracing import DURATION
from noetl.services.callbacks.callback_tokens import callback_tokens
from noetl.services.redaction.redaction import Secrets
from noetl.services.results.artifacts import TaskArtifacts
from noetl.services.results.hydrate_values import hydrated
from noetl.services.results.store_results import Keeper, unpack
from noetl.services.worker.cached_results import CachedResults
from noetl.services.worker.external_jobs import ExternalJobs
from noetl.services.worker.issue_gate import Gate, NotIssuedError
from noetl.services.worker.stage_traits import stage_traits
from noetl.services.worker.task_errors import (
    SECRET_IN_PAYLOAD,
    NotWantedError,
    internal,
    too_long,
    unstorable,
)
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.system_calls.deferred_work import do_deferred
from noetl.templating import unwrap

MARGIN_SECONDS = 5.0
"""A run that has less time left than this is returned to the queue between two calls."""
HELPERS = frozenset({"http", "pg", "py"})
"""What rules of an item have seen already; its row in history does not repeat them."""


def _imports_of(program: Program) -> str:
    """Return what differs between versions whose tasks import something else.

    Empty for a playbook without modules and libraries.
    """
    if not program.modules and not program.lock:
        return ""
    shipped = [program.modules, program.lock] if program.lock else program.modules
    return hashlib.sha256(codec.encode(shipped)).hexdigest()


class TaskRunner:
    """The runner of one command's pipeline, for the step run itself or for item after item."""

    def __init__(
        self, command: Command, program: Program, step: Step, pipeline: Pipeline, deps: WorkerDeps
    ) -> None:
        self.command = command
        self.pipeline = pipeline
        self.deps = deps
        self.secrets = Secrets(
            deps.credentials, command.execution_id, program, command.scope.workload, self._read_again
        )
        self.keeper = Keeper(
            deps.results,
            command.execution_id,
            command.run,
            command.step,
            deps.inline_bytes,
            deps.settings.output_max_bytes,
        )
        self.spec = step.result or (pipeline.tasks[-1].result if pipeline.tasks else None)
        self.specs: dict[str, ResultSpec | None] = {task.label: task.result for task in pipeline.tasks}
        self.source_name = program.source_name
        key = deps.callback_key(command) if pipeline.calls_back else ""
        self.settings = deps.settings_of(program)
        self.modules, self.lock = program.modules, program.lock
        assert deps.hydrate is not None
        self.hydrate = deps.hydrate
        self.around = Surroundings(
            command.scope,
            command.execution_id,
            command.step,
            program.source_name,
            deps.hydrate,
            self.secrets.keychain,
            lambda value: self.keeper.reference(self.secrets.redact(value), self.spec),
            ChildIds(command),
            self._kept,
            self.secrets.redact_error,
            declared_workload(program),
            aliases_of(program),
            callback_tokens(command, key, deps.callback_base, self.secrets) if pipeline.calls_back else None,
            lambda value, spec: self.keeper.part(self.secrets.redact(value), spec),
            _imports_of(program),
            (command.stage, command.rule),
            self.secrets.behind,
            deps.folder_of(program) or "",
            program.bounds(command.step, command.stage),
        )
        self.gate = deps.gate_of(command) or Gate()
        self.lines = None if deps.lines is None else deps.lines.of(command)
        self.timeouts: dict[str, float] = {}
        self.artifacts: dict[str, TaskArtifacts] = {}
        self.longest_seen = MARGIN_SECONDS
        """What a later item's calls are likely to want: the longest time-out so far."""
        self.gate.begin(command, program, pipeline)
        self.unseen = deps.note_unseen is not None and stage_traits(command, program, pipeline).unseen
        """Others cannot see that it runs, as far as it has run, and that is to be noted."""
        self.unbegun = False
        """The last pass was handed back before its first call."""
        # Entries of a case may name their tasks alike, and one entry may run at two boundaries.
        apart = command.stage in ("case", "compensate")
        self.prefix = f"{command.execution_id}/{command.command_id if apart else command.run}"
        self.external = ExternalJobs(command, deps, self._log)
        self.placed = partial(task_line, command.execution_id, command.step)
        self.cached = CachedResults(
            deps.cache, deps.results, command, self.keeper, self.secrets, deps.now, self._log
        )
        self.growing = command.loop is None
        self.reads = frozenset(pipeline.reads.names)

    def run(
        self,
        item: Item | None,
        overlay: Overlay,
        machine: Mapping[str, Any] | None = None,
        child: Outcome | None = None,
    ) -> Outcome:
        """Run one pass of the pipeline and return its outcome, ready to be sent.

        Raises InfrastructureError when the result store is unavailable (the command is delivered again); nothing else.
        """
        deps = self.deps
        began = deps.clock() if item is None else 0.0
        if item is not None:
            self.secrets.forget_callbacks()
        run = PipelineRun(self.pipeline, self.around, item, overlay)
        self.unbegun = False
        try:
            outcome = self._drive(run, machine, child)
            for plan, answer in run.to_cache:
                self.cached.keep(plan, answer)
            outcome = self._ready(run, outcome)
        except InfrastructureError:
            raise
        except NoetlError as error:
            outcome = self.failed(error_of(error, self.source_name))
        except Exception as error:
            self._log(f"defect in step {self.command.step} of {self.prefix}: {type(error).__name__}: {error}")
            outcome = self.failed(internal(error))
        outcome = self.keeper.add_noted(outcome)
        if item is None:
            outcome.meta[DURATION] = round((deps.clock() - began) * 1000, 3)
        elif outcome.meta:
            for name in HELPERS & outcome.meta.keys():
                del outcome.meta[name]
        return outcome

    def stop(self, item: Item | None, machine: Mapping[str, Any] | None) -> None:
        """Stop the external job of a pipeline that is no longer wanted. Errors of that are logged."""
        run = PipelineRun(self.pipeline, self.around, item)
        try:
            op = run.resume(self.secrets.unseal(unpack(dict(machine or {}), self.hydrate)))
            if isinstance(op, RunTask):
                self.external.stop(op, self._context(op, run, op.input, self._timeout(op)))
        except InfrastructureError:
            raise
        except NoetlError as error:
            self._log(f"the external job of {self.prefix} could not be stopped: {error}")

    def _kept(self, value: Any) -> Any:
        """Store one large result of a nested loop at once, without secrets.

        So the loop's state stays small.
        """
        if self.keeper.travels(value):
            return value
        return self.keeper.keep(self.secrets.redact(value))

    def failed(self, error: ErrorInfo) -> Outcome:
        return Outcome("error", error=short_error(self.secrets.redact_error(error)), meta={})

    def _drive(self, run: PipelineRun, machine: Mapping[str, Any] | None, child: Outcome | None) -> Outcome:
        if machine is None:
            op = run.begin()
        else:
            op = run.resume(self.secrets.unseal(unpack(dict(machine), self.hydrate)), child)
        calls = 0
        while isinstance(op, RunTask):
            if calls and self.deps.is_over(self.command):
                raise NotWantedError(op.label, "not begun")
            timeout = self._timeout(op)
            if self._must_stop(timeout, calls):
                self.unbegun = calls == 0
                return run.park()
            taken = self.cached.take(op.cache)
            if taken is None:
                calls += 1
                taken = self._call(op, run, timeout)
            op = run.feed(taken)
        return op.outcome

    def _must_stop(self, timeout: float, calls: int) -> bool:
        """Return whether a call of ``timeout`` seconds is left to another turn.

        A call that would fit into no turn is not left: it fails instead.
        """
        deps = self.deps
        left = deps.deadline()
        if math.isinf(deps.longest):
            return calls > 0 and left < MARGIN_SECONDS
        return left < timeout <= deps.longest

    def _timeout(self, op: RunTask) -> float:
        """Return the seconds that a call may take.

        A kind's own default is cut to what a worker can offer; the time-out that the playbook asks for is not.
        """
        longest = self.deps.longest
        timeout = op.timeout or min(self._default_timeout(op.kind), longest)
        if op.kind in PLAIN_KINDS:
            return min(timeout, MARGIN_SECONDS)
        if one := self.external.seconds_of(op.kind):
            timeout = min(op.timeout or one, one, longest)
        if timeout <= longest < math.inf:
            self.longest_seen = max(self.longest_seen, timeout)
        return timeout

    # --- one call ---------------------------------------------------------------------------------

    def _call(self, op: RunTask, run: PipelineRun, timeout: float) -> TaskOutcome:
        deps = self.deps
        began = deps.clock()
        timeout = self.gate.cut(timeout)
        if timeout > deps.longest:
            return self._error(too_long(op, timeout, deps.longest), began, op)
        whole = op.timeout or self._default_timeout(op.kind)
        try:
            if self.external.is_over(op):
                self.external.stop(op, self._context(op, run, op.input, timeout))
                return self._error(self.external.too_late(op, whole), began, op)
            op = with_whole_params(op, self.hydrate)
            params, given = op.params, op.input
            if op.kind not in PLAIN_KINDS:
                params = self._loaded_params(op.kind, params)
                given = hydrated(given, self.hydrate)
            context = self._context(op, run, given, timeout)
            self.gate.begin_call(deps.registry, op.kind, params, context)
            began = deps.clock()
            if self.unseen:
                self.unseen = deps.registry.is_unseen(op.kind, params, context)
            do_deferred()  # of the task before; this one may take long
            answer = deps.registry.run(op.kind, params, context)
            if isinstance(answer, PollRequest):
                return self.external.continues(op, answer, whole, context)
        except (NotWantedError, NotIssuedError):
            raise
        except NoetlError as error:
            self.gate.end_call(error)
            return self._error(error_of(error, self.source_name), began, op)
        except Exception as error:
            self._log(f"defect in kind {op.kind} ({self.prefix}/{op.key}): {type(error).__name__}: {error}")
            return self._error(internal(error), began, op)
        elapsed = self._elapsed(op, began)
        if isinstance(answer, TaskResult):
            problem = find_unfit(answer.result)
            if problem is not None:
                return self._error(unstorable(op.label, problem), began, op)
            return TaskOutcome(answer.result, meta=answer.meta, duration_ms=elapsed)
        if isinstance(answer, WaitRequest):
            return TaskOutcome(wait=within(answer, op.timeout), duration_ms=elapsed)
        if self.secrets.holds_secret(answer.payload):
            return self._error(SECRET_IN_PAYLOAD, began, op)
        return TaskOutcome(child=answer, duration_ms=elapsed)

    def _loaded_params(self, kind: str, params: Any) -> Any:
        """Load the large results that parameters refer to.

        Results that the kind reads itself are left out.
        """
        try:
            spec = self.deps.registry.spec(kind)
        except (KeyError, PlaybookError):
            return params
        if not spec.ref_fields or not isinstance(params, dict):
            return hydrated(params, self.hydrate)
        return {
            name: value if spec.aliases.get(name, name) in spec.ref_fields else hydrated(value, self.hydrate)
            for name, value in params.items()
        }

    def _artifacts(self, label: str) -> TaskArtifacts:
        """Return the task's artifacts: the same for every item of a command."""
        if label not in self.artifacts:
            self.artifacts[label] = self._made_artifacts(label)
        return self.artifacts[label]

    def _made_artifacts(self, label: str) -> TaskArtifacts:
        deps, command = self.deps, self.command
        spec = self.specs.get(label) or self.spec
        options = (
            ResultOptions(spec.store, spec.scope, spec.ttl, spec.compression) if spec is not None else None
        )
        return TaskArtifacts(
            deps.results,
            command.execution_id,
            command.step,
            max_bytes=self.settings.artifact_max_bytes,
            folder=self.settings.work_dir,
            options=options,
            masking=self.secrets.mask_of_stream,
            run=command.run,
            note=self.keeper.note,
        )

    def _error(self, error: ErrorInfo, began: float, op: RunTask) -> TaskOutcome:
        """Secrets are taken out where the pipeline binds it."""
        elapsed = self._elapsed(op, began)
        shown = call_input(op.params, op.input, self.secrets.redact, leave_out=self._raw_fields(op.kind))
        if shown:
            error = msgspec.structs.replace(error, details={**error.details, "input": shown})
        return TaskOutcome(error=error, duration_ms=elapsed, chance=self.deps.chance())

    def _elapsed(self, op: RunTask, began: float) -> float:
        """Return the milliseconds of a call, from its first turn on."""
        if op.pending is not None:
            return max(0.0, self.deps.now() - op.pending.since) * 1000
        return (self.deps.clock() - began) * 1000

    def _raw_fields(self, kind: str) -> tuple[str, ...]:
        try:
            return self.deps.registry.spec(kind).raw_fields
        except (KeyError, PlaybookError):
            return ()

    def _context(
        self, op: RunTask, run: PipelineRun, given: Mapping[str, Any], timeout: float
    ) -> TaskContext:
        command, item = self.command, run.item
        loop = command.loop
        place = f"/{loop.round}.{item.index}" if loop is not None and item is not None else ""
        return TaskContext(
            command.execution_id,
            command.step,
            op.label,
            op.attempt,
            f"{self.prefix}{place}/{op.key}",
            timeout,
            self.settings,
            self.secrets.credential,
            lambda: self.deps.revoked(command.execution_id, command.run),
            partial(self._log_line, op.label, op.attempt, None if item is None else item.index),
            given,
            lambda name: self._lookup(run, name),
            self.secrets.conceal,
            self._artifacts(op.label),
            pending=op.pending.state if op.pending is not None else None,
            left=self.external.left(op, op.timeout or self._default_timeout(op.kind)),
            wake=self.external.wake(item),
            jobs=self.deps.jobs,
            modules=self.modules,
            lock=self.lock,
            program=command.program,
        )

    def _read_again(self, params: dict[str, Any]) -> None:
        """Read the secrets of a provider again, for a pipeline that continues. Raises TaskError."""
        command = self.command
        context = TaskContext(
            command.execution_id,
            command.step,
            "secrets",
            1,
            f"{self.prefix}/secrets",
            self._default_timeout("secrets"),
            self.settings,
            self.secrets.credential,
            conceal=self.secrets.conceal,
        )
        self.deps.registry.run("secrets", params, context)

    def _log(self, line: str) -> None:
        self.deps.log(self.placed(self.secrets.redact_text(line)))

    def _log_line(self, task: str, attempt: int, index: int | None, line: str) -> None:
        """Log a line of a task's own output."""
        self.unseen = False
        if not self.gate.may_print():
            return
        self.deps.log(self.placed(line := self.secrets.redact_text(line)))
        if self.lines is not None:
            self.lines.add(task, attempt, index, line)

    def flush_lines(self) -> None:
        """Store the printed lines, so that they can be read before their task's end is visible."""
        if self.lines is not None:
            self.lines.flush()

    def _default_timeout(self, kind: str) -> float:
        if kind not in self.timeouts:
            try:
                self.timeouts[kind] = self.deps.registry.spec(kind).default_timeout
            except KeyError:
                self.timeouts[kind] = 60.0
        return self.timeouts[kind]

    def _lookup(self, run: PipelineRun, name: str) -> Any:
        """Look up a name of the task's scope as plain data, large results loaded. Raises KeyError."""
        try:
            return hydrated(unwrap(run.lookup(name)), self.hydrate)
        except TaskError:
            raise
        except NoetlError as error:
            raise KeyError(name) from error

    # --- the way out ------------------------------------------------------------------------------

    def _ready(self, run: PipelineRun, outcome: Outcome) -> Outcome:
        if outcome.suspend is not None:
            return self._suspended(outcome, outcome.suspend)
        outcome = self.secrets.redact_outcome(outcome)
        if run.state.parts:
            outcome = settled(run, outcome, self.keeper.keep)
        return self.keeper.outcome(outcome, self.specs, self.spec, self._grown(run, outcome))

    def _suspended(self, outcome: Outcome, suspend: Suspend) -> Outcome:
        machine = self.keeper.pack(self.secrets.seal(suspend.machine))
        bare = msgspec.structs.replace(outcome, suspend=None)
        kept = msgspec.structs.replace(
            suspend, machine=machine, callback=self._requested_callback(suspend.callback)
        )
        return msgspec.structs.replace(self.secrets.redact_outcome(bare), suspend=kept)

    def _requested_callback(self, callback: CallbackRequest | None) -> CallbackRequest | None:
        """Remove secrets and the callback's own address from a request, which is stored and shown."""
        if callback is None or not self.secrets.holds_secret(callback):
            return callback
        return codec.convert(self.secrets.redact(msgspec.to_builtins(callback)), CallbackRequest)

    def _grown(self, run: PipelineRun, outcome: Outcome) -> dict[str, Any]:
        """Collect the whole values of the ctx lists that this run extended.

        Only lists whose content it saw before it extended them; they are stored as they are returned.
        """
        if not self.growing or not outcome.patches:
            return {}
        found = {
            f"ctx.{patch.name}": run.overlay.get("ctx", patch.name)
            for patch in outcome.patches
            if patch.scope == "ctx"
            and patch.op == "extend"
            and not self.reads.isdisjoint(("ctx.*", f"ctx.{patch.name}", patch.name))
        }
        return dict(self.secrets.redact(found))
