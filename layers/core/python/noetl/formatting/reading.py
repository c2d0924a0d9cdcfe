"""Text → ``Document``: the compiler's events, with styles, anchors and attached comments."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yamlcore import CCoreLoader

from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.yaml_text.loader import load
from noetl.dsl.yaml_text.scalars import key_text, typed_value
from noetl.formatting.nodes import Alias, Document, Entry, List, Map, Text, Value

_COMMENT = re.compile(r"(?:^|(?<=[ \t\n]))#[^\n]*")


def read(text: str, source_name: str) -> Document:
    """Read a document.

    Raises InvalidPlaybookError for a text that the compiler could not read either.
    """
    diagnostics = Diagnostics()
    load(text, diagnostics)
    diagnostics.raise_errors(source_name)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    builder = _Builder(text)
    root = builder.build()
    assert isinstance(root, Map)
    document = Document(root, start=builder.start, anchors=builder.anchors)
    _place_comments(document, builder)
    return document


@dataclass(slots=True)
class _Place:
    """An entry, where it begins, and whether flow brackets are around it."""

    entry: Entry
    offset: int
    flow: bool


@dataclass(slots=True)
class _Builder:
    text: str
    start: bool = False
    anchors: bool = False
    places: list[_Place] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Scalars: where they begin and end."""
    brackets: list[tuple[int, int]] = field(default_factory=list)
    """Flow collections: where they begin and end."""
    lines: list[int] = field(default_factory=list)

    def build(self) -> Value:
        self.lines = [0, *(found.end() for found in re.finditer("\n", self.text))]
        loader: Any = CCoreLoader(self.text)
        try:
            loader.get_event()
            event = loader.get_event()
            self.start = bool(getattr(event, "explicit", False))
            return self.value(loader, loader.get_event(), flow=False)
        finally:
            loader.dispose()

    def value(self, loader: Any, event: Any, *, flow: bool) -> Value:
        kind = type(event)
        if kind is yaml.AliasEvent:
            self.anchors = True
            self.spans.append((event.start_mark.index, event.end_mark.index))
            return Alias(event.anchor)
        self.anchors = self.anchors or event.anchor is not None
        if kind is yaml.ScalarEvent:
            return self.scalar(loader, event)
        inner = bool(event.flow_style)
        mapping = kind is yaml.MappingStartEvent
        entries = self.entries(loader, mapping, flow or inner, event)
        return Map(entries, inner, event.anchor) if mapping else List(entries, inner, event.anchor)

    def entries(self, loader: Any, mapping: bool, flow: bool, opening: Any) -> list[Entry]:
        entries: list[Entry] = []
        while True:
            event = loader.get_event()
            if type(event) in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                if opening.flow_style:
                    self.brackets.append((opening.start_mark.index, event.end_mark.index))
                return entries
            offset = event.start_mark.index
            key, raw = None, ""
            if mapping:
                key, raw = self.key(loader, event)
                event = loader.get_event()
            elif not flow:
                offset = self.dash(offset)
            line = self.line(offset)
            entry = Entry(key, Text(None), raw_key=raw, line=line + 1, column=offset - self.lines[line])
            entries.append(entry)
            self.places.append(_Place(entry, offset, flow))
            entry.value = self.value(loader, event, flow=flow)

    def dash(self, offset: int) -> int:
        """Find the ``-`` of the item whose value begins at ``offset``."""
        at = self.text.rfind("-", 0, offset + 1)
        while at > 0 and self.text[at - 1] not in " \n-":
            at = self.text.rfind("-", 0, at)
        return at if at >= 0 and self._only_space(at + 1, offset) else offset

    def _only_space(self, start: int, end: int) -> bool:
        between = _COMMENT.sub("", self.text[start:end])
        return not re.sub(r"&\S+", "", between).strip()

    def line(self, offset: int) -> int:
        return bisect.bisect_right(self.lines, offset) - 1

    def key(self, loader: Any, event: Any) -> tuple[str, str]:
        start, end = event.start_mark.index, event.end_mark.index
        self.spans.append((start, end))
        tag = event.tag or loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        return key_text(tag, event.value, plain=not event.style), self.text[start:end]

    def scalar(self, loader: Any, event: Any) -> Text:
        start, end = event.start_mark.index, event.end_mark.index
        self.spans.append((start, end))
        tag = event.tag
        if tag is None or tag == "!":
            tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        raw = self.text[start:end]
        style = event.style or ""
        if style in ("|", ">"):
            header = raw.split("\n", 1)[0]
            found = _COMMENT.search(header)
            if found is not None:
                self.spans[-1] = (start + len(header), end)
                raw = header[: found.start()].rstrip() + raw[len(header) :]
        keep = "\n" not in raw or style == ">"
        return Text(typed_value(tag, event.value), raw if keep else None, style, event.anchor)


