"""Keys of a step that have another name today.

They are ``with``, ``iterator``, ``timeout`` and ``description``.
"""

from __future__ import annotations

from noetl.formatting.nodes import Map, text_of
from noetl.migration.page import Page, named
from noetl.migration.rule import Rule

_RENAMED = {"with": "args", "description": "desc", "data": "args", "name": "step", "id": "step"}


def apply(page: Page) -> None:
    """Rename them; a step's ``timeout`` belongs to its ``spec``."""
    for step in page.steps():
        for old, new in _RENAMED.items():
            if step.has(old) and not step.has(new) and not (old == "data" and _takes_data(step)):
                step.rename(old, new)
        timeout = step.entry("timeout")
        if timeout is not None and not isinstance(timeout.value, Map):
            spec = step.get("spec")
            if spec is None:
                place = step.entries.index(timeout)
                step.entries[place] = named(
                    "spec", Map([named("timeout", timeout.value)], flow=True), timeout
                )
            elif isinstance(spec, Map) and not spec.has("timeout"):
                step.entries.remove(timeout)
                spec.entries.append(timeout)
        loop = step.get("loop")
        if isinstance(loop, Map):
            for old, new in (
                ("collection", "in"),
                ("element", "iterator"),
                ("items", "in"),
                ("as", "iterator"),
            ):
                if loop.has(old) and not loop.has(new):
                    loop.rename(old, new)


def _takes_data(step: Map) -> bool:
    tool = step.get("tool")
    return isinstance(tool, Map) and text_of(tool.get("kind")) in ("http", "s3", "gcs", "artifact")


RULE = Rule(
    "step-words", "`with` and `data` of a step are `args`; a step's `timeout` belongs in its `spec`.", apply
)
