"""Workers over HTTP in Postgres. Every method is one round trip."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.command_state import held, unclaimed
from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions.unreadable_rows import moment
from noetl.adapters.postgres.literals import number, text
from noetl.domain import codec
from noetl.domain.text.timestamps import Timestamp
from noetl.ports.workers import (
    STALE_SECONDS,
    CommandState,
    Registered,
    RunningCommand,
    Seen,
    WorkerPool,
)

_COMMANDS = codec.decoder(list[RunningCommand])


class PostgresWorkers:
    """``database``: shared with other adapters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, name: str, pool: str, capacity: int, principal: str, most: int) -> Registered:
        values: dict[str, bytes | None] = {
            "name": text(name),
            "pool": text(pool),
            "capacity": number(capacity),
            "principal": text(principal),
            "most": number(most),
        }
        ((made, _, here),) = self._database.run("register_worker", values)
        if made == b"0":
            return "taken" if here == b"t" else "full"
        return "registered"

    def seen(self, name: str, keep_seconds: float, principal: str = "") -> Seen | None:
        rows = self._workers(name, keep_seconds, principal)
        return Seen(_worker(rows[0]), float(rows[0][-1] or 0)) if rows else None

    def entries(self) -> Sequence[WorkerPool]:
        return [_worker(row) for row in self._workers("", 0.0, "")]

    def _workers(self, name: str, keep_seconds: float, principal: str) -> list[Row]:
        values: dict[str, bytes | None] = {
            "name": text(name),
            "principal": text(principal),
            "kept": number(keep_seconds),
            "stale": number(STALE_SECONDS),
        }
        return self._database.run("workers", values)

    def drop(self, name: str, principal: str = "") -> bool:
        return bool(self._database.run("drop_worker", {"name": text(name), "principal": text(principal)}))

    def extend(self, execution_id: int, command_id: str, attempt: int, turn: int, seconds: float) -> bool:
        values = _turn(execution_id, command_id, attempt, turn) | {"seconds": number(seconds)}
        return bool(self._database.run("extend_lease", values))

    def give_back(self, execution_id: int, command_id: str, attempt: int, turn: int) -> bool:
        return bool(self._database.run("give_back", _turn(execution_id, command_id, attempt, turn)))

    def free(self, pool: str, worker: str) -> bool:
        return bool(self._database.run("free_leases", {"holder": text(f"{pool}:{worker}")}))

    def state(self, execution_id: int, command_id: str) -> CommandState:
        params: dict[str, bytes | None] = {
            "execution_id": number(execution_id),
            "command_id": text(command_id),
        }
        rows = self._database.run("command_state", params)
        if not rows:
            return unclaimed(None, False)
        status, owner, waiting, due_in, alive, lease, done, now = rows[0]
        if owner is None:
            return unclaimed((status or b"").decode(), done == b"t")
        left = None if lease is None else float(lease)
        return held(
            (status or b"").decode(),
            owner.decode(),
            waiting == b"t",
            float(due_in or 0),
            alive == b"t",
            left,
            float(now or 0),
        )

    def forget(self, older_than_seconds: float) -> None:
        self._database.run("forget_workers", {"seconds": number(older_than_seconds)})


def _turn(execution_id: int, command_id: str, attempt: int, turn: int) -> dict[str, bytes | None]:
    return {
        "execution_id": number(execution_id),
        "command_id": text(command_id),
        "attempt": number(attempt),
        "turn": number(turn),
    }


def _worker(row: Row) -> WorkerPool:
    name, pool, capacity, principal, registered, seen, alive, commands, _ = row
    running = codec.decode_as(_COMMANDS, commands or b"[]")
    return WorkerPool(
        (name or b"").decode(),
        (pool or b"").decode(),
        int(capacity or 0),
        (principal or b"").decode(),
        Timestamp(moment(registered, f"the beginning of worker {(name or b'').decode()}") or 0.0),
        Timestamp(moment(seen, f"the last sign of worker {(name or b'').decode()}") or 0.0),
        len(running),
        alive == b"t",
        running,
    )
