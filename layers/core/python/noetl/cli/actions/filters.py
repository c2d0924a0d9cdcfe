"""Selection of executions by ``--filter`` and ``--before``, and actions on all that match."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import typer

from noetl.cli import errors
from noetl.cli.actions.labels import parse_labels
from noetl.cli.client.connect import open_place, open_running
from noetl.cli.client.protocol import Place
from noetl.cli.options import CommandTarget, Selection
from noetl.cli.render.output import note, out, out_json, table
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import InvalidInputError
from noetl.services.executions.bulk_control import (
    MOST,
    BulkRequest,
    ControlResult,
    ManyFilter,
    SteeredMany,
    Verb,
)

KEYS = (
    "status",
    "path",
    "version",
    "parent",
    "started_before",
    "started_after",
    "id",
    "label",
    "principal",
    "error_code",
    "text",
)
_AGE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h|d|w)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
DONE = {"cancel": "cancelled", "pause": "paused", "resume": "resumed", "redrive": "redriven"}
COMMANDS = {"cancel": "cancel", "pause": "pause", "resume": "unpause", "redrive": "redrive"}
SHOWN = 20
"""Executions shown before it is asked whether they are meant."""


def parse_filter(texts: Sequence[str], before: str | None = None) -> ManyFilter:
    """Read filters such as ``status=failed``.

    ``id`` and ``label`` (``label=team=data``) may be repeated.

    ``before``: an age, or a moment. Raises InvalidInputError.
    """
    found: dict[str, Any] = {}
    ids: list[str] = []
    labels: list[str] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key not in KEYS or not value:
            raise _invalid(f"{text[:80]!r} is no filter", f"write KEY=VALUE, with one of {', '.join(KEYS)}")
        if key == "id":
            ids.append(value)
        elif key == "label":
            labels.append(value)
        elif key in found:
            raise _invalid(f"{key} is given twice", "one value each; only id and label may be repeated")
        else:
            found[key] = value
    if before is not None:
        if "started_before" in found:
            raise _invalid("--before and started_before say the same", "give one of them")
        found["started_before"] = before
    for key in ("started_before", "started_after"):
        if key in found:
            found[key] = _moment(found[key], math.ceil if key == "started_before" else math.floor)
    version = found.pop("version", None)
    if version is not None and not (version.isascii() and version.isdigit() and len(version) <= 9):
        raise _invalid(f"version={version[:40]!r} is not a version", "versions are numbers from 1")
    return ManyFilter(
        **found,
        version=int(version) if version else None,
        ids=ids or None,
        labels=parse_labels(labels) or None,
    )


def _moment(text: str, whole: Callable[[float], int]) -> str:
    """Turn ages into moments, in whole seconds that leave nothing out.

    Everything else is judged where the executions are.
    """
    age = _AGE.fullmatch(text)
    return instant(whole(time.time() - float(age[1]) * _SECONDS[age[2]])) if age else text


def _invalid(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code="invalid_filter", hint=hint)


def chosen(verb: Verb, name: str | None, selection: Selection) -> bool:
    """Whether many executions are meant, not the one called ``name``.

    Raises InvalidInputError when it is neither or both. Of one execution, only a redrive can be looked at before.
    """
    many = bool(selection.filters or selection.before)
    if many == bool(name):
        raise InvalidInputError(
            "name one execution, or those that fit a --filter" + (", not both" if many else ""),
            code="invalid_filter",
            hint="such as `latest`, or --filter status=failed",
        )
    alone = selection.dry_run and verb != "redrive"
    if not many and (alone or selection.yes):
        raise _invalid(
            f"{'--dry-run' if alone else '--yes'} belongs to a --filter",
            "leave them out, or name what to do with --filter KEY=VALUE",
        )
    return many


def steer_many(
    verb: Verb,
    selection: Selection,
    *,
    reason: str,
    as_json: bool,
    at: CommandTarget,
    cascade: bool = True,
    step: str = "",
    version: int | None = None,
) -> int:
    """Do ``verb`` to all executions that fit, after asking on a terminal.

    Exit code 1 when one of them was refused.
    """
    request = BulkRequest(
        parse_filter(selection.filters, selection.before),
        selection.limit,
        None,
        selection.dry_run,
        reason,
        cascade,
        step or "failure",
        version,
    )
    if selection.dry_run:
        with open_place(at) as place:
            return _print(verb, place.steer_many(verb, request), as_json, at)
    if not selection.yes and not _agreed(verb, request, at):
        note("nothing was done")
        return errors.DONE
    with open_running(at, takes="sound" if verb == "redrive" else "nothing") as running:
        return _print(verb, running.steer_many(verb, request), as_json, at)


def _agreed(verb: Verb, request: BulkRequest, at: CommandTarget) -> bool:
    """Ask whether to change every execution found.

    Raises InvalidInputError without a terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInputError(
            f"without a terminal no person can confirm that all these are {DONE[verb]}",
            code="confirmation_needed",
            hint="look with --dry-run, then say --yes",
        )
    with open_place(at) as place:
        found = _dry(place, verb, request)
    wanted = [one for one in found.executions if one.outcome == "would"]
    if not wanted:
        note("no execution fits")
        return False
    for one in wanted[:SHOWN]:
        note(f"  {one.execution_id}  {one.status}  {one.path}")
    if len(wanted) > SHOWN:
        note(f"  and {len(wanted) - SHOWN} more")
    return typer.confirm(f"{COMMANDS[verb]} {_count(len(wanted))}?", default=False, err=True)


def _dry(place: Place, verb: Verb, request: BulkRequest) -> SteeredMany:
    dry = BulkRequest(
        request.filter,
        request.limit,
        None,
        True,
        request.reason,
        request.cascade,
        request.from_,
        request.version,
    )
    return place.steer_many(verb, dry)


def _print(verb: Verb, found: SteeredMany, as_json: bool, at: CommandTarget) -> int:
    if as_json:
        for one in found.executions:
            out_json(one)
        out_json({"done": found.done, "refused": found.refused, "dry_run": found.dry_run, "more": found.more})
        return errors.FAILED if found.refused else errors.DONE
    if found.executions:
        out(table(("EXECUTION", "WAS", "", "PLAYBOOK"), [_line(verb, one) for one in found.executions]))
    if found.dry_run:
        out(f"{_count(found.done)} would be {DONE[verb]}")
    else:
        out(f"{_count(found.done)} {'is' if found.done == 1 else 'are'} {DONE[verb]}")
    if found.more:
        note(f"more fit: say it again, or raise --limit (at most {MOST})")
    if verb in ("redrive", "resume") and found.done and not found.dry_run and not at.remote:
        note("a running `noetl serve` takes them up, or: noetl resume")
    return errors.FAILED if found.refused else errors.DONE


def _line(verb: Verb, one: ControlResult) -> tuple[str, str, str, str]:
    what = {"done": DONE[verb], "would": f"would be {DONE[verb]}"}.get(one.outcome, f"not: {one.detail}")
    return one.execution_id, one.status, what, one.path


def _count(number: int) -> str:
    return f"{number} execution{'' if number == 1 else 's'}"
