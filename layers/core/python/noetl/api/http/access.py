"""Principals and scopes: who sends a request, and what they may do.

The gateway has authenticated the caller (IAM signature or JWT); this reads what it says about them. Scopes: ``read``, ``execute``,
``write``, ``admin`` (all but ``worker``) and ``worker``.

* **IAM**: policies on ``execute-api:Invoke`` decide which routes a principal reaches. A deployment may grant scopes by ARN as well
  (``NOETL_SCOPES``: pattern → scopes separated by spaces); without any, every caller that the gateway admits has all. The deployment's own
  workers (``NOETL_WORKER_ROLES``) have none: the token of a command says what they may do.
* **JWT**: the claim ``scope`` (or ``scp``), plain or prefixed: ``read``, ``noetl:read``, ``noetl/read``, ``https://…/read``.
* **none** (the local environment): every caller may do everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from noetl.api.http.exchange import Principal
from noetl.api.http.problems import ForbiddenError, UnauthenticatedError

SCOPES = frozenset({"read", "execute", "write", "admin", "worker"})
_ADMIN = SCOPES - {"worker"}
_PREFIX = re.compile(r"(?:noetl[:./]|https?://\S+/)")
LOCAL = Principal("local", "local", "local", SCOPES)


def principal_of(
    auth: str,
    authorizer: Mapping[str, Any],
    grants: Mapping[str, str] | None = None,
    workers: Sequence[str] = (),
) -> Principal | None:
    """Return the principal of a request; None when the gateway states none.

    ``auth``: iam, jwt or none; ``authorizer``: what the gateway states (``requestContext.authorizer``).
    ``workers``: patterns of ARNs. Workers sign with IAM behind JWT, too; the gateway admits no other caller that way.
    """
    if auth == "none":
        return LOCAL
    about = authorizer.get(auth)
    if isinstance(about, Mapping):
        return _iam(about, grants or {}, workers) if auth == "iam" else _jwt(about)
    signed = authorizer.get("iam")
    return _worker(signed, workers) if isinstance(signed, Mapping) else None


def _iam(about: Mapping[str, Any], grants: Mapping[str, str], workers: Sequence[str]) -> Principal | None:
    arn = about.get("userArn")
    if not isinstance(arn, str) or not arn:
        return None
    if worker := _worker(about, workers):
        return worker
    granted = " ".join(scopes for pattern, scopes in grants.items() if fnmatchcase(arn, pattern))
    return Principal(arn, "iam", _account(arn), widened(granted.split()) if grants else SCOPES)


def _worker(about: Mapping[str, Any], workers: Sequence[str]) -> Principal | None:
    """Return a worker of this deployment: known by its role, and without any scope."""
    arn = about.get("userArn")
    if not isinstance(arn, str) or not any(fnmatchcase(arn, pattern) for pattern in workers):
        return None
    return Principal(arn, "iam", _account(arn), frozenset())


def _account(arn: str) -> str:
    """Return the role behind an assumed role's session.

    A session's ARN is ``…:assumed-role/<role>/<session>``.
    """
    head, mark, rest = arn.partition(":assumed-role/")
    return f"{head}{mark}{rest.partition('/')[0]}" if mark else arn


def _jwt(about: Mapping[str, Any]) -> Principal | None:
    claims = about.get("claims")
    subject = claims.get("sub") if isinstance(claims, Mapping) else None
    if not isinstance(claims, Mapping) or not isinstance(subject, str) or not subject:
        return None
    scopes_claim = claims.get("scope") or claims.get("scp") or ""
    words = scopes_claim if isinstance(scopes_claim, list) else str(scopes_claim).strip("[]").split()
    issuer = claims.get("iss")
    account = f"{issuer}#{subject}" if isinstance(issuer, str) else subject
    return Principal(
        f"jwt:{subject}", "jwt", account, widened([_PREFIX.sub("", str(word)) for word in words])
    )


def widened(scopes: list[str]) -> frozenset[str]:
    """Return scopes with those that they include. Words that are no scopes fall out."""
    found = SCOPES & set(scopes)
    return found | _ADMIN if "admin" in found else frozenset(found)


def check_scope(principal: Principal | None, scope: str | None) -> Principal:
    """Check that the caller has a scope.

    Raises UnauthenticatedError and ForbiddenError. ``scope`` None: the route is open to every caller.
    """
    if principal is None:
        if scope is None:
            return Principal("", "", "", frozenset())
        raise UnauthenticatedError(
            "the request names no caller that is known here",
            hint="send a valid `Authorization: Bearer TOKEN` (a JWT, or a token of `noetl token add`), or sign the request (IAM)",
        )
    if scope is not None and scope not in principal.scopes:
        raise ForbiddenError(
            f"this needs the scope {scope}",
            hint=f"yours are: {', '.join(sorted(principal.scopes)) or 'none'}",
            details={"scope": scope},
        )
    return principal
