"""Tools and tasks, which both forms share, and the canonical form's policies."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from noetl.domain.durations import HINT, PATTERN
from noetl.domain.errors import InvalidInputError
from noetl.domain.results.retention import ttl_seconds
from noetl.dsl.expressions import has_template
from noetl.dsl.model.caches import Cache
from noetl.dsl.model.retries import Retry
from noetl.dsl.model.types import (
    Attempts,
    Bytes,
    Factor,
    Guard,
    Seconds,
    SetBlock,
    Strict,
    TaskLabel,
    TextLike,
    VarsBlock,
    problem,
)

_PLACE = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_\-]*|\[\d+\])*\Z")
PART = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_\-]*)+\Z")


class Timeouts(Strict):
    connect: Seconds = None
    read: Seconds = None


def _timeout(value: Any) -> str:
    return "<parts>" if isinstance(value, dict) else "<seconds>"


TaskTimeout = Annotated[
    Annotated[Seconds, Tag("<seconds>")] | Annotated[Timeouts, Tag("<parts>")], Discriminator(_timeout)
]


_SELECTED = r"(?:\$|[^$.\[\]\s][^.\[\]]*)(?:\.[^.\[\]]+|\[[0-9]+\])*"


def _selected(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(_SELECTED, value):
        return value
    raise problem("wrong-value", f"{value!r} is not a path", "write $.data.items, or $.rows[0].id")


SelectedPath = Annotated[
    str, PlainValidator(_selected), WithJsonSchema({"type": "string", "pattern": f"^{_SELECTED}$"})
]


class Selection(Strict):
    path: SelectedPath
    as_: TaskLabel = Field(alias="as")


def _ttl(value: Any) -> Any:
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise problem("wrong-type", f"`ttl` cannot be {value!r}", HINT)
        ttl_seconds(str(value))
    except InvalidInputError as error:
        raise problem("wrong-value", f"`ttl`: {error.message}", error.hint) from error
    return value


TTL_SCHEMA: dict[str, Any] = {
    "type": ["string", "number"],
    "pattern": PATTERN,
}
Ttl = Annotated[Any, PlainValidator(_ttl), WithJsonSchema(TTL_SCHEMA)]
Scope = Literal["step", "execution", "workflow", "permanent"] | None
Compression = Literal["none", "gzip", "auto", "zstd"] | None


def _check_life(scope: str | None, ttl: Any) -> None:
    if scope == "permanent" and ttl is not None:
        raise problem(
            "wrong-value",
            "a permanent result has no time to live",
            "remove `ttl`, or choose scope execution",
        )


def _tier(value: Any) -> Any:
    if value is None or (isinstance(value, str) and not has_template(value)):
        return value
    if isinstance(value, str):
        raise problem(
            "wrong-value",
            f"`store` cannot be the template {value!r}: where results go is known before the playbook runs",
            "write the name of a tier: auto, kv, disk, s3, …",
        )
    raise problem(
        "wrong-type", f"`store` must be the name of a tier, not {value!r}", "write auto, kv, disk, s3, …"
    )


Tier = Annotated[str | None, PlainValidator(_tier), WithJsonSchema({"type": ["string", "null"]})]


class StoreSpec(Strict):
    kind: Tier = None
    scope: Scope = None
    ttl: Ttl = None
    compression: Compression = None

    @model_validator(mode="after")
    def _fits(self) -> StoreSpec:
        _check_life(self.scope, self.ttl)
        return self


def _store(value: Any) -> str:
    return "<parts>" if isinstance(value, dict) else "<kind>"


Store = Annotated[
    Annotated[Tier, Tag("<kind>")] | Annotated[StoreSpec, Tag("<parts>")], Discriminator(_store)
]


def _select(value: Any) -> str:
    return "<names>" if isinstance(value, dict) else "<list>"


Select = Annotated[
    Annotated[list[Selection], Tag("<list>")] | Annotated[dict[str, SelectedPath], Tag("<names>")],
    Discriminator(_select),
]


class ResultBlock(Strict):
    """``spec.result``."""

    inline_max_bytes: Bytes | None = None
    preview_max_bytes: Bytes | None = None
    store: Store | None = None
    select: Select | None = None


class OutputBlock(ResultBlock):
    """``output``: the same wishes in their newest spelling, flat."""

    scope: Scope = None
    ttl: Ttl = None
    compression: Compression = None

    @model_validator(mode="after")
    def _lives(self) -> OutputBlock:
        store = self.store if isinstance(self.store, StoreSpec) else StoreSpec()
        _check_life(store.scope or self.scope, self.ttl if store.ttl is None else store.ttl)
        return self


def _path(value: Any) -> Any:
    if isinstance(value, str) and PART.match(value):
        return value
    raise problem("wrong-value", f"`path` cannot be {value!r}", "write $.data, or $.data.items")


def _place(value: Any) -> Any:
    if isinstance(value, str) and _PLACE.match(value):
        return value
    raise problem("wrong-value", f"{value!r} is not a path", "write $.data.items, or $.rows[0].id")


class Accumulate(Strict):
    """``output.accumulate``: the results of a task's successful runs become one value."""

    strategy: Literal["append", "replace", "merge", "concat"] = "append"
    path: Annotated[str | None, PlainValidator(_place), WithJsonSchema({"type": "string"})] = None
    merge_path: Annotated[str | None, PlainValidator(_path), WithJsonSchema({"type": "string"})] = None


