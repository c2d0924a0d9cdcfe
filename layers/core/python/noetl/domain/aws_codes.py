"""The meaning of AWS error codes: one classification for adapters and kinds."""

from __future__ import annotations

from typing import Literal

Family = Literal["refused", "throttled", "missing", "failed", "rejected"]

_REFUSED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "AuthorizationError",
        "Forbidden",
        "403",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "KMS.AccessDeniedException",
        "KmsAccessDenied",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "SignatureDoesNotMatch",
        "UnauthorizedOperation",
        "UnrecognizedClientException",
    }
)
_THROTTLED = ("throttl", "slowdown", "toomanyrequests", "requestlimitexceeded", "limitexceeded")
_MISSING = ("nosuch", "notfound", "doesnotexist", "nonexistent")


def family(code: str, status: int = 400) -> Family:
    """Classify an error of an AWS service.

    ``code``: as the service says it (``AccessDenied``). ``status``: of HTTP; 0 when nothing was answered.

    refused: permissions or credentials; throttled: too often; missing: what was named is not there; failed: the service's
    fault, worth another try; rejected: anything else about the request.
    """
    word = code.lower()
    if code in _REFUSED:
        return "refused"
    if any(part in word for part in _THROTTLED) or status == 429:
        return "throttled"
    if status >= 500 or not status:
        return "failed"
    if status == 404 or any(part in word for part in _MISSING):
        return "missing"
    return "rejected"
