"""Statements over Snowflake's SQL API.

A statement is submitted once, waited for, read part by part, and cancelled when its task no longer waits for it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.kinds.http.api_call import Api, json_of
from noetl.kinds.http.client import Answer
from noetl.kinds.rows.database import Table
from noetl.kinds.snowflake.values import bind, read
from noetl.kinds.support.signed_jwt import private_key, sign
from noetl.kinds.support.sql_params import first_line, native_text
from noetl.templating.contract import RenderedStatement

TOKEN_SECONDS = 3540
"""A signed token lives for an hour at most (documentation of key-pair authentication)."""
FIRST_WAIT, IN_PLACE = 0.05, 1.5
"""Seconds between the first questions, and how long a statement is waited for before its task is suspended."""
FIRST_DELAY, LONGEST_DELAY, GROWTH = 0.5, 30.0, 1.5
"""Seconds until a suspended task asks again."""
MISSES = 10
"""Questions in a row that may go wrong on the way before the task does."""
GRACE_SECONDS = 2.0
"""Kept of the task's time for cancelling a statement that takes too long."""
_REQUESTS = uuid.UUID("6f1c3d7e-2c0b-5b6d-9c55-6a3d7d1f4a10")
"""Namespace of request ids: the same attempt of the same task asks under the same id, and is carried out once."""
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_KINDS = {
    "000606": "client_error",  # no warehouse
    "000625": "db_timeout",  # lock timeout
    "000630": "db_timeout",  # statement timeout
    "100072": "db_constraint",  # NULL in a NOT NULL column
    "200001": "db_constraint",
    "390144": "auth",  # token invalid
}
_RETRYABLE = frozenset({"000625"})
_CHANGES = (
    "number of rows inserted",
    "number of rows updated",
    "number of rows deleted",
    "number of multi-joined rows updated",
)


@dataclass(frozen=True, slots=True)
class PendingStatement:
    """A statement is not over: what the task has to remember of it, and when to ask again."""

    state: dict[str, Any]
    delay: float


