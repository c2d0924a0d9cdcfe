"""Reading what a result reference stands for: checksum verified, manifests joined, immutable objects cached."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, NotFoundError, TaskError
from noetl.ports.results import ResultStore

CACHE_BYTES = 64 * 1024 * 1024
"""Most bytes of encoded objects kept decoded in one process."""


def manifest(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What a list too long for one object is stored as: references of its parts, in order."""
    return {"kind": "manifest", "strategy": "concat", "parts": parts, "total_parts": len(parts)}


class ResultsAway(BaseException):
    """The result store cannot be reached now, which is nobody's fault.

    A BaseException, because it has to pass through template evaluation, which turns every Exception into an author's error. The
    shells (``handle_events``, ``run_command``) turn it into the InfrastructureError it came from (its ``__cause__``).
    """


@contextmanager
def outages() -> Iterator[None]:
    """Raises InfrastructureError where a result store was away while something was hydrated."""
    try:
        yield
    except ResultsAway as away:
        assert isinstance(away.__cause__, InfrastructureError)
        raise away.__cause__ from None


def make_hydrate(results: ResultStore, cache_bytes: int = CACHE_BYTES) -> Callable[[Mapping[str, Any]], Any]:
    """A ``Hydrate`` over a result store. Thread-safe. It raises TaskError(code="REFERENCE_NOT_AVAILABLE"), and ResultsAway."""
    return _Hydrator(results, cache_bytes)


class _Hydrator:
    def __init__(self, results: ResultStore, limit: int) -> None:
        self.results = results
        self.limit = limit
        self.size = 0
        self.cache: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, ref: Mapping[str, Any]) -> Any:
        uri = str(ref["ref"])
        with self.lock:
            found = self.cache.get(uri)
            if found is not None:
                self.cache.move_to_end(uri)
                return found[0]
        data = self._read(uri, ref.get("sha256"))
        value = codec.decode(data)
        if isinstance(value, dict) and value.get("kind") == "manifest":
            value = [
                item
                for part in value["parts"]
                for item in codec.decode(self._read(part["ref"], part["sha256"]))
            ]
        self._keep(uri, value, len(data))
        return value

    def _read(self, uri: str, sha256: Any) -> bytes:
        try:
            data = self.results.get(uri)
        except InfrastructureError as error:
            if error.retryable:
                raise ResultsAway(str(error)) from error
            raise
        except NotFoundError as error:
            raise TaskError(
                f"the result {uri} is not available", kind="storage_access", code="REFERENCE_NOT_AVAILABLE"
            ) from error
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise TaskError(
                f"the result {uri} does not match its checksum",
                kind="storage_access",
                code="REFERENCE_NOT_AVAILABLE",
            )
        return data

    def _keep(self, uri: str, value: Any, size: int) -> None:
        if size > self.limit // 4:
            return
        with self.lock:
            self.cache[uri] = (value, size)
            self.size += size
            while self.size > self.limit:
                self.size -= self.cache.popitem(last=False)[1][1]
