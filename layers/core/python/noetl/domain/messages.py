"""Messages of queues: an event or a command, with the token that authorizes its sender.

A message is one JSON text. Exactly one of ``event``, ``command`` and ``ref`` is there; ``ref`` refers to a text of this shape that was
too large for the queue and lies in the result store.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.domain.errors import InvalidInputError
from noetl.domain.events import Event, ItemsDone

VERSION = 2
"""Of the message format. A reader refuses a newer one (the message stays in its queue for a newer reader). What readers of an earlier
version understand says so: 2 are commands about collections in the result store."""
SHARDS = 8
"""Groups that the loop items of one execution are spread over."""


class MessageRef(msgspec.Struct, frozen=True):
    uri: str
    sha256: str
    size: int


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a queue.

    ``token``: see ``domain/capability_tokens.py``. ``due``: epoch seconds before which it must not be acted upon; queues delay by minutes
    at most, so a long delay is a message that is sent again until it is due. ``callbacks``: what a command that may wait for callbacks
    makes their tokens with (domain/callbacks.py). ``digest``: SHA-256 of the compiled program that a command was issued for, as it is
    stored. ``asked``: the lease of a request that had this outcome, and was not answered (domain/workers/direct_requests.py).
    """

    v: int
    token: str = ""
    due: float = 0.0
    event: Event | None = None
    command: Command | None = None
    ref: MessageRef | None = None
    callbacks: str = ""
    digest: str = ""
    asked: str = ""


class NewerMessageError(InvalidInputError):
    """A message of a later version than this reader knows."""

    default_code = "message_newer"


_DECODER: msgspec.json.Decoder[Message] = codec.decoder(Message)
_VERSION: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def encode_message(message: Message) -> str:
    needed = 2 if message.command is not None and _about_collections(message.command) else 1
    versioned = message if message.v <= needed else msgspec.structs.replace(message, v=needed)
    return codec.encode(versioned).decode()


def _about_collections(command: Command) -> bool:
    return command.stage == "collection" or (command.loop is not None and command.loop.source is not None)


def decode_message(text: str) -> Message:
    """Decode a message of a queue.

    Raises NewerMessageError, or InvalidInputError(code="message_invalid") for anything that is not a message.
    """
    try:
        message = codec.decode_as(_DECODER, text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, ValueError) as error:
        if _version(text) > VERSION:
            raise NewerMessageError(f"a message of version {_version(text)}; this is {VERSION}") from error
        raise InvalidInputError(f"not a message: {error}", code="message_invalid") from error
    if message.v > VERSION:
        raise NewerMessageError(f"a message of version {message.v}; this is {VERSION}")
    if sum(part is not None for part in (message.event, message.command, message.ref)) != 1:
        raise InvalidInputError("a message holds one event, command or reference", code="message_invalid")
    return message


def _version(text: str) -> int:
    try:
        found = _VERSION.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError, ValueError):
        return 0
    version = found.get("v") if isinstance(found, dict) else None
    return version if type(version) is int else 0


def event_group(event: Event) -> str:
    """Return the FIFO group of an event: its execution.

    Items of loops have lanes of their own and never lock it.
    """
    if isinstance(event, ItemsDone):
        shard = hashlib.sha256(event.command_id.encode()).digest()[0] % SHARDS
        return f"{event.execution_id}.{shard}"
    return str(event.execution_id)


def event_dedup(event: Event, sender: str) -> str:
    """Return what makes two sendings of one control event by ``sender`` the same.

    (Outcomes of workers are distinguished by their text: a second run of a chunk may cut its items into other messages under the same
    event ids.)
    """
    text = f"{event.execution_id}/{event.event_id}/{sender}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
