"""Rewriting of a playbook of an older dialect, for callers that have its text alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import MIGRATED_BYTES

if TYPE_CHECKING:
    from noetl.migration.migrate import Migrated


def migrate_playbook(text: str, *, source_name: str) -> Migrated:
    """Rewrite a playbook to what runs today.

    Raises InvalidPlaybookError for what is no YAML mapping, InvalidInputError(code="size_limit").
    """
    from noetl.kinds.registry import default_registry
    from noetl.migration.migrate import migrate_text

    check_rewritten_size(text, "noetl migrate")
    return migrate_text(text, source_name=source_name, kinds=default_registry(), canonical=True)


def check_rewritten_size(text: str, command: str) -> None:
    """Hold a playbook that a request rewrites against its limit; ``command`` takes any.

    Raises InvalidInputError(code="size_limit").
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MIGRATED_BYTES.value:
        raise exceeded(MIGRATED_BYTES, size, "the playbook", remedy=f"run `{command}` with the file")
