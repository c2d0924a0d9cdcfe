"""Values that a loop gathers for one item, and hands on with it.

They begin at ``step.enter``. Releases that ended the step for each item began with each item there; today it is once, before
the loop, and the next item would hand on what the items before it had, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator

from noetl.formatting.nodes import Entry, List, Map, Text, Value, comments, inside, map_of, plain, text_of
from noetl.formatting.spelling import rename, rewrite
from noetl.formatting.templates import substitute
from noetl.migration.page import RAW, Page, named, remove
from noetl.migration.rules.paging.pages import blocks_of, gathered
from noetl.migration.rules.routing.ways import cases_of

_ENTER = re.compile(r"""(["'])step\.enter\1""")
_CALL = re.compile(r"""(["'])call\.(?:done|error)\1""")
_PATH = re.compile(r"(?:ctx\.)?(\w+)\Z")
_WHOLE = re.compile(r"\{\{ \((iter\.\w+ \| default\([^()]*\))\) \}\}\Z")
_CONTEXT = re.compile(r"\b(?:context|ctx)\b")
_PATHS = ("from", "path")
"""Keys of actions that name a value without a template."""


def begins_at_enter(step: Map) -> bool:
    """Return whether an entry acts before the call."""
    return bool(_at_enter(step))


def handed_on(step: Map, entries: list[Entry], given: list[Map]) -> dict[str, Value]:
    """Return what begins at ``step.enter`` and goes with an item, with its first value.

    Calls add to it. ``entries`` are those of the item, ``given`` is what they hand to the next step.
    """
    first = {name: one.value for _, one, name in _first(step)}
    read = {name for target in given for entry in inside(target) for name in _reads(entry)}
    own = _own(step, entries)
    return {
        name: value
        for name, value in first.items()
        if read & {name, f"ctx.{name}"} and any(name in _gathers(entry) for entry in own)
    }


def is_of_items(
    page: Page, step: Map, entries: list[Entry], name: str, first: Value, after: Container[str]
) -> bool:
    """Return whether a value can begin with each item.

    Nothing but the entries of the item reads it. ``after`` are the steps that are given a value by this name.
    """
    own, value = _own(step, entries), plain(first)
    if _literal(value) is None or not _is_kept(own, name, value) or len(_at_enter(step)) > 1:
        return False
    for entry, owner in _walk(page.root, own):
        known = (
            {f"ctx.{name}", "ctx"} if text_of(owner.get("step")) in after else {f"ctx.{name}", "ctx", name}
        )
        if _reads(entry) & known:
            return False
        if entry.key in RAW and _reads_context(text_of(entry.value) or "", name):
            return False
    return True


def _reads_context(code: str, name: str) -> bool:
    """Return whether code may read a value of ``ctx`` by its name."""
    return _CONTEXT.search(code) is not None and any(f"{quote}{name}{quote}" in code for quote in "\"'")


def begin_again(page: Page, step: Map, entries: list[Entry], names: dict[str, Value]) -> None:
    """Gather these values in ``iter``, which begins with each item."""
    shown = {name: f"(iter.{name} | default({_literal(plain(value))}))" for name, value in names.items()}

    def change(name: str, attribute: str | None) -> tuple[str, bool] | None:
        if name == "ctx" and attribute in shown:
            return shown[attribute], True
        return (shown[name], False) if name in shown else None

    for entry in _own(step, entries):
        for block in blocks_of(map_of(entry.value).get("then")):
            _gather(block, names)
        for one in inside(entry.value):
            rename(one.value, change)
            if isinstance(one.value, Text) and isinstance(one.value.value, str):
                path = _PATH.match(one.value.value) if one.key in _PATHS else None
                if path is not None and path[1] in names:
                    rewrite(one.value, f"iter.{path[1]}")
                rewrite(one.value, _WHOLE.sub(r"{{ \1 }}", one.value.value))
    page.note(entries[0], f"{_listed(names)} with each item, and not once before the loop")
    lost = [[text for one in inside(entry.value) for text in comments(one)] for entry in _at_enter(step)]
    for owner, one, name in list(_first(step)):
        if name in names:
            remove(owner, one)
    case = step.get("case")
    assert isinstance(case, List)
    for entry, texts in zip(_at_enter(step), lost, strict=True):
        blocks = blocks_of(map_of(entry.value).get("then"))
        for block in blocks:
            _leave_out_empty(block)
        if not any(block.entries for block in blocks):
            entry.lead += filter(None, texts)
            remove(case, entry)


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in sorted(names)]
    return f"{quoted[0]} begins" if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]} begin"


def _guard(entry: Entry) -> str:
    return str(plain(map_of(entry.value).get("when")) or "")


def _at_enter(step: Map) -> list[Entry]:
    return [entry for entry in cases_of(step) if _ENTER.search(_guard(entry))]


def _own(step: Map, entries: list[Entry]) -> list[Entry]:
    """Return the entries that are done for an item, or for one of its calls."""
    return [entry for entry in cases_of(step) if entry in entries or _CALL.search(_guard(entry))]


def _first(step: Map) -> Iterator[tuple[Map, Entry, str]]:
    """Yield what is set before the call."""
    for entry in _at_enter(step):
        for block in blocks_of(map_of(entry.value).get("then")):
            yield from _settings(block)


