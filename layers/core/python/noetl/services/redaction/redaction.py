"""Secrets of a command: its tasks get them, and everything that leaves it is redacted.

Redaction is by origin: the exact texts of the credentials that were read, and of their parts, in every form that ``secret_forms`` knows. A
suspended pipeline needs its secrets back: there they are sealed, replaced by numbered marks that only the next turn can resolve.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from noetl.caching.lru_cache import LruCache
from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome
from noetl.domain.text.masking import MASK
from noetl.dsl.keychain import credential_of
from noetl.dsl.program import KeychainEntry, Program
from noetl.ports.credentials import Credentials
from noetl.services.redaction.redacting_stream import StreamMask
from noetl.services.redaction.search_spellings import KnownSecrets
from noetl.services.redaction.secret_variants import (
    byte_forms,
    escaped,
    forms_of,
    gapped_forms,
    in_ascii,
    secret_texts,
)
from noetl.services.redaction.truncated_secrets import TruncatedSecrets
from noetl.templating import MappingScope, render

CALLBACK = "$callback"
"""Begins the name that a callback's token has in place of a credential's: no credential can be called that."""
_SEALED = "sealed"
_CONCEALED = "\ue000secret:"
"""Begins the name of what no credential holds: the rest is how to read it again. No credential can have such a name."""


_Way = tuple[int, str, str]
"""The number of a form, the form, and how JSON may hold it."""
_KEPT = 32
"""Credentials whose search is kept: to make it takes 3 ms for a password, and each command of a step asks for it. It takes some 200 KiB."""
_KEPT_CHARACTERS = 64 * 1024
_WAYS: LruCache[str, tuple[_Way, ...]] = LruCache(4 * _KEPT, _KEPT_CHARACTERS)
_SEARCHES: LruCache[tuple[str, ...], KnownSecrets] = LruCache(_KEPT, _KEPT_CHARACTERS)


class _Form(msgspec.Struct, frozen=True):
    """One spelling of a secret.

    ``origin``: ``[credential, path, number of the form]``. ``way``: the text as it may be in encoded JSON.
    """

    text: str
    origin: list[Any]
    way: str


class Secrets:
    """The credentials one command has read so far."""

    def __init__(
        self,
        credentials: Credentials,
        execution_id: int,
        program: Program,
        workload: Mapping[str, Any] | None = None,
        read_again: Callable[[dict[str, Any]], object] = lambda params: None,
    ) -> None:
        """``read_again``: calls the kind ``secrets``, which conceals what it reads."""
        self._read_again = read_again
        self._source = credentials
        self._execution_id = execution_id
        self._program = program
        self._workload = workload or {}
        self._read: dict[str, Credential] = {}
        self._forms: list[_Form] = []
        self._cuts: TruncatedSecrets | None = None
        self._known: KnownSecrets | None = None
        """All forms, made when first needed."""
        self.callbacks: Callable[[str, int], str] | None = None
        """(place, serial) → the token of a callback, where this command may wait for some."""

    def callback(self, place: str, serial: int) -> str:
        """Return the token of a callback, which is a secret like those of credentials.

        Only this command's own turns can make it again.
        """
        assert self.callbacks is not None
        name = f"{CALLBACK}:{place}:{serial}"
        if name not in self._read:
            self._remember(name, Credential(name, CALLBACK, {"token": self.callbacks(place, serial)}))
        return str(self._read[name].data["token"])

    def forget_callbacks(self) -> None:
        """Those of other items: what they said is sent, or put aside."""
        if not any(name.startswith(CALLBACK) for name in self._read):
            return
        kept = {name: one for name, one in self._read.items() if not name.startswith(CALLBACK)}
        self._read, self._forms, self._cuts, self._known = {}, [], None, None
        for name, one in kept.items():
            self._remember(name, one)

    def credential(self, name: str) -> Credential:
        """Return a credential by its own name or by the name of a keychain entry.

        Raises TaskError(kind="auth").
        """
        found = self._read.get(name)
        if found is None:
            found = self._source.get(self._resolve(name), self._execution_id)
            self._remember(name, found)
        return found

    def conceal(self, params: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        """Treat ``data`` as secret, like a credential's.

        ``params``: the parameters by which the kind ``secrets`` reads it again.
        """
        name = _CONCEALED + codec.encode(dict(sorted(params.items()))).decode()
        if name not in self._read:
            self._remember(name, Credential(name, "generic", data))

    def _remember(self, name: str, credential: Credential) -> None:
        self._read[name] = credential
        for path, secret in secret_texts(credential.data):
            ways = _ways_of(secret) if name.startswith(CALLBACK) else _known_ways(secret)
            self._forms += [_Form(text, [name, path, number], way) for number, text, way in ways]
        self._cuts, self._known = None, None

    def keychain(self, name: str) -> Mapping[str, Any]:
        """Return the value of ``keychain.<name>``."""
        return self.credential(name).data

    def behind(self) -> dict[str, str]:
        """Map the entries of the keychain to the credentials that they mean in this execution."""
        return {entry.name: self._entry_text(entry) for entry in self._program.keychain}

    def _resolve(self, name: str) -> str:
        """Return the credential behind a keychain entry; any other name is a credential's own."""
        for entry in self._program.keychain:
            if entry.name == name:
                return self._entry_text(entry)
        return name

    def _entry_text(self, entry: KeychainEntry) -> str:
        known = MappingScope({**self._workload, "workload": self._workload})
        return credential_of(entry, render(entry.params, known))

    # --- taking secrets out -----------------------------------------------------------------------

    def redact(self, value: Any) -> Any:
        """Return ``value`` without this command's secrets; the same object when it holds none."""
        encoded = self._suspicious(value)
        if encoded is None:
            return value
        return self._without_spellings(_mapped(value, _masking(self._found_in(encoded))))

    def redact_text(self, value: Any) -> Any:
        """Redact a message of a failure, or printed text.

        The code that reported such a text may have cut it within a secret. So this also removes the part of a secret beside a cut.
        """
        if not self._forms:
            return value
        if self._cuts is None:
            self._cuts = TruncatedSecrets(form.text for form in self._forms)
        cuts, redacted = self._cuts, self.redact(value)
        return _mapped(redacted, lambda text: cuts.mask(text, MASK))

    def redact_error(self, error: ErrorInfo) -> ErrorInfo:
        """Return an error without secrets."""
        if not self._forms:
            return error
        return codec.convert(self.redact_text(msgspec.to_builtins(error)), ErrorInfo)

    def redact_outcome(self, outcome: Outcome) -> Outcome:
        """Return an outcome without secrets.

        The state of a suspended pipeline is left as it is: ``seal`` handles it.
        """
        if not self._forms:
            return outcome
        if outcome.error is not None:
            outcome = msgspec.structs.replace(outcome, error=self.redact_error(outcome.error))
        if not self.holds_secret(outcome):
            return outcome
        return codec.convert(self.redact(msgspec.to_builtins(outcome)), Outcome)

    def mask_of_stream(self, keep_length: bool) -> StreamMask | None:
        """Return the redaction of bytes for the result store; None while there are no secrets."""
        return StreamMask(self._all(), keep_length=keep_length) if self._forms else None

    def holds_secret(self, value: Any) -> bool:
        return self._suspicious(value) is not None

    def _all(self) -> KnownSecrets:
        if self._known is None:
            texts = tuple(secret for one in self._read.values() for _, secret in secret_texts(one.data))
            # A callback's token is another one each time.
            kept = not any(name.startswith(CALLBACK) for name in self._read)
            self._known = _SEARCHES.get(texts) if kept else None
            if self._known is None:
                self._known = _search_for(texts, self._forms)
                if kept:
                    _SEARCHES.put(texts, self._known, sum(map(len, texts)))
        return self._known

    def _suspicious(self, value: Any) -> bytes | None:
        """Return ``value`` in JSON, if a secret occurs in it."""
        if not self._forms:
            return None
        encoded = codec.encode(value)
        return encoded if encoded in self._all() else None

    def _found_in(self, encoded: bytes) -> dict[str, list[Any]]:
        """Return forms of secrets that occur in JSON as they are, each with its origin."""
        # Of a large result only the few places are searched for each of thousands of forms.
        spans = (_whole_characters(encoded, *span) for span in self._all().plain_in(encoded))
        text = b"\n".join({encoded[start:end] for start, end in spans}).decode("utf-8", "surrogatepass")
        return {form.text: form.origin for form in self._forms if form.way in text}

    def _without_spellings(self, value: Any) -> Any:
        """Redact secrets in other spellings than those of ``forms_of``, once those are gone."""
        if not self.holds_secret(value):
            return value
        known = self._all()

        def mask(text: str) -> str:
            data = text.encode("utf-8", "surrogatepass")
            spans = [_whole_characters(data, *span) for span in known.found_in(data)]
            places = [0, *(place for span in spans for place in span), len(data)]
            kept = zip(places[::2], places[1::2], strict=True)
            return MASK.join(data[start:end].decode("utf-8", "surrogatepass") for start, end in kept)

        return _mapped(value, mask)

    # --- sealing ----------------------------------------------------------------------------------

    def seal(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return a suspended pipeline whose secrets are replaced by marks.

        The key of the marks is new each time, so that data cannot imitate it.
        """
        encoded = self._suspicious(machine)
        if encoded is None:
            return machine
        found = self._found_in(encoded)
        nonce = secrets.token_hex(8)
        texts = sorted(found, key=len, reverse=True)
        origins = [found[text] for text in texts]

        def hide(text: str) -> str:
            for number, secret in enumerate(texts):
                text = text.replace(secret, _mark(nonce, number))
            return text

        # What has another spelling cannot be written again: it is lost to the tasks that follow, rather than kept in clear.
        sealed: dict[str, Any] = self._without_spellings(_mapped(machine, hide))
        sealed[_SEALED] = {"nonce": nonce, "origins": origins}
        return sealed

    def unseal(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Reverse ``seal``. Raises TaskError(kind="auth") when a credential is gone."""
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
        if name.startswith(_CONCEALED) and name not in self._read:
            self._read_again(codec.decode(name.removeprefix(_CONCEALED)))
        if name.startswith(CALLBACK) and self.callbacks is not None:
            _, place, serial = name.split(":")
            self.callback(place, int(serial))
        value: Any = self.credential(name).data
        try:
            for part in path:
                value = value[part]
            return forms_of(value if isinstance(value, str) else str(value))[number]
        except (LookupError, TypeError) as error:
            raise TaskError(
                f"the credential {name!r} changed while the pipeline waited",
                kind="auth",
                code="credential_changed",
                hint="start the execution again",
            ) from error


def _ways_of(secret: str) -> tuple[_Way, ...]:
    """Return every form of a secret, as it is and as JSON may hold it."""
    return tuple(
        (number, text, way)
        for number, text in enumerate(forms_of(secret))
        for way in dict.fromkeys((text, escaped(text), in_ascii(text)))
    )


def _search_for(texts: tuple[str, ...], forms: Iterable[_Form]) -> KnownSecrets:
    """Make the search for secrets, whose forms are ``forms``."""
    ways = [way.encode("utf-8", "surrogatepass") for form in forms for way in (form.text, form.way)]
    hexadecimal: list[bytes] = []
    in_base64: list[bytes] = []
    for secret in texts:
        ways += byte_forms(secret)
        digits, letters = gapped_forms(secret)
        hexadecimal += digits
        in_base64 += letters
    return KnownSecrets(ways, hexadecimal, in_base64)


def _known_ways(secret: str) -> tuple[_Way, ...]:
    found = _WAYS.get(secret)
    if found is None:
        found = _ways_of(secret)
        _WAYS.put(secret, found, len(secret))
    return found


def _mark(nonce: str, number: int) -> str:
    return f"\ue000{nonce}:{number}\ue001"


def _masking(found: Mapping[str, Any]) -> Callable[[str], str]:
    """Longest first: one may be part of another."""
    texts = sorted(found, key=len, reverse=True)

    def mask(text: str) -> str:
        for secret in texts:
            text = text.replace(secret, MASK)
        return text

    return mask


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return a span of UTF-8 that splits no character."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return ``value`` with every text changed, keys too.

    A number whose digits change becomes that text.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(entry, change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(entry, change) for entry in value]
    if type(value) in (int, float) and abs(value) > 99999:
        shown = str(value)
        return value if (changed := change(shown)) == shown else changed
    return value
