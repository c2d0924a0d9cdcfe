"""Defaults that stand at the root under ``vars``, ``ctx`` or ``spec``."""

from __future__ import annotations

from noetl.formatting.nodes import Entry, Map
from noetl.migration.page import Page
from noetl.migration.rule import Rule

_ROOTS = ("vars", "ctx", "spec", "context")


def apply(page: Page) -> None:
    """Move the block to ``workload``.

    Templates that read ``spec.x`` or root ``vars.x`` read ``workload.x`` afterwards.
    """
    for name in _ROOTS:
        entry = page.root.entry(name)
        if entry is None or not isinstance(entry.value, Map):
            continue
        if _moved(page, entry, entry.value) and name in ("spec", "vars"):
            _read_from_workload(page, name, {str(line.key) for line in entry.value.entries})


def _moved(page: Page, entry: Entry, block: Map) -> bool:
    root = page.root
    workload = root.entry("workload")
    if workload is None:
        entry.key = entry.raw_key = "workload"
        return True
    into = workload.value
    if not isinstance(into, Map):
        return False
    twice = [line for line in block.entries if into.has(str(line.key))]
    for line in twice:
        page.refuse(line, f"`{line.key}` is written in `{entry.key}` and in `workload`", "keep one of them")
    if twice:
        return False
    root.entries.remove(entry)
    block.entries[0].lead = [*entry.lead, *block.entries[0].lead]
    into.entries += block.entries
    into.flow = False
    return True


def _read_from_workload(page: Page, name: str, keys: set[str]) -> None:
    def change(found: str, attribute: str | None) -> tuple[str, bool] | None:
        return ("workload", False) if found == name and attribute in keys else None

    page.substitute(change)


RULE = Rule("root-variables", "Defaults of a playbook belong to `workload`.", apply)
