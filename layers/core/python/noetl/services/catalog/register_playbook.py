"""Registration of a playbook: compile it, store the compiled program, then store its text.

The program is stored for processes that cannot compile.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from noetl.domain.errors import InvalidInputError
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog, CatalogEntry
from noetl.services.catalog.find_playbook import check_path

SUFFIXES = (".yaml", ".yml")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]++={0,2}\s*")
"""``++``: what was taken is not given back, else megabytes of spaces would be tried in every division."""


class Compiled(Protocol):
    """A program that can run, and the warnings about it.

    ``rewritten``: what an older dialect was compiled as, or an empty text.
    """

    @property
    def program(self) -> Program: ...
    @property
    def warnings(self) -> tuple[Diagnostic, ...]: ...
    @property
    def rewritten(self) -> str: ...


class Registered(msgspec.Struct, frozen=True):
    """Result of a registration.

    ``created``: this call made the version; the same content at the same path keeps the version it has.
    """

    entry: CatalogEntry
    program: Program
    created: bool
    warnings: tuple[Diagnostic, ...]


def register_playbook(
    text: str,
    *,
    source_name: str,
    path: str | None,
    catalog: Catalog,
    compile: Callable[[str, str], Compiled],
    keep: Callable[[Program], None],
    if_version: int | None = None,
) -> Registered:
    """Compile a playbook and store it as a version in the catalog.

    ``compile``: (text, source name) → Compiled; ``keep``: stores a program durably for engine and workers, before the catalog names it.

    ``path``: instead of the one the playbook names. ``if_version``: see ``Catalog.register``. Raises InvalidPlaybookError with every
    diagnostic, InvalidInputError for a path that cannot be one, ConflictError(code="version_moved"), InfrastructureError.
    """
    compiled = compile(text, source_name)
    program = compiled.program
    place = check_path(path or program.path or program.name)
    keep(program)
    before = catalog.get(place)
    entry = catalog.register(
        path=place,
        name=program.name,
        program=program.hash,
        content=text,
        source_name=source_name,
        rewritten=compiled.rewritten,
        if_version=if_version,
    )
    created = before is None or entry.version > before.version
    return Registered(entry, program, created, compiled.warnings)


def playbook_text(content: str | bytes) -> str:
    """Decode a playbook that was sent as text or as base64 of it.

    (YAML of a playbook has a colon, base64 never.) Raises InvalidInputError(code="not_a_playbook").
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    try:
        text = data.decode("utf-8")
        if text.strip() and _BASE64.fullmatch(text):
            text = base64.b64decode("".join(text.split()), validate=True).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"the playbook is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None
    except binascii.Error:
        raise InvalidInputError(
            "the playbook is neither YAML nor base64", code="not_a_playbook", hint="send its YAML text"
        ) from None
    return text


def playbooks_below(folder: Path) -> Iterator[Path]:
    """List the playbook files of a folder and of its subfolders, in order."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in SUFFIXES and is_playbook(file):
            yield file


def is_playbook(path: Path) -> bool:
    """Return whether a file is a playbook: folders hold other YAML as well.

    A playbook states at its root that it is one.
    """
    try:
        return is_playbook_text(path.read_bytes())
    except OSError:
        return False


def is_playbook_text(data: bytes) -> bool:
    """Return whether YAML states at its root that it is a playbook."""
    head = data[:20_000]
    return any(line.startswith((b"apiVersion:", b"kind: Playbook")) for line in head.splitlines())