class TaskOutput(OutputBlock):
    """``output`` of a task. ``path``: the part of the tool's result that is the task's."""

    accumulate: Accumulate | None = None
    as_: TaskLabel | None = Field(default=None, alias="as")

    path: Annotated[str | None, PlainValidator(_path), WithJsonSchema({"type": "string"})] = None


class RuleThen(Strict):
    """What a policy rule does."""

    do: Literal["continue", "retry", "jump", "break", "fail", "skip"] = "continue"
    attempts: Attempts = None
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    multiplier: Factor = None
    delay: Seconds = None
    max_delay: Seconds = None
    jitter: Any = None
    to: TaskLabel | None = None
    message: TextLike | None = None
    set: SetBlock | None = None
    set_ctx: SetBlock | None = None
    set_iter: SetBlock | None = None
    result: Any = None
    sink: SinkBlock | None = None

    @model_validator(mode="after")
    def _fits(self) -> RuleThen:
        given = self.model_fields_set
        if self.do == "jump" and self.to is None:
            raise problem("missing-key", "`do: jump` does not say where to", "add `to: <task label>`")
        for owner, keys in (
            ("retry", ("attempts", "backoff", "multiplier", "delay", "max_delay", "jitter")),
            ("jump", ("to",)),
            ("fail", ("message",)),
        ):
            for key in keys:
                if key in given and self.do != owner and (key, self.do) != ("message", "skip"):
                    raise problem(
                        "misplaced-key",
                        f"`{key}` belongs to `do: {owner}`, not to `do: {self.do}`",
                        f"remove `{key}`",
                    )
        return self


class RuleElse(Strict):
    then: RuleThen


class PolicyRule(Strict):
    when: Guard = None
    then: RuleThen | None = None
    else_: RuleElse | None = Field(default=None, alias="else")

    @model_validator(mode="after")
    def _one_shape(self) -> PolicyRule:
        check_rule_shape(self.model_fields_set)
        return self


def check_rule_shape(given: set[str]) -> None:
    """Check that a rule is ``when`` + ``then``, or ``else`` alone."""
    if "else_" in given:
        if len(given) > 1:
            raise problem(
                "misplaced-key", "`else` must be alone in its rule", "write `- else: { then: { … } }`"
            )
    elif "then" not in given:
        raise problem("missing-key", "the rule has no `then`", "write `- when: … ` with `then: { … }`")
    elif "when" not in given:
        raise problem(
            "missing-key", "the rule has no `when`", "add `when`, or write `- else: { then: { … } }`"
        )


class TaskFailure(Strict):
    """What a failed iteration of an iterator does to the others."""

    mode: Literal["fail_fast", "best_effort"]


