"""The runner of a chunk of a loop's items, one after the other.

Outcomes leave every second, so that a crash repeats little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.domain import ids
from noetl.domain.commands import ChunkRest, ItemOutcome, LoopSlice
from noetl.domain.errors import TaskError
from noetl.domain.events import Event, ItemsDone
from noetl.domain.outcomes.outcomes import Outcome, Patch
from noetl.domain.patches.scope_patches import combine
from noetl.pipeline import item_of
from noetl.pipeline.errors import error_of
from noetl.pipeline.overlay import Overlay
from noetl.services.worker.run_tasks import TaskRunner

FLUSH_SECONDS = 1.0
FLUSH_ITEMS = 1000
"""Most outcomes in one message."""
FLUSH_BYTES = 96 * 1024
"""About how large a message may grow (an item alone may be larger)."""


def run_items(runner: TaskRunner, loop: LoopSlice, emit: Callable[[Event], None]) -> None:
    """Run the items of a command's slice.

    Raises InfrastructureError after sending the outcomes of finished items.
    """
    chunk = _Chunk(runner, loop, emit)
    try:
        chunk.run()
    except BaseException:
        chunk.flush_finished()
        raise


class _Chunk:
    def __init__(self, runner: TaskRunner, loop: LoopSlice, emit: Callable[[Event], None]) -> None:
        self.runner = runner
        self.loop = loop
        self.command = runner.command
        self.deps = runner.deps
        self.emit = emit
        self.sequential = loop.mode == "sequential"
        self.written: list[Patch] = list(self.command.overlay)
        self.overlay = self._overlay()
        assert self.deps.lists is not None
        self.stored = () if loop.source is None else self.deps.lists.open(loop.source)
        self.indexes = list(self._indexes())
        self.undone = len(self.indexes)
        self.pending: list[ItemOutcome] = []
        self.bytes = 0
        self.flushes = 0
        self.since = self.deps.clock()

    def run(self) -> None:
        for number, index in enumerate(self.indexes):
            continued = index == self.loop.continued
            if self._unwanted(index, continued=continued) or (number and self.deps.withdrawn(self.command)):
                break
            if number and self.deps.deadline() < self.runner.longest_seen:
                self._send(closed=False, rest=ChunkRest(index, overlay=self._visible()))
                return
            outcome = self._item(index, continued=continued)
            if outcome.suspend is not None and self.sequential:
                self._send(closed=False, rest=ChunkRest(index, outcome, self._visible()))
                return
            if self.runner.unbegun and not self._is_own(index):
                self._send(closed=False, rest=ChunkRest(index))
                return
            if outcome.suspend is not None and self._is_own(index):
                self.pending.append(ItemOutcome(index, outcome))
                self._send(closed=False)
                return
            self._keep(index, outcome)
            if self.sequential and self._stops(outcome):
                break
        self._send(closed=True)

    def flush_finished(self) -> None:
        """Send the outcomes of finished items; the command stays open."""
        if self.pending:
            self._send(closed=False)

    def _unwanted(self, index: int, *, continued: bool) -> bool:
        """Return whether nothing of the loop is wanted any more; then stop an item's external job."""
        command = self.command
        if not continued or not command.remote:
            return self.deps.revoked(command.execution_id, command.run)
        if not self.deps.unwanted(command):
            return False
        self.runner.stop(item_of(command, index), command.machine)
        return True

    def _indexes(self) -> Iterator[int]:
        skipped = frozenset(self.loop.skip)
        return (index for index in range(self.loop.start, self.loop.stop) if index not in skipped)

    def _item(self, index: int, *, continued: bool) -> Outcome:
        """Run an item and return its outcome; ``continued``: it continues where it was suspended."""
        overlay = self.overlay if self.sequential else self._overlay()
        command = self.command
        machine = command.machine if continued else None
        child = command.child if continued else None
        try:
            item = item_of(command, index, self.stored)
        except TaskError as error:
            return self.runner.failed(error_of(error))
        return self.runner.run(item, overlay, machine, child)

    def _overlay(self) -> Overlay:
        overlay = self.runner.around.overlay()
        for patch in self.command.overlay:
            overlay.write(patch)
        return overlay

    def _keep(self, index: int, outcome: Outcome) -> None:
        self.pending.append(ItemOutcome(index, outcome))
        self.undone -= 1
        if self.sequential:
            self.written += outcome.patches
        self.bytes += weight(outcome)
        if (
            self.bytes >= FLUSH_BYTES
            or len(self.pending) >= FLUSH_ITEMS
            or self.deps.clock() - self.since >= FLUSH_SECONDS
        ):
            self._send(closed=False)

    def _is_own(self, index: int) -> bool:
        """Return whether the command is an item's own: then its next turn is the command's."""
        command = self.command
        return command.command_id == ids.item_command_id(command.run, self.loop.round, index)

    def _stops(self, outcome: Outcome) -> bool:
        """Return whether this outcome ends the loop, so that later items are not run.

        A ``next`` breaks the loop, and so does a failure under fail_fast.
        """
        return outcome.route is not None or (outcome.status == "error" and self.loop.fail_fast)

    def _visible(self) -> list[Patch]:
        """Return the writes that templates of later items may read; gathered ones need not travel."""
        if not self.sequential:
            return []
        self.written = combine(self.written)
        reads = self.runner.reads
        return [patch for patch in self.written if _is_read(patch, reads)]

    def _send(self, *, closed: bool, rest: ChunkRest | None = None) -> None:
        if not closed and rest is None and not self.pending:
            return
        command, now = self.command, self.deps.clock()
        self.flushes += 1
        event_id = ids.items_event(command.command_id, command.attempt, command.turn, self.flushes)
        event = ItemsDone.of(
            command,
            event_id,
            self.loop.round,
            self.pending,
            closed=closed,
            rest=rest,
            elapsed=now - self.since,
            undone=self.undone if closed or rest is not None or self.sequential else None,
        )
        self.emit(event)
        self.pending, self.bytes, self.since = [], 0, now


def _is_read(patch: Patch, reads: frozenset[str]) -> bool:
    if patch.scope == "step":
        return True
    wide = {f"{patch.scope}.*", f"{patch.scope}.{patch.name}", patch.name}
    if patch.scope == "vars":
        wide |= {"ctx.*", f"ctx.{patch.name}"}
    return not reads.isdisjoint(wide)


def weight(outcome: Outcome) -> int:
    """Estimate the bytes that an outcome adds to a message.

    Exact enough to keep messages small.
    """
    total, stack = 64, [outcome.result, *outcome.labels.values(), *(patch.value for patch in outcome.patches)]
    if outcome.suspend is not None:
        stack.append(outcome.suspend.machine)
    while stack:
        value = stack.pop()
        total += len(value) + 2 if isinstance(value, str) else 8
        if isinstance(value, dict):
            total += sum(map(len, value)) + 4 * len(value)
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return total + 80 * len(outcome.trace)
