"""The two services of this package: a playbook in its layout, and a playbook in its newest form."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostics, InvalidPlaybookError
from noetl.dsl.loader import load
from noetl.formatting.nodes import Entry, Map, map_of, text_of
from noetl.formatting.order import order
from noetl.formatting.reading import read
from noetl.formatting.spelling import respell
from noetl.formatting.steps import Converter, Kept
from noetl.formatting.templates import CannotSayError
from noetl.formatting.writing import write


@dataclass(frozen=True, slots=True)
class Formatted:
    """``text`` is the playbook as it should be written; ``converted`` steps changed their form, ``kept`` ones could not."""

    text: str
    converted: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()


def format_text(text: str, *, source_name: str) -> Formatted:
    """The playbook in its layout; what it says stays the same. Raises InvalidPlaybookError for what cannot be read."""
    document = read(text, source_name)
    order(document)
    made = write(document)
    _check_same(text, made, source_name)
    return Formatted(made)


def canonical_text(text: str, *, source_name: str, kinds: KindLookup) -> Formatted:
    """The playbook in the newest spelling, its steps in the canonical form where that says exactly the same.

    Raises InvalidPlaybookError for what does not compile.
    """
    compile_playbook(text, source_name=source_name, kinds=kinds)
    document = read(text, source_name)
    if document.anchors:
        return format_text(text, source_name=source_name)
    respell(document, kinds)
    converter = Converter(document, kinds)
    steps: dict[str, tuple[Entry, Map, Map]] = {}
    kept: list[Kept] = []
    for entry in converter.candidates():
        before = map_of(entry.value)
        name = text_of(before.get("step")) or ""
        try:
            steps[name] = (entry, before, converter.convert(entry))
        except (CannotSayError, ValueError) as reason:
            kept.append(Kept(name, entry.line, str(reason)))
    for entry, _, after in steps.values():
        entry.value = after
    order(document)
    made = write(document)
    if _problem(made, source_name, kinds) is not None:
        made = _one_by_one(document, steps, kept, source_name, kinds)
    return Formatted(made, tuple(steps), tuple(sorted(kept, key=lambda one: one.line)))


def _one_by_one(
    document: object,
    steps: dict[str, tuple[Entry, Map, Map]],
    kept: list[Kept],
    source_name: str,
    kinds: KindLookup,
) -> str:
    """Find the steps that the compiler refuses in their new form, and leave those as they were."""
    raise NotImplementedError


def _problem(text: str, source_name: str, kinds: KindLookup) -> str | None:
    try:
        compile_playbook(text, source_name=source_name, kinds=kinds)
    except InvalidPlaybookError as invalid:
        return str(invalid)
    return None


def _check_same(before: str, after: str, source_name: str) -> None:
    """What was written says what was read: a formatter that changed a value would be worse than none."""
    old, new = load(before, Diagnostics()), load(after, Diagnostics())
    if old is None or new is None or old.plain() != new.plain():
        raise PlaybookError(
            f"{source_name} cannot be formatted without changing a value",
            code="format_changed_a_value",
            hint="this is a defect of noetl fmt: report it with the file",
        )
