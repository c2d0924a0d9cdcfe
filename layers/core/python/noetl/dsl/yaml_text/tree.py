"""The playbook as a tree in which every key and value knows its place in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from noetl.dsl.program import Pos


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a document (without byte order mark, line ends normalised to ``\\n``)."""

    text: str
    starts: tuple[int, ...]
    """Offset at which each line begins."""

    @classmethod
    def of(cls, text: str) -> Source:
        starts = [0]
        at = text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = text.find("\n", at + 1)
        return cls(text, tuple(starts))

    def position(self, offset: int) -> Pos:
        low, high = 0, len(self.starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.starts[middle] <= offset:
                low = middle
            else:
                high = middle - 1
        return Pos(low + 1, offset - self.starts[low] + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """One value.

    ``start`` and ``end`` bound its spelling in the text, quotes or block header included.
    """

    value: Any
    pos: Pos
    start: int
    end: int
    source: Source = field(repr=False)
    style: str = ""
    """``""`` plain, ``'`` or ``"`` quoted, ``|`` or ``>`` block."""

    def plain(self) -> Any:
        return self.value

    def locate(self, offset: int) -> Pos:
        """Return the place in the document of character ``offset`` of the (text) value.

        The spelling and the value are walked side by side from the template that holds ``offset``: indentation, folded line
        ends and quote escapes are the only places where they differ. A text that the compiler made has one place.
        """
        if not self.source.text:
            return self.pos
        raw = self.source.text[self.start : self.end]
        text = self.value
        begin, at = _anchor(text, raw, offset, self.style)
        while begin < offset and at < len(raw):
            if text[begin] == raw[at]:
                begin, at = begin + 1, at + 1
            elif text[begin].isspace():
                at = _skip_space(raw, at)
                begin += 1
            elif raw[at].isspace() or raw[at] in "\\'":
                at += 1
            else:
                break
        if self.style in ("|", ">"):
            at = _skip_indent(raw, at)
        return self.source.position(self.start + min(at, max(len(raw) - 1, 0)))

    def lines_pos(self) -> tuple[Pos, bool]:
        """Return where the text's first line starts, and whether its lines map to document lines.

        They do in literal blocks and on single lines, but not in folded texts, nor in quotes with escaped line ends.
        """
        text = self.value
        if not isinstance(text, str) or not (visible := text.lstrip()):
            return self.pos, False
        if self.style != "|":
            spelling = self.source.text[self.start : self.end]
            return self.content_pos(), "\n" not in text and "\n" not in spelling
        start = text.rfind("\n", 0, len(text) - len(visible)) + 1
        indent = len(text) - len(visible) - start
        place = self.locate(start)
        return Pos(place.line - text.count("\n", 0, start), place.column - indent), True

    def content_pos(self) -> Pos:
        """Return the place of the value's first character.

        That is after the quote, or on the line after a block header.
        """
        return self.locate(0) if isinstance(self.value, str) and self.value else self.pos


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    text: str
    pos: Pos


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    entries: dict[str, tuple[Key, Tree]]
    pos: Pos

    def get(self, *names: str) -> Tree | None:
        """Return the value of the first of ``names`` that is there and not null."""
        for name in names:
            found = self.entries.get(name)
            if found is not None and not is_null(found[1]):
                return found[1]
        return None

    def has(self, name: str) -> bool:
        return name in self.entries

    def key_pos(self, name: str) -> Pos:
        found = self.entries.get(name)
        return found[0].pos if found else self.pos

    def items(self) -> Iterator[tuple[Key, Tree]]:
        yield from self.entries.values()

    def plain(self) -> dict[str, Any]:
        return {key.text: value.plain() for key, value in self.entries.values()}

    def without(self, *names: str) -> Mapping:
        return Mapping({k: v for k, v in self.entries.items() if k not in names}, self.pos)


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    items: list[Tree]
    pos: Pos

    def plain(self) -> list[Any]:
        return [item.plain() for item in self.items]


Tree = Scalar | Mapping | Sequence


def is_null(tree: Tree | None) -> bool:
    return tree is None or (isinstance(tree, Scalar) and tree.value is None)


def text_of(tree: Tree | None) -> str | None:
    """Return the text of a text scalar; None for anything else."""
    return tree.value if isinstance(tree, Scalar) and isinstance(tree.value, str) else None


def mapping_of(tree: Tree | None) -> Mapping:
    """Return ``tree`` when it is a mapping, else an empty one at its place."""
    if isinstance(tree, Mapping):
        return tree
    return Mapping({}, tree.pos if tree is not None else Pos())


def items_of(tree: Tree | None) -> list[Tree]:
    """Return the items of a sequence; none for anything else."""
    return tree.items if isinstance(tree, Sequence) else []


def scalars_in(tree: Tree | None) -> Iterator[Scalar]:
    """Yield every scalar below ``tree``, itself included."""
    if isinstance(tree, Scalar):
        yield tree
    elif isinstance(tree, Mapping):
        for _, value in tree.items():
            yield from scalars_in(value)
    else:
        for item in items_of(tree):
            yield from scalars_in(item)


def written_size(tree: Tree) -> int:
    """Return about how many characters a tree takes when each alias is written out."""
    if isinstance(tree, Mapping):
        return sum(len(key.text) + written_size(value) for key, value in tree.items())
    if isinstance(tree, Sequence):
        return sum(map(written_size, tree.items))
    return tree.end - tree.start


def cut_by_comma(mapping: Mapping, name: str) -> bool:
    """Report whether an entry without a value follows a comma.

    It is then the rest of a text that was not quoted: ``{ query: SELECT a, b }``.
    """
    value = mapping.entries[name][1] if mapping.has(name) else None
    if not isinstance(value, Scalar) or value.value is not None or value.start != value.end:
        return False
    before = value.source.text[: value.start].rstrip()
    return before.endswith(name) and before[: -len(name)].rstrip().endswith(",")


CUT_HINT = "inside { … } a comma ends a value: put the whole text before it between quotes"


def made_text(text: str, pos: Pos) -> Scalar:
    """Make a text scalar of the compiler's own at ``pos``."""
    return Scalar(text, pos, 0, 0, Source.of(""))


def made_tree(value: Any, pos: Pos) -> Tree:
    """Make a tree of the compiler's own from plain values; trees inside stay as they are."""
    if isinstance(value, dict):
        return Mapping({name: (Key(name, pos), made_tree(one, pos)) for name, one in value.items()}, pos)
    if isinstance(value, list):
        return Sequence([made_tree(one, pos) for one in value], pos)
    if isinstance(value, Scalar | Mapping | Sequence):
        return value
    return Scalar(value, pos, 0, 0, Source.of(""))


_OPENERS = ("{{", "{%", "{#")


def _anchor(text: str, raw: str, offset: int, style: str) -> tuple[int, int]:
    """Find the last template start at or before ``offset``, else the content's start.

    Return (offset in value, offset in spelling).
    """
    begin, at = 0, _content_start(raw, style)
    value_at, raw_at = -1, at - 1
    while True:
        value_at = _next_opener(text, value_at + 1)
        if value_at < 0 or value_at > offset:
            return begin, at
        raw_at = _next_opener(raw, raw_at + 1)
        if raw_at < 0:
            return begin, at
        begin, at = value_at, raw_at


def _next_opener(text: str, start: int) -> int:
    at = text.find("{", start)
    while at >= 0:
        if text[at : at + 2] in _OPENERS:
            return at
        at = text.find("{", at + 1)
    return -1


def _content_start(raw: str, style: str) -> int:
    if style in ("|", ">"):
        return raw.find("\n") + 1
    return 1 if style else 0


def _skip_space(raw: str, at: int) -> int:
    while at < len(raw) and raw[at].isspace():
        at += 1
    return at


def _skip_indent(raw: str, at: int) -> int:
    """Skip the indentation at the start of a block scalar's line."""
    if at == 0 or raw[at - 1 : at] == "\n":
        while at < len(raw) and raw[at] == " ":
            at += 1
    return at
