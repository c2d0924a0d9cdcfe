"""OAuth 2.0 client credentials (RFC 6749, section 4.4): tokens for a client's secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.services.credentials.credentials import Token

if TYPE_CHECKING:
    from noetl.kinds.http.client import Answer, Request

SECONDS = 20.0
DEFAULT_LIFE = 3600.0
"""What a server means that does not say how long its token is good (RFC 6749, section 5.1, recommends to say)."""
MAX_BYTES = 256 * 1024
_CODE = re.compile(r"[a-z_]{1,40}", re.ASCII)
"""What errors are called (RFC 6749, section 5.2); any other text of a server is not repeated, since it may repeat what it was sent."""
_EXTRA = ("scope", "audience", "resource")


def make_exchange(http_allow: tuple[str, ...] = ()) -> Callable[[str, Mapping[str, Any]], Token]:
    """Make the exchange that asks authorization servers for tokens.

    ``http_allow``: internal hosts that may be asked, as for the kind ``http``.
    """

    def exchange(name: str, data: Mapping[str, Any]) -> Token:
        # The client is loaded by the first token: most processes ask for none.
        from noetl.kinds.http.client import Limits, send
        from noetl.kinds.support.net_guard import Allowed

        limits = Limits(SECONDS, SECONDS, SECONDS, MAX_BYTES, Allowed(http_allow))
        answer = send(_request(data), limits, follow_redirects=False)
        return _token(name, answer)

    return exchange


def _request(data: Mapping[str, Any]) -> Request:
    """Build the token request.

    ``client_auth: body`` puts id and secret into the form; otherwise they are in the Authorization header.
    """
    from noetl.kinds.http.client import Request
    from noetl.kinds.support.net_guard import parse_url

    form = {"grant_type": "client_credentials"}
    form |= {field: str(data[field]) for field in _EXTRA if data.get(field)}
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    client, secret = str(data["client_id"]), str(data["client_secret"])
    if data.get("client_auth") == "body":
        form |= {"client_id": client, "client_secret": secret}
    else:
        pair = f"{quote_plus(client)}:{quote_plus(secret)}".encode()
        headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return Request("POST", parse_url(str(data["token_url"])), headers, urlencode(form).encode())


def _token(name: str, answer: Answer) -> Token:
    """Read the token from an answer.

    Raises TaskError: kind ``auth`` for a refusal, ``server_error`` when the server is at fault.
    """
    body = _mapping(answer.body)
    value, seconds = body.get("access_token"), body.get("expires_in", DEFAULT_LIFE)
    if answer.status == 200 and isinstance(value, str) and value:
        known = isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0
        return Token(value, float(seconds) if known else DEFAULT_LIFE)
    server_fault = answer.status >= 500 or answer.status == 429
    error = body.get("error")
    named = isinstance(error, str) and _CODE.fullmatch(error)
    reason = error if named else "no access_token in the answer"
    raise TaskError(
        f"no token for the credential {name!r}: the authorisation server answered {answer.status} ({reason})",
        kind="server_error" if server_fault else "auth",
        code="token_refused",
        retryable=server_fault,
        hint=None if server_fault else "check its client_id, client_secret, scope and audience",
    )


def _mapping(body: bytes) -> Mapping[str, Any]:
    try:
        found = codec.decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
