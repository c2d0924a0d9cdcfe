from noetl.domain.commands import Command, LoopSlice
from noetl.domain.events import CommandDone, ItemsDone
from noetl.services.worker.worker_lost import worker_lost


def test_a_command_that_breaks_its_worker_fails_with_a_kind_that_retry_rules_can_answer():
    event = worker_lost(Command(1, "4", 4, "fetch", "hash", "io", attempt=2, turn=1), "MemoryError")
    assert isinstance(event, CommandDone)
    assert (event.command_id, event.attempt, event.turn) == ("4", 2, 1)
    assert event.outcome.error is not None
    assert (event.outcome.error.kind, event.outcome.error.retryable) == ("worker_lost", True)
    assert "MemoryError" in event.outcome.error.message


def test_of_a_chunk_every_item_that_is_not_done_fails():
    piece = LoopSlice(1, 3, 7, 10, "x", "parallel", items=[3, 4, 5, 6], skip=(4,))
    event = worker_lost(Command(1, "4.r1.3", 4, "each", "hash", "io", loop=piece), "boom")
    assert isinstance(event, ItemsDone) and event.closed
    assert [item.index for item in event.items] == [3, 5, 6]
    assert all(item.outcome.status == "error" for item in event.items)
