"""Counts by pool and owner, as both kinds of store find them, put together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from noetl.domain.workers.lease_owners import pool_of, shown
from noetl.ports.executions.inspection import Lease, Outstanding, PoolWork


class Count(msgspec.Struct, frozen=True):
    """Commands of one pool that one owner has (empty: no owner).

    ``oldest``: seconds the oldest has been due. ``lease``: seconds left.
    """

    pool: str
    owner: str
    due: int
    delayed: int
    suspended: int
    oldest: float
    alive: bool
    lease: float | None


def put_together(counts: Iterable[Count], events: int, timers: int, limit: int) -> Outstanding:
    """``limit``: how many commands were looked at, at most."""
    pools: defaultdict[str, list[Count]] = defaultdict(list)
    for count in counts:
        pools[count.pool].append(count)
    every = [count for group in pools.values() for count in group]
    looked = sum(one.due + one.delayed + one.suspended for one in every)
    work = [_work(pool, group) for pool, group in sorted(pools.items())]
    return Outstanding(work, _leases(every), events, timers, looked >= limit)


def _leases(counts: Iterable[Count]) -> list[Lease]:
    """List who has commands.

    Leases by request are one entry of a pool, since each command has its own.
    """
    leases: dict[tuple[str, str, bool], Lease] = {}
    for one in counts:
        commands = one.due + one.delayed
        if not one.owner or not commands or pool_of(one.owner) is not None:
            continue
        key = (one.pool, shown(one.owner), one.alive)
        known = leases.get(key)
        leases[key] = Lease(
            key[1], one.pool, commands + (known.commands if known else 0), one.alive, one.lease
        )
    return list(leases.values())


def _work(pool: str, group: list[Count]) -> PoolWork:
    """Count the work of a pool; what a dead owner has counts as free, and so as ready."""
    free = [one for one in group if _is_free(one)]
    held = [one for one in group if not _is_free(one)]
    return PoolWork(
        pool,
        ready=sum(one.due for one in free),
        delayed=sum(one.delayed for one in free),
        leased=sum(one.due + one.delayed for one in held),
        suspended=sum(one.suspended for one in group),
        oldest=max((one.oldest for one in group), default=0.0),
    )


def _is_free(count: Count) -> bool:
    """Return whether no live owner has these commands; what is offered to a pool has none yet."""
    return not count.alive or pool_of(count.owner) is not None
