"""A guard that is, or ends with, a name of the workload whose value is no truth value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl.formatting.nodes import Map, Text, Value, items_of, map_of, plain
from noetl.formatting.spelling import rewrite
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import tasks_of

_NAME = re.compile(
    r"(?P<before>\{\{-?\s{0,9}|\b(?:and|or)\s{1,9})(?P<read>(?:workload\.)?(?P<name>[A-Za-z_]\w{0,99}))"
    r"(?=\s{0,9}-?\}\})"
)
"""The name that a guard ends with. Any other part of it is asked whether it is empty, as it was: ``no`` is not."""
_NOTHING = "['', 'false', '0', 'no', 'none']"
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})


def apply(page: Page) -> None:
    """Ask whether there is a value. What counts as false in a guard is none."""
    workload = {str(one.key): one.value for one in map_of(page.root.get("workload")).entries}
    texts = {name for name, value in workload.items() if not _is_truth(value)} - page.step_names()

    def there(found: re.Match[str]) -> str:
        if found["name"] not in texts:
            return found[0]
        return f"{found['before']}({found['read']} | default('', true) | string | lower | trim) not in {_NOTHING}"

    for one in _guarded(page):
        guard = one.get("when")
        if isinstance(guard, Text) and isinstance(guard.value, str):
            rewrite(guard, _NAME.sub(there, guard.value))


def _guarded(page: Page) -> Iterator[Map]:
    """Yield what has a guard: arcs, entries of ``case``, and rules of a policy.

    Any other ``when`` is data.
    """
    for step in page.steps():
        following = step.get("next")
        arcs = [*items_of(following), *items_of(map_of(following).get("arcs")), *items_of(step.get("case"))]
        yield from map(map_of, arcs)
        for owner in (step, *(task for _, task in tasks_of(step.get("tool")))):
            policy = map_of(map_of(owner.get("spec")).get("policy"))
            for rules in (policy.get("rules"), map_of(policy.get("admit")).get("rules")):
                yield from map(map_of, items_of(rules))


def _is_truth(value: Value) -> bool:
    known = plain(value)
    if isinstance(value, Map) or not isinstance(known, (bool, str)):
        return False
    return isinstance(known, bool) or known.lower() in _WORDS or "{{" in known


RULE = Rule(
    "guard-name", "A guard asks whether a text or a list of the workload is there.", apply, repairs=True
)
