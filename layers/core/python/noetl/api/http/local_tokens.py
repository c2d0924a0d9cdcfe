"""Bearer tokens of a local server: a file of names, scopes and digests.

The tokens themselves are shown once and kept nowhere.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from noetl.adapters.embedded.locked import locked
from noetl.api.http.access import SCOPES, widened
from noetl.api.http.exchange import Principal
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError

PREFIX = "noetl_"


class TokenEntry(msgspec.Struct, frozen=True):
    """A token of this server, without its secret.

    ``digest``: SHA-256 of the token, in hexadecimal digits. The token has 256 random bits, so a plain digest is enough. ``made_at``,
    ``expires_at``: epoch seconds; None: not recorded, and never. ``made_by``: the principal that asked for it over the API.
    """

    name: str
    scopes: tuple[str, ...]
    digest: str
    made_at: float | None = None
    expires_at: float | None = None
    made_by: str = ""


class LocalTokens:
    """The bearer tokens of a server. A changed file is read again, so no restart is needed.

    ``clock``: epoch seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._seen: tuple[int, int] | None = None
        self._known: dict[str, TokenEntry] = {}

    def principal(self, token: str) -> Principal | None:
        """Find the principal of a token.

        Raises InfrastructureError when the file cannot be read.
        """
        with self._lock:
            return self._valid(self._fresh().get(_digest(token)))

    def of_account(self, account: str) -> Principal | None:
        """Find the principal of an account; None: its token was removed, or has expired.

        Raises InfrastructureError when the file cannot be read.
        """
        with self._lock:
            entries = self._fresh().values()
            return self._valid(next((one for one in entries if account_of(one.name) == account), None))

    def _valid(self, entry: TokenEntry | None) -> Principal | None:
        if entry is None or (entry.expires_at is not None and self._clock() >= entry.expires_at):
            return None
        account = account_of(entry.name)
        return Principal(account, "local", account, widened(list(entry.scopes)), entry.digest)

    def _fresh(self) -> dict[str, TokenEntry]:
        """Return the tokens, by digest."""
        seen = self._changed()
        if seen != self._seen:
            self._known = {entry.digest: entry for entry in self.entries()}
            self._seen = seen
        return self._known

    def entries(self) -> list[TokenEntry]:
        """Return every token's entry, by name. Raises InfrastructureError."""
        try:
            return codec.decoder(list[TokenEntry]).decode(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            what = (error.strerror or "") if isinstance(error, OSError) else str(error)
            raise InfrastructureError(
                f"the file {self._path.name} of the home folder cannot be read: {what}",
                code="tokens_unreadable",
                hint="on the server's machine, repair the file, or remove it and make new tokens (`noetl token add`); no restart is needed",
            ) from error

    def add(self, name: str, scopes: list[str], *, seconds: float | None = None, made_by: str = "") -> str:
        """Make a token, and give its text (this once).

        ``seconds``: how long it is valid; None: until it is removed. Raises InvalidInputError for a scope that does not exist, or a name that
        is taken.
        """
        unknown = sorted(set(scopes) - SCOPES)
        if unknown or not scopes:
            raise InvalidInputError(
                f"there is no scope {unknown[0]!r}" if unknown else "a token without a scope may do nothing",
                code="unknown_scope",
                hint=f"scopes are {', '.join(sorted(SCOPES))}",
            )
        token = PREFIX + secrets.token_urlsafe(32)
        with locked(self._path):  # what another one adds in between would be lost
            known = self.entries()
            if any(entry.name == name for entry in known):
                raise InvalidInputError(
                    f"there is a token {name!r} already",
                    code="token_exists",
                    hint="remove it first, or use another name",
                )
            now = self._clock()
            end = None if seconds is None else now + seconds
            made = TokenEntry(name, tuple(sorted(set(scopes))), _digest(token), now, end, made_by)
            self._write([*known, made])
        return token

    def remove(self, name: str) -> None:
        """Remove a token. Raises NotFoundError."""
        with locked(self._path):
            known = self.entries()
            left = [entry for entry in known if entry.name != name]
            if len(left) == len(known):
                raise NotFoundError(
                    f"there is no token {name!r}",
                    code="token_not_found",
                    hint="`noetl token list` shows them",
                )
            self._write(left)

    def _write(self, entries: list[TokenEntry]) -> None:
        text = msgspec.json.format(msgspec.json.encode(sorted(entries, key=lambda entry: entry.name)))
        write_private(self._path, text)

    def _changed(self) -> tuple[int, int] | None:
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_mtime_ns, about.st_size


def write_private(path: Path, text: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    beside.replace(path)


def account_of(name: str) -> str:
    """Return the account, and the principal's name, of a token."""
    return f"token:{name}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
