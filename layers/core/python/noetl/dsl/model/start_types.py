"""Field types of schedules and triggers.

They are literals only: nothing runs yet that could render a template.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any
from zoneinfo import available_timezones

from pydantic import PlainValidator, WithJsonSchema

from noetl.domain.automations import schedules
from noetl.domain.automations.missed_run_policy import MAX_CATCH_UP
from noetl.domain.automations.triggers import BUCKET, BUS, QUEUE
from noetl.domain.errors import InvalidInputError
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.expressions import has_template
from noetl.dsl.model.types import problem


def _literal(what: str, check: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a validator of a text that ``check`` accepts.

    It keeps the text as ``check`` returns it, when that is text.
    """

    def validate(value: Any) -> Any:
        text = _text(what, value)
        try:
            checked = check(text)
        except InvalidInputError as refused:
            raise problem(refused.code.replace("_", "-"), refused.message, refused.hint) from None
        return checked if isinstance(checked, str) else text

    return validate


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise problem("wrong-type", f"{what} must be text, not {type(value).__name__}", "quote it")
    if has_template(value):
        raise problem(
            "template-not-allowed",
            f"{what} is read before anything runs, so it cannot be a template",
            "write the value itself",
        )
    return value


def _matching(what: str, pattern: str, hint: str) -> Callable[[Any], Any]:
    def validate(value: Any) -> Any:
        if not re.fullmatch(pattern, _text(what, value)):
            raise problem("wrong-value", f"{value[:80]!r} cannot be {what}", hint)
        return value

    return validate


def _zone(name: str) -> None:
    try:
        schedules.zone(name)
    except InvalidInputError as refused:
        refused.hint = did_you_mean(name, sorted(available_timezones()), refused.hint)
        raise


def _text_type(check: Callable[[Any], Any], **schema: Any) -> Any:
    return Annotated[str, PlainValidator(check), WithJsonSchema({"type": "string", **schema})]


def _plain(value: Any) -> Any:
    """Data without templates."""
    queue = [value]
    while queue:
        current = queue.pop()
        if isinstance(current, str):
            _text("the payload of a schedule", current)
        elif isinstance(current, dict):
            queue += current.values()
        elif isinstance(current, list):
            queue += current
    if not isinstance(value, dict):
        raise problem("wrong-type", "the payload of a schedule must be a mapping", "write name: value")
    return value


def _most(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_CATCH_UP:
        raise problem(
            "wrong-value",
            f"`catch_up_max` cannot be {str(value)[:40]}; it is a number from 1 to {MAX_CATCH_UP}",
            "older moments are started by a backfill",
        )
    return value


CatchUpMost = Annotated[
    int,
    PlainValidator(_most),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_CATCH_UP}),
]
Cron = _text_type(
    _literal("`cron`", schedules.check_cron), pattern=r"^\s*\S+\s+\S+\s+(\*\s+\S+\s+\S+|\S+\s+\S+\s+\*)\s*$"
)
Rate = _text_type(
    _literal("`rate`", schedules.check_rate),
    pattern=r"^\s*([0-9]+\s+(minute|hour|day)s?|([0-9]+\s*[mhdw]\s*)+)\s*$",
)
Zone = _text_type(_literal("`timezone`", _zone))
ScheduleName = _text_type(
    _literal("the name of a schedule", schedules.check_name), pattern=r"^[A-Za-z0-9_.-]{1,64}$"
)
Bucket = _text_type(
    _matching("a bucket", BUCKET, "its name: 3 to 63 lower-case letters, digits, dots and hyphens"),
    pattern=f"^{BUCKET}$",
)
KeyPart = _text_type(lambda value: _text("a part of a key", value))
Bus = _text_type(_matching("an event bus", BUS, "its name or ARN"), pattern=f"^{BUS}$")
Queue = _text_type(_matching("a queue", QUEUE, "its name or ARN (not its URL)"), pattern=f"^{QUEUE}$")
Payload = Annotated[dict[str, Any], PlainValidator(_plain), WithJsonSchema({"type": "object"})]


def _pattern(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        raise problem(
            "wrong-type",
            "an event pattern is a mapping",
            "such as { source: [my.app], detail-type: [Order] }",
        )
    for key, entry in value.items():
        _pattern_entry(key, entry)
    return value


def _pattern_entry(key: str, entry: Any) -> None:
    if isinstance(entry, dict) and entry:
        for inner, value in entry.items():
            _pattern_entry(inner, value)
    elif key == "$or" and isinstance(entry, list) and entry:
        for value in entry:
            _pattern(value)
    elif not isinstance(entry, list) or not entry:
        raise problem(
            "wrong-type",
            f"`{key}` of an event pattern must list what it may be",
            f"write {key}: [ … ]",
        )


Pattern = Annotated[
    dict[str, Any], PlainValidator(_pattern), WithJsonSchema({"type": "object", "minProperties": 1})
]
