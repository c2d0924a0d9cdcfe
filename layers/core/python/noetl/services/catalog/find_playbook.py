"""Lookup of a playbook in the catalog by path and version, id, or hash."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import PATH
from noetl.domain.text.playbook_path import plain_path
from noetl.ports.catalog import Catalog, CatalogEntry, PlaybookVersion

SUGGESTED_FROM = 1000
"""Most paths that a mistyped one is compared with."""
MAX_VERSION = 2**31 - 1


def check_path(path: str) -> str:
    """Return the catalog path that a text means, without a slash in front.

    Raises InvalidInputError(code="invalid_path") for a text that cannot be one (``plain_path``).
    """
    check_text(PATH, path, "the path of a playbook", code="invalid_path")
    found = plain_path(path)
    if found is not None:
        return found
    raise InvalidInputError(
        f"{path[:80]!r} cannot be the path of a playbook",
        code="invalid_path",
        hint=(
            f"such as reports/daily: at most {PATH.value} visible characters, no @ or backslash;"
            " no part between slashes is empty, or begins with a dot, a dash or a space"
        ),
    )


def find_playbook(catalog: Catalog, path: str, version: int | None = None) -> CatalogEntry:
    """Find a playbook by path and version; without a version, the latest.

    A slash in front of the path means nothing. Raises NotFoundError(code="playbook_not_found") with what was probably meant.
    """
    path = path.removeprefix("/")
    entry = catalog.get(path, version) if version is None or 0 < version <= MAX_VERSION else None
    if entry is not None:
        return entry
    latest = catalog.get(path) if version is not None else None
    if latest is not None:
        raise NotFoundError(
            f"{path} has no version {version}",
            code="playbook_not_found",
            hint=f"its latest version is {latest.version}",
        )
    raise NotFoundError(
        f"no playbook is registered as {path[:200]}",
        code="playbook_not_found",
        hint=suggestion(catalog, path, "register it first: `noetl register FILE`"),
    )


def find_version(
    catalog: Catalog,
    path: str,
    version: int | None = None,
    find: Callable[[tuple[str, int | None]], PlaybookVersion | None] | None = None,
) -> PlaybookVersion:
    """Find a playbook as ``find_playbook`` does, without its text.

    ``find``: asks the catalog, perhaps for others at the same time.
    """
    find = find or (lambda one: catalog.find([one])[0])
    found = find((path, version)) if version is None or 0 < version <= MAX_VERSION else None
    return found or version_of(find_playbook(catalog, path, version))


def find_named(
    catalog: Catalog,
    named: str,
    version: int | None = None,
    find: Callable[[tuple[str, int | None]], PlaybookVersion | None] | None = None,
) -> PlaybookVersion:
    """Find a playbook by its path, by ``path@version``, or by the last part of its path.

    No other path may end with that part.
    The published client sends a file's stem where its user names a file. Raises NotFoundError, and ConflictError for an ambiguous stem.
    """
    path, number = named_by(named) if version is None else (named, version)
    check_path(path)
    try:
        return find_version(catalog, path, number, find)
    except NotFoundError:
        fitting = [] if "/" in path else _ending_with(catalog, path)
        if not fitting:
            raise
    if len(fitting) > 1:
        raise ConflictError(
            f"{path} may be {', '.join(fitting[:5])}", code="playbook_ambiguous", hint="send the whole path"
        )
    return find_version(catalog, fitting[0], number, find)


def _ending_with(catalog: Catalog, stem: str) -> list[str]:
    return [
        entry.path
        for entry in catalog.entries(limit=SUGGESTED_FROM)
        if entry.path.rpartition("/")[2] == stem or entry.name == stem
    ]


def version_of(entry: CatalogEntry) -> PlaybookVersion:
    """Leave out the text of an entry."""
    return PlaybookVersion(entry.path, entry.version, entry.program)


def suggestion(catalog: Catalog, path: str, otherwise: str) -> str | None:
    """Build the hint ``did you mean …?``, else ``otherwise``."""
    from noetl.dsl.diagnostics import did_you_mean

    return did_you_mean(path, [entry.path for entry in catalog.entries(limit=SUGGESTED_FROM)], otherwise)


def by_id(catalog: Catalog, playbook_id: str) -> CatalogEntry:
    """Find a playbook by ``path@version``, or by path (its latest version).

    Raises NotFoundError.
    """
    return find_playbook(catalog, *named_by(playbook_id))


def named_by(playbook_id: str) -> tuple[str, int | None]:
    """Read ``path@version``, or a path (its latest version)."""
    path, _, version = playbook_id.rpartition("@")
    if path and version.isascii() and version.isdigit() and len(version) < 10:
        return path, int(version)
    return playbook_id, None


def by_program(catalog: Catalog, program: str) -> CatalogEntry:
    """Find a playbook by its program's hash. Raises NotFoundError(code="program_not_found")."""
    entry = catalog.by_program(program)
    if entry is None:
        raise NotFoundError(f"no playbook has the program {program[:80]}", code="program_not_found")
    return entry
