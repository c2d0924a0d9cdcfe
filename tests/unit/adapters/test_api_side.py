"""What the API asks of AWS: links to results, and how full queues are."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from noetl.adapters.aws import clients
from noetl.adapters.aws.gauges import dead_letters, read_gauges
from noetl.adapters.aws.s3 import S3ResultStore
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.ports.gauges import QueueGauge

URI = "noetl://execution/382358247895465985/result/start/6f0e"


@pytest.fixture
def make_client(monkeypatch):
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "y"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    clients.forget_clients()
    yield clients.make_client
    clients.forget_clients()


def test_a_link_reads_one_object_for_a_while(make_client):
    store = S3ResultStore("results-bucket", make_client("s3"))
    url = urlsplit(store.link(URI, 900))
    query = parse_qs(url.query)
    assert "results-bucket" in f"{url.netloc}{url.path}" and "executions/382358247895465985/" in url.path
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"] and query["X-Amz-Expires"] == ["900"]
    assert query["response-content-type"] == ["application/json"]
    with pytest.raises(InvalidInputError):
        store.link("https://elsewhere.example/x", 900)


def test_queues_tell_how_full_they_are(make_client):
    from moto import mock_aws

    with mock_aws():
        sqs = make_client("sqs")
        urls = {}
        for name in (
            *("n-events.fifo", "n-events-dlq.fifo", "n-timers", "n-timers-dlq"),
            *("n-commands-a", "n-commands-b", "n-commands-dlq"),
        ):
            attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if "fifo" in name else {}
            urls[name] = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for text in "abc":
            sqs.send_message(QueueUrl=urls["n-timers"], MessageBody=text)
        sqs.send_message(QueueUrl=urls["n-timers"], MessageBody="later", DelaySeconds=60)
        sqs.receive_message(QueueUrl=urls["n-timers"], MaxNumberOfMessages=1)
        sqs.send_message(QueueUrl=urls["n-timers-dlq"], MessageBody="lost")
        assert dead_letters(urls["n-events.fifo"]) == urls["n-events-dlq.fifo"]
        found = read_gauges(sqs, {"events": urls["n-events.fifo"], "timers": urls["n-timers"]})
        assert found == [QueueGauge("events", 0, 0, 0, 0), QueueGauge("timers", 2, 1, 1, 1)]
        sqs.send_message(QueueUrl=urls["n-commands-dlq"], MessageBody="of a or b")
        commands = {f"commands-{one}": urls[f"n-commands-{one}"] for one in "ab"}
        assert [(one.name, one.failed) for one in read_gauges(sqs, commands)] == [
            *(("commands-a", 0), ("commands-b", 0)),
            ("commands-dlq", 1),
        ], "the dead letters of all commands lie together"
        with pytest.raises(InfrastructureError):
            read_gauges(sqs, {"none": urls["n-timers"] + "-no"})
