"""Tools and tasks: the part of the document that both forms share, and the canonical form's policies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from noetl.dsl.model.types import (
    Attempts,
    Bytes,
    Guard,
    Seconds,
    SetBlock,
    Strict,
    TaskLabel,
    TextLike,
    problem,
)


class Timeouts(Strict):
    connect: Seconds = None
    read: Seconds = None


def _timeout(value: Any) -> str:
    return "<parts>" if isinstance(value, dict) else "<seconds>"


TaskTimeout = Annotated[
    Annotated[Seconds, Tag("<seconds>")] | Annotated[Timeouts, Tag("<parts>")], Discriminator(_timeout)
]


class Selection(Strict):
    path: str
    as_: TaskLabel = Field(alias="as")


class StoreSpec(Strict):
    kind: str | None = None
    scope: Literal["step", "execution", "workflow", "permanent"] | None = None
    ttl: TextLike | None = None
    compression: Literal["none", "gzip", "zstd"] | None = None


def _store(value: Any) -> str:
    return "<parts>" if isinstance(value, dict) else "<kind>"


Store = Annotated[Annotated[str, Tag("<kind>")] | Annotated[StoreSpec, Tag("<parts>")], Discriminator(_store)]


def _select(value: Any) -> str:
    return "<names>" if isinstance(value, dict) else "<list>"


Select = Annotated[
    Annotated[list[Selection], Tag("<list>")] | Annotated[dict[str, str], Tag("<names>")],
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

    scope: Literal["step", "execution", "workflow", "permanent"] | None = None
    ttl: TextLike | None = None
    compression: Literal["none", "gzip", "zstd"] | None = None


class RuleThen(Strict):
    """What a policy rule does."""

    do: Literal["continue", "retry", "jump", "break", "fail"] = "continue"
    attempts: Attempts = None
    backoff: Literal["none", "fixed", "linear", "exponential"] | None = None
    delay: Seconds = None
    max_delay: Seconds = None
    jitter: Any = None
    to: TaskLabel | None = None
    message: TextLike | None = None
    set: SetBlock | None = None
    set_ctx: SetBlock | None = None
    set_iter: SetBlock | None = None

    @model_validator(mode="after")
    def _fits(self) -> RuleThen:
        given = self.model_fields_set
        if self.do == "jump" and self.to is None:
            raise problem("missing-key", "`do: jump` does not say where to", "add `to: <task label>`")
        for owner, keys in (
            ("retry", ("attempts", "backoff", "delay", "max_delay", "jitter")),
            ("jump", ("to",)),
            ("fail", ("message",)),
        ):
            for key in keys:
                if key in given and self.do != owner:
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
    """A rule is ``when`` + ``then``, or ``else`` alone."""
    if "else_" in given:
        if len(given) > 1:
            raise problem(
                "misplaced-key", "`else` stands alone in its rule", "write `- else: { then: { … } }`"
            )
    elif "then" not in given:
        raise problem("missing-key", "the rule has no `then`", "write `- when: … ` with `then: { … }`")
    elif "when" not in given:
        raise problem(
            "missing-key", "the rule has no `when`", "add `when`, or write `- else: { then: { … } }`"
        )


class TaskPolicy(Strict):
    mode: Literal["exclusive"] = "exclusive"
    rules: list[PolicyRule] = Field(default_factory=list)
    on_unmatched: Literal["fail", "continue"] | None = None


class TaskSpec(Strict):
    timeout: TaskTimeout | None = None
    policy: TaskPolicy | None = None
    result: ResultBlock | None = None


def _kind(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    raise problem(
        "wrong-type", f"`kind` names a tool kind, not {value!r}", "write kind: http, kind: python, …"
    )


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
    output: OutputBlock | None = None


class NamedTask(TaskBody):
    name: TaskLabel | None = None


def _entry(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        key, body = next(iter(value.items()))
        if key not in ("kind", "name") and isinstance(body, dict):
            return "<label>"
    return "<task>"


LabelledTask = dict[TaskLabel, TaskBody]
TaskEntry = Annotated[
    Annotated[NamedTask, Tag("<task>")] | Annotated[LabelledTask, Tag("<label>")], Discriminator(_entry)
]


def _tool(value: Any) -> str:
    return "<tasks>" if isinstance(value, list) else "<tool>"


Tool = Annotated[
    Annotated[TaskBody, Tag("<tool>")] | Annotated[list[TaskEntry], Tag("<tasks>"), Field(min_length=1)],
    Discriminator(_tool),
]
