"""Checks of worker reports against what can be stored.

A worker runs code of other people, so its report may hold anything.

What a row of the store cannot hold (a name beyond the limit of an index, a moment beyond the calendar) would break the commit of everything
that is committed with it. So it is mended here, or becomes the failure of the task that said it, before the engine decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.errors import NoetlError
from noetl.domain.events import CommandDone, Event, ItemsDone
from noetl.domain.ids import LARGEST_ID
from noetl.domain.outcomes.outcomes import WORKER_TRACES, CallbackRequest, ErrorInfo, Outcome, Suspend
from noetl.domain.sizes.gate import check_depth, check_names, check_text, check_tree, exceeded
from noetl.domain.sizes.table import (
    CALLBACK_MESSAGE,
    CALLBACK_SCHEMA,
    COMMAND_NAME,
    ERROR_DETAILS,
    ERROR_MESSAGE,
    IDENTIFIER,
    NUMBER,
    SCHEMA_DEPTH,
)
from noetl.domain.text.excerpt import excerpt

LAST_MOMENT = 253_402_300_799.0
"""Epoch seconds of the end of the year 9999."""
_TEXTS = (
    ("message", ERROR_MESSAGE.value),
    ("hint", ERROR_MESSAGE.value),
    ("position", ERROR_MESSAGE.value),
    ("kind", COMMAND_NAME.value),
    ("code", COMMAND_NAME.value),
)
"""The texts of an error, with what is kept of each."""
_MOST_DETAILS = 64
"""Entries of an error's details that are kept when they are too large together."""
_SHORTEST = 48
"""Bytes below which a detail that is cut says nothing."""


def fitting(event: Event) -> Event:
    """``event`` with outcomes that can be kept; the same object when they all can."""
    if isinstance(event, CommandDone):
        outcome = fitted(event.outcome)
        return event if outcome is event.outcome else msgspec.structs.replace(event, outcome=outcome)
    if not isinstance(event, ItemsDone):
        return event
    items = [fitted(item.outcome) for item in event.items]
    rest = event.rest
    if (
        rest is not None
        and rest.outcome is not None
        and (fitted_outcome := fitted(rest.outcome)) is not rest.outcome
    ):
        rest = msgspec.structs.replace(rest, outcome=fitted_outcome)
    if rest is event.rest and all(new is item.outcome for new, item in zip(items, event.items, strict=True)):
        return event
    replaced = [
        msgspec.structs.replace(item, outcome=new) for new, item in zip(items, event.items, strict=True)
    ]
    return msgspec.structs.replace(event, items=replaced, rest=rest)


def fitted(outcome: Outcome) -> Outcome:
    """Return the outcome with numbers and errors that can be kept.

    When a name or a value cannot be kept, an error takes its place.
    """
    try:
        check_names((patch.name for patch in outcome.patches), "context")
        _check_values(outcome)
        if outcome.suspend is not None and outcome.suspend.callback is not None:
            _check_callback(outcome.suspend.callback)
    except NoetlError as error:
        refusal = ErrorInfo(error.message, "schema", error.code, hint=error.hint, details=error.details)
        outcome = Outcome("error", error=refusal, trace=outcome.trace, meta={})
    if (short := short_error(outcome.error)) is not outcome.error:
        outcome = msgspec.structs.replace(outcome, error=short)
    if any(one.name not in WORKER_TRACES for one in outcome.trace):
        trace = [one for one in outcome.trace if one.name in WORKER_TRACES]
        outcome = msgspec.structs.replace(outcome, trace=trace)
    if any(not 0 < one <= LARGEST_ID for one in outcome.reaches):
        reaches = tuple(one for one in outcome.reaches if 0 < one <= LARGEST_ID)
        outcome = msgspec.structs.replace(outcome, reaches=reaches)
    if outcome.suspend is not None and (error_info_at := _in_time(outcome.suspend)) != outcome.suspend:
        outcome = msgspec.structs.replace(outcome, suspend=error_info_at)
    return outcome


