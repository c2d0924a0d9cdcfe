"""SQS where a mock that always says yes proves nothing: partial failures, limits, requests that fail."""

from __future__ import annotations

import subprocess
import sys

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from noetl.adapters.aws.sqs import SqsQueue
from noetl.domain.errors import InfrastructureError
from noetl.ports.queue import Delivery, Outgoing
from noetl.services.orchestrator.dead_letters import lay_aside
from tests.parts import over
from tests.waiting import PATIENCE

URL = "https://sqs.eu-central-1.amazonaws.com/000000000000/q"


def refused(code: str, status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "SendMessageBatch")


class Client:
    """Answers each batch request with what ``plan`` says for it: an error to raise, or body → sender's fault of entries to fail."""

    def __init__(self, *plan):
        self.plan = list(plan)
        self.requests = []

    def send_message_batch(self, QueueUrl, Entries):  # noqa: N803
        return self._answer(QueueUrl, Entries, lambda entry: entry["MessageBody"])

    def delete_message_batch(self, QueueUrl, Entries):  # noqa: N803
        return self._answer(QueueUrl, Entries, lambda entry: entry["ReceiptHandle"])

    change_message_visibility_batch = delete_message_batch

    def _answer(self, url, entries, name):
        assert url == URL and len({entry["Id"] for entry in entries}) == len(entries) <= 10
        self.requests.append([name(entry) for entry in entries])
        step = self.plan.pop(0) if self.plan else {}
        if isinstance(step, Exception):
            raise step
        failed = [entry for entry in entries if name(entry) in step]
        return {
            "Failed": [{"Id": entry["Id"], "SenderFault": step[name(entry)], "Code": "X"} for entry in failed]
        }


def queue(client, **settings):
    slept: list[float] = []
    made = SqsQueue(URL, client, fifo=False, sleep=slept.append, **settings)
    return made, slept


def test_only_refused_entries_are_sent_again():
    client = Client({"1": False, "3": False}, {"3": False})
    made, slept = queue(client)
    assert list(made.send([Outgoing(str(number)) for number in range(5)])) == []
    assert client.requests == [["0", "1", "2", "3", "4"], ["1", "3"], ["3"]]
    assert len(slept) == 2 and 0 < slept[0] < slept[1] < 1


def test_what_stays_refused_is_told_by_position():
    never = {"12": False}
    client = Client({"3": True}, never, never, never, never)
    made, slept = queue(client)
    assert list(made.send([Outgoing(str(number)) for number in range(14)])) == [3, 12]
    assert client.requests[1:] == [["10", "11", "12", "13"], ["12"], ["12"], ["12"]]
    assert len(slept) == 3


def test_a_queue_that_goes_away_midway_leaves_the_rest_to_the_caller():
    client = Client({"2": True}, refused("ServiceUnavailable", 503))
    made, _ = queue(client)
    assert list(made.send([Outgoing(str(number)) for number in range(35)])) == [2, *range(10, 35)]
    assert len(client.requests) == 2


@over(
    ("error", "code", "retryable"),
    [
        (refused("ServiceUnavailable", 503), "aws_failed", True),
        (refused("ThrottlingException"), "aws_throttled", True),
        (refused("RequestThrottled"), "aws_throttled", True),
        (refused("AccessDenied", 403), "aws_refused", False),
        (refused("AWS.SimpleQueueService.NonExistentQueue"), "aws_rejected", False),
        (EndpointConnectionError(endpoint_url="http://x"), "aws_unreachable", True),
    ],
)
def test_when_nothing_was_sent_the_error_says_why(error, code, retryable):
    made, _ = queue(Client(error))
    with pytest.raises(InfrastructureError) as caught:
        made.send([Outgoing("1")])
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    if code == "aws_refused":
        assert "sqs:SendMessage " in str(caught.value)


def test_a_region_that_takes_less_gets_smaller_requests():
    long = refused("AWS.SimpleQueueService.BatchRequestTooLong")
    client = Client(long, {}, long, {}, {"3": True})
    made, _ = queue(client)
    assert list(made.send([Outgoing(str(number)) for number in range(4)])) == [3]
    assert client.requests == [["0", "1", "2", "3"], ["0", "1"], ["2", "3"], ["2"], ["3"]]
    made, _ = queue(Client(long))
    with pytest.raises(InfrastructureError):
        made.send([Outgoing("1")])


def test_requests_keep_to_the_limit_in_bytes():
    client = Client()
    made, _ = queue(client, limit=100)
    made.send([Outgoing('"' + "ä" * 20 + '"') for _ in range(5)])
    assert [len(request) for request in client.requests] == [2, 2, 1]


def receipts(count):
    return [Delivery(f"m{number}", f"r{number}", "1") for number in range(count)]


@pytest.mark.parametrize("settle", ["ack", "nack"])
def test_receipts_go_in_tens_and_expired_ones_are_passed_over(settle):
    client = Client({"r0": True, "r1": False}, {}, {"r10": True})
    made, _ = queue(client)
    getattr(made, settle)(receipts(12))
    assert client.requests[1:] == [["r1"], ["r10", "r11"]]
    never = {"r0": False}
    made, _ = queue(Client(never, never, never, never))
    with pytest.raises(InfrastructureError):
        getattr(made, settle)(receipts(1))


def test_the_engines_path_loads_neither_pydantic_nor_yaml():
    code = (
        "import sys\n"
        "import noetl.adapters.aws.sqs, noetl.adapters.aws.s3, noetl.adapters.aws.secrets\n"
        "from noetl.adapters.aws.clients import make_client\n"
        "make_client('sqs')\n"
        "print(sorted({'pydantic', 'yaml', 'cryptography'} & sys.modules.keys()))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={"AWS_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert found.stdout.strip() == "[]", found.stderr


class Strict:
    """Takes the characters that SQS takes, in bodies and attributes: #x9 | #xA | #xD | #x20–#xD7FF | #xE000–#xFFFD | #x10000–#x10FFFF."""

    def __init__(self):
        self.taken = []

    def send_message_batch(self, QueueUrl, Entries):  # noqa: N803
        failed = []
        for entry in Entries:
            texts = [entry["MessageBody"]]
            texts += [one["StringValue"] for one in entry.get("MessageAttributes", {}).values()]
            if all(map(self.is_taken, "".join(texts))):
                self.taken.append(entry)
            else:
                failed.append({"Id": entry["Id"], "SenderFault": True, "Code": "InvalidMessageContents"})
        return {"Failed": failed}

    @staticmethod
    def is_taken(character):
        point = ord(character)
        return (
            point in (9, 10, 13) or 0x20 <= point <= 0xD7FF or 0xE000 <= point <= 0xFFFD or point >= 0x10000
        )


def test_a_reason_with_any_character_is_sent_with_its_dead_letter():
    """A letter that is refused would come again for ever, and what is behind it in its group would wait."""
    hostile = [*map(chr, range(0x100)), "\ud800", "\udfff", "\ufffe", "\uffff", "\U0001f600"]
    client = Strict()
    dead = SqsQueue(URL, client, fifo=True, sleep=lambda seconds: None)
    for number, character in enumerate(hostile):
        delivery = Delivery(f"{number}", "receipt", "{}", group="g")
        lay_aside(delivery, f"a {character} b", dead)
    told = [entry["MessageAttributes"]["noetl-why"]["StringValue"] for entry in client.taken]
    assert len(set(told)) == len(hostile), "each says which character it was"
    assert told[1] == "a \\x01 b" and told[9] == "a \t b" and told[65] == "a A b"
