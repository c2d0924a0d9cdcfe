"""Logs and metrics of a deployed function.

Each log line names its execution. One line per invocation says what it did; CloudWatch reads its metrics from the same line (embedded
metric format).

    with telemetry.invocation(context) as call:
        call.note(commands=len(deliveries))
        call.count("CommandsLost", lost)
        with telemetry.about(command.execution_id):
            telemetry.log("…")

Each byte of a line costs money, and a metric has a definition of 30 to 200 bytes in every line that counts it. So what an invocation does
each time is noted, and only what an alarm, a graph or an operator watches is counted: trouble, and the ticks of maintenance. Nor does
a line repeat what CloudWatch knows of it: its log group names the function. ``POWERTOOLS_LOG_LEVEL`` says which lines are kept.
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

from noetl.runtime.aws.tracing import annotate, sampled_trace

NAMESPACE = "NoETL"
SHOWN_IDS = 20
"""Most executions that the line of an invocation names."""

Level = Literal["debug", "info", "warning", "error"]

RFC_3339 = "%Y-%m-%dT%H:%M:%S.%FZ"
"""Lambda takes a line with another timestamp for one of level INFO, and drops it where only warnings are wanted."""

_execution: ContextVar[int | None] = ContextVar("noetl_execution", default=None)


class Invocation:
    """What one invocation did. Used by its own thread."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}
        self.executions: set[int] = set()

    def count(self, name: str, value: float = 1) -> None:
        """Add to a metric of this invocation, such as ``RefusedEvents``.

        A metric that was never counted is not sent.
        """
        self.metrics[name] = self.metrics.get(name, 0) + value

    def note(self, **fields: Any) -> None:
        """Show these in the line, without a metric. What is zero, false or None is left out."""
        self.fields.update(fields)

    def about(self, executions: Iterable[int]) -> None:
        """The line names these executions (some, when there are many)."""
        self.executions.update(executions)

    def line(self) -> dict[str, Any]:
        shown: dict[str, Any] = {name: value for name, value in self.fields.items() if value}
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
        self.logger = Logger(
            service=self.service,
            location=None,
            stream=stream or sys.stderr,
            datefmt=RFC_3339,
            utc=True,
            xray_trace_id=None,
        )
        self.logger.remove_keys(["service"])
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
    def invocation(self, context: Any = None, *, brief: bool = False) -> Iterator[Invocation]:
        """Write the line of an invocation at its end.

        The line has the invocation's metrics, its seconds, and the error that ended it. ``context``: Lambda's, for the request id; None
        outside of Lambda. ``brief``: the line has the request id only if an error ended the invocation: for the function that each step
        of each execution invokes.
        """
        call, began = Invocation(), time.monotonic()
        request = getattr(context, "aws_request_id", None)
        call.note(cold_start=self.cold, request_id=None if brief else request)
        self.cold = False
        try:
            yield call
        except BaseException as error:
            call.note(request_id=request)
            call.count("Errors")
            self._finish(call, began, "error", f"ended by {type(error).__name__}: {error}")
            raise
        self._finish(call, began, "info", "done")

    def _finish(self, call: Invocation, began: float, level: Level, message: str) -> None:
        if call.executions:
            now = time.time()
            annotate(call.executions, now - (time.monotonic() - began), now)
        call.note(seconds=round(time.monotonic() - began, 3))
        fields = call.line()
        if call.metrics:
            metrics = EphemeralMetrics(namespace=self.namespace, service=self.service)
            for name, value in call.metrics.items():
                metrics.add_metric(name, "Count", value)
            fields |= {**metrics.serialize_metric_set(), **call.metrics}
            if self.logger.log_level > logging.INFO and level == "info":
                level = "warning"  # lines below are dropped where only warnings are wanted, and their metrics with them
        self.log(message, level=level, **fields)


def _name_execution(record: logging.LogRecord) -> bool:
    """Add the execution that the thread is about, and the trace if X-Ray keeps it."""
    execution = _execution.get()
    if execution is not None and not hasattr(record, "execution_id"):
        record.execution_id = str(execution)
    if trace := sampled_trace():
        record.trace_id = trace
    return True


telemetry = Telemetry()
