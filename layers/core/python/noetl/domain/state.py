"""The state of one execution: tokens, joins and counters. Values live in slots, not here.

Bounded by the size of the playbook, never by history or loop size.
"""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.events import Parent
from noetl.domain.loop_resume import LoopResume
from noetl.domain.outcomes.outcomes import ErrorInfo, Target

Status = Literal["running", "paused", "completed", "failed", "cancelled"]
Phase = Literal[
    "arrived", "parked", "entered", "body", "collection", "loop", "case", "called", "failed", "compensate"
]
WAITING: frozenset[Phase] = frozenset({"arrived", "parked"})
"""Phases of a token that has not entered its step yet."""
RUN_TIMERS = ("step", "admit", "deadline")
"""Kinds of timers a step run may have; a timer is called ``<kind>:<run>``."""
TERMINAL: frozenset[str] = frozenset({"completed", "failed", "cancelled"})

LEGAL_STATUS: dict[str, frozenset[str]] = {
    "running": frozenset({"paused", "completed", "failed", "cancelled"}),
    "paused": frozenset({"running", "failed", "cancelled"}),
    "completed": frozenset({"running"}),
    "failed": frozenset({"running"}),
    "cancelled": frozenset({"running"}),
}
LEGAL_PHASE: dict[str, frozenset[str]] = {
    "arrived": frozenset({"parked", "entered"}),
    "parked": frozenset({"entered", "failed"}),
    "entered": frozenset({"body", "collection", "loop", "case", "called", "failed"}),
    "body": frozenset({"body", "called", "failed"}),
    "collection": frozenset({"collection", "loop", "failed"}),
    "loop": frozenset({"loop", "called", "failed"}),
    "case": frozenset({"case", "entered", "called", "failed"}),
    "called": frozenset({"case", "called", "failed"}),
    "failed": frozenset({"failed"}),
    "compensate": frozenset({"compensate"}),
}
"""Which phase may follow which; docs/state-machine.md draws this table and a test compares the two."""


AWAKE = 0.0
"""``Token.wakes`` of a run that waits for no time. A token is encoded without it, as it is this very object."""


class Token(msgspec.Struct, omit_defaults=True):
    """A step run: a token at a step.

    ``arrived``: waiting at a join · ``parked``: not admitted yet · ``body``/``case``: its command is out · ``collection``: what its loop
    goes over is being read · ``loop``: its loop runs · ``called``/``failed``: its outcome is known, routing follows ·
    ``compensate``: the run is over, and is being undone. ``event``, ``rule`` and ``route`` keep what routing needs while a case stage runs.
    """

    run: int
    step: str
    phase: Phase = "arrived"
    arc: int = -1
    sync: bool = True
    command: str | None = None
    turn: int = 0
    round: int = 0
    closing: str | None = None
    """Why a loop's gate is closed: ``failed`` or ``next``."""
    rule: int = -1
    event: str = ""
    """The boundary whose case stage is running."""
    error: ErrorInfo | None = None
    route: list[Target] | None = None
    lock: str = ""
    """The lock this run waits for (while parked), or holds (from step.enter to its end)."""
    place: int = 0
    """The place in the queue of a run that waits for a lock: the lowest is next."""
    again: LoopResume | None = None
    """The loop run of an earlier round that its loop continues, until it does."""
    applied: bool = False
    """Its loop is over, and what the items wrote is in the context."""
    awaits: int = 0
    """Callbacks that this run (all items of its loop) waits for."""
    unbounded: int = 0
    """Those of them that only a person or another system can end."""
    serial: int = -1
    """The callback that the run's own command waits for."""
    callbacks: int = 0
    """Slots of the scope ``callback`` that places of this run have; they go with the token."""
    wakes: float = AWAKE
    """When the wait ends for which the run's own command waits (epoch seconds); in the past when it waits for none."""
    counted: int = 0
    """Calls of its command that the budget has counted already."""
    own: bool = False
    """The run has a result of its own so far: it lies in the slot ``run`` until the run leaves its step."""


class Verdict(msgspec.Struct, omit_defaults=True):
    """The outcome of an execution whose last tasks still run.

    Last tasks are ``finally``, ``on_failure`` and ``on_success``.

    ``fired`` and ``waves``: those of the workflow, for a redrive.
    """

    status: Literal["completed", "failed", "cancelled"]
    error: ErrorInfo | None = None
    step: str = ""
    steps: tuple[str, ...] = ()
    reason: str = ""
    principal: str = ""
    fired: list[str] = []
    waves: dict[str, list[int]] = {}


