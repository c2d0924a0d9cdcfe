"""Actions of ``noetl trigger``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl.api.nouns.triggers import FiredAnswer
from noetl.cli import errors
from noetl.cli.client.connect import open_place
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note, one_line, out, out_json, pretty, table
from noetl.domain.automations.triggers import (
    EventBridgeSource,
    FileSource,
    S3Source,
    Source,
    SqsSource,
    WebhookSource,
)
from noetl.domain.errors import InvalidInputError
from noetl.services.automations.triggers import TriggerPatch, TriggerRequest, TriggerView


@dataclass(frozen=True, slots=True)
class Choice:
    """The options of ``noetl trigger add`` that say what to watch."""

    webhook: bool
    folder: str | None
    files: str
    bucket: str | None
    prefix: str
    suffix: str
    events: str | None
    queue: str | None
    batch: int
    signed: str | None = None
    header: str | None = None


def trigger_request(
    name: str, target: str, choice: Choice, mapping: Sequence[str], event_id: str, *, enabled: bool
) -> TriggerRequest:
    """Raises InvalidInputError(code="usage")."""
    path, _, version = target.rpartition("@")
    if not path or not version.isdigit():
        path, version = target, ""
    payload = dict(map(_mapped, mapping)) if mapping else None
    return TriggerRequest(
        name, path, _source(choice), int(version) if version else None, payload, event_id, enabled
    )


def _mapped(text: str) -> tuple[str, str]:
    name, equals, template = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInputError(
            f"--map {text[:80]!r} is not NAME=TEMPLATE",
            code="usage",
            hint="such as --map 'order={{ event.body.id }}'",
        )
    return name.strip(), template


def _source(choice: Choice) -> Source:
    found: list[Source] = []
    if choice.webhook:
        found.append(_webhook(choice))
    if choice.folder is not None:
        found.append(FileSource(str(Path(choice.folder).expanduser().resolve()), choice.files))
    if choice.bucket is not None:
        found.append(S3Source(choice.bucket, choice.prefix, choice.suffix))
    if choice.events is not None:
        found.append(EventBridgeSource(_pattern(choice.events)))
    if choice.queue is not None:
        found.append(SqsSource(choice.queue, choice.batch))
    if (choice.signed or choice.header) and not (choice.webhook and choice.signed):
        raise InvalidInputError(
            "--signed-with goes with --webhook, and --signature-header with both", code="usage"
        )
    if len(found) != 1:
        raise InvalidInputError(
            "say what is watched: one of --webhook, --folder, --bucket, --events and --queue", code="usage"
        )
    return found[0]


def _webhook(choice: Choice) -> WebhookSource:
    made = WebhookSource(choice.signed or "")
    return made if choice.header is None else WebhookSource(made.credential, choice.header)


def _pattern(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"--events is not JSON: {error}", code="usage") from None
    if not isinstance(found, dict):
        raise InvalidInputError(
            "--events is not a mapping", code="usage", hint='such as {"source": ["my.app"]}'
        )
    return found


def add(request: TriggerRequest, *, as_json: bool, at: CommandTarget) -> int:
    """Make a trigger, and show its address or what it watches."""
    with open_place(at) as place:
        _print(place.put_trigger(request), as_json)
    return errors.DONE


def show_list(*, limit: int, as_json: bool, at: CommandTarget) -> int:
    """Every trigger, by name."""
    with open_place(at) as place:
        found = place.triggers(limit)
    if as_json:
        for one in found:
            out_json(one)
    elif not found:
        note(
            "there are no triggers: noetl trigger add --help (those of metadata.triggers belong to their playbook)"
        )
    else:
        rows = [
            (
                one.name,
                one.type,
                "enabled" if one.enabled else "disabled",
                str(one.fired),
                str(one.failed),
                "failed" if one.last_error else one.last_execution_id or "-",
                one.path,
            )
            for one in found
        ]
        out(table(("TRIGGER", "TYPE", "STATE", "FIRED", "FAILED", "LAST", "PLAYBOOK"), rows))
    return errors.DONE


def show(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """One trigger."""
    with open_place(at) as place:
        _print(place.trigger(name), as_json)
    return errors.DONE


def switch(name: str, enabled: bool, *, as_json: bool, at: CommandTarget) -> int:
    """On or off."""
    with open_place(at) as place:
        _print(place.patch_trigger(name, TriggerPatch(enabled=enabled)), as_json)
    return errors.DONE


def rotate(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """A new address."""
    with open_place(at) as place:
        _print(place.patch_trigger(name, TriggerPatch(rotate=True)), as_json)
    return errors.DONE


def delete(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """Gone."""
    with open_place(at) as place:
        place.delete_trigger(name)
    if as_json:
        out_json({"name": name, "deleted": True})
    else:
        out(f"{name} is deleted")
    return errors.DONE


def fire(name: str, body: dict[str, Any], key: str, *, as_json: bool, at: CommandTarget) -> int:
    """By hand."""
    with open_place(at) as place:
        fired: FiredAnswer = place.fire_trigger(name, body, key)
    if as_json:
        out_json(fired)
    else:
        was = "" if fired.status == "started" else "  (started before, under the same key)"
        out(f"execution {fired.execution_id}{was}")
        if not at.remote and fired.status == "started":
            note(f"a running `noetl serve` runs it; without one: noetl resume {fired.execution_id}")
    return errors.DONE


def _print(one: TriggerView, as_json: bool) -> None:
    if as_json:
        out_json(one)
        return
    out(f"{one.name}  {'enabled' if one.enabled else 'disabled'}  {_watched(one.source)}")
    out(f"starts {one.path}, {'latest version' if one.version is None else f'version {one.version}'}")
    out(f"fired {one.fired}, failed {one.failed}")
    if one.last_at:
        out(f"last {one.last_at}  execution {one.last_execution_id or '-'}")
    if one.last_error:
        out(f"last error: {one_line(one.last_error, 400)}")
    if one.payload is not None:
        out(pretty({"payload": one.payload}))
    if one.event_id:
        out(f"events are identified by {one_line(one.event_id, 400)}")
    if one.hook:
        out(f"POST {one.hook}")
        if one.hook.startswith("/"):
            note("at the address of a running `noetl serve`, such as http://127.0.0.1:8765")
        note("every client that knows this address can fire it; `noetl trigger rotate` replaces the address")


def _watched(source: Source) -> str:
    match source:
        case WebhookSource():
            return "webhook"
        case FileSource():
            return f"files {source.pattern} in {source.folder}"
        case S3Source():
            return f"objects {source.prefix}*{source.suffix} in {source.bucket}"
        case EventBridgeSource():
            return f"events {json.dumps(source.pattern)} on {source.bus}"
        case SqsSource():
            return f"messages in {source.queue}"
