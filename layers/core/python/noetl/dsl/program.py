"""The frozen ``Program``: what the compiler makes of a playbook, and all that engine and workers read.

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

from typing import Any, Literal

import msgspec

from noetl.dsl.nodes import Expr as Expr
from noetl.dsl.nodes import Lit as Lit
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

PROGRAM_VERSION = 1
"""Shape of ``Program``; raised when an old one can no longer be decoded."""


class Reads(msgspec.Struct, frozen=True, omit_defaults=True):
    """The names templates touch, as text.

    ``ctx.total``, ``vars.x``, ``workload.base``, ``keychain.k`` name one entry of a scope; ``ctx.*`` the whole scope (it was used as a
    value, or indexed with something computed); ``fetch`` is a bare name (step result, argument, iterator, variable, ctx key or workload
    key: whichever resolves first). Names that never leave the worker or the run (``iter``, ``loop``, ``event``, ``outcome``, ``result``,
    ``_prev``, functions) are left out.
    """

    names: tuple[str, ...] = ()


# --- actions and rules --------------------------------------------------------------------------


class SetAction(msgspec.Struct, frozen=True, tag="set", tag_field="a"):
    """Write one name of a scope: ``ctx.x``, ``iter.y``, ``step.z``, ``vars.w``. ``op`` is ``set`` or a reducer."""

    scope: Literal["ctx", "iter", "step", "vars"]
    name: str
    value: Node
    op: str = "set"
    pos: Pos = Pos()


class RetryAction(msgspec.Struct, frozen=True, tag="retry", tag_field="a"):
    """Run the same call again. ``attempts`` counts total tries (literal or template rendering to int).

    ``backoff``: ``none``/``fixed`` = ``delay``; ``linear`` = ``delay·n``; ``exponential`` = ``delay·multiplier^(n-1)``.
    ``exhausted``: what happens when no try is left — ``fail`` (canonical) or ``next_rule`` (event form: counts as no match).
    """

    attempts: Node
    delay: Node
    backoff: Literal["none", "linear", "exponential"] = "exponential"
    multiplier: Node = Lit(2)
    max_delay: Node | None = None
    jitter: Node | None = None
    exhausted: Literal["fail", "next_rule"] = "fail"
    pos: Pos = Pos()


class JumpAction(msgspec.Struct, frozen=True, tag="jump", tag_field="a"):
    """Go on at the task labelled ``to`` (``previous``: the task before this one)."""

    to: str
    pos: Pos = Pos()


class ContinueAction(msgspec.Struct, frozen=True, tag="continue", tag_field="a"):
    pass


class BreakAction(msgspec.Struct, frozen=True, tag="break", tag_field="a"):
    """End the pipeline successfully (of this iteration, when in a loop)."""


class FailAction(msgspec.Struct, frozen=True, tag="fail", tag_field="a"):
    message: Node | None = None
    pos: Pos = Pos()


class SkipAction(msgspec.Struct, frozen=True, tag="skip", tag_field="a"):
    """End the step as skipped; the structural ``next`` is taken."""

    message: Node | None = None


class CallAction(msgspec.Struct, frozen=True, tag="call", tag_field="a"):
    """Run the own tool again, ``overrides`` deep-merged over the last rendered params (pagination)."""

    overrides: Node
    pos: Pos = Pos()


class CollectAction(msgspec.Struct, frozen=True, tag="collect", tag_field="a"):
    """Gather a value into ``ctx.<into>``: append | extend | merge | replace, ordered by iteration, then page."""

    source: Node
    into: str
    mode: Literal["append", "extend", "merge", "replace"] = "append"
    pos: Pos = Pos()


class SinkAction(msgspec.Struct, frozen=True, tag="sink", tag_field="a"):
    """Write with a tool; never changes the result, its failure fails the step."""

    task: Task
    when: Node | None = None


class RunAction(msgspec.Struct, frozen=True, tag="run", tag_field="a"):
    """Labelled inline tasks of a ``then`` list: run as one task sequence before the list's ``next``."""

    tasks: tuple[Task, ...]


class ResultAction(msgspec.Struct, frozen=True, tag="result", tag_field="a"):
    """Replace the step's result."""

    value: Node


class GoTo(msgspec.Struct, frozen=True):
    step: str
    args: Node | None = None
    pos: Pos = Pos()


class NextAction(msgspec.Struct, frozen=True, tag="next", tag_field="a"):
    """Go to these steps; replaces the structural ``next``. Inside an iteration it breaks the loop."""

    targets: tuple[GoTo, ...]


Action = (
    SetAction
    | RetryAction
    | JumpAction
    | ContinueAction
    | BreakAction
    | FailAction
    | SkipAction
    | CallAction
    | CollectAction
    | SinkAction
    | RunAction
    | ResultAction
    | NextAction
)


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """``when`` true (``None``: always, an ``else``) → ``actions`` in order. The first rule that matches wins.

    ``events`` limits a rule to boundaries the compiler could prove from ``event.name == '…'``; empty: any.
    """

    actions: tuple[Action, ...]
    when: Node | None = None
    events: tuple[str, ...] = ()
    pos: Pos = Pos()


# --- what a worker runs -------------------------------------------------------------------------


class ResultSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a result is kept: inline limit in bytes, tier wish, promoted selections ``(path, as)``."""

    inline_max_bytes: int | None = None
    preview_max_bytes: int | None = None
    store: str | None = None
    scope: str | None = None
    ttl: str | None = None
    compression: str | None = None
    select: tuple[tuple[str, str], ...] = ()


class StepRetry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event form's step-level ``retry``: the action's fields plus ``retry_when`` and ``stop_when``."""

    action: RetryAction
    retry_when: Node | None = None
    stop_when: Node | None = None


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a tool.

    ``params`` is rendered when the task runs and given to the kind. ``input`` (``args``/``input``/``with`` of the tool) is rendered
    first and visible to ``params`` as ``input.x``, ``args.x`` and bare ``x``; the python kind receives it as its arguments.
    ``rules`` answer the task's outcome. ``form == "event"`` tasks offer ``call.error`` then ``call.done`` to ``rules``
    (event names in scope); canonical tasks evaluate ``rules`` with ``outcome`` in scope.
    ``default_on_unmatched``: what happens when ``rules`` exist and none matches an error: ``fail`` or ``continue``.
    """

    label: str
    kind: str
    params: Node
    input: Node | None = None
    rules: tuple[Rule, ...] = ()
    form: Literal["event", "canonical"] = "canonical"
    retry: StepRetry | None = None
    on_unmatched: Literal["fail", "continue"] = "fail"
    sets: tuple[SetAction, ...] = ()
    timeout: Node | None = None
    result: ResultSpec | None = None
    sinks: tuple[SinkAction, ...] = ()
    """A workbook task's own sinks, run right after it succeeded."""
    pos: Pos = Pos()
    code_pos: Pos = Pos()
    """Where the kind's raw text (``code``) begins: the first column of its first line."""
    code_lines: bool = False
    """The lines of the raw text stand one below the other in the playbook, as they do in the text."""


class Pipeline(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that one command runs: tasks, then ``vars``, then sinks.

    ``vars`` are (name, template) pairs evaluated from the top after success, each seeing the earlier ones; ``vars_before``
    before the first task, ``vars_after`` on success and on failure. ``sinks`` is the step-level ``sink``, once per call.
    ``reads`` is the union over everything inside: the scope the engine freezes into the command.
    """

    tasks: tuple[Task, ...]
    vars: tuple[tuple[str, Node], ...] = ()
    vars_before: tuple[tuple[str, Node], ...] = ()
    vars_after: tuple[tuple[str, Node], ...] = ()
    sinks: tuple[SinkAction, ...] = ()
    reads: Reads = Reads()
    pool: str = "io"
    """Where it runs: the pool of its most demanding kind (``control``: in the engine, without a message)."""


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
    pos: Pos = Pos()


class Arc(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way out of a step.

    ``on``: the boundaries it is a candidate for — ``done`` (step.done and loop.done alike) and/or ``failed``.
    ``sync``: counts for the synchronising merge (False for arcs that can only be taken on failure).
    ``index`` is its place in playbook order over the whole program: payloads merge at a join in this order.
    """

    target: str
    index: int
    when: Node | None = None
    args: Node | None = None
    sets: tuple[SetAction, ...] = ()
    on: tuple[Literal["done", "failed"], ...] = ("done",)
    sync: bool = True
    pos: Pos = Pos()


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    index: int
    form: Literal["event", "canonical"]
    desc: str = ""
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
    join: str = "sync"
    """``sync`` (default synchronising merge) | ``all`` | ``any`` | ``each`` | a number as text."""
    join_of: Literal["arcs", "arrivals"] = "arcs"
    """What a number in ``join`` counts: different arcs, or tokens over whatever arc."""
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
    """Steps whose live runs are withdrawn when this one is entered; ``*`` names all of them."""
    mutex: Node | None = None
    """Name of a lock: runs of steps that hold the same one within an execution do not overlap."""
    result: ResultSpec | None = None
    enter_reads: Reads = Reads()
    """Names the engine needs to enter this step (admit, args, loop, step.enter cases, and ``body.reads``)."""
    exit_reads: Reads = Reads()
    """Names the engine needs when this step ended (cases, sets, arcs)."""
    incoming: int = 0
    """Number of synchronising arcs (structural, ``next`` actions and jumps between steps) that lead here."""
    reaches: tuple[str, ...] = ()
    """Steps reachable from here over one or more synchronising arcs, in playbook order."""
    pos: Pos = Pos()


class KeychainEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    kind: str
    params: Node = Lit(None)
    pos: Pos = Pos()


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compiled playbook. ``hash`` is the SHA-256 (hex) of source text, compiler version and semantics number."""

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
    workload: Node = Lit({})
    input_schema: dict[str, Any] | None = None
    keychain: tuple[KeychainEntry, ...] = ()
    entry: str = ""
    final_step: str | None = None
    no_next_is_error: bool = False
    timeout: Node | None = None
    """Seconds for the whole execution (``executor.spec.timeout``)."""
    steps: tuple[Step, ...] = ()

    def step(self, name: str) -> Step:
        """The step called ``name``. Raises KeyError."""
        return step_index(self)[name]


_INDEX: dict[int, tuple[Program, dict[str, Step]]] = {}


def step_index(program: Program) -> dict[str, Step]:
    """Steps by name, computed once per Program object."""
    found = _INDEX.get(id(program))
    if found is None or found[0] is not program:
        if len(_INDEX) > 512:
            _INDEX.clear()
        found = (program, {step.name: step for step in program.steps})
        _INDEX[id(program)] = found
    return found[1]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Program)


def encode(program: Program) -> bytes:
    """Program → JSON bytes."""
    return _ENCODER.encode(program)


def decode(data: bytes) -> Program:
    """JSON bytes → Program. Raises msgspec.ValidationError for anything else."""
    return _DECODER.decode(data)
