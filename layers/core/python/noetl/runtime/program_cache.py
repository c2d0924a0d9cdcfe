"""The cache of compiled programs between processes.

A playbook runs again without the compiler.

Loading the compiler takes longer than running a small playbook. An entry is valid for one text, one source name and one
state of this library's files; with kinds of other packages (which may change on their own) nothing is cached. Each
entry is signed with the key of the home folder: an entry that another program wrote, or moved, is ignored and compiled
again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

import noetl
from noetl.domain import codec
from noetl.domain.capability_tokens import KeyRing, program_signed, sign_program
from noetl.domain.kinds import KindLookup
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.program import Program
from noetl.dsl.versions import SEMANTICS, semantics_of
from noetl.kinds.registry import BUILT_IN
from noetl.runtime.local.keys import local_keys

MOST = 200
"""Entries that are kept; the oldest go first."""


class CachedProgram(msgspec.Struct, frozen=True):
    """A program that can run, and the warnings about it.

    ``rewritten``: what an older dialect was compiled as (``migration.older``), or an empty text.
    """

    program: Program
    warnings: tuple[Diagnostic, ...] = ()
    rewritten: str = ""


_DECODER = codec.decoder(CachedProgram)


class ProgramCache:
    """A cache in a folder.

    ``folder`` None: compile each time (once per process). ``keys``: sign the entries.
    """

    def __init__(
        self,
        folder: Path | None,
        kinds: KindLookup,
        keys: Callable[[], KeyRing] | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.folder = folder if set(kinds.names()) <= BUILT_IN.keys() else None
        self.kinds = kinds
        self._keys = keys
        self._log = log

    def compile(self, text: str, source_name: str, program: str = "", rewritten: str = "") -> CachedProgram:
        """Compile a playbook, as the earlier compilation ``program`` did, if given.

        ``program``: the hash of a program; ``rewritten``: what the text was compiled as then, for an older dialect. Raises
        InvalidPlaybookError; what is invalid is compiled each time.
        """
        semantics = SEMANTICS
        if rewritten:
            from noetl.migration.older import identity_of

            semantics = semantics_of(identity_of(text, rewritten), program)
        elif program:
            semantics = semantics_of(text, program)
        path = self._path(text, source_name, semantics, rewritten)
        found = self._read(path)
        if found is None:
            found = self._made(text, source_name, semantics, rewritten)
            if path is not None:
                self._write(path, found)
        return found

    def _made(self, text: str, source_name: str, semantics: int, rewritten: str) -> CachedProgram:
        from noetl.dsl.compiler import compile_cached
        from noetl.dsl.diagnostics import InvalidPlaybookError

        if not rewritten:
            try:
                done = compile_cached(text, source_name=source_name, kinds=self.kinds, semantics=semantics)
                return CachedProgram(done.program, done.diagnostics)
            except InvalidPlaybookError as invalid:
                refused = invalid
        from noetl.migration.older import compile_any

        done, known = compile_any(
            text,
            source_name=source_name,
            kinds=self.kinds,
            rewritten=rewritten,
            semantics=semantics,
            refused=None if rewritten else refused,
        )
        return CachedProgram(done.program, done.diagnostics, known)

    def _read(self, path: Path | None) -> CachedProgram | None:
        """Read an entry; None for one that cannot be read or proven, and is made again."""
        if path is None or self._keys is None:
            return None
        try:
            token, _, data = path.read_bytes().partition(b"\n")
            if not program_signed(token.decode("ascii", "replace"), path.name, data, self._keys()):
                self._log(
                    f"{path} was not written by this home folder's noetl: it is ignored, and its playbook is compiled again;"
                    " find out who writes there (`noetl doctor` shows what keeps tasks from it)"
                )
                return None
            return codec.decode_as(_DECODER, data)
        except (OSError, ValueError):
            return None

    def _write(self, path: Path, kept: CachedProgram) -> None:
        """Write an entry, whole or not at all.

        A folder that cannot be written to only costs time.
        """
        if self._keys is None:
            return
        data = codec.encode(kept)
        with suppress(OSError):
            for folder in (*reversed(path.parents[1:3]), path.parent):  # may make the home folder, too
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=path.parent, suffix=".new")
            with os.fdopen(handle, "wb") as out:
                out.write(sign_program(path.name, data, self._keys()).encode() + b"\n" + data)
            Path(name).replace(path)
            _make_room(path.parent)

    def _path(self, text: str, source_name: str, semantics: int, rewritten: str) -> Path | None:
        if self.folder is None:
            return None
        parts = (library_state(), str(semantics), source_name, text, rewritten)
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder / f"{digest[:40]}.json"


def local_cache(
    home: Path, kinds: KindLookup, log: Callable[[str], None] = lambda line: None
) -> ProgramCache:
    """Make the cache of a home folder."""
    return ProgramCache(home / "cache" / "programs", kinds, lambda: local_keys(home), log)


def _make_room(folder: Path) -> None:
    entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in entries[:-MOST]:
        path.unlink(missing_ok=True)


@cache
def library_state() -> str:
    """Return a digest that changes with any file of this library: its name, size or time."""
    root = Path(noetl.__file__).parent
    facts = sorted(_facts(str(root)))
    return hashlib.sha256("\n".join([sys.version, *facts]).encode()).hexdigest()


def _facts(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _facts(entry.path)
            elif entry.name.endswith(".py"):
                about = entry.stat()
                yield f"{entry.path} {about.st_size} {about.st_mtime_ns}"
