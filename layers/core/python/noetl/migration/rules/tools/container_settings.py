"""Settings of a Kubernetes job under ``kind: container``."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, map_of, plain
from noetl.migration.page import Page, kind_of, remove
from noetl.migration.rule import Rule

_GONE = frozenset(
    {
        *(
            "namespace",
            "service_account",
            "serviceAccount",
            "backoff_limit",
            "image_pull_policy",
            "node_selector",
        ),
        *(
            "ttl_seconds_after_finished",
            "restart_policy",
            "tolerations",
            "image_pull_secrets",
            "cleanup",
            "job_name",
        ),
        *("labels", "annotations", "active_deadline_seconds", "stream_logs"),
    }
)
_UNITS = {"": 1 / 1048576, "Ki": 1 / 1024, "Mi": 1, "Gi": 1024, "M": 1e6 / 1048576, "G": 1e9 / 1048576}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(m|Ki|Mi|Gi|M|G|)\Z")


def apply(page: Page) -> None:
    """Keep image, command, variables and size; what belongs to a cluster has no place here."""
    for tool in page.tools():
        if kind_of(tool) != "container":
            continue
        for entry in list(tool.entries):
            if entry.key in _GONE:
                remove(tool, entry)
                page.note(entry, f"`{entry.key}` is left out: it is a setting of a Kubernetes job")
            elif entry.key == "env" and isinstance(entry.value, List):
                _variables(page, entry)
            elif entry.key == "args" and isinstance(entry.value, List) and not entry.value.entries:
                remove(tool, entry)
            elif entry.key == "resources":
                _size(page, tool, entry)


def _variables(page: Page, entry: Entry) -> None:
    assert isinstance(entry.value, List)
    made = []
    for item in entry.value.entries:
        block = map_of(item.value)
        name, value = plain(block.get("name")), block.get("value")
        if not isinstance(name, str) or value is None:
            page.refuse(item, "a variable whose value is in the cluster", "name a credential under `secrets`")
            return
        made.append(
            Entry(name, value, name, item.lead, item.trail, item.after, False, item.line, item.column)
        )
    entry.value = Map(made)


def _size(page: Page, tool: Map, entry: Entry) -> None:
    block = map_of(entry.value)
    limits = plain(block.get("limits", "requests"))
    found = limits if isinstance(limits, dict) else {}
    cpu, memory = _number(found.get("cpu"), cpu=True), _number(found.get("memory"))
    made = []
    if cpu is not None and not tool.has("cpu"):
        made.append(Entry("cpu", Text(cpu), "cpu", line=entry.line, column=entry.column))
    if memory is not None and not tool.has("memory"):
        made.append(Entry("memory", Text(int(memory)), "memory", line=entry.line, column=entry.column))
    if not made:
        page.refuse(entry, "`resources` is not understood", "write cpu: 0.5 and memory: 1024 (MiB)")
        return
    place = tool.entries.index(entry)
    tool.entries[place : place + 1] = made
    made[0].lead = entry.lead


def _number(text: object, *, cpu: bool = False) -> float | int | None:
    found = _AMOUNT.match(str(text))
    if found is None:
        return None
    value, unit = float(found[1]), found[2]
    if cpu:
        amount = value / 1000 if unit == "m" else value
        return int(amount) if amount == int(amount) else amount
    return value * _UNITS[unit] if unit in _UNITS else None


RULE = Rule("container-settings", "A container has an image, a command, variables and a size.", apply)