def _reserved(value: Any) -> Any:
    if value is None or value == []:
        return value
    raise problem(
        "reserved-key",
        "`before`, `after` and `finally` are reserved: only an empty list may stand there",
        "add tasks before or after this one",
    )


Reserved = Annotated[Any, PlainValidator(_reserved), WithJsonSchema({"type": "array", "maxItems": 0})]


class TaskPolicy(Strict):
    mode: Literal["exclusive"] = "exclusive"
    rules: list[PolicyRule] = Field(default_factory=list)
    on_unmatched: Literal["fail", "continue"] | None = None
    failure: TaskFailure | None = None
    before: Reserved = None
    after: Reserved = None
    finally_: Reserved = Field(default=None, alias="finally")


class TaskSpec(Strict):
    timeout: TaskTimeout | None = None
    long: bool = False
    policy: TaskPolicy | None = None
    result: ResultBlock | None = None


def _kind(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    raise problem(
        "wrong-type", f"`kind` names a tool kind, not {value!r}", "write kind: http, kind: python, …"
    )


def _inner(value: Any) -> str:
    """Name the shape under ``task``: an iterator's tasks, or another kind's parameter."""
    if isinstance(value, list):
        return "<tasks>"
    if isinstance(value, dict) and "kind" in value:
        return "<tool>"
    return "<wrapped>" if isinstance(value, dict) and "tool" in value else "<any>"


InnerTask = Annotated[
    Annotated["TaskBody", Tag("<tool>")]
    | Annotated["WrappedTask", Tag("<wrapped>")]
    | Annotated[list["TaskEntry"], Tag("<tasks>"), Field(min_length=1)]
    | Annotated[Any, Tag("<any>"), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})],
    Discriminator(_inner),
]


class TaskBody(Strict):
    """One call of a tool; every other key is a parameter of its kind, checked by the kind."""

    model_config = ConfigDict(extra="allow", strict=True)

    kind: Annotated[str, PlainValidator(_kind), WithJsonSchema({"type": "string"})]
    args: Any = None
    input: Any = None
    with_: Any = Field(default=None, alias="with")
    desc: str | None = None
    spec: TaskSpec | None = None
    set: SetBlock | None = None
    set_ctx: SetBlock | None = None
    set_iter: SetBlock | None = None
    output: TaskOutput | None = None
    retry: Retry = None
    cache: Cache = None
    vars: VarsBlock | None = None
    task: InnerTask = None


class WrappedTask(Strict):
    """An iterator's task, ``tool`` apart from its ``sink``."""

    tool: TaskBody
    sink: SinkBlock | None = None
    vars: VarsBlock | None = None
    name: TaskLabel | None = None
    desc: str | None = None


class SinkBlock(Strict):
    """Where something is written: its failure fails the step, its result changes nothing."""

    tool: TaskBody
    when: Guard = None
    table: Any = None
    args: Any = None


class NamedTask(TaskBody):
    name: TaskLabel | None = None


def task_entry(value: Any) -> str:
    """Return the tag of an entry in a list of tasks."""
    if isinstance(value, dict) and len(value) == 1:
        key, body = next(iter(value.items()))
        if key not in ("kind", "name") and isinstance(body, dict):
            return "<label>"
    return "<task>"


LabelledTask = dict[TaskLabel, TaskBody]
TaskEntry = Annotated[
    Annotated[NamedTask, Tag("<task>")] | Annotated[LabelledTask, Tag("<label>")], Discriminator(task_entry)
]


def _tool(value: Any) -> str:
    return "<tasks>" if isinstance(value, list) else "<tool>"


Tool = Annotated[
    Annotated[TaskBody, Tag("<tool>")] | Annotated[list[TaskEntry], Tag("<tasks>"), Field(min_length=1)],
    Discriminator(_tool),
]

for _model in (
    TaskBody,
    WrappedTask,
    SinkBlock,
    NamedTask,
    RuleThen,
    RuleElse,
    PolicyRule,
    TaskPolicy,
    TaskSpec,
):
    _model.model_rebuild()
