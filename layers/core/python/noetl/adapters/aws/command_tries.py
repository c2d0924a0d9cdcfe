"""Attempts of commands in the results bucket, beside the results of their execution."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl.adapters.aws.clients import FAILURES, answering, unreachable
from noetl.adapters.aws.s3_streams import is_missing
from noetl.domain import codec
from noetl.domain.commands import Command
from noetl.ports.command_tries import CommandTries

_DECODER = codec.decoder(CommandTries)


class S3CommandTries:
    """Attempts of commands as objects of S3.

    Keys: ``executions/<execution id>/tries/<SHA-256 of command, attempt and turn>``. ``lists``: whether the role may list the bucket.
    """

    def __init__(self, bucket: str, client: Any, *, lists: bool = True) -> None:
        self._bucket = bucket
        self._lists = lists
        self._client = client

    def get(self, execution_id: int, command_id: str, attempt: int, turn: int) -> CommandTries | None:
        key = _key(execution_id, command_id, attempt, turn)
        try:
            data: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except FAILURES as error:
            if is_missing(error, lists=self._lists):
                return None
            raise unreachable(error, "s3") from error
        try:
            return _DECODER.decode(data)
        except msgspec.DecodeError:
            return None

    def put(self, command: Command, tries: CommandTries) -> None:
        key = _key(command.execution_id, command.command_id, command.attempt, command.turn)
        with answering("s3"):
            self._client.put_object(Bucket=self._bucket, Key=key, Body=codec.encode(tries))


def _key(execution_id: int, command_id: str, attempt: int, turn: int) -> str:
    name = hashlib.sha256(f"{command_id}\n{attempt}\n{turn}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"executions/{int(execution_id)}/tries/{name}"
