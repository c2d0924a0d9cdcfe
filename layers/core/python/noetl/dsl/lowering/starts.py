"""``metadata.schedule`` and ``metadata.triggers``, checked for meaning and as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from noetl.domain.automations import schedules
from noetl.domain.automations.missed_run_policy import CatchUp, Overlap
from noetl.domain.errors import InvalidInputError
from noetl.dsl.json_schema.check import misfits, schema_problem
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import EventBridgeTrigger, S3Trigger, ScheduleSpec, SqsTrigger, Trigger
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, mapping_of, text_of


def lower_schedule(lowering: Lowering, tree: Tree | None, schema: Any) -> ScheduleSpec | None:
    """Lower a schedule.

    ``schema``: the playbook's ``input``, which the payload has to fit.
    """
    if not isinstance(tree, Mapping):
        return None
    found = {key: value for key, value in tree.plain().items() if value is not None}
    payload = found.get("payload", {})
    _check_payload(lowering, tree, payload, schema)
    lowering.check_entries(tree.get("payload"), "the payload")
    return ScheduleSpec(
        name=_text(found.get("name")),
        cron=_checked(schedules.check_cron, found.get("cron")),
        rate=_checked(schedules.check_rate, found.get("rate")),
        timezone=_text(found.get("timezone")) or "UTC",
        payload=payload if isinstance(payload, dict) else {},
        enabled=found.get("enabled") is not False,
        **_conduct(found),
    )


def _conduct(found: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of missed moments and overlaps, without the invalid ones.

    The invalid ones are reported already.
    """
    fits = {
        "catch_up": found.get("catch_up") in get_args(CatchUp),
        "catch_up_max": type(found.get("catch_up_max")) is int,
        "overlap": found.get("overlap") in get_args(Overlap),
    }
    return {key: found[key] for key, fit in fits.items() if fit}


def _checked(check: Callable[[str], str], value: Any) -> str | None:
    """Return ``value`` in its one spelling, or None for an invalid one.

    The mistake is reported already: a document of a wrong shape is lowered only for its other problems.
    """
    try:
        return check(value) if isinstance(value, str) else None
    except InvalidInputError:
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _check_payload(lowering: Lowering, tree: Mapping, payload: Any, schema: Any) -> None:
    """Report a payload that does not fit the schema, since each firing would fail.

    An invalid schema is reported by another check.
    """
    if not isinstance(schema, dict) or schema_problem(schema) is not None:
        return
    try:
        problems = misfits(schema, payload)
    except InvalidInputError:
        return
    if problems:
        place = tree.get("payload")
        lowering.diagnostics.error(
            "schedule-payload",
            f"what the schedule sends does not fit `input`: {problems[0]}",
            tree.pos if place is None else place.pos,
            hint="give the schedule a payload that fits, or loosen `input`",
        )


def lower_triggers(lowering: Lowering, tree: Tree | None) -> tuple[Trigger, ...]:
    made: dict[str, Trigger] = {}
    counts: dict[str, int] = {}
    for item in items_of(tree):
        block = mapping_of(item)
        kind = text_of(block.get("type")) or ""
        counts[kind] = counts.get(kind, 0) + 1
        name = text_of(block.get("name")) or f"{kind}-{counts[kind]}"
        if name in made:
            place = block.get("name")
            lowering.diagnostics.error(
                "duplicate-key",
                f"there is another trigger called {name!r}",
                block.pos if place is None else place.pos,
                hint="rename one of them",
            )
            continue
        trigger = _trigger(kind, name, {k: v for k, v in block.plain().items() if v is not None})
        if trigger is not None:
            made[name] = trigger
    return tuple(made.values())


def _trigger(kind: str, name: str, found: dict[str, Any]) -> Trigger | None:
    if kind == "s3":
        events = found.get("events")
        return S3Trigger(
            name=name,
            bucket=_text(found.get("bucket")),
            prefix=_text(found.get("prefix")),
            suffix=_text(found.get("suffix")),
            events=tuple(dict.fromkeys(events)) if isinstance(events, list) else ("created",),
        )
    if kind == "eventbridge":
        return EventBridgeTrigger(
            name=name, pattern=found.get("pattern", {}), bus=_text(found.get("bus")) or "default"
        )
    if kind == "sqs":
        return SqsTrigger(name=name, queue=_text(found.get("queue")), batch=found.get("batch", 10))
    return None
