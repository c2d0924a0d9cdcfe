"""``noetl migrate``: playbooks of older dialects as they are written today."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.commands.playbooks import as_dict, playbook_files, playbook_text
from noetl.cli.commands.rewriting.fmt import STDIN, write_whole
from noetl.cli.render.output import note, out, out_json, out_text
from noetl.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from noetl.migration.changes import Change
    from noetl.migration.migrate import Migrated

_SHOWN = 12
"""Lines of one side of a change that are printed."""
_SCRIPT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """Without any of them the changes are explained and nothing is written."""

    check: bool = False
    write: bool = False
    diff: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """``made`` is None for what is no YAML mapping: then ``problems`` say why."""

    name: str
    path: Path | None
    made: Migrated | None
    problems: tuple[Any, ...] = ()


def migrate(targets: Sequence[str], options: MigrateOptions) -> int:
    """Rewrite playbooks (folders: every playbook below; ``-``: stdin).

    A file that would not run afterwards is left as it is.

    0: nothing to do, or all that was asked for is done. 1: with ``check``, a file would change. 2: a file cannot be rewritten.
    """
    if options.check and options.write:
        raise InvalidInputError("--check writes nothing", code="usage", hint="give --check or --write")
    if STDIN in targets and len(targets) > 1:
        raise InvalidInputError(
            "- means stdin and cannot be combined with files",
            code="usage",
            hint="name files, or - alone",
        )
    if list(targets) == [STDIN]:
        return _stdin(options)
    read = [_migrated(playbook_text(path), str(path), path) for path in playbook_files(targets)]
    for one in read:
        if (
            one.path is not None
            and one.made is not None
            and options.write
            and one.made.changed
            and one.made.runs
        ):
            write_whole(one.path, one.made.text)
        _print(one, options)
    if len(read) > 1 and not options.as_json:
        note(_summary(read, options))
    return _code(read, options)


def _stdin(options: MigrateOptions) -> int:
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"stdin is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None
    one = _migrated(text, "<stdin>", None)
    if options.check or options.diff or options.as_json or one.made is None or not one.made.runs:
        _print(one, options)
    else:
        out_text(one.made.text)
    return _code([one], options)


def _migrated(text: str, name: str, path: Path | None) -> _Read:
    from noetl.dsl.diagnostics import InvalidPlaybookError
    from noetl.migration.migrate import migrate_text

    try:
        made = migrate_text(
            text,
            source_name=name,
            kinds=runtime_access.kinds(),
            read_file=files_of(path),
            canonical=True,
        )
    except InvalidPlaybookError as invalid:
        return _Read(name, path, None, invalid.diagnostics)
    return _Read(name, path, made)


def files_of(path: Path | None) -> Callable[[str], str | None]:
    """Return a reader of the files that a playbook names.

    It finds them beside the playbook, or below the working directory.
    """

    def read_file(name: str) -> str | None:
        bases = [] if path is None else [path.parent.resolve(), Path.cwd().resolve()]
        for base in bases:
            try:
                place = (base / name).resolve()
                if place.is_relative_to(base) and place.is_file() and place.stat().st_size <= _SCRIPT_BYTES:
                    return place.read_text(encoding="utf-8")
            except (OSError, ValueError):
                continue
        return None

    return read_file


def migrated_text(path: Path) -> str:
    """Return a playbook as it is written today.

    Raises InvalidPlaybookError with what keeps it from running, at lines of the file.
    """
    from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError

    one = _migrated(playbook_text(path), str(path), path)
    made = one.made
    if made is None:
        raise InvalidPlaybookError(one.problems, source_name=str(path))
    if not made.runs:
        refused = [
            Diagnostic("cannot-migrate", refusal.message, refusal.line, refusal.column, hint=refusal.hint)
            for refusal in made.refusals
        ]
        found = sorted((*refused, *made.problems), key=lambda each: (each.line, each.column))
        raise InvalidPlaybookError(found, source_name=str(path))
    return made.text


def _code(read: Sequence[_Read], options: MigrateOptions) -> int:
    if any(one.made is None or not one.made.runs for one in read):
        return errors.USAGE
    if options.check and any(one.made is not None and one.made.changed for one in read):
        return errors.FAILED
    return errors.DONE


def _summary(read: Sequence[_Read], options: MigrateOptions) -> str:
    refused = sum(one.made is None or not one.made.runs for one in read)
    changed = sum(one.made is not None and one.made.changed and one.made.runs for one in read)
    verb = "rewritten" if options.write else "would be rewritten"
    return f"{len(read)} playbooks: {changed} {verb}, {refused} refused, {len(read) - changed - refused} as they should be"


# --- what is shown ---


def _print(one: _Read, options: MigrateOptions) -> None:
    if options.as_json:
        out_json(_report(one, options))
        return
    made = one.made
    if made is None:
        note(errors.describe_diagnostics(one.problems, one.name))
        return
    name = errors.near(one.name)
    if options.diff:
        _diff(name, made)
    else:
        for change in made.changes:
            _change(name, change)
    for remark in made.notes:
        note(f"{name}:{remark.line}: note: {remark.text}")
    for refusal in made.refusals:
        hint = f" ({refusal.hint})" if refusal.hint else ""
        note(f"{name}:{refusal.line}:{refusal.column}: refused: {refusal.message}{hint}")
    if made.problems:
        note(errors.describe_diagnostics(made.problems, one.name))
    _verdict(name, made, options)


def _verdict(name: str, made: Migrated, options: MigrateOptions) -> None:
    if not made.runs:
        left = len(made.refusals) + len(made.problems)
        places = "1 place is" if left == 1 else f"{left} places are"
        note(f"{name}: left as it is: {places} not rewritten by any rule")
    elif not made.changed:
        out(f"{name}: nothing to rewrite")
    else:
        count = len(made.changes)
        verb = "rewritten" if options.write else "would be rewritten"
        proof = "it does the same as before" if made.proved else "the result compiles"
        hint = "" if options.write or options.check else "; --write saves it"
        out(f"{name}: {verb} at {count} {'place' if count == 1 else 'places'}: {proof}{hint}")


def _change(name: str, change: Change) -> None:
    from noetl.migration.rules import RULES

    summary = next(rule.summary for rule in RULES if rule.name == change.rule)
    out(f"{name}:{change.line}: {change.rule}: {summary}")
    for sign, text in (("-", change.before), ("+", change.after)):
        lines = text.splitlines()
        for line in lines[:_SHOWN]:
            out(f"    {sign} {line}")
        if len(lines) > _SHOWN:
            out(f"    {sign} … {len(lines) - _SHOWN} more lines")


def _diff(name: str, made: Migrated) -> None:
    lines = difflib.unified_diff(
        made.original.splitlines(keepends=True),
        made.text.splitlines(keepends=True),
        name,
        f"{name} (migrated)",
    )
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    if text:
        out(text.rstrip("\n"))


def _report(one: _Read, options: MigrateOptions) -> dict[str, Any]:
    made = one.made
    problems = one.problems if made is None else made.problems
    report: dict[str, Any] = {
        "file": one.name,
        "runs": made is not None and made.runs,
        "changed": made is not None and made.changed,
        "written": bool(made and options.write and made.changed and made.runs and one.path),
        "proved": made is not None and made.proved,
        "changes": [],
        "notes": [],
        "refusals": [],
        "diagnostics": [as_dict(problem, one.name, strict=False) for problem in problems],
    }
    if made is None:
        return report
    report["changes"] = [
        {"rule": each.rule, "line": each.line, "before": each.before, "after": each.after}
        for each in made.changes
    ]
    report["notes"] = [{"rule": each.rule, "line": each.line, "text": each.text} for each in made.notes]
    report["refusals"] = [
        {
            "rule": each.rule,
            "line": each.line,
            "column": each.column,
            "message": each.message,
            "hint": each.hint,
        }
        for each in made.refusals
    ]
    if not options.write:
        report["text"] = made.text
    return report
