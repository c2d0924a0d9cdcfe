"""Commands that this process prepares while the store writes the change that issues them.

To write the start of an execution takes about as long as to get the process for its code. A thread that is free meanwhile takes the first
command that needs this process, renders its parameters and prepares the process. It makes no call and reports nothing before the change is
written (``IssueGate``): a step begins when the outcome of the one before it is durable, as ever. Commands that need no new process would
gain nothing, and take processor time from the writing. Where threads are busy, or many changes are written at once, nothing begins early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noetl.domain.commands import Command
from noetl.ports.executions.execution_store import Change
from noetl.runtime.local.thread_pools import Pool
from noetl.services.worker.issue_gate import IssueGate

MOST_CHANGES = 4
"""Changes of one commit whose commands begin early. With more, threads have enough to do."""

Key = tuple[int, str, int, int]


class EarlyStarts:
    """The gates of commands that began early. Threads may share it."""

    def __init__(
        self,
        pool_of: Callable[[str], Pool | None],
        is_offered: Callable[[str], bool],
        revoked: Callable[[int, int], bool],
        submit: Callable[[Command], None],
    ) -> None:
        """Begin nothing yet.

        ``pool_of``: a pool of this process by name. ``is_offered``: whether other processes run the commands of a pool.
        ``revoked(execution_id, run)``: what this process takes to be over. ``submit``: lets a thread run a command, or raises.
        """
        self._pool_of, self._is_offered, self._revoked, self._submit = pool_of, is_offered, revoked, submit
        self._gates: dict[int, IssueGate] = {}
        """By the identity of the command: the store may issue an equal one later, which has no gate."""

    def gate_of(self, command: Command) -> IssueGate | None:
        """Return the gate that ``command`` has to pass.

        None: it was issued before it began.
        """
        return self._gates.get(id(command))

    def is_issued(self, command: Command) -> bool:
        """Return whether the store has issued a command that is running, once that is known."""
        gate = self.gate_of(command)
        return gate is None or gate.issued()

    def forget(self, command: Command) -> None:
        """Drop the gate of a command that has been run."""
        self._gates.pop(id(command), None)

    def begin(self, changes: Sequence[Change]) -> Begun:
        """Begin those commands of ``changes`` that need a process and for which a thread is free."""
        begun = Begun()
        if len(changes) > MOST_CHANGES:
            return begun
        try:
            # Of a change with limits the store decides which commands are given out.
            for command in (one for change in changes if not change.limited for one in change.issue):
                if self._may_begin(command) and (gate := self._begin(command)) is not None:
                    begun.gates[_key(command)] = gate
        except BaseException:
            begun.refuse()
            raise
        return begun

    def _may_begin(self, command: Command) -> bool:
        pool = self._pool_of(command.pool)
        return (
            pool is not None
            and pool.is_cold(command.execution_id)
            and pool.free > 0
            and command.delay <= 0
            and not command.remote
            and not self._is_offered(command.pool)
            and not self._revoked(command.execution_id, command.run)
        )

    def _begin(self, command: Command) -> IssueGate | None:
        gate = self._gates[id(command)] = IssueGate()
        try:
            self._submit(command)
        except BaseException as error:
            self.forget(command)
            if isinstance(error, Exception):
                return None  # it begins as others do, when it is issued
            raise
        return gate


class Begun:
    """The commands of one commit that began early."""

    def __init__(self) -> None:
        self.gates: dict[Key, IssueGate] = {}

    def settle(self, issued: Sequence[Command]) -> list[Command]:
        """Open the gates of commands that the store has issued, and refuse the others.

        Returns the issued commands that did not begin early.
        """
        if not self.gates:
            return list(issued)
        left = []
        for command in issued:
            gate = self.gates.pop(_key(command), None)
            if gate is None:
                left.append(command)
            else:
                gate.open()
        self.refuse()
        return left

    def refuse(self) -> None:
        """Refuse all gates that are closed.

        The store did not take the change, or its answer is not known.
        """
        for gate in self.gates.values():
            gate.refuse()
        self.gates.clear()


def _key(command: Command) -> Key:
    return command.execution_id, command.command_id, command.attempt, command.turn
