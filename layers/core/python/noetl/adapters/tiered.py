"""All tiers of one place as one result store.

Writes go where the router says, reads where the reference says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from noetl.adapters.disk.store import DiskResultStore
from noetl.adapters.result_uri import check_uri
from noetl.domain.errors import InfrastructureError, NotFoundError
from noetl.domain.results.tiers import KV_BYTES, MOST, TIERS, Remark, route
from noetl.ports.results import ObjectReader, ObjectWriter, OneTier, ResultStore

_REMARKS: Mapping[Remark, str] = {
    "renamed": "`store: object` is now called disk",
    "unknown": "there is no tier {wish!r} (there are {known}): what asks for it goes to {tier}",
    "absent": "the tier {wish} is not set up here: what asks for it goes to {tier} (docs/results.md says how to set it up)",
    "too_large": "the tier {wish} takes values of at most {most} bytes: larger ones go to {tier}",
}


class TieredResults:
    """Result stores of several tiers behind one store.

    ``tiers``: what this place has, by name. ``default``: the tier of every value without a wish for another.
    As a store it is its default tier: what is written and read without a reference (messages, parts of a loop's result) lies there.
    """

    def __init__(
        self,
        tiers: Mapping[str, ResultStore],
        default: str,
        log: Callable[[str], None] = lambda line: None,
        *,
        auto: int = KV_BYTES,
    ) -> None:
        """Create the store.

        ``auto``: bytes of a value that is put into ``kv``, where there is one, without a wish.
        """
        self._auto = auto
        self._tiers = dict(tiers)
        self._default = self._tiers[default]
        self.name = default
        self._log = log
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    @property
    def tiers(self) -> Mapping[str, ResultStore]:
        return self._tiers

    def start(self) -> None:
        """Continue what an earlier process left half done. For processes that stay for a while."""
        for tier in self._tiers.values():
            if isinstance(tier, DiskResultStore):
                tier.start()

    def close(self) -> None:
        """Wait a while for what is on its way."""
        for tier in self._tiers.values():
            if isinstance(tier, DiskResultStore):
                tier.close()

    def choose(self, size: int | None, requested: str | None = None) -> ResultStore:
        tier, remark = route(size, requested, self._tiers, self.name, self._auto)
        if remark:
            self._log_once(str(requested).strip(), remark, tier)
        return self._tiers[tier]

    def at(self, store: str | None) -> ResultStore:
        name = "disk" if store == "object" else store or self.name
        if name in self._tiers:
            return self._tiers[name]
        return _NotHere(name) if name in TIERS and name != "disk" else self._default

    def put(self, uri: str, data: bytes) -> None:
        self._default.put(uri, data)

    def get(self, uri: str) -> bytes:
        return self._default.get(uri)

    def writer(self, uri: str) -> ObjectWriter:
        return self._default.writer(uri)

    def reader(self, uri: str, start: int = 0) -> ObjectReader:
        return self._default.reader(uri, start)

    def path(self, uri: str) -> Path | None:
        return self._default.path(uri)

    def doubt(self, uri: str) -> bool:
        return self._default.doubt(uri)

    def delete(self, uris: Sequence[str]) -> None:
        self._default.delete(uris)

    def delete_execution(self, execution_id: int) -> int:
        """In every tier; a cache and what is behind it count as one."""
        return sum(tier.delete_execution(execution_id) for tier in self._tiers.values())

    def _log_once(self, requested: str, remark: Remark, tier: str) -> None:
        """Once in the life of a process."""
        key = (requested[:80], remark)
        with self._lock:
            if key in self._logged or len(self._logged) > 100:
                return
            self._logged.add(key)
        known = ", ".join(TIERS)
        self._log(
            _REMARKS[remark].format(
                wish=requested[:80], tier=tier, known=known, most=MOST.get(requested.lower(), 0)
            )
        )


class _NotHere(OneTier):
    """A tier that references name and this place does not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _missing(self, uri: str) -> NoReturn:
        check_uri(uri)
        raise NotFoundError(
            f"{uri} is in the tier {self.name}, which is not set up here",
            code="REFERENCE_NOT_AVAILABLE",
            hint="set the tier up as where the result was written (docs/results.md), or run the step again",
        )

    def put(self, uri: str, data: bytes) -> None:
        self._missing(uri)

    def get(self, uri: str) -> bytes:
        self._missing(uri)

    def writer(self, uri: str) -> ObjectWriter:
        self._missing(uri)

    def reader(self, uri: str, start: int = 0) -> ObjectReader:
        self._missing(uri)

    def path(self, uri: str) -> Path | None:
        self._missing(uri)

    def delete(self, uris: Sequence[str]) -> None:
        """Refuse: this process has nothing to remove.

        A process that can reach the tier removes the objects later.
        """
        raise InfrastructureError(
            f"the tier {self.name} is not set up here", code="result_store_failed", retryable=False
        )

    def delete_execution(self, execution_id: int) -> int:
        return 0
