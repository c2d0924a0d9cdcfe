"""Credentials of a worker that has no database.

It asks the API for them with the token of the command that needs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from noetl.caching.lru_cache import LruCache
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, TaskError
from noetl.domain.kinds import Credential
from noetl.domain.workers.command_token import HEADER, Capability
from noetl.ports.credentials import Credentials

KEEP_SECONDS = 300.0
"""How long one is used by this environment without asking again: what was replaced or removed is used no longer than that."""
UNKNOWN_SECONDS = 60.0
"""How long a name that is not registered is looked for in the other source without asking the API again."""
KEPT = 512
PAUSES = (0.2, 1.0, 2.0)
"""Between the tries of a request that got no answer, or one that says to come again: an API that has just read the token keys reads them
again after two seconds."""
_AGAIN = frozenset({429, 500, 502, 503, 504})

Get = Callable[[str, Mapping[str, str]], tuple[int, bytes]]
"""(URL, headers) → (status, body). Raises InfrastructureError when there is no answer."""


class HttpCredentials:
    """Credentials that a worker fetches from the API.

    ``url``: of the API, without a slash at its end. ``otherwise``: asked for names that are not registered, or that the API grants to no
    command of this playbook (computed ones). One per process, shared by its threads; ``of`` binds it to a command.
    """

    def __init__(
        self,
        url: str,
        get: Get,
        otherwise: Credentials,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = url
        self._get = get
        self.otherwise = otherwise
        self._clock = clock
        self._sleep = sleep
        self._kept: LruCache[tuple[int, str], tuple[float, Credential | None]] = LruCache(KEPT)

    def of(self, capability: Capability) -> Credentials:
        """For the tasks of one command."""
        return _OfCommand(self, capability)

    def read(self, capability: Capability, name: str) -> Credential:
        """Read a credential for a command.

        Raises TaskError: kind ``auth`` (``credential_not_found``, ``credential_not_named``, ``credential_refused``, ``token_refused``);
        kind ``connection``, code ``credentials_away``, retryable.
        """
        for key in ((capability.execution_id, name), (0, name)):
            hit, found = self._remembered(key)
            if hit:
                return self._elsewhere(name, capability, None) if found is None else found
        path = f"/api/keychain/{capability.execution_id}/{quote(name, safe='')}"
        status, body = self._ask(self._url + path, {HEADER: capability.header()}, name)
        if status == 200:
            return self._keep(capability, name, body)
        code = str(body.get("code", ""))
        if code == "credential_not_found":
            # Only what is found in another place is remembered as unknown here: a credential that is added now is found at once.
            found = self._elsewhere(name, capability, None)
            self._remember((0, name), None, UNKNOWN_SECONDS)
            return found
        detail = str(body.get("detail") or body.get("message") or f"the API answered {status}")[:500]
        hint = body.get("hint") if isinstance(body.get("hint"), str) else None
        refused = TaskError(
            f"the credential {name[:120]!r} may not be read: {detail}",
            kind="auth",
            code=code if code in ("credential_not_named", "token_refused") else "credential_refused",
            hint=hint,
        )
        if code == "credential_not_named":
            return self._elsewhere(name, capability, refused)
        raise refused

    def _elsewhere(self, name: str, capability: Capability, refused: TaskError | None) -> Credential:
        try:
            return self.otherwise.get(name, capability.execution_id)
        except TaskError as error:
            if refused is not None and error.code in ("credential_not_found", "credential_refused"):
                raise refused from error
            raise

    def _keep(self, capability: Capability, name: str, body: Mapping[str, Any]) -> Credential:
        data = body.get("data")
        found = Credential(name, str(body.get("type", "")), data if isinstance(data, dict) else {})
        seconds = body.get("expires_in")
        life = min(KEEP_SECONDS, float(seconds)) if isinstance(seconds, (int, float)) else 0.0
        self._remember((capability.execution_id, name), found, life)
        return found

    def _ask(self, url: str, headers: Mapping[str, str], name: str) -> tuple[int, Mapping[str, Any]]:
        problem = ""
        for pause in (*PAUSES, None):
            try:
                status, body = self._get(url, headers)
                if status not in _AGAIN:
                    return status, _mapping(body)
                problem = f"the API answered {status}"
            except InfrastructureError as error:
                problem = error.message
                if not error.retryable:
                    break
            if pause is not None:
                self._sleep(pause)
        raise TaskError(
            f"the credential {name[:120]!r} cannot be read: {problem}",
            kind="connection",
            code="credentials_away",
            retryable=True,
        )

    def _remembered(self, key: tuple[int, str]) -> tuple[bool, Credential | None]:
        until, found = self._kept.get(key) or (0.0, None)
        return self._clock() < until, found

    def _remember(self, key: tuple[int, str], found: Credential | None, seconds: float) -> None:
        self._kept.put(key, (self._clock() + seconds, found))


@dataclass(frozen=True, slots=True)
class _OfCommand:
    source: HttpCredentials
    capability: Capability

    def get(self, name: str, execution_id: int) -> Credential:
        return self.source.read(self.capability, name)


def _mapping(body: bytes) -> Mapping[str, Any]:
    try:
        found = codec.decode(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
