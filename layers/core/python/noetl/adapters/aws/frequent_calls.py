"""The AWS calls of each start and each step, made without botocore's work for each call.

A call through botocore takes 0.5 ms of processor time. Nine tenths of it give the same result each time: the rules of endpoints, the check
of parameters against the service's model, hooks, three objects for one answer. So these requests are made here: signed as botocore signs
them, with the client's endpoint, credentials, timeouts and trusted authorities.

What is not answered as it should be goes the way of the client: SQS is asked once more by it, with its repeats and its errors; an error of
Lambda is read by botocore's parser. So is everything in a process with proxies.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import io
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

from noetl.adapters.aws.clients import CONNECTIONS, FAILURES, make_client, process_credentials
from noetl.domain import codec

Answer = tuple[int, Mapping[str, str], bytes]
Headers = dict[str, str]

TRACE = "_X_AMZN_TRACE_ID"
MOST_BYTES, MOST_HEADERS = 65536, 100
"""Of a line and of an answer, as Python's own client takes them."""
_UNSIGNED = frozenset({"user-agent", "x-amzn-trace-id"})
"""Headers that proxies on the way may change."""


def frequent_sqs() -> Any:
    """Return a client of SQS that sends and removes messages here.

    It does all else as ``make_client("sqs")``.
    """
    client = make_client("sqs")
    return client if _has_proxies(client) else FrequentSqs(client, SignedPosts(client, process_credentials()))


def frequent_lambda() -> Any:
    """Return a client of Lambda that repeats no request, and invokes functions here."""
    client = make_client("lambda", once=True)
    return (
        client if _has_proxies(client) else FrequentLambda(client, SignedPosts(client, process_credentials()))
    )


class FrequentSqs:
    """A client of SQS; ``posts`` sends the frequent requests."""

    def __init__(self, client: Any, posts: SignedPosts) -> None:
        self._client, self._posts = client, posts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_message_batch(self, **parameters: Any) -> Any:
        return self._call("SendMessageBatch", self._client.send_message_batch, parameters)

    def delete_message_batch(self, **parameters: Any) -> Any:
        return self._call("DeleteMessageBatch", self._client.delete_message_batch, parameters)

    def _call(self, operation: str, otherwise: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        """Return the answer.

        Where there is none, or an error, ``otherwise`` (the client) asks again.
        """
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"AmazonSQS.{operation}",
        }
        try:
            status, _, body = self._posts.post("/", headers, codec.encode(parameters))
            found = codec.decode(body) if status == 200 else None
        except (*FAILURES, ValueError):
            found = None
        return found if isinstance(found, dict) else otherwise(**parameters)


class FrequentLambda:
    """A client of Lambda; ``posts`` sends invocations that wait for their answer."""

    def __init__(self, client: Any, posts: SignedPosts) -> None:
        self._client, self._posts = client, posts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def invoke(self, **parameters: Any) -> dict[str, Any]:
        """Invoke a function (FunctionName, InvocationType, Payload). Raises as the client does."""
        path = f"/2015-03-31/functions/{quote(parameters['FunctionName'], safe='-._~')}/invocations"
        headers = {"X-Amz-Invocation-Type": parameters["InvocationType"]}
        status, about, body = self._posts.post(path, headers, parameters["Payload"])
        if status >= 300:
            raise self._error(status, about, body)
        found = {"StatusCode": status, "Payload": io.BytesIO(body)}
        failed = about.get("x-amz-function-error")
        return found if failed is None else {**found, "FunctionError": failed}

    def _error(self, status: int, about: Mapping[str, str], body: bytes) -> Exception:
        from botocore.awsrequest import HeadersDict
        from botocore.exceptions import ClientError
        from botocore.parsers import create_parser

        model = self._client.meta.service_model
        answer = {"status_code": status, "headers": HeadersDict(about), "body": body}
        parsed = create_parser(model.resolved_protocol).parse(answer, None)
        error: Exception = ClientError(parsed, "Invoke")
        return error


