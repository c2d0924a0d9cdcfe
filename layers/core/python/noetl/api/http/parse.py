"""The checked reading of requests: ids, limits, cursors, bodies.

What cannot be read is a 400, what does not fit a 422.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http.exchange import Request
from noetl.api.http.problems import BadRequestError, BodyTooLargeError, EncodingError, UnsupportedMediaError
from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.long_work import begin_long_work
from noetl.domain.sizes.gate import check_text, check_value, exceeded, too_many_digits
from noetl.domain.sizes.table import (
    BODY_BYTES,
    BODY_VALUES,
    CURSOR,
    IDEMPOTENCY_KEY,
    INTEGER_DIGITS,
    REQUEST_IDS,
    Size,
)

B = TypeVar("B", bound=msgspec.Struct)
_JSON_KINDS = frozenset({"", "application/json", "application/x-www-form-urlencoded"})
"""The last is the default of curl and other clients for any body."""
_YAML_KINDS = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
_LONG_YAML = 16 * 1024
"""Bytes of YAML that take long to read."""
_SECONDS = re.compile(r"\d{1,11}(\.\d{1,9})?", re.ASCII)


def execution_id(text: str) -> int:
    """Read an execution id. Raises BadRequestError(code="invalid_execution_id")."""
    found = whole_number(text)
    if found is None or found == 0:
        raise BadRequestError(
            f"{text[:80]!r} is not an execution id",
            code="invalid_execution_id",
            hint="an id is a number such as POST /api/executions answers, as text",
        )
    return found


def maybe_execution_id(request: Request, name: str) -> int | None:
    """Read ``?name`` as an execution id, if it is there.

    Raises BadRequestError(code="invalid_execution_id").
    """
    text = request.query.get(name)
    return None if text is None else execution_id(text)


def execution_ids(request: Request) -> tuple[int, ...] | None:
    """Read ``?ids``, split at commas, if it is there. Raises BadRequestError."""
    text = request.query.get("ids")
    if text is None:
        return None
    found = text.split(",")
    if len(found) > REQUEST_IDS.value:
        raise exceeded(
            REQUEST_IDS,
            len(found),
            "ids",
            code="invalid_parameter",
            family=BadRequestError,
            remedy="ask several times",
        )
    return tuple(execution_id(one.strip()) for one in found)


def moment(request: Request, name: str) -> float | None:
    """Read ``?name`` as epoch seconds, if it is there: RFC 3339, or the seconds themselves."""
    text = request.query.get(name)
    return None if text is None else moment_of(text, name)


def moment_of(text: str, name: str) -> float:
    """Return epoch seconds.

    Raises BadRequestError for a text that is no time, or one without an offset.
    """
    try:
        if _SECONDS.fullmatch(text):
            return float(text)
        # A plus sign in a query that the client did not encode is a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise BadRequestError(
        f"{name}={text[:40]!r} is not a moment",
        code="invalid_parameter",
        hint="such as 2026-11-21T10:00:00Z, or seconds since 1970",
    )


def seconds(request: Request, name: str, most: float) -> float | None:
    """Read ``?name`` as seconds from 0 to ``most``, if it is there. Raises BadRequestError."""
    text = request.query.get(name)
    if text is None:
        return None
    if _SECONDS.fullmatch(text) and float(text) <= most:
        return float(text)
    raise BadRequestError(
        f"{name}={text[:40]!r} is not a number of seconds from 0 to {most:g}", code="invalid_parameter"
    )


def flag(request: Request, name: str) -> bool:
    """Read a parameter that is true or false; without it, false. Raises BadRequestError."""
    text = request.query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise BadRequestError(f"{name}={text[:40]!r} is neither true nor false", code="invalid_parameter")
    return text in ("true", "1")


def whole_number(text: str) -> int | None:
    """Return a number below 2**63 in plain digits, else None."""
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < 2**63:
        return int(text)
    return None


def maybe_number(request: Request, name: str) -> int | None:
    """Read ``?name`` as a whole number, if it is there. Raises BadRequestError."""
    text = request.query.get(name)
    if text is None:
        return None
    found = whole_number(text)
    if found is None:
        raise BadRequestError(f"{name}={text[:40]!r} is not a whole number", code="invalid_parameter")
    return found


def limit(request: Request, default: int, most: int, name: str = "limit") -> int:
    """Read ``?limit``, or another count: 1 … ``most``."""
    text = request.query.get(name)
    if text is None:
        return default
    found = whole_number(text)
    if not found or found > most:
        raise BadRequestError(
            f"{name}={text[:40]!r} is not a number from 1 to {most}", code="invalid_parameter"
        )
    return found


def newest_first(request: Request) -> bool:
    """Read ``?order``: oldest, which is the default, or newest. Raises BadRequestError."""
    order = request.query.get("order", "oldest")
    if order not in ("oldest", "newest"):
        raise BadRequestError(f"order={order[:40]!r} is neither oldest nor newest", code="invalid_parameter")
    return order == "newest"


def version(text: str | int | None) -> int | None:
    """Return a version's number; None for the latest."""
    if text is None or text in ("", "latest"):
        return None
    found = whole_number(str(text))
    if not found:
        raise BadRequestError(
            f"{str(text)[:40]!r} is not a version",
            code="invalid_parameter",
            hint="versions are numbers from 1, or latest",
        )
    return found


