"""Events of an execution: the inputs of ``handle_event``.

Ids are derived (domain/ids.py), so each happening is applied once. ``program`` is the hash of the execution's program, carried so
that the shell knows what to read before its first round trip.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.domain import codec, ids
from noetl.domain.commands import ChunkRest, CommandIdentity, ItemOutcome, Stage
from noetl.domain.loop_resume import LoopResume
from noetl.domain.outcomes.outcomes import CallbackRequest, ErrorInfo, Outcome, Patch, Target
from noetl.domain.results.retention import KeptResult
from noetl.domain.variables import VariableType


class Parent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parent's command that waits for a child: its id, turn and loop item, if any."""

    execution_id: int
    command_id: str
    turn: int
    run: int
    round: int = -1
    index: int = -1
    wait: bool = True
    return_step: str | None = None

    @property
    def waiting_run(self) -> int | None:
        """The run that waits for the child; None when none does."""
        return self.run if self.wait else None


class Start(msgspec.Struct, frozen=True, tag="start", tag_field="type", omit_defaults=True):
    """Begin: materialise the workload, enter the entry step.

    ``path``/``version`` find the playbook when ``program`` is empty.
    """

    execution_id: int
    event_id: str
    program: str
    path: str = ""
    version: int | None = None
    payload: dict[str, Any] = {}
    parent: Parent | None = None
    depth: int = 0
    principal: str = ""
    principal_kind: str = ""
    priority: int | None = None
    """Instead of the playbook's own."""
    no_cache: bool = False
    """Run every task, also one whose result an earlier call left."""

    @property
    def awaited_by(self) -> int | None:
        """Return the parent's run that waits for this execution; None when none does."""
        return None if self.parent is None else self.parent.waiting_run


class CommandDone(msgspec.Struct, frozen=True, tag="command", tag_field="type", omit_defaults=True):
    """A worker's outcome for a command of the main lane."""

    execution_id: int
    event_id: str
    program: str
    command_id: str
    attempt: int
    turn: int
    run: int
    step: str
    outcome: Outcome
    stage: Stage = "body"

    @classmethod
    def of(cls, command: CommandIdentity, outcome: Outcome) -> CommandDone:
        """The answer to a command."""
        event_id = ids.outcome_event(command.command_id, command.turn)
        return cls(*_identity_of(command, event_id), outcome, command.stage)


class ItemsDone(msgspec.Struct, frozen=True, tag="items", tag_field="type", omit_defaults=True):
    """A worker's outcomes for items of a loop chunk. It never locks the execution.

    ``closed``: the command is finished and its row is deleted. ``rest``: the command continues as another turn. ``elapsed``: seconds of
    work on ``items``. ``undone``: how many items its command answers for after this message, when that has to be so: at the end of a turn
    (items of ``rest``, or those left out because the loop was broken), and always in a sequential loop. None: messages may come in any
    order.
    """

    execution_id: int
    event_id: str
    program: str
    command_id: str
    attempt: int
    turn: int
    run: int
    step: str
    round: int
    items: list[ItemOutcome]
    closed: bool = True
    rest: ChunkRest | None = None
    elapsed: float = 0.0
    undone: int | None = None

    @property
    def last(self) -> bool:
        """Whether the turn of its command is over: its worker sends no more messages of it."""
        return self.closed or self.rest is not None or any(map(self._alone, self.items))

    def _alone(self, item: ItemOutcome) -> bool:
        """Whether ``item`` was suspended in a command of its own, which continues as another turn."""
        own = ids.item_command_id(self.run, self.round, item.index)
        return item.outcome.status == "suspended" and self.command_id == own

    @classmethod
    def of(
        cls,
        command: CommandIdentity,
        event_id: str,
        round: int,
        items: list[ItemOutcome],
        *,
        closed: bool = True,
        rest: ChunkRest | None = None,
        elapsed: float = 0.0,
        undone: int | None = None,
    ) -> ItemsDone:
        """An answer to a command with items."""
        return cls(*_identity_of(command, event_id), round, items, closed, rest, elapsed, undone)


