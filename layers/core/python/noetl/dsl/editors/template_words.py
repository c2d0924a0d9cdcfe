"""What editors offer in templates: names with their places, filters, tests, functions."""

from __future__ import annotations

from typing import Any

from noetl.dsl.expressions import FUNCTIONS
from noetl.dsl.template_rules import FILTERS, GLOBAL_FUNCTIONS, TESTS

PLACES = (
    *("workload", "admit", "step args", "loop.in", "tool", "rule", "step set", "arc", "case per call"),
    *("case at the end", "vars", "retry", "sink", "next args"),
)
"""Where templates stand, called as the columns of docs/scopes.md are."""

_IN_STEP = PLACES[1:]
_AFTER_BEGIN = PLACES[4:]
_CALL = ("tool", "rule", "case per call", "vars", "retry", "sink")
_AFTER_CALL = ("rule", "case per call", "vars", "retry", "sink")
_TASKS = ("tool", "rule", "step set", "arc")
_SEQUENCE = ("tool", "rule", "case per call", "retry", "sink")
_SUCCESS = ("status", "result", "data", "ref", "error", "meta", "http", "pg", "py")

NAMES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "workload": ("The payload over the defaults of the playbook; it never changes.", PLACES, ()),
    "ctx": ("Values that `set` and reducers write, shared by all steps.", PLACES, ()),
    "vars": ("Values that `vars` of steps keep.", PLACES, ()),
    "keychain": ("Credentials, by name; only where nothing is kept.", ("tool", "sink"), ()),
    "args": ("The arguments of the step.", PLACES, ()),
    "input": ("The arguments of the step; in a task, the input of the task.", PLACES, ()),
    "step": ("The step: its name, and what `set` writes to step.<name>.", PLACES, ("name",)),
    "execution_id": ("The execution's id, as text.", PLACES, ()),
    "job": ("The execution.", PLACES, ("execution_id", "uuid", "name", "path")),
    "attempt": ("The number of the try, from 1.", PLACES, ()),
    "iter": (
        "The iteration: its place, and what `set` writes to iter.<name>.",
        _CALL,
        ("index", "first", "last", "length", "count", "total", "parent"),
    ),
    "loop": (
        "The loop's place in the list.",
        ("tool", "rule", "case per call", "case at the end", "vars", "retry", "sink"),
        ("index", "index0", "first", "last", "length"),
    ),
    "loop_index": ("The number of the iteration, from 0.", _CALL, ()),
    "_index": ("The number of the iteration, from 0.", _CALL, ()),
    "_attempt": ("The number of the task's try, from 1.", _CALL, ()),
    "outcome": ("What the task did; on an arc, what the step did.", _AFTER_BEGIN, _SUCCESS),
    "output": ("What the task did; on an arc, what the step did.", _AFTER_BEGIN, _SUCCESS),
    "result": ("The result.", _AFTER_BEGIN, ()),
    "this": (
        "The event form's outcome: success or error, and its data.",
        _AFTER_BEGIN,
        ("status", "data", "error", "meta"),
    ),
    "event": ("The event that is being handled.", _AFTER_BEGIN, ("name", "payload", "step")),
    "response": (
        "The body of the answer, then its status and headers.",
        _AFTER_BEGIN,
        ("status_code", "headers", "data"),
    ),
    "error": (
        "What went wrong, after a failure.",
        ("rule", "arc", "case per call", "retry"),
        ("kind", "code", "message", "status", "retryable"),
    ),
    "_prev": ("The result of the task before.", _SEQUENCE, ()),
    "_task": ("The label of the task.", _SEQUENCE, ()),
    "_results": ("The results of the tasks so far, by label.", _TASKS, ()),
    "results": ("The results of the tasks so far, by label.", _TASKS, ()),
    "max_attempts": ("How many tries there are at most.", ("retry",), ()),
    "success": ("Whether the try succeeded.", ("retry",), ()),
    "status_code": ("The status of the answer.", ("retry",), ()),
    "data": ("The result of the try.", ("retry",), ()),
}
"""Name → what it is, where it means something, what is in it. A test holds the places against docs/scopes.md."""

OWN: dict[str, tuple[str, ...]] = {
    "argument": _IN_STEP,
    "step": _IN_STEP,
    "self": _AFTER_BEGIN,
    "task": _TASKS,
    "element": _CALL,
}
"""The same for names that a playbook declares: arguments of a step, other steps, the step itself, its tasks, its iterator."""


def template_words() -> dict[str, Any]:
    """Return what templates may say, as the keyword ``x-templates`` of the schema has it."""
    return {
        "names": {
            name: {"description": about, "places": list(places)}
            | ({"fields": list(fields)} if fields else {})
            for name, (about, places, fields) in NAMES.items()
        },
        "own": {role: list(places) for role, places in OWN.items()},
        "filters": sorted(FILTERS),
        "tests": sorted(name for name in TESTS if name.isidentifier()),
        "functions": sorted(FUNCTIONS | GLOBAL_FUNCTIONS),
    }
