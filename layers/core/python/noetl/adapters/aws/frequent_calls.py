"""The requests of every step, to SQS and Lambda, without the machinery of botocore.

botocore signs them and has the credentials, but does not build, send or read them: this takes a third of its processor time. All that is
not ordinary is left to botocore: every other operation, requests that were refused, proxies, and certificates of one's own.
"""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies

from noetl.adapters.aws.clients import (
    CONNECT_SECONDS,
    CONNECTIONS,
    READ_SECONDS,
    make_client,
    make_credentials,
)
from noetl.domain.errors import InfrastructureError

SQS_READ_SECONDS = 10.0
"""After so long without an answer botocore sends again: nothing here polls."""
_OWN_CERTIFICATES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]


class SqsCalls:
    """A client of SQS whose batches are sent directly.

    Every other operation is that of ``client``. It sends a batch again that was not answered with success, and so its error is raised.
    """

    def __init__(self, client: Any, sender: SignedSender) -> None:
        self._client, self._sender = client, sender

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        return self._answer("SendMessageBatch", request) or self._taken(
            self._client.send_message_batch, request
        )

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        return self._answer("DeleteMessageBatch", request) or self._taken(
            self._client.delete_message_batch, request
        )

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        return self._answer("ChangeMessageVisibilityBatch", request) or self._taken(
            self._client.change_message_visibility_batch, request
        )

    def _answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any] | None:
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{operation}"}
        try:
            status, _, data = self._sender.post("/", headers, json.dumps(request).encode())
            answer = json.loads(data) if status == 200 else None
        except (InfrastructureError, ValueError):
            return None
        return answer if isinstance(answer, dict) and answer else None

    @staticmethod
    def _taken(call: Any, request: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = call(**request)
        return answer


class LambdaCalls:
    """A client of Lambda that invokes directly.

    ``client``: one that asks once; it repeats only what Lambda refused to run.
    """

    def __init__(self, client: Any, sender: SignedSender) -> None:
        self._client, self._sender = client, sender

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        """Invoke a function as botocore does.

        Raises InfrastructureError without an answer, or with one that leaves open whether the function ran.
        """
        place = f"/2015-03-31/functions/{quote(FunctionName, safe='-._~')}/invocations"
        status, headers, data = self._sender.post(place, {"X-Amz-Invocation-Type": InvocationType}, Payload)
        if 400 <= status < 500:
            answer: dict[str, Any] = self._client.invoke(
                FunctionName=FunctionName, InvocationType=InvocationType, Payload=Payload
            )
            return answer
        if status >= 300:
            shown = data[:300].decode("utf-8", "replace")
            raise InfrastructureError(f"lambda Invoke: {status}: {shown}", code="aws_failed")
        answer = {"StatusCode": status, "Payload": io.BytesIO(data)}
        if failed := headers.get("x-amz-function-error"):
            answer["FunctionError"] = failed
        return answer


class SignedSender:
    """Signed POST requests to the endpoint of a service; thread-safe."""

    def __init__(self, client: Any, credentials: Any, read_seconds: float) -> None:
        import urllib3
        from botocore.httpsession import create_urllib3_context, get_cert_path

        self._credentials = credentials
        self._service = str(client.meta.service_model.signing_name)
        self._region = str(client.meta.region_name)
        endpoint = urlsplit(client.meta.endpoint_url)
        self._url = f"{endpoint.scheme}://{endpoint.netloc}"
        self._prefix = endpoint.path.rstrip("/")
        options: dict[str, Any] = {
            "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
            "maxsize": CONNECTIONS,
            "socket_options": _SOCKET_OPTIONS,
        }
        host = str(endpoint.hostname)
        self._pool: Any
        if endpoint.scheme == "https":
            self._pool = urllib3.HTTPSConnectionPool(
                host,
                endpoint.port or 443,
                ssl_context=create_urllib3_context(),
                cert_reqs="CERT_REQUIRED",
                ca_certs=get_cert_path(True),
                **options,
            )
        else:
            self._pool = urllib3.HTTPConnectionPool(host, endpoint.port or 80, **options)

    def post(
        self, place: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body of the answer.

        Raises InfrastructureError when there is none.
        """
        import urllib3.exceptions
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.handlers import add_recursion_detection_header

        request = AWSRequest(
            "POST",
            f"{self._url}{self._prefix}{place}",
            headers={**headers, "User-Agent": "noetl"},
            data=body,
        )
        # Lambda counts the depth of a chain of calls by it.
        add_recursion_detection_header({"headers": request.headers})
        try:
            SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(
                request
            )
            answer = self._pool.urlopen(
                "POST", self._prefix + place, body=body, headers=dict(request.headers), retries=False
            )
        except (urllib3.exceptions.HTTPError, BotoCoreError, OSError) as error:
            raise InfrastructureError(
                f"{self._service}: {error}", code="aws_unreachable", details={"service": self._service}
            ) from error
        return int(answer.status), answer.headers, bytes(answer.data)


def sqs_client() -> Any:
    """Return a client of SQS for the requests of every step."""
    client, credentials = make_client("sqs"), make_credentials()
    if not is_ordinary(client, credentials):
        return client
    return SqsCalls(client, SignedSender(client, credentials, SQS_READ_SECONDS))


def invoking_client() -> Any:
    """Return a client of Lambda that asks once."""
    client, credentials = make_client("lambda", once=True), make_credentials()
    if not is_ordinary(client, credentials):
        return client
    return LambdaCalls(client, SignedSender(client, credentials, READ_SECONDS["lambda once"]))


def is_ordinary(client: Any, credentials: Any) -> bool:
    """Return whether requests need a signature and no more.

    What needs more: a proxy, and certificates of one's own.
    """
    secure = str(client.meta.endpoint_url).startswith("https:")
    own = secure and any(os.environ.get(name) for name in _OWN_CERTIFICATES)
    return credentials is not None and bool(client.meta.region_name) and not own and not getproxies()
