"""Steps and the document around them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from noetl.domain.limits import MOST
from noetl.domain.outcomes.step_ends import ERROR_KINDS
from noetl.domain.sizes.table import MODULES, REQUIREMENTS, STEPS
from noetl.dsl.model.caches import Cache
from noetl.dsl.model.endings import Last
from noetl.dsl.model.event import CaseEntry, GoTo, Target
from noetl.dsl.model.retries import Retry
from noetl.dsl.model.starts import ScheduleBlock, Trigger
from noetl.dsl.model.tasks import (
    OutputBlock,
    ResultBlock,
    SinkBlock,
    TaskBody,
    TaskTimeout,
    Tool,
    check_rule_shape,
)
from noetl.dsl.model.types import (
    Collection,
    Cost,
    Count,
    Guard,
    Identifier,
    IteratorName,
    Lifetime,
    Period,
    Priority,
    Rate,
    Seconds,
    SetBlock,
    StepName,
    StepRef,
    Strict,
    TextLike,
    VarsBlock,
    problem,
)

# --- step spec ---


def _allow(value: Any) -> Any:
    if isinstance(value, bool) or value == "skip":
        return value
    raise problem(
        "wrong-type",
        f"`allow` is true, false or skip, not {value!r}",
        "true fires, false parks, skip drops the run",
    )


class AdmitThen(Strict):
    allow: Annotated[Any, PlainValidator(_allow), WithJsonSchema({"enum": [True, False, "skip"]})]


class AdmitElse(Strict):
    then: AdmitThen


class AdmitRule(Strict):
    when: Guard = None
    then: AdmitThen | None = None
    else_: AdmitElse | None = Field(default=None, alias="else")

    @model_validator(mode="after")
    def _one_shape(self) -> AdmitRule:
        check_rule_shape(self.model_fields_set)
        return self


class Admit(Strict):
    mode: Literal["exclusive"] = "exclusive"
    rules: list[AdmitRule] = Field(min_length=1)
    timeout: Seconds = None


class Lifecycle(Strict):
    timeout_s: Seconds = None
    deadline_s: Seconds = None


class Failure(Strict):
    mode: Literal["fail_fast", "best_effort"]


class SharedPolicy(Strict):
    lifecycle: Lifecycle | None = None
    failure: Failure | None = None
    on_unmatched: Literal["fail", "continue"] | None = None


class StepPolicy(SharedPolicy):
    admit: Admit | None = None


def _join(value: Any) -> Any:
    if value in ("sync", "each", "any", "all"):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise problem(
        "wrong-type", f"`join` cannot be {value!r}", "write sync, all, any, each, or a number of arrivals"
    )


JoinWord = Annotated[
    Any,
    PlainValidator(_join),
    WithJsonSchema({"anyOf": [{"enum": ["sync", "all", "any", "each"]}, {"type": "integer", "minimum": 1}]}),
]
_WAIT_SCHEMA: dict[str, Any] = {"anyOf": [{"enum": ["any", "all"]}, {"type": "integer", "minimum": 1}]}


def _wait(value: Any) -> Any:
    if value in ("any", "all") or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise problem("wrong-type", f"`wait` cannot be {value!r}", "write any, all, or a number of arrivals")


class JoinBlock(Strict):
    wait: Annotated[Any, PlainValidator(_wait), WithJsonSchema(_WAIT_SCHEMA)]
    of: Literal["arcs", "arrivals"] | None = None
    rest: Literal["absorb", "hold", "cancel"] | None = None


def _join_shape(value: Any) -> str:
    return "<more>" if isinstance(value, dict) else "<word>"


Join = Annotated[
    Annotated[JoinWord, Tag("<word>")] | Annotated[JoinBlock, Tag("<more>")], Discriminator(_join_shape)
]


def _cancels(value: Any) -> Any:
    if value == "all":
        return value
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return value
    shown = f"; for one step write cancels: [{value}]" if isinstance(value, str) else ""
    raise problem("wrong-type", f"`cancels` cannot be {value!r}", f"write a list of steps, or all{shown}")


Cancels = Annotated[
    Any,
    PlainValidator(_cancels),
    WithJsonSchema(
        {"anyOf": [{"const": "all"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    ),
]


def _on_error(value: Any) -> str:
    return "<step>" if isinstance(value, dict) else "<name>"


OnError = Annotated[
    Annotated[StepRef, Tag("<name>")] | Annotated[GoTo, Tag("<step>")], Discriminator(_on_error)
]
"""``fail``, ``continue``, or where to go."""


class LimitBlock(Strict):
    key: TextLike
    concurrent: Count = None
    rate: Rate = None
    per: Period = None
    burst: Count = None

    @model_validator(mode="after")
    def _one_kind(self) -> LimitBlock:
        given = self.model_fields_set
        if not given & {"concurrent", "rate"}:
            raise problem(
                "missing-key",
                "the limit bounds nothing",
                "add concurrent: N (at once), or rate: N (every `per` seconds)",
            )
        if given & {"per", "burst"} and "rate" not in given:
            raise problem("missing-key", "`per` and `burst` belong to a `rate`", "add rate: N")
        return self


class ConcurrencyBlock(Strict):
    limit: Count
    key: TextLike | None = None
    on_excess: Literal["queue", "refuse", "cancel_oldest"] = "queue"


class StepSpec(Strict):
    policy: StepPolicy | None = None
    timeout: Seconds = None
    join: Join = "sync"
    cancels: Cancels = None
    mutex: TextLike | None = None
    limits: list[LimitBlock] | None = Field(default=None, min_length=1, max_length=MOST)
    result: ResultBlock | None = None
    on_error: OnError | None = None
    compensate: Tool | None = None


# --- loop and next ---


class LoopPolicy(Strict):
    exec: Literal["distributed", "local"] | None = None
    failure: Failure | None = None


class LoopSpec(Strict):
    mode: Literal["sequential", "parallel", "async"] = "sequential"
    max_in_flight: Count = None
    policy: LoopPolicy | None = None
    result: ResultBlock | None = None


class LoopBlock(Strict):
    in_: Collection = Field(alias="in")
    iterator: IteratorName
    mode: Literal["sequential", "parallel", "async"] | None = None
    max_in_flight: Count = None
    spec: LoopSpec | None = None


class NextSpec(Strict):
    mode: Literal["exclusive", "inclusive", "all"] = "exclusive"
    on_no_match: Literal["complete", "quiet"] | None = None


def _ends(value: Any) -> Any:
    words = value if isinstance(value, list) else [value]
    if not words or len(words) > _MOST_ENDS:
        raise problem(
            "wrong-type", f"`on` has {len(words)} words", f"write a word, or a list of 1 to {_MOST_ENDS}"
        )
    for word in words:
        if isinstance(word, (int, float)) and not isinstance(word, bool):
            spelled = (
                f"http_{word}" if 400 <= word < 600 else "the code in quotes: without them it is a number"
            )
            raise problem("wrong-type", f"`on` cannot be {word!r}", f"write {spelled}")
        if not isinstance(word, str) or not _END.match(word):
            raise problem("wrong-type", f"`on` cannot be {str(word)[:60]!r}", _END_HINT)
    return value


_MOST_ENDS = 20
_END = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}\Z")
_END_HINT = "write done, failed, loop.done, or the code or kind of an error, such as callback_timeout"
_OFTEN = ("callback_timeout", "admission_timeout", "step_timeout", "retry_exhausted")
"""Codes that editors offer beside the kinds of errors."""
_END_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": ["done", "failed", "loop.done", *_OFTEN, *sorted(ERROR_KINDS)]},
        {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$"},
    ]
}
Ends = Annotated[
    Any,
    PlainValidator(_ends),
    WithJsonSchema(
        {
            "anyOf": [
                *_END_SCHEMA["anyOf"],
                {"type": "array", "items": _END_SCHEMA, "minItems": 1, "maxItems": _MOST_ENDS},
            ]
        }
    ),
]
"""How a step may end."""


class ArcBlock(Strict):
    step: StepRef
    on: Ends = None
    when: Guard = None
    args: Any = None
    input: Any = None
    set: SetBlock | None = None
    set_ctx: SetBlock | None = None


class NextBlock(Strict):
    spec: NextSpec | None = None
    arcs: list[ArcBlock]


def _next(value: Any) -> str:
    if isinstance(value, list):
        return "<list>"
    if isinstance(value, dict):
        return "<step>" if "step" in value and "arcs" not in value else "<arcs>"
    return "<name>"


Next = Annotated[
    Annotated[StepRef, Tag("<name>")]
    | Annotated[GoTo, Tag("<step>")]
    | Annotated[list[Target], Tag("<list>")]
    | Annotated[NextBlock, Tag("<arcs>")],
    Discriminator(_next),
]


class StepBlock(Strict):
    step: StepName
    as_: StepName | None = Field(default=None, alias="as")
    desc: str | None = None
    args: Any = None
    input: Any = None
    loop: LoopBlock | None = None
    tool: Tool | None = None
    vars: VarsBlock | None = None
    case: list[CaseEntry] | None = None
    retry: Retry = None
    cache: Cache = None
    sink: SinkBlock | None = None
    set: SetBlock | None = None
    set_ctx: SetBlock | None = None
    output: OutputBlock | None = None
    spec: StepSpec | None = None
    next: Next | None = None


# --- document ---


class Metadata(Strict):
    name: TextLike
    path: str | None = None
    version: TextLike | None = None
    description: str | None = None
    labels: dict[str, TextLike] | None = None
    schedule: ScheduleBlock | None = None
    triggers: list[Trigger] | None = Field(default=None, min_length=1)


class KeychainBlock(Strict):
    model_config = ConfigDict(extra="allow", strict=True)

    name: Identifier
    kind: str


class BudgetBlock(Strict):
    calls: Count = None
    cost: Cost = None
    time: Lifetime = None


class StepDefaults(Strict):
    """``executor.spec.defaults``: what tasks do that say nothing else."""

    retry: Retry = None
    timeout: TaskTimeout | None = None


class ExecutorSpec(Strict):
    entry_step: StepRef | None = None
    final_step: StepRef | None = None
    no_next_is_error: bool = False
    on_error: OnError | None = None
    timeout: Seconds = None
    concurrency: ConcurrencyBlock | None = None
    budget: BudgetBlock | None = None
    priority: Priority = None
    policy: SharedPolicy | None = None
    result: ResultBlock | None = None
    defaults: StepDefaults | None = None
    requirements: list[str] | None = Field(default=None, max_length=REQUIREMENTS.value)


class ExecutorBlock(Strict):
    kind: str | None = None
    profile: str | None = None
    version: TextLike | None = None
    spec: ExecutorSpec | None = None


class WorkbookTask(Strict):
    """A task of the workbook, ``tool`` apart from its ``sink``."""

    tool: TaskBody
    sink: SinkBlock | None = None
    desc: str | None = None


class NamedWorkbookTask(WorkbookTask):
    name: Identifier


def _workbook_task(value: Any) -> str:
    return "<tool>" if isinstance(value, dict) and "kind" in value and "tool" not in value else "<task>"


def _workbook(value: Any) -> str:
    return "<names>" if isinstance(value, dict) else "<list>"


WorkbookEntry = Annotated[
    Annotated[WorkbookTask, Tag("<task>")] | Annotated[TaskBody, Tag("<tool>")], Discriminator(_workbook_task)
]
Workbook = Annotated[
    Annotated[list[NamedWorkbookTask], Tag("<list>")] | Annotated[dict[str, WorkbookEntry], Tag("<names>")],
    Discriminator(_workbook),
]


MAX_STEPS = STEPS.value
"""A program lists what every step can reach: its size grows with the square of this."""


class Document(Strict):
    api_version: Literal["noetl.io/v2"] = Field(alias="apiVersion")
    kind: Literal["Playbook"]
    metadata: Metadata
    workload: dict[str, Any] | None = None
    input: dict[str, Any] | None = None
    modules: list[str] | None = Field(default=None, max_length=MODULES.value)
    keychain: list[KeychainBlock] | None = None
    executor: ExecutorBlock | None = None
    workbook: Workbook | None = None
    workflow: list[StepBlock] = Field(min_length=1, max_length=MAX_STEPS)
    on_success: Last | None = None
    on_failure: Last | None = None
    finally_: Last | None = Field(default=None, alias="finally")
