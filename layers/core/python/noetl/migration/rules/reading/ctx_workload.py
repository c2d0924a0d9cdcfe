"""``ctx.x`` in templates, where ``x`` is a name of the workload."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Map, inside, map_of
from noetl.formatting.spelling import rewrite
from noetl.formatting.templates import in_templates
from noetl.migration.page import Page
from noetl.migration.rule import Rule
from noetl.migration.rules.reading.context_name import set_in

_READ = re.compile(
    r"(?<![\w.'\"])ctx(?:\.(?P<name>[A-Za-z_]\w{0,99})|\[(['\"])(?P<key>[A-Za-z_]\w{0,99})\2\])(?![\w(])"
    r"(?!\s{0,9}\|\s{0,9}d(?:efault)?\b|\s{0,9}is\b)"
)


def apply(page: Page) -> None:
    """Read the workload for a name that no step sets, and else until a step has set it."""
    names = {str(entry.key) for entry in map_of(page.root.get("workload")).entries}
    for step in page.steps():
        names -= {str(entry.key) for entry in inside(step.get("vars") or Map([]))}
    later = names & set(set_in(page))
    never = names - later

    def read(name: str, entry: str | None) -> tuple[str, bool] | None:
        return (f"workload.{entry}", True) if name == "ctx" and entry in never else None

    def first(found: re.Match[str]) -> str:
        name = found["name"] or found["key"]
        return f"(ctx.{name} | default(workload.{name}))" if name in later else found[0]

    if never:
        page.substitute(read)
    for text in page.texts() if later else ():
        rewrite(text, in_templates(text.value, lambda template: _READ.sub(first, template)))


RULE = Rule("ctx-workload", "A name of `ctx` that no step has set is one of the workload.", apply)
