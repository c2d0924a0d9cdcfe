"""A client of the deployed stack: reads logs of functions, and invokes them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.local.emulator import REGION

FOLLOW_SECONDS = 0.5
LONGEST_INVOCATION = 920


def client(
    service: str,
    endpoint: str | None,
    *,
    timeout: float = LONGEST_INVOCATION,
    profile: str = "",
    region: str = "",
) -> Any:
    """Return a client of ``service``.

    It is of the emulator at ``endpoint``, or of AWS with the caller's own credentials.

    Raises InfrastructureError when boto3 is not installed or has no credentials or region.
    """
    try:
        from boto3.session import Session
        from botocore.config import Config
    except ModuleNotFoundError:
        raise InfrastructureError(
            "the package boto3 is missing",
            code="boto3_missing",
            hint="pip install 'noetl-serverless[aws]'",
            retryable=False,
        ) from None
    config = Config(connect_timeout=min(timeout, 60), read_timeout=timeout, retries={"total_max_attempts": 1})
    if endpoint is None:
        session = Session(profile_name=profile or None)
        return session.client(service, region_name=region or None, config=config)
    return Session().client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=config,
    )


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that calls of AWS raise: refusals, no connection, bad settings."""
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


def functions(lambdas: Any) -> dict[str, str]:
    """Every deployed function with the log group it writes to, by name."""
    return {
        function["FunctionName"]: function.get("LoggingConfig", {}).get("LogGroup")
        or f"/aws/lambda/{function['FunctionName']}"
        for page in lambdas.get_paginator("list_functions").paginate()
        for function in sorted(page["Functions"], key=lambda found: str(found["FunctionName"]))
    }


def resolve(name: str, deployed: Iterable[str], environment: str) -> str:
    """Return the deployed function that ``name`` means. Raises NotFoundError.

    It is its full name, or ``api`` for ``noetl-<environment>-api``.
    """
    deployed, prefix = list(deployed), f"noetl-{environment}-"
    for candidate in (name, f"{prefix}{name}"):
        if candidate in deployed:
            return candidate
    known = [found.removeprefix(prefix) for found in deployed if found.startswith(prefix)] or deployed
    raise NotFoundError(
        f"no function {name!r} is deployed",
        code="unknown_function",
        hint=f"there are: {', '.join(known)}" if known else "noetl local up deploys them",
    )


def invoke(lambdas: Any, function: str, payload: Any) -> tuple[Any, dict[str, str] | None]:
    """Call a function and wait; return its answer, or its error as type and message."""
    answer = lambdas.invoke(FunctionName=function, Payload=json.dumps(payload).encode())
    text = answer["Payload"].read()
    value = json.loads(text) if text else None
    if answer.get("FunctionError") is None:
        return value, None
    found = value if isinstance(value, dict) else {}
    return None, {
        "type": str(found.get("errorType", answer["FunctionError"])),
        "message": str(found.get("errorMessage", value)),
    }


def log_lines(logs: Any, groups: Mapping[str, str], since: float, follow: bool) -> Iterator[dict[str, Any]]:
    """Yield what functions have printed since then (Unix time), oldest first, without end.

    Entries are ``{"time", "function", "line"}``.

    ``groups`` is a function's name and its log group.
    """
    begin = {name: int(since * 1000) for name in groups}
    shown: dict[str, Counter[tuple[int, str]]] = {name: Counter() for name in groups}
    while True:
        fresh = []
        for name, group in groups.items():
            events = [
                (int(event["timestamp"]), str(event["message"]))
                for event in _events(logs, group, begin[name])
            ]
            fresh += [(moment, name, line) for moment, line in (Counter(events) - shown[name]).elements()]
            if events:
                begin[name] = max(moment for moment, _ in events)
                shown[name] = Counter(event for event in events if event[0] == begin[name])
        for moment, name, line in sorted(fresh, key=lambda entry: entry[0]):
            yield {"time": moment / 1000, "function": name, "line": line.rstrip("\n")}
        if not follow:
            return
        time.sleep(FOLLOW_SECONDS)


def _events(logs: Any, group: str, begin: int) -> Iterator[dict[str, Any]]:
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group, startTime=begin)
    try:
        for page in pages:
            yield from page["events"]
    except logs.exceptions.ResourceNotFoundException:
        return  # it has not run yet