def _check_values(outcome: Outcome) -> None:
    """Hold what a task gave against the depth and digits of documents.

    Raises InvalidInputError(code="size_limit").
    """
    check_tree(outcome.result, "result")
    for value in outcome.labels.values():
        check_tree(value, "result")
    for patch in outcome.patches:
        # A list that gathers results is one level deeper than each of them.
        gathered = patch.op == "extend" and isinstance(patch.value, list)
        for value in patch.value if gathered else [patch.value]:
            check_tree(value, "context")


def _check_callback(callback: CallbackRequest) -> None:
    """Raises InvalidInputError(code="size_limit")."""
    check_text(IDENTIFIER, callback.task, "the task of a callback")
    size = len(codec.encode(callback.schema))
    if size > CALLBACK_SCHEMA.value:
        raise exceeded(CALLBACK_SCHEMA, size, "the schema of a callback")
    check_depth(SCHEMA_DEPTH, callback.schema, "the schema of a callback")
    if not 0 <= callback.serial <= NUMBER.value:
        raise exceeded(NUMBER, callback.serial, "the number of a callback")


def _in_time(suspend: Suspend) -> Suspend:
    """Return ``suspend`` with delays and moments limited to what the calendar has.

    The message of a callback is cut to what is kept.
    """
    callback = suspend.callback
    if callback is not None and len(callback.message) > CALLBACK_MESSAGE.value:
        callback = msgspec.structs.replace(callback, message=callback.message[: CALLBACK_MESSAGE.value])
    if callback is not None and callback.timeout is not None:
        callback = msgspec.structs.replace(callback, timeout=_seconds(callback.timeout))
    return msgspec.structs.replace(
        suspend,
        delay=None if suspend.delay is None else _seconds(suspend.delay),
        until=None if suspend.until is None else _moment(suspend.until),
        deadline=_moment(suspend.deadline),
        callback=callback,
    )


def _seconds(given: float) -> float:
    return min(max(given, 0.0), float(NUMBER.value)) if isfinite(given) else float(NUMBER.value)


def _moment(given: float) -> float:
    return min(max(given, 0.0), LAST_MOMENT) if isfinite(given) else LAST_MOMENT


def short_error(error: ErrorInfo | None) -> ErrorInfo | None:
    """Cut the texts and the details of an error to what history keeps.

    An error that fits is returned itself.
    """
    if error is None:
        return None
    details = error.details
    if details and len(codec.encode(details)) > ERROR_DETAILS.value:
        details = _short_details(details)
    texts = {
        name: short
        for name, most in _TEXTS
        if (text := getattr(error, name)) is not None and (short := excerpt(text, most)) is not text
    }
    if not texts and details is error.details:
        return error
    return msgspec.structs.replace(error, **texts, details=details)


def _short_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Cut the values of details to equal shares of their limit.

    An entry whose name alone fills its share is left out.
    """
    entries = list(details.items())[:_MOST_DETAILS]
    share = (ERROR_DETAILS.value - 2) // len(entries)
    kept: dict[str, Any] = {}
    for name, value in entries:
        room = share - len(codec.encode(name)) - 2
        encoded = codec.encode(value)
        if len(encoded) <= room:
            kept[name] = value
        elif room > _SHORTEST:
            text = value if isinstance(value, str) else encoded.decode("utf-8", "replace")
            # A character takes up to six bytes as JSON (an escape), one beyond the basic plane at most twelve.
            short = text[: room // 4] + "…"
            kept[name] = short if len(codec.encode(short)) <= room else text[: room // 12 - 1] + "…"
    return kept


def is_own_id(event: CommandDone | ItemsDone) -> bool:
    """Return whether an outcome has an id that it may have.

    The id of a command's outcome is a key of history: another id would be taken for another event there. The id of an outcome of items is
    only reported when the items come too late.
    """
    if isinstance(event, CommandDone):
        return event.event_id == ids.outcome_event(event.command_id, event.turn)
    return 0 < len(event.event_id) <= COMMAND_NAME.value and event.event_id.isprintable()


def plain_text(text: str, most: int = 1000) -> str:
    """Return ``text`` as a column can hold it: at most ``most`` characters.

    NUL and halves of surrogate pairs are replaced.
    """
    return text[:most].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8", "replace")
