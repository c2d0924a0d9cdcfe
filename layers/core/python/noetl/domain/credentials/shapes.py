"""Rules for the data of a credential, by type.

They are checked when a credential is stored, before a task needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

KNOWN: Mapping[str, frozenset[str]] = {
    "postgres": frozenset(
        {
            *(
                "dsn",
                "connection_string",
                "uri",
                "url",
                "host",
                "db_host",
                "hostname",
                "hostaddr",
                "port",
                "db_port",
            ),
            *("user", "db_user", "username", "password", "db_password", "dbname", "database", "db_name"),
            *(
                "sslmode",
                "sslnegotiation",
                "channel_binding",
                "target_session_attrs",
                "options",
                "application_name",
            ),
        }
    ),
    "basic": frozenset({"username", "user", "password"}),
    "bearer": frozenset({"token", "access_token", "bearer"}),
    "header": frozenset({"header", "name", "value", "api_key", "key", "token"}),
    "oauth2_client_credentials": frozenset(
        {"token_url", "client_id", "client_secret", "client_auth", "scope", "audience", "resource"}
    ),
    "aws": frozenset(
        {
            *("access_key_id", "secret_access_key", "session_token", "region", "role_arn", "external_id"),
            *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "endpoint_url"),
        }
    ),
    "gcs": frozenset(
        {"service_account", "private_key", "client_email", "access_token", "project_id", "bucket"}
    ),
    "snowflake": frozenset(
        {
            *("account", "user", "username", "private_key", "private_key_passphrase", "password", "token"),
            *("warehouse", "role", "database", "schema"),
        }
    ),
}
"""Fields that a kind reads. Others are kept as well, unless they look like one of these that is missing."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_TOKEN_FIELDS = ("token", "access_token", "bearer", "value", "api_key", "key", "client_secret")


def problem_of(kind: str, data: Mapping[str, Any]) -> str | None:
    """Return what is wrong with ``data`` of the known type ``kind``; None when nothing is.

    The text follows the words "the credential 'x'". It never repeats a value.
    """
    check = _CHECKS.get(kind)
    return _misspelled(kind, data) or _line_break(kind, data) or (check(data) if check else None)


def _misspelled(kind: str, data: Mapping[str, Any]) -> str | None:
    known = KNOWN.get(kind, frozenset())
    for field in data:
        if field not in known and (suggestion := close_to(field, known - data.keys())):
            return f"has a field `{field[:60]}`: did you mean `{suggestion}`?"
    return None


def _line_break(kind: str, data: Mapping[str, Any]) -> str | None:
    if kind not in ("bearer", "header", "oauth2_client_credentials"):
        return None
    for field in _TOKEN_FIELDS:
        value = data.get(field)
        if value is not None and not isinstance(value, str):
            return f"has a `{field}` that is no text"
        if isinstance(value, str) and value != value.strip():
            return f"has blanks or a line break around its `{field}`"
        if isinstance(value, str) and ("\n" in value or "\r" in value):
            return f"has a line break in its `{field}`"
    return None


def _postgres(data: Mapping[str, Any]) -> str | None:
    port = str(data.get("port", data.get("db_port", 5432)))
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        return "has a `port` that is none"
    return None


def _oauth(data: Mapping[str, Any]) -> str | None:
    if not re.match(r"https?://[^\s/]", str(data.get("token_url", "")), re.IGNORECASE):
        return "has a `token_url` that is no address: it begins with https://"
    if data.get("client_auth") not in (None, "", "body", "header"):
        return "has a `client_auth` that is neither body nor header"
    return None


def _header(data: Mapping[str, Any]) -> str | None:
    name = data.get("header") or data.get("name") or "X-API-Key"
    return None if _HEADER_NAME.fullmatch(str(name)) else "has a `header` that is no name of a header"


def _aws(data: Mapping[str, Any]) -> str | None:
    for prefix in ("", "aws_"):
        if data.get(f"{prefix}access_key_id") and not data.get(f"{prefix}secret_access_key"):
            return f"has `{prefix}access_key_id` without `{prefix}secret_access_key`"
    if data.get("role_arn") and not str(data["role_arn"]).startswith("arn:"):
        return "has a `role_arn` that does not begin with arn:"
    return None


def _gcs(data: Mapping[str, Any]) -> str | None:
    account = data.get("service_account")
    if isinstance(account, Mapping) and not (account.get("private_key") and account.get("client_email")):
        return "has a `service_account` without `private_key` and `client_email`"
    if isinstance(account, str) and account and not account.lstrip().startswith("{"):
        return "has a `service_account` that is neither a mapping nor JSON"
    return None


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], str | None]] = {
    "postgres": _postgres,
    "oauth2_client_credentials": _oauth,
    "header": _header,
    "aws": _aws,
    "gcs": _gcs,
}


def close_to(word: str, known: frozenset[str]) -> str | None:
    """Which known word was probably meant."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower()[:60], sorted(known), 1, 0.82)
    return found[0] if found else None
