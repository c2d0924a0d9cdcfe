"""A decision in the making: it folds each fact at once and notes side effects.

``Decider`` owns private copies; what it returns (``Decision``) is data. Everything in this module is pure: the clock is an argument, reads
go through the view, ids are derived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.durations import seconds_of
from noetl.domain.errors import NoetlError, TemplateError
from noetl.domain.events import Event, MainEvent, Parent
from noetl.domain.facts.facts import Fact, TimerSet
from noetl.domain.ids import callback_timer
from noetl.domain.limits import Limit
from noetl.domain.loop_resume import LoopResume, Ranges
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.results.references import is_ref, make_ref, ref_uri
from noetl.domain.sizes.table import NUMBER
from noetl.domain.state import RUN_TIMERS, ExecutionState, Token, copy_state
from noetl.domain.variables import VariableWrite
from noetl.dsl.program import Node, Pos, Program, Step, step_index
from noetl.engine.folds.apply import evolve
from noetl.engine.scopes.scope import EngineScope
from noetl.engine.scopes.slot_view import Key, Overlay, View
from noetl.pipeline.errors import located, positioned, short_details
from noetl.templating import render, unwrap

_PLACE = ("line", "column")
REF_SIZE = 2048
"""About what a reference with its preview takes: values smaller than this stay as they are."""


def worker_pool(pool: str) -> str:
    """Return the pool of workers for ``pool``.

    A worker continues a suspended pipeline of control kinds.
    """
    return "cpu" if pool == "control" else pool


class LoopStart(msgspec.Struct, frozen=True):
    """A loop run that the store is to keep.

    ``items`` inline, or their blob's reference. The other fields belong to a loop that continues an earlier run: see
    ``ports.executions.execution_store.LoopRow``.
    """

    run: int
    round: int
    step: Step
    total: int
    window: int
    items: list[Any] | None
    items_ref: dict[str, Any] | None
    scope: Any
    again: LoopResume | None = None
    picked: Ranges = ()
    whole: int = 0
    overlay: list[Patch] = msgspec.field(default_factory=list)
    limits: tuple[Limit, ...] = ()


class Timer(msgspec.Struct, frozen=True):
    """A timer to set (``seconds`` from now) or to clear (None)."""

    timer: str
    generation: int
    seconds: float | None


class Woken(msgspec.Struct, frozen=True):
    command_id: str
    turn: int
    outcome: Any


class Decision(msgspec.Struct):
    """What one event does to an execution.

    ``slots``: value, or ``DELETED``. ``blobs`` must be durable before the commit.
    """

    state: ExecutionState
    facts: list[Fact]
    slots: dict[Key, Any]
    issue: list[Command] = msgspec.field(default_factory=list)
    waiting: list[Command] = msgspec.field(default_factory=list)
    close: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    drop_runs: list[int] = msgspec.field(default_factory=list)
    left_runs: list[int] = msgspec.field(default_factory=list)
    """Runs of ``drop_runs`` whose children continue: a request that cancels the execution alone dropped them."""
    over_runs: list[int] = msgspec.field(default_factory=list)
    """Runs that are over and may have left callbacks, with their timers, in the store."""
    loops: list[LoopStart] = msgspec.field(default_factory=list)
    gates: list[tuple[int, int]] = msgspec.field(default_factory=list)
    wakes: list[Woken] = msgspec.field(default_factory=list)
    timers: list[Timer] = msgspec.field(default_factory=list)
    outbox: list[Event] = msgspec.field(default_factory=list)
    blobs: list[tuple[str, bytes]] = msgspec.field(default_factory=list)
    variables: list[VariableWrite] = msgspec.field(default_factory=list)
    end: bool = False
    cancel_children: bool = False
    abandoned: int = 0
    """Events of the outbox that came before ``cancel_children``: the Starts after them are of children that continue."""
    steer_children: list[Literal["pause", "resume", "resume_below"]] = msgspec.field(default_factory=list)
    release: bool = False
    """The execution was paused and is not any more: events that were held for it come now."""


_OTHERS = tuple(
    name
    for name in Decision.__struct_fields__
    if name not in ("state", "facts", "slots", "issue", "close", "abandoned")
)
"""What a decision does beside a change of state and values, and the commands that it issues and closes."""


def does_one_command(decision: Decision) -> bool:
    """Return whether a decision does no more than issue one command that may run at once."""
    if len(decision.issue) != 1 or decision.state.status != "running":
        return False
    command = decision.issue[0]
    return not (
        any(getattr(decision, name) for name in _OTHERS)
        or command.delay
        or command.limits
        or command.stage == "collection"
        or command.remote
        or command.loop is not None
        or command.machine is not None
    )


class Decider:
    """The collector of what one event decides.

    One per event; the modules of this package are functions over it.
    """

    __slots__ = (
        "decision",
        "event",
        "execution_id",
        "moves",
        "now",
        "program",
        "slots",
        "state",
        "steps",
        "view",
    )

    def __init__(
        self, program: Program, state: ExecutionState, event: MainEvent, now: float, view: View
    ) -> None:
        self.program = program
        self.steps = step_index(program)
        self.state = copy_state(state)
        self.state.seq += 1
        self.event = event
        self.execution_id = event.execution_id
        self.now = now
        self.view = view
        self.slots = Overlay(view, frozenset(str(token.run) for token in state.tokens.values() if token.own))
        self.decision = Decision(self.state, [], self.slots.writes, over_runs=self.slots.over)
        self.moves = 0

    def emit(self, fact: Fact) -> None:
        """Record a fact and fold it, in the form in which readers of history get it.

        A fact that cannot be folded raises, and is not recorded.
        """
        fact = codec.settled(fact)
        evolve(self.state, self.slots, fact)
        self.decision.facts.append(fact)

    def cancel_children(self) -> None:
        """Cancel the children that were started before.

        Last tasks and compensations may start others.
        """
        self.decision.cancel_children = True
        self.decision.abandoned = len(self.decision.outbox)

    def args_of(self, run: int) -> dict[str, Any]:
        value = self.slots.get(("args", str(run)), MISSING)
        return {} if value is MISSING else value

    def scope(
        self, run: int, extra: Mapping[str, Any] | None = None, args: Mapping[str, Any] | None = None
    ) -> EngineScope:
        return EngineScope(
            self.program,
            self.execution_id,
            self.slots,
            self.now,
            self.args_of(run) if args is None else args,
            extra,
            self.token(run),
            # A redrive asks for steps to run again, and one that takes its own result of before does not.
            self.state.no_cache or self.state.rounds > 0,
        )

    def value(self, node: Node, scope: EngineScope) -> Any:
        """Render ``node`` to plain JSON. Raises TemplateError."""
        return unwrap(render(node, scope))

    def whole(self, node: Node, scope: EngineScope) -> Any:
        """Render ``node`` as ``value`` does, and load a large value.

        For what is read here: a name, a number, a message. Raises TemplateError, and TaskError for a value that is not available.
        """
        return self.loaded(self.value(node, scope))

    def loaded(self, value: Any) -> Any:
        """Load a value if it is a reference. Raises TaskError if it is not available."""
        return self.view.load(value) if is_ref(value) else value

    def keep(self, values: dict[str, Any], step: str) -> dict[str, Any]:
        """Return ``values``, with those too large to travel replaced by references.

        The large values go into the result store. The whole stays within the inline limit: the largest go first.
        """
        limit = self.view.limits.inline_bytes
        if len(encoded := codec.encode(values)) <= limit:
            return values
        sizes = {name: len(codec.encode(value)) for name, value in values.items() if not is_ref(value)}
        kept, total = dict(values), len(encoded)
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if total <= limit or sizes[name] < REF_SIZE:
                break
            kept[name] = self.refer(kept[name], step)
            total -= sizes[name] - REF_SIZE
        return kept

    def refer(self, value: Any, step: str) -> dict[str, Any]:
        """Put a value into the result store (before the commit) and return its reference.

        Objects are named by their content: a process that died before its commit, or that lost a race for it, left other objects under the
        same version.
        """
        encoded = codec.encode(value)
        digest = hashlib.sha256(encoded).hexdigest()
        uri = ref_uri(self.execution_id, step, f"value:{self.state.seq}:{digest}")
        self.decision.blobs.append((uri, encoded))
        self.view.fresh[uri] = value
        return make_ref(
            uri, store=self.view.limits.tier, size=len(encoded), sha256=digest, value=value, encoded=encoded
        )

    def number(self, node: Node, scope: EngineScope, what: str) -> float:
        """Render to a number. Raises TemplateError(code="template_type")."""
        given = self.whole(node, scope)
        value = given
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                value = None
        return self._within(node, what, given, value)

    def seconds(self, node: Node, scope: EngineScope, what: str) -> float:
        """Render to seconds: a number, or text such as ``10m``.

        Raises TemplateError(code="template_type").
        """
        given = self.whole(node, scope)
        return self._within(node, what, given, seconds_of(given))

    @staticmethod
    def _within(node: Node, what: str, given: Any, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= NUMBER.value:
            shown = str(given)[:60]
            error = TemplateError(
                f"{what} has to be a number from 0 to {NUMBER.value}, not {shown!r}",
                code="template_type",
                hint="give a number, such as 30 or {{ workload.limit }}",
                details={"value": shown},
            )
            raise located(error, getattr(node, "pos", Pos()))
        return float(value)

    def error_of(self, error: NoetlError) -> ErrorInfo:
        """Convert an author's error to the form of history and ``error.*``.

        It has its place in the playbook.
        """
        position = None
        if error.details.get("line"):
            position = f"{self.program.source_name}:{error.details['line']}:{error.details.get('column', 0)}"
        return ErrorInfo(
            message=error.message,
            kind=getattr(error, "kind", "template" if isinstance(error, TemplateError) else "unknown"),
            code=error.code,
            hint=error.hint,
            retryable=error.retryable,
            position=position,
            details={
                name: value for name, value in short_details(error.details).items() if name not in _PLACE
            },
        )

    def at_step(self, error: ErrorInfo, step: str) -> ErrorInfo:
        """Place an error that names no position at the step that it ended."""
        found = self.steps.get(step)
        return error if found is None else positioned(error, found.pos, self.program.source_name)

    # --- timers ---

    def set_timer(self, timer: str, seconds: float, run: int = 0) -> None:
        generation = self.state.seq
        self.emit(TimerSet(timer, generation, seconds, run))
        self.decision.timers.append(Timer(timer, generation, seconds))

    def clear_timers(self, run: int, kinds: tuple[str, ...] = RUN_TIMERS) -> None:
        """Clear the timers of a step run that is over.

        Folding the end of the run drops them from the state.
        """
        for timer in (f"{kind}:{run}" for kind in kinds):
            generation = self.state.timers.get(timer)
            if generation is not None:
                self.decision.timers.append(Timer(timer, generation, None))
        token = self.token(run)
        if token is not None and token.serial >= 0 and token.command is not None:
            self.decision.timers.append(Timer(callback_timer(token.command, token.serial), 0, None))

    def token(self, run: int) -> Token | None:
        return self.state.tokens.get(run)

    def parent(self) -> Parent | None:
        return self.state.parent
