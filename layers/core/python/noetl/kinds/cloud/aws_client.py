"""AWS clients of tasks: their identity (a credential or the worker's role), their errors."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import Field

from noetl.caching.lru_cache import LruCache
from noetl.domain import aws_codes, codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential, TaskContext
from noetl.kinds.support.base import KindParams

MOST_CLIENTS = 64
"""Clients kept: each has connections of its own."""
CONNECT_SECONDS = 3.0
ROLE_SECONDS = 3600
"""How long a role is assumed for (the most that a role allows unless it says otherwise)."""
RENEW_SECONDS = 300
_FIELDS = {
    "access_key_id": ("access_key_id", "aws_access_key_id"),
    "secret_access_key": ("secret_access_key", "aws_secret_access_key"),
    "session_token": ("session_token", "aws_session_token"),
    "region": ("region", "region_name", "aws_region"),
    "endpoint_url": ("endpoint_url", "endpoint"),
    "role_arn": ("role_arn",),
    "external_id": ("external_id",),
}
_CLASSES = {"refused": "auth", "throttled": "rate_limit", "missing": "not_found", "failed": "server_error"}

_clients: LruCache[str, tuple[Any, float]] = LruCache(MOST_CLIENTS)
"""Each client, and until when it is used (monotonic seconds)."""


class AwsParams(KindParams):
    """Parameters that all kinds share which call AWS."""

    auth: Annotated[
        str | None,
        Field(
            min_length=1,
            description="A credential of type aws. Without it: the role of the worker, or the environment of a local run.",
        ),
    ] = None
    region: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z]{2}(-[a-z]+)+-\d$", description="Default: of the credential, then of the worker."
        ),
    ] = None


def client(service: str, params: AwsParams, context: TaskContext) -> Any:
    """Return the client of ``service``, shared by tasks of one credential and region.

    Raises TaskError(kind="auth") for a credential that is none of AWS, a role that cannot be assumed, or no credential where one is required.
    """
    if not params.auth and context.settings.aws_auth_required:
        raise TaskError(
            "this task names no credential for AWS, and tasks may not use the identity of their worker here",
            kind="auth",
            code="aws_auth_required",
            hint="name a credential of type aws in `auth`; the operator decides this with NOETL_AWS_AUTH",
        )
    given = _client_options(context.credential(params.auth)) if params.auth else {}
    region = params.region or given.get("region")
    key = hashlib.sha256(codec.encode([service, region, sorted(given.items())])).hexdigest()
    kept = _clients.get(key)
    if kept is not None and time.monotonic() < kept[1]:
        return kept[0]
    made, seconds = _make(service, region, given, context)
    _clients.put(key, (made, time.monotonic() + seconds))
    return made


def forget_clients() -> None:
    """Drop the cached clients after the environment changed."""
    _clients.clear()


@contextmanager
def answering(service: str, what: str) -> Iterator[None]:
    """Convert errors of the client inside to TaskErrors.

    ``what``: what was asked for, in words for a message (``s3://bucket/key``).
    """
    from botocore import exceptions as wrong

    try:
        yield
    except wrong.ClientError as error:
        raise _refusal(error, service, what) from None
    except (wrong.NoCredentialsError, wrong.PartialCredentialsError, wrong.NoRegionError) as error:
        raise TaskError(
            f"{service}: {error}",
            kind="auth",
            code="aws_not_configured",
            hint="name a credential of type aws in `auth`, and a `region`",
        ) from None
    except (wrong.ConnectTimeoutError, wrong.ReadTimeoutError) as error:
        raise TaskError(f"{service}: {error}", kind="timeout", code="aws_timeout", retryable=True) from None
    except (wrong.ParamValidationError, ValueError) as error:
        raise TaskError(f"{service}: {what}: {error}", kind="schema", code="aws_parameters") from None
    except wrong.BotoCoreError as error:
        raise TaskError(
            f"{service}: {error}", kind="connection", code="aws_unreachable", retryable=True
        ) from None


def _refusal(error: Any, service: str, what: str) -> TaskError:
    problem: Mapping[str, Any] = error.response.get("Error", {})
    code = str(problem.get("Code") or "unknown")
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    family = aws_codes.family(code, status)
    hint = (
        f"does the credential, or the worker's role, allow {error.operation_name}?"
        if family == "refused"
        else None
    )
    return TaskError(
        f"{service} {error.operation_name} of {what}: {code}: {problem.get('Message', '')}",
        kind=_CLASSES.get(family, "client_error"),
        code=code,
        status=status or None,
        hint=hint,
        retryable=family in ("throttled", "failed"),
        details={"operation": str(error.operation_name)},
    )


def _client_options(credential: Credential) -> dict[str, str]:
    """Return the credential's settings by NoETL's names."""
    data = credential.data
    found = {
        name: str(data[field])
        for name, fields in _FIELDS.items()
        for field in fields
        if data.get(field) not in (None, "")
    }
    if ("access_key_id" in found) != ("secret_access_key" in found) or not found.keys() & {
        "access_key_id",
        "role_arn",
    }:
        raise TaskError(
            f"the credential {credential.name!r} cannot be used for AWS",
            kind="auth",
            code="credential_shape",
            hint="it needs access_key_id and secret_access_key, or role_arn",
        )
    return found


def _make(
    service: str, region: str | None, given: Mapping[str, str], context: TaskContext
) -> tuple[Any, float]:
    """Make a client; return it with the seconds that it may be used for."""
    try:
        from boto3.session import Session
    except ImportError:
        raise TaskError(
            "the AWS library is not installed here",
            kind="unknown",
            code="dependency_missing",
            hint="pip install 'noetl-serverless[aws]'",
        ) from None
    session = Session()
    keys = {
        name: given[name] for name in ("access_key_id", "secret_access_key", "session_token") if name in given
    }
    seconds = float("inf")
    if "role_arn" in given:
        keys, seconds = _assumed(session, region, given, keys, context)
    with answering(service, "its endpoint"):
        made = session.client(
            service,
            region_name=region,
            endpoint_url=given.get("endpoint_url"),
            aws_access_key_id=keys.get("access_key_id"),
            aws_secret_access_key=keys.get("secret_access_key"),
            aws_session_token=keys.get("session_token"),
            config=_config(service, given, context),
        )
    return made, seconds


def _assumed(
    session: Any, region: str | None, given: Mapping[str, str], keys: Mapping[str, str], context: TaskContext
) -> tuple[dict[str, str], float]:
    """Keys of the role, named after the execution so that the account's trail says who it was."""
    with answering("sts", given["role_arn"]):
        sts = session.client(
            "sts",
            region_name=region,
            aws_access_key_id=keys.get("access_key_id"),
            aws_secret_access_key=keys.get("secret_access_key"),
            aws_session_token=keys.get("session_token"),
            config=_config("sts", given, context),
        )
        external = {"ExternalId": given["external_id"]} if "external_id" in given else {}
        answer = sts.assume_role(
            RoleArn=given["role_arn"],
            RoleSessionName=f"noetl-{context.execution_id}",
            DurationSeconds=ROLE_SECONDS,
            **external,
        )["Credentials"]
    made = {
        "access_key_id": answer["AccessKeyId"],
        "secret_access_key": answer["SecretAccessKey"],
        "session_token": answer["SessionToken"],
    }
    return made, float(ROLE_SECONDS - RENEW_SECONDS)


def _config(service: str, given: Mapping[str, str], context: TaskContext) -> Any:
    import os

    from botocore.config import Config

    own = (
        given.get("endpoint_url")
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
    )
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=max(1.0, context.timeout),
        retries={"mode": "standard", "total_max_attempts": 2},
        tcp_keepalive=True,
        signature_version="s3v4" if service == "s3" else None,
        # Buckets of a store that is not Amazon's are paths.
        s3={"addressing_style": "path"} if own else None,
    )
