"""Actions of ``noetl limit``."""

from __future__ import annotations

from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, note, out, out_json, table
from noetl.services.queries.limits import LimitRequest, LimitView, UseView


def show_list(limit: int, *, as_json: bool, at: CommandTarget) -> int:
    """A line for each key."""
    with open_place(at) as place:
        found = place.limits(limit)
    if as_json:
        for one in found:
            out_json(one)
    elif not found:
        note("nothing is limited: a playbook says so (spec.limits), or `noetl limit set`")
    else:
        rows = [(one.key, numbers(one), str(one.in_use), str(one.waiting), one.source) for one in found]
        out(table(("KEY", "LIMIT", "IN USE", "WAITING", "SAID BY"), rows))
    return errors.DONE


def numbers(one: LimitView) -> str:
    """``5 at once, 10 every 1 s (3 together)``"""
    parts = [] if one.concurrent is None else [f"{one.concurrent} at once"]
    if one.rate is not None:
        together = f" ({one.burst} together)" if one.burst > 1 else ""
        parts.append(f"{one.rate:g} every {one.per:g} s{together}")
    return ", ".join(parts) or "none"


def show(key: str, *, as_json: bool, at: CommandTarget) -> int:
    """One key: who holds it, and who waits."""
    with open_place(at) as place:
        one = place.limit(key)
    if as_json:
        out_json(one)
        return errors.DONE
    who = f", said by {one.principal}" if one.principal else f", said by a {one.source}"
    out(f"{one.key}: {numbers(one)}{who}")
    if one.next_at is not None:
        out(f"the rate is free again at {clock(one.next_at)}")
    _print("in use by", one.in_use, one.holders)
    _print("waiting", one.waiting, one.first)
    return errors.DONE


def _print(what: str, count: int, uses: list[UseView]) -> None:
    if not count:
        return
    out(f"{what}: {count}" if count == len(uses) else f"{what}: {count}, the first are")
    for use in uses:
        step = f"step {use.step} (run {use.run})" if use.step else "the whole execution"
        lost = "" if use.alive else ", whose worker is gone: the next attempt has it"
        priority = f", priority {use.priority}" if use.priority else ""
        out(f"  {use.execution_id}  {step} since {clock(use.since)}{priority}{lost}")


def set_(
    key: str,
    concurrent: int | None,
    rate: float | None,
    per: float,
    burst: int,
    *,
    as_json: bool,
    at: CommandTarget,
) -> int:
    """An operator's numbers."""
    with open_place(at) as place:
        made = place.set_limit(key, LimitRequest(concurrent, rate, per, burst))
    if as_json:
        out_json(made)
    else:
        out(f"{made.key}: {numbers(made)}; {made.in_use} in use, {made.waiting} waiting")
    return errors.DONE


def remove(key: str, *, as_json: bool, at: CommandTarget) -> int:
    """Playbooks' own numbers again."""
    with open_place(at) as place:
        place.remove_limit(key)
    if as_json:
        out_json({"key": key, "removed": True})
    else:
        out(f"{key}: the limit is removed; limits of playbooks apply again")
    return errors.DONE