Lines = dict[int, list[_Place]]
"""Entries by the line they begin on, outermost first."""
Own = tuple[int, int, str]
"""A comment on a line of its own: line, column, text."""


def _place_comments(document: Document, builder: _Builder) -> None:
    """Give every comment, and every blank line, to the entry it is about."""
    by_line: Lines = {}
    for place in builder.places:
        by_line.setdefault(place.entry.line - 1, []).append(place)
    starts = sorted(by_line)
    groups: dict[int | None, list[Own]] = {}
    for offset, comment in _comments(builder):
        line = builder.line(offset)
        column = offset - builder.lines[line]
        if builder.text[builder.lines[line] : offset].strip():
            _trail(builder, by_line, line, offset, comment)
        else:
            groups.setdefault(_next_start(starts, line), []).append((line, column, comment))
    for following, group in groups.items():
        if following is None:
            document.tail += _attach(builder, None, group)
        else:
            target = by_line[following][0].entry
            target.lead = _attach(builder, target, group)
            if target.lead and _blank(builder, following - 1):
                target.lead.append("")
            first = group[-len([text for text in target.lead if text]) :][0][0] if target.lead else following
            target.gap = _blank(builder, first - 1) or (not target.lead and _blank(builder, group[0][0] - 1))
    for line in starts:
        if line not in groups:
            by_line[line][0].entry.gap = _blank(builder, line - 1)


def _attach(builder: _Builder, target: Entry | None, group: list[Own]) -> list[str]:
    """Attach comments above ``target``, or at the end.

    Comments that are indented deeper stay below their own entry.
    """
    rest: list[str] = []
    before: Own | None = None
    for own in group:
        line, column, comment = own
        blank = before is not None and before[0] != line - 1
        before = own
        edge = target.column if target is not None else 0
        owner = _above(builder, line, column) if column > edge and not rest else None
        if owner is not None and owner.column <= edge:
            owner = None
        kept = owner.after if owner is not None else rest
        if blank and kept:
            kept.append("")
        kept.append(comment)
    return rest


def _comments(builder: _Builder) -> list[tuple[int, str]]:
    spans = sorted(builder.spans)
    begins = [start for start, _ in spans]
    found = []
    for match in _COMMENT.finditer(builder.text):
        place = bisect.bisect_right(begins, match.start()) - 1
        if place >= 0 and match.start() < spans[place][1]:
            continue
        found.append((match.start(), match.group().rstrip()))
    return found


def _next_start(starts: list[int], line: int) -> int | None:
    place = bisect.bisect_right(starts, line)
    return starts[place] if place < len(starts) else None


def _trail(builder: _Builder, by_line: dict[int, list[_Place]], line: int, offset: int, comment: str) -> None:
    """Attach a comment at the end of a line to the last entry that begins there.

    Entries in brackets that are closed by then do not count.
    """
    open_brackets = any(start < offset < end for start, end in builder.brackets)
    here = [place for place in by_line.get(line, []) if place.offset < offset]
    fitting = [place for place in here if place.flow == open_brackets] or here
    if not fitting:
        before = [place for place in builder.places if place.offset < offset]
        fitting = [place for place in before if place.flow == open_brackets] or before
    entry = fitting[-1].entry
    if entry.trail is None:
        entry.trail = comment
    else:
        entry.after.append(comment)


def _above(builder: _Builder, line: int, column: int) -> Entry | None:
    """Find the nearest entry above ``line`` that begins at ``column`` or left of it."""
    best: Entry | None = None
    for place in builder.places:
        if place.entry.line - 1 >= line:
            break
        if not place.flow and place.entry.column <= column:
            best = place.entry
    return best


def _blank(builder: _Builder, line: int) -> bool:
    """Report whether there is nothing on ``line``."""
    return line >= 0 and not builder.text[builder.lines[line] : builder.lines[line + 1]].strip()
