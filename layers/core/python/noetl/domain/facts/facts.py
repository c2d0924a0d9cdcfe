"""Facts: the records that history consists of, and the only input of ``apply``.

A fact records all that its evaluation saw: history is folded again without templates, clocks or tools. Its tag is its stored event name.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Stage
from noetl.domain.events import Parent
from noetl.domain.facts.control import Cancelled as Cancelled
from noetl.domain.facts.control import FamilyRequestNoted as FamilyRequestNoted
from noetl.domain.facts.control import Paused as Paused
from noetl.domain.facts.control import Resumed as Resumed
from noetl.domain.facts.waits import WaitingFact
from noetl.domain.loop_resume import LoopResume, Ranges
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch, Target, Trace


class Initialized(
    msgspec.Struct, frozen=True, tag="playbook.initialized", tag_field="name", omit_defaults=True
):
    program: str
    path: str
    entry: str
    run: int
    workload: dict[str, Any] = {}
    parent: Parent | None = None
    depth: int = 0
    principal: str = ""
    at: float = 0.0
    priority: int = 0
    no_cache: bool = False


class Arrival(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token that a ``next`` released: its run number, step, arc and payload.

    ``arc``: the arc it came over (-1: none). ``again``: the loop run of an earlier round that its loop continues.
    """

    run: int
    step: str
    arc: int = -1
    sync: bool = True
    args: dict[str, Any] = {}
    again: LoopResume | None = None


class StepEntered(msgspec.Struct, frozen=True, tag="step.enter", tag_field="name", omit_defaults=True):
    """The start of a step run.

    ``merged``: tokens that this step run swallowed at a join. ``args``: payload merged with the step's own block.

    ``lock``: what this run holds from now until its token is gone.
    """

    run: int
    step: str
    merged: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    lock: str = ""


class StepParked(msgspec.Struct, frozen=True, tag="step.parked", tag_field="name", omit_defaults=True):
    """Not admitted yet; the tokens are merged already and ``args`` kept.

    ``lock``: it is admitted and waits for this lock, at ``place`` in its queue; ``reason`` says who holds it.
    """

    run: int
    step: str
    rule: int = -1
    merged: tuple[int, ...] = ()
    args: dict[str, Any] = {}
    lock: str = ""
    place: int = 0
    reason: str = ""


class TokensAbsorbed(msgspec.Struct, frozen=True, tag="token.absorbed", tag_field="name", omit_defaults=True):
    """Late tokens at a join (any, n of m) that has fired: they end there."""

    step: str
    runs: tuple[int, ...]


class StepSkipped(msgspec.Struct, frozen=True, tag="step.skipped", tag_field="name", omit_defaults=True):
    """A step run was skipped.

    ``withdrawn``: another step run or a request called this run off; its token is gone and nothing is routed."""

    run: int
    step: str
    reason: str = ""
    withdrawn: bool = False


class CommandIssued(msgspec.Struct, frozen=True, tag="command.issued", tag_field="name", omit_defaults=True):
    """A new command, or a new turn of one.

    ``child``: this turn waits for that execution. ``delay``: seconds before it may run. ``limits``: keys it shares with others.
    ``calls``: what the turns before it count in the budget, and did not count so far.
    Stage ``compensate``: the run is over, and a token represents it again while it is undone.
    """

    run: int
    step: str
    command_id: str
    pool: str
    stage: Stage = "body"
    rule: int = -1
    turn: int = 0
    delay: float = 0.0
    child: int | None = None
    limits: tuple[str, ...] = ()
    calls: int = 0


class CallDone(msgspec.Struct, frozen=True, tag="call.done", tag_field="name", omit_defaults=True):
    """The success of a step run's body, or of its case stage.

    ``result`` becomes the step's result. ``calls``: what it counts in the budget.

    Stage ``route``: the step has no body; ``compensate``: the run is undone, its token is gone. ``error``: the failure that a ``next``
    answered.
    """

    run: int
    step: str
    stage: Literal["body", "case", "route", "compensate"] = "body"
    result: Any = None
    error: ErrorInfo | None = None
    labels: dict[str, Any] = {}
    route: list[Target] | None = None
    trace: list[Trace] = []
    meta: dict[str, Any] = {}
    calls: int = 0


class CallFailed(msgspec.Struct, frozen=True, tag="call.error", tag_field="name", omit_defaults=True):
    """Stage ``compensate``: the run could not be undone; its token is gone."""

    run: int
    step: str
    error: ErrorInfo
    stage: Stage = "body"
    labels: dict[str, Any] = {}
    trace: list[Trace] = []
    meta: dict[str, Any] = {}
    calls: int = 0


