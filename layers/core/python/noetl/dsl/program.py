"""The frozen ``Program``: a compiled playbook, all that engine and workers read.

Both forms of the language and all their spellings are lowered to this one shape, so nothing behind the
compiler knows which form a step was written in, except where a rule differs by form and says so
(``Step.form``). A Program is plain data: ``encode``/``decode`` round-trip it.

Who evaluates what:

* the **engine**: ``admit``, ``args``, ``loop.collection``, ``Step.cases`` (boundaries ``step.enter``, ``loop.done``,
  ``step.exit``), ``Step.sets``, arcs, and the result of the execution;
* the **worker** (``noetl.pipeline``): ``Pipeline`` — tasks with their params, task rules, sinks, ``vars`` — for a whole step,
  or for one item of a loop, over the scope frozen when the command was issued.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from noetl.domain import codec
from noetl.dsl.nodes import Expr as Expr
from noetl.dsl.nodes import LiteralNode as LiteralNode
from noetl.dsl.nodes import Map as Map
from noetl.dsl.nodes import Node as Node
from noetl.dsl.nodes import Pos as Pos
from noetl.dsl.nodes import Seq as Seq
from noetl.dsl.nodes import Sql as Sql
from noetl.dsl.nodes import Text as Text
from noetl.dsl.starts import EventBridgeTrigger as EventBridgeTrigger
from noetl.dsl.starts import S3Trigger as S3Trigger
from noetl.dsl.starts import ScheduleSpec as ScheduleSpec
from noetl.dsl.starts import SqsTrigger as SqsTrigger
from noetl.dsl.starts import Trigger as Trigger
from noetl.dsl.work import Action as Action
from noetl.dsl.work import BreakAction as BreakAction
from noetl.dsl.work import CacheSpec as CacheSpec
from noetl.dsl.work import CallAction as CallAction
from noetl.dsl.work import CollectAction as CollectAction
from noetl.dsl.work import ContinueAction as ContinueAction
from noetl.dsl.work import FailAction as FailAction
from noetl.dsl.work import Gather as Gather
from noetl.dsl.work import GoTo as GoTo
from noetl.dsl.work import JumpAction as JumpAction
from noetl.dsl.work import Nested as Nested
from noetl.dsl.work import NextAction as NextAction
from noetl.dsl.work import Pipeline as Pipeline
from noetl.dsl.work import Reads as Reads
from noetl.dsl.work import ResultAction as ResultAction
from noetl.dsl.work import ResultSpec as ResultSpec
from noetl.dsl.work import RetryAction as RetryAction
from noetl.dsl.work import Rule as Rule
from noetl.dsl.work import RunAction as RunAction
from noetl.dsl.work import SetAction as SetAction
from noetl.dsl.work import SinkAction as SinkAction
from noetl.dsl.work import SkipAction as SkipAction
from noetl.dsl.work import StepRetry as StepRetry
from noetl.dsl.work import Task as Task
from noetl.dsl.work import calls_back_task as calls_back_task
from noetl.dsl.work import tasks_in as tasks_in

EVERY_STEP = "*"
PROGRAM_VERSION = 1
"""Shape of ``Program``; raised when an old one can no longer be decoded."""


# --- what the engine runs -----------------------------------------------------------------------


class AdmitRule(msgspec.Struct, frozen=True, omit_defaults=True):
    allow: Literal["yes", "park", "skip"]
    when: Node | None = None
    pos: Pos = Pos()


class Admission(msgspec.Struct, frozen=True, omit_defaults=True):
    rules: tuple[AdmitRule, ...]
    timeout: Node | None = None
    """Seconds a parked token waits before its step fails with ``admission_timeout``."""


class Loop(msgspec.Struct, frozen=True, omit_defaults=True):
    collection: Node
    iterator: str
    mode: Literal["sequential", "parallel"] = "sequential"
    max_in_flight: Node | None = None
    failure: Literal["fail_fast", "best_effort"] = "fail_fast"
    iterator_vars: bool = False
    """``tool.kind: iterator`` keeps ``vars.<step>_index``, ``_item``, ``_count``, ``_total``."""
    ordered_writes: bool = False
    """The body of a sequential loop writes ``ctx``/``vars``/``step``: iterations must see each other's writes."""
    vars: tuple[SetAction, ...] = ()
    """``vars`` of the step, written once when all iterations succeeded, before its cases and arcs."""
    pos: Pos = Pos()


