"""One execution that fans out over sub-playbooks, each with a loop of its own: one JSON line with what was issued and what came back.

Usage: python -m tests.bench.fan_out [--children 2000] [--items 500] [--stall 300] [--emulator]

It runs in this process over an embedded Postgres in a temporary home; with ``--emulator`` in the functions of a deployment on this machine
(``noetl local up``, needs Node). Progress goes to standard error. Ends with 1 when the execution does not complete, when a child or an item
that was issued is not done, or when nothing moves for ``--stall`` seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings

PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan_out, path: bench/fan_out }
workload: { children: 1, items: 1 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.children) | list }}", iterator: child, spec: { mode: parallel } }
    tool: { kind: playbook, path: bench/fan_out_child, payload: { child: "{{ child }}", items: "{{ workload.items }}" } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop, args: { children: "{{ start.count }}" } }
"""
CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan_out_child, path: bench/fan_out_child }
workload: { child: 0, items: 1 }
workflow:
  - step: start
    loop: { in: "{{ range(workload.items) | list }}", iterator: item, spec: { mode: parallel } }
    tool: { kind: noop, args: { value: "{{ item }}" } }
    next: { arcs: [{ step: last }] }
  - step: last
    tool: { kind: noop, args: { child: "{{ workload.child }}", items: "{{ start.count }}" } }
"""
LEAF = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: fan_out_child, path: bench/fan_out_child }
workload: { child: 0, items: 0 }
workflow: [{ step: start, tool: { kind: noop, args: { child: "{{ workload.child }}" } } }]
"""
STATUS = "SELECT status FROM noetl.execution WHERE execution_id = %s"
LOOPS = """
    SELECT count(*), coalesce(sum(total), 0), coalesce(sum(issued), 0), coalesce(sum(done), 0), coalesce(sum(failed), 0)
    FROM noetl.loop WHERE (execution_id = %s) = %s
"""
CHILDREN = """
    SELECT count(*), count(*) FILTER (WHERE status = 'completed') FROM noetl.execution WHERE parent_execution_id = %s
"""


@dataclass
class Counts:
    """How far an execution has come. Children are items of its loop, and executions; items are those of the children's loops."""

    status: str
    children_issued: int
    children_done: int
    executions_created: int
    executions_completed: int
    loops: int
    items_issued: int
    items_done: int

    def whole(self, children: int, items: int) -> bool:
        """Whether everything was issued and came back: so many children, with so many items each."""
        loops = children if items else 0
        return self == Counts(
            "completed", children, children, children, children, loops, loops * items, loops * items
        )


class Place(Protocol):
    """Where the execution runs. ``dsn``: of its database."""

    dsn: str

    def register(self, text: str) -> None: ...

    def start(self, payload: dict[str, Any]) -> int:
        """Start the playbook of ``PARENT``."""

    def wait(self, execution_id: int, seconds: float) -> None:
        """Return after ``seconds``, or sooner when the execution has ended."""


class Here:
    """This process."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self.dsn = runtime.opened.dsn

    def register(self, text: str) -> None:
        self._entry = self._runtime.register(text, source_name="fan_out.yaml")

    def start(self, payload: dict[str, Any]) -> int:
        return self._runtime.start(self._entry, payload)

    def wait(self, execution_id: int, seconds: float) -> None:
        with suppress(TimeoutError):
            self._runtime.run_until([execution_id], timeout=seconds)


class Deployed:
    """A deployment. ``api``: asks it (method, path, body)."""

    def __init__(self, api: Callable[[str, str, Any], Any], dsn: str) -> None:
        self._api = api
        self.dsn = dsn

    def register(self, text: str) -> None:
        answer = self._api("POST", "/api/catalog/register", {"content": text})
        assert answer.status in (200, 201), answer

    def start(self, payload: dict[str, Any]) -> int:
        answer = self._api("POST", "/api/execute", {"path": "bench/fan_out", "payload": payload})
        assert answer.status == 201, answer
        return int(answer.body["execution_id"])

    def wait(self, execution_id: int, seconds: float) -> None:
        time.sleep(seconds)


def run(
    place: Place,
    children: int,
    items: int,
    *,
    stall: float,
    tell: Callable[[float, Counts], None] = lambda seconds, counts: None,
) -> tuple[int, Counts, float]:
    """Start the execution; wait until it ends, or nothing has moved for ``stall`` seconds.

    Return its id, the counts and the seconds. With no ``items`` a child is a single step.
    """
    place.register(CHILD if items else LEAF)
    place.register(PARENT)
    began = time.monotonic()
    execution_id = place.start({"children": children, "items": items})
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        before, moved = _counts(connection, execution_id), began
        while before.status in ("", "running") and time.monotonic() - moved < stall:
            place.wait(execution_id, min(5.0, 0.2 + 0.02 * (time.monotonic() - began)))
            now = _counts(connection, execution_id)
            if now != before:
                moved = time.monotonic()
            before = now
            tell(time.monotonic() - began, now)
    return execution_id, before, time.monotonic() - began


def _counts(connection: psycopg.Connection, execution_id: int) -> Counts:
    def row(query: str, *values: Any) -> tuple[Any, ...]:
        return connection.execute(query.encode(), values).fetchone() or ("",)

    _, _, issued, done, _ = row(LOOPS, execution_id, True)
    created, completed = row(CHILDREN, execution_id)
    loops, _, items_issued, items_done, _ = row(LOOPS, execution_id, False)
    (status,) = row(STATUS, execution_id)
    numbers = (issued, done, created, completed, loops, items_issued, items_done)
    return Counts(status, *map(int, numbers))


@contextmanager
def here() -> Iterator[Place]:
    """A process of the engine over a temporary home: this one."""
    with tempfile.TemporaryDirectory(prefix="noetl-fan-out-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(0o755)
        with LocalRuntime(Settings.from_env({}, home=home), on_log=_log) as runtime:
            yield Here(runtime)


@contextmanager
def emulator() -> Iterator[Place]:
    """A deployment of its own, which is taken down at the end."""
    from tests.e2e.conftest import fresh_deployment

    with fresh_deployment() as deployment:
        yield Deployed(deployment.api, deployment.database())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=2000)
    parser.add_argument(
        "--items", type=int, default=500, help="of each child's loop; 0: a child is a single step"
    )
    parser.add_argument(
        "--stall", type=float, default=300.0, help="seconds without progress before it is given up"
    )
    parser.add_argument("--emulator", action="store_true", help="on a deployment on this machine")
    options = parser.parse_args()
    with emulator() if options.emulator else here() as place:
        _, counts, seconds = run(place, options.children, options.items, stall=options.stall, tell=_progress)
    units = counts.items_done + counts.children_done
    print(
        json.dumps(
            {
                "system": "noetl",
                "workload": "fan_out",
                "place": "emulator" if options.emulator else "one process",
                "children": options.children,
                "items": options.items,
                **asdict(counts),
                "seconds": round(seconds, 1),
                "per_s": round(units / seconds),
                "cpu_s": round(time.process_time(), 1),
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )
    return 0 if counts.whole(options.children, options.items) else 1


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _progress(seconds: float, counts: Counts) -> None:
    _log(
        f"{seconds:7.1f} s  {counts.status}: children {counts.children_done}/{counts.children_issued} of the loop,"
        f" {counts.executions_completed}/{counts.executions_created} executions; items {counts.items_done}/{counts.items_issued}"
    )


if __name__ == "__main__":
    sys.exit(main())
