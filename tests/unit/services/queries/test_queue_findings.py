"""What `analyze` says where there are queues: dead letters, deliveries and the age of commands, instead of "is being run"."""

from __future__ import annotations

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.ports.command_tries import CommandTries
from noetl.ports.deliveries import DeadLetter
from noetl.ports.executions.inspection import OpenCommand
from noetl.ports.gauges import QueueGauge
from noetl.services.queries.queue_findings import dead_letters, delivered
from tests.parts import over

IDLE = [
    QueueGauge("events", 3, 14, 0),
    QueueGauge("commands-io", 0, 0, 0),
    QueueGauge("commands-dlq", 0, 0, 0),
]
BUSY = [QueueGauge("events", 0, 0, 0), QueueGauge("commands-io", 0, 1, 0)]


class Queues:
    def __init__(self, letters=(), tries=None, gauges=(), error=None):
        self.letters, self.known, self.depths, self.error = letters, tries, gauges, error

    def dead_letters(self, execution_id):
        if self.error is not None:
            raise self.error
        return self.letters

    def tries(self, execution_id, command_id, attempt, turn):
        return self.known

    def gauges(self):
        return self.depths


def command(due_for: float = 300.0) -> OpenCommand:
    return OpenCommand("1", 1, 1, 0, False, "queue", True, due_for)


@over(
    ("queues", "due_for", "kind", "words"),
    [
        (Queues(tries=CommandTries(0, 12, 1.8e9, "no bucket")), 300, "backing_off", "delivered 12 times"),
        (Queues(tries=CommandTries(2, 3, 1.8e9)), 300, "redelivered", "begun 2 times"),
        (Queues(gauges=IDLE), 300, "outcome_waits", "3 messages waiting and 14 being handled or backing off"),
        (Queues(gauges=BUSY), 300, None, ""),
        (Queues(gauges=IDLE), 10, None, ""),
        (None, 300, None, ""),
    ],
)
def test_the_cause_is_named_with_deliveries_and_age(queues, due_for, kind, words):
    found = delivered(7, "step s: command 1", "s", command(due_for), queues)
    if kind is None:
        assert found is None, "nothing speaks against its being run"
    else:
        assert found.kind == kind and found.severity == "warning" and words in found.message
        assert "due for 300 s" in found.message


@pytest.mark.parametrize(("why", "next_"), [("no such value", "noetl dead-letters retry"), ("", "by itself")])
def test_a_dead_letter_is_the_most_serious_finding(why, next_):
    letter = DeadLetter("events", "m", 1.8e9, why, ["7"])
    (found,) = dead_letters(7, Queues([letter]))
    assert (found.kind, found.severity) == ("dead_letter", "error")
    assert why in found.message and next_ in found.next[0]


def test_queues_that_cannot_be_asked_do_not_keep_the_rest_from_being_told():
    (found,) = dead_letters(7, Queues(error=InfrastructureError("aws_refused")))
    assert found.severity == "info" and delivered(7, "x", "s", command(), Queues(gauges=())) is None
