"""Google's APIs for tasks: their identity (a signing service account) and their errors."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.http.api_call import Api, Caller, json_of
from noetl.kinds.support.signed_jwt import sign

TOKEN_URI = "https://oauth2.googleapis.com/token"
TOKEN_SECONDS = 3600
EARLY_SECONDS = 60
"""A token is not used in its last minute."""
_REASONS = {
    "notFound": "not_found",
    "authError": "auth",
    "forbidden": "auth",
    "rateLimitExceeded": "rate_limit",
    "quotaExceeded": "rate_limit",
}

_lock = threading.Lock()
_tokens: dict[str, tuple[str, float]] = {}


def forget_tokens() -> None:
    """Drop the cached tokens: they are requested again."""
    with _lock:
        _tokens.clear()


def access_token(credential: Credential, scope: str, context: Caller) -> str:
    """Return the credential's access token, or get one for its service account's signature.

    A token that was fetched is kept until it ends.
    """
    data = credential.data
    if data.get("access_token"):
        return str(data["access_token"])
    account = _account(credential)
    key = hashlib.sha256(f"{scope}\n{account['client_email']}\n{account['private_key']}".encode()).hexdigest()
    with _lock:
        token, until = _tokens.get(key, ("", 0.0))
    if time.monotonic() < until:
        return token
    token, seconds = _exchanged(account, scope, context)
    with _lock:
        _tokens[key] = (token, time.monotonic() + seconds - EARLY_SECONDS)
    return token


def _account(credential: Credential) -> Mapping[str, Any]:
    """Return the service account, under ``service_account`` or beside it.

    ``service_account`` is a mapping, or the JSON text of the key file.
    """
    found: Any = credential.data.get("service_account") or credential.data
    if isinstance(found, str):
        try:
            found = codec.decode(found)
        except ValueError:
            found = None
    if not isinstance(found, Mapping) or not found.get("private_key") or not found.get("client_email"):
        raise TaskError(
            f"the credential {credential.name!r} holds no service account",
            kind="auth",
            code="credential_shape",
            hint="it needs client_email and private_key (the key file as Google issues it), or access_token",
        )
    return found


def _exchanged(account: Mapping[str, Any], scope: str, context: Caller) -> tuple[str, float]:
    """(token, seconds it lives), for an assertion signed by the account (RFC 7523)."""
    target, now = str(account.get("token_uri") or TOKEN_URI), int(time.time())
    claims = {
        "iss": account["client_email"],
        "scope": scope,
        "aud": target,
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
    assertion = sign(claims, str(account["private_key"]), key_id=account.get("private_key_id"))
    body = urlencode(
        {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion}
    ).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        answer = json_of(Api(context, {}).call("POST", target, body, headers))
        return str(answer["access_token"]), float(answer.get("expires_in") or TOKEN_SECONDS)
    except (KeyError, TypeError, ValueError):
        reason = "the answer has no access_token"
    except TaskError as error:
        if error.status is None or error.status >= 500:
            raise
        problem = error.details.get("body")
        reason = (
            str(problem.get("error_description") or problem.get("error"))
            if isinstance(problem, dict)
            else error.message
        )
    raise TaskError(
        f"Google gave no token for {account['client_email']}: {reason}",
        kind="auth",
        code="token_refused",
        hint="is the key still valid, and this machine's clock right?",
    )


def google_error(error: TaskError, service: str) -> TaskError:
    """Convert an error of the API by the reason in its body; return any other error as it is."""
    body = error.details.get("body")
    problem = body.get("error") if isinstance(body, dict) else None
    if not isinstance(problem, dict):
        return error
    first: Any = next(iter(problem.get("errors") or ()), {})
    reason = str(first.get("reason") or problem.get("status") or error.code)
    return TaskError(
        f"{service}: {problem.get('message') or error.message}",
        kind=_REASONS.get(reason, error.kind),
        code=reason,
        status=error.status,
        retryable=error.retryable or _REASONS.get(reason) == "rate_limit",
        details={key: error.details[key] for key in ("retry_after", "url") if key in error.details},
    )
