"""Limits by key in the stores of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from noetl.cli.client import runtime_access
from noetl.services.queries import limits as manage_limits
from noetl.services.queries.limits import LimitRequest, LimitView


class LimitsHere:
    _reading: runtime_access.Reading

    def limits(self, limit: int) -> Sequence[LimitView]:
        return manage_limits.list_limits(self._reading.store, limit=limit)

    def limit(self, key: str) -> LimitView:
        return manage_limits.find_limit(self._reading.store, key)

    def set_limit(self, key: str, request: LimitRequest) -> LimitView:
        return manage_limits.set_limit(self._reading.store, key, request, f"local:{os.getuid()}")

    def remove_limit(self, key: str) -> None:
        manage_limits.remove_limit(self._reading.store, key)