def cursor_text(text: str) -> str:
    """Return ``text`` as a cursor."""
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def after(request: Request) -> str | None:
    """Read ``?after``, a cursor of any kind; None without one.

    Raises BadRequestError(code="invalid_cursor") when it is too long.
    """
    text = request.query.get("after")
    if text is not None and len(text) > CURSOR.value:
        remedy = "pass on the `next` of the page before, unchanged"
        raise exceeded(
            CURSOR, len(text), "the cursor", code="invalid_cursor", family=BadRequestError, remedy=remedy
        )
    return text


def text_cursor(request: Request) -> str:
    """Return the text that ``cursor_text`` encoded; empty without a cursor."""
    text = after(request) or ""
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8")
    except (ValueError, binascii.Error) as error:
        raise bad_cursor(text) from error


def bad_cursor(text: str) -> BadRequestError:
    return BadRequestError(
        f"{text[:40]!r} is not a cursor",
        code="invalid_cursor",
        hint="pass on the `next` of the page before, unchanged",
    )


def idempotency_key(request: Request) -> str:
    """Return the idempotency key, kept apart by the caller's account. Empty without one."""
    sent = sent_key(request)
    if not sent:
        return ""
    whose = f"{request.principal.kind}\n{request.principal.account}\n{sent}"
    return f"api:{hashlib.sha256(whose.encode()).hexdigest()}"


def sent_key(request: Request) -> str:
    """Return the header ``Idempotency-Key``; empty without one. Raises BadRequestError.

    The draft of the header makes its value a String of RFC 9651, which holds printable ASCII. Bytes beyond that are read as different text
    by different proxies and gateways, so that a repeated request might not be known for one.
    """
    header = request.headers.get("idempotency-key")
    if header is None:
        return ""
    sent = header.strip()
    check_text(IDEMPOTENCY_KEY, sent, "the Idempotency-Key", code="invalid_parameter", family=BadRequestError)
    if not sent or not (sent.isascii() and sent.isprintable()):
        # A caller that sends a blank key relies on one: without it, a repeated request would be another one.
        raise BadRequestError(
            f"an Idempotency-Key has 1 to {IDEMPOTENCY_KEY.value} printable characters of ASCII, not {sent[:40]!r}",
            code="invalid_parameter",
            hint="send a key of this request, such as a UUID, or leave the header out",
        )
    return sent


def sized_body(request: Request, deps: ApiDeps) -> bytes:
    """Return the body. Raises BodyTooLargeError and EncodingError."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise EncodingError(
            f"a body with Content-Encoding {encoding[:40]!r} is not taken", hint="send it as it is"
        )
    if len(request.body) > deps.max_body:
        size = msgspec.structs.replace(BODY_BYTES, value=deps.max_body)
        remedy = "put large input into a bucket, and its address into the payload"
        raise too_large(size, _length(request), "the body", remedy)
    return request.body


def _refuse_many_values(data: bytes) -> None:
    """Raise BodyTooLargeError for too many values.

    A value takes up to thirty times its bytes in memory, and a microsecond.
    """
    if found := codec.excess_entries(data, BODY_VALUES.value):
        raise too_large(BODY_VALUES, found, "the body", "send less, or the address of a file with it")


def _length(request: Request) -> int:
    """Return the length of the body.

    `noetl serve` reads no more of it than shows that it is too large.
    """
    announced = request.headers.get("content-length", "")
    announced_length = (
        int(announced) if announced.isascii() and announced.isdigit() and len(announced) < 20 else 0
    )
    return max(announced_length, len(request.body))


def too_large(size: Size, found: int, what: str, remedy: str) -> InvalidInputError:
    """Make the error of a body that is not read at all."""
    code = BodyTooLargeError.default_code
    return exceeded(size, found, what, code=code, family=BodyTooLargeError, remedy=remedy)


def body(request: Request, deps: ApiDeps, shape: type[B]) -> B:
    """The JSON body as ``shape``.

    Raises BodyTooLargeError, and as ``_shaped``.
    """
    data = sized_body(request, deps) or b"{}"
    _refuse_many_values(data)
    return _shaped(data, shape)


def as_json(request: Request, deps: ApiDeps) -> Request:
    """Return the request with its YAML body as JSON; another request as it is.

    Raises BadRequestError(code="body_not_yaml") with the place, and as ``sized_body``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _YAML_KINDS:
        return request
    data = sized_body(request, deps)
    if len(data) > _LONG_YAML:
        begin_long_work()
    return replace(request, body=_yaml_as_json(data, deps.max_body))


