"""Secrets in Secrets Manager: credentials, the token key, the database's password."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from noetl.adapters.aws.clients import FAILURES, error_code, error_message, is_refusal, unreachable
from noetl.caching.lru_cache import LruCache
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, TaskError
from noetl.domain.kinds import Credential

KEEP_SECONDS = 60.0
"""How long a rotated secret may still be used by a process that read it before."""
KEPT = 256
_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,400}", re.ASCII)
_EXAMPLE = '{"type": "postgres", "data": {"host": "…", "user": "…", "password": "…"}}'


class SecretsCredentials:
    """Credentials from Secrets Manager.

    The secret ``<prefix><name>`` holds ``{"type": …, "data": {…}}``. It is read again after a minute.
    """

    def __init__(self, prefix: str, client: Any, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix = prefix
        self._client = client
        self._clock = clock
        self._kept: LruCache[str, tuple[float, Credential]] = LruCache(KEPT)

    def get(self, name: str, execution_id: int) -> Credential:
        """Read a credential.

        Raises TaskError: kind ``auth``, code ``credential_not_found``, ``credential_invalid`` (not of that form) or
        ``credential_refused`` (the worker may not read it); kind ``connection``, code ``credentials_away``, retryable.
        """
        kept = self._kept.get(name)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        found = _credential(name, self._prefix, self._text(name))
        self._kept.put(name, (self._clock() + KEEP_SECONDS, found))
        return found

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        """Return which credentials exist, without their types: no secret is opened for this.

        A secret that this role may not describe counts as existing; the worker that reads it finds out. Raises InfrastructureError.
        """
        return {name: "" for name in names if self._is_there(name)}

    def _is_there(self, name: str) -> bool:
        if not _NAME.fullmatch(name):
            return False
        try:
            return "DeletedDate" not in self._client.describe_secret(SecretId=self._prefix + name)
        except FAILURES as error:
            if _is_missing(error):
                return False
            if is_refusal(error):
                return True
            raise unreachable(error, "secretsmanager") from error

    def known(self) -> Sequence[str]:
        return self._listed()[0]

    def _text(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise self._unknown(name)
        try:
            text = secret_text(self._client, self._prefix + name)
        except InfrastructureError as error:
            if error.code == "aws_refused":
                raise TaskError(
                    f"credential {name!r} may not be read: {error.message}",
                    kind="auth",
                    code="credential_refused",
                    hint=error.hint,
                ) from error
            raise TaskError(
                f"credential {name!r} cannot be read: {error}",
                kind="connection",
                code="credentials_away",
                retryable=error.retryable,
            ) from error
        if text is None:
            raise self._unknown(name)
        return text

    def _unknown(self, name: str) -> TaskError:
        return TaskError(
            f"there is no credential {name[:120]!r}{self._names()}",
            kind="auth",
            code="credential_not_found",
            hint=(
                f"register it: noetl credential add {name[:120]} --context ENV (it is found at once); or keep it in Secrets Manager:"
                f" aws secretsmanager create-secret --name '{self._prefix}{name[:120]}' --secret-string '{_EXAMPLE}'"
            ),
        )

    def _names(self) -> str:
        """Describe which names exist; empty when this role may not list secrets (most may not)."""
        known, whole = self._listed()
        if whole is None:
            return ""
        return (
            f"; known: {', '.join(known)}{'' if whole else ' …'}" if known else "; none is in Secrets Manager"
        )

    def _listed(self) -> tuple[list[str], bool | None]:
        """List some names, and whether these are all; None when this role may not list."""
        try:
            answer = self._client.list_secrets(
                Filters=[{"Key": "name", "Values": [self._prefix]}], MaxResults=20
            )
        except FAILURES:
            return [], None
        names = [entry["Name"] for entry in answer.get("SecretList", ())]
        known = sorted(name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))
        return known, not answer.get("NextToken")


def secret_text(client: Any, secret: str, stage: str = "AWSCURRENT") -> str | None:
    """Read one version of a secret (name or ARN); None when missing or marked for deletion.

    Raises InfrastructureError.
    """
    try:
        answer = client.get_secret_value(SecretId=secret, VersionStage=stage)
    except FAILURES as error:
        if _is_missing(error):
            return None
        raise unreachable(error, "secretsmanager") from error
    text = answer.get("SecretString")
    return str(text) if text is not None else bytes(answer["SecretBinary"]).decode("utf-8", "replace")


def secret_texts(client: Any, arn: str) -> list[str]:
    """Read the current version, then the previous one if it exists: a rotating key needs both.

    Raises InfrastructureError(code="secret_missing") when the secret has no current version.
    """
    current = secret_text(client, arn)
    if current is None:
        raise InfrastructureError(f"the secret {arn} does not exist", code="secret_missing", retryable=False)
    previous = secret_text(client, arn, "AWSPREVIOUS")
    return [current] if previous is None or previous == current else [current, previous]


def database_dsn(client: Any, secret_arn: str, host: str = "", sslmode: str = "require") -> str:
    """Build the connection URL from an RDS secret.

    The secret has ``username``, ``password``, ``host``, ``port``, ``dbname``; its own ``sslmode`` takes precedence. ``host``: instead of
    the
    secret's (a proxy's endpoint). Raises InvalidInputError(code="secret_invalid") naming what is missing, never what is there;
    InfrastructureError.
    """
    fields = _mapping(secret_text(client, secret_arn) or "")
    if host:
        fields = {**fields, "host": host}
    missing = [name for name in ("username", "password", "host", "dbname") if not fields.get(name)]
    if missing:
        raise InvalidInputError(
            f"the secret {secret_arn} is not that of a database: it lacks {', '.join(missing)}",
            code="secret_invalid",
        )
    user, password, name = (quote(str(fields[key]), safe="") for key in ("username", "password", "dbname"))
    port = int(fields.get("port") or 5432)
    mode = quote(str(fields.get("sslmode") or sslmode), safe="")
    return f"postgresql://{user}:{password}@{fields['host']}:{port}/{name}?sslmode={mode}"


def role_of(client: Any, secret_arn: str) -> tuple[str, str]:
    """Read the name and password of a database role from its secret.

    Raises InvalidInputError(code="secret_invalid"), InfrastructureError.
    """
    fields = _mapping(secret_text(client, secret_arn) or "")
    if not fields.get("username") or not fields.get("password"):
        raise InvalidInputError(f"the secret {secret_arn} names no role and password", code="secret_invalid")
    return str(fields["username"]), str(fields["password"])


def _is_missing(error: Exception) -> bool:
    code = error_code(error)
    deleted = code == "InvalidRequestException" and "marked" in error_message(error)
    return deleted or code == "ResourceNotFoundException"


def _mapping(text: str) -> dict[str, Any]:
    """Parse a JSON mapping; empty for any other text."""
    try:
        found = codec.decode(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _credential(name: str, prefix: str, text: str) -> Credential:
    found = _mapping(text)
    kind, data = found.get("type"), found.get("data")
    if set(found) != {"type", "data"} or not isinstance(kind, str) or not isinstance(data, dict):
        raise TaskError(
            f"the secret {prefix}{name} is not a credential: it has to be JSON with exactly the keys type (text) and data (a mapping)",
            kind="auth",
            code="credential_invalid",
            hint=f"for example {_EXAMPLE}",
        )
    return Credential(name, kind, data)
