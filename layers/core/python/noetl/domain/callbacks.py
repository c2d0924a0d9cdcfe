"""Callbacks that a playbook waits for, and the tokens that authorize their answers.

A token names an execution, a place in it and a number, and proves that with an HMAC: ``<key id>-<execution>-<place>-<serial>-<mac>``. The
place is the command whose pipeline waits (of a loop: the item's own), the serial counts the callbacks of that pipeline from 0. All of
that is known before the wait begins, so an earlier task of the same pipeline can send the address to the one who answers.

No worker has the key of tokens. One that runs a pipeline which waits is given a key of its own, made from it for that step run alone.

A wait may outlive every key of the ring. So it keeps proofs of its tokens (digests, which answer nothing): a token counts that was made
with a key of the ring, or that has its proof there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.sizes.table import CALLBACK_MESSAGE, CALLBACK_SCHEMA
from noetl.domain.state import ExecutionState, Token

PATH = "/api/callbacks/"
"""Where tokens are answered, below the address of a deployment."""
SCOPE = "callback"
"""Slots about callbacks, by place."""
TIMER = "callback"
"""Kind of the timers of callbacks (``ids.callback_timer``)."""
MAX_MESSAGE = CALLBACK_MESSAGE.value
"""Characters of what a waiting task says to people."""
MAX_SCHEMA = CALLBACK_SCHEMA.value
"""Bytes of the schema of a body."""
_TOKEN = re.compile(
    r"(?P<kid>[0-9a-f]{8})-(?P<execution>[1-9][0-9]{0,18})-(?P<place>[1-9][0-9]{0,9}(?:\.[a-z0-9]{1,20}){0,6})-"
    r"(?P<serial>0|[1-9][0-9]{0,8})-(?P<mac>[0-9a-f]{64})",
    re.ASCII,
)
_ITEM = re.compile(r"[0-9]+\.r(?P<round>[0-9]+)\.i(?P<index>[0-9]+)", re.ASCII)


class CallbackId(msgspec.Struct, frozen=True):
    """What a token names. ``place``: a command's id."""

    execution_id: int
    place: str
    serial: int

    @property
    def run(self) -> int:
        return run_of(self.place)

    @property
    def item(self) -> tuple[int, int] | None:
        return item_of(self.place)


class Awaited(msgspec.Struct, frozen=True, omit_defaults=True):
    """A callback that an execution waits for, as stored in the scope ``callback`` (by place).

    ``command``, ``turn``: what continues when it comes. ``since``, ``until``: epoch seconds; ``until`` None: without a time limit.
    """

    serial: int
    command: str
    turn: int
    step: str
    task: str
    since: float
    until: float | None = None
    message: str = ""
    approve: bool = False
    schema: dict[str, Any] | None = None
    proofs: list[str] = []
    """Digests of the tokens that answer it, whichever keys there are by then."""


def run_of(place: str) -> int:
    """Return the step run that a place belongs to."""
    return int(place.partition(".")[0])


def item_of(place: str) -> tuple[int, int] | None:
    """Return (round, index) of a place that is an item of a loop."""
    found = _ITEM.fullmatch(place)
    return None if found is None else (int(found["round"]), int(found["index"]))


def holder(state: ExecutionState, place: str) -> Token | None:
    """The token that a place belongs to, while something there can be waited for."""
    token = state.tokens.get(run_of(place))
    if token is None:
        return None
    item = item_of(place)
    if item is not None:
        return token if token.phase == "loop" and token.round == item[0] else None
    return token if token.command == place and token.phase in ("body", "case", "compensate") else None


def awaited_in(slot: Any) -> Awaited | None:
    """What a slot of the scope ``callback`` says is awaited; None when it says something else."""
    if not isinstance(slot, dict) or "command" not in slot:
        return None
    return codec.convert(slot, Awaited)


def digest_of(body: Any) -> str:
    """The same for equal JSON values, however they were written."""
    text = codec.encode_sorted(codec.decode(codec.encode(body)))
    return hashlib.sha256(text).hexdigest()


# --- tokens ---


def run_key(execution_id: int, run: int, ring: KeyRing) -> str:
    """What a worker makes the tokens of one step run with: ``<key id>.<secret>``."""
    return _run_key(ring.current, execution_id, run, ring)


def _run_key(kid: str, execution_id: int, run: int, ring: KeyRing) -> str:
    return f"{kid}.{_run_secret(ring.keys[kid], execution_id, run)}"


def make_token(key: str, found: CallbackId) -> str:
    """The token of a callback. ``key``: of its step run."""
    kid, _, secret = key.partition(".")
    return f"{kid}-{found.execution_id}-{found.place}-{found.serial}-{_mac(secret, found)}"


def proofs(found: CallbackId, ring: KeyRing) -> list[str]:
    """Return a digest for each token that a callback has when its wait begins.

    One is made with the current key, the others with the keys before it.
    """
    return [
        _proof(make_token(_run_key(kid, found.execution_id, found.run, ring), found)) for kid in ring.keys
    ]


def proven(token: str, awaited: Awaited) -> bool:
    """Whether ``token`` is one of those that the wait keeps proofs of."""
    proof = _proof(token)
    return any(hmac.compare_digest(proof, one) for one in awaited.proofs)


def token_name(token: str) -> CallbackId | None:
    """Return what a token names, whether it is valid or not; None when it is no token."""
    parts = _TOKEN.fullmatch(token)
    if parts is None or int(parts["execution"]) >= 2**63:
        return None
    return CallbackId(int(parts["execution"]), parts["place"], int(parts["serial"]))


def read_token(token: str, ring: KeyRing) -> CallbackId | None:
    """What a token names; None unless it was made with a key of ``ring``."""
    found = token_name(token)
    kid = token.partition("-")[0]
    if found is None or kid not in ring.keys:
        return None
    secret = _run_secret(ring.keys[kid], found.execution_id, found.run)
    return found if hmac.compare_digest(token.rpartition("-")[2], _mac(secret, found)) else None


def _proof(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _run_secret(key: bytes, execution_id: int, run: int) -> str:
    return hmac.new(key, f"callbacks of {execution_id}/{run}".encode(), hashlib.sha256).hexdigest()


def _mac(secret: str, found: CallbackId) -> str:
    claim = f"{found.execution_id}/{found.place}/{found.serial}"
    return hmac.new(secret.encode(), claim.encode(), hashlib.sha256).hexdigest()


def shown_path(path: str) -> str:
    """Return a request's path for logs, without the token of a callback or webhook."""
    for secret in (PATH, "/api/hooks/"):
        head, mark, _ = path.partition(secret)
        if mark:
            return f"{head}{mark}***"
    return path
