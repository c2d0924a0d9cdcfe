"""What an invocation is called as an owner: of no other, and with the time in its name until which what it commits is its own."""

from __future__ import annotations

import secrets

from noetl.domain.workers.lease_owners import invocation


def new_owner(now: float, lifetime: float, who: str) -> str:
    """``now``: epoch seconds. ``lifetime``: longer than it takes to publish what it commits."""
    return invocation(now + lifetime, f"{who}:{secrets.token_hex(8)}")
