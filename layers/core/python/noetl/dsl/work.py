"""A worker's work: actions and rules, tasks, and the pipeline they make.

It is part of the Program (``dsl/program.py``).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from noetl.dsl.nodes import LiteralNode, Map, Node, Pos


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
    """Write one name of a scope: ``ctx.x``, ``iter.y``, ``step.z``, ``vars.w``.

    ``op`` is ``set`` or a reducer.
    """

    scope: Literal["ctx", "iter", "step", "vars"]
    name: str
    value: Node
    op: str = "set"
    pos: Pos = Pos()


class RetryAction(msgspec.Struct, frozen=True, tag="retry", tag_field="a"):
    """Run the same call again.

    ``attempts`` counts total tries (literal or template rendering to int).

    ``backoff``: ``none``/``fixed`` = ``delay``; ``linear`` = ``delay·n``; ``exponential`` = ``delay·multiplier^(n-1)``.
    ``exhausted``: what happens when no try is left — ``fail`` (canonical) or ``next_rule`` (event form: counts as no match).
    """

    attempts: Node
    delay: Node
    backoff: Literal["none", "linear", "exponential"] = "exponential"
    multiplier: Node = LiteralNode(2)
    max_delay: Node | None = None
    jitter: Node | None = None
    exhausted: Literal["fail", "next_rule"] = "fail"
    pos: Pos = Pos()


class JumpAction(msgspec.Struct, frozen=True, tag="jump", tag_field="a"):
    """Continue at the task labelled ``to`` (``previous``: the task before this one)."""

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
    """Run the own tool again, with ``overrides`` merged over the last rendered params.

    The merge is deep. Pagination uses it.
    """

    overrides: Node
    pos: Pos = Pos()


class CollectAction(msgspec.Struct, frozen=True, tag="collect", tag_field="a"):
    """Gather a value into ``ctx.<into>``, ordered by iteration, then page.

    ``mode``: append | extend | merge | replace.
    """

    source: Node
    into: str
    mode: Literal["append", "extend", "merge", "replace"] = "append"
    pos: Pos = Pos()


class SinkAction(msgspec.Struct, frozen=True, tag="sink", tag_field="a"):
    """Write with a tool; never changes the result, its failure fails the step."""

    with_tasks: ClassVar = ("task",)
    task: Task
    when: Node | None = None


class RunAction(msgspec.Struct, frozen=True, tag="run", tag_field="a"):
    """Labelled inline tasks of a ``then`` list, run as one sequence before its ``next``."""

    with_tasks: ClassVar = ("tasks",)
    tasks: tuple[Task, ...]


class ResultAction(msgspec.Struct, frozen=True, tag="result", tag_field="a"):
    """Replace the step's result."""

    value: Node


class GoTo(msgspec.Struct, frozen=True):
    step: str
    args: Node | None = None
    pos: Pos = Pos()


class NextAction(msgspec.Struct, frozen=True, tag="next", tag_field="a"):
    """Go to these steps instead of the structural ``next``; break the loop in an iteration."""

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
    """A guard ``when`` (``None``: always, an ``else``) and its ``actions``, in order.

    The first rule that matches wins.

    ``events`` limits a rule to boundaries the compiler could prove from ``event.name == '…'``; empty: any. ``unnamed``: an entry
    of a ``case`` whose guard tests no event.
    """

    with_tasks: ClassVar = ("actions",)
    actions: tuple[Action, ...]
    when: Node | None = None
    events: tuple[str, ...] = ()
    pos: Pos = Pos()
    unnamed: bool = False


# --- what a worker runs -------------------------------------------------------------------------


class ResultSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a result is kept: inline limit in bytes, tier wish, selections ``(path, as)``.

    The selections are promoted.
    """

    inline_max_bytes: int | None = None
    preview_max_bytes: int | None = None
    store: str | None = None
    scope: str | None = None
    ttl: str | None = None
    compression: str | None = None
    select: tuple[tuple[str, str], ...] = ()


class StepRetry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event form's step-level ``retry``: an action with ``retry_when`` and ``stop_when``."""

    action: RetryAction
    retry_when: Node | None = None
    stop_when: Node | None = None


class CacheSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """``cache``: a call takes the result of an earlier one of the same key.

    ``ttl``: the seconds for which a result is taken. ``key`` None: what the call is made of; ``names`` are what its code reads besides
    its input. A key that is null or an empty text: this
    call has no cache.
    """

    ttl: Node
    key: Node | None = None
    names: tuple[str, ...] = ()
    pos: Pos = Pos()