class ExecutionState(msgspec.Struct, omit_defaults=True):
    """The state of an execution.

    What changes with every event comes first, what stays comes last: the database logs a row up to where its old end begins.
    """

    v: int = 1
    status: Status = "running"
    seq: int = 0
    """Number of the last row in the main lane."""
    next_run: int = 1
    tokens: dict[int, Token] = {}
    ends: list[str] = []
    """Steps that ended without a successor, in order, each once."""
    fired: list[str] = []
    """Joins of the kind any / n-of-m that have fired and still swallow late tokens."""
    waves: dict[str, list[int]] = {}
    """Of a join in ``fired`` that holds tokens for its next wave: the arcs that have delivered in this one."""
    final: bool = False
    """The final step has been fired."""
    timers: dict[str, int] = {}
    undo: int = 0
    """The run that is compensated first, should the execution fail (0: none); its slot ``undo`` names the one before it."""
    undoing: bool = False
    """It fails; what was done is being compensated."""
    verdict: Verdict | None = None
    """How it ends once its last tasks are done."""
    parent: Parent | None = None
    depth: int = 0
    error: ErrorInfo | None = None
    steps_done: int = 0
    left: list[Token] = []
    """Tokens that were live when it failed or was cancelled (their arguments are kept too): a redrive continues from them."""
    heard: int = 0
    """The latest word of the parent to pause or resume."""
    lost: bool = False
    """It could not be read, and history neither: it has no tokens, and cannot be redriven."""
    rounds: int = 0
    """How often it was redriven."""
    idle: float = 0.0
    """Seconds between its ends and the redrives that followed them."""
    priority: int = 0
    calls: int = 0
    """Calls of tools since it began, or was last redriven, where its playbook has a budget."""
    no_cache: bool = False
    """It was started so that no task takes the result of an earlier call."""
    started: float = 0.0
    """When it began, or was last redriven: deadlines count from here."""
    program: str = ""


def rest_until(state: ExecutionState) -> float | None:
    """Return until when an execution rests: nothing of it can move by itself.

    None: it is at work, or over. A moment (epoch seconds) when the first of its waits for a time ends; infinite when only what happens
    outside of it ends its rest: it is resumed, admitted, given a lock, or a callback is answered. Work in another system, a
    sub-execution, a loop, and the delay before a retry are work.
    """
    if state.status == "paused":
        return math.inf
    waiting = [token for token in state.tokens.values() if token.phase != "arrived"]
    if state.status != "running" or not waiting:
        return None
    timed = [token.wakes for token in waiting if token.phase != "parked" and token.serial < 0]
    return min(timed, default=math.inf) if all(timed) else None


Slots = dict[tuple[str, str], Any]
"""(scope, name) → value. Scopes: workload, ctx, vars, step (by step: the result of the run that left it last, as ``StepView`` reads it),
run (by run number: the result of a run that was called and has not left its step), args and undo (by run number; undo ``0``: what
compensating came to), callback (by place: what is awaited there, came early, or is over)."""

_DECODER = codec.decoder(ExecutionState)


def encode_state(state: ExecutionState) -> bytes:
    return codec.encode(state)


def decode_state(data: bytes | str) -> ExecutionState:
    """Decode a state that an engine has written.

    Raises ValueError for any other document, an empty one too.
    """
    state = codec.decode_as(_DECODER, data)
    if state == ExecutionState(status=state.status):
        # Every field has a default, so an empty document would pass for a state. One that was written has a row of history at least.
        raise ValueError("it is empty")
    return state


def copy_state(state: ExecutionState) -> ExecutionState:
    """Copy a state, so that changes do not touch the original.

    Tokens are copied, values are shared.
    """
    twin = copy.copy(state)
    twin.tokens = {run: copy.copy(token) for run, token in state.tokens.items()}
    twin.ends = list(state.ends)
    twin.fired = list(state.fired)
    twin.timers = dict(state.timers)
    twin.left = list(state.left)
    twin.waves = {step: list(arcs) for step, arcs in state.waves.items()}
    return twin