class Arc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way out of a step.

    ``on``: the boundaries it is a candidate for — ``done`` (step.done and loop.done alike) and/or ``failed``.
    ``sync``: counts for the synchronising merge (False for arcs that can only be taken on failure).
    ``index`` is its place in playbook order over the whole program: payloads merge at a join in this order. Arcs of an exclusive choice
    to one target share it, for a run takes one of them.
    """

    target: str
    index: int
    when: Node | None = None
    args: Node | None = None
    sets: tuple[SetAction, ...] = ()
    on: tuple[Literal["done", "failed"], ...] = ("done",)
    sync: bool = True
    fallback: bool = False
    """``spec.on_error``: taken when no other arc answers."""
    pos: Pos = Pos()


class Route(msgspec.Struct, frozen=True):
    """A way that only ``next`` actions of cases take.

    ``index`` numbers it like an arc. A ``next`` to a step that an ordinary arc leads to uses that arc; several entries that name one
    step share a way, for a run takes one of them.
    """

    target: str
    index: int


class LimitSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of ``spec.limits``: slots or moments of a key that all executions share."""

    key: Node
    concurrent: Node | None = None
    rate: Node | None = None
    per: Node | None = None
    burst: Node | None = None
    pos: Pos = Pos()


class Concurrency(msgspec.Struct, frozen=True, omit_defaults=True):
    """``executor.spec.concurrency``: how many executions of a key run at once.

    The key is the playbook's path when none is given.
    """

    limit: Node
    key: Node | None = None
    on_excess: Literal["queue", "refuse", "cancel_oldest"] = "queue"
    pos: Pos = Pos()


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """``executor.spec.budget``: after which no further task begins.

    ``cost``: what ``ctx.cost`` may reach. ``time``: seconds.
    """

    calls: Node | None = None
    cost: Node | None = None
    time: Node | None = None
    pos: Pos = Pos()


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    with_tasks: ClassVar = ("body", "cases", "compensate")
    name: str
    index: int
    form: Literal["event", "canonical"]
    desc: str = ""
    alias: str = ""
    """``as``: a second name for its result."""
    admit: Admission | None = None
    args: Node | None = None
    """The step's own ``args``/``input`` block: rendered with the token in scope, overlays its payload."""
    loop: Loop | None = None
    body: Pipeline | None = None
    """What is called; ``None`` for a routing-only step."""
    cases: tuple[Rule, ...] = ()
    """Event form: the entries the engine evaluates at ``step.enter``, ``loop.done``, ``step.exit``. Tasks inside them (sinks,
    inline tasks) are dispatched as a command of their own, named by the rule's index, before the step's tokens are released."""
    sets: tuple[SetAction, ...] = ()
    """Canonical step-level ``set``: after the step is done, before its arcs."""
    mode: Literal["exclusive", "inclusive"] = "inclusive"
    """Event form's structural ``next`` lists are inclusive; ``next.spec.mode`` defaults to exclusive."""
    arcs: tuple[Arc, ...] = ()
    routes: tuple[Route, ...] = ()
    join: str = "sync"
    """``sync`` (default synchronising merge) | ``all`` | ``any`` | ``each`` | a number as text."""
    join_of: Literal["arcs", "arrivals"] = "arcs"
    """What a number in ``join`` counts: different arcs, or tokens over any arc."""
    join_rest: Literal["absorb", "hold", "cancel"] = "absorb"
    """What becomes of the others of a wave once any/n fired: their tokens end at the join; wait for the next wave; are withdrawn."""
    timeout: Node | None = None
    """Seconds from step.enter to its end (``spec.timeout``, ``spec.policy.lifecycle.timeout_s``)."""
    deadline: Node | None = None
    """Seconds from the start of the execution by which this step has to be over (``spec.policy.lifecycle.deadline_s``)."""
    tolerant: bool = False
    """``spec.on_error: continue``: a failure that no arc answers lets the step's ordinary arcs fire as if it were done."""
    compensate: Pipeline | None = None
    """Undoes a run of this step that succeeded, when the execution fails later."""
    cancels: tuple[str, ...] = ()
    """Steps whose live runs are withdrawn when this one is entered; ``EVERY_STEP`` names all of them."""
    mutex: Node | None = None
    """Name of a lock: runs of steps that hold the same one within an execution do not overlap."""
    limits: tuple[LimitSpec, ...] = ()
    """What its work shares with that of all other executions."""
    result: ResultSpec | None = None
    enter_reads: Reads = Reads()
    """Names the engine needs to enter this step (admit, args, loop, step.enter cases, and ``body.reads``)."""
    exit_reads: Reads = Reads()
    """Names the engine needs when this step ended (cases, sets, arcs)."""
    incoming: int = 0
    """Number of synchronising arcs (structural, and targets of ``next`` actions) that lead to the step: with more than one it is a join."""
    ways: int = 0
    """Number of different ways among them, over which tokens of one wave can come: what ``all`` and a number count."""
    reaches: tuple[str, ...] = ()
    """Steps reachable from here over one or more synchronising arcs, in playbook order."""
    feeders: tuple[str, ...] = ()
    """With ``join_rest: cancel``: steps from which every synchronising arc leads here in the end, in playbook order."""
    pos: Pos = Pos()


class KeychainEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    kind: str
    params: Node = LiteralNode(None)
    pos: Pos = Pos()


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compiled playbook.

    ``hash`` is the SHA-256 (hex) of source text, compiler version and semantics number.
    """

    with_tasks: ClassVar = ("steps",)
    v: int
    semantics: int
    hash: str
    name: str
    path: str
    version: str = ""
    description: str = ""
    labels: dict[str, str] = {}
    schedule: ScheduleSpec | None = None
    triggers: tuple[Trigger, ...] = ()
    source_name: str = ""
    """What diagnostics print before ``:line:column`` (file name as given, or the catalog path)."""
    workload: Node = LiteralNode({})
    input_schema: dict[str, Any] | None = None
    keychain: tuple[KeychainEntry, ...] = ()
    entry: str = ""
    final_step: str | None = None
    no_next_is_error: bool = False
    timeout: Node | None = None
    """Seconds for the whole execution (``executor.spec.timeout``)."""
    concurrency: Concurrency | None = None
    priority: Node | None = None
    """Higher goes first, where work waits for a slot or for a worker of this process (``executor.spec.priority``)."""
    budget: Budget | None = None
    steps: tuple[Step, ...] = ()
    last: dict[str, str] = {}
    """Outcome (``completed``, ``failed``, ``cancelled``) → the first of ``last_steps`` that runs before the end."""
    last_steps: tuple[str, ...] = ()
    """Those of ``on_success``, ``on_failure`` and ``finally``: only the end of an execution leads to them."""
    modules: dict[str, str] = {}
    """Path → text of the Python files that are shipped with this version, for tasks of Python to import."""
    lock: str = ""
    """The lock of ``executor.spec.requirements``: the libraries that tasks of Python import; empty: those of the worker."""

    def bounds(self, step: str, stage: str) -> bool:
        """Return whether the budget counts and bounds every call of a step's stage.

        Last tasks and compensations run in any case. A program of before counts calls when their step is over, and bounds none inside it.
        """
        bounded = self.budget is not None and self.semantics > 5
        return bounded and stage != "compensate" and step not in self.last_steps

    def step(self, name: str) -> Step:
        """Return the step called ``name``. Raises KeyError."""
        return step_index(self)[name]


class _Index(msgspec.Struct, frozen=True):
    """What is looked up in a program again and again, computed once per Program object."""

    program: Program
    steps: dict[str, Step]
    aliases: dict[str, str]
    limited: frozenset[str]


_INDEXES: dict[int, _Index] = {}
_MOST_INDEXES = 512


def _index_of(program: Program) -> _Index:
    found = _INDEXES.get(id(program))
    if found is None or found.program is not program:
        if len(_INDEXES) > _MOST_INDEXES:
            _INDEXES.clear()
        found = _INDEXES[id(program)] = _Index(
            program,
            {step.name: step for step in program.steps},
            {step.alias: step.name for step in program.steps if step.alias},
            frozenset(step.name for step in program.steps if step.limits),
        )
    return found


def step_index(program: Program) -> dict[str, Step]:
    """Return the steps by name."""
    return _index_of(program).steps


def aliases_of(program: Program) -> dict[str, str]:
    """Return the second names of results, each with its step."""
    return _index_of(program).aliases


def limited_steps(program: Program) -> frozenset[str]:
    """Return the names of the steps that share limits with other executions."""
    return _index_of(program).limited


def ways_of(step: Step) -> dict[str, tuple[int, ...]]:
    """Return the synchronising ways out of a step by target: arcs, then routes.

    The n-th time that a ``next`` names a target, it takes the n-th of these ways.
    """
    found: dict[str, tuple[int, ...]] = {}
    ways = [(arc.target, arc.index) for arc in step.arcs if arc.sync]
    for target, index in dict.fromkeys((*ways, *((route.target, route.index) for route in step.routes))):
        found[target] = (*found.get(target, ()), index)
    return found


_DECODER = codec.decoder(Program)


def encode(program: Program) -> bytes:
    """Program → JSON bytes."""
    return codec.encode(program)


def decode(data: bytes) -> Program:
    """JSON bytes → Program. Raises ValueError (msgspec.DecodeError is one) for anything else."""
    return codec.decode_as(_DECODER, data)
