"""Steps that call an API and ask in their arcs for a status with which the call fails."""

from __future__ import annotations

import re

from noetl.dsl.lints.statuses import ANY, asks_for_failure, failed_statuses
from noetl.formatting.nodes import Entry, Map, Text, inside, items_of, made, map_of, plain, text_of
from noetl.formatting.spelling import rewrite
from noetl.migration.guards import inner
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.rows_list import tasks_of
from noetl.migration.rules.reading.vars_defined import read_otherwise

_OTHERS = ("accept_status", "paginate", "stream", "save", "sink", "retry")
"""Keys with which the call has another answer to a failure, or to a page."""
_EXIT = re.compile(r"\{\{ event\.name == 'step\.exit' and ")
"""How a guard begins that is one of the arcs of a step in the event form."""
_PATH = re.compile(r"[\w.]+")
_GOOD = "response.status_code < 400"
_PLAIN = frozenset({"do"})


def apply(page: Page) -> None:
    """Accept the statuses: the call ends with its answer, and the arcs decide."""
    otherwise: set[str] | None = None
    if any(step.has("vars") for step in page.steps()):
        otherwise = read_otherwise(page, tests=True)
    for step in page.steps():
        tasks = [task for _, task in tasks_of(step.get("tool"))]
        if (
            len(tasks) != 1
            or kind_of(tasks[0]) != "http"
            or step.has("loop")
            or not _leaves_it(step, tasks[0])
        ):
            continue
        name = text_of(step.get("step")) or ""
        groups = [failed_statuses(guard, name) for guard in _guards(step)]
        codes = sorted({one for each in groups for one in each}) if ANY not in groups else ANY
        kept = map_of(step.get("vars"))
        if codes and (not kept.entries or (otherwise is not None and not otherwise & set(kept.keys()))):
            value = Text(ANY) if codes == ANY else made(codes)
            tasks[0].entries.append(Entry("accept_status", value, "accept_status"))
            for entry in kept.entries:
                _may_lack(entry)


def _may_lack(entry: Entry) -> None:
    """Keep null for what the answer to a failed call does not have."""
    expression = inner(text_of(entry.value))
    if expression is not None and isinstance(entry.value, Text) and _GOOD not in expression:
        shown = expression if _PATH.fullmatch(expression) else f"({expression})"
        rewrite(entry.value, f"{{{{ {shown} if {_GOOD} else none }}}}")


def _guards(step: Map) -> list[str]:
    """Return the guards of the arcs; none where one of them asks for a failure."""
    following = step.get("next")
    arcs = [*items_of(map_of(following).get("arcs")), *items_of(following), *items_of(step.get("case"))]
    ends = [plain(map_of(arc).get("on")) for arc in arcs if map_of(arc).has("on")]
    if any(on not in ("done", ["done"]) for on in ends):
        return []
    guards = [_EXIT.sub("{{ ", text) for arc in arcs if (text := text_of(map_of(arc).get("when")))]
    return [] if any(map(asks_for_failure, guards)) else guards


def _leaves_it(step: Map, task: Map) -> bool:
    """Return whether nothing but the arcs, and rules that only continue, answers a failure."""
    if any(owner.has(name) for owner in (step, task) for name in _OTHERS):
        return False
    cases = [map_of(one) for one in items_of(step.get("case"))]
    if any(
        not _EXIT.match(text_of(one.get("when")) or "") or map_of(one.get("then")).keys() != ["next"]
        for one in cases
    ):
        return False
    for owner in (step, task):
        spec = map_of(owner.get("spec"))
        if spec.has("on_error"):
            return False
        for entry in inside(spec):
            then = entry.value if entry.key == "then" else None
            if isinstance(then, Map) and (
                not set(then.keys()) <= _PLAIN or text_of(then.get("do")) != "continue"
            ):
                return False
    return True


RULE = Rule(
    "failed-status",
    "An answer whose status an arc asks for is the result of the call.",
    apply,
    repairs=True,
)
