"""Conversion of an HTTP answer into a task's result, or into the error of a failed status."""

from __future__ import annotations

import base64
import re
import time
from email.utils import parsedate_to_datetime
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.sizes.gate import find_unfit
from noetl.kinds.http.client import Answer, Request
from noetl.kinds.support.foreign_json import foreign_value

RETRYABLE = frozenset({408, 425, 429, 500, 502, 503, 504})
SHOWN_BODY_BYTES = 16 * 1024
_KINDS = {401: "auth", 403: "auth", 404: "not_found", 408: "timeout", 429: "rate_limit", 504: "timeout"}
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(xml|javascript|x-www-form-urlencoded|x-ndjson|ndjson|jsonl|yaml|x-yaml|csv|sql|graphql)"
)
_JSON = re.compile(r"(application|text)/json|[^/]+/[^/]+\+json")
_CHARSET = re.compile(
    r"utf-?(8|16|32)([-_]?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-?\d+|windows-?\d+|cp\d+|shift[_-]?jis|"
    r"euc[_-]?(jp|kr)|gb(k|2312|18030)|big5|koi8-[ru]",
    re.IGNORECASE,
)


def result_of(answer: Answer, elapsed: float) -> dict[str, Any]:
    """Make the result: ``{status_code, headers, url, elapsed, data}``.

    Binary data is base64 and says ``encoding: base64``.

    Raises TaskError(kind="parse", code="invalid_json").
    """
    data, encoding = data_of(answer)
    result = envelope_of(answer, elapsed, data)
    return {**result, "encoding": encoding} if encoding else result


def envelope_of(answer: Answer, elapsed: float, data: Any) -> dict[str, Any]:
    """Make a result around ``data``."""
    return {
        "status_code": answer.status,
        "headers": dict(answer.headers),
        "url": answer.url,
        "elapsed": round(elapsed, 6),
        "data": data,
    }


def helper_of(answer: Answer) -> dict[str, Any]:
    """Return what templates see as ``outcome.http``."""
    return {"status": answer.status, "headers": dict(answer.headers), "url": answer.url}


def failure_of(request: Request, answer: Answer) -> TaskError:
    """Make the error of a failed status; ``details`` has the body and Retry-After, parsed."""
    status = answer.status
    kind = _KINDS.get(status) or ("server_error" if status >= 500 else "client_error")
    details: dict[str, Any] = {
        "body": _shown_body(answer),
        "url": answer.url,
        "headers": dict(answer.headers),
        "http": helper_of(answer),
    }
    wait = retry_after(answer.headers.get("retry-after"), time.time())
    if wait is not None:
        details["retry_after"] = wait
    phrase = http_phrase(status)
    return TaskError(
        f"{request.method} {answer.url} answered {status}{' ' + phrase if phrase else ''}",
        kind=kind,
        code=f"http_{status}",
        status=status,
        retryable=status in RETRYABLE,
        details=details,
    )


def http_phrase(status: int) -> str:
    """Return the phrase of a status: ``Not Found`` for 404; empty for an unregistered one."""
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait by a Retry-After header (seconds or a date), or None.

    ``now`` is Unix time.
    """
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip()):
        return float(value)
    try:
        return max(0.0, round(parsedate_to_datetime(value).timestamp() - now, 3))
    except (ValueError, TypeError, OverflowError):
        return None


def data_of(answer: Answer) -> tuple[Any, str | None]:
    """Return the body as a value, and ``base64`` where it is that."""
    content_type, charset = content_type_of(answer)
    if not answer.body:
        return (None if is_json(content_type) or not content_type else ""), None
    if is_json(content_type):
        return _json(answer), None
    if is_text(content_type) or charset:
        return answer.body.decode(charset or "utf-8", "replace"), None
    try:
        text = answer.body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return base64.b64encode(answer.body).decode(), "base64"
    return text, None


def content_type_of(answer: Answer) -> tuple[str, str | None]:
    """Media type and, when it names one that is known, the charset."""
    value = answer.headers.get("content-type", "")
    charset = re.search(r';\s*charset="?([\w.:-]{1,40})', value, re.IGNORECASE)
    known = charset[1] if charset and _CHARSET.fullmatch(charset[1]) else None
    try:
        "".encode(known or "utf-8")
    except LookupError:
        known = None
    return value.partition(";")[0].strip().lower(), known


def is_json(media: str) -> bool:
    return _JSON.fullmatch(media) is not None


def is_text(media: str) -> bool:
    return _TEXT.fullmatch(media) is not None


def _json(answer: Answer) -> Any:
    problem: str | None
    try:
        value = foreign_value(answer.body.removeprefix(b"\xef\xbb\xbf"), f"the answer of {answer.url}")
        problem = find_unfit(value)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError as error:
        problem = str(error)[:200]
    if problem is None:
        return value
    raise TaskError(
        f"{answer.url} answered {answer.status} with a body that is not usable JSON: {problem}",
        kind="parse",
        code="invalid_json",
        status=answer.status,
        details={
            "body": answer.body[:SHOWN_BODY_BYTES].decode("utf-8", "replace"),
            "url": answer.url,
            "http": helper_of(answer),
        },
    )


def _shown_body(answer: Answer) -> Any:
    """Show the body of a failed call: as small JSON, else its beginning as text."""
    if len(answer.body) <= SHOWN_BODY_BYTES and not answer.truncated:
        try:
            return data_of(answer)[0]
        except TaskError:
            pass
    return answer.body[:SHOWN_BODY_BYTES].decode("utf-8", "replace")
