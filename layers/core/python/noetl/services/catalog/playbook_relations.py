"""Relations of a playbook: what it calls, what calls it, and what starts it by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from noetl.domain.automations.triggers import Kind
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.text.timestamps import TimeText
from noetl.domain.text.wildcards import fits
from noetl.dsl.program import Program, S3Trigger, SqsTrigger
from noetl.ports.automations.schedule_store import ScheduleRow, ScheduleStore
from noetl.ports.automations.trigger_store import TriggerRow, TriggerStore
from noetl.ports.catalog import Catalog, CatalogEntry, PlaybookVersion
from noetl.services.automations.schedules import ScheduleState, next_of, state_of
from noetl.services.catalog.playbook_needs import Need, needs_of

MOST_CALLERS = 100
"""Playbooks whose programs one request reads, to find those that call another."""
MOST_STARTS = 100
"""Schedules, and triggers, that one request shows."""


class CallView(msgspec.Struct, frozen=True):
    """A playbook that is called, and the place of the task that calls it.

    ``computed``: ``path`` is as the task has it, a text with templates, and what it names is known when the task runs. ``version``: the one
    that the task names. ``latest``: the latest version here; null: none is registered, or the path is computed.
    """

    path: str
    version: int | None
    computed: bool
    latest: int | None
    line: int
    column: int


class CallerView(msgspec.Struct, frozen=True):
    """A playbook whose latest version calls this one, and the place of the task that does.

    ``called``: the path as the task has it. ``computed``: it has templates that may name this playbook. ``called_version``: the one that
    the task names; null: the latest.
    """

    path: str
    version: int
    called: str
    called_version: int | None
    computed: bool
    line: int
    column: int


class StartingSchedule(msgspec.Struct, frozen=True):
    """A schedule that starts the playbook; ``version`` null: the latest."""

    name: str
    version: int | None
    cron: str | None
    rate: str | None
    timezone: str
    state: ScheduleState
    next_at: TimeText | None


class StartingTrigger(msgspec.Struct, frozen=True):
    """A trigger that starts the playbook; ``version`` null: the latest.

    ``declared``: in the playbook's own ``metadata.triggers``, which only a deployment watches.
    """

    name: str
    type: Kind
    version: int | None
    enabled: bool
    declared: bool


class Relations(msgspec.Struct, frozen=True):
    """Relations of one version of a playbook.

    ``complete``: every latest version that may call another was read. ``more_starts``: there are more schedules or triggers than are shown.
    """

    path: str
    version: int
    calls: list[CallView]
    callers: list[CallerView]
    complete: bool
    schedules: list[StartingSchedule]
    triggers: list[StartingTrigger]
    more_starts: bool


class RelationDeps(msgspec.Struct, frozen=True):
    """Dependencies of the service. ``programs``: hash → Program."""

    catalog: Catalog
    programs: Callable[[str], Program]
    schedules: ScheduleStore
    triggers: TriggerStore


def read_relations(deps: RelationDeps, entry: CatalogEntry) -> Relations:
    """Read the relations of a playbook. Raises as ``programs`` does for its own program.

    Callers are found in programs, not in texts; texts only say which programs to read, those that name the path first.
    """
    program = deps.programs(entry.program)
    candidates = deps.catalog.calling(entry.path, limit=MOST_CALLERS + 1)
    callers, unread = _callers(deps, entry.path, candidates[:MOST_CALLERS])
    schedules = deps.schedules.of_path(entry.path, limit=MOST_STARTS + 1)
    triggers = deps.triggers.of_path(entry.path, limit=MOST_STARTS + 1)
    return Relations(
        entry.path,
        entry.version,
        _calls(deps.catalog, program),
        callers,
        not unread and len(candidates) <= MOST_CALLERS,
        [_schedule(row) for row in schedules[:MOST_STARTS]],
        [*_declared(program, entry.version), *(_trigger(row) for row in triggers[:MOST_STARTS])],
        max(len(schedules), len(triggers)) > MOST_STARTS,
    )


def _calls(catalog: Catalog, program: Program) -> list[CallView]:
    needs = sorted(needs_of(program).playbooks, key=lambda one: (one.pos.line, one.pos.column))
    fixed = list(dict.fromkeys(_path(one) for one in needs if not one.parts))
    found = dict(zip(fixed, catalog.find([(path, None) for path in fixed]), strict=True))
    views = []
    for one in needs:
        latest = None if one.parts else found[_path(one)]
        number = latest.version if latest else None
        views.append(CallView(_path(one), one.version, bool(one.parts), number, one.pos.line, one.pos.column))
    return views


def _callers(
    deps: RelationDeps, path: str, candidates: Sequence[PlaybookVersion]
) -> tuple[list[CallerView], bool]:
    """Return the callers, those with a fixed path first.

    The flag says whether a program could not be read.
    """
    found: list[CallerView] = []
    unread = False
    for candidate in candidates:
        try:
            needs = needs_of(deps.programs(candidate.program))
        except InfrastructureError:
            raise
        except NoetlError:
            unread = True
            continue
        found += [_caller(candidate, need) for need in needs.playbooks if _may_name(need, path)]
    return sorted(found, key=lambda one: (one.computed, one.path, one.line, one.column)), unread


def _may_name(need: Need, path: str) -> bool:
    return fits(need.parts, path, gap=1) if need.parts else _path(need) == path


def _path(need: Need) -> str:
    return need.name if need.parts else need.name.removeprefix("/")


def _caller(caller: PlaybookVersion, need: Need) -> CallerView:
    return CallerView(
        caller.path,
        caller.version,
        _path(need),
        need.version,
        bool(need.parts),
        need.pos.line,
        need.pos.column,
    )


def _schedule(row: ScheduleRow) -> StartingSchedule:
    return StartingSchedule(
        row.name, row.version, row.cron, row.rate, row.timezone, state_of(row), next_of(row)
    )


def _trigger(row: TriggerRow) -> StartingTrigger:
    return StartingTrigger(row.name, row.kind, row.version, row.enabled, False)


def _declared(program: Program, version: int) -> Iterator[StartingTrigger]:
    for one in program.triggers:
        kind: Kind = (
            "s3" if isinstance(one, S3Trigger) else "sqs" if isinstance(one, SqsTrigger) else "eventbridge"
        )
        yield StartingTrigger(one.name, kind, version, True, True)
