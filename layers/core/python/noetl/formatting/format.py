"""The two services of this package: format a playbook, and rewrite it in its newest form."""

from __future__ import annotations

from dataclasses import dataclass

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup
from noetl.domain.text.version_text import split_version
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import Diagnostics, InvalidPlaybookError
from noetl.dsl.yaml_text.loader import load
from noetl.formatting.nodes import Document
from noetl.formatting.order import order
from noetl.formatting.reading import read
from noetl.formatting.spelling import respell
from noetl.formatting.steps import Converter, StepChange, UnconvertedStep, refused_form
from noetl.formatting.writing import write


@dataclass(frozen=True, slots=True)
class Formatted:
    """A formatted playbook: ``text``, and what became of its steps.

    ``converted`` steps changed their form, ``kept`` ones could not.
    """

    text: str
    converted: tuple[str, ...] = ()
    kept: tuple[UnconvertedStep, ...] = ()


def format_text(text: str, *, source_name: str) -> Formatted:
    """Write the playbook in its layout; its meaning stays the same.

    Raises InvalidPlaybookError for a text that cannot be read.
    """
    playbook, files = split_version(text)
    document = read(playbook, source_name)
    order(document)
    made = write(document)
    _check_same(playbook, made, source_name)
    return Formatted(made + files)


def canonical_text(text: str, *, source_name: str, kinds: KindLookup) -> Formatted:
    """Write the playbook in the newest spelling, its steps in the canonical form.

    A step keeps its form where the canonical form does not say exactly the same.
    A document with anchors keeps its words: the text behind an alias is written once and may be read in several ways.
    Raises InvalidPlaybookError for a playbook that does not compile.
    """
    compile_playbook(text, source_name=source_name, kinds=kinds, shipped=False)
    playbook, files = split_version(text)
    document = read(playbook, source_name)
    if document.anchors:
        return format_text(text, source_name=source_name)
    respell(document, kinds)
    changes, unsaid = Converter(document, kinds).changes()
    kept = [step for _, step in unsaid]
    for change in changes:
        change.entry.value = change.after
    made = _written(document)
    if _problem(made, source_name, kinds) is not None:
        made = _one_by_one(document, changes, kept, source_name, kinds)
    kept.sort(key=lambda one: one.line)
    return Formatted(made + files, tuple(change.name for change in changes), tuple(kept))


def _written(document: Document) -> str:
    order(document)
    return write(document)


def _one_by_one(
    document: Document,
    changes: list[StepChange],
    kept: list[UnconvertedStep],
    source_name: str,
    kinds: KindLookup,
) -> str:
    """Restore the steps whose new form the compiler refuses; ``changes`` keeps the others."""
    for change in changes:
        change.entry.value = change.before
    made = _written(document)
    problem = _problem(made, source_name, kinds)
    if problem is not None:
        raise _defect(source_name, problem)
    for change in list(changes):
        change.entry.value = change.after
        attempt = _written(document)
        problem = _problem(attempt, source_name, kinds)
        if problem is None:
            made = attempt
            continue
        change.entry.value = change.before
        changes.remove(change)
        kept.append(UnconvertedStep(change.name, change.entry.line, refused_form(problem)))
    return made


def _defect(source_name: str, problem: str) -> PlaybookError:
    return PlaybookError(
        f"{source_name} cannot be formatted: {problem}",
        code="format_defect",
        hint="this is a defect of noetl fmt: report it with the file",
    )


def _problem(text: str, source_name: str, kinds: KindLookup) -> str | None:
    try:
        compile_playbook(text, source_name=source_name, kinds=kinds, shipped=False)
    except InvalidPlaybookError as invalid:
        return str(invalid).splitlines()[0]
    return None


def _check_same(before: str, after: str, source_name: str) -> None:
    """Check that the written text has the values that were read.

    A formatter that changed a value would be worse than none.
    """
    old, new = load(before, Diagnostics()), load(after, Diagnostics())
    if old is None or new is None or old.plain() != new.plain():
        raise _defect(source_name, "a value would change")
