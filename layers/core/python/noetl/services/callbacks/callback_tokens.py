"""Callback tokens that the templates of one command read."""

from __future__ import annotations

from noetl.domain.callbacks import PATH, CallbackId, make_token
from noetl.domain.commands import Command
from noetl.domain.errors import TemplateError
from noetl.domain.ids import item_command_id
from noetl.pipeline import Item
from noetl.pipeline.surroundings import CallbackToken
from noetl.services.redaction.redaction import Secrets


def callback_tokens(command: Command, key: str, base: str, secrets: Secrets) -> CallbackToken:
    """Return the function that makes the callback tokens of a command.

    ``key``: the key of the command's step run. Stored values that contain a token are redacted, as those with any secret are.
    """

    def made(place: str, serial: int) -> str:
        return make_token(key, CallbackId(command.execution_id, place, serial))

    def token(item: Item | None, serial: int) -> tuple[str, str]:
        if not key:
            raise TemplateError(
                "callbacks cannot be answered here: this worker was given no key for their addresses",
                code="callback_unavailable",
            )
        loop, place = command.loop, command.command_id
        if loop is not None and item is not None:
            where = item.index if item.place < 0 else item.place
            place = item_command_id(command.run, loop.round, where)
        found = secrets.callback(place, serial)
        return found, f"{base.rstrip('/')}{PATH}{found}"

    secrets.callbacks = made
    return token
