"""Credentials: their names, and what each type has to hold before it is worth keeping."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from noetl.domain.credentials.shapes import close_to, problem_of
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import CREDENTIAL_NAME, CREDENTIAL_TYPE

NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.@/-]{{0,{CREDENTIAL_NAME.value - 1}}}", re.ASCII)
MAX_TYPE = CREDENTIAL_TYPE.value

_ADDRESS = (("dsn", "connection_string", "uri", "url"), ("host", "db_host", "hostname"))

TYPES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "postgres": ((*_ADDRESS[0], *_ADDRESS[1]),),
    "basic": (("username", "user"), ("password",)),
    "bearer": (("token", "access_token", "bearer"),),
    "header": (("value", "api_key", "key", "token"),),
    "oauth2_client_credentials": (("token_url",), ("client_id",), ("client_secret",)),
    "aws": (("access_key_id", "aws_access_key_id", "role_arn"),),
    "gcs": (("service_account", "private_key", "access_token"),),
    "snowflake": (("account",), ("user", "username"), ("private_key", "password", "token")),
    "generic": (),
}
"""Type → groups of fields of which one has to be there. Other types are kept as they are: third parties have kinds of their own."""

TYPE_NAMES = f"types are {', '.join(TYPES)}"

OAUTH = "oauth2_client_credentials"
_OVER_HTTP = frozenset({"basic", "bearer", "header", "oauth2_client_credentials"})
_SPELLINGS = {
    "postgresql": "postgres",
    "postgres_credential": "postgres",
    "basic_auth": "basic",
    "http_basic": "basic",
    "http_bearer": "bearer",
    "http_header": "header",
    "api_key": "header",
    "oauth2": "oauth2_client_credentials",
    "client_credentials": "oauth2_client_credentials",
    "s3": "aws",
    "google": "gcs",
    "gcp": "gcs",
}


def check_name(name: str) -> str:
    """Raises InvalidInputError(code="invalid_credential_name")."""
    check_text(CREDENTIAL_NAME, name, "the name of a credential", code="invalid_credential_name")
    if not NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name[:80]!r} is not a name for a credential",
            code="invalid_credential_name",
            hint=f"up to {CREDENTIAL_NAME.value} letters, digits and _ . @ / -, beginning with a letter or digit",
        )
    return name


def check_credential(name: str, kind: str, data: Mapping[str, Any]) -> None:
    """Check that a credential of this type holds what its users need.

    A message never contains the data. Raises InvalidInputError(code="invalid_credential").
    """
    check_name(name)
    wanted = _check_type(name, kind)
    if kind.lower() == "oauth2" and not {"token_url", "client_id"} & data.keys():
        wanted = "bearer"
    for group in TYPES.get(wanted, ()):
        if not any(data.get(field) not in (None, "") for field in group):
            missing = " or ".join(f"`{field}`" for field in group)
            raise InvalidInputError(
                f"the credential {name!r} of type {kind} has no {missing}",
                code="invalid_credential",
                hint=shape(wanted),
            )
    if not data:
        raise InvalidInputError(f"the credential {name!r} holds nothing", code="invalid_credential")
    if problem := problem_of(wanted, data):
        raise InvalidInputError(
            f"the credential {name!r} of type {kind} {problem}",
            code="invalid_credential",
            hint=shape(wanted) or None,
        )


def _check_type(name: str, kind: str) -> str:
    """Check the type of a credential and return the known type that it means.

    An unknown type is kept, for kinds of third parties. A type that nearly equals a known one is refused as a slip.
    """
    check_text(CREDENTIAL_TYPE, kind, "the type of a credential", code="invalid_credential")
    if not kind or not kind.isprintable():
        raise InvalidInputError(
            f"the type of the credential {name!r} is 1 to {MAX_TYPE} printable characters",
            code="invalid_credential",
            hint=f"{TYPE_NAMES}, or a word of your own",
        )
    wanted = known_type(kind)
    words = frozenset((*TYPES, *_SPELLINGS))
    if wanted not in words and (suggestion := close_to(wanted, words)):
        raise InvalidInputError(
            f"the credential {name!r} has the unknown type {kind[:60]!r}",
            code="invalid_credential",
            hint=f"did you mean {suggestion!r}? {TYPE_NAMES}",
        )
    return wanted


def known_type(kind: str) -> str:
    """A type in the spelling of ``TYPES``, or as it is."""
    word = kind.lower().replace("-", "_")
    return _SPELLINGS.get(word, word)


def serves(kind: str, type_: str) -> bool:
    """Return whether a credential of ``type_`` can serve a keychain entry of ``kind``.

    Types that are sent over HTTP replace one another, and a generic credential serves every kind. A kind or type that is unknown here is
    never refused.
    """
    wanted, given = _family(kind), _family(type_)
    return not wanted or not given or wanted == given


def _family(kind: str) -> str:
    known = known_type(kind)
    if known in _OVER_HTTP:
        return "http"
    return known if known in TYPES and known != "generic" else ""


def shape(kind: str) -> str:
    """Say which fields a credential of a type has; empty where any will do."""
    wanted = known_type(kind)
    groups = ", ".join(" or ".join(group) for group in TYPES.get(wanted, ()))
    return f"a {wanted} credential has {groups}" if groups else ""
