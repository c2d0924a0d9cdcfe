"""``retry``: of a step or a task, of an entry of ``case``, and the playbook's default."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from noetl.dsl.model.types import Attempts, Factor, Guard, Seconds, Strict

Backoff = Literal["none", "fixed", "linear", "exponential"] | None


class RetryBlock(Strict):
    attempts: Attempts = None
    delay: Seconds = None
    backoff: Backoff = None
    multiplier: Factor = None
    max_delay: Seconds = None
    jitter: Any = None
    max_attempts: Attempts = None
    initial_delay: Seconds = None
    backoff_multiplier: Factor = None


class StepRetryBlock(RetryBlock):
    when: Guard = None
    until: Guard = None
    retry_when: Guard = None
    stop_when: Guard = None


def _retry(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "<flag>"
    return "<block>" if isinstance(value, dict) else "<attempts>"


RetryRule = Annotated[
    Annotated[RetryBlock, Tag("<block>")]
    | Annotated[bool | None, Tag("<flag>")]
    | Annotated[Attempts, Tag("<attempts>")],
    Discriminator(_retry),
]
"""Of an entry of ``case``: it has a guard already."""
Retry = Annotated[
    Annotated[StepRetryBlock, Tag("<block>")]
    | Annotated[bool | None, Tag("<flag>")]
    | Annotated[Attempts, Tag("<attempts>")],
    Discriminator(_retry),
]