class Suspended(msgspec.Struct, frozen=True, tag="retry.scheduled", tag_field="name", omit_defaults=True):
    """A pipeline was suspended for a delayed retry; what it did until then is in ``trace``."""

    run: int
    step: str
    turn: int
    delay: float
    trace: list[Trace] = []


class Waiting(msgspec.Struct, frozen=True, tag="child.started", tag_field="name", omit_defaults=True):
    """A pipeline waits for a sub-execution (or started one without waiting)."""

    run: int
    step: str
    turn: int
    child: int
    path: str
    trace: list[Trace] = []


class ChildEnded(msgspec.Struct, frozen=True, tag="child.ended", tag_field="name", omit_defaults=True):
    """The sub-execution that a command waited for has ended; the command continues.

    With ``index`` ≥ 0 an item of a loop waited for it."""

    run: int
    step: str
    child: int
    status: str
    index: int = -1


class LoopStarted(msgspec.Struct, frozen=True, tag="loop.started", tag_field="name", omit_defaults=True):
    """The start of a loop run. ``total``: items that this run runs.

    A run that continues an earlier one (``again``) runs the items in ``picked`` out of ``whole``, and keeps the outcomes of the others.
    """

    run: int
    step: str
    round: int
    total: int
    mode: Literal["sequential", "parallel"]
    max_in_flight: int
    again: LoopResume | None = None
    picked: Ranges = ()
    whole: int = 0
    limits: tuple[str, ...] = ()


class LoopItem(msgspec.Struct, frozen=True, tag="loop.item", tag_field="name", omit_defaults=True):
    """An item closed the loop's gate: nothing more is issued, what is in flight drains."""

    run: int
    step: str
    index: int
    cause: Literal["failed", "next"]


class LoopFinished(msgspec.Struct, frozen=True, tag="loop.done", tag_field="name", omit_defaults=True):
    """The end of a loop run.

    ``total``, ``done``, ``failed``, ``results``: of all items, those that were kept from earlier runs included. ``applied``: what items
    wrote is in the context (it is not when their writes do not fit each other).
    """

    run: int
    step: str
    round: int
    total: int
    done: int
    failed: int
    results: Any = None
    has_value: bool = False
    value: Any = None
    """What a ``result`` action of an item made of the step's result before meaning 8 (the highest index wins)."""
    error: ErrorInfo | None = None
    route: list[Target] | None = None
    applied: bool = True
    calls: int = 0


class ContextChanged(msgspec.Struct, frozen=True, tag="ctx.patched", tag_field="name", omit_defaults=True):
    patches: list[Patch]
    run: int = 0
    step: str = ""
    principal: str = ""
    reason: str = ""
    correlation_id: str = ""


class CaseEvaluated(msgspec.Struct, frozen=True, tag="case.evaluated", tag_field="name", omit_defaults=True):
    """A case entry that the engine takes."""

    run: int
    step: str
    event: str
    rule: int


class CaseApplied(msgspec.Struct, frozen=True, tag="case.applied", tag_field="name", omit_defaults=True):
    """The effect of an entry of a ``case``.

    ``result`` is what its ``result`` action made of the step's result; ``route`` what its ``next`` chose.
    """

    run: int
    step: str
    has_result: bool = False
    result: Any = None
    route: list[Target] | None = None


class StepExited(msgspec.Struct, frozen=True, tag="step.exit", tag_field="name", omit_defaults=True):
    """The end of a step run.

    ``compensable``: should the execution fail later, this run is undone, with the result and the arguments it has now.
    """

    run: int
    step: str
    compensable: bool = False


class StepFailed(msgspec.Struct, frozen=True, tag="step.failed", tag_field="name", omit_defaults=True):
    """The failure of a step run.

    ``calls``: what a call without an outcome counts in the budget.
    """

    run: int
    step: str
    error: ErrorInfo
    calls: int = 0


class NextEvaluated(msgspec.Struct, frozen=True, tag="next.evaluated", tag_field="name", omit_defaults=True):
    """The step run's token is gone; ``targets`` are the new ones.

    ``ended``: it had no successor.
    """

    run: int
    step: str
    targets: tuple[Arrival, ...] = ()
    ended: bool = False


class TokenAdded(msgspec.Struct, frozen=True, tag="token.injected", tag_field="name", omit_defaults=True):
    arrival: Arrival
    principal: str = ""
    reason: str = ""
    correlation_id: str = ""


