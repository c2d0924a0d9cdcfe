"""Keywords of the schema for editors that know playbooks; others ignore them.

``x-place``: where templates at and below a key stand (``template_words.PLACES``). ``x-refers``: what a text there names. ``x-docs``: the page
that explains a mapping, as ``noetl docs`` takes it. ``x-templates``, at the root: what templates may say.
"""

from __future__ import annotations

from typing import Any

from noetl.dsl.editors.template_words import template_words

PLACE = {
    "Document.workload": "workload",
    "Admit": "admit",
    "StepBlock.args": "step args",
    "StepBlock.input": "step args",
    "StepBlock.set": "step set",
    "StepBlock.set_ctx": "step set",
    "StepBlock.vars": "vars",
    "LoopBlock.in": "loop.in",
    "TaskBody": "tool",
    "NamedTask": "tool",
    "TaskPolicy": "rule",
    "RuleThen": "rule",
    "TaskBody.set": "rule",
    "TaskBody.set_ctx": "rule",
    "TaskBody.set_iter": "rule",
    "NamedTask.set": "rule",
    "NamedTask.set_ctx": "rule",
    "NamedTask.set_iter": "rule",
    "TaskBody.vars": "vars",
    "NamedTask.vars": "vars",
    "ArcBlock": "arc",
    "CaseEntry": "case per call",
    "RetryBlock": "retry",
    "StepRetryBlock": "retry",
    "SinkBlock": "sink",
    "GoTo": "next args",
}
REFERS = {
    "ArcBlock.step": "step",
    "GoTo.step": "step",
    "StepBlock.next": "step",
    "Actions.next": "step",
    "StepSpec.on_error": "step",
    "StepSpec.cancels": "step",
    "ExecutorSpec.on_error": "step",
    "ExecutorSpec.entry_step": "step",
    "ExecutorSpec.final_step": "step",
    "RuleThen.to": "task",
}
OF_KINDS = {"auth": ("", "keychain"), "name": ("workbook", "workbook"), "task": ("workbook", "workbook")}
"""Parameter → the kind that it is of (empty: every kind) and what a text there names."""
_KIND = "kind_"
_KEYS, _TASK_KEYS = "dsl/keys", "dsl/task-keys"
TASK_MODELS = frozenset(
    {
        *("NamedTask", "TaskBody", "WrappedTask", "TaskSpec", "Timeouts", "TaskPolicy", "TaskFailure"),
        *("CacheBlock", "BudgetBlock", "StepRetryBlock", "RetryBlock", "RuleThen", "ResultBlock"),
        *("Selection", "StoreSpec", "OutputBlock", "TaskOutput", "Accumulate", "CaseEntry", "Actions"),
        *("Collect", "SinkBlock", "Message"),
    }
)
"""Mappings that the page of a task's keys has; the others are on the page of keys."""


def add_notes(schema: dict[str, Any]) -> None:
    """Add the keywords to a playbook's schema, in place."""
    definitions: dict[str, dict[str, Any]] = {"Document": schema, **schema["$defs"]}
    for keyword, notes in (("x-place", PLACE), ("x-refers", REFERS)):
        for where, note in notes.items():
            model, _, key = where.partition(".")
            part = definitions[model]
            (part["properties"][key] if key else part)[keyword] = note
    for name, definition in definitions.items():
        definition["x-docs"] = _page(name)
        kind = name.removeprefix(_KIND)
        for key, (of, note) in OF_KINDS.items():
            about = definition.get("properties", {}).get(key)
            if kind != name and of in ("", kind) and isinstance(about, dict):
                about["x-refers"] = note
    schema["x-templates"] = template_words()


def _page(name: str) -> str:
    if name.startswith(_KIND):
        return f"kinds/{name.removeprefix(_KIND).partition('_')[0]}"
    return _TASK_KEYS if name in TASK_MODELS else _KEYS