class Gather(msgspec.Struct, frozen=True, omit_defaults=True):
    """``output.accumulate``: the results of a task's successful runs become one value.

    That value is then the task's result. ``path``: the part of each result that is gathered (``$.data.items``; empty: all of it).
    ``merge_path``: where in the latest result the gathered value is placed (empty: it is the result itself).
    """

    strategy: Literal["append", "replace", "merge", "concat"] = "append"
    path: str = ""
    merge_path: str = ""
    pos: Pos = Pos()


class Nested(msgspec.Struct, frozen=True, omit_defaults=True):
    """A loop inside one run: the kind ``iterator`` as a task.

    ``tasks`` run for one element after the other, on one worker.
    """

    with_tasks: ClassVar = ("tasks",)
    collection: Node
    iterator: str
    tasks: tuple[Task, ...]
    max_in_flight: Node | None = None
    failure: Literal["fail_fast", "best_effort"] = "fail_fast"
    pos: Pos = Pos()


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of a tool.

    ``params`` is rendered when the task runs and given to the kind. ``input`` (``args``/``input``/``with`` of the tool) is rendered
    first and visible to ``params`` as ``input.x``, ``args.x`` and bare ``x``; the python kind receives it as its arguments.
    ``rules`` answer the task's outcome. ``form == "event"`` tasks offer ``call.error`` then ``call.done`` to ``rules``
    (event names in scope); canonical tasks evaluate ``rules`` with ``outcome`` in scope.
    ``default_on_unmatched``: what happens when ``rules`` exist and none matches an error: ``fail`` or ``continue``.
    """

    with_tasks: ClassVar = ("rules", "sinks", "nested", "choices")
    label: str
    kind: str
    params: Node
    input: Node | None = None
    rules: tuple[Rule, ...] = ()
    form: Literal["event", "canonical"] = "canonical"
    retry: StepRetry | None = None
    cache: CacheSpec | None = None
    on_unmatched: Literal["fail", "continue"] = "fail"
    sets: tuple[SetAction, ...] = ()
    timeout: Node | None = None
    result: ResultSpec | None = None
    sinks: tuple[SinkAction, ...] = ()
    """A workbook task's own sinks, run right after it succeeded."""
    nested: Nested | None = None
    """The loop that takes the place of a call (kind ``iterator``)."""
    choose: Node | None = None
    """Name of the workbook task to run, computed when the task is reached; ``choices`` are the tasks it may name, by name."""
    choices: tuple[tuple[str, Task], ...] = ()
    gather: Gather | None = None
    meaning: int = 1
    """The meaning of the language that it was compiled with (``dsl/versions.py``)."""
    part: tuple[str, ...] = ()
    """``output.path``: keys that lead to the part of what the tool gave which is the task's result."""
    alias: str = ""
    """``output.as``: a second label of the result."""
    long: bool = False
    """``spec.long``: it takes longer than a function may, and belongs to a worker that has no end."""
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

    with_tasks: ClassVar = ("tasks", "sinks")
    tasks: tuple[Task, ...]
    vars: tuple[tuple[str, Node], ...] = ()
    vars_before: tuple[tuple[str, Node], ...] = ()
    vars_after: tuple[tuple[str, Node], ...] = ()
    sinks: tuple[SinkAction, ...] = ()
    reads: Reads = Reads()
    pool: str = "io"
    """Where it runs: the pool of its most demanding kind (``control``: in the engine, without a message)."""
    tells_around: bool = False
    """Templates at the step's end may read what came around the result (status code, headers, ``meta``): it is reported with it."""
    meaning: int = 1
    """The meaning of the language that it was compiled with."""
    names_itself: bool = False
    """By the name of its step, templates read what the last call returned."""
    calls_back: bool = False
    """It may wait for a callback, so its templates know ``callback.url``."""


# --- tasks ---


def tasks_in(part: Any) -> list[Task]:
    """Return every task below ``part``: the pipeline's, those of sinks and inline tasks.

    A struct names in ``with_tasks`` the fields below which a task can be: nearly all of a program is templates and values.
    """
    found: list[Task] = []
    _find_tasks(part, found)
    return found


def _find_tasks(part: Any, found: list[Task]) -> None:
    if isinstance(part, (tuple, list)):
        for item in part:
            _find_tasks(item, found)
    elif isinstance(part, msgspec.Struct):
        if isinstance(part, Task):
            found.append(part)
        for name in getattr(part, "with_tasks", ()):
            _find_tasks(getattr(part, name), found)


def calls_back_task(task: Task) -> bool:
    """Report whether a task is a ``wait`` that may wait for a callback."""
    if task.kind != "wait":
        return False
    params = task.params
    given = (
        params.value
        if isinstance(params, LiteralNode)
        else dict(params.entries)
        if isinstance(params, Map)
        else None
    )
    return isinstance(given, dict) and bool(given.keys() & {"callback", "approve"})
