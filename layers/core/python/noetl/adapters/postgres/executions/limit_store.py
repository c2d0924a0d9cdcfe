"""Keys that executions share, in Postgres.

They decide which executions may begin, and show the limits of a key, its holders and those that wait.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from noetl.adapters.postgres.connection import Database, Row
from noetl.adapters.postgres.executions import permits, query_params
from noetl.adapters.postgres.executions.permits import integers
from noetl.adapters.postgres.executions.unreadable_rows import RowReader, moment
from noetl.adapters.postgres.literals import number, numbers, text
from noetl.domain import codec
from noetl.domain.events import Event, Start, encode_event
from noetl.domain.limits import Admission, Admitted, Numbers
from noetl.ports.executions.answers import CreatedExecution
from noetl.ports.limit_store import SHOWN, KeyState, KeyUse, Wait


class PostgresLimits:
    database: Database

    def admit(
        self, start: Start, created: CreatedExecution, admission: Admission, owner: str | None = None
    ) -> tuple[Admitted, Sequence[Event]]:
        values = {
            **creation(start, created, owner),
            "key": text(admission.key),
            "concurrent": number(admission.concurrent),
            "on_excess": text(admission.on_excess),
            "priority": number(admission.priority),
        }
        unread = RowReader()
        answer = permits.admitted(self.database.run("admit_execution", values), owner, unread)
        unread.set_aside(self.database, owner or "")
        return answer

    def limit_keys(self, *, after: str = "", limit: int = 100, key: str | None = None) -> Sequence[KeyState]:
        values = {
            "after": text(after),
            "limit": number(limit),
            "key": None if key is None else text(key),
            "shown": number(SHOWN),
        }
        return [_state(row) for row in self.database.run("limit_keys", values)]

    def set_limit(self, key: str, numbers: Numbers, principal: str) -> None:
        values = {
            "key": text(key),
            "concurrent": None if numbers.concurrent is None else number(numbers.concurrent),
            "rate": None if numbers.rate is None else number(numbers.rate),
            "per": number(numbers.per),
            "burst": number(numbers.burst),
            "principal": text(principal),
        }
        self.database.run("set_limit", values)

    def remove_limit(self, key: str) -> bool:
        return bool(self.database.run("remove_limit", {"key": text(key)}))

    def waits_of(self, execution_id: int, limit: int = 100) -> Sequence[Wait]:
        rows = self.database.run("waits_of", {"execution_id": number(execution_id), "limit": number(limit)})
        return [_wait(row) for row in rows]

    def queued_starts(self, execution_ids: Collection[int]) -> frozenset[int]:
        rows = self.database.run("queued_starts", {"execution_ids": numbers(execution_ids)})
        return frozenset(int(row[0] or b"0") for row in rows)


def creation(start: Start, created: CreatedExecution, owner: str | None) -> dict[str, bytes | None]:
    """Parameters of an execution that begins to be."""
    parent = created.parent_execution_id
    return {
        "execution_id": number(start.execution_id),
        "path": text(created.path),
        "name": text(created.name),
        "playbook_version": text(created.playbook_version),
        "parent": None if parent is None else number(parent),
        "principal": text(created.principal),
        "program": text(start.program),
        "event_id": text(start.event_id),
        "owner": text(owner or ""),
        "payload": encode_event(start),
        "held": query_params.held(start),
    }


def _state(row: Row) -> KeyState:
    key, concurrent, rate, per, burst, declared, principal, next_at, in_use, waiting, holders, first = row
    return KeyState(
        (key or b"").decode(),
        Numbers(
            None if concurrent is None else int(concurrent),
            None if rate is None else float(rate),
            float(per or b"1"),
            int(burst or b"1"),
        ),
        "playbook" if declared == b"t" else "operator",
        int(in_use or b""),
        int(waiting or b""),
        moment(next_at, f"the next time of limit {(key or b'').decode()}"),
        (principal or b"").decode(),
        _uses(holders),
        _uses(first),
    )


def _uses(rows: bytes | None) -> tuple[KeyUse, ...]:
    return tuple(KeyUse(*row) for row in codec.decode(rows or b"[]"))


def _wait(row: Row) -> Wait:
    key, step, run, since, at, most, in_use, position, holders = row
    return Wait(
        (key or b"").decode(),
        (step or b"").decode(),
        int(run or b"0"),
        moment(since, f"since when limit {(key or b'').decode()} is waited for") or 0.0,
        moment(at, f"the next time of limit {(key or b'').decode()}"),
        int(most or b"0"),
        int(in_use or b"0"),
        int(position or b"0"),
        tuple(integers(holders)),
    )
