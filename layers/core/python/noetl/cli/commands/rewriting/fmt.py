"""``noetl fmt``: playbook files in one layout, and in the newest form of the language."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.commands.playbooks import as_dict, is_tests, playbook_files, playbook_text
from noetl.cli.render.output import note, out, out_json, out_text
from noetl.domain.errors import InvalidInputError

if TYPE_CHECKING:
    from noetl.formatting.format import Formatted

STDIN = "-"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """``check`` and ``diff`` write nothing; ``canonical`` also rewrites spellings and forms."""

    check: bool = False
    diff: bool = False
    canonical: bool = False
    as_json: bool = False


def fmt(targets: Sequence[str], options: FormatOptions) -> int:
    """Format files (folders: every playbook below), or stdin for ``-``.

    All are read before the first is written.
    """
    if STDIN in targets and len(targets) > 1:
        raise InvalidInputError(
            "- means stdin and cannot be combined with files",
            code="usage",
            hint="name files, or - alone",
        )
    if list(targets) == [STDIN]:
        return _stdin(options)
    read = [(path, text, _formatted(text, str(path), options)) for path, text in _texts(targets)]
    if any(made is None for _, _, made in read):
        for path, text, made in read:
            if made is not None and options.as_json:
                _print(str(path), text, made, options)
        return errors.USAGE
    for path, text, made in read:
        assert made is not None
        _print(str(path), text, made, options)
        if made.text != text and not (options.check or options.diff):
            write_whole(path, made.text)
    changed = sum(made is not None and made.text != text for _, text, made in read)
    if not options.as_json and len(read) > 1:
        note(
            f"{len(read)} playbooks, {changed} {'would change' if options.check or options.diff else 'changed'}"
        )
    return errors.FAILED if changed and (options.check or options.diff) else errors.DONE


def _texts(targets: Sequence[str]) -> list[tuple[Path, str]]:
    """Read the playbooks. Files of tests keep the layout that they have."""
    found = []
    for path in playbook_files(targets):
        if is_tests(path):
            note(f"{path} is left as it is: it has tests; `noetl test {path}` runs them")
        else:
            found.append((path, playbook_text(path)))
    return found


def _stdin(options: FormatOptions) -> int:
    try:
        text = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"stdin is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None
    made = _formatted(text, "<stdin>", options)
    if made is None:
        return errors.USAGE
    asking = options.check or options.diff
    if asking or options.as_json:
        _print("<stdin>", text, made, options)
    else:
        _print_kept("<stdin>", made)
        out_text(made.text)
    return errors.FAILED if asking and made.text != text else errors.DONE


def _formatted(text: str, name: str, options: FormatOptions) -> Formatted | None:
    """Return the formatted text; None when it cannot be read, after reporting every problem."""
    from noetl.dsl.diagnostics import InvalidPlaybookError
    from noetl.formatting.format import canonical_text, format_text

    try:
        if options.canonical:
            return canonical_text(text, source_name=name, kinds=runtime_access.kinds())
        return format_text(text, source_name=name)
    except InvalidPlaybookError as invalid:
        if options.as_json:
            found = [as_dict(one, name, strict=False) for one in invalid.diagnostics]
            out_json({"file": name, "valid": False, "changed": False, "diagnostics": found})
        else:
            note(errors.describe_diagnostics(invalid.diagnostics, name))
        return None


def _print(name: str, text: str, made: Formatted, options: FormatOptions) -> None:
    changed = made.text != text
    if options.as_json:
        out_json(_report(name, changed, made))
        return
    _print_kept(name, made)
    if options.diff and changed:
        lines = difflib.unified_diff(
            text.splitlines(keepends=True), made.text.splitlines(keepends=True), name, f"{name} (formatted)"
        )
        out(
            "".join(
                line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
            ).rstrip("\n")
        )
    elif changed:
        out(f"{'would change' if options.check else 'changed'} {name}")


def _print_kept(name: str, made: Formatted) -> None:
    for kept in made.kept:
        note(f"{name}:{kept.line}: step {kept.step} stays in the event form: {kept.reason}")


def _report(name: str, changed: bool, made: Formatted) -> dict[str, Any]:
    kept = [{"step": one.step, "line": one.line, "reason": one.reason} for one in made.kept]
    return {
        "file": name,
        "valid": True,
        "changed": changed,
        "converted": list(made.converted),
        "kept": kept,
        "diagnostics": [],
    }


def write_whole(path: Path, text: str) -> None:
    """Replace a file as a whole: a concurrent reader sees the old or the new content.

    The text is written to a new file first: a link that lies under its name would be followed. Raises InvalidInputError.
    """
    beside: Path | None = None
    try:
        target = path.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".fmt")
        beside = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        beside.chmod(target.stat().st_mode & 0o7777)
        beside.replace(target)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        raise InvalidInputError(
            f"{path} cannot be written: {error.strerror or error}", code="file_unwritable"
        ) from error
