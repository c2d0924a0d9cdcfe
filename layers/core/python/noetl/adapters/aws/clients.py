"""Clients of AWS services: one session per process, one client per service.

All of them map errors in the same way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import botocore.exceptions as wrong
from botocore.config import Config

from noetl.domain import aws_codes
from noetl.domain.errors import InfrastructureError

CONNECT_SECONDS = 2
READ_SECONDS = {"sqs": 25, "s3": 20, "lambda once": 25}
"""A receive that polls for 20 seconds must not look like a dead connection."""
OTHER_READ_SECONDS = 10
ATTEMPTS = 3
CONNECTIONS = 50

FAILURES = (wrong.ClientError, wrong.BotoCoreError)
"""All that a call can raise, the reading of a body included."""
_ACTIONS = {
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:DeleteObjects": "s3:DeleteObject",
    "s3:HeadObject": "s3:GetObject",
    "scheduler:CreateSchedule": "scheduler:CreateSchedule and iam:PassRole",
    "scheduler:UpdateSchedule": "scheduler:UpdateSchedule and iam:PassRole",
    "ecs:RunTask": "ecs:RunTask and iam:PassRole",
}
"""Operations that IAM knows by another name."""

_lock = threading.Lock()
_clients: dict[str, Any] = {}
_session: Any = None


def make_client(service: str, *, once: bool = False) -> Any:
    """Return the process's client of this service; thread-safe, made once.

    Endpoint, region and credentials are those of the environment. ``once``: a client of its own that repeats no request.
    """
    name = f"{service} once" if once else service
    with _lock:
        found = _clients.get(name)
        if found is None:
            with answering(service):
                found = _shared_session().client(
                    service,
                    region_name=os.environ.get("AWS_REGION") or None,
                    config=_config(name, 1 if once else ATTEMPTS),
                )
            _clients[name] = found
        return found


def process_credentials() -> Any:
    """Return the credentials of the process's clients; None where there are none.

    They renew themselves.
    """
    with _lock:
        return _shared_session().get_credentials()


def _shared_session() -> Any:
    """Return the session of the process, under the lock."""
    global _session
    if _session is None:
        from boto3.session import Session

        _session = Session()
    return _session


def make_store_client(endpoint: str, access_key: str = "", secret_key: str = "", region: str = "") -> Any:
    """Make a client of an S3-compatible store at its own address.

    Without keys, the client uses the credentials of the environment.
    """
    from boto3.session import Session

    with answering("s3"):
        return Session().client(
            "s3",
            endpoint_url=endpoint,
            region_name=region or os.environ.get("AWS_REGION") or "us-east-1",
            aws_access_key_id=access_key or None,
            aws_secret_access_key=secret_key or None,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS["s3"],
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                max_pool_connections=CONNECTIONS,
                signature_version="s3v4",
                s3={"addressing_style": "path"},
            ),
        )


def forget_clients() -> None:
    """Forget all clients, after a fork or a change of the environment; use makes new ones."""
    global _session
    with _lock:
        _clients.clear()
        _session = None


def _config(service: str, attempts: int) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS.get(service, OTHER_READ_SECONDS),
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        tcp_keepalive=True,
        # Without it, botocore signs the URLs of downloads in the old way, which encrypted buckets refuse.
        signature_version="s3v4" if service == "s3" else None,
        # Buckets of an emulator are paths: nobody resolves <bucket>.localhost.
        s3={"addressing_style": "path"} if _own_endpoint() else None,
    )


def _own_endpoint() -> bool:
    return bool(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


@contextmanager
def answering(service: str) -> Iterator[None]:
    """Turn errors of the client inside the block into InfrastructureError."""
    try:
        yield
    except FAILURES as error:
        raise unreachable(error, service) from error


def error_code(error: Exception) -> str:
    """Return the error code of a service, such as ``NoSuchKey`` or ``AccessDenied``.

    Empty for an error that is not the answer of a service. The old prefix of SQS codes is left out.
    """
    if not isinstance(error, wrong.ClientError):
        return ""
    code = str(error.response.get("Error", {}).get("Code", ""))
    return code.removeprefix("AWS.SimpleQueueService.")


def error_message(error: Exception) -> str:
    """Return the error message of a service; empty for an error that is not its answer."""
    if not isinstance(error, wrong.ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Message", ""))


def is_refusal(error: Exception) -> bool:
    """Return whether the caller's permissions or credentials caused the error."""
    return aws_codes.family(error_code(error)) == "refused"


def unreachable(error: Exception, service: str) -> InfrastructureError:
    """Map an error of a client to an InfrastructureError with a code.

    Codes: ``aws_not_configured`` (no region or credentials), ``aws_refused`` (permissions; names the action), both not retryable;
    ``aws_throttled``, ``aws_unreachable``, ``aws_failed`` (5xx), retryable; ``aws_rejected`` (any other 4xx), not retryable.
    """
    if isinstance(error, wrong.ClientError):
        return _answered(error, service)
    if isinstance(error, (wrong.NoCredentialsError, wrong.PartialCredentialsError, wrong.NoRegionError)):
        return InfrastructureError(
            f"{service}: {error}",
            code="aws_not_configured",
            hint="set AWS_REGION and credentials (a role, a profile, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)",
            retryable=False,
        )
    if isinstance(error, wrong.ParamValidationError):
        return InfrastructureError(f"{service}: {error}", code="aws_rejected", retryable=False)
    return InfrastructureError(f"{service}: {error}", code="aws_unreachable", details={"service": service})


def _answered(error: Any, service: str) -> InfrastructureError:
    code = error_code(error)
    operation = str(error.operation_name)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    text = f"{service} {operation}: {code}: {error_message(error)}"
    details = {"service": service, "operation": operation, "aws_code": code}
    if is_refusal(error):
        action = _ACTIONS.get(f"{service}:{operation}", f"{service}:{operation}")
        return InfrastructureError(
            text,
            code="aws_refused",
            hint=f"check the credentials, and that their role allows {action} on this resource",
            retryable=False,
            details=details,
        )
    family = aws_codes.family(code, status)
    if family == "throttled":
        return InfrastructureError(text, code="aws_throttled", details=details)
    if family == "failed":
        return InfrastructureError(text, code="aws_failed", details=details)
    return InfrastructureError(text, code="aws_rejected", retryable=False, details=details)
