"""Sources of triggers created at run time, and the address of a webhook. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Any, Literal

import msgspec

from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import TRIGGER_NAME, TRIGGER_TEXT

Kind = Literal["s3", "eventbridge", "sqs", "webhook", "file"]
MAX_NAME = TRIGGER_NAME.value
BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
QUEUE = r"(?:arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_-]{1,75}(?:\.fifo)?"
BUS = r"(?:arn:aws[a-z-]*:events:[a-z0-9-]+:[0-9]{12}:event-bus/)?[A-Za-z0-9._/-]{1,256}"
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_NAME}}}")
_DEEPEST = 20


class S3Source(msgspec.Struct, frozen=True, tag="s3", forbid_unknown_fields=True):
    """Objects of ``bucket`` whose key begins with ``prefix`` and ends with ``suffix``."""

    bucket: str
    prefix: str = ""
    suffix: str = ""
    events: tuple[Literal["created", "deleted"], ...] = ("created",)


class EventBridgeSource(msgspec.Struct, frozen=True, tag="eventbridge", forbid_unknown_fields=True):
    """Events on a bus that match a pattern."""

    pattern: dict[str, Any]
    bus: str = "default"


class SqsSource(msgspec.Struct, frozen=True, tag="sqs", forbid_unknown_fields=True):
    """Messages in a queue. ``queue``: a name or an ARN."""

    queue: str
    batch: int = 10


class WebhookSource(
    msgspec.Struct, frozen=True, tag="webhook", forbid_unknown_fields=True, omit_defaults=True
):
    """Requests to an address of its own.

    ``credential``: of it ``secret`` signs bodies (HMAC-SHA256), and ``header`` has the signature; empty: knowing the address is enough.
    """

    credential: str = ""
    header: str = "X-Hub-Signature-256"


class FileSource(msgspec.Struct, frozen=True, tag="file", forbid_unknown_fields=True):
    """New or changed files of a folder.

    ``folder``: absolute; files of folders in it do not count. ``pattern``: the names that fit (``*.csv``). ``existing``: files that are
    there when the folder is looked at first count, too.
    """

    folder: str
    pattern: str = "*"
    existing: bool = False


Source = S3Source | EventBridgeSource | SqsSource | WebhookSource | FileSource


_KINDS: dict[type, Kind] = {
    S3Source: "s3",
    EventBridgeSource: "eventbridge",
    SqsSource: "sqs",
    WebhookSource: "webhook",
    FileSource: "file",
}


def kind_of(source: Source) -> Kind:
    return _KINDS[type(source)]


def check_name(name: str) -> str:
    """Raises InvalidInputError(code="invalid_trigger_name")."""
    check_text(TRIGGER_NAME, name, "the name of a trigger", code="invalid_trigger_name")
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name[:80]!r} cannot be the name of a trigger",
            code="invalid_trigger_name",
            hint=f"1 to {MAX_NAME} letters, digits, dots, hyphens and underscores",
        )
    return name


def check_source(source: Source) -> Source:
    """Raises InvalidInputError(code="invalid_trigger") that names the field."""
    match source:
        case S3Source():
            _fits("bucket", source.bucket, BUCKET, "its name: lower-case letters, digits, dots and hyphens")
            _short("prefix", source.prefix)
            _short("suffix", source.suffix)
            if not source.events:
                raise _bad("events", "is empty", "created, deleted or both")
        case EventBridgeSource():
            _fits("bus", source.bus, BUS, "its name or ARN")
            _pattern("pattern", source.pattern)
        case SqsSource():
            _fits("queue", source.queue, QUEUE, "its name or ARN (not its URL)")
            if not 1 <= source.batch <= 10:
                raise _bad("batch", f"is {source.batch}", "1 to 10 messages at once")
        case WebhookSource():
            _short("credential", source.credential)
            _fits("header", source.header, r"[A-Za-z0-9-]{1,64}", "the name of a header")
        case FileSource():
            _short("folder", source.folder)
            _short("pattern", source.pattern)
            if not source.folder.startswith("/") or not _names_a_file(source.folder):
                raise _bad("folder", f"is {source.folder[:80]!r}", "an absolute path, such as /data/incoming")
            if not source.pattern or "/" in source.pattern:
                raise _bad("pattern", f"is {source.pattern[:80]!r}", "of names in the folder, such as *.csv")
    return source


def _pattern(place: str, pattern: Any, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise _bad(place[:80], "is nested too deeply", f"patterns have at most {_DEEPEST} levels")
    if not isinstance(pattern, dict) or not pattern:
        raise _bad(
            place, "is no pattern of events", 'such as {"source": ["my.app"], "detail-type": ["Order"]}'
        )
    for key, entry in pattern.items():
        if isinstance(entry, dict):
            _pattern(f"{place}.{key}", entry, depth + 1)
        elif not isinstance(entry, list) or not entry:
            raise _bad(f"{place}.{key}", "does not list what it may be", f'write "{key}": [ … ]')


def _names_a_file(text: str) -> bool:
    """Return whether a file can have this name.

    Halves of surrogate pairs represent single bytes; a half that represents no byte, and NUL, are refused.
    """
    try:
        return b"\0" not in text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False


def _fits(field: str, value: str, pattern: str, hint: str) -> None:
    if not re.fullmatch(pattern, value):
        raise _bad(field, f"is {value[:80]!r}", hint)


def _short(field: str, value: str) -> None:
    check_text(TRIGGER_TEXT, value, f"source.{field}", code="invalid_trigger")


def _bad(field: str, problem: str, hint: str) -> InvalidInputError:
    return InvalidInputError(f"source.{field} {problem}", code="invalid_trigger", hint=hint)


# --- the address of a webhook -------------------------------------------------------------------------


def hook(name: str, generation: int, ring: KeyRing) -> str:
    """Return the last part of a webhook's address.

    A client that knows it may fire the trigger, until the trigger's generation changes.
    """
    claim = base64.urlsafe_b64encode(f"{generation}:{name}".encode()).decode().rstrip("=")
    return f"{claim}.{ring.current}.{_mac(claim, ring.keys[ring.current])}"


def read_hook(token: str, ring: KeyRing) -> tuple[str, int]:
    """Name and generation.

    Raises NotFoundError(code="hook_unknown") for what was not made with a key of the ring.
    """
    claim, _, rest = token.partition(".")
    kid, _, mac = rest.partition(".")
    key = ring.keys.get(kid)
    if key is not None and hmac.compare_digest(mac.encode("utf-8", "replace"), _mac(claim, key).encode()):
        try:
            decoded = base64.b64decode(claim + "=" * (-len(claim) % 4), b"-_", validate=True).decode()
            generation, _, name = decoded.partition(":")
            return name, int(generation)
        except (ValueError, binascii.Error):
            pass
    raise unknown_hook()


def unknown_hook() -> NotFoundError:
    """The same for an address that never was and for one that is no more."""
    return NotFoundError(
        "there is no webhook at this address",
        code="hook_unknown",
        hint="`noetl trigger show NAME` shows its address; it changes when it is rotated",
    )


def _mac(claim: str, key: bytes) -> str:
    return hmac.new(key, b"webhook " + claim.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
