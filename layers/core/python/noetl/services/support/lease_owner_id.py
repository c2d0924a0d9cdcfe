"""Owner names of invocations: unique, with the end of the lease in the name."""

from __future__ import annotations

import secrets

from noetl.domain.workers.lease_owners import invocation


def new_owner(now: float, lifetime: float, who: str) -> str:
    """``now``: epoch seconds. ``lifetime``: longer than it takes to publish what it commits."""
    return invocation(now + lifetime, f"{who}:{secrets.token_hex(8)}")
