"""Secrets that a command touched: handed to its tasks, taken out of everything that leaves it.

Redaction is by origin: the exact texts of the credentials that were read, in plain, JSON-escaped, percent-encoded and base64 form. A
suspended pipeline needs its secrets back: there they are sealed, replaced by numbered marks that only the next turn can resolve.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.domain.outcomes import ErrorInfo, Outcome
from noetl.dsl.keychain import credential_of
from noetl.dsl.program import Program
from noetl.ports.credentials import Credentials
from noetl.templating import MappingScope, render

MASK = "***"
MIN_LENGTH = 4
"""Shorter texts are not redacted: they would take ordinary words with them."""
PUBLIC_FIELDS = frozenset(
    {
        *("host", "hostname", "port", "user", "username", "login", "db", "dbname", "database", "schema"),
        *("sslmode", "type", "kind", "name", "region", "account", "warehouse", "role", "project", "bucket"),
        *("url", "endpoint", "base_url", "header", "scheme", "driver", "timeout", "application_name"),
        *("client_id", "tenant", "scope", "path", "method"),
    }
)
"""Fields of a credential that are no secrets; every other text in it is."""
_SEALED = "sealed"
_WHOLE = ";/?:@&=+$,#!'()*"
"""What stays as it is where a whole address is encoded."""
_PERCENT = re.compile("%[0-9A-F]{2}")


class Secrets:
    """The credentials one command has read so far."""

    def __init__(
        self,
        credentials: Credentials,
        execution_id: int,
        program: Program,
        workload: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = credentials
        self._execution_id = execution_id
        self._program = program
        self._workload = workload or {}
        self._read: dict[str, Credential] = {}

    def credential(self, name: str) -> Credential:
        """A credential by its name, or by the name a keychain entry gives it. Raises TaskError(kind="auth")."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self._source.get(self._resolve(name), self._execution_id)
        return found

    def keychain(self, name: str) -> Mapping[str, Any]:
        """``keychain.<name>``."""
        return self.credential(name).data

    def _resolve(self, name: str) -> str:
        """The credential behind a keychain entry; any other name is a credential's own."""
        for entry in self._program.keychain:
            if entry.name == name:
                return credential_of(entry, render(entry.params, MappingScope({"workload": self._workload})))
        return name

    # --- taking secrets out -----------------------------------------------------------------------

    def redact(self, value: Any) -> Any:
        """``value`` without any secret this command read; the same object when it holds none."""
        found = self._found_in(value) if self._read else {}
        if not found:
            return value
        texts = sorted(found, key=len, reverse=True)

        def mask(text: str) -> str:
            for secret in texts:
                text = text.replace(secret, MASK)
            return text

        return _mapped(value, mask)

    def redact_error(self, error: ErrorInfo) -> ErrorInfo:
        """An error without secrets."""
        if not self._read or not self._found_in(error):
            return error
        return codec.convert(self.redact(msgspec.to_builtins(error)), ErrorInfo)

    def redact_outcome(self, outcome: Outcome) -> Outcome:
        """An outcome without secrets. A suspended pipeline's state is not looked at: that is sealed."""
        if not self._read or not self._found_in(outcome):
            return outcome
        return codec.convert(self.redact(msgspec.to_builtins(outcome)), Outcome)

    def holds_secret(self, value: Any) -> bool:
        return bool(self._read and self._found_in(value))

    def _found_in(self, value: Any) -> dict[str, list[Any]]:
        """Forms of secrets that occur in ``value``, each with its origin ``[credential, path, number of the form]``."""
        encoded = codec.encode(value).decode("utf-8", "surrogatepass")
        return {
            text: origin
            for text, origin in self._forms()
            if any(way in encoded for way in {text, _escaped(text), _ascii(text)})
        }

    def _forms(self) -> Iterator[tuple[str, list[Any]]]:
        for name, credential in self._read.items():
            for path, secret in _texts(credential.data):
                for number, form in enumerate(_forms_of(secret)):
                    yield form, [name, path, number]

    # --- sealing ----------------------------------------------------------------------------------

    def seal(self, machine: dict[str, Any]) -> dict[str, Any]:
        """A suspended pipeline whose secrets are replaced by marks. The mark's key is new each time: data cannot imitate it."""
        found = self._found_in(machine) if self._read else {}
        if not found:
            return machine
        nonce = secrets.token_hex(8)
        texts = sorted(found, key=len, reverse=True)
        origins = [found[text] for text in texts]

        def hide(text: str) -> str:
            for number, secret in enumerate(texts):
                text = text.replace(secret, _mark(nonce, number))
            return text

        sealed: dict[str, Any] = _mapped(machine, hide)
        sealed[_SEALED] = {"nonce": nonce, "origins": origins}
        return sealed

    def unseal(self, machine: dict[str, Any]) -> dict[str, Any]:
        """The reverse of ``seal``. Raises TaskError(kind="auth") when a credential is gone."""
        about = machine.get(_SEALED)
        if about is None:
            return machine
        texts = [self._text_at(*origin) for origin in about["origins"]]

        def show(text: str) -> str:
            for number, secret in enumerate(texts):
                text = text.replace(_mark(about["nonce"], number), secret)
            return text

        opened: dict[str, Any] = _mapped(
            {name: entry for name, entry in machine.items() if name != _SEALED}, show
        )
        return opened

    def _text_at(self, name: str, path: list[Any], number: int) -> str:
        value: Any = self.credential(name).data
        try:
            for part in path:
                value = value[part]
            return _forms_of(value)[number]
        except (LookupError, TypeError) as error:
            raise TaskError(
                f"the credential {name!r} changed while the pipeline waited",
                kind="auth",
                code="credential_changed",
                hint="start the execution again",
            ) from error


