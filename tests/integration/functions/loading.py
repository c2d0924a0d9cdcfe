"""A function's handler, loaded as Lambda loads it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.contract.clouds import mocked_aws

D = TypeVar("D")
FUNCTIONS = Path(__file__).resolve().parents[3] / "functions"


class Context:
    """Lambda's."""

    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def load(function: str) -> Callable[[Any], Any]:
    """The handler of a cold start, which reads its settings from the environment. It takes an event."""
    file = FUNCTIONS / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"{function}_function", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda event: module.handler(event, Context())


@contextmanager
def deployed(make: Callable[[Any, Any], D], database: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[D]:
    """``make(database, client)``, whose ``environment()`` is that of its functions."""
    with mocked_aws(monkeypatch) as client:
        made: Any = make(database, client)
        for name, value in made.environment().items():
            monkeypatch.setenv(name, value)
        yield made
        made.database.close()
