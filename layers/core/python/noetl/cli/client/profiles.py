"""Client contexts: named servers, each with a way to authenticate.

A context names where a token is stored, and never holds the token.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from noetl.api.http.local_tokens import write_private
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError

FILE = "contexts.json"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADER_TEXT = re.compile(r"[\x21-\x7e]+")
MAX_TOKEN = 16_384


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server, and how to authenticate there.

    ``auth``: ``token`` (bearer, of ``token_file`` or the variable ``token_env``), ``iam`` (signed with credentials of AWS; ``profile`` and
    ``region`` when the environment does not say), or ``none``.
    """

    name: str
    url: str
    auth: Literal["token", "iam", "none"]
    token_file: str = ""
    token_env: str = ""
    profile: str = ""
    region: str = ""

    def token(self) -> str:
        """Read the token, each time again, so that a rotated one counts.

        Raises InfrastructureError, whose text never contains the token.
        """
        if self.token_env:
            text, where = os.environ.get(self.token_env, ""), f"the variable {self.token_env}"
        else:
            text, where = _file_text(self.token_file), self.token_file
        text = text.strip()
        if not _HEADER_TEXT.fullmatch(text) or len(text) > MAX_TOKEN:
            raise InfrastructureError(
                f"{where} holds no token" if not text else f"what {where} holds is not a token",
                code="token_missing",
                hint=f"the context {self.name} takes it from there",
                retryable=False,
            )
        return text


def _file_text(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            return file.read(MAX_TOKEN + 2).decode("ascii", "replace")
    except OSError as error:
        raise InfrastructureError(
            f"the token file {name} cannot be read: {error.strerror or error}",
            code="token_missing",
            hint="write the server's token there, or name another file: noetl context add NAME --url URL --token-file FILE",
            retryable=False,
        ) from error


class _Kept(msgspec.Struct):
    current: str = ""
    contexts: list[Context] = []


class Contexts:
    """The file of contexts, which only its owner can read."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def entries(self) -> tuple[list[Context], str]:
        """Every context by name, and the name of the one in use (or nothing).

        Raises InfrastructureError.
        """
        kept = self._read()
        return kept.contexts, kept.current

    def find(self, name: str) -> Context:
        """``name`` empty: the one in use. Raises NotFoundError."""
        kept = self._read()
        wanted = name or kept.current
        for one in kept.contexts:
            if one.name == wanted:
                return one
        if not wanted:
            raise NotFoundError(
                "no context is in use",
                code="context_not_found",
                hint="noetl context add NAME --url URL, or noetl context use NAME",
            )
        raise _unknown(wanted, kept.contexts)

    def put(self, context: Context, *, use: bool) -> None:
        """Keep one, or replace the one of this name.

        ``use``: it is the one in use from now on; so is the first.
        """
        kept = self._read()
        others = [one for one in kept.contexts if one.name != context.name]
        current = context.name if use or not others else kept.current
        self._write(_Kept(current, sorted([*others, context], key=lambda one: one.name)))

    def use(self, name: str) -> Context:
        """Raises NotFoundError."""
        kept = self._read()
        found = next((one for one in kept.contexts if one.name == name), None)
        if found is None:
            raise _unknown(name, kept.contexts)
        self._write(_Kept(name, kept.contexts))
        return found

    def remove(self, name: str) -> None:
        """Raises NotFoundError."""
        kept = self._read()
        left = [one for one in kept.contexts if one.name != name]
        if len(left) == len(kept.contexts):
            raise _unknown(name, kept.contexts)
        self._write(_Kept("" if kept.current == name else kept.current, left))

    def _read(self) -> _Kept:
        try:
            return codec.decoder(_Kept).decode(self._path.read_bytes())
        except FileNotFoundError:
            return _Kept()
        except (OSError, msgspec.DecodeError) as error:
            raise InfrastructureError(
                f"the contexts in {self._path} cannot be read: {error}",
                code="contexts_unreadable",
                hint="repair the file, or remove it and add the contexts again",
                retryable=False,
            ) from error

    def _write(self, kept: _Kept) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._path, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
        except OSError as error:
            raise InfrastructureError(
                f"{self._path} cannot be written: {error.strerror or error}",
                code="home_unusable",
                hint="set NOETL_HOME (or --home) to a folder of yours",
                retryable=False,
            ) from error


def _unknown(name: str, known: list[Context]) -> NotFoundError:
    from noetl.dsl.diagnostics import did_you_mean

    names = [one.name for one in known]
    otherwise = f"there are {', '.join(names)}" if names else "noetl context add NAME --url URL"
    return NotFoundError(
        f"there is no context {name[:80]!r}",
        code="context_not_found",
        hint=did_you_mean(name, names, otherwise),
    )


def checked(context: Context, *, plain_http: bool = False) -> Context:
    """As it is kept.

    Raises InvalidInputError for a name or an address that cannot be, and for a token that would travel in the clear.
    """
    if not _NAME.fullmatch(context.name):
        raise InvalidInputError(
            f"{context.name[:80]!r} is not a name of a context",
            code="invalid_context",
            hint="letters, digits, dots, dashes and underscores; at most 64",
        )
    url = _base(context.url)
    host = urlsplit(url).hostname
    if context.auth == "token" and url.startswith("http:") and host not in LOOPBACK and not plain_http:
        raise InvalidInputError(
            f"a token would travel to {host} unencrypted",
            code="invalid_context",
            hint="use https, or --plain-http in a network that is trusted",
        )
    return msgspec.structs.replace(context, url=url)


def _base(text: str) -> str:
    """Normalize an address: ``scheme://host[:port][/stage]``.

    It has no slash at its end. Messages never repeat what may be a password.
    """
    try:
        parts = urlsplit(text.strip())
        fine = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:
        fine = False
    if (
        not fine
        or "@" in parts.netloc
        or parts.query
        or parts.fragment
        or not text.isprintable()
        or " " in text
    ):
        raise InvalidInputError(
            "this is not the address of an API",
            code="invalid_context",
            hint="such as --url https://abc123.execute-api.eu-west-1.amazonaws.com; without user, query or fragment",
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def contexts(home: str | None) -> Contexts:
    """Return the contexts of a home folder.

    Other settings are not read: they are about this machine's database.
    """
    return Contexts(Path(home or os.environ.get("NOETL_HOME") or Path.home() / ".noetl").expanduser())
