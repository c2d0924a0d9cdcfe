"""The size gate of queues.

A text that is too large for its queue is stored in the result store and sent as a reference.
"""

from __future__ import annotations

import hashlib
import uuid

import msgspec

from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.messages import VERSION, Message, MessageRef, decode_message, encode_message
from noetl.domain.results.retention import PERMANENT, mentioned
from noetl.domain.sizes.table import MESSAGE_BYTES
from noetl.ports.results import ResultStore

MESSAGE_LIMIT = MESSAGE_BYTES.value
"""Bytes: what every SQS region takes. It takes 1 MiB since 2026; a deployment may say so (NOETL_MESSAGE_LIMIT)."""


def pack(message: Message, results: ResultStore, *, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text to send, at most ``limit`` bytes of UTF-8.

    Raises InfrastructureError when it has to be stored and cannot be.
    """
    text = encode_message(message)
    data = text.encode()
    if len(data) <= limit:
        return text
    if message.callbacks:
        # A key is not for the store: it stays with what travels.
        data = encode_message(msgspec.structs.replace(message, callbacks="")).encode()
    digest = hashlib.sha256(data).hexdigest()
    uri = f"noetl://execution/{_execution(message)}/result/message/{digest}"
    try:
        results.put(uri, data)
    except ConflictError:  # what lies there is damaged: whoever sends the message again has to get it through
        uri += f".{uuid.uuid4().hex}"
        results.put(uri, data)
    return encode_message(
        Message(
            VERSION,
            ref=MessageRef(uri, digest, len(data)),
            token=message.token,
            due=message.due,
            callbacks=message.callbacks,
        )
    )


def unpack(text: str, results: ResultStore) -> Message:
    """Return the message that was sent; fetch it when a reference was sent.

    Raises NewerMessageError, InvalidInputError(code="message_invalid"), NotFoundError (its text is gone), InfrastructureError.
    """
    message = decode_message(text)
    if message.ref is None:
        return message
    data = results.get(message.ref.uri)
    if hashlib.sha256(data).hexdigest() != message.ref.sha256:
        raise InvalidInputError(f"{message.ref.uri} does not match its checksum", code="message_invalid")
    try:
        found = decode_message(data.decode())
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{message.ref.uri} is not text", code="message_invalid") from error
    if found.ref is not None:
        raise InvalidInputError(f"{message.ref.uri} is a reference again", code="message_invalid")
    return msgspec.structs.replace(found, callbacks=message.callbacks, asked=message.asked)


def bodies_of(text: str) -> set[int]:
    """Return the execution (or none) below whose prefix a message's body is stored.

    The body is kept as long as that execution. Raises InvalidInputError.
    """
    ref = decode_message(text).ref
    return set() if ref is None else mentioned(ref.uri.encode("utf-8", "surrogatepass"), PERMANENT)


def _execution(message: Message) -> int:
    body = message.event or message.command
    assert body is not None
    return body.execution_id
