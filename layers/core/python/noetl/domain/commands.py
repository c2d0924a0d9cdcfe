"""Commands that the engine sends to workers, and the item outcomes that they return.

One command is one message: a whole pipeline of a step run, a stage after it (tasks that a case runs), or a chunk of a
loop's items. A worker needs nothing else: the program (by hash), and the scope frozen when the command was issued.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from noetl.domain.limits import Limit
from noetl.domain.loop_resume import Ranges
from noetl.domain.outcomes.outcomes import Outcome, Patch

Stage = Literal["body", "case", "compensate", "collection"]
"""Which part of a step a command runs: what it calls, the tasks of one of its cases, what undoes a run of it, or (``collection``) the
reading of what its loop goes over."""


class FrozenScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """The values templates of a command may read.

    Large ones are ``ResultRef`` mappings, hydrated only when touched.

    ``steps`` holds step slots: ``{"status", "data", "error", "labels"}``. ``extra`` holds names of the moment, for a stage after the
    body: ``event``, ``result``, ``this``, ``response``. What differs between the commands of an execution comes first (see ``ExecutionState``).
    """

    now: float = 0.0
    args: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    vars: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    job: dict[str, Any] = {}


class LoopSlice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slice of a loop's items: indexes ``start <= i < stop``, without those in ``skip``.

    Items in ``skip`` were done before a crash.

    ``items`` are the elements of exactly this slice; empty where ``source`` is a collection in the result store, which the worker reads.
    ``parent`` is the enclosing iteration (``iter.parent``), if any. When only some of a loop of ``whole`` items runs again, ``indexes``
    (beside ``items``) or ``called`` (beside ``source``) are what the items of the slice are called in the whole loop.
    """

    round: int
    start: int
    stop: int
    total: int
    iterator: str
    mode: Literal["sequential", "parallel"]
    items: list[Any] = []
    skip: tuple[int, ...] = ()
    fail_fast: bool = True
    iterator_vars: bool = False
    parent: dict[str, Any] | None = None
    indexes: tuple[int, ...] = ()
    whole: int = 0
    source: dict[str, Any] | None = None
    called: Ranges = ()

    @property
    def continued(self) -> int | None:
        """Return the item that continues with what its turn was suspended with, or None.

        It is the first item of the slice. When that one is done, no later item takes its place.
        """
        return None if self.start in self.skip else self.start


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One unit of work for a worker: a turn of a step run's pipeline, or of a chunk of a loop.

    ``attempt`` counts deliveries after a lost worker; ``turn`` counts continuations of one command.
    ``machine`` is the pipeline state a suspension left (None on turn 0); ``child`` the outcome of the sub-execution it waited for.
    ``overlay`` are the writes that earlier items of a sequential loop made. ``rule`` is the index into ``Step.cases`` for stage ``case``.
    ``delay``: seconds, by the database's clock, before it may run. ``limits``: what it has to have before it is given out.
    ``remote``: its machine refers to work in another system, which has to be stopped when the command is not wanted any more.
    ``lost``: how many processes have died while they ran this turn of it.
    """

    execution_id: int
    command_id: str
    run: int
    step: str
    program: str
    pool: str
    stage: Stage = "body"
    rule: int = -1
    attempt: int = 1
    turn: int = 0
    delay: float = 0.0
    scope: FrozenScope = FrozenScope()
    loop: LoopSlice | None = None
    machine: dict[str, Any] | None = None
    child: Outcome | None = None
    overlay: list[Patch] = []
    priority: int = 0
    limits: tuple[Limit, ...] = ()
    remote: bool = False
    lost: int = 0


class Collected(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a command of stage ``collection``.

    ``items``: the elements themselves while they are few and small. Otherwise ``ref``: the reference of the manifest that lists them.
    """

    total: int
    items: list[Any] | None = None
    ref: dict[str, Any] | None = None


class ItemOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished or suspended item.

    ``outcome.status == "suspended"`` occurs only in parallel loops: there the item continues alone.
    """

    index: int
    outcome: Outcome


class ChunkRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is left of a chunk that stops early: items from ``start`` on.

    A sequential loop's item ``start`` was suspended (``outcome.suspend``), or the worker nears its deadline (``outcome`` None) and hands back.
    ``overlay`` are the writes the next turn must see.
    """

    start: int
    outcome: Outcome | None = None
    overlay: list[Patch] = []


class CommandIdentity(Protocol):
    """The part of a command that its outcome repeats.

    The command itself has it, and so has a worker's capability.
    """

    @property
    def execution_id(self) -> int: ...
    @property
    def command_id(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def turn(self) -> int: ...
    @property
    def run(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def stage(self) -> Stage: ...
