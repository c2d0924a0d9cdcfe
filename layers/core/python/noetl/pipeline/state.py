"""The pipeline's own state: plain JSON between turns, msgspec structs while it runs.

Nothing in it comes from a clock, a network or the scope: with the same program, scope and outcomes, a state that travelled
through JSON continues exactly like one that never left the worker.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.outcomes.outcomes import ErrorInfo, Patch, Target, Trace

Stage = Literal["before", "tasks", "vars", "sinks", "after", "done"]
Phase = Literal["enter", "call", "wait", "judge", "rules", "actions", "sinks", "settle", "leave"]
EACH = ["each"]
"""Address of an iteration of a nested loop."""
Answer = Literal["", "retry", "call", "next", "result", "skip", "fail", "continue", "jump", "break"]


class LatestOutcome(msgspec.Struct, omit_defaults=True):
    """The latest outcome of a task: its unwrapped ``result``, or its ``error``.

    ``envelope``: the fields that came around the result.
    """

    result: Any = None
    envelope: dict[str, Any] | None = None
    error: ErrorInfo | None = None
    meta: dict[str, Any] = {}

    @property
    def ok(self) -> bool:
        return self.error is None


class Pending(msgspec.Struct, omit_defaults=True):
    """An external job that a task began.

    ``state``: the description that its kind returned. ``since``/``until``: epoch seconds of the first call and of its time-out.
    """

    state: dict[str, Any]
    since: float
    until: float


class Frame(msgspec.Struct, omit_defaults=True):
    """One sequence of tasks being run: the body, the inline tasks of a rule, or one sink.

    ``address`` says where the sequence stands below the frame beneath: ``[]`` the body, ``["step-sink", i]``, ``["task-sink", i]``,
    ``["rule-sink", rule, action]``, ``["rule-run", rule, action]``, ``["each"]`` an iteration of the iterator's task below. ``attempt``
    counts tries of the task at ``pc`` since it was entered; ``variant`` is the workbook task that was chosen for it.
    """

    address: list[Any] = []
    pc: int = 0
    phase: Phase = "enter"
    attempt: int = 0
    variant: str = ""
    input: dict[str, Any] | None = None
    overrides: Any = None
    prev: Any = None
    last: LatestOutcome | None = None
    event: str = ""
    rule: int = 0
    action: int = 0
    used: list[int] = []
    """Rules that ran for ``call.error`` without answering it: not run again for ``call.done``."""
    answer: Answer = ""
    chance: float = 0.0
    delay: float = 0.0
    again: dict[str, Any] = {}
    """What history will tell of the retry that is the answer."""
    to: int = 0
    error: ErrorInfo | None = None
    """Why the answer is ``fail``."""
    sinks: list[list[Any]] = []
    """Addresses of sinks to run before the phase ``then``."""
    waited: dict[str, Any] | None = None
    """The result of the task when the time that it waits for has passed."""
    pending: Pending | None = None
    """The external job that the task began and asks for again."""
    then: Phase = "leave"


class Local(msgspec.Struct, omit_defaults=True):
    """What belongs to one iteration (or to the run itself, outside of any).

    ``iter`` holds what ``set_iter`` wrote, ``labels`` the tasks' results, ``promoted`` the parts of them that ``select`` named, ``visits``
    how often each task was entered: two visits are two calls, with idempotency keys of their own. ``gathered`` is what ``accumulate``
    has so far, of about ``weights`` bytes, behind ``parts``, which are in the result store already. ``last`` is the outcome of the last
    task, ``result`` its result; ``pinned``: a ``result`` action fixed that.
    """

    iter: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    promoted: dict[str, dict[str, Any]] = {}
    visits: dict[str, int] = {}
    gathered: dict[str, Any] = {}
    weights: dict[str, int] = {}
    parts: dict[str, list[dict[str, Any]]] = {}
    result: Any = None
    pinned: bool = False
    last: LatestOutcome | None = None


class Level(msgspec.Struct, omit_defaults=True):
    """A nested loop that is open.

    ``items``: its list, or the reference of that. ``index``: of the current iteration. ``outer``: the labels of the iteration around it.
    """

    items: Any
    outer: Local
    index: int = 0
    results: list[Any] = []
    failed: int = 0


class State(Local, omit_defaults=True):
    """The state of a run.

    ``calls``: answers of tasks so far, ``cached`` of which came from the cache and ``free`` from kinds that call no tool.

    ``patches``: the writes so far, in order. ``block``: the
    values of the step's ``vars`` at their last evaluation. ``chosen``: the selections of the last task's result. ``levels``: nested loops,
    outermost first. ``moves``: how many calls this turn made. ``held``: the trace of the first call of a single task, shown only when
    another call follows. ``callbacks``: how many were asked for, which is the serial of the next one.
    """

    v: int = 1
    stage: Stage = "before"
    frames: list[Frame] = []
    levels: list[Level] = []
    chosen: dict[str, Any] = {}
    patches: list[Patch] = []
    block: list[Patch] = []
    sink: int = 0
    error: ErrorInfo | None = None
    skipped: bool = False
    message: str | None = None
    route: list[Target] | None = None
    moves: int = 0
    calls: int = 0
    cached: int = 0
    free: int = 0
    children: list[dict[str, Any]] = []
    held: list[Trace] = []
    trace: list[Trace] = []
    callbacks: int = 0


def dump(state: State) -> dict[str, Any]:
    """Convert a state to plain JSON values (``Suspend.machine``)."""
    made: dict[str, Any] = msgspec.to_builtins(state)
    return made


def load(machine: dict[str, Any]) -> State:
    """Convert plain JSON values to a state.

    Raises InvalidInputError for what this version did not write.
    """
    try:
        state = codec.convert(machine, State)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            f"the suspended pipeline cannot be read: {error}", code="machine_state"
        ) from error
    if state.v != 1:
        raise InvalidInputError(
            f"the suspended pipeline was written in format {state.v}; this worker reads format 1",
            code="machine_state",
            hint="deploy the workers of the newer version",
        )
    return state


def forget(state: State) -> None:
    """Drop what the next turn computes again, so that it does not travel."""
    frame = state.frames[-1] if state.frames else None
    if frame is not None and frame.phase in ("call", "wait"):
        frame.last = None
        if frame.phase == "call":
            frame.input = None


def latest(frame: Frame) -> LatestOutcome:
    """Return the latest outcome of a frame's task."""
    return frame.last if frame.last is not None else LatestOutcome()
