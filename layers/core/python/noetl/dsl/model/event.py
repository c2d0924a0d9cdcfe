"""The event form: ``case``, ``retry``, ``sink`` and their actions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from noetl.dsl.model.retries import RetryRule
from noetl.dsl.model.tasks import NamedTask, SinkBlock, TaskBody
from noetl.dsl.model.types import (
    Guard,
    SetBlock,
    StepRef,
    Strict,
    TaskLabel,
    TextLike,
)


class GoTo(Strict):
    step: StepRef
    args: Any = None
    input: Any = None


def _target(value: Any) -> str:
    return "<step>" if isinstance(value, dict) else "<name>"


Target = Annotated[Annotated[StepRef, Tag("<name>")] | Annotated[GoTo, Tag("<step>")], Discriminator(_target)]


def _targets(value: Any) -> str:
    return "<list>" if isinstance(value, list) else _target(value)


Targets = Annotated[
    Annotated[StepRef, Tag("<name>")]
    | Annotated[GoTo, Tag("<step>")]
    | Annotated[list[Target], Tag("<list>")],
    Discriminator(_targets),
]


class Collect(Strict):
    from_: Any = Field(default=None, alias="from")
    path: str | None = None
    into: str
    mode: Literal["append", "extend", "merge", "replace"] | None = None
    strategy: Literal["append", "extend", "merge", "replace"] | None = None


class Message(Strict):
    message: TextLike | None = None


def _message(value: Any) -> str:
    return (
        "<message>" if isinstance(value, dict) else "<flag>" if value is True or value is None else "<text>"
    )


Ending = Annotated[
    Annotated[Message, Tag("<message>")]
    | Annotated[bool | None, Tag("<flag>")]
    | Annotated[TextLike, Tag("<text>")],
    Discriminator(_message),
]


class Actions(Strict):
    """One or more actions, done in the order they are written."""

    call: dict[str, Any] | None = None
    retry: RetryRule = None
    collect: Collect | None = None
    sink: SinkBlock | None = None
    set: SetBlock | None = None
    result: Any = None
    next: Targets | None = None
    fail: Ending = None
    skip: Ending = None


ACTIONS = frozenset(Actions.model_fields)


def is_inline_task(value: Any) -> bool:
    """Report whether a ``then`` entry is a task: ``{name: t, kind: …}``, ``{t: {kind: …}}``."""
    if not isinstance(value, dict):
        return False
    if "kind" in value:
        return True
    if len(value) != 1:
        return False
    label, body = next(iter(value.items()))
    return label not in ACTIONS and isinstance(body, dict) and "kind" in body


def _action(value: Any) -> str:
    if not is_inline_task(value):
        return "<actions>"
    return "<task>" if "kind" in value else "<label>"


ActionItem = Annotated[
    Annotated[Actions, Tag("<actions>")]
    | Annotated[NamedTask, Tag("<task>")]
    | Annotated[dict[TaskLabel, TaskBody], Tag("<label>")],
    Discriminator(_action),
]


def _then(value: Any) -> str:
    return "<list>" if isinstance(value, list) else "<actions>"


Then = Annotated[
    Annotated[Actions, Tag("<actions>")] | Annotated[list[ActionItem], Tag("<list>")], Discriminator(_then)
]


class CaseEntry(Strict):
    when: Guard
    then: Then
