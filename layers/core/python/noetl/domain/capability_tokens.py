"""Capability tokens: what a message may claim, proven by an HMAC whose key no worker has.

* A **command** carries a grant: ``kid.first-past.mac`` over (execution, command, attempt, turn, step run, stage, first, past). A worker
  sends it back with its outcomes, so it can speak for this command only, and only for the items ``first <= i < past`` it was given.
* **Control** events (everything else) are signed over their whole text by a component that may make them: ``kid.mac``.
* A **compiled program** that is kept outside of the process is signed with the name it is kept under: ``kid.mac``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError
from noetl.domain.events import CommandDone, ItemsDone

_KEY_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys of tokens by id: ``current`` signs, and all of ``keys`` verify.

    So a rotation breaks nothing that is under way.
    """

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[str]) -> KeyRing:
        """Keys from secret texts; the first one signs.

        Raises ValueError when there is none, or one is shorter than 16 characters.
        """
        keys = {
            _key_id(secret): hashlib.sha256(b"noetl token" + secret.encode()).digest() for secret in secrets
        }
        if not keys:
            raise ValueError("no token key")
        return cls(next(iter(keys)), keys)


def verified(token: str, holds: Callable[[KeyRing], bool], keys: Callable[[bool], KeyRing]) -> bool:
    """Whether ``token`` holds under its key.

    ``keys(fresh)``: the key ring, read again for a key that it lacks.

    Raises InfrastructureError(code="key_unknown") when the ring lacks it even so: a rotation may be younger than the last reading.
    """
    ring, kid = keys(False), token.partition(".")[0]
    if kid not in ring.keys and _KEY_ID.fullmatch(kid):
        ring = keys(True)
        if kid not in ring.keys:
            raise InfrastructureError(
                f"the token's key {kid} is none of {', '.join(ring.keys)}",
                code="key_unknown",
                hint="after a rotation of the token key this passes within seconds",
            )
    return holds(ring)


def _key_id(secret: str) -> str:
    if len(secret) < 16:
        raise ValueError("a token key has at least 16 characters")
    return hashlib.sha256(b"noetl key id" + secret.encode()).hexdigest()[:8]


def grant(command: Command, ring: KeyRing) -> str:
    """Make the token that ``command`` carries."""
    return _grant(command, ring.current, ring.keys[ring.current])


def granted(token: str, command: Command, ring: KeyRing) -> bool:
    """Return whether ``token`` was granted to ``command``."""
    kid = token.partition(".")[0]
    key = ring.keys.get(kid)
    return key is not None and hmac.compare_digest(token.encode(), _grant(command, kid, key).encode())


def _grant(command: Command, kid: str, key: bytes) -> str:
    loop = command.loop
    first, past, round_ = (loop.start, loop.stop, loop.round) if loop is not None else (0, 0, -1)
    claim = (
        command.execution_id,
        command.command_id,
        command.attempt,
        command.turn,
        command.run,
        command.step,
        command.program,
        command.stage if loop is None else "",
        round_,
        first,
        past,
    )
    return f"{kid}.{first}-{past}.{_mac(key, _claim(*claim))}"


def fits(token: str, event: CommandDone | ItemsDone, ring: KeyRing) -> bool:
    """Return whether ``token`` was granted for the command that ``event`` answers."""
    kid, _, rest = token.partition(".")
    span, _, mac = rest.partition(".")
    first, dash, past = span.partition("-")
    key = ring.keys.get(kid)
    if key is None or not dash or not _is_number(first) or not _is_number(past):
        return False
    low, high = int(first), int(past)
    claim = (
        event.execution_id,
        event.command_id,
        event.attempt,
        event.turn,
        event.run,
        event.step,
        event.program,
        "" if isinstance(event, ItemsDone) else event.stage,
        event.round if isinstance(event, ItemsDone) else -1,
        low,
        high,
    )
    if not hmac.compare_digest(mac.encode(), _mac(key, _claim(*claim)).encode()):
        return False
    if not isinstance(event, ItemsDone):
        return True
    inside = all(low <= item.index < high for item in event.items)
    return inside and (event.rest is None or low <= event.rest.start < high)


def sign(text: bytes, ring: KeyRing) -> str:
    """Make the token of a control event's text."""
    return f"{ring.current}.{_mac(ring.keys[ring.current], b'event' + text)}"


def signed(token: str, text: bytes, ring: KeyRing) -> bool:
    kid, _, mac = token.partition(".")
    key = ring.keys.get(kid)
    return key is not None and hmac.compare_digest(mac.encode(), _mac(key, b"event" + text).encode())


def sign_program(name: str, data: bytes, ring: KeyRing) -> str:
    """Make the token of a compiled program that is stored under ``name``."""
    return f"{ring.current}.{_mac(ring.keys[ring.current], _program(name, data))}"


def program_signed(token: str, name: str, data: bytes, ring: KeyRing) -> bool:
    """Return whether ``token`` was made for this program under this name."""
    kid, _, mac = token.partition(".")
    key = ring.keys.get(kid)
    return key is not None and hmac.compare_digest(mac.encode(), _mac(key, _program(name, data)).encode())


def _program(name: str, data: bytes) -> bytes:
    return b"program" + f"{len(name)}:{name}".encode("utf-8", "surrogatepass") + data


def _claim(*parts: str | int) -> bytes:
    """Unambiguous: every part with its length."""
    return b"command" + b"".join(f"{len(str(part))}:{part}".encode() for part in parts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12


def _mac(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()
