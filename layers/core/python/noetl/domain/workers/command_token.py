"""The capability of a worker outside of the queue: the command's identity with its token."""

from __future__ import annotations

import base64

import msgspec

from noetl.domain import codec
from noetl.domain.capability_tokens import KeyRing, granted
from noetl.domain.commands import Command, LoopSlice, Stage
from noetl.domain.errors import InvalidInputError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import CAPABILITY

HEADER = "Noetl-Command"


class Capability(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that the token's HMAC covers.

    ``round`` is -1 for a command without items; they are ``first <= i < past`` otherwise.
    """

    execution_id: int
    command_id: str
    run: int
    step: str
    program: str
    token: str
    attempt: int = 1
    turn: int = 0
    stage: Stage = "body"
    round: int = -1
    first: int = 0
    past: int = 0

    @classmethod
    def of(cls, command: Command, token: str) -> Capability:
        """Of a command as it was delivered, with its token."""
        loop = command.loop
        return cls(
            command.execution_id,
            command.command_id,
            command.run,
            command.step,
            command.program,
            token,
            command.attempt,
            command.turn,
            command.stage,
            *((loop.round, loop.start, loop.stop) if loop is not None else (-1, 0, 0)),
        )

    def header(self) -> str:
        """The value of the header ``Noetl-Command``."""
        return base64.urlsafe_b64encode(codec.encode(self)).decode().rstrip("=")

    def holds(self, ring: KeyRing) -> bool:
        """Whether the token was granted to this command."""
        loop = None
        if self.round >= 0:
            loop = LoopSlice(self.round, self.first, self.past, self.past, "", "parallel")
        command = Command(
            self.execution_id,
            self.command_id,
            self.run,
            self.step,
            self.program,
            "",
            stage=self.stage,
            attempt=self.attempt,
            turn=self.turn,
            loop=loop,
        )
        return granted(self.token, command, ring)


_DECODER = codec.decoder(Capability)


def read_capability(header: str) -> Capability:
    """Raises InvalidInputError(code="capability_invalid")."""
    check_text(CAPABILITY, header, f"`command` (or the header {HEADER})", code="capability_invalid")
    try:
        return codec.decode_as(
            _DECODER, base64.b64decode(header + "=" * (-len(header) % 4), b"-_", validate=True)
        )
    except ValueError:
        raise InvalidInputError(
            f"`command` (or the header {HEADER}) is not what a worker was given with its command",
            code="capability_invalid",
            hint="send back what came with the command as `command`, unchanged",
        ) from None
