"""Parameters of ``noetl.commit_changes`` from Changes, and results from its answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from noetl.adapters.changes import applied_timers, cascade_of
from noetl.adapters.loops import chunk_command, first_chunks, is_given_up
from noetl.adapters.postgres.connection import Row
from noetl.adapters.postgres.executions import fact_rows
from noetl.adapters.postgres.executions.command_rows import payload, side_by_side
from noetl.adapters.postgres.executions.outbox import outbox_parts
from noetl.adapters.postgres.executions.permits import (
    Loops,
    Slots,
    integers,
    limit_parts,
    result_parts,
    whole_command,
)
from noetl.adapters.postgres.executions.unreadable_rows import RowReader
from noetl.adapters.postgres.literals import (
    EMPTY,
    documents,
    flags,
    name,
    numbers,
    printable,
    records,
    text,
    texts,
)
from noetl.adapters.postgres.variables import variable_rows
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.ports.executions.execution_store import Change, Committed, CreatedExecution, LoopRow

_RARE = (
    "created",
    "dropped",
    "ended",
    "loops",
    "gates",
    "replaced",
    "wakes",
    "timers",
    "cleared",
    "variables",
    "cancels",
)
_COLUMNS = (
    "x_rests",
    *("s_execution", "s_name", "s_scope", "s_value", "d_execution", "d_name", "d_scope"),
    *("c_execution", "c_id", "c_attempt", "c_turn"),
    *("n_execution", "n_id", "n_run", "n_attempt", "n_waiting", "n_delay", "n_payload", "n_remote"),
    *(
        "o_execution",
        "o_id",
        "o_source",
        "o_payload",
        "o_awaited_by",
        "o_program",
        "o_path",
        "h_execution",
        "h_id",
    ),
)
_NOTHING: dict[str, bytes | None] = {**dict.fromkeys(_RARE), **dict.fromkeys(_COLUMNS, EMPTY)}
"""Parameters of a commit that writes nothing: only parts that are there are built."""


class Writing:
    """One commit: its parameters, and how to read the answer.

    ``changes`` are sorted by execution.
    """

    def __init__(self, changes: Sequence[Change], owner: str | None) -> None:
        self._changes = changes
        self._owner = owner

    def parameters(self) -> dict[str, bytes | None]:
        """Raises InvalidInputError for names and ids that Postgres cannot hold."""
        values: dict[str, bytes | None] = {**_NOTHING, "owner": text(self._owner or "")}
        self._executions(values)
        self._events(values)
        self._slots(values)
        self._commands(values)
        self._outbox(values)
        if any(map(_has_rare_parts, self._changes)):
            self._rare(values)
        if self.rare:
            values |= limit_parts(self._changes)
            values["results"] = result_parts(self._changes)
        return values

    @property
    def rare(self) -> bool:
        """Return whether a change concerns shared keys, priorities, or lifetimes of results."""
        return any(
            change.limited or change.priority or change.kept or change.reaches for change in self._changes
        )

    def _executions(self, values: dict[str, bytes | None]) -> None:
        changes = self._changes
        values["x_id"] = numbers([change.execution_id for change in changes])
        values["x_expected"] = numbers([change.expected for change in changes])
        values["x_status"] = texts([change.status for change in changes])
        values["x_program"] = texts([change.program for change in changes])
        values["x_state"] = documents([change.state for change in changes])
        if any(change.rests_until is not None for change in changes):
            values["x_rests"] = numbers([change.rests_until for change in changes])

    def _events(self, values: dict[str, bytes | None]) -> None:
        rows = [row for change in self._changes for row in change.events]
        values["e_execution"] = numbers(
            [change.execution_id for change in self._changes for _ in change.events]
        )
        values["e_id"] = texts([row.event_id for row in rows])
        values["e_lane"] = numbers([row.lane for row in rows])
        values["e_seq"] = numbers([row.seq for row in rows])
        values["e_type"] = texts([row.type for row in rows])
        values["e_facts"] = documents([fact_rows.short(row.facts) for row in rows])
        values["e_at"] = numbers([row.at for row in rows])

    def _slots(self, values: dict[str, bytes | None]) -> None:
        kept: list[tuple[int, str, str, bytes]] = []
        gone: list[tuple[int, str, str]] = []
        for change in self._changes:
            execution = change.execution_id
            for (scope, slot), value in change.slots.items():
                kept.append((execution, name(slot), name(scope), codec.encode(value)))
            gone += [(execution, name(slot), name(scope)) for scope, slot in change.unset]
        if kept:
            values["s_execution"] = numbers([row[0] for row in kept])
            values["s_name"] = texts([row[1] for row in kept])
            values["s_scope"] = texts([row[2] for row in kept])
            values["s_value"] = documents([row[3] for row in kept])
        if gone:
            values["d_execution"] = numbers([row[0] for row in gone])
            values["d_name"] = texts([row[1] for row in gone])
            values["d_scope"] = texts([row[2] for row in gone])

    def _commands(self, values: dict[str, bytes | None]) -> None:
        closed: list[tuple[int, str, int, int]] = []
        fresh: list[tuple[Command, bool]] = []
        for change in self._changes:
            kept = _kept_fences(change)
            closed += [(change.execution_id, *fence) for fence in change.close if fence[0] not in kept]
            if not change.end:
                fresh += [
                    (one, False) for one in change.issue if one.turn == 0 and one.command_id not in kept
                ]
                fresh += [
                    (one, True) for one in change.waiting if one.turn == 0 and one.command_id not in kept
                ]
        closed, fresh = side_by_side(closed, fresh)
        if closed:
            values["c_execution"] = numbers([row[0] for row in closed])
            values["c_id"] = texts([row[1] for row in closed])
            values["c_attempt"] = numbers([row[2] for row in closed])
            values["c_turn"] = numbers([row[3] for row in closed])
        if fresh:
            values["n_execution"] = numbers([command.execution_id for command, _ in fresh])
            values["n_id"] = texts([command.command_id for command, _ in fresh])
            values["n_run"] = numbers([command.run for command, _ in fresh])
            values["n_attempt"] = numbers([command.attempt for command, _ in fresh])
            values["n_waiting"] = flags([waiting for _, waiting in fresh])
            values["n_delay"] = numbers([command.delay for command, _ in fresh])
            values["n_payload"] = documents([payload(command) for command, _ in fresh])
            values["n_remote"] = flags([command.remote for command, _ in fresh])

    def _outbox(self, values: dict[str, bytes | None]) -> None:
        events = [event for change in self._changes for event in change.outbox]
        handled = [(change.execution_id, event) for change in self._changes for event in change.handled]
        if events:
            sources = [change.execution_id for change in self._changes for _ in change.outbox]
            values["o_source"] = numbers(sources)
            values |= outbox_parts(events)
        if handled:
            values["h_execution"] = numbers([row[0] for row in handled])
            values["h_id"] = texts([row[1] for row in handled])

    def _rare(self, values: dict[str, bytes | None]) -> None:
        rows: dict[str, list[dict[str, Any]]] = {part: [] for part in _RARE}
        for change in self._changes:
            _lifecycle_parts(change, rows)
            _timer_parts(change, rows)
            rows["loops"] += [_loop(change, loop) for loop in change.loops]
            if not change.end:
                rows["replaced"] += _replaced(change)
        del rows["ended"]
        values.update({part: records(found) for part, found in rows.items()})
        ended = [change.execution_id for change in self._changes if change.end]
        values["ended"] = numbers(ended) if ended else None

    def committed(self, answers: list[Row], unread: RowReader) -> Committed:
        """Return what is given out.

        ``answers``: kind, execution, id, numbers, body, extra, loop. ``unread``: collects rows that cannot be read.
        """
        if self._owner is None:
            return Committed()
        posted: set[tuple[int, str]] | None = None
        attempts: dict[tuple[int, str], int] = {}
        woken: dict[int, list[Command]] = {}
        loops = Loops()
        made: dict[int, list[Event]] = {}
        slots = Slots(unread)
        for answer in answers:
            kind, execution, identity, counts, body, extra, loop = answer
            if kind == b"partly":
                posted = set()
                continue
            if slots.read(answer):
                continue
            key = (int(execution or b""), (identity or b"").decode())
            if kind == b"posted":
                assert posted is not None
                posted.add(key)
            elif kind == b"replaced":
                attempts[key] = integers(counts)[0]
            elif kind == b"woken":
                place = integers(counts)
                loops.read(key[0], place, loop)
                whole = loops.of(key[0], place) if place[1] >= 0 else None
                command = unread.command(*key, partial(whole_command, key[0], place, body, extra, whole))
                woken.setdefault(key[0], []).extend([] if command is None else [command])
            else:
                event = unread.event(*key, body or b"")
                made.setdefault(0, []).extend([] if event is None else [event])
        commands = [command for change in self._changes for command in self._given(change, attempts, woken)]
        commands = slots.given_out(commands)
        events = [
            event
            for change in self._changes
            for event in change.outbox
            if posted is None or _first(posted, (event.execution_id, event.event_id))
        ]
        return Committed(tuple(commands), tuple(events + made.get(0, [])))

    def _given(
        self, change: Change, attempts: dict[tuple[int, str], int], woken: dict[int, list[Command]]
    ) -> list[Command]:
        if change.end:
            return []
        found = []
        for command in change.issue:
            attempt = attempts.get((change.execution_id, command.command_id), command.attempt)
            same = attempt == command.attempt
            found.append(command if same else msgspec.structs.replace(command, attempt=attempt))
        found += woken.get(change.execution_id, [])
        for loop in change.loops:
            chunks = [] if is_given_up(change, loop) else first_chunks(loop)
            found += [chunk_command(change.execution_id, loop, start, stop) for start, stop in chunks]
        return found


def _first(posted: set[tuple[int, str]], key: tuple[int, str]) -> bool:
    """True once for a key that was posted."""
    if key not in posted:
        return False
    posted.remove(key)
    return True


def _kept_fences(change: Change) -> dict[str, tuple[int, int]]:
    """Return the fences of rows that a new turn replaces.

    The row must be open still, and keeps its attempt count. Others are deleted by their fences.
    """
    if not change.close or change.end:
        return {}
    again = {one.command_id for one in chain(change.issue, change.waiting) if one.run not in change.drop_runs}
    return {name: (attempt, turn) for name, attempt, turn in change.close if name in again}


def _has_rare_parts(change: Change) -> bool:
    if change.end or change.loops or change.gates or change.wakes or change.timers or change.variables:
        return True
    if (
        change.release
        or change.words
        or change.drop_runs
        or change.over_runs
        or change.cancel_children
        or (change.expected == 0 and change.created is not None)
    ):
        return True
    if any(one.turn > 0 for one in chain(change.issue, change.waiting)) or _kept_fences(change):
        return True
    return any(row.event_id.startswith("timer:") for row in change.events)


def _lifecycle_parts(change: Change, rows: dict[str, list[dict[str, Any]]]) -> None:
    execution = change.execution_id
    if change.expected == 0 and change.created is not None:
        rows["created"].append(_created(change, change.created))
    rows["dropped"] += [{"execution": execution, "run": run} for run in change.drop_runs]
    rows["dropped"] += [{"execution": execution, "over": run} for run in change.over_runs]
    if not change.end:
        rows["gates"] += [
            {"execution": execution, "run": gate.run, "round": gate.round} for gate in change.gates
        ]
        rows["wakes"] += [
            {
                "execution": execution,
                "id": wake.command_id,
                "turn": wake.turn,
                "child": codec.encode(wake.outcome).decode(),
            }
            for wake in change.wakes
        ]
    rows["variables"] += variable_rows(execution, change.variables)
    abandoned = dict.fromkeys(run for run in change.drop_runs if run not in change.left_runs)
    if change.cancel_children or abandoned:
        reason = codec.encode(change.cancel_reason).decode()
        cascade = {"execution": execution, "reason": reason, "id": cascade_of(change)}
        if change.cancel_children:
            rows["cancels"].append({**cascade, "run": None, "spared": change.spared})
        if change.spared or not change.cancel_children:
            rows["cancels"] += [{**cascade, "run": run} for run in abandoned]
    rows["cancels"] += [
        {"execution": execution, "what": word.what, "id": word.event_id, "seq": word.seq}
        for word in change.words
    ]
    if change.release:
        begin = not change.cancel_children
        rows["cancels"].append({"execution": execution, "what": "release", "begin": begin})


def _created(change: Change, created: CreatedExecution) -> dict[str, Any]:
    """Return the row of a new execution; its path and name may be any text of a caller.

    ``age``: seconds since it began.
    """
    return {
        "execution_id": change.execution_id,
        "age": change.seconds,
        "path": printable(created.path),
        "name": printable(created.name),
        "playbook_version": printable(created.playbook_version),
        "parent": created.parent_execution_id,
        "principal": printable(created.principal),
        "awaited_by": created.awaited_by,
        "start": created.start,
    }


def _timer_parts(change: Change, rows: dict[str, list[dict[str, Any]]]) -> None:
    for timer, generation in applied_timers(change.events):
        rows["cleared"].append({"execution": change.execution_id, "timer": timer, "generation": generation})
    wanted = {row.timer: row for row in change.timers}
    for row in wanted.values():
        if row.seconds is None:
            rows["cleared"].append({"execution": change.execution_id, "timer": row.timer, "generation": None})
        elif not change.end:
            rows["timers"].append(
                {
                    "execution": change.execution_id,
                    "timer": row.timer,
                    "generation": row.generation,
                    "seconds": row.seconds,
                }
            )


def _replaced(change: Change) -> list[dict[str, Any]]:
    fences = _kept_fences(change)
    found = []
    for waiting, group in ((False, change.issue), (True, change.waiting)):
        for command in group:
            if command.turn == 0 and command.command_id not in fences:
                continue
            attempt, turn = fences.get(command.command_id, (None, None))
            found.append(
                {
                    "execution": change.execution_id,
                    "id": command.command_id,
                    "run": command.run,
                    "attempt": command.attempt,
                    "turn": command.turn,
                    "waiting": waiting,
                    "delay": command.delay,
                    "payload": payload(command).decode(),
                    "remote": command.remote,
                    "fence_attempt": attempt,
                    "fence_turn": turn,
                }
            )
    return found


def _loop(change: Change, loop: LoopRow) -> dict[str, Any]:
    given_up = is_given_up(change, loop)
    chunks = [] if given_up else first_chunks(loop)
    return {
        "execution": change.execution_id,
        "run": loop.run,
        "round": loop.round,
        "given_up": given_up or None,
        "step": loop.step,
        "program": loop.program,
        "total": loop.total,
        "places": max(1, loop.window),
        "issued": chunks[-1][1] if chunks else 0,
        "chunk": chunks[0][1] - chunks[0][0] if chunks else 1,
        "payload": codec.encode(loop).decode(),
        "limits": loop.limits or None,
        "priority": loop.priority,
    }
