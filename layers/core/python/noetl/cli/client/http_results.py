"""Large results of a server, read by their references over links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from urllib3.exceptions import HTTPError

from noetl.api.http.result_bodies import Download, ResultAnswer
from noetl.cli.client.http_client import Client, Reply
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError

ONE = "/api/executions/{}/result"


class RemoteResults:
    """A store that is only read.

    ``links``: those that are known already; others are asked for.
    """

    name = "remote"

    def __init__(self, client: Client, links: Iterable[Download] = (), store: str = "") -> None:
        self._client = client
        self._links: dict[str, str] = {one.ref: one.url for one in links}
        self._store = store

    def at(self, store: str | None) -> Self:
        found = type(self)(self._client, (), store or "")
        found._links = self._links
        return found

    def choose(self, size: int | None, requested: str | None = None) -> Self:
        return self

    def doubt(self, uri: str) -> bool:
        """There are no copies here."""
        return False

    def get(self, uri: str) -> bytes:
        return self._client.download(self._link(uri))

    def reader(self, uri: str, start: int = 0) -> _Reader:
        reader = _Reader(self._client.open(self._link(uri)), uri)
        while start > 0 and (skipped := reader.read(min(start, 1024 * 1024))):
            start -= len(skipped)
        return reader

    def path(self, uri: str) -> Path | None:
        return None

    def _link(self, uri: str) -> str:
        if uri not in self._links:
            execution = uri.removeprefix("noetl://execution/").partition("/")[0]
            params: Mapping[str, str | None] = {"ref": uri, "store": self._store or None}
            try:
                found = self._client.get(ONE.format(execution), ResultAnswer, **params)
            except InvalidInputError as error:
                raise NotFoundError(f"{uri}: {error.message}", code="REFERENCE_NOT_AVAILABLE") from error
            self._links |= {one.ref: one.url for one in found.downloads}
        return self._links[uri]

    def put(self, uri: str, data: bytes) -> NoReturn:
        raise self._only_read()

    def writer(self, uri: str) -> NoReturn:
        raise self._only_read()

    def delete(self, uris: Sequence[str]) -> NoReturn:
        raise self._only_read()

    def delete_execution(self, execution_id: int) -> NoReturn:
        raise self._only_read()

    @staticmethod
    def _only_read() -> InvalidInputError:
        return InvalidInputError("results of a server are only read from here", code="not_written")


class _Reader:
    def __init__(self, reply: Reply, uri: str) -> None:
        self._reply = reply
        self._uri = uri

    def read(self, size: int) -> bytes:
        try:
            return self._reply.read(size)
        except HTTPError as error:
            raise InfrastructureError(
                f"{self._uri} broke off: {type(error).__name__}", code="server_unreachable", retryable=False
            ) from error

    def close(self) -> None:
        self._reply.close()
