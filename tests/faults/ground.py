"""What every round of faults stands on: a home folder with a durable database, processes over it, and the judgement at the end."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Any, cast

import msgspec
import psycopg

from noetl.adapters.embedded import processes
from noetl.adapters.embedded.files import FileResultStore
from noetl.adapters.embedded.locked import locked
from noetl.adapters.embedded.server import SETTINGS, EmbeddedServer
from noetl.adapters.postgres import PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.domain.state import TERMINAL
from noetl.domain.workers.lost_owners import MOST
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from noetl.services.queries.analyze import AnalyzeDeps
from tests.conformance.explained import check_explained
from tests.faults.runner import Plan
from tests.faults.stock import sent, texts_of, wanted, workload_of
from tests.forked import Forked
from tests.properties.accounts import check_own_results, check_values
from tests.properties.invariants import audit_one, check_ended
from tests.properties.tools import Call
from tests.properties.workloads import check_keys, compare, observe
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]


@dataclass
class Running:
    """A process under test. ``started``: executions it has told of."""

    process: Forked
    errors: Path
    started: list[int] = field(default_factory=list)
    done: bool = False

    def lines(self) -> Iterator[dict[str, Any]]:
        for line in self.process.stdout:
            with suppress(msgspec.DecodeError):
                said = msgspec.json.decode(line)
                if "started" in said:
                    self.started.append(said["started"])
                self.done = self.done or said.get("done", False)
                yield said

    def answer(self) -> str:
        """Read what it was answered when it asked for a change; empty when it was killed before."""
        return next((said["answer"] for said in self.lines() if "answer" in said), "")

    def wait_for(self, key: str) -> bool:
        """Read until it has told ``key``; False when it ended before."""
        return any(key in said for said in self.lines())

    def kill(self) -> None:
        self.process.kill()
        self.finish()

    def finish(self) -> int:
        """Read what is left and wait for its end."""
        for _ in self.lines():
            pass
        return self.process.wait(timeout=PATIENCE)

    def check_end(self) -> None:
        """It came to its end by itself, with everything done."""
        code = self.finish()
        told = f"exit code {code}, done: {self.done}, started: {self.started}"
        assert code == 0 and self.done, f"{told}\n{self.errors.read_text()[-20000:]}"


@dataclass
class Ground:
    """``home``: the folder of the runtime. ``server``: keeps the database up while processes die."""

    home: Path
    server: EmbeddedServer
    number: int = 0
    read: int = 0
    """Bytes of the log of calls that were judged."""
    registered: set[str] = field(default_factory=set)
    """Paths of playbooks."""
    outage: ExitStack = field(default_factory=ExitStack)
    processes: list[Running] = field(default_factory=list)
    """Of this round."""
    counts: Counter[str] = field(default_factory=Counter)
    """Kills, crashes of the database and executions since they were told."""

    @property
    def data(self) -> Path:
        return self.server.data

    def run(self, **plan: Any) -> Running:
        self.number += 1
        errors = self.home / f"stderr-{self.number}"
        told = codec.encode(Plan(str(self.home), self.server.dsn(), **plan))
        running = Running(Forked("tests.faults.runner", told, errors=errors), errors)
        self.processes.append(running)
        return running

    def resume(self, **plan: Any) -> None:
        """Another process goes on until everything has ended. `analyze` explains what the dead left before and after the end of their leases."""
        if self.explain():
            wait_until(self.no_leases, "the end of the leases")
            self.explain()
        running = self.run(**plan)
        running.check_end()

    def begin(self, names: list[str], **plan: Any) -> Running:
        chosen = [workload_of(name) for name in names]
        used = texts_of(one.path for one in chosen)
        if missing := [text for path, text in used.items() if path not in self.registered]:
            self.run(playbooks=missing).check_end()
            self.registered |= used.keys()
        return self.run(start=[(one.path, one.payload) for one in chosen], **plan)

    def live(self, path: str) -> list[ExecutionInfo]:
        """Executions of a playbook that have not ended and that no other execution started."""
        store = PostgresExecutionStore(self.server.dsn())
        try:
            every = store.executions(limit=100_000)
        finally:
            store.close()
        return [
            one
            for one in every
            if one.path == path and one.status not in TERMINAL and one.parent_execution_id is None
        ]

    # --- what is said of it ---

    def explain(self) -> int:
        """`analyze` names what each execution waits for, or why it failed, at this moment. Returns how many have not ended.

        Asks until the server answers, which may not have noticed yet that one of its processes was killed.
        """

        def explained() -> tuple[int] | None:
            with suppress(InfrastructureError), closing(PostgresExecutionStore(self.server.dsn())) as store:
                found = [info for info in store.executions(limit=100_000) if info.status != "completed"]
                explain(store, found)
                return (sum(info.status not in TERMINAL for info in found),)
            return None

        (live,) = wait_until(explained, "an explanation of everything")
        return int(live)

    def no_leases(self) -> bool:
        """Whether no process that is known to the database lives."""
        query = "SELECT NOT EXISTS (SELECT FROM noetl.runtime WHERE lease_until > clock_timestamp())"
        with psycopg.connect(self.server.dsn()) as connection:
            return connection.execute(query).fetchone() == (True,)

    # --- the database ---

    def backends(self) -> list[int]:
        """Processes of the server that serve the engine's connections.

        Asks until the server answers: it takes connections for a moment after one of its processes was killed, before it recovers.
        """
        query = (
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = 'noetl' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )

        def answered() -> tuple[list[int]] | None:
            with suppress(psycopg.OperationalError), psycopg.connect(self.server.dsn()) as connection:
                return ([row[0] for row in connection.execute(query)],)
            return None

        (found,) = wait_until(answered, "an answer of the database")
        return list(found)

    def leader(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def stop_at_once(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """As if the machine had lost its power: no shutdown, recovery at the next start, which nobody else makes.

        ``how``: SIGQUIT (what ``pg_ctl stop -m immediate`` sends) or SIGKILL.
        """
        self.outage.enter_context(locked(self.data))
        self.kill_leader(how)

    def kill_leader(self, how: signal.Signals) -> None:
        """End the server's first process; the others follow. Processes of the engine may start it again."""
        leader = self.leader()
        os.kill(leader, how)
        self.counts["database stops"] += 1

        def gone() -> bool:
            with suppress(
                ChildProcessError
            ):  # It is another's child when a process of the engine had to start it.
                os.waitpid(leader, os.WNOHANG)
            try:
                os.kill(leader, 0)
                return "\nState:\tZ" in Path(f"/proc/{leader}/status").read_text()
            except (ProcessLookupError, FileNotFoundError):  # It may be reaped between the two.
                return True

        wait_until(gone, "the end of the database's server")

    def start_again(self) -> None:
        with self.outage:
            processes.start(self.data, SETTINGS)
        self.explain()

    def wait_until_up(self) -> None:
        """The server recovers from the death of a backend by itself."""

        def answers() -> bool:
            try:
                psycopg.connect(self.server.dsn()).close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers, "the server's return")
        self.explain()

    # --- the judgement ---

    def judge(self, names: list[str], started: list[int], changed: Collection[int] = ()) -> None:
        """Every execution came to the end it would have come to undisturbed, and nothing is left of the disturbance.

        ``started``: executions of ``names``, as far as they were told; what was made without being told of has to be sound as well.
        ``changed``: those that were cancelled, and perhaps redriven: they may have ended so. What is sound is forgotten.
        A task that ``lost_owners.MOST`` killed processes were running may have been given up; its family has to be sound only.
        """
        store = PostgresExecutionStore(self.server.dsn())
        try:
            calls = self.calls()
            check_keys(calls)
            check_own_results(mixed(calls))
            for name in names:
                check_values(altered(calls, sent(workload_of(name))))
            fresh = store.executions(limit=100_000)
            for info in fresh:
                audit_one(store, info)
            check_ended(store, fresh)
            explain(store, fresh)
            given_up = self.given_up(fresh)
            assert not given_up or self.deaths() >= MOST, f"given up after {self.deaths()} deaths: {given_up}"
            kept = [key for key in store.limit_keys() if key.in_use or key.waiting]
            assert not kept, f"everybody is over, and slots are not free: {kept}"
            for name, root in zip(names, started, strict=False):
                if root in given_up:
                    continue
                workload, undisturbed = workload_of(name), wanted(name)
                workload = replace(workload, ends=frozenset({undisturbed.status}))
                if root in changed:
                    ends = frozenset({undisturbed.status, "cancelled"})
                    workload = replace(workload, exact=False, ends=ends)
                compare(workload, undisturbed, observe(store, self.results(), calls, root))
        finally:
            store.close()
        self.forget()

    def given_up(self, executions: Iterable[ExecutionInfo]) -> set[int]:
        """Roots of the families in which a task ended as ``worker_lost``: they may end in another way than undisturbed.

        A rule of the playbook may have retried it. Its history then shows the message alone.
        """
        parents = {info.execution_id: info.parent_execution_id for info in executions}
        with psycopg.connect(self.server.dsn()) as connection:
            query = "SELECT DISTINCT execution_id FROM noetl.event WHERE facts::text LIKE ANY(%s)"
            found = [
                row[0] for row in connection.execute(query, (["%worker_lost%", "%died while they ran it%"],))
            ]
        roots = set()
        for one in found:
            while (parent := parents.get(one)) is not None:
                one = parent
            roots.add(one)
        return roots

    def tally(self) -> dict[str, int]:
        """What happened since the last call."""
        self._count()
        told = dict(self.counts)
        self.counts.clear()
        return told

    def _count(self) -> None:
        """Forget the processes of this round; what became of them is counted."""
        self.counts["kills"] += self.deaths()
        self.counts["executions"] += sum(len(one.started) for one in self.processes)
        self.processes.clear()

    def deaths(self) -> int:
        """How many processes of this round were killed."""
        return sum(one.process.poll() == -signal.SIGKILL for one in self.processes)

    def forget(self) -> None:
        """Remove all executions, so that what a round costs does not grow with the rounds before."""
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute("TRUNCATE noetl.execution, noetl.event, noetl.slot, noetl.result_ref CASCADE")
        self.read = self.log.stat().st_size if self.log.exists() else 0
        self._count()

    def results(self) -> FileResultStore:
        return FileResultStore(self.home / "results")

    @property
    def log(self) -> Path:
        return self.home / "calls.jsonl"

    def calls(self) -> list[Call]:
        """Calls since the last judgement."""
        lines = self.log.read_bytes()[self.read :].splitlines() if self.log.exists() else []
        return [msgspec.json.decode(line, type=Call) for line in lines]


def explain(store: PostgresExecutionStore, executions: Iterable[ExecutionInfo]) -> None:
    """Check what `analyze` says of them, while others may write."""
    deps = AnalyzeDeps(cast(ExecutionStore, store), PostgresInspection(store.database), _no_programs, time)
    for info in executions:
        check_explained(info, deps)


def _no_programs(program: str) -> Any:
    raise NotFoundError("who explains does not know the playbooks")


def mixed(calls: Iterable[Call]) -> list[str]:
    """Calls of a run that saw the result of another."""
    asked = ((call, codec.decode(call.asked[3])) for call in calls)
    return [str(call) for call, params in asked if "saw" in params and params["saw"] != params.get("run")]


def altered(calls: Iterable[Call], left: dict[str, bytes]) -> list[str]:
    """Calls that were given something else than what was sent. ``left``: values as they left, encoded, by name."""
    asked = ((call, codec.decode(call.asked[3])) for call in calls)
    return [
        str(call)
        for call, params in asked
        if params.get("sent") in left and codec.encode(params.get("arrived")) != left[params["sent"]]
    ]
