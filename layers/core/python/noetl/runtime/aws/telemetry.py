"""Logs and metrics of a deployed function.

Each log line names its execution. One line per invocation contains its metrics, which CloudWatch reads from the log (embedded metric
format).

    with telemetry.invocation(context) as call:
        call.count("Commands", len(deliveries))
        with telemetry.about(command.execution_id):
            telemetry.log("…")

A line costs money and a metric line is a log line, so an invocation writes one for both. ``POWERTOOLS_LOG_LEVEL`` says what else is kept.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any, Literal

from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics

from noetl.runtime.aws.tracing import annotate

NAMESPACE = "NoETL"
SHOWN_IDS = 20
"""Most executions that the line of an invocation names."""

Level = Literal["debug", "info", "warning", "error"]
Unit = Literal["Count", "Seconds", "Milliseconds", "Bytes"]

_execution: ContextVar[int | None] = ContextVar("noetl_execution", default=None)


class Invocation:
    """What one invocation did. Used by its own thread."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.metrics: dict[str, tuple[Unit, float]] = {}
        self.executions: set[int] = set()

    def count(self, name: str, value: float = 1, unit: Unit = "Count") -> None:
        """Add to a metric of this invocation, such as ``RefusedEvents``.

        A metric that was never counted is not sent.
        """
        self.metrics[name] = (unit, self.metrics.get(name, (unit, 0.0))[1] + value)

    def note(self, **fields: Any) -> None:
        """Show these in the line, without a metric."""
        self.fields.update(fields)

    def about(self, executions: Iterable[int]) -> None:
        """The line names these executions (some, when there are many)."""
        self.executions.update(executions)

    def line(self) -> dict[str, Any]:
        shown: dict[str, Any] = dict(self.fields)
        ids = sorted(self.executions)
        if len(ids) == 1:
            shown["execution_id"] = str(ids[0])
        elif ids:
            shown["execution_ids"] = [str(one) for one in ids[:SHOWN_IDS]]
            shown["executions"] = len(ids)
        return shown


class Telemetry:
    """One per process (``telemetry``), safe to share between threads."""

    def __init__(self, service: str | None = None, stream: IO[str] | None = None) -> None:
        """Set up the logs of a service.

        ``service``: POWERTOOLS_SERVICE_NAME when not given. ``stream``: standard error when not given.
        """
        self.service = service or os.environ.get("POWERTOOLS_SERVICE_NAME") or "noetl"
        self.namespace = os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE
        self.logger = Logger(service=self.service, location=None, stream=stream or sys.stderr)
        self.logger.addFilter(_name_execution)
        self.cold = True

    @contextmanager
    def about(self, execution_id: int) -> Iterator[None]:
        """Lines written inside, by this thread, carry ``execution_id``."""
        token = _execution.set(execution_id)
        try:
            yield
        finally:
            _execution.reset(token)

    def log(self, line: str, *, level: Level = "info", **fields: Any) -> None:
        """Write one structured line; it fits ``log: Callable[[str], None]``."""
        getattr(self.logger, level)(line, extra=fields)

    @contextmanager
    def invocation(self, context: Any = None) -> Iterator[Invocation]:
        """Write the line of an invocation at its end.

        The line has the invocation's metrics, its seconds, and the error that ended it. ``context``: Lambda's, for the request id; None
        outside of Lambda.
        """
        call, began = Invocation(), time.monotonic()
        call.note(cold_start=self.cold, request_id=getattr(context, "aws_request_id", None))
        self.cold = False
        try:
            yield call
        except BaseException as error:
            call.count("Errors")
            self._finish(call, began, "error", f"ended by {type(error).__name__}: {error}")
            raise
        self._finish(call, began, "info", "done")

    def _finish(self, call: Invocation, began: float, level: Level, message: str) -> None:
        if call.executions:
            now = time.time()
            annotate(call.executions, now - (time.monotonic() - began), now)
        call.count("InvocationSeconds", round(time.monotonic() - began, 6), "Seconds")
        metrics = EphemeralMetrics(namespace=self.namespace, service=self.service)
        for name, (unit, value) in call.metrics.items():
            metrics.add_metric(name, unit, value)
        if self.logger.log_level > logging.INFO and level == "info":
            metrics.flush_metrics()  # lines of this level are not wanted; what alarms watch is
            return
        packed = dict(metrics.serialize_metric_set())
        values = {name: value for name, (_, value) in call.metrics.items()}
        self.log(message, level=level, **{**call.line(), **packed, **values})


def _name_execution(record: logging.LogRecord) -> bool:
    execution = _execution.get()
    if execution is not None and not hasattr(record, "execution_id"):
        record.execution_id = str(execution)
    return True


telemetry = Telemetry()
