"""Arguments that a step reads, and that only steps before it were given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container

from noetl.dsl.expressions import analyse, has_template
from noetl.dsl.template_rules import TemplateProblem
from noetl.formatting.nodes import Entry, List, Map, Text, inside, map_of, text_of
from noetl.migration.page import RAW, RENDERED, Page
from noetl.migration.rule import Rule
from noetl.migration.rules.routing.ways import ways_of

_GIVEN = ("args", "input", "with")
_SCOPES = frozenset({"args", "input"})
_METHODS = frozenset({"get", "items", "keys", "values"})
_OWN = ("admit", "callback", "args", "input", "with")
"""Keys of a step with which it may have arguments of its own."""


def apply(page: Page) -> None:
    """Hand the argument on, where each way to the step comes from one that was given it.

    No way to the step may have it already.
    """
    if page.document.anchors:
        return
    steps = page.steps()
    ways: _Ways = defaultdict(list)
    for step in steps:
        for way in ways_of(step):
            ways[text_of(way.get("step"))].append((step, way))
    for step in steps[1:]:
        led = _led(step, ways)
        if not led or any(step.has(own) for own in _OWN):
            continue
        for wanted in sorted(_read(step)):
            missing = all(names is not None and wanted not in names for _, _, names in led)
            if missing and all(_is_given(origin, ways, wanted) for origin, _, _ in led):
                for origin, way, _ in led:
                    _hand(page, way, wanted, origin)


_Ways = defaultdict[str | None, list[tuple[Map, Map]]]
"""Name of a step → the ways to it, each with the step where it begins."""
_Led = list[tuple[Map, Map, set[str] | None]]


def _led(step: Map, ways: _Ways) -> _Led:
    """Return the ways to a step: where each begins, and what it hands over.

    That is None where it is no mapping.
    """
    found: _Led = []
    for origin, way in ways[text_of(step.get("step"))]:
        given = [value for key in _GIVEN if (value := way.get(key)) is not None]
        maps = [one for one in given if isinstance(one, Map)]
        names = {str(entry.key) for one in maps for entry in one.entries}
        found.append((origin, way, names if len(maps) == len(given) else None))
    return found


def _is_given(step: Map, ways: _Ways, wanted: str) -> bool:
    led = _led(step, ways)
    return bool(led) and all(names is not None and wanted in names for _, _, names in led)


def _hand(page: Page, way: Map, wanted: str, origin: Map) -> None:
    target = way.entry("step")
    assert target is not None
    for entry in inside(origin):
        if entry.value is target.value and entry.key in ("next", None):
            way.flow = True
            entry.value = List([Entry(None, way, line=entry.line)], flow=True) if entry.key else way
    owner = next((value for key in _GIVEN if isinstance(value := way.get(key), Map)), None)
    if owner is None:
        owner = Map([], flow=True)
        way.put("args", owner)
    owner.entries.append(Entry(wanted, Text(f"{{{{ args.{wanted} }}}}", style='"'), wanted))
    place = target if target.line else origin.entry("next") or target
    page.note(
        place, f"`{wanted}` is handed on, as step '{text_of(origin.get('step'))}' was given it", safe=True
    )


def _read(step: Map) -> set[str]:
    """Return the arguments without which the step fails."""
    tools = [owner for entry in inside(step) if isinstance(owner := entry.value, Map) and owner.has("kind")]
    own = {str(one.key) for tool in tools for key in _GIVEN for one in map_of(tool.get(key)).entries}
    given = [entry for tool in tools for key in _GIVEN if (entry := tool.entry(key)) is not None]
    inner = {name for entry in given for name in _names(entry, data=True)}
    outer = {name for entry in step.entries for name in _names(entry, given)}
    return inner | (outer - own)


def _names(owner: Entry, without: Container[Entry] = (), *, data: bool = False) -> set[str]:
    """Return the arguments without which the templates of an entry fail.

    ``data``: it is no key of a tool.
    """
    if (not data and (owner.key in RAW or owner.key == "when")) or owner in without:
        return set()
    value, data = owner.value, data or owner.key in RENDERED
    if isinstance(value, (Map, List)):
        return {name for entry in value.entries for name in _names(entry, without, data=data)}
    text = text_of(value) or ""
    if not has_template(text) or " if " in text:
        return set()
    try:
        known = analyse(text)
    except TemplateProblem:
        return set()
    found = {name for scope, name in known.entries if scope in _SCOPES - known.guarded}
    return found - _METHODS


RULE = Rule(
    "handed-on",
    "An argument that the steps before were given is handed on to the step that reads it.",
    apply,
    repairs=True,
)
