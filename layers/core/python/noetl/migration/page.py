"""A playbook while it is rewritten: its document, and the walks that rules need."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from noetl.domain.kinds import KindLookup
from noetl.dsl.expressions import has_template
from noetl.dsl.rows_as_list import SQL_KINDS
from noetl.formatting.nodes import Document, Entry, List, Map, Text, Value, inside, items_of, map_of, text_of
from noetl.formatting.spelling import rename
from noetl.formatting.templates import Replace, names_in

_DATA = frozenset(
    {
        *("args", "input", "with", "params", "payload", "body", "json", "data", "headers", "env", "form"),
        *(
            "workload",
            "source",
            "target",
            "auth",
            "credentials",
            "cursor",
            "sources",
            "set",
            "set_ctx",
            "set_iter",
        ),
    }
)
"""Keys below which a mapping with ``kind`` is data, and no call of a tool."""
RAW = frozenset({"code"})
"""Keys of a tool whose texts are no templates."""
RENDERED = _DATA - {"workload"}
"""Keys below which each entry may be a template, regardless of its name."""
QUERIES = ("query", "command", "commands", "sql")
"""Keys of a tool that hold SQL."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A place that a rule knows and cannot rewrite. ``line`` and ``column`` count from 1."""

    rule: str
    line: int
    column: int
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What the reader has to check about a place that was rewritten."""

    rule: str
    line: int
    text: str
    column: int = 1
    safe: bool = False
    """What the playbook does is the same regardless of the answer."""


@dataclass(slots=True)
class Page:
    """``rule`` is the name of the rule at work."""

    document: Document
    kinds: KindLookup
    read_file: Callable[[str], str | None]
    """Reads the text of a file that the playbook names; None where it cannot."""
    rule: str = ""
    refusals: list[Refusal] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def root(self) -> Map:
        return self.document.root

    def refuse(self, entry: Entry, message: str, hint: str | None = None) -> None:
        """Report a place that stays as it is."""
        found = Refusal(self.rule, max(entry.line, 1), entry.column + 1, message, hint)
        if found not in self.refusals:
            self.refusals.append(found)

    def note(self, entry: Entry, text: str, *, safe: bool = False) -> None:
        """Say what the rewriting assumes, or what it leaves to the reader.

        ``safe``: the playbook does the same in any case, so it may also run without being rewritten first.
        """
        found = Note(self.rule, max(entry.line, 1), text, entry.column + 1, safe)
        if found not in self.notes:
            self.notes.append(found)

    def steps(self) -> list[Map]:
        """Return the steps of the workflow."""
        return [step for step in map(map_of, items_of(self.root.get("workflow"))) if step.entries]

    def step_names(self) -> set[str]:
        return {name for step in self.steps() if (name := text_of(step.get("step")))}

    def workbook(self) -> list[Map]:
        """Return the tasks of the workbook."""
        found = self.root.get("workbook")
        if isinstance(found, List):
            return [map_of(item) for item in found.values()]
        return [map_of(entry.value) for entry in map_of(found).entries]

    def tools(self) -> list[Map]:
        """Return every mapping that calls a tool, at any depth."""
        found = [tool for step in self.steps() for tool in _tools(step)]
        return [*found, *(tool for task in self.workbook() for tool in _tools(task))]

    def maps(self) -> list[Map]:
        """Return every mapping of steps and workbook that is no data."""
        return [one for block in (*self.steps(), *self.workbook()) for one in _maps(block)]

    def then_blocks(self) -> list[Map]:
        """Return every mapping of actions of a ``case``."""
        found: list[Map] = []
        for case in self.case_entries():
            then = map_of(case).get("then")
            found += [map_of(item) for item in (then.values() if isinstance(then, List) else [then])]
        return [block for block in found if block.entries]

    def case_entries(self) -> list[Map]:
        return [map_of(item) for step in self.steps() for item in items_of(step.get("case"))]

    def texts(self) -> Iterator[Text]:
        """Yield every template of the playbook."""
        for entry in entries_read(self.root):
            value = entry.value
            if isinstance(value, Text) and isinstance(value.value, str) and has_template(value.value):
                yield value

    def sql_texts(self, kinds: Container[str] = SQL_KINDS) -> Iterator[Text]:
        """Yield the SQL of every tool of these kinds, and of every source of a transfer."""
        for tool in self.tools():
            owner = map_of(tool.get("source")) if kind_of(tool) == "transfer" else tool
            if kind_of(owner) not in kinds:
                continue
            yield from statements_of(owner)

    def substitute(self, change: Replace) -> None:
        """Replace names in every template; one that binds such a name itself stays as it is."""
        for text in self.texts():
            rename(text, change)


def entries_read(value: Map | List, *, data: bool = False) -> Iterator[Entry]:
    """Yield the entries at any depth whose texts may be templates.

    ``data``: no key of a tool is below ``value``.
    """
    for entry in value.entries:
        if entry.key in RAW and not data:
            continue
        yield entry
        if isinstance(entry.value, (Map, List)):
            yield from entries_read(entry.value, data=data or entry.key in RENDERED)


def _maps(value: Map | List) -> Iterator[Map]:
    if isinstance(value, Map):
        yield value
    for entry in value.entries:
        if entry.key not in _DATA and isinstance(entry.value, (Map, List)):
            yield from _maps(entry.value)


def _tools(block: Map) -> Iterator[Map]:
    for one in _maps(block):
        if text_of(one.get("kind")) is not None:
            yield one


def statements_of(tool: Map) -> Iterator[Text]:
    """Yield the texts of SQL that a tool has."""
    for name in QUERIES:
        value = tool.get(name)
        for text in [value, *items_of(value)]:
            if isinstance(text, Text) and isinstance(text.value, str):
                yield text


def names_read(value: Value) -> frozenset[str]:
    """Return the names that the templates in a value read."""
    texts = (text_of(entry.value) for entry in inside(value))
    return frozenset().union(*(names_in(text) for text in texts if text is not None))


def kind_of(tool: Map) -> str:
    """Return the kind that a tool names."""
    return text_of(tool.get("kind")) or ""


def named(name: str, value: Value, like: Entry | None = None) -> Entry:
    """Make an entry at the place of ``like``, with its comments."""
    if like is None:
        return Entry(name, value, raw_key=name)
    return Entry(name, value, name, like.lead, like.trail, like.after, like.gap, like.line, like.column)


def remove(owner: Map | List, entry: Entry) -> None:
    """Remove an entry.

    Its comments move to what follows, or stay at the end of what is before.
    """
    place = owner.entries.index(entry)
    owner.entries.remove(entry)
    kept = [*entry.lead, *([entry.trail] if entry.trail else []), *entry.after]
    if not any(kept):
        return
    if place < len(owner.entries):
        owner.entries[place].lead = [*kept, *owner.entries[place].lead]
    elif place:
        owner.entries[place - 1].after += kept


def replace(owner: Map | List, entry: Entry, made: list[Entry]) -> None:
    """Put entries into the place of one; the first of them keeps its comments."""
    place = owner.entries.index(entry)
    owner.entries[place : place + 1] = made
    if made:
        made[0].lead = [*entry.lead, *made[0].lead]
        made[0].gap = entry.gap
        made[-1].after += [*([entry.trail] if entry.trail else []), *entry.after]
