"""The kind ``transfer``: moves rows between stores, a chunk at a time, each exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.transfer.params import SOURCES, TARGETS, Params

if TYPE_CHECKING:
    from noetl.kinds.transfer.endpoints import Plan, Progress, Row, Source, Target

    _MakeSource = Callable[..., AbstractContextManager[Source]]
    _MakeTarget = Callable[..., AbstractContextManager[Target]]

__all__ = ["EXAMPLE", "SPEC", "Params", "check", "run"]

CALL_SECONDS = 780.0
"""What one call may take, so that it fits into a function; a transfer that can continue does so in a further one."""
_RESERVE = 0.1
"""The part of a call's time that is kept for committing what was read."""
_TABLES = frozenset({"postgres", "duckdb", "snowflake"})

SPEC = KindSpec(
    name="transfer",
    summary="Moves rows between Postgres, Snowflake, DuckDB, S3 and artifacts, in chunks that are written exactly once.",
    pool="cpu",
    default_timeout=3600.0,
    sql_fields=("source.query",),
    ref_fields=("source",),
    result_fields=("rows_read", "rows_written", "resumed_at", "mode", "table", "uri", "artifact"),
    needs_network=True,
    poll_seconds=CALL_SECONDS,
    layer="duckdb",
    extra="local",
)

EXAMPLE: dict[str, Any] = {
    "source": {"kind": "postgres", "auth": "shop", "table": "public.orders", "order_by": ["id"]},
    "target": {"kind": "s3", "auth": "lake", "uri": "s3://lake/orders/{{ execution_id }}.parquet"},
    "columns": ["id", "customer", "total"],
}


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Check a source or target that has templates in it."""
    from noetl.kinds.support.params import ParamsChecker, has_hole

    found = []
    for side, models in (("source", SOURCES), ("target", TARGETS)):
        given = params.get(side)
        kind = given.get("kind") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or not has_hole(given):
            continue
        if "kind" not in given:
            hint = f"add kind: one of {', '.join(models)}"
            found.append(ParamProblem((side,), f"{side!r} needs 'kind'", hint))
        if not isinstance(kind, str):
            continue
        if kind not in models:
            found.append(
                ParamProblem((side, "kind"), f"{side} is of no kind {kind!r}", f"one of {', '.join(models)}")
            )
            continue
        spec = KindSpec(f"a {side} of kind {kind}", "", "io")
        problems = ParamsChecker(models[kind], spec).check(given)
        found += [
            ParamProblem((side, *one.path), one.message, one.hint, one.code, one.place) for one in problems
        ]
    return found


def run(params: Params, context: TaskContext) -> TaskResult | PollRequest:
    """Move the rows; return ``{rows_read, rows_written, resumed_at, mode}`` and the target.

    The target adds ``table``, ``uri`` and ``bytes``, or ``artifact``. A transfer that does not fit into one call continues in another one,
    when it can. Raises TaskError: ``copy_count``, ``source_changed``, ``transfer_overtaken``, ``transfer_differs``, ``order_not_unique``,
    ``transfer_unfinished``, and those of the stores.
    """
    from noetl.kinds.transfer.endpoints import plan_of

    began = time.monotonic()
    plan = plan_of(params, context.idempotency_key)
    with ExitStack() as stack:
        target = stack.enter_context(_target(params, plan, context))
        progress = target.begin()
        resumed = progress.rows_read
        if progress.done:
            result: dict[str, Any] = {"rows_written": progress.rows_written, **_where(params)}
        else:
            source = stack.enter_context(_source(params, context))
            if not _carry(params, source, target, progress, context):
                left = context.left - (time.monotonic() - began)
                if (
                    plan.resumable
                    and params.target.kind in _TABLES
                    and progress.rows_read > resumed
                    and left > 0
                ):
                    return PollRequest(
                        {"rows_read": progress.rows_read, "resumed_at": _first(context, resumed)}, 0.0
                    )
                raise _unfinished(progress, context)
            result = target.finish(source)
    result |= {"resumed_at": _first(context, resumed), "mode": plan.mode}
    return TaskResult({"rows_read": progress.rows_read, **result})


def _where(params: Params) -> dict[str, Any]:
    """Return what a table as a target states of itself; it is the same for every attempt."""
    target = params.target
    place = {"table": getattr(target, "table", None)}
    return place | {"database": target.database} if target.kind == "duckdb" else place


def _first(context: TaskContext, resumed: int) -> int:
    """Return where this attempt began, in its first call."""
    return int((context.pending or {}).get("resumed_at", resumed))


def _carry(params: Params, source: Source, target: Target, progress: Progress, context: TaskContext) -> bool:
    """False when the time is up before the rows are."""
    began = time.monotonic()
    deadline = began + context.timeout * (1 - _RESERVE)
    pairs = params.pairs
    slowest = 0.0
    for chunk in source.chunks(progress.position):
        if context.cancelled():
            raise TaskError(
                "the execution was cancelled; its transfer was stopped", kind="cancelled", code="cancelled"
            )
        rows = _mapped(chunk.rows, pairs, progress.rows_read) if pairs is not None else chunk.rows
        target.write(rows, chunk.position, source)
        now = time.monotonic()
        slowest, began = max(slowest, now - began), now
        if now + slowest > deadline:
            return False
    return True


def _mapped(rows: Sequence[Row], pairs: Mapping[str, str], before: int) -> list[Row]:
    """Map rows to the columns of the target.

    Raises TaskError when a row lacks a column that they come from.
    """
    try:
        return [{name: row[given] for name, given in pairs.items()} for row in rows]
    except KeyError as error:
        name = error.args[0]
        at = next(at for at, row in enumerate(rows) if name not in row)
        raise TaskError(
            f"row {before + at + 1} of the source has no column {name!r}",
            kind="schema",
            code="column_missing",
            hint=f"it has {', '.join(map(str, rows[at]))[:300]}",
            details={"row": before + at + 1, "column": name},
        ) from None


def _unfinished(progress: Progress, context: TaskContext) -> TaskError:
    return TaskError(
        f"{progress.rows_read} rows were read, and there is no time for more within {context.timeout:g} s",
        kind="timeout",
        code="transfer_unfinished",
        retryable=True,
        hint="a source with `order_by`, and a table as its target, continues where it was; or give it more time: spec.timeout",
        details={"rows_read": progress.rows_read},
    )


def _source(params: Params, context: TaskContext) -> AbstractContextManager[Source]:
    source, _ = _ends(params.source.kind)
    return source(params.source, context, params.chunk_rows)


def _target(params: Params, plan: Plan, context: TaskContext) -> AbstractContextManager[Target]:
    _, target = _ends(params.target.kind)
    return target(params.target, plan, context)


def _ends(store: str) -> tuple[_MakeSource, _MakeTarget]:
    """Return the makers of a store's source and target.

    Stores are imported when a transfer names them.
    """
    if store == "postgres":
        from noetl.kinds.transfer.postgres import FromPostgres, IntoPostgres

        return FromPostgres, IntoPostgres
    if store == "duckdb":
        from noetl.kinds.transfer.duckdb import FromDuckdb, IntoDuckdb

        return FromDuckdb, IntoDuckdb
    if store == "snowflake":
        from noetl.kinds.transfer.snowflake import FromSnowflake, IntoSnowflake

        return FromSnowflake, IntoSnowflake
    if store == "s3":
        from noetl.kinds.transfer.s3 import FromS3, IntoS3

        return FromS3, IntoS3
    from noetl.kinds.transfer.artifact import FromArtifact, IntoArtifact

    return FromArtifact, IntoArtifact
