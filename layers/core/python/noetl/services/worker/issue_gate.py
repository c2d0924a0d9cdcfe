"""The gates of commands that begin before they are issued."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.kinds import TaskContext
from noetl.dsl.program import Pipeline, Program
from noetl.ports.kinds import Kinds


class NotIssuedError(InfrastructureError):
    """This command is not issued, and does not continue.

    Nothing has been called for it that others can see, and nothing may be reported of it. If the engine issues the command after all, it is
    run as another command.
    """

    def __init__(self) -> None:
        super().__init__("the command was not issued", code="not_issued", retryable=False)


class Gate:
    """What a command passes that begins before it is issued. This one lets everything pass."""

    def begin(self, command: Command, program: Program, pipeline: Pipeline) -> None:
        """Pass to the pipeline of a command. Raises NotIssuedError."""

    def begin_call(
        self, kinds: Kinds, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> None:
        """Pass to a call of a kind. Raises NotIssuedError."""

    def enter(self) -> None:
        """Pass to the report of an outcome. Raises NotIssuedError."""

    def cut(self, timeout: float) -> float:
        """Return the seconds that a call may take, of ``timeout``."""
        return timeout

    def end_call(self, error: NoetlError) -> None:
        """Pass with the error of a call. Raises NotIssuedError."""

    def may_print(self) -> bool:
        """Return whether a line of the task may be logged."""
        return True


class IssueGate(Gate):
    """Closed until the store has answered; then the command may begin, or never does."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._issued = False

    @property
    def closed(self) -> bool:
        """Whether the store has not answered yet."""
        return not self._answered.is_set()

    def open(self) -> None:
        """Let the command begin: it is issued."""
        self._issued = True
        self._answered.set()

    def refuse(self) -> None:
        """Let the command never begin."""
        self._answered.set()

    def issued(self) -> bool:
        """Wait for the answer of the store, and return whether the command is issued."""
        self._answered.wait()
        return self._issued

    def begin_call(
        self, kinds: Kinds, name: str, raw_params: Mapping[str, Any], context: TaskContext
    ) -> None:
        """Prepare a call while the store has not answered, and wait for its answer."""
        if self.closed:
            kinds.prepare(name, raw_params, context)
        self.enter()

    def enter(self) -> None:
        """Wait for the answer of the store. Raises NotIssuedError."""
        if not self.issued():
            raise NotIssuedError
