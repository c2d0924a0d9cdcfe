"""File names in DuckDB statements.

DuckDB's own lock (``allowed_directories``) decides what can be opened. It knows no folder that relative names start
from, and does not tell reading from writing. Both are added here: a relative file name becomes the file it means in
the playbook's folders, and ``COPY … TO`` writes below the work folder only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskSettings
from noetl.kinds.support.given_folders import in_given
from noetl.kinds.support.open_parts import is_inside, open_parts
from noetl.kinds.support.paths import refuse_special, resolve_inside
from noetl.templating.contract import RenderedStatement
from noetl.templating.sql_split import Token, tokens_of

_READERS = re.compile(r"read_\w+|sniff_csv|glob|\w+_scan|parquet_\w+", re.IGNORECASE)
_DATA_FILE = re.compile(r"\.(csv|tsv|txt|parquet|json|jsonl|ndjson)(\.(gz|zst))?", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_GLOB = re.compile(r"[*?\[]")
_PLAIN_NAME = re.compile(r"[\w{}-][\w{}.-]{0,200}")
_DATABASE = "duckdb"
"""In the name of a database of the work folder. Bytes of a task in such a file can crash DuckDB, and with it the worker."""
_NAMING = ("filename_pattern", "file_extension")
"""Options of COPY … TO that are a part of the names of its files: DuckDB takes folders in them, too."""
_EXPLAINED = frozenset(
    {"select", "with", "from", "values", "(", "table", "pivot", "unpivot", "describe", "show", "summarize"}
    | {"insert", "update", "delete", "merge", "copy", "create", "drop", "alter"}
)
"""How a statement begins that EXPLAIN may be put before: no other can be run by EXPLAIN ANALYZE."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders that may hold files.

    ``readable``: in the order in which relative names are looked for; ``writable``: for COPY … TO. ``hidden``: what is never read, also
    where a readable folder contains it. ``changing``: folders that are closed because tasks write to them.
    """

    readable: tuple[str, ...]
    writable: str | None
    hidden: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: TaskSettings) -> Folders:
        """Return the folders of a worker.

        DuckDB opens files by their names, some time after they were checked: so none where tasks may write.
        """
        given = settings.task_folders
        changing = tuple(folder for folder in settings.data_dirs if in_given(folder, given))
        kept = tuple(folder for folder in settings.data_dirs if folder not in changing)
        return cls(kept, settings.work_dir, (*settings.hidden_dirs, *given), (*changing, *given))

    @property
    def open(self) -> Iterator[str]:
        """What DuckDB may open: folders, and the parts of one that contains something hidden."""
        for root in self.roots:
            inner = [place for place in self.hidden if is_inside(os.path.realpath(place), root)]
            yield from open_parts(root, inner)

    @property
    def roots(self) -> tuple[str, ...]:
        """Every folder a statement may touch, links followed."""
        given = (*self.readable, *((self.writable,) if self.writable else ()))
        return tuple(dict.fromkeys(str(Path(folder).resolve()) for folder in given))

    def refuse(self, name: str) -> None:
        """Refuse the name or pattern of a file that tasks may change.

        Also the name of what is no file.

        Raises TaskError: ``storage_access`` (``path_outside``, ``path_invalid``).
        """
        begin = _GLOB.split(name)[0]
        begin = begin if begin == name else begin[: begin.rfind("/") + 1]
        for root in (*self.roots, *self.changing):
            path = Path(root, begin)
            if os.path.lexists(path) and in_given(str(path), self.changing):
                raise TaskError(
                    f"{name!r} is in a folder that tasks may write to, where duckdb reads no file by its name",
                    kind="storage_access",
                    code="path_outside",
                    hint="give it as a source (`sources`, file: …), read it in python or shell, or keep it outside of --task-folder",
                )
            refuse_special(path)


def place_files(statement: RenderedStatement, folders: Folders) -> RenderedStatement:
    """Replace every relative file name of the statement (text or bound value) by its file.

    Raises TaskError: ``storage_access`` (``path_outside``, ``write_refused``) or ``not_found`` (``file_not_found``).
    """
    tokens = tokens_of([statement.text])
    spots = [index for index, token in enumerate(tokens) if token.kind not in ("space", "comment")]
    placed: dict[int, str] = {}
    for index, path in _Reader([tokens[index] for index in spots], statement.params, folders).places():
        # Everything that is no placeholder has its percent signs doubled when there are parameters.
        placed[spots[index]] = path.replace("%", "%%") if statement.params else path
    if not placed:
        return statement
    text = "".join(placed.get(index, token.text) for index, token in enumerate(tokens))
    return RenderedStatement(text, statement.params)


class _Reader:
    """Finds the file names among the tokens of one statement."""

    def __init__(self, tokens: list[Token], params: Mapping[str, Any], folders: Folders) -> None:
        self._tokens = tokens
        self._words = [token.text.lower() if token.kind in ("word", "mark") else "" for token in tokens]
        self._params = params
        self._folders = folders

    def places(self) -> Iterator[tuple[int, str]]:
        """Index of a token and the SQL literal that takes its place."""
        target = self._target() if self._word(self._begin()) == "copy" else None
        if target is not None:
            self._refuse_names(target)
            yield target, self._writable(target)
        for index, word in enumerate(self._words):
            if word in ("from", "join"):
                yield from self._source(index + 1, is_table=True)
            elif _READERS.fullmatch(word) and self._word(index + 1) == "(":
                yield from self._arguments(index + 2)

    def _begin(self) -> int:
        """Return the index of the first word behind an EXPLAIN.

        Raises TaskError for what a task may not explain.
        """
        if self._word(0) != "explain":
            return 0
        begin = 2 if self._word(1) in ("analyze", "analyse") else 1
        if self._word(begin) == "(" and self._word(begin + 1) not in (
            "select",
            "with",
            "from",
            "values",
            "(",
        ):
            begin = self._words.index(")", begin) + 1 if ")" in self._words[begin:] else begin
        if self._word(begin) not in _EXPLAINED:
            raise TaskError(
                f"EXPLAIN {self._word(begin).upper()} is not possible in a task",
                kind="storage_access",
                code="statement_refused",
                hint="explain a query or a change of rows",
            )
        return begin

    def _refuse_names(self, target: int) -> None:
        """Refuse an option of a COPY that names files by anything but a plain text.

        Raises TaskError.
        """
        for index in range(target + 1, len(self._tokens)):
            token = self._tokens[index]
            option = _unquoted(token) if token.kind == "name" else token.text
            if option.lower() not in _NAMING:
                continue
            given = self._name(index + 1, is_table=False)
            plain = given is not None and _PLAIN_NAME.fullmatch(given) and _DATABASE not in given.lower()
            if not plain or self._word(index + 2) not in (",", ")"):
                raise TaskError(
                    f"{option.upper()} of COPY is one plain name, without folders",
                    kind="storage_access",
                    code="write_refused",
                    hint="such as 'part_{i}'; folders come from PARTITION_BY",
                )

    def _word(self, index: int) -> str:
        return self._words[index] if index < len(self._words) else ""

    def _arguments(self, index: int) -> Iterator[tuple[int, str]]:
        """Yield the files in the first argument of a reading function.

        It is a file, or a list of files.
        """
        if self._word(index) != "[":
            yield from self._source(index)
            return
        for at in range(index + 1, len(self._tokens)):
            if self._words[at] == "]":
                return
            yield from self._source(at)

    def _source(self, index: int, *, is_table: bool = False) -> Iterator[tuple[int, str]]:
        name = self._name(index, is_table=is_table)
        if name is None or _URL.match(name):
            return
        if Path(name).is_absolute():
            self._folders.refuse(name)
            return
        try:
            found = self._find(name)
        except TaskError:
            self._folders.refuse(name)  # says more, where that is the reason
            raise
        yield index, _literal(found)

    def _name(self, index: int, *, is_table: bool) -> str | None:
        """Return the file name at this place, None when there is something else."""
        if index >= len(self._tokens):
            return None
        token = self._tokens[index]
        if token.kind == "quoted":
            return _unquoted(token)
        if token.kind == "placeholder":
            value = self._params.get(token.text[2:-2])
            return value if isinstance(value, str) and not is_table else None
        if is_table and token.kind == "name" and self._word(index + 1) != ".":
            name = _unquoted(token)
            return name if _DATA_FILE.search(name) else None
        return None

    def _find(self, name: str) -> str:
        """Find a relative name in the first folder that has it."""
        if not _GLOB.search(name):
            return str(resolve_inside(name, self._folders.roots, hidden=self._folders.hidden))
        if ".." in Path(name).parts:
            raise TaskError(
                f"{name!r} leaves the allowed folders",
                kind="storage_access",
                code="path_outside",
                hint="a pattern must not contain ..",
            )
        for root in self._folders.roots:
            if next(Path(root).glob(name), None) is not None:
                return f"{root}/{name}"
        raise TaskError(f"no file matches {name!r}", kind="not_found", code="file_not_found")

    def _target(self) -> int | None:
        """Index of what follows the TO of a COPY, outside of brackets; None when the COPY reads."""
        depth = 0
        for index, word in enumerate(self._words):
            depth += (word == "(") - (word == ")")
            if word == "to" and depth == 0:
                return index + 1
        return None

    def _writable(self, index: int) -> str:
        name = self._name(index, is_table=False)
        following = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        # Two texts on two lines are one.
        if name is None or (
            following is not None and following.kind != "word" and following.text not in "(;"
        ):
            raise _refused_target("the file that COPY writes must be one text")
        if self._folders.writable is None:
            raise _refused_target("this deployment has no work folder that tasks may write to")
        root = Path(self._folders.writable).resolve()
        path = resolve_inside(name, [root], must_exist=False)
        if _DATABASE in path.name.lower():
            raise _refused_target("a database file is changed by its statements, and not written by COPY")
        path.parent.mkdir(parents=True, exist_ok=True)
        return _literal(str(path))


def _refused_target(message: str) -> TaskError:
    return TaskError(
        message,
        kind="storage_access",
        code="write_refused",
        hint="write COPY … TO 'name.parquet'; it lies in the work folder",
    )


def _unquoted(token: Token) -> str:
    quote = token.text[0]
    return token.text[1:-1].replace(quote * 2, quote)


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
