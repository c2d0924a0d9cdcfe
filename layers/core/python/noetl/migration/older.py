"""Programs of playbooks in an older dialect.

The rules rewrite the text, and the compiler takes the result.

Only a text that does not compile as it is comes here, and only rules that keep its meaning are applied. Positions of the program and of its
warnings are those of the author's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import Any

import msgspec
from msgspec.structs import replace

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.kinds import KindLookup
from noetl.domain.sizes.table import MIGRATED_BYTES
from noetl.domain.text.version_text import split_version
from noetl.dsl.compiler import Compiled, compile_playbook
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from noetl.dsl.nodes import Pos
from noetl.dsl.program import Program
from noetl.dsl.versions import SEMANTICS, program_hash
from noetl.formatting.nodes import Entry, Text, inside
from noetl.formatting.reading import read
from noetl.migration.changes import Lines
from noetl.migration.migrate import Migrated, migrate_text
from noetl.migration.rules.tools.script_file import RULE as SCRIPT_FILE

OLDER = "older-dialect"
"""Code of the warnings: one for each rule that was applied."""
ASKS = "older-dialect-unclear"
"""Code of the errors: places where a rule assumes what the author may not have meant."""


class Rewritten(msgspec.Struct, frozen=True, array_like=True):
    """What the rules made of a text.

    ``places``: for each line the author's line, and the column there; of a line that is as it was, how much it moved.
    """

    text: str
    places: tuple[tuple[int, int], ...] = ()

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return the author's line and column."""
        if not 0 < line <= len(self.places):
            return line, column
        found, start = self.places[line - 1]
        return (found, start) if start > 0 else (found, max(column - (start + _KEPT), 1))


_REWRITTEN = codec.decoder(Rewritten)
_LEAD = re.compile(r"\s*(?:- +)*")
_KEPT = 10_000
"""A difference of indentation is stored less this number, so that it is never a column."""


def compile_any(
    text: str | bytes,
    *,
    source_name: str,
    kinds: KindLookup,
    rewritten: str = "",
    semantics: int = SEMANTICS,
    refused: InvalidPlaybookError | None = None,
) -> tuple[Compiled, str]:
    """Compile a playbook of any dialect; return its rewriting, too.

    It is an empty text for a playbook of today.

    ``rewritten``: the rewriting of an earlier compilation, which is taken again. ``refused``: what the compiler says of the text, if that is
    known. Raises InvalidPlaybookError.
    """
    if rewritten:
        known = codec.decode_as(_REWRITTEN, rewritten.encode())
        return _of(known, _decoded(text) or "", source_name, kinds, semantics, ()), rewritten
    try:
        if refused is not None:
            raise refused
        return compile_playbook(text, source_name=source_name, kinds=kinds, semantics=semantics), ""
    except InvalidPlaybookError as invalid:
        plain = _decoded(text)
        if semantics != SEMANTICS or plain is None:
            raise
        made = _migrated(plain, source_name, kinds)
        if made is None or not made.changed or _asks_for_files(made):
            raise
        if not made.runs:
            raise InvalidPlaybookError(_left(made), source_name=source_name) from invalid
        unclear = tuple(
            Diagnostic(ASKS, f"{note.rule}: {note.text}", note.line, note.column, hint=_UNCLEAR)
            for note in made.notes
            if not note.safe
        )
        if unclear:
            raise InvalidPlaybookError(unclear, source_name=source_name) from invalid
    known = rewriting_of(made)
    return _of(known, made.original, source_name, kinds, semantics, _warnings(made)), codec.encode(
        known
    ).decode()


_REMEDY = "it runs as it is; `noetl migrate --write FILE` rewrites the file"
_UNCLEAR = "is that what it means? `noetl migrate --write FILE` rewrites the file; else change this place"


def identity_of(text: str | bytes, rewritten: str) -> str | bytes:
    """Return the text whose hash is that of the program.

    Of an older dialect it holds both texts.
    """
    if not rewritten:
        return text
    known = codec.decode_as(_REWRITTEN, rewritten.encode())
    return "\0".join((OLDER, _decoded(text) or "", known.text))


def rewriting_of(made: Migrated) -> Rewritten:
    """Return the rewriting with the places of its lines in the original."""
    assert made.document is not None
    original = made.original.splitlines()
    places = _places(
        original,
        made.text.splitlines(),
        Lines(made.document).places(split_version(made.text)[0]),
        _blocks(made.text, made),
    )
    return Rewritten(made.text, tuple(places))


def _decoded(text: str | bytes) -> str | None:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _migrated(text: str, source_name: str, kinds: KindLookup) -> Migrated | None:
    """Return what the rules make of a text, or None for one that they cannot read."""
    if len(text.encode("utf-8", "surrogatepass")) > MIGRATED_BYTES.value:
        return None
    try:
        return migrate_text(text, source_name=source_name, kinds=kinds)
    except (InvalidPlaybookError, InvalidInputError):
        return None


def _asks_for_files(made: Migrated) -> bool:
    """Return whether a file beside the playbook is missing.

    ``noetl migrate`` alone reads those, so the compiler's own words say more.
    """
    return any(one.rule == SCRIPT_FILE.name for one in made.refusals)


def _left(made: Migrated) -> tuple[Diagnostic, ...]:
    """Return what keeps an older playbook from running, without what rules rewrite."""
    refused = (
        Diagnostic(ASKS, f"{one.rule}: {one.message}", one.line, one.column, hint=one.hint)
        for one in made.refusals
    )
    return tuple(sorted((*refused, *made.problems), key=lambda one: (one.line, one.column)))


