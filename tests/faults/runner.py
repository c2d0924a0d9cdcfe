"""The process that is killed: it is given a Plan as JSON.

It opens the local runtime over a home folder and starts executions (their ids go to standard output, one JSON line each), or takes over
what is live. It asks for changes of executions as clients do, and ends when the database has nothing left to do. When its plan says so
it kills itself at the n-th call of a port, before or after the call, or goes on until it is killed.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.domain import codec
from noetl.domain.errors import ConflictError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import ChildRequest
from noetl.domain.state import TERMINAL
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.executions import change_execution
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import redrive
from tests.properties.tools import PureTools
from tests.waiting import PATIENCE, wait_until

PORTS: dict[str, type] = {
    "commit": PostgresExecutionStore,
    "commit_items": PostgresExecutionStore,
    "record_superseded": PostgresExecutionStore,
    "load": PostgresExecutionStore,
    "claim": PostgresExecutionStore,
    "put": FileResultStore,
}


class Plan(msgspec.Struct, frozen=True):
    """Describe what a process does, and where it kills itself (``port``, ``call``, ``after``).

    ``dsn``: the database, for the question whether anything is left to do. ``start``: (path of the playbook, payload). ``ask``: changes
    (pause, resume, cancel or redrive; execution; a name that makes a repeat the same request). ``stays``: until it is killed.
    ``slow``: longest call, seconds.
    """

    home: str
    dsn: str
    playbooks: list[str] = []
    start: list[tuple[str, dict[str, Any]]] = []
    ask: list[tuple[str, int, str]] = []
    stays: bool = False
    port: str = ""
    call: int = 0
    after: bool = False
    slow: float = 0.02
    seed: int = 0
    timeout: float = PATIENCE
    inline_limit: int = 32 * 1024


class LoggedTools(PureTools):
    """Every call is written down before it answers, as an API outside would. What they mean together is judged by whoever reads them."""

    poll_seconds = 0.05

    def __init__(self, plan: Plan) -> None:
        rng = random.Random(plan.seed)
        super().__init__(lambda: time.sleep(rng.random() * plan.slow))
        self.log = os.open(Path(plan.home) / "calls.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.calls = LogList(self.log)  # type: ignore[assignment]
        self.sent = defaultdict(bytes)

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


def main(told: bytes) -> None:
    faulthandler.enable()
    plan = codec.decode_as(codec.decoder(Plan), told)
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
        for what, execution_id, unique in plan.ask:
            tell({"answer": ask(runtime, what, execution_id, unique)})
        if plan.stays:
            threading.Event().wait(plan.timeout)
        runtime.run_until(started, timeout=plan.timeout)
        wait_until(lambda: quiet(plan.dsn), "the end of all work", seconds=plan.timeout)
        tell({"done": True})


def ask(runtime: LocalRuntime, what: str, execution_id: int, unique: str) -> str:
    """Ask for a change, as soon as it can be made. Returns ``taken``, or the code of the refusal."""
    wanted = {"resume": TERMINAL | {"paused"}, "redrive": TERMINAL}.get(what)
    if wanted is not None:
        wait_until(lambda: runtime.status(execution_id) in wanted, f"a status that allows to {what}")
    asked = ChangeRequest("user:ada", unique, runtime.owner, "a client wants it")
    try:
        if what == "redrive":
            runtime.accept([redrive(runtime.store, runtime.programs, execution_id, asked)])
        else:
            runtime.accept([getattr(change_execution, what)(runtime.store, execution_id, asked)])
    except ConflictError as refused:
        return refused.code
    return "taken"


LEFT = """
    SELECT EXISTS (SELECT FROM noetl.execution WHERE ended_at IS NULL) OR EXISTS (SELECT FROM noetl.command)
        OR EXISTS (SELECT FROM noetl.outbox) OR EXISTS (SELECT FROM noetl.timer)
"""


def quiet(dsn: str) -> bool:
    """Tell whether everything has ended, with all that executions have to tell each other; False while the database is away."""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return connection.execute(LEFT).fetchone() == (False,)
    except psycopg.OperationalError:
        return False


def tell(line: dict[str, Any]) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)