def _mark(nonce: str, number: int) -> str:
    return f"\ue000{nonce}:{number}\ue001"


def _texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[list[Any], str]]:
    """(path, text) of every secret text inside a credential's data."""
    if isinstance(value, str):
        if len(value) >= MIN_LENGTH:
            yield list(path), value
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            if str(name).lower() not in PUBLIC_FIELDS:
                yield from _texts(entry, (*path, name))
    elif isinstance(value, (list, tuple)):
        for place, entry in enumerate(value):
            yield from _texts(entry, (*path, place))


def _forms_of(secret: str) -> list[str]:
    """Ways a secret may be written, itself first; always the same list for the same secret."""
    data = secret.encode("utf-8", "surrogatepass")
    found = [secret, _escaped(secret), _ascii(secret), quote(data, safe="")]
    for before in range(3) if len(data) >= 6 else ():
        whole = base64.b64encode(b"\0" * before + data).decode()
        core = whole[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found += [core, core.replace("+", "-").replace("/", "_")]
    # At the end: a sealed pipeline knows its forms by their number.
    for text in dict.fromkeys((*found[:3], _escaped(found[1]), _ascii(found[2]))):
        found += [text, *_in_addresses(text)]
    return list(dict.fromkeys(found))


def _in_addresses(text: str) -> list[str]:
    """Percent-encoded as the usual libraries do it: with or without slashes, as a form, as browsers do, in an address within an address;
    with small letters, too."""
    data = text.encode("utf-8", "surrogatepass")
    ways = [quote(data, safe=safe) for safe in ("", "/", "!'()*", _WHOLE)]
    ways += [quote_plus(data), quote(ways[0], safe=""), quote(ways[1], safe="")]
    return [*ways, *(_PERCENT.sub(lambda found: found[0].lower(), way) for way in ways)]


def _escaped(text: str) -> str:
    return codec.encode(text).decode("utf-8", "surrogatepass")[1:-1]


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """``value`` with every text (keys too) changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(entry, change) for entry in value]
    return value
