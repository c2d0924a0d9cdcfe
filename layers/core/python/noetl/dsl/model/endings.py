"""Work before the end of an execution: ``finally``, ``on_failure`` and ``on_success``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator

from noetl.dsl.model.retries import Retry
from noetl.dsl.model.tasks import LabelledTask, NamedTask, TaskBody, Tool, task_entry
from noetl.dsl.model.types import Seconds, Strict, TextLike, problem

WAYS = ("webhook", "slack", "event", "playbook")
"""Whom a notification goes to."""


class Notification(Strict):
    """One of ``WAYS``, and what it says."""

    webhook: TextLike | None = None
    slack: TextLike | None = None
    event: TextLike | None = None
    playbook: TextLike | None = None
    text: TextLike | None = None
    retry: Retry = None

    @model_validator(mode="after")
    def _one_way(self) -> Notification:
        given = [way for way in WAYS if way in self.model_fields_set]
        if len(given) > 1:
            raise problem(
                "duplicate-spelling",
                f"a notification goes one way, and this one has `{given[0]}` and `{given[1]}`",
                "write two of them, as a list",
            )
        return self


class LastSpec(Strict):
    timeout: Seconds = None


class LastBlock(Strict):
    """The tasks with what else a step may say."""

    desc: str | None = None
    tool: Tool
    retry: Retry = None
    spec: LastSpec | None = None


def notifies(value: Any) -> bool:
    """Return whether a mapping is a notification, and no task."""
    return (
        isinstance(value, dict) and "kind" not in value and any(type(value.get(way)) is str for way in WAYS)
    )


def _entry(value: Any) -> str:
    return "<notification>" if notifies(value) else task_entry(value)


LastEntry = Annotated[
    Annotated[Notification, Tag("<notification>")]
    | Annotated[NamedTask, Tag("<task>")]
    | Annotated[LabelledTask, Tag("<label>")],
    Discriminator(_entry),
]


def _last(value: Any) -> str:
    if isinstance(value, list):
        return "<list>"
    if notifies(value):
        return "<notification>"
    return "<task>" if isinstance(value, dict) and "kind" in value else "<step>"


Last = Annotated[
    Annotated[Notification, Tag("<notification>")]
    | Annotated[TaskBody, Tag("<task>")]
    | Annotated[LastBlock, Tag("<step>")]
    | Annotated[list[LastEntry], Tag("<list>"), Field(min_length=1)],
    Discriminator(_last),
]