def _settings(block: Map) -> Iterator[tuple[Map, Entry, str]]:
    """Yield what a block of actions writes into ``ctx``: the mapping, the entry, and the name."""
    setting = map_of(block.get("set"))
    for entry in list(setting.entries):
        scope, dot, name = str(entry.key).partition(".")
        if scope != "ctx":
            continue
        if dot:
            yield setting, entry, name
        else:
            yield from ((map_of(entry.value), one, str(one.key)) for one in list(map_of(entry.value).entries))


def _gathers(entry: Entry) -> set[str]:
    """Return the names that an entry adds to what they are."""
    found: set[str] = set()
    for block in blocks_of(map_of(entry.value).get("then")):
        found.add(text_of(map_of(block.get("collect")).get("into")) or "")
        for _, one, name in _settings(block):
            if isinstance(one.value, Map) or _reads(one) & {name, f"ctx.{name}"}:
                found.add(name)
    return found - {""}


def _is_kept(own: list[Entry], name: str, first: object) -> bool:
    """Return whether each place that adds to a name can do so in ``iter``."""
    for entry in own:
        for block in blocks_of(map_of(entry.value).get("then")):
            collect = map_of(block.get("collect"))
            if text_of(collect.get("into")) == name and (
                first != [] or gathered(collect) is None or _is_apart(block.keys())
            ):
                return False
            if any(
                isinstance(one.value, Map) and first != [] for _, one, key in _settings(block) if key == name
            ):
                return False
    return True


def _is_apart(actions: list[str]) -> bool:
    """Return whether other actions are done between ``collect`` and ``set``."""
    return "set" in actions and abs(actions.index("set") - actions.index("collect")) > 1


def _gather(block: Map, names: Container[str]) -> None:
    """Write into ``iter`` what a block of actions gathers in ``ctx``, in the same order."""
    setting = block.get("set")
    if isinstance(setting, Map) and any(name in names for _, _, name in _settings(block)):
        setting.entries = [line for entry in setting.entries for line in _lines(entry, names)]
    collect = block.entry("collect")
    into = text_of(map_of(collect.value).get("into")) if collect is not None else None
    if collect is None or into is None or into not in names:
        return
    line = f"iter.{into}"
    pages = Entry(line, Text(f"{{{{ {gathered(map_of(collect.value))} }}}}", style='"'), line)
    if not isinstance(setting, Map):
        collect.key = collect.raw_key = "set"
        collect.value = Map([pages])
        return
    if not setting.has(line) and not map_of(setting.get("iter")).has(into):
        before = block.keys().index("collect") < block.keys().index("set")
        setting.entries.insert(0 if before else len(setting.entries), pages)
    remove(block, collect)


def _lines(entry: Entry, names: Container[str]) -> list[Entry]:
    """Return the lines of one scope, those of an item for ``iter``."""
    scope, dot, name = str(entry.key).partition(".")
    if scope == "ctx" and isinstance(entry.value, Map) and not dot:
        lines = [
            named(f"{_scope(str(one.key), names)}.{one.key}", one.value, one) for one in entry.value.entries
        ]
        if lines:
            lines[0].lead = [*entry.lead, *lines[0].lead]
            lines[-1].after += [*([entry.trail] if entry.trail else []), *entry.after]
        return lines
    if scope == "ctx" and name in names:
        entry.key = entry.raw_key = f"iter.{name}"
    return [entry]


def _scope(name: str, names: Container[str]) -> str:
    return "iter" if name in names else "ctx"


def _leave_out_empty(block: Map) -> None:
    """Remove a ``set`` that sets nothing."""
    setting = block.entry("set")
    if setting is None:
        return
    for one in list(map_of(setting.value).entries):
        if one.key == "ctx" and isinstance(one.value, Map) and not one.value.entries:
            remove(map_of(setting.value), one)
    if not map_of(setting.value).entries:
        remove(block, setting)


def _reads(entry: Entry) -> set[str]:
    """Return the names that one text reads, those of ``ctx`` as ``ctx.x``."""
    text = text_of(entry.value)
    if text is None or entry.key in RAW:
        return set()
    if entry.key in _PATHS and (path := _PATH.match(text)):
        return {path[1]}
    found: set[str] = set()

    def see(name: str, attribute: str | None) -> None:
        found.add(f"ctx.{attribute}" if name == "ctx" and attribute else name)

    substitute(text, see)
    return found


def _walk(value: Map | List, apart: list[Entry], owner: Map | None = None) -> Iterator[tuple[Entry, Map]]:
    """Yield every entry with its step (or the document), but none within ``apart``."""
    own = value if owner is None and isinstance(value, Map) else owner
    for entry in value.entries:
        if entry in apart:
            continue
        inner = entry.value if isinstance(entry.value, Map) and entry.value.has("step") else None
        yield entry, own or Map([])
        if isinstance(entry.value, (Map, List)):
            step = inner if inner is not None and own is not None and not own.has("step") else own
            yield from _walk(entry.value, apart, step)


def _literal(value: object) -> str | None:
    """Return a constant as a template writes it; None of a template, or with null inside."""
    if value is None:
        return "none"
    text = json.dumps(value)
    return None if "{{" in text or "null" in text else text
