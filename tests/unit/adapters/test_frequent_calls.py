"""Requests that no client makes: they are what a client sends, signed as it signs them, and fail as its requests do."""

from __future__ import annotations

import json
import re
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError, NoCredentialsError
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from noetl.adapters.aws.clients import forget_clients, make_client, unreachable
from noetl.adapters.aws.frequent_calls import (
    FrequentLambda,
    FrequentSqs,
    SignedPosts,
    _authorities,
    frequent_lambda,
    frequent_sqs,
)

ENTRIES = [{"Id": "0", "MessageBody": 'text \U0001f600 "x"'}]
SENT = {"Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}], "Failed": []}


class Service:
    """Answers requests with what ``plan`` says: (status, headers, body), or None to hang up; then with ``otherwise``."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.plan: list[tuple[int, dict[str, str], bytes] | None] = []
        self.otherwise: tuple[int, dict[str, str], bytes] = (200, {}, json.dumps(SENT).encode())
        self.connections = 0
        self.hang_up_after = False
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                service.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.requests.append((self.path, dict(self.headers.items()), body))
                answer = service.plan.pop(0) if service.plan else service.otherwise
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, data = answer
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = service.hang_up_after

            def log_message(self, *about):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service(monkeypatch):
    made = Service()
    for name in ("AWS_PROFILE", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": made.url,
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    yield made
    made.server.shutdown()
    made.server.server_close()
    forget_clients()


SIGNED = re.compile(r"Credential=(?P<scope>\S+), SignedHeaders=(?P<names>\S+), Signature=\w{64}")
ABOUT = ("Content-Type", "X-Amz-Target", "X-Amz-Invocation-Type", "X-Amzn-Trace-Id", "Host", "User-Agent")


def same_request(service: Service) -> None:
    """The two last requests say the same."""
    (path, headers, body), (their_path, their_headers, their_body) = service.requests[-2:]
    assert path == their_path
    for name in set(ABOUT) - {"User-Agent"}:
        assert headers.get(name) == their_headers.get(name), name
    assert "Botocore" in headers["User-Agent"]
    ours, theirs = (SIGNED.search(one["Authorization"]) for one in (headers, their_headers))
    assert (
        ours
        and theirs
        and ours["scope"] == theirs["scope"]
        and set(ours["names"].split(";")) <= set(theirs["names"].split(";"))
    )
    assert body == their_body or json.loads(body) == json.loads(their_body)


@pytest.mark.parametrize(
    ("call", "entries"),
    [
        ("send_message_batch", ENTRIES),
        (
            "send_message_batch",
            [
                {
                    "Id": "1",
                    "MessageBody": "x",
                    "MessageGroupId": "g",
                    "MessageDeduplicationId": "d",
                    "DelaySeconds": 3,
                    "MessageAttributes": {"noetl-why": {"DataType": "String", "StringValue": "reason"}},
                }
            ],
        ),
        ("delete_message_batch", [{"Id": "0", "ReceiptHandle": "r"}]),
    ],
)
def test_sqs_is_asked_what_botocore_asks(service, monkeypatch, call, entries):
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-2;Lineage=1:abc:0")
    frequent = frequent_sqs()
    assert isinstance(frequent, FrequentSqs)
    for client in (frequent, make_client("sqs")):
        answer = getattr(client, call)(QueueUrl=f"{service.url}/0/q", Entries=entries)
        assert answer.get("Failed", []) == [] and answer["Successful"][0]["Id"] == "0"
    same_request(service)


@pytest.mark.parametrize("name", ["decide", "arn:aws:lambda:eu-central-1:000000000000:function:decide"])
def test_lambda_is_asked_what_botocore_asks(service, name):
    service.otherwise = (200, {"X-Amz-Executed-Version": "1"}, b'{"a":1}')
    frequent = frequent_lambda()
    assert isinstance(frequent, FrequentLambda)
    for client in (frequent, make_client("lambda", once=True)):
        answer = client.invoke(FunctionName=name, InvocationType="RequestResponse", Payload=b'{"v":1}')
        assert answer["StatusCode"] == 200 and answer["Payload"].read() == b'{"a":1}'
        assert "FunctionError" not in answer
    same_request(service)


def test_a_function_that_fails_says_so(service):
    service.otherwise = (200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorMessage":"no"}')
    answer = frequent_lambda().invoke(FunctionName="decide", InvocationType="RequestResponse", Payload=b"{}")
    assert answer["FunctionError"] == "Unhandled" and b"no" in answer["Payload"].read()


@pytest.mark.parametrize(
    ("status", "code", "read_as"),
    [
        (429, "TooManyRequestsException", "aws_throttled"),
        (403, "AccessDeniedException", "aws_refused"),
        (404, "ResourceNotFoundException", "aws_rejected"),
        (500, "ServiceException", "aws_failed"),
        (503, "", "aws_failed"),
    ],
)
def test_refused_invocations_are_read_as_botocore_reads_them(service, status, code, read_as):
    headers = {"x-amzn-ErrorType": f"{code}:http://x"} if code else {}
    body = b'{"Message":"words"}' if code else b"<html>no JSON</html>"
    service.otherwise = (status, headers, body)
    errors = []
    for client in (frequent_lambda(), make_client("lambda", once=True)):
        with pytest.raises(ClientError) as caught:
            client.invoke(FunctionName="decide", InvocationType="RequestResponse", Payload=b"{}")
        errors.append(caught.value)
    assert errors[0].response["Error"] == errors[1].response["Error"]
    assert errors[0].operation_name == errors[1].operation_name
    assert [unreachable(error, "lambda").code for error in errors] == [read_as] * 2
    assert len(service.requests) == 2, "none is repeated"


def test_an_invocation_without_an_answer_is_not_repeated(service):
    service.plan = [None]
    with pytest.raises(HTTPClientError) as caught:
        frequent_lambda().invoke(FunctionName="decide", InvocationType="RequestResponse", Payload=b"{}")
    assert unreachable(caught.value, "lambda").code == "aws_unreachable"
    assert len(service.requests) == 1


@pytest.mark.parametrize("first", [None, (500, {}, b"{}"), (200, {}, b"no JSON"), (200, {}, b"[]")])
def test_what_sqs_does_not_answer_is_asked_again_by_the_client(service, first):
    service.plan = [first]
    answer = frequent_sqs().send_message_batch(QueueUrl=f"{service.url}/0/q", Entries=ENTRIES)
    assert answer["Successful"][0]["Id"] == "0" and len(service.requests) == 2


def test_what_sqs_refuses_is_the_clients_error(service):
    headers = {"x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"}
    service.otherwise = (400, headers, b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no"}')
    with pytest.raises(ClientError) as caught:
        frequent_sqs().delete_message_batch(
            QueueUrl=f"{service.url}/0/q", Entries=[{"Id": "0", "ReceiptHandle": "r"}]
        )
    assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_connection_is_kept_until_the_service_ends_it(service):
    client = frequent_sqs()

    def ask():
        client.send_message_batch(QueueUrl=f"{service.url}/0/q", Entries=ENTRIES)

    ask()
    ask()
    assert service.connections == 1
    service.hang_up_after = True
    ask()
    service.hang_up_after = False
    ask()
    assert service.requests[-1][2] == service.requests[0][2] and service.connections >= 2


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Of 127.0.0.1 and of another host: files with the key and the certificate."""
    found = []
    for host in ("127.0.0.1", "127.0.0.2"):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file = tmp_path_factory.mktemp("tls") / f"{host}.pem"
        file.write_bytes(private + made.public_bytes(Encoding.PEM))
        found.append(file)
    return found


def over_tls(service, monkeypatch, served, trusted):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(served)
    service.server.socket = context.wrap_socket(service.server.socket, server_side=True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url.replace("http:", "https:"))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
    _authorities.cache_clear()
    forget_clients()


@pytest.fixture
def forgets_authorities():
    yield
    _authorities.cache_clear()


@pytest.mark.usefixtures("forgets_authorities")
def test_tls_to_a_trusted_host_is_kept(service, monkeypatch, certificates):
    over_tls(service, monkeypatch, certificates[0], certificates[0])
    client = frequent_lambda()
    for _ in range(3):
        answer = client.invoke(FunctionName="f", InvocationType="RequestResponse", Payload=b"x" * 100_000)
        assert json.loads(answer["Payload"].read()) == SENT
    assert len(service.requests) == 3 and service.connections == 1


@pytest.mark.usefixtures("forgets_authorities")
@pytest.mark.parametrize(("served", "trusted"), [(0, 1), (1, 1)], ids=["untrusted", "of another host"])
def test_tls_to_another_host_is_refused(service, monkeypatch, certificates, served, trusted):
    over_tls(service, monkeypatch, certificates[served], certificates[trusted])
    with pytest.raises(EndpointConnectionError) as caught:
        frequent_lambda().invoke(FunctionName="f", InvocationType="RequestResponse", Payload=b"{}")
    assert unreachable(caught.value, "lambda").code == "aws_unreachable"
    assert service.requests == []


def test_many_threads_share_it(service):
    client, found = frequent_sqs(), []

    def ask():
        for _ in range(20):
            found.append(client.send_message_batch(QueueUrl=f"{service.url}/0/q", Entries=ENTRIES))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160 == len(service.requests) and service.connections <= 8


def test_all_else_is_the_clients(service):
    service.otherwise = (200, {}, b'{"QueueUrls":["u"]}')
    assert frequent_sqs().list_queues()["QueueUrls"] == ["u"]
    assert frequent_lambda().meta.endpoint_url == service.url


def test_without_credentials_it_says_so(service):
    posts = SignedPosts(make_client("lambda", once=True), None)
    with pytest.raises(NoCredentialsError):
        posts.post("/", {}, b"")


def test_where_there_are_proxies_the_client_does_it(service, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    assert frequent_sqs() is make_client("sqs")
    assert frequent_lambda() is make_client("lambda", once=True)
