"""Requests past botocore: they are those of botocore, and what is not ordinary is left to it."""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from noetl.adapters.aws import frequent_calls
from noetl.adapters.aws.clients import FAILURES, forget_clients, make_client
from noetl.adapters.aws.decide_function import DecideFunction
from noetl.adapters.aws.frequent_calls import LambdaCalls, SqsCalls, invoking_client, sqs_client
from noetl.adapters.aws.sqs import SqsQueue
from noetl.domain.errors import InfrastructureError
from noetl.domain.workers.direct_requests import VERSION, DecideRequest
from noetl.ports.queue import Delivery, Outgoing
from tests.certificates import make_certificate

QUEUE = "http://queue/1/commands"
FUNCTION = "arn:aws:lambda:eu-central-1:1:function:decide:live"
Reply = tuple[int, dict[str, str], bytes]
DONE: Reply = (200, {}, b'{"Successful": [{"Id": "0"}]}')


@dataclass
class Asked:
    place: str
    headers: dict[str, str]
    body: bytes

    @property
    def signed(self) -> set[str]:
        return set(self.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";"))

    def is_authentic(self, url: str) -> bool:
        """Sign the request again, with its own headers and moment, and compare."""
        fresh = AWSRequest("POST", url + self.place, data=self.body)
        for name in self.signed - {"host", "x-amz-date", "x-amz-security-token"}:
            fresh.headers[name] = self.headers[name]
        scope = self.headers["authorization"].partition("Credential=")[2].partition(",")[0].split("/")
        auth = SigV4Auth(Credentials("key", "secret", "token"), scope[3], scope[2])
        fresh.context["timestamp"] = self.headers["x-amz-date"]
        auth._modify_request_before_signing(fresh)
        text = auth.string_to_sign(fresh, auth.canonical_request(fresh))
        return self.headers["authorization"].endswith(f"Signature={auth.signature(text, fresh)}")


