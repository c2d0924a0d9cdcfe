"""Authentication of requests: a bearer token, or an AWS signature (version 4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from noetl.cli.client.profiles import Context
from noetl.domain.errors import InfrastructureError, InvalidInputError

SERVICE = "execute-api"
_REGION = re.compile(r"\.execute-api\.([a-z0-9-]+)\.(?:amazonaws\.com|on\.aws)")

Sign = Callable[[str, str, Mapping[str, str], bytes | None], Mapping[str, str]]
"""(method, url, headers, body) → headers to send."""


def signer(context: Context) -> Sign:
    """Sign requests with credentials of AWS.

    Raises InfrastructureError when AWS credentials (or the package for them) are missing, InvalidInputError when the region is unknown.
    """
    if context.auth == "iam":
        return _Signature(context)
    if context.auth == "token":
        return lambda method, url, headers, body: {**headers, "Authorization": f"Bearer {context.token()}"}
    return lambda method, url, headers, body: headers


class _Signature:
    def __init__(self, context: Context) -> None:
        try:
            from boto3.session import Session
            from botocore.exceptions import BotoCoreError
        except ModuleNotFoundError:
            raise InfrastructureError(
                "the package boto3 is missing",
                code="boto3_missing",
                hint="pip install 'noetl-serverless[aws]'",
                retryable=False,
            ) from None
        try:
            session = Session(profile_name=context.profile or None)
            self._credentials: Any = session.get_credentials()
            self._region = context.region or _region(context.url) or session.region_name
        except BotoCoreError as error:
            raise _no_credentials(str(error)) from error
        if self._credentials is None:
            raise _no_credentials("the environment has none")
        if not self._region:
            raise InvalidInputError(
                f"the region of {urlsplit(context.url).hostname} cannot be read from its name",
                code="invalid_context",
                hint="noetl context add … --region eu-west-1, or AWS_REGION",
            )

    def __call__(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        request = AWSRequest(method, url, headers=dict(headers), data=body or b"")
        try:
            frozen = self._credentials.get_frozen_credentials()
            SigV4Auth(frozen, SERVICE, self._region).add_auth(request)
        except BotoCoreError as error:
            raise _no_credentials(str(error)) from error
        return dict(request.headers.items())


def _region(url: str) -> str:
    found = _REGION.search(urlsplit(url).hostname or "")
    return found[1] if found else ""


def _no_credentials(why: str) -> InfrastructureError:
    return InfrastructureError(
        f"there are no AWS credentials to sign with: {why}",
        code="aws_credentials_missing",
        hint="aws sso login, or AWS_PROFILE, or noetl context add … --profile NAME",
        retryable=False,
    )
