"""The process that is killed: ``python -m tests.faults.runner`` with a Plan as JSON on its standard input.

It opens the local runtime over a home folder, starts executions (their ids go to standard output, one JSON line each) or takes over
what is live, and follows them to their end. When its plan says so it kills itself at the n-th call of a port, before or after the call.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.outcomes import ChildRequest
from noetl.runtime.local import LocalRuntime
from noetl.runtime.settings import Settings
from tests.properties.tools import PureTools

PORTS: dict[str, type] = {
    "commit": PostgresExecutionStore,
    "commit_items": PostgresExecutionStore,
    "record_superseded": PostgresExecutionStore,
    "load": PostgresExecutionStore,
    "claim": PostgresExecutionStore,
    "put": FileResultStore,
}


class Plan(msgspec.Struct, frozen=True):
    """``start``: (path of the playbook, payload). ``port``, ``call``, ``after``: where it kills itself. ``slow``: longest call, seconds."""

    home: str
    playbooks: list[str] = []
    start: list[tuple[str, dict[str, Any]]] = []
    port: str = ""
    call: int = 0
    after: bool = False
    slow: float = 0.02
    seed: int = 0
    timeout: float = 60.0
    inline_limit: int = 32 * 1024


class LoggedTools(PureTools):
    """Every call is written down before it answers, as an API outside would."""

    def __init__(self, plan: Plan) -> None:
        rng = random.Random(plan.seed)
        super().__init__(lambda: time.sleep(rng.random() * plan.slow))
        self.log = os.open(Path(plan.home) / "calls.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.calls = LogList(self.log)  # type: ignore[assignment]

    def run(
        self, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> TaskResult | ChildRequest:
        return super().run(name, raw_params, context)


class LogList(list[Any]):
    def __init__(self, handle: int) -> None:
        super().__init__()
        self.handle = handle

    def append(self, call: Any) -> None:
        os.write(self.handle, msgspec.json.encode(call) + b"\n")


def die_at(plan: Plan) -> None:
    """Replace the port's method by one that is the last at its n-th call."""
    owner = PORTS[plan.port]
    method: Callable[..., Any] = getattr(owner, plan.port)
    lock, calls = threading.Lock(), 0

    def fatal(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            mine = calls == plan.call
        if mine and not plan.after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = method(self, *args, **kwargs)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(owner, plan.port, fatal)


def main() -> None:
    faulthandler.enable()
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    if plan.port:
        die_at(plan)
    settings = Settings(Path(plan.home), lease_seconds=2.0, io_workers=6, inline_limit=plan.inline_limit)
    with LocalRuntime(
        settings, on_log=lambda line: print(line, file=sys.stderr), registry=LoggedTools(plan)
    ) as runtime:
        for text in plan.playbooks:
            runtime.register(text, source_name="fault.yaml")
        tell({"ready": True})
        started = []
        for path, payload in plan.start:
            entry = runtime.catalog.get(path)
            assert entry is not None, path
            started.append(runtime.start(entry, payload))
            tell({"started": started[-1]})
        runtime.run_until(started or runtime.recover(), timeout=plan.timeout)
        if not started:
            wait_for_quiet(runtime)
        tell({"done": True})


def wait_for_quiet(runtime: LocalRuntime, seconds: float = 10.0) -> None:
    """Words that executions have for each other (a child that was cancelled tells its parent) arrive after they have ended."""
    until = time.monotonic() + seconds
    latest = [info.execution_id for info in runtime.store.executions(limit=200)]
    while time.monotonic() < until and any(any(runtime.store.open_work(one).values()) for one in latest):
        time.sleep(0.05)


def tell(line: dict[str, Any]) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


if __name__ == "__main__":
    main()
