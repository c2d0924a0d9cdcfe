"""A task as the worker would run it, with its log kept."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds.registry import default_registry
from tests.waiting import PATIENCE

_executions = itertools.count(1_000_000)


class Task:
    """Calls one kind for one execution; ``log`` holds the lines of the last call."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.execution_id = next(_executions)
        self.log: list[str] = []
        self.scope: dict[str, Any] = {}
        self.program = "p"

    def run(
        self,
        params: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        *,
        timeout: float = PATIENCE,
        settings: TaskSettings | None = None,
        cancelled=lambda: False,
    ) -> Any:
        """The TaskResult. Raises TaskError."""
        self.log = []
        context = TaskContext(
            execution_id=self.execution_id,
            step="s",
            task="t",
            attempt=1,
            idempotency_key="k",
            timeout=timeout,
            settings=settings or TaskSettings(),
            credential=lambda name: pytest.fail(name),
            cancelled=cancelled,
            log=self.log.append,
            input=given or {},
            lookup=self.scope.__getitem__,
            program=self.program,
        )
        return default_registry().run(self.kind, params, context)

    def error(
        self, params: Mapping[str, Any], given: Mapping[str, Any] | None = None, **options
    ) -> TaskError:
        """The error of a call that must fail."""
        with pytest.raises(TaskError) as caught:
            self.run(params, given, **options)
        return caught.value


@pytest.fixture
def python_task() -> Task:
    """A python task of an execution of its own."""
    return Task("python")


@pytest.fixture
def script_task() -> Task:
    """A script task of an execution of its own."""
    return Task("script")
