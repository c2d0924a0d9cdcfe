"""Owner names of invocations: unique, with the end of the lease in the name."""

from __future__ import annotations

import secrets

from noetl.domain.workers.direct_requests import LEASE_SECONDS, POOL
from noetl.domain.workers.lease_owners import invocation, lease


def new_owner(now: float, lifetime: float, who: str) -> str:
    """``now``: epoch seconds. ``lifetime``: longer than it takes to publish what it commits."""
    return invocation(now + lifetime, f"{who}:{secrets.token_hex(8)}")


def direct_owner(now: float, name: str) -> str:
    """Return the owner of the commands that a request commits.

    It is a lease, which the worker that gets the answer extends. ``now``: epoch seconds.
    """
    return lease(now + LEASE_SECONDS, POOL, name)
