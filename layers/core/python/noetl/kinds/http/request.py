"""Conversion of a task's parameters into the request: query, headers, body, credentials."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.domain.sizes.gate import find_unfit

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_RESERVED = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_FORM_TYPE = "application/x-www-form-urlencoded"
_AUTH_TYPES = ("basic", "bearer", "header")


class Headers:
    """Header fields by name without regard to case.

    A later ``set`` replaces, ``default`` does not.
    """

    def __init__(self) -> None:
        self._fields: dict[str, tuple[str, str]] = {}

    def set(self, name: str, value: Any) -> None:
        """Set a header. Raises TaskError(kind="client_error", code="header_invalid")."""
        if not _NAME.fullmatch(name):
            raise _bad_header(f"{name[:80]!r} is not a header name")
        if name.lower() in _RESERVED:
            raise _bad_header(f"the header {name!r} is written by the HTTP client itself", "leave it out")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise _bad_header(f"the header {name!r} must be text or a number, not a {type(value).__name__}")
        text = str(value).strip(" \t")
        if not _VALUE.fullmatch(text):
            raise _bad_header(
                f"the header {name!r} has a line break, a control character or a character outside Latin-1",
                "encode the value",
            )
        self._fields[name.lower()] = (name, text)

    def default(self, name: str, value: str) -> None:
        if name.lower() not in self._fields:
            self.set(name, value)

    def complete(self, fields: Mapping[str, str]) -> None:
        """Add fields of our own where the author gave none; they are right as they are."""
        for name, value in fields.items():
            self._fields.setdefault(name.lower(), (name, value))

    def get(self, name: str) -> str | None:
        found = self._fields.get(name.lower())
        return found[1] if found else None

    def as_dict(self) -> dict[str, str]:
        return dict(self._fields.values())


def usable_header(value: Any) -> str | None:
    """Return the text of a header when it is one."""
    return value if isinstance(value, str) and value and _VALUE.fullmatch(value) else None


def _bad_header(message: str, hint: str | None = None) -> TaskError:
    return TaskError(message, kind="client_error", code="header_invalid", hint=hint)


def with_query(path: str, params: Mapping[str, Any]) -> str:
    """Append ``params`` to ``path``: a list repeats its name, None is left out.

    Raises TaskError.
    """
    pairs: list[str] = []
    for name, value in params.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is not None:
                pairs.append(f"{_encoded(name)}={_encoded(scalar_text(name, item))}")
    if not pairs:
        return path
    separator = "?" if "?" not in path else "" if path.endswith(("?", "&")) else "&"
    return f"{path}{separator}{'&'.join(pairs)}"


def parameter(url: str, name: str) -> str | None:
    """Return the first value of a query parameter."""
    query = url.partition("#")[0].partition("?")[2]
    return next((value for key, value in parse_qsl(query, keep_blank_values=True) if key == name), None)


def without_parameter(url: str, name: str) -> str:
    """Remove a query parameter from ``url``.

    A server that receives it twice may take the first.
    """
    address, mark, query = url.partition("?")
    if not mark:
        return url
    query, fragment_mark, fragment = query.partition("#")
    kept = [pair for pair in query.split("&") if unquote_plus(pair.partition("=")[0]) != name]
    return f"{address}{'?' if kept else ''}{'&'.join(kept)}{fragment_mark}{fragment}"


def _encoded(text: str) -> str:
    try:
        return quote(text, safe="-._~")
    except UnicodeEncodeError:
        raise TaskError(
            "a query parameter contains half a character (a lone surrogate)",
            kind="client_error",
            code="url_invalid",
        ) from None


def scalar_text(name: str, value: Any) -> str:
    """Convert a value of a form or query to text. Raises TaskError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    kind = "mapping" if isinstance(value, Mapping) else type(value).__name__
    raise TaskError(
        f"the value of {name!r} is a {kind}; a form or query takes text, numbers and lists of them",
        kind="client_error",
        code="value_invalid",
        hint="use | tojson to send it as JSON text",
    )


