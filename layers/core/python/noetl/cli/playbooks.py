"""Commands about playbook files: validate, graph, schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noetl.cli import errors, wiring
from noetl.cli.text import note, out, out_json
from noetl.domain.errors import InvalidInputError, NotFoundError, PlaybookError
from noetl.services.register_playbook import playbooks_below


def validate(targets: Sequence[str], *, strict: bool, as_json: bool) -> int:
    """Check playbook files (folders: every YAML file below that is a playbook); ``strict``: warnings count as errors."""
    refused = 0
    files = list(playbook_files(targets))
    for path in files:
        diagnostics = _diagnostics(path)
        bad = any(d.severity == "error" or strict for d in diagnostics)
        refused += bad
        if as_json:
            out_json({"file": str(path), "valid": not bad, "diagnostics": [_as_dict(d) for d in diagnostics]})
        elif diagnostics:
            out(errors.describe_diagnostics(diagnostics, str(path)))
        else:
            out(f"{path}: valid")
    if len(files) > 1 and not as_json:
        out(f"{len(files)} playbooks, {refused} refused")
    return errors.USAGE if refused else errors.DONE


def playbook_files(targets: Sequence[str]) -> Iterable[Path]:
    """Files as they are named; of folders, the playbooks below. Raises NotFoundError for a folder without any."""
    for target in targets:
        path = Path(target)
        if path.is_dir():
            found = list(playbooks_below(path))
            if not found:
                raise NotFoundError(f"there is no playbook below {target}", code="file_not_found")
            yield from found
        else:
            yield path


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


def _diagnostics(path: Path) -> tuple[Any, ...]:
    from noetl.dsl.compiler import compile_playbook
    from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError

    try:
        return compile_playbook(read_playbook(path), source_name=str(path), kinds=wiring.kinds()).diagnostics
    except InvalidPlaybookError as invalid:
        return invalid.diagnostics
    except PlaybookError as error:
        return (Diagnostic(error.code, error.message, 1, 1, hint=error.hint),)


def _as_dict(diagnostic: Any) -> dict[str, Any]:
    names = ("severity", "code", "message", "hint", "line", "column", "path")
    return {name: getattr(diagnostic, name) for name in names}


def graph(target: str) -> int:
    """The playbook's steps and arcs as Mermaid text."""
    from noetl.dsl.compiler import compile_playbook
    from noetl.dsl.graph import to_mermaid

    compiled = compile_playbook(read_playbook(Path(target)), source_name=target, kinds=wiring.kinds())
    out(to_mermaid(compiled.program).rstrip())
    return errors.DONE


def schema(output: str | None) -> int:
    """The JSON Schema of playbooks, for editors."""
    from noetl.cli.text import pretty
    from noetl.dsl.schema import playbook_schema

    text = pretty(playbook_schema(wiring.kinds()))
    if output is None:
        out(text)
        return errors.DONE
    try:
        Path(output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(
            f"{output} cannot be written: {error.strerror or error}", code="file_unwritable"
        ) from error
    note(f"wrote {output}")
    return errors.DONE