class Session:
    """One task's statements. ``query_id``: of the latest."""

    def __init__(
        self, credential: Credential, places: Mapping[str, str | None], context: TaskContext
    ) -> None:
        """Open a session for a task.

        ``places``: database, schema, warehouse, role; what is None comes from the credential. Raises TaskError(kind="auth").
        """
        data = credential.data
        account = str(data.get("account") or "")
        if not _ACCOUNT.fullmatch(account):
            raise _shape(credential, "account")
        self._context = context
        self._left = max(0.1, (context.left or context.timeout) - GRACE_SECONDS)
        """Seconds until a statement is given up, at the beginning of this call."""
        self._began = time.monotonic()
        self._base = str(
            data.get("endpoint") or f"https://{account.replace('_', '-')}.snowflakecomputing.com"
        ).rstrip("/")
        self._api = Api(context, {"Accept": "application/json", **_authorization(credential, account)})
        given = {name: value or data.get(name) for name, value in places.items()}
        self._places = {name: str(value) for name, value in given.items() if value}
        self.query_id = ""
        self.statement_count = 1
        """How many statements the text of the next one holds."""

    def run(
        self, statement: RenderedStatement, number: int, waits: Mapping[str, Any] | None, *, keep: bool
    ) -> dict[str, Any] | PendingStatement:
        """Run a statement; return its rows, its count of changes, or that it is not over yet.

        ``number``: which statement of the task. ``waits``: what ``PendingStatement`` said of it before. Raises TaskError.
        """
        if waits is None:
            answer = self._finished(self._submit(statement, number), statement)
        else:
            self.query_id = str(waits["handle"])
            try:
                answer = self._look(statement)
            except TaskError as error:
                return self._missed(error, waits)
        if answer.status == 202:
            return self._later(waits or {})
        return self._read(json_of(answer), keep=keep)

    def cancel(self, handle: str) -> None:
        """Cancel a statement. Raises TaskError."""
        self._post(f"{self._base}/api/v2/statements/{handle}/cancel", b"")

    # --- one statement -------------------------------------------------------------------------------

    def _submit(self, statement: RenderedStatement, number: int) -> Answer:
        """Submit the statement to run on the server.

        A submission that was lost is sent again under the same id, so the server runs nothing twice.
        """
        names: list[str] = []

        def placeholder(name: str) -> str:
            names.append(name)
            return "?"

        order: dict[str, Any] = {
            "statement": native_text(statement, placeholder),
            "timeout": max(1, int(self._remaining())),
            "parameters": {"MULTI_STATEMENT_COUNT": str(self.statement_count)},
            **self._places,
        }
        if names:
            order["bindings"] = {
                str(place): bind(statement.params[name]) for place, name in enumerate(names, start=1)
            }
        body = codec.encode(order)
        request = uuid.uuid5(_REQUESTS, f"{self._context.idempotency_key}/{self._context.attempt}/{number}")
        url = f"{self._base}/api/v2/statements?requestId={request}&async=true"
        for retry in ("", "&retry=true"):
            try:
                return self._post(url + retry, body, statement)
            except TaskError as error:
                if retry or error.kind != "connection":
                    raise
        raise AssertionError("the second try returns or raises")

    def _post(self, url: str, body: bytes, statement: RenderedStatement | None = None) -> Answer:
        try:
            return self._api.call("POST", url, body, {"Content-Type": "application/json"})
        except TaskError as error:
            raise _snowflake_error(error, statement) from None

    def _finished(self, answer: Answer, statement: RenderedStatement) -> Answer:
        """Wait a moment for it: most statements are short."""
        wait, until = FIRST_WAIT, time.monotonic() + IN_PLACE
        while True:
            body = json_of(answer)
            self.query_id = str(body.get("statementHandle") or self.query_id)
            if answer.status != 202 or time.monotonic() + wait > until:
                return answer
            if self._context.cancelled() or wait > self._remaining():
                raise self._cancel_unneeded()
            time.sleep(wait)
            wait *= GROWTH
            answer = self._look(statement)

    def _look(self, statement: RenderedStatement) -> Answer:
        try:
            return self._api.call("GET", f"{self._base}/api/v2/statements/{self.query_id}")
        except TaskError as error:
            raise _snowflake_error(error, statement) from None

    def _remaining(self) -> float:
        return self._left - (time.monotonic() - self._began)

    def _later(self, before: Mapping[str, Any]) -> PendingStatement:
        """Ask ever more seldom; the last time while there is time left to cancel it."""
        left = self._remaining()
        if self._context.cancelled() or left <= FIRST_DELAY:
            raise self._cancel_unneeded()
        delay = float(before.get("delay", FIRST_DELAY / GROWTH)) * GROWTH
        state = {"handle": self.query_id, "delay": min(LONGEST_DELAY, delay)}
        return PendingStatement(state, min(delay, LONGEST_DELAY, left))

    def _missed(self, error: TaskError, waits: Mapping[str, Any]) -> PendingStatement:
        """Count a status question that failed on the way, which says nothing of the statement.

        Raises the error when it says something, or when questions failed too often.
        """
        misses = int(waits.get("misses", 0)) + 1
        on_the_way = error.kind in ("connection", "timeout", "rate_limit", "server_error")
        if not on_the_way or misses > MISSES:
            raise error
        later = self._later(waits)
        return PendingStatement({**later.state, "misses": misses}, later.delay)

    def _cancel_unneeded(self) -> TaskError:
        """Cancel the statement on the server, because its task no longer waits; return the error."""
        with suppress(TaskError):
            self.cancel(self.query_id)
        if self._context.cancelled():
            return TaskError("the statement was cancelled", kind="cancelled", code="cancelled")
        return TaskError(
            "the statement took longer than its task may, and was cancelled",
            kind="db_timeout",
            code="timeout",
            retryable=True,
            hint="give the task more time with `spec.timeout`, or the statement a larger warehouse",
            details={"query_id": self.query_id},
        )

    def _read(self, body: Mapping[str, Any], *, keep: bool) -> dict[str, Any]:
        about = body.get("resultSetMetaData") or {}
        columns = about.get("rowType") or []
        names = [str(column.get("name")) for column in columns]
        first = body.get("data") or []
        if names and all(name.lower() in _CHANGES for name in names):
            return {"affected_rows": sum(int(value or 0) for value in (first[0] if first else ()))}
        table = Table(names, self._context.settings.output_max_bytes, keep=keep)
        self._add(table, columns, first)
        for part in range(1, len(about.get("partitionInfo") or [None])):
            url = f"{self._base}/api/v2/statements/{self.query_id}?partition={part}"
            self._add(table, columns, json_of(self._api.call("GET", url)).get("data") or [])
        return table.result()

    @staticmethod
    def _add(table: Table, columns: list[Mapping[str, Any]], rows: list[list[str | None]]) -> None:
        table.add([[read(cell, column) for cell, column in zip(row, columns, strict=True)] for row in rows])