@dataclass
class Service:
    """Answers with ``replies`` in turn, then with the last again. ``drops``: how many requests get no answer first."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=lambda: [DONE])
    drops: int = 0
    server: Any = None


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    found = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append(Asked(self.path, headers, body))
            if found.drops:
                found.drops -= 1
                self.close_connection = True
                return
            status, extra, data = found.replies.pop(0) if len(found.replies) > 1 else found.replies[0]
            self.send_response(status)
            for name, value in {**extra, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    found.server = server
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    for name in (
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in (
        ("AWS_ENDPOINT_URL", found.url),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_CONFIG_FILE", "/dev/null"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "token"),
        ("AWS_LAMBDA_FUNCTION_NAME", "worker"),
        ("_X_AMZN_TRACE_ID", "Root=1-2-3;Lineage=a:1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("noetl.adapters.aws.clients.ATTEMPTS", 1)
    forget_clients()
    yield found
    forget_clients()
    server.shutdown()
    server.server_close()


CALLS = {
    "send_message_batch": {
        "QueueUrl": QUEUE,
        "Entries": [
            {"Id": "0", "MessageBody": "häß\n\U0001f600", "DelaySeconds": 3},
            {
                "Id": "1",
                "MessageBody": "{}",
                "MessageGroupId": "g",
                "MessageDeduplicationId": "d",
                "MessageAttributes": {"why": {"DataType": "String", "StringValue": "x"}},
            },
        ],
    },
    "delete_message_batch": {"QueueUrl": QUEUE, "Entries": [{"Id": "0", "ReceiptHandle": "r/+="}]},
    "change_message_visibility_batch": {
        "QueueUrl": QUEUE,
        "Entries": [{"Id": "0", "ReceiptHandle": "r", "VisibilityTimeout": 0}],
    },
}


def assert_alike(ours: Asked, theirs: Asked, url: str) -> None:
    assert ours.place == theirs.place and ours.is_authentic(url)
    # The moment is in them, and only botocore counts its attempts.
    changing = {"x-amz-date", "authorization", "user-agent", "content-length"}
    own = {"amz-sdk-invocation-id", "amz-sdk-request", "x-amzn-query-mode", "x-amz-api-version"}
    ignored = changing | own | {"accept-encoding"}
    assert {k: v for k, v in ours.headers.items() if k not in ignored} == {
        k: v for k, v in theirs.headers.items() if k not in ignored
    }
    assert {"host", "x-amz-date", "x-amz-security-token"} <= ours.signed
    ours_of, theirs_of = (
        one.headers["authorization"].partition("Credential=")[2].partition(",")[0] for one in (ours, theirs)
    )
    assert ours_of.split("/")[2:] == theirs_of.split("/")[2:], "region and service"


@pytest.mark.parametrize("operation", CALLS)
def test_a_batch_is_the_request_of_botocore(service: Service, operation: str) -> None:
    client = sqs_client()
    assert isinstance(client, SqsCalls)
    ours = getattr(client, operation)(**CALLS[operation])
    theirs = getattr(make_client("sqs"), operation)(**CALLS[operation])
    assert ours["Successful"] == theirs["Successful"] == [{"Id": "0"}]
    first, second = service.asked
    assert json.loads(first.body) == json.loads(second.body) == CALLS[operation]
    assert_alike(first, second, service.url)


@pytest.mark.parametrize("function", ["noetl-decide", FUNCTION])
def test_an_invocation_is_the_request_of_botocore(service: Service, function: str) -> None:
    service.replies = [(200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorMessage": "x"}')]
    client = invoking_client()
    assert isinstance(client, LambdaCalls)
    wish = {"FunctionName": function, "InvocationType": "RequestResponse", "Payload": b'{"a": "\xc3\xa4"}'}
    found = [one.invoke(**wish) for one in (client, make_client("lambda", once=True))]
    assert [(one["FunctionError"], one["Payload"].read()) for one in found] == [
        ("Unhandled", b'{"errorMessage": "x"}')
    ] * 2
    first, second = service.asked
    assert first.body == second.body == wish["Payload"]
    assert_alike(first, second, service.url)
    service.replies = [(200, {}, b"{}")]
    assert "FunctionError" not in client.invoke(**wish)


def test_a_connection_is_used_again(service: Service) -> None:
    client = sqs_client()
    for _ in range(3):
        client.send_message_batch(**CALLS["send_message_batch"])
    assert client._sender._pool.num_connections == 1 and len(service.asked) == 3


def test_entries_that_failed_are_told_as_by_botocore(service: Service) -> None:
    refused = b'{"Successful": [], "Failed": [{"Id": "0", "SenderFault": true, "Code": "x"}]}'
    service.replies = [(200, {}, refused)]
    queue = SqsQueue(QUEUE, sqs_client(), fifo=False)
    assert queue.send([Outgoing("{}", "g", "d")]) == [0] and len(service.asked) == 1


ANSWERS = {
    "refused": (403, {"x-amzn-errortype": "AccessDenied"}, b'{"__type": "AccessDenied", "message": "no"}'),
    "throttled": (
        400,
        {},
        b'{"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down"}',
    ),
    "failed": (503, {}, b"<html>"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_batch_without_success_is_sent_by_botocore_whose_error_is_raised(
    service: Service, answer: str
) -> None:
    service.replies = [ANSWERS[answer]]
    with pytest.raises(FAILURES) as caught:
        sqs_client().delete_message_batch(**CALLS["delete_message_batch"])
    assert isinstance(caught.value, ClientError) and len(service.asked) == 2


@pytest.mark.parametrize("reply", [(200, {}, b"[1]"), (200, {}, b"{}"), (200, {}, b"no json")])
def test_an_answer_that_is_none_is_asked_for_again(service: Service, reply: Reply) -> None:
    service.replies = [reply, DONE]
    found = sqs_client().delete_message_batch(**CALLS["delete_message_batch"])
    assert found["Successful"] == [{"Id": "0"}] and len(service.asked) == 2


def test_a_batch_without_an_answer_is_sent_by_botocore(service: Service) -> None:
    service.drops = 1
    SqsQueue(QUEUE, sqs_client(), fifo=False).ack([Delivery("m", "r", "", 1)])
    assert len(service.asked) == 2


def decide() -> Any:
    return DecideFunction("decide", invoking_client()).decide(DecideRequest(VERSION))


@pytest.mark.parametrize(
    ("reply", "code", "requests"),
    [
        ((429, {"x-amzn-errortype": "TooManyRequestsException"}, b'{"message": "x"}'), "aws_throttled", 2),
        ((403, {"x-amzn-errortype": "AccessDeniedException"}, b'{"Message": "x"}'), "aws_refused", 2),
        ((500, {"x-amzn-errortype": "ServiceException"}, b'{"Message": "x"}'), "aws_failed", 1),
        ((502, {}, b"\xff"), "aws_failed", 1),
    ],
)
def test_an_invocation_that_may_have_run_is_not_repeated(
    service: Service, reply: Reply, code: str, requests: int
) -> None:
    """A refused one did not run. botocore asks for it again, for its reading of the error."""
    service.replies = [reply]
    with pytest.raises(InfrastructureError) as caught:
        decide()
    assert (caught.value.code, len(service.asked)) == (code, requests)


def test_an_invocation_without_an_answer_is_not_repeated(service: Service) -> None:
    service.drops = 2
    with pytest.raises(InfrastructureError) as caught:
        decide()
    assert (caught.value.code, len(service.asked), service.drops) == ("aws_unreachable", 1, 1)


def test_every_other_operation_is_that_of_botocore(service: Service) -> None:
    service.replies = [(200, {}, b'{"QueueUrl": "u"}')]
    assert sqs_client().get_queue_url(QueueName="q")["QueueUrl"] == "u"
    assert sqs_client().meta.region_name == "eu-central-1"


@pytest.mark.parametrize(
    "changes",
    [
        {"HTTPS_PROXY": "http://proxy:1"},
        {"AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_CA_BUNDLE": "/dev/null"},
    ],
    ids=["proxy", "certificates"],
)
def test_what_is_not_ordinary_is_left_to_botocore(
    service: Service, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    assert sqs_client() is make_client("sqs")
    assert invoking_client() is make_client("lambda", once=True)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
@pytest.mark.parametrize("case", ["trusted", "of another host", "of an unknown authority"])
def test_over_tls_only_the_service_itself_is_asked(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    key, cert = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    service.server.socket = context.wrap_socket(service.server.socket, server_side=True)
    host = "127.0.0.1" if case == "of another host" else "localhost"
    for name in frequent_calls._OWN_CERTIFICATES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://{host}:{service.server.server_address[1]}")
    if case != "of an unknown authority":
        monkeypatch.setattr("botocore.httpsession.get_cert_path", lambda verify: str(cert))
    forget_clients()
    service.replies = [(200, {}, b'{"version": 1}')]
    client = invoking_client()
    assert isinstance(client, LambdaCalls)
    wish = {"FunctionName": "decide", "InvocationType": "RequestResponse", "Payload": b"{}"}
    if case == "trusted":
        assert client.invoke(**wish)["Payload"].read() == b'{"version": 1}'
    else:
        with pytest.raises(InfrastructureError, match=r"certificate verify failed|doesn't match"):
            client.invoke(**wish)
        assert service.asked == []
