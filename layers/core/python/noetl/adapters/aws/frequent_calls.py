"""The calls of AWS that each start and each step makes, without most of what botocore does for a call.

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
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from noetl.adapters.aws.clients import CONNECTIONS, FAILURES, make_client, process_credentials
from noetl.domain import codec

Answer = tuple[int, http.client.HTTPMessage, bytes]
Headers = dict[str, str]

TRACE = "_X_AMZN_TRACE_ID"
_UNSIGNED = frozenset({"user-agent", "x-amzn-trace-id"})
"""Headers that proxies on the way may change."""


def frequent_sqs() -> Any:
    """Return a client of SQS that sends and settles messages here, and does all else as ``make_client("sqs")``."""
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
        """Return the answer; where there is none, or an error, the client's way (``otherwise``) finds out."""
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
        status, told, body = self._posts.post(path, headers, parameters["Payload"])
        if status >= 300:
            raise self._error(status, told, body)
        found = {"StatusCode": status, "Payload": io.BytesIO(body)}
        failed = told.get("X-Amz-Function-Error")
        return found if failed is None else {**found, "FunctionError": failed}

    def _error(self, status: int, told: http.client.HTTPMessage, body: bytes) -> Exception:
        from botocore.awsrequest import HeadersDict
        from botocore.exceptions import ClientError
        from botocore.parsers import create_parser

        model = self._client.meta.service_model
        answer = {"status_code": status, "headers": HeadersDict(told.items()), "body": body}
        parsed = create_parser(model.resolved_protocol).parse(answer, None)
        error: Exception = ClientError(parsed, "Invoke")
        return error


class SignedPosts:
    """Signed POST requests to the endpoint of a client, over connections that are kept. Thread-safe.

    ``credentials``: as boto3's sessions have them; None where there are none.
    """

    def __init__(self, client: Any, credentials: Any) -> None:
        meta = client.meta
        self._endpoint: str = meta.endpoint_url
        url = urlsplit(self._endpoint)
        self._host, self._port = url.hostname or "", url.port
        self._base, self._netloc = url.path.rstrip("/"), url.netloc
        self._tls = _authorities() if url.scheme == "https" else None
        self._connect_seconds, self._read_seconds = meta.config.connect_timeout, meta.config.read_timeout
        self._agent: str = meta.config.user_agent
        self._scope = (meta.region_name, meta.service_model.signing_name)
        self._credentials = credentials
        self._idle: list[http.client.HTTPConnection] = []

    def post(self, path: str, headers: Headers, body: bytes) -> Answer:
        """Return status, headers and body of the answer.

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
        connection = self._taken()
        try:
            connection.request("POST", whole, body, sent)
            answer = connection.getresponse()
            found = answer.status, answer.headers, answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise HTTPClientError(error=error) from error
        except BaseException:
            connection.close()
            raise
        if answer.will_close or len(self._idle) >= CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)
        return found

    def _taken(self) -> http.client.HTTPConnection:
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

    def _opened(self) -> http.client.HTTPConnection:
        from botocore.exceptions import EndpointConnectionError

        made = (
            http.client.HTTPConnection(self._host, self._port, timeout=self._connect_seconds)
            if self._tls is None
            else http.client.HTTPSConnection(
                self._host, self._port, timeout=self._connect_seconds, context=self._tls
            )
        )
        try:
            made.connect()
        except OSError as error:
            made.close()
            raise EndpointConnectionError(endpoint_url=self._endpoint, error=error) from error
        made.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.sock.settimeout(self._read_seconds)
        return made


def sign(
    headers: Headers, path: str, body: bytes, credentials: Any, region: str, service: str, now: float
) -> None:
    """Sign a POST request by adding headers to ``headers``, in the way that AWS calls Signature Version 4.

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


def _is_quiet(connection: http.client.HTTPConnection) -> bool:
    """Return whether nothing has come over an idle connection: not its end either."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
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