class JoinFired(msgspec.Struct, frozen=True, tag="join.fired", tag_field="name", omit_defaults=True):
    """The firing of a join of the kind any / n-of-m (``open``), or the end of its wave.

    After the end of a wave the next token starts a new one.

    ``arcs``: of a join that holds tokens for its next wave, those over which this wave has come so far.
    """

    step: str
    open: bool
    arcs: tuple[int, ...] = ()


class FinalFired(msgspec.Struct, frozen=True, tag="final.fired", tag_field="name", omit_defaults=True):
    """No token was left: ``executor.spec.final_step`` runs, once."""

    arrival: Arrival


class TimerSet(msgspec.Struct, frozen=True, tag="timer.set", tag_field="name", omit_defaults=True):
    timer: str
    generation: int
    seconds: float
    run: int = 0


class TimerExpired(msgspec.Struct, frozen=True, tag="timer.fired", tag_field="name", omit_defaults=True):
    timer: str
    generation: int


class Superseded(msgspec.Struct, frozen=True, tag="command.superseded", tag_field="name", omit_defaults=True):
    """A record of an outcome or a request that changes nothing.

    Either the outcome no longer fits (older attempt or turn, or an execution that has ended), or the change that ``principal`` asked for
    cannot be made (``status``: why).
    """

    event_id: str
    command_id: str = ""
    attempt: int = 0
    turn: int = 0
    status: str = ""
    principal: str = ""
    reason: str = ""
    correlation_id: str = ""


class Completed(msgspec.Struct, frozen=True, tag="playbook.completed", tag_field="name", omit_defaults=True):
    """The success of an execution.

    ``steps``: whose results make the execution's result (one: its value; several: a mapping by name).
    """

    steps: tuple[str, ...] = ()


class Compensating(
    msgspec.Struct, frozen=True, tag="compensation.started", tag_field="name", omit_defaults=True
):
    """The execution fails with ``error``, and its compensation begins.

    Outstanding work is dropped, and completed step runs are undone before the execution ends."""

    error: ErrorInfo
    step: str = ""


class Ending(msgspec.Struct, frozen=True, tag="ending.started", tag_field="name", omit_defaults=True):
    """The start of the last tasks of a playbook, after the outcome is decided.

    ``step``: the one that failed. ``steps``: those whose results are the execution's. ``arrival``: at the first of the last steps.
    """

    status: Literal["completed", "failed", "cancelled"]
    arrival: Arrival
    error: ErrorInfo | None = None
    step: str = ""
    steps: tuple[str, ...] = ()
    reason: str = ""
    principal: str = ""


class Failed(msgspec.Struct, frozen=True, tag="playbook.failed", tag_field="name", omit_defaults=True):
    error: ErrorInfo
    step: str = ""


class Redriven(msgspec.Struct, frozen=True, tag="execution.redriven", tag_field="name", omit_defaults=True):
    """It runs again, with ``arrivals``.

    ``step`` empty: they stand for what was under way when it ended. ``arcs``: see Redrive.

    ``idle``: seconds since it had ended, which do not count as its duration. ``with_output``: ``step`` is not run; it leaves with the
    result that the principal gave.
    """

    program: str
    at: float
    arrivals: tuple[Arrival, ...]
    step: str = ""
    arcs: dict[int, int] = {}
    reason: str = ""
    principal: str = ""
    idle: float = 0.0
    with_output: bool = False


Fact = (
    Initialized
    | StepEntered
    | StepParked
    | TokensAbsorbed
    | StepSkipped
    | CommandIssued
    | CallDone
    | CallFailed
    | Suspended
    | Waiting
    | ChildEnded
    | WaitingFact
    | LoopStarted
    | LoopItem
    | LoopFinished
    | ContextChanged
    | CaseEvaluated
    | CaseApplied
    | StepExited
    | StepFailed
    | NextEvaluated
    | TokenAdded
    | JoinFired
    | FinalFired
    | TimerSet
    | TimerExpired
    | Superseded
    | Completed
    | Compensating
    | Ending
    | Failed
    | Cancelled
    | Paused
    | Resumed
    | FamilyRequestNoted
    | Redriven
)

_DECODER = codec.decoder(list[Fact])


def encode_facts(facts: list[Fact]) -> bytes:
    return codec.encode(facts)


def decode_facts(data: bytes | str) -> list[Fact]:
    """Raises msgspec.DecodeError when a row was written by something newer."""
    return codec.decode_as(_DECODER, data)
