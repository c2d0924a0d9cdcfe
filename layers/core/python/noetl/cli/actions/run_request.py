"""What `noetl run` and `noetl exec` are asked to start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from noetl.cli import errors
from noetl.cli.actions.labels import parse_labels
from noetl.cli.actions.playbook_files import full, playbook_text
from noetl.cli.client import runtime_access
from noetl.cli.client.protocol import NewExecution
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note

if TYPE_CHECKING:
    from noetl.dsl.diagnostics import Diagnostic, InvalidPlaybookError
    from noetl.dsl.program import Program


class RunRequest(msgspec.Struct, frozen=True):
    """What is started, and how.

    ``key``: an idempotency key, or empty. ``priority`` None: the playbook's own.

    ``strict``: a value that the playbook does not know is refused. ``labels``: for lists and filters.
    """

    target: str
    sets: Sequence[str] = ()
    payload: str | None = None
    priority: int | None = None
    key: str = ""
    strict: bool = False
    labels: Sequence[str] = ()
    dry_run: bool = False
    no_cache: bool = False

    def start(self, payload: dict[str, Any]) -> NewExecution:
        labels = parse_labels(self.labels)
        return NewExecution(payload, self.priority, self.key, labels, no_cache=self.no_cache)


def checked_text(
    target: str, at: CommandTarget, *, warn: bool, runs: bool = False, strict: bool = False
) -> tuple[str | None, Program | None]:
    """Read the text of a playbook file and compile it; None for a path of the catalog.

    An invalid one is refused before anything is opened; for a server, which knows its own kinds, it is not compiled here. ``runs``: this
    process runs it, and prepares its first task. ``strict``: an older dialect is refused.
    """
    text = playbook_text(target)
    if text is None or at.remote:
        return text, None
    checked = runtime_access.compile_playbook(text, full(target), at.home)
    if strict and checked.rewritten:
        raise _older(checked.warnings, full(target))
    if warn and checked.warnings:
        note(errors.describe_diagnostics(checked.warnings, full(target)))
    if runs:
        runtime_access.prepare_first_task(checked.program, at.home)
    return text, checked.program


def _older(warnings: Sequence[Diagnostic], source_name: str) -> InvalidPlaybookError:
    """Return the error of a playbook in an older dialect that is to be refused."""
    from noetl.dsl.diagnostics import InvalidPlaybookError
    from noetl.migration.older import OLDER

    hint = "`noetl migrate --write FILE` rewrites the file"
    found = [
        msgspec.structs.replace(one, severity="error", hint=one.hint and hint)
        for one in warnings
        if one.code == OLDER
    ]
    return InvalidPlaybookError(found, source_name=source_name)
