"""The gate of a command that a worker prepares before it is issued."""

from __future__ import annotations

import threading

from noetl.domain.errors import InfrastructureError


class NotIssuedError(InfrastructureError):
    """The store did not take the change that was to issue this command.

    Nothing has been called for it, and nothing may be reported of it. If the engine issues the command after all, it is run as another command.
    """

    def __init__(self) -> None:
        super().__init__("the command was not issued", code="not_issued", retryable=False)


class IssueGate:
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

    def enter(self) -> None:
        """Wait for the answer of the store. Raises NotIssuedError."""
        if not self.issued():
            raise NotIssuedError
