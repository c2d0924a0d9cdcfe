"""HTTP requests to an API behind IAM, signed as this process's role."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from noetl.adapters.aws.clients import FAILURES, unreachable
from noetl.domain.errors import InfrastructureError

CONNECT_SECONDS = 2.0
READ_SECONDS = 29.0
"""As long as the API may take."""
SERVICE = "execute-api"
CONNECTIONS = 20


class SignedRequests:
    """A client that signs requests: ``get(url, headers)`` → (status, body).

    Thread-safe; redirects are not followed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[Any, Any] | None = None

    def get(self, url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a signed GET request.

        Raises InfrastructureError when there is no answer, or no credentials to sign with.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        http, credentials = self._parts()
        if credentials is None:
            raise InfrastructureError(
                "there are no credentials to sign a request with", code="aws_not_configured", retryable=False
            )
        request = AWSRequest("GET", url, headers=dict(headers))
        try:
            region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
            SigV4Auth(credentials.get_frozen_credentials(), SERVICE, region).add_auth(request)
            answer = http.send(request.prepare())
            return int(answer.status_code), bytes(answer.content)
        except FAILURES as error:
            raise unreachable(error, SERVICE) from error

    def _parts(self) -> tuple[Any, Any]:
        with self._lock:
            if self._opened is None:
                from boto3.session import Session
                from botocore.httpsession import URLLib3Session

                http = URLLib3Session(
                    timeout=(CONNECT_SECONDS, READ_SECONDS), max_pool_connections=CONNECTIONS
                )
                self._opened = (http, Session().get_credentials())
            return self._opened