class SignedPosts:
    """Signed POST requests to the endpoint of a client. Thread-safe.

    Connections are kept. ``credentials``: as boto3's sessions have them; None where there are none.
    """

    def __init__(self, client: Any, credentials: Any) -> None:
        meta = client.meta
        self._endpoint: str = meta.endpoint_url
        url = urlsplit(self._endpoint)
        self._place = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        self._base, self._netloc = url.path.rstrip("/"), url.netloc
        self._tls = _authorities() if url.scheme == "https" else None
        self._connect_seconds, self._read_seconds = meta.config.connect_timeout, meta.config.read_timeout
        self._agent: str = meta.config.user_agent
        self._scope = (meta.region_name, meta.service_model.signing_name)
        self._credentials = credentials
        self._idle: list[socket.socket] = []

    def post(self, path: str, headers: Headers, body: bytes) -> Answer:
        """Return status, headers (their names in lower case) and body of the answer.

        Raises BotoCoreError: without credentials, and where no answer comes.
        """
        from botocore.exceptions import HTTPClientError, NoCredentialsError

        if self._credentials is None:
            raise NoCredentialsError()
        sent = {**headers, "Host": self._netloc, "User-Agent": self._agent}
        if trace := os.environ.get(TRACE):
            # By it Lambda counts how often functions invoke one another.
            sent["X-Amzn-Trace-Id"] = quote(trace, safe="-=;:+&[]{}\"',")
        whole = self._base + path
        sign(sent, whole, body, self._credentials.get_frozen_credentials(), *self._scope, time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        head = f"POST {whole} HTTP/1.1\r\nAccept-Encoding: identity\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        line = self._taken()
        try:
            line.sendall(head.encode("latin-1") + body)
            with line.makefile("rb") as file:
                status, about, data, ends = _read_answer(file)
        except (OSError, http.client.HTTPException) as error:
            line.close()
            raise HTTPClientError(error=error) from error
        except BaseException:
            line.close()
            raise
        if ends or len(self._idle) >= CONNECTIONS:
            line.close()
        else:
            self._idle.append(line)
        return status, about, data

    def _taken(self) -> socket.socket:
        """Return a connection that the service has not ended."""
        while self._idle:
            try:
                kept = self._idle.pop()
            except IndexError:
                break  # another thread was first
            if _is_quiet(kept):
                return kept
            kept.close()
        return self._opened()

    def _opened(self) -> socket.socket:
        from botocore.exceptions import EndpointConnectionError

        try:
            made = socket.create_connection(self._place, self._connect_seconds)
            try:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self._tls is not None:
                    made = self._tls.wrap_socket(made, server_hostname=self._place[0])
                made.settimeout(self._read_seconds)
            except BaseException:
                made.close()
                raise
        except OSError as error:
            raise EndpointConnectionError(endpoint_url=self._endpoint, error=error) from error
        return made


def _read_answer(file: BinaryIO) -> tuple[int, dict[str, str], bytes, bool]:
    """Return status, headers and body of an answer, and whether the connection ends with it.

    The parser of ``http.client`` is one for mail, and would take a third of the request's time. Raises HTTPException.
    """
    version, status = _words(file.readline(MOST_BYTES))
    about: dict[str, str] = {}
    while line := _whole(file.readline(MOST_BYTES)).strip():
        name, _, value = line.decode("latin-1").partition(":")
        about[name.strip().lower()] = value.strip()
        if len(about) > MOST_HEADERS:
            raise http.client.HTTPException(f"it has more than {MOST_HEADERS} headers")
    ends = about.get("connection", "").lower() == "close" or version != b"HTTP/1.1"
    if about.get("transfer-encoding", "").lower() == "chunked":
        return status, about, b"".join(_chunks(file)), ends
    size = about.get("content-length", "0" if status in (204, 304) else "")
    if not size.isdecimal():
        return status, about, file.read(), True
    return status, about, _exactly(file, int(size)), ends


def _words(line: bytes) -> tuple[bytes, int]:
    """Return version and status of an answer's first line."""
    words = _whole(line).split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise http.client.BadStatusLine(line.decode("latin-1"))
    return words[0], int(words[1])


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while size := _size(_whole(file.readline(MOST_BYTES))):
        yield _exactly(file, size)
        _whole(file.readline(MOST_BYTES))
    while _whole(file.readline(MOST_BYTES)).strip():
        pass  # trailers


def _size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError as error:
        raise http.client.HTTPException("a chunk has no size") from error


def _whole(line: bytes) -> bytes:
    if not line.endswith(b"\n"):
        raise http.client.IncompleteRead(line)
    return line


def _exactly(file: BinaryIO, size: int) -> bytes:
    found = file.read(size)
    if len(found) < size:
        raise http.client.IncompleteRead(found, size - len(found))
    return found


def sign(
    headers: Headers, path: str, body: bytes, credentials: Any, region: str, service: str, now: float
) -> None:
    """Sign a POST request by adding headers to ``headers`` (Signature Version 4).

    ``path``: without a query. ``now``: epoch seconds.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    headers["X-Amz-Date"] = moment
    if credentials.token:
        headers["X-Amz-Security-Token"] = credentials.token
    signed = sorted((name.lower(), value) for name, value in headers.items() if name.lower() not in _UNSIGNED)
    names = ";".join(name for name, _ in signed)
    lines = "".join(f"{name}:{value.strip()}\n" for name, value in signed)
    request = f"POST\n{quote(path, safe='/~')}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = _key(credentials.secret_key, moment[:8], region, service)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )


@lru_cache(4)
def _key(secret: str, day: str, region: str, service: str) -> bytes:
    """Return the key of a day's signatures."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _is_quiet(line: socket.socket) -> bool:
    """Return whether nothing has come over an idle connection: not its end either."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return not poll.poll(0)


@lru_cache(1)
def _authorities() -> ssl.SSLContext:
    """Load the authorities that botocore trusts, once for a process."""
    from botocore.httpsession import get_cert_path

    given = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    return ssl.create_default_context(cafile=given or get_cert_path(True))


def _has_proxies(client: Any) -> bool:
    from botocore.utils import get_environ_proxies

    return bool(client.meta.config.proxies or get_environ_proxies(client.meta.endpoint_url))
