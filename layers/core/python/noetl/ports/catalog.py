"""Port of the catalog: immutable playbook versions by path, and by content hash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.domain.errors import ConflictError


class CatalogEntry(msgspec.Struct, frozen=True):
    """A version of a playbook.

    ``program``: the hash of the compiled Program; ``content``: the source text; ``source_name``: what diagnostics print.

    ``rewritten``: what an older dialect was compiled as (``migration.older``), or an empty text.
    """

    path: str
    version: int
    name: str
    program: str
    content: str
    source_name: str
    created_at: float = 0.0
    rewritten: str = ""


class PlaybookVersion(msgspec.Struct, frozen=True):
    """What an execution has to know of a playbook that it runs; its text may be large."""

    path: str
    version: int
    program: str


class Catalog(Protocol):
    def register(
        self,
        *,
        path: str,
        name: str,
        program: str,
        content: str,
        source_name: str,
        rewritten: str = "",
        if_version: int | None = None,
    ) -> CatalogEntry:
        """Keep a playbook and return its entry.

        The same content at the same path keeps the version it has already, with ``source_name`` as it is now. ``if_version``: the latest
        version that the caller knows, 0 for none. Raises ConflictError(code="version_moved") when a new version would follow another one.
        """

    def get(self, path: str, version: int | None = None) -> CatalogEntry | None:
        """Return a version, or the latest."""

    def find(self, wanted: Sequence[tuple[str, int | None]]) -> Sequence[PlaybookVersion | None]:
        """Versions of paths, or their latest, in this order; None where there is none."""

    def by_program(self, program: str) -> CatalogEntry | None:
        """Return the entry with this program hash.

        Of several, which have the same text, it is one whose ``source_name`` is absolute if there is one: the file of such an entry is on
        this machine, and its tasks need its folder. Of those it is the newest, then the first by path.
        """

    def versions(self, path: str, *, limit: int, before: int | None = None) -> Sequence[CatalogEntry]:
        """Return the versions of a path, newest first, older than ``before``."""

    def calling(self, path: str, *, limit: int) -> Sequence[PlaybookVersion]:
        """Return latest versions whose text may call playbooks.

        Such a text has the word ``playbook`` in small letters. Those whose text has ``path`` come first, then the others, each in path
        order. Of an older dialect the text that it was compiled as counts, too.
        """

    def entries(self, *, limit: int, after: str = "") -> Sequence[CatalogEntry]:
        """Return the latest version of each path, in path order."""


def version_moved(path: str, known: int | None, latest: int) -> ConflictError:
    """Make the refusal of a registration whose caller does not know the latest version."""
    now = f"its latest version is {latest}" if latest else "it has no version"
    return ConflictError(
        f"{path[:80]} is not at version {known}: {now}",
        code="version_moved",
        hint="read what changed, then register with the latest version as `if_version`",
        details={"latest": latest},
    )
