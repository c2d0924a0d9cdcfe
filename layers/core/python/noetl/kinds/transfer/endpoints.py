"""The two ends of a transfer, and the chunk that goes between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.kinds.transfer.params import Params

Row = Mapping[str, Any]
Position = Mapping[str, Any]
"""Where a source is read on from. ``rows``: how many came before; the rest is the source's own."""
MOST_PIECES = 8
BOOKS = "noetl_transfer"
"""The table beside the target that says how far a transfer is. It changes in the transaction that writes the rows."""
KEPT_DAYS = 30
"""So long a transfer that is over, or was given up, is remembered."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """``position``: of what follows it."""

    rows: Sequence[Row]
    position: Position


@dataclass(slots=True)
class Progress:
    """The progress of a transfer.

    ``position``: None when nothing is committed yet. ``done``: it has been carried out already.
    """

    position: Position | None = None
    rows_read: int = 0
    rows_written: int = 0
    done: bool = False


class Source(Protocol):
    """Rows in an order."""

    columns: Sequence[str] | None
    """Their names, where the source states them apart from its rows; known when ``chunks`` has begun."""
    types: Mapping[str, str]
    """Their types, as DuckDB names them, where the source knows them."""

    def chunks(self, position: Position | None) -> Iterator[Chunk]:
        """Yield chunks from ``position`` on.

        Raises TaskError; code ``source_changed`` when the position belongs to another state of the source.
        """


class Target(Protocol):
    """Where rows go. Leaving it with an exception undoes what is not committed."""

    def begin(self) -> Progress: ...

    def write(self, rows: Sequence[Row], position: Position, source: Source) -> None:
        """Write rows. Raises TaskError, with ``details.row`` where it is known."""

    def finish(self, source: Source) -> dict[str, Any]:
        """Complete the target after the last row; return its report, with ``rows_written``."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A transfer, apart from its stores.

    ``resumable``: its source can be read from a place on, so chunks are committed one by one.
    """

    key: str
    fingerprint: str
    mode: str
    keys: tuple[str, ...]
    resumable: bool
    columns: tuple[str, ...] = ()
    """Of the target, where the playbook names them."""

    @property
    def staging(self) -> str:
        """A table of this transfer's own."""
        return f"noetl_stage_{hashlib.sha256(self.key.encode()).hexdigest()[:20]}"


def plan_of(params: Params, idempotency_key: str) -> Plan:
    """Return the plan, which is the same for every attempt of one transfer."""
    key = f"key:{params.resume_key}" if params.resume_key else f"task:{idempotency_key}"
    target = params.target
    identity = [
        target.kind,
        getattr(target, "table", None),
        params.way,
        params.key,
        params.pairs,
        params.source.kind,
    ]
    return Plan(
        key,
        hashlib.sha256(codec.encode(identity)).hexdigest(),
        params.way,
        tuple(params.key or ()),
        resumable(params),
        tuple(params.pairs or ()),
    )


def resumable(params: Params) -> bool:
    """Report whether rows come in the same order again: of a query only with ``order_by``."""
    source = params.source
    return source.kind not in ("postgres", "duckdb") or source.order_by is not None


def check_begun(plan: Plan, fingerprint: str) -> None:
    """Refuse another plan. Raises TaskError(code="transfer_differs")."""
    if fingerprint != plan.fingerprint:
        raise TaskError(
            "a transfer of this `resume_key` was begun with another source, target, mode or other columns",
            kind="client_error",
            code="transfer_differs",
            hint="give every transfer its own `resume_key`",
        )


def overtaken() -> TaskError:
    """Another worker carries out the same transfer; it was not this one that committed last."""
    return TaskError(
        "another attempt of this transfer is further than this one",
        kind="worker_lost",
        code="transfer_overtaken",
        retryable=True,
    )


def counts_differ(expected: int, counted: int, where: str) -> TaskError:
    return TaskError(
        f"{expected} rows were read, and {where} has {counted} of them; nothing of it stays",
        kind="db_constraint",
        code="copy_count",
        hint="does a trigger of the table leave rows out, or does something else write there?",
        details={"expected": expected, "counted": counted},
    )


def changed(what: str, why: str) -> TaskError:
    return TaskError(
        f"{what} {why} since the transfer began, so it cannot continue where it was",
        kind="client_error",
        code="source_changed",
        hint="start a new transfer: run the step again, or give it another `resume_key`",
    )


def in_chunks(pieces: Iterable[Sequence[Row]], size: int) -> Iterator[list[Row]]:
    """Regroup pieces of any length into chunks of ``size`` rows.

    Chunks have fewer rows where the pieces are few rows each, for then rows are wide.
    """
    held: list[Row] = []
    count = 0
    for piece in pieces:
        held += piece
        count += 1
        while len(held) >= size:
            yield held[:size]
            held, count = held[size:], 0
        if held and count >= MOST_PIECES:
            yield held
            held, count = [], 0
    if held:
        yield held


@dataclass(slots=True)
class Counted:
    """Positions that are a number of rows and the source's identity."""

    about: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0

    def chunk(self, rows: Sequence[Row]) -> Chunk:
        self.rows += len(rows)
        return Chunk(rows, {**self.about, "rows": self.rows})