def _snowflake_error(error: TaskError, statement: RenderedStatement | None) -> TaskError:
    """Convert Snowflake's error; return an error of the connection as it is."""
    body = error.details.get("body")
    if not isinstance(body, Mapping) or "code" not in body:
        return error
    code = str(body["code"])
    state = str(body.get("sqlState") or "")
    kind = _KINDS.get(code) or (
        "auth" if error.status == 401 else "client_error" if error.status == 422 else error.kind
    )
    where = f" in {first_line(statement.text)}" if statement is not None else ""
    return TaskError(
        f"Snowflake: {body.get('message') or error.message}{where}",
        kind=kind,
        code=code,
        status=error.status,
        retryable=code in _RETRYABLE or (error.retryable and error.status != 422),
        details={"sqlstate": state, "query_id": body.get("statementHandle")},
    )


# --- who the task is there --------------------------------------------------------------------------


def _authorization(credential: Credential, account: str) -> dict[str, str]:
    """Make the authorization headers: a signed token for a key pair, or the given token.

    The given token is the credential's OAuth or programmatic access token.
    """
    data = credential.data
    if data.get("private_key"):
        user = str(data.get("user") or data.get("username") or "")
        if not user:
            raise _shape(credential, "user")
        passphrase = data.get("private_key_passphrase") or data.get("passphrase")
        token = key_pair_token(
            account, user, str(data["private_key"]), str(passphrase) if passphrase else None
        )
        return {"Authorization": f"Bearer {token}", "X-Snowflake-Authorization-Token-Type": "KEYPAIR_JWT"}
    if data.get("token"):
        kind = str(data.get("token_type") or "OAUTH").upper()
        return {"Authorization": f"Bearer {data['token']}", "X-Snowflake-Authorization-Token-Type": kind}
    raise _shape(credential, "private_key or token")


def key_pair_token(account: str, user: str, pem: str, passphrase: str | None) -> str:
    """Sign the token of a key pair.

    The issuer ends with the fingerprint of the public key, by which Snowflake finds it.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = private_key(pem, passphrase).public_key()
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = base64.b64encode(hashlib.sha256(spki).digest()).decode()
    # A region behind the account's locator (xy12345.eu-central-1) is no part of its name.
    subject = f"{account.partition('.')[0]}.{user}".upper()
    issued = int(time.time())
    claims = {
        "iss": f"{subject}.SHA256:{fingerprint}",
        "sub": subject,
        "iat": issued,
        "exp": issued + TOKEN_SECONDS,
    }
    return sign(claims, pem, passphrase=passphrase)


def _shape(credential: Credential, what: str) -> TaskError:
    return TaskError(
        f"the credential {credential.name!r} has no usable {what}",
        kind="auth",
        code="credential_shape",
        hint="it needs account, and user with private_key (PEM), or token; the SQL API takes no password",
    )