def _identity_of(command: CommandIdentity, event_id: str) -> tuple[int, str, str, str, int, int, int, str]:
    """The fields with which an answer says what it answers."""
    return (
        command.execution_id,
        event_id,
        command.program,
        command.command_id,
        command.attempt,
        command.turn,
        command.run,
        command.step,
    )


class LoopAlert(msgspec.Struct, frozen=True, tag="loop.alert", tag_field="type", omit_defaults=True):
    """An item failed under fail_fast, or took a ``next``: the main lane closes the gate."""

    execution_id: int
    event_id: str
    program: str
    run: int
    round: int
    step: str
    index: int
    cause: Literal["failed", "next"]


class LoopSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the shell gathered from the items before the main lane folds a finished loop.

    ``results``: the list in index order, or the reference of its manifest. ``patches`` are already combined in index order.
    ``route`` and ``error`` are those of the lowest index that has one.
    """

    total: int
    issued: int
    done: int
    failed: int
    results: Any = None
    patches: list[Patch] = []
    route: list[Target] | None = None
    error: ErrorInfo | None = None
    has_value: bool = False
    value: Any = None
    """What a ``result`` action of an item made of the step's result before meaning 8: the highest index wins."""
    kept: tuple[KeptResult, ...] = ()
    """Objects of ``results`` that live differently from their execution."""
    calls: int = 0
    """Calls that the items of this round made; results that the cache had are none."""


class LoopDone(msgspec.Struct, frozen=True, tag="loop.done", tag_field="type", omit_defaults=True):
    """Everything that was issued has come back. ``summary`` is filled in by the shell."""

    execution_id: int
    event_id: str
    program: str
    run: int
    round: int
    step: str
    summary: LoopSummary | None = None


class TimerFired(msgspec.Struct, frozen=True, tag="timer", tag_field="type", omit_defaults=True):
    execution_id: int
    event_id: str
    program: str
    timer: str
    generation: int


class ChildDone(msgspec.Struct, frozen=True, tag="child", tag_field="type", omit_defaults=True):
    """The end of a sub-execution.

    ``outcome`` is what the waiting pipeline receives as its task's outcome.
    """

    execution_id: int
    event_id: str
    program: str
    parent: Parent
    child_id: int
    outcome: Outcome


class CallbackDone(msgspec.Struct, frozen=True, tag="callback", tag_field="type", omit_defaults=True):
    """The answer of a person or another system to a callback.

    A pipeline waits for it, or will wait for it.

    ``place``, ``serial``: which callback (domain/callbacks.py). ``outcome``: what the waiting task receives. ``digest``: of the answer.
    """

    execution_id: int
    event_id: str
    program: str
    place: str
    serial: int
    outcome: Outcome
    digest: str = ""


class ItemAwaits(msgspec.Struct, frozen=True, tag="item.awaits", tag_field="type", omit_defaults=True):
    """An item of a loop waits for a callback.

    Command ``command_id`` continues the item, as its turn ``turn``."""

    execution_id: int
    event_id: str
    program: str
    step: str
    place: str
    command_id: str
    turn: int
    request: CallbackRequest


class WorkAdvanced(msgspec.Struct, frozen=True, tag="work", tag_field="type", omit_defaults=True):
    """A report of another system: work that a task began there is over or has advanced.

    The engine wakes the command of that task, if it is asleep.
    """

    execution_id: int
    event_id: str
    program: str
    command_id: str


class ContextPatched(msgspec.Struct, frozen=True, tag="ctx", tag_field="type", omit_defaults=True):
    """A change of the context from outside.

    ``merge``: a JSON Merge Patch of the context, ``operations``: a JSON Patch of it; both apply to the context of that time.
    ``var_type``, ``source_step``: of the variables among the patches."""

    execution_id: int
    event_id: str
    program: str
    patches: list[Patch]
    principal: str = ""
    reason: str = ""
    correlation_id: str = ""
    var_type: VariableType = "user_defined"
    source_step: str = ""
    merge: dict[str, Any] = {}
    operations: list[dict[str, Any]] = []