def encode_body(body: Any, form: Mapping[str, Any] | None, headers: Headers) -> bytes | None:
    """Encode the body; set Content-Type unless the author did. Raises TaskError."""
    declared = (headers.get("content-type") or "").partition(";")[0].strip().lower()
    if form is None and isinstance(body, Mapping) and declared == _FORM_TYPE:
        form = body
    try:
        if form is not None:
            headers.default("Content-Type", _FORM_TYPE)
            return urlencode(_form_pairs(form)).encode()
        if body is None:
            return None
        if isinstance(body, str):
            headers.default("Content-Type", "text/plain; charset=utf-8")
            return body.encode()
    except UnicodeEncodeError:
        raise TaskError(
            "the body contains half a character (a lone surrogate), which UTF-8 cannot hold",
            kind="client_error",
            code="value_invalid",
        ) from None
    problem = find_unfit(body)
    if problem:
        raise TaskError(
            f"the body cannot be sent as JSON: {problem}", kind="client_error", code="value_invalid"
        )
    headers.default("Content-Type", "application/json")
    return codec.encode(body)


def _form_pairs(form: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, scalar_text(name, item))
        for name, value in form.items()
        for item in (value if isinstance(value, (list, tuple)) else [value])
        if item is not None
    ]


def add_auth(auth: str | Mapping[str, Any], headers: Headers, context: TaskContext) -> frozenset[str]:
    """Set what ``auth`` asks for; return the lower-case names of headers that hold secrets.

    ``auth`` is a credential's name, or ``{type, …}`` with the values inline or a ``credential`` to take them
    from. Raises TaskError(kind="auth").
    """
    if isinstance(auth, str):
        credential = context.credential(auth)
    else:
        name = auth.get("credential")
        credential = context.credential(str(name)) if name else Credential("auth", "", {})
        own = {key: value for key, value in auth.items() if key not in ("type", "credential")}
        kind = str(auth.get("type") or credential.type)
        credential = Credential(credential.name, kind, {**credential.data, **own})
    header, value = _auth_header(credential)
    headers.set(header, value)
    return frozenset({header.lower()})


def _auth_header(credential: Credential) -> tuple[str, str]:
    data = credential.data
    match _auth_type(credential):
        case "basic":
            pair = f"{_need(credential, 'username', 'user')}:{_need(credential, 'password')}"
            return "Authorization", "Basic " + base64.b64encode(pair.encode("utf-8", "replace")).decode()
        case "bearer":
            return "Authorization", f"Bearer {_need(credential, 'token', 'access_token', 'bearer')}"
        case _:
            name = data.get("header") or data.get("name") or "X-API-Key"
            return str(name), str(_need(credential, "value", "api_key", "key", "token"))


def _auth_type(credential: Credential) -> str:
    """Return the type that the credential states, else the one of its fields."""
    kind = credential.type.lower().replace("-", "_").removeprefix("http_")
    known = {
        "basic": "basic",
        "basic_auth": "basic",
        "bearer": "bearer",
        "token": "bearer",
        "oauth2": "bearer",
        "header": "header",
        "api_key": "header",
        "apikey": "header",
    }
    if kind in known:
        return known[kind]
    data = credential.data
    if "password" in data and ("username" in data or "user" in data):
        return "basic"
    if "token" in data or "access_token" in data:
        return "bearer"
    if "value" in data or "api_key" in data:
        return "header"
    raise TaskError(
        f"the credential {credential.name!r} of type {credential.type!r} cannot be used for HTTP",
        kind="auth",
        code="auth_invalid",
        hint=f"its type is one of {', '.join(_AUTH_TYPES)}",
    )


def _need(credential: Credential, *names: str) -> Any:
    for name in names:
        value = credential.data.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return value
    raise TaskError(
        f"the credential {credential.name!r} has no {names[0]!r}", kind="auth", code="auth_invalid"
    )
