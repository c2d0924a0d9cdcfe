"""Commands about playbook files: validate, graph, schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import iglob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note, out, out_json, out_text
from noetl.domain.errors import InvalidInputError, NoetlError, NotFoundError, PlaybookError
from noetl.services.catalog.register_playbook import is_playbook, playbooks_below

if TYPE_CHECKING:
    from noetl.dsl.program import Program

GRAPHS = ("mermaid", "dot", "json")


def validate(
    targets: Sequence[str],
    *,
    strict: bool,
    as_json: bool,
    online: CommandTarget | None = None,
    notes: bool = False,
) -> int:
    """Check playbook files (folders: every playbook below), and files of tests that are named.

    ``strict``: warnings count as errors, and so do spellings of older generations and names that nothing uses. ``online``: also check
    that the credentials and playbooks which they name are there. ``notes``: also show notes, which leave the exit code as it is. The exit
    code is 0 when every file is valid, 2 when one is not.
    """
    files = list(playbook_files(targets))
    checked = [(path, *_check(path, strict=strict, notes=notes)) for path in files]
    found = [(path, diagnostics) for path, diagnostics, _ in checked]
    if online is not None:
        found = _against(online, checked)
    refused = 0
    for path, diagnostics in found:
        bad = any(_severity(d, strict=strict) == "error" for d in diagnostics)
        refused += bad
        invalid = any(d.severity == "error" for d in diagnostics)
        if as_json:
            problems = [as_dict(d, str(path), strict=strict) for d in diagnostics]
            report = {"file": str(path), "valid": not bad, "diagnostics": problems}
            if invalid and _is_older(path):
                report["hint"] = f"noetl migrate {path}"
            out_json(report)
        elif diagnostics:
            out(errors.describe_diagnostics(diagnostics, str(path)))
            if invalid and _is_older(path):
                out(f"  hint: `noetl migrate {path}` rewrites older spellings of the language")
        else:
            out(f"{path}: valid{_what_it_is(path)}")
    if len(files) > 1 and not as_json:
        out(_summary(refused, [diagnostics for _, diagnostics in found]))
    return errors.USAGE if refused else errors.DONE


def _is_older(path: Path) -> bool:
    """Return whether a playbook that is not valid is written in an older dialect."""
    from noetl.migration.migrate import migrate_text

    try:
        made = migrate_text(playbook_text(path), source_name=str(path), kinds=runtime_access.kinds())
    except NoetlError:
        return False
    return made.changed and not made.proved


def _against(
    at: CommandTarget, checked: Sequence[tuple[Path, Sequence[Any], Program | None]]
) -> list[tuple[Path, Sequence[Any]]]:
    """Add what the place lacks.

    Playbooks that are checked together find each other: they can be registered together.
    """
    from noetl.cli.client.connect import open_place
    from noetl.services.catalog.playbook_needs import missing, needs_of

    beside = {program.path: 1 for _, _, program in checked if program is not None}
    # Credentials are looked up when a playbook asks for them, so the place stays open.
    with open_place(at) as place:
        present = place.present()
        present = msgspec.structs.replace(present, playbooks={**beside, **present.playbooks})
        return [
            (path, [*diagnostics, *(missing(needs_of(program), present) if program is not None else ())])
            for path, diagnostics, program in checked
        ]


def _summary(refused: int, found: Sequence[Sequence[Any]]) -> str:
    counts = errors.describe_counts([problem for diagnostics in found for problem in diagnostics])
    text = f"{len(found)} playbooks, {refused} refused"
    return f"{text}: {counts}" if counts else text


def playbook_files(targets: Sequence[str]) -> Iterable[Path]:
    """List playbook files, each once.

    Files as they are named; of folders and of what a pattern (``**/*.yaml``) matches, the playbooks.

    Raises NotFoundError for a folder or a pattern without any.
    """
    seen: set[Path] = set()
    for target in targets:
        for path in _matching(target):
            if path not in seen:
                seen.add(path)
                yield path


def _matching(target: str) -> list[Path]:
    path = Path(target)
    if path.is_dir():
        found = list(playbooks_below(path))
    elif any(char in target for char in "*?[") and not path.exists():
        named = sorted(Path(name) for name in iglob(target, recursive=True))  # noqa: PTH207 - patterns may be absolute
        found = [one for one in named if one.is_file() and is_playbook(one)]
    else:
        return [path]
    if not found:
        where = f"below {target}" if path.is_dir() else f"that {target} matches"
        raise NotFoundError(f"there is no playbook {where}", code="file_not_found")
    return found


def read_playbook(path: Path) -> bytes:
    """Raises NotFoundError and InvalidInputError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}", code="file_not_found") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(f"{path} cannot be read: {reason}", code="file_unreadable") from None


def playbook_text(path: Path) -> str:
    """Raises NotFoundError and InvalidInputError."""
    try:
        return read_playbook(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None


def version_text(path: Path) -> str | bytes:
    """Read a playbook with its modules behind it.

    What is not UTF-8 is left to the compiler. Raises NotFoundError and InvalidInputError.
    """
    from noetl.services.catalog.files_beside import text_with_files

    data = read_playbook(path)
    try:
        return text_with_files(data.decode("utf-8"), path)
    except UnicodeDecodeError:
        return data


def is_tests(path: Path) -> bool:
    """Return whether a file is one of tests, by its name, and no playbook."""
    return path.name.endswith((".test.yaml", ".test.yml")) and not is_playbook(path)


def _what_it_is(path: Path) -> str:
    return f" tests; `noetl test {path}` runs them" if is_tests(path) else ""


def _check_tests(path: Path) -> tuple[Sequence[Any], None]:
    """Check a file of tests, with the playbook that it tests."""
    from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
    from noetl.testing.testfile import InvalidTestFileError, read_test_file

    try:
        read_test_file(path, runtime_access.kinds())
    except InvalidTestFileError as invalid:
        return invalid.diagnostics, None
    except InvalidPlaybookError as invalid:
        first = next(one for one in invalid.diagnostics if one.severity == "error")
        message = f"the playbook {invalid.source_name} is not valid: {first.message}"
        return (Diagnostic(first.code, message, 1, 1, hint=f"noetl validate {invalid.source_name}"),), None
    return (), None


def _check(path: Path, *, strict: bool, notes: bool) -> tuple[Sequence[Any], Program | None]:
    from noetl.dsl.compiler import compile_playbook
    from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
    from noetl.migration.older import compile_any

    if is_tests(path):
        return _check_tests(path)
    try:
        text, kinds = version_text(path), runtime_access.kinds()
        kinds = kinds.with_notes() if notes else kinds
        if strict:
            done = compile_playbook(text, source_name=str(path), kinds=kinds, strict=strict)
        else:
            done, _ = compile_any(text, source_name=str(path), kinds=kinds)
        return done.diagnostics, done.program
    except InvalidPlaybookError as invalid:
        return invalid.diagnostics, None
    except PlaybookError as error:
        return (Diagnostic(error.code, error.message, 1, 1, hint=error.hint),), None


def as_dict(diagnostic: Any, file: str, *, strict: bool) -> dict[str, Any]:
    from noetl.dsl.diagnostics import help_for

    names = ("code", "line", "column", "message", "hint", "path")
    found = {name: getattr(diagnostic, name) for name in names}
    return {
        "file": file,
        "severity": _severity(diagnostic, strict=strict),
        **found,
        "help": help_for(diagnostic.code),
    }


def _severity(diagnostic: Any, *, strict: bool) -> str:
    """Return the severity of a diagnostic: where warnings count as errors, notes do not."""
    severity: str = diagnostic.severity
    return "error" if strict and severity == "warning" else severity


def graph(target: str, form: str) -> int:
    """Print the graph of a playbook.

    ``mermaid`` or ``dot`` text, or ``json``. Raises InvalidInputError.
    """
    from noetl.cli.render.output import pretty
    from noetl.dsl.editors.drawing import to_dot, to_mermaid
    from noetl.dsl.editors.graph import to_json
    from noetl.migration.older import compile_any

    if form not in GRAPHS:
        raise InvalidInputError(
            f"{form!r} is not a format of a graph", code="invalid_format", hint=f"one of {', '.join(GRAPHS)}"
        )
    text = version_text(Path(target))
    compiled, _ = compile_any(text, source_name=target, kinds=runtime_access.kinds())
    if form == "json":
        out(pretty(to_json(compiled.program)))
    else:
        out((to_dot if form == "dot" else to_mermaid)(compiled.program).rstrip())
    return errors.DONE


def schema(output: str | None, *, of_tests: bool = False) -> int:
    """The JSON Schema of playbooks, or of their tests, for editors."""
    from noetl.cli.render.output import pretty
    from noetl.dsl.editors.schema import playbook_schema
    from noetl.testing.document import test_schema

    text = pretty(test_schema() if of_tests else playbook_schema(runtime_access.kinds()))
    if output is None:
        out_text(f"{text}\n")
        return errors.DONE
    try:
        Path(output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(
            f"{output} cannot be written: {error.strerror or error}", code="file_unwritable"
        ) from error
    note(f"wrote {output}")
    return errors.DONE