class TokenInjected(msgspec.Struct, frozen=True, tag="token", tag_field="type", omit_defaults=True):
    execution_id: int
    event_id: str
    program: str
    step: str
    args: dict[str, Any] = {}
    principal: str = ""
    reason: str = ""
    correlation_id: str = ""


class Pause(msgspec.Struct, frozen=True, tag="pause", tag_field="type", omit_defaults=True):
    """A request to pause an execution.

    No new work begins; commands that are running still report, and wait.

    ``cascade``: children are paused as well. ``word``: when a parent sends it, its place in the parent's history: the parent's later
    request counts, in whichever order the requests arrive.
    ``after``: ids of pauses and resumes that were accepted before and not applied yet: they are applied first.
    """

    execution_id: int
    event_id: str
    program: str
    reason: str = ""
    principal: str = ""
    cascade: bool = True
    word: int = 0
    after: tuple[str, ...] = ()


class Resume(msgspec.Struct, frozen=True, tag="resume", tag_field="type", omit_defaults=True):
    """Resume a paused execution, with the events that came meanwhile.

    ``cascade``: its children as well. ``word``, ``after``: see Pause.
    """

    execution_id: int
    event_id: str
    program: str
    reason: str = ""
    principal: str = ""
    cascade: bool = True
    word: int = 0
    after: tuple[str, ...] = ()


class Redrive(msgspec.Struct, frozen=True, tag="redrive", tag_field="type", omit_defaults=True):
    """A request to run an execution that has ended again.

    It continues from what was under way, or from ``step`` with ``args`` (``again``: only items of its loop).
    ``program``: the program it continues with. ``arcs``: number of an arc in the program it had → in this one, where they differ.
    ``ended``: when it had ended, in epoch seconds; 0: not known. ``output``: what takes the place of the step's result; the step is not
    run then (``with_output``).
    """

    execution_id: int
    event_id: str
    program: str
    step: str = ""
    args: dict[str, Any] = {}
    arcs: dict[int, int] = {}
    reason: str = ""
    principal: str = ""
    again: LoopResume | None = None
    ended: float = 0.0
    output: Any = None
    with_output: bool = False


class Cancel(msgspec.Struct, frozen=True, tag="cancel", tag_field="type", omit_defaults=True):
    """A request to cancel an execution.

    ``cascade``: children are cancelled as well. ``unreadable``: why the stored state cannot be read, which the shell finds out.
    """

    execution_id: int
    event_id: str
    program: str
    reason: str = ""
    principal: str = ""
    cascade: bool = True
    unreadable: str = ""


class Held(msgspec.Struct, frozen=True, tag="held", tag_field="type", omit_defaults=True):
    """An event that arrived while its execution was paused.

    It is kept in the outbox until the execution continues.
    """

    execution_id: int
    event_id: str
    program: str
    event: CommandDone | ItemsDone | LoopAlert | LoopDone | TimerFired | ChildDone | CallbackDone | ItemAwaits


Event = (
    Start
    | CommandDone
    | ItemsDone
    | LoopAlert
    | LoopDone
    | TimerFired
    | ChildDone
    | CallbackDone
    | ItemAwaits
    | WorkAdvanced
    | ContextPatched
    | TokenInjected
    | Pause
    | Resume
    | Redrive
    | Cancel
    | Held
)
MainEvent = (
    Start
    | CommandDone
    | LoopAlert
    | LoopDone
    | TimerFired
    | ChildDone
    | CallbackDone
    | ItemAwaits
    | ContextPatched
    | TokenInjected
    | Pause
    | Resume
    | Redrive
    | Cancel
)

_DECODER: msgspec.json.Decoder[Event] = codec.decoder(Event)


def encode_event(event: Event) -> bytes:
    return codec.encode(event)


def decode_event(data: bytes | str) -> Event:
    """Raises msgspec.DecodeError for anything that is not an event of this version."""
    return codec.decode_as(_DECODER, data)
