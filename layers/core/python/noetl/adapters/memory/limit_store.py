"""Keys that executions share, in memory: the methods of the store over them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from noetl.adapters.memory import limits
from noetl.adapters.memory.tables import KeyEntry, Tables, Use
from noetl.domain.events import Event, Start
from noetl.domain.limits import Admission, Admitted, Numbers
from noetl.ports.executions.answers import CreatedExecution
from noetl.ports.limit_store import SHOWN, KeyState, KeyUse, Wait

Row = tuple[tuple[int, str], Use]


class MemoryLimits:
    _tables: Tables
    _lock: threading.RLock

    def admit(
        self, start: Start, created: CreatedExecution, admission: Admission, owner: str | None = None
    ) -> tuple[Admitted, Sequence[Event]]:
        with self._lock:
            self._tables.note_mentioned(start)
            return limits.admit(self._tables, start, created, admission, owner)

    def limit_keys(self, *, after: str = "", limit: int = 100, key: str | None = None) -> Sequence[KeyState]:
        with self._lock:
            known = self._tables.limits
            names = sorted(name for name in known if name > after and key in (None, name))[:limit]
            return [self._state(name, known[name]) for name in names]

    def _rows(self, key: str) -> tuple[list[Row], list[Row]]:
        """Who holds it, and who waits."""
        rows = [(one, use) for one, uses in self._tables.uses.items() for use in uses if use.limit.key == key]
        held = sorted((row for row in rows if row[1].held), key=lambda row: (row[1].since, row[1].order))
        waiting = sorted(
            (row for row in rows if row[1].queued), key=lambda row: (-row[1].priority, row[1].order)
        )
        return held, waiting

    def _state(self, name: str, entry: KeyEntry) -> KeyState:
        held, waiting = self._rows(name)
        numbers = entry.numbers
        next_at = None
        if numbers.rate is not None:
            next_at = entry.tat - (numbers.burst - 1) * numbers.per / numbers.rate
        return KeyState(
            name,
            numbers,
            "playbook" if entry.declared else "operator",
            len(held),
            len(waiting),
            next_at if next_at is not None and next_at > self._tables.clock() else None,
            entry.principal,
            tuple(self._use(row) for row in held[:SHOWN]),
            tuple(self._use(row) for row in waiting[:SHOWN]),
        )

    def _use(self, row: Row) -> KeyUse:
        (execution_id, command_id), use = row
        tables = self._tables
        command = tables.work[execution_id].commands.get(command_id)
        alive = not use.held or command is None or command.waiting or tables.alive(command.owner)
        lease = (
            tables.leases.get(command.owner) if use.held and command is not None and command.owner else None
        )
        run = command.run if command is not None else 0
        return KeyUse(execution_id, use.step, run, use.priority, use.since, alive, lease)

    def set_limit(self, key: str, numbers: Numbers, principal: str) -> None:
        with self._lock:
            self._tables.limits[key] = KeyEntry(numbers, declared=False, principal=principal)

    def remove_limit(self, key: str) -> bool:
        with self._lock:
            known = self._tables.limits.get(key)
            if known is None or known.declared:
                return False
            held, waiting = self._rows(key)
            newest = max((use for _, use in (*held, *waiting)), key=lambda use: use.order, default=None)
            asks = None if newest is None else newest.limit
            known.numbers = (
                Numbers() if asks is None else Numbers(asks.concurrent, asks.rate, asks.per, asks.burst)
            )
            known.declared, known.tat, known.principal = True, 0.0, ""
            return True

    def waits_of(self, execution_id: int, limit: int = 100) -> Sequence[Wait]:
        with self._lock:
            rows = sorted(
                (use.order, command_id, use)
                for (owner, command_id), uses in self._tables.uses.items()
                if owner == execution_id
                for use in uses
            )
            waits = [self._slot(execution_id, command_id, use) for _, command_id, use in rows if use.queued]
            waits += [
                wait for _, command_id, use in rows if (wait := self._moment(execution_id, command_id, use))
            ]
            return waits[:limit]

    def queued_starts(self, execution_ids: Collection[int]) -> frozenset[int]:
        with self._lock:
            keys = ((execution_id, "") for execution_id in execution_ids)
            return frozenset(
                key[0] for key in keys if any(use.queued for use in self._tables.uses.get(key, ()))
            )

    def _slot(self, execution_id: int, command_id: str, use: Use) -> Wait:
        held, waiting = self._rows(use.limit.key)
        command = self._tables.work[execution_id].commands.get(command_id)
        return Wait(
            use.limit.key,
            use.step,
            command.run if command is not None else 0,
            use.since,
            most=limits.numbers_of(self._tables, use.limit).concurrent or 0,
            in_use=len(held),
            position=1 + [row[1] for row in waiting].index(use),
            holders=tuple(sorted({key[0] for key, _ in held[:5]})),
        )

    def _moment(self, execution_id: int, command_id: str, use: Use) -> Wait | None:
        command = self._tables.work[execution_id].commands.get(command_id)
        if command is None or use.limit.rate is None or not use.held or command.turn or command.waiting:
            return None
        if command.not_before <= self._tables.clock():
            return None
        return Wait(use.limit.key, use.step, command.run, use.since, at=command.not_before)