def _yaml_as_json(data: bytes, most: int) -> bytes:
    from noetl.dsl.diagnostics import Diagnostics  # loaded by the requests that are in YAML
    from noetl.dsl.yaml_text.loader import load
    from noetl.dsl.yaml_text.tree import written_size

    diagnostics = Diagnostics()
    root = load(data, diagnostics, ("a request", "send one mapping, such as path: sales/orders"))
    if root is None or diagnostics.has_errors():
        first = diagnostics.sorted()[0]
        raise BadRequestError(
            f"the body is not YAML that can be read: {first.message} (line {first.line}, column {first.column})",
            code="body_not_yaml",
            hint=first.hint,
        )
    if (found := written_size(root)) > most:
        size = msgspec.structs.replace(BODY_BYTES, value=most)
        raise too_large(size, found, "the body with its aliases", "write less, or fewer aliases")
    return codec.encode(root.plain())


def _shaped(data: bytes, shape: type[B]) -> B:
    """Decode a JSON mapping as ``shape``.

    Raises BadRequestError(code="body_not_json" or "duplicate_key"), InvalidInputError (another shape).
    """
    refuse_duplicates(data)
    try:
        return codec.decode_as(codec.decoder(shape), data)
    except msgspec.ValidationError as error:
        if too_many_digits(error):
            raise exceeded(INTEGER_DIGITS, None, "the body: a whole number") from None
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(shape))
        raise InvalidInputError(
            f"the body does not fit: {error}",
            code="body_invalid",
            hint=f"its fields are {names}; /openapi.json describes each",
        ) from error
    except ValueError as error:
        if too_many_digits(error):
            raise exceeded(INTEGER_DIGITS, None, "the body: a whole number") from None
        raise _not_json(error, "mapping") from error


def report_body(request: Request, deps: ApiDeps, shape: type[B]) -> B:
    """Decode a worker's report in a JSON body; its results may have any number of values.

    Raises UnsupportedMediaError, and as ``body``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _JSON_KINDS and not kind.endswith("+json"):
        raise UnsupportedMediaError(
            f"this is read as JSON, not as {kind[:60]!r}", hint="send Content-Type: application/json"
        )
    return _shaped(sized_body(request, deps) or b"{}", shape)


def json_value(data: bytes) -> Any:
    """Decode a body that may be any JSON value.

    Raises BodyTooLargeError, BadRequestError(code="body_not_json" or "duplicate_key").
    """
    _refuse_many_values(data)
    refuse_duplicates(data)
    try:
        return codec.decode(data)
    except (ValueError, RecursionError) as error:
        raise _not_json(error, "value") from error


def _not_json(error: Exception, what: str) -> BadRequestError:
    return BadRequestError(
        f"the body is not JSON: {str(error)[:200]}",
        code="body_not_json",
        hint=f"send one JSON {what} as UTF-8",
    )


def refuse_duplicates(data: bytes) -> None:
    """Raise BadRequestError(code="duplicate_key") for JSON with a duplicate key in a mapping.

    Readers differ in which value counts.
    """
    # What cannot be read at all is for the decoder to refuse, which says why.
    with suppress(ValueError, RecursionError):
        json.loads(data, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    """Raises BadRequestError."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise BadRequestError(
                f"the key {name[:80]!r} is there twice in one mapping of the body",
                code="duplicate_key",
                hint="keep one of them, or rename one",
            )
        names.add(name)


def storable(value: object, what: str) -> None:
    """Hold a value against the limits of documents.

    Raises InvalidInputError(code="size_limit", or ``<what>_invalid`` for what JSON cannot hold).
    """
    check_value(value, what)