def _of(
    known: Rewritten,
    text: str,
    source_name: str,
    kinds: KindLookup,
    semantics: int,
    warnings: Iterable[Diagnostic],
) -> Compiled:
    done = compile_playbook(known.text, source_name=source_name, kinds=kinds, semantics=semantics)
    identity = "\0".join((OLDER, text, known.text))
    program: Program = _moved(done.program, known.place, _code_heights(known.text))
    own = [_moved_problem(one, known.place) for one in done.diagnostics]
    found = sorted((*warnings, *own), key=lambda one: (one.line, one.column))
    return Compiled(replace(program, hash=program_hash(identity, semantics)), tuple(found))


def _warnings(made: Migrated) -> list[Diagnostic]:
    """Return one warning for each rule, at the first place that it rewrote."""
    from noetl.migration.rules import RULES

    summaries = {rule.name: rule.summary for rule in RULES}
    first: dict[str, Diagnostic] = {}
    places: dict[str, int] = {}
    only = {change.rule for change in made.changes} - {"spelling"} or {"spelling"}
    for change in sorted(made.changes, key=lambda one: (one.line, one.column)):
        if change.rule not in only:
            continue
        places[change.rule] = places.get(change.rule, 0) + 1
        first.setdefault(
            change.rule,
            Diagnostic(OLDER, summaries[change.rule], change.line, change.column, "warning"),
        )
    found = []
    for rule, one in first.items():
        more = f" ({places[rule]} places)" if places[rule] > 1 else ""
        found.append(replace(one, message=f"{rule}: {one.message}{more}"))
    if found:
        found[0] = replace(found[0], hint=_REMEDY)
    return found


# --- places ---


def _places(
    original: list[str],
    written: list[str],
    place: Callable[[int], tuple[int, int]],
    blocks: list[tuple[int, int, int]],
) -> list[tuple[int, int]]:
    """Return the author's place of each written line.

    ``blocks``: of each block text its first line, the one after its last, and the author's line of its key.
    """
    lines = {number: place(number)[0] for number in range(1, len(written) + 1)}
    for start, end, key in blocks:
        lines.update(_aligned(original, written, start, end, key))
    found = []
    for number, line in lines.items():
        new, old = written[number - 1], original[line - 1] if line <= len(original) else ""
        head, was = _LEAD.match(new), _LEAD.match(old)
        assert head is not None and was is not None
        if new[head.end() :].strip() and new[head.end() :].rstrip() == old[was.end() :].rstrip():
            found.append((line, head.end() - was.end() - _KEPT))
        else:
            found.append((line, max(place(number)[1], 1)))
    return found


def _aligned(original: list[str], written: list[str], start: int, end: int, key: int) -> dict[int, int]:
    """Align the lines of a block text with those below the key in the original."""
    new = [line.strip() for line in written[start - 1 : end - 1]]
    old = [line.strip() for line in original[key : key + len(new) + 1]]
    found: dict[int, int] = {}
    for match in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for at in range(match.size):
            found[start + match.b + at] = key + 1 + match.a + at
    known = key + 1
    for number in range(start, end):
        known = found.setdefault(number, known)
    return found


def _blocks(text: str, made: Migrated) -> list[tuple[int, int, int]]:
    assert made.document is not None
    return [
        (entry.line + 1, entry.line + 1 + _rows(entry), before.line)
        for before, entry in zip(inside(made.document.root), _entries(text), strict=True)
        if before.line and _rows(entry)
    ]


def _rows(entry: Entry) -> int:
    value = entry.value
    if not isinstance(value, Text) or value.style not in ("|", ">") or not isinstance(value.value, str):
        return 0
    return value.value.rstrip("\n").count("\n") + 1


def _code_heights(text: str) -> dict[int, int]:
    """Return how many lines the block text has that begins at a line."""
    return {entry.line + 1: rows for entry in _entries(text) if (rows := _rows(entry))}


def _entries(text: str) -> list[Entry]:
    """Return the entries of the playbook, without those of the files behind it."""
    return list(inside(read(split_version(text)[0], "<written>").root))


def _moved_problem(problem: Diagnostic, place: Callable[[int, int], tuple[int, int]]) -> Diagnostic:
    line, column = place(problem.line, problem.column)
    return replace(problem, line=line, column=column)


def _moved(value: Any, place: Callable[[int, int], tuple[int, int]], heights: dict[int, int]) -> Any:
    """Return a value with every position in it moved; what has none stays the same object."""
    if isinstance(value, Pos):
        return Pos(*place(value.line, value.column)) if value.line else value
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = (
                _code_place(before, place, heights) if name == "code_pos" else _moved(before, place, heights)
            )
            if after is not before:
                changed[name] = after
        return replace(value, **changed) if changed else value
    if isinstance(value, (tuple, list)):
        items = [_moved(item, place, heights) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)
    if isinstance(value, dict):
        return {key: _moved(item, place, heights) for key, item in value.items()}
    return value


def _code_place(pos: Pos, place: Callable[[int, int], tuple[int, int]], heights: dict[int, int]) -> Pos:
    """Return where code begins.

    A line of it is counted from there, so imports that a rule put at its top begin above it.
    """
    if not pos.line:
        return pos
    more = max(heights.get(pos.line, 1) - 1, 0)
    line, column = place(pos.line + more, pos.column)
    return Pos(max(line - more, 1), column)
