"""Answers a stack operation when it is complete.

The CDK looks at once, then only every five seconds: with eight stacks that would be most of a deployment.
"""

from __future__ import annotations

import asyncio
import functools
from contextvars import ContextVar
from typing import Any

PATIENCE_SECONDS = 25.0
"""Shorter than the time after which clients give up on an answer."""

_begun: ContextVar[list[asyncio.Task[Any]] | None] = ContextVar("noetl_begun", default=None)


def improve() -> None:
    """Patch the emulator (its version is pinned)."""
    from ministack.services import cloudformation
    from ministack.services.cloudformation import changesets, handlers, stacks

    for module in (changesets, handlers):
        module._create_stack_task_in_region = functools.partial(_begin, stacks)
    cloudformation.handle_request = functools.partial(_answer_when_done, cloudformation.handle_request)


def _begin(stacks: Any, operation: Any, stack: Any, stack_id: str | None = None) -> None:
    with stacks._stack_region_context(stack, stack_id):
        task = asyncio.get_running_loop().create_task(operation)
    begun = _begun.get()
    if begun is not None:
        begun.append(task)


async def _answer_when_done(handle: Any, *request: Any) -> Any:
    begun: list[asyncio.Task[Any]] = []
    scope = _begun.set(begun)
    try:
        answer = await handle(*request)
    finally:
        _begun.reset(scope)
    if begun:
        await asyncio.wait(begun, timeout=PATIENCE_SECONDS)
    return answer
