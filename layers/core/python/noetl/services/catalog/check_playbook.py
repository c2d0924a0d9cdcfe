"""Check and format a playbook that is being written; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from noetl.domain.kinds import KindLookup
from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
from noetl.dsl.editors.shapes import PlaybookNames, TextEdit
from noetl.dsl.program import Program
from noetl.services.catalog.migrate_playbook import check_rewritten_size
from noetl.services.catalog.register_playbook import Compiled


class Checked(msgspec.Struct, frozen=True):
    """What the compiler says of a playbook.

    ``program`` is None where it does not compile.
    """

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]


def check_playbook(text: str, *, source_name: str, compile: Callable[[str, str], Compiled]) -> Checked:
    """Compile a playbook and return every diagnostic, errors and warnings alike."""
    try:
        compiled = compile(text, source_name)
    except InvalidPlaybookError as error:
        return Checked(None, error.diagnostics)
    return Checked(compiled.program, compiled.warnings)


def quick_fixes(text: str, found: Checked) -> tuple[TextEdit | None, ...]:
    """Return the change that each diagnostic suggests, if it suggests one."""
    from noetl.dsl.editors.quick_fixes import quick_fix

    lines = text.split("\n")
    return tuple(quick_fix(lines, one) for one in found.diagnostics)


def playbook_names(text: str, kinds: KindLookup) -> PlaybookNames | None:
    """Return the names that a playbook declares; None for a text that is no playbook."""
    from noetl.dsl.editors.names import names_of

    return names_of(text, kinds)


def playbook_schema(kinds: KindLookup) -> dict[str, Any]:
    """Return the JSON Schema of playbooks with these kinds, as ``noetl schema`` prints it."""
    from noetl.dsl.editors.schema import playbook_schema as make

    return make(kinds)


def format_playbook(text: str, *, source_name: str) -> str:
    """Write a playbook in its layout, as ``noetl fmt`` does.

    Raises InvalidPlaybookError for a text that cannot be read, InvalidInputError(code="size_limit").
    """
    from noetl.formatting.format import format_text

    check_rewritten_size(text, "noetl fmt")
    return format_text(text, source_name=source_name).text
