"""The AWS calls of each start and each step, made with less work for each call.

A call through a client takes 0.5 ms of processor time, most of it for what has the same result each time: the rules of endpoints, the
check of parameters against the service's model, hooks. These requests are signed by botocore and sent by Python's HTTP client, which takes
a third of the time of botocore's session; with the endpoint, credentials, timeouts and trusted authorities of the client.

What is not answered as it should be goes the way of the client: SQS is asked once more by it, with its repeats and its errors; an error of
Lambda is read by botocore's parser. So is everything in a process with proxies.
"""

from __future__ import annotations

import io
import os
import select
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from noetl.adapters.aws.clients import CONNECTIONS, FAILURES, make_client, process_credentials
from noetl.domain import codec

TRACE = "_X_AMZN_TRACE_ID"


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
            answer = self._posts.post("/", headers, codec.encode(parameters))
            found = codec.decode(answer.body) if answer.status == 200 else None
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
        answer = self._posts.post(path, headers, parameters["Payload"])
        if answer.status >= 300:
            raise self._error(answer)
        found = {"StatusCode": answer.status, "Payload": io.BytesIO(answer.body)}
        failed = answer.headers.get("x-amz-function-error")
        return found if failed is None else {**found, "FunctionError": failed}

    def _error(self, answer: Any) -> Exception:
        from botocore.awsrequest import HeadersDict
        from botocore.exceptions import ClientError
        from botocore.parsers import create_parser

        read = {"status_code": answer.status, "headers": HeadersDict(answer.headers), "body": answer.body}
        parsed = create_parser(self._client.meta.service_model.resolved_protocol).parse(read, None)
        error: Exception = ClientError(parsed, "Invoke")
        return error


class Answer(NamedTuple):
    """An answer; ``headers``: their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class SignedPosts:
    """Signed POST requests to the endpoint of a client. Thread-safe.

    Connections are kept. ``credentials``: as boto3's sessions have them; None where there are none.
    """

    def __init__(self, client: Any, credentials: Any) -> None:
        meta = client.meta
        self._endpoint: str = meta.endpoint_url.rstrip("/")
        self._agent: str = meta.config.user_agent
        self._scope = (meta.service_model.signing_name, meta.region_name)
        self._connect_seconds, self._read_seconds = meta.config.connect_timeout, meta.config.read_timeout
        self._credentials = credentials
        self._idle: list[HTTPConnection] = []

    def post(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the answer. Raises BotoCoreError: without credentials, and where no answer comes."""
        from botocore.exceptions import HTTPClientError

        prepared = self._signed(path, headers, body)
        line = self._taken()
        try:
            line.request("POST", urlsplit(prepared.url).path, body, dict(prepared.headers.items()))
            answer = line.getresponse()
            found = Answer(
                answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
            )
        except (OSError, HTTPException) as error:
            line.close()
            raise HTTPClientError(error=error) from error
        except BaseException:
            line.close()
            raise
        if len(self._idle) < CONNECTIONS:
            self._idle.append(line)
        else:
            line.close()
        return found

    def _signed(self, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import NoCredentialsError

        if self._credentials is None:
            raise NoCredentialsError()
        request = AWSRequest("POST", self._endpoint + path, {**headers, "User-Agent": self._agent}, body)
        if trace := os.environ.get(TRACE):
            # By it Lambda counts how often functions invoke one another.
            request.headers["X-Amzn-Trace-Id"] = quote(trace, safe="-=;:+&[]{}\"',")
        SigV4Auth(self._credentials.get_frozen_credentials(), *self._scope).add_auth(request)
        return request.prepare()

    def _taken(self) -> HTTPConnection:
        """Return a connection that the service has not ended."""
        while self._idle:
            try:
                kept = self._idle.pop()
            except IndexError:
                break  # another thread was first
            if kept.sock is not None and _is_quiet(kept.sock):
                return kept
            kept.close()
        return self._opened()

    def _opened(self) -> HTTPConnection:
        from botocore.exceptions import EndpointConnectionError

        url = urlsplit(self._endpoint)
        host, port = url.hostname or "", url.port
        if url.scheme == "https":
            made: HTTPConnection = HTTPSConnection(
                host, port, timeout=self._connect_seconds, context=_authorities()
            )
        else:
            made = HTTPConnection(host, port, timeout=self._connect_seconds)
        try:
            made.connect()
        except OSError as error:
            made.close()
            raise EndpointConnectionError(endpoint_url=self._endpoint, error=error) from error
        made.sock.settimeout(self._read_seconds)
        return made


def _is_quiet(line: Any) -> bool:
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
