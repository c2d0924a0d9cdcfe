"""YAML text → positioned tree, or diagnostics; limits are checked before building.

One pass over libyaml's events with an explicit stack: depth, size, aliases and expanded nodes are bounded while reading,
so hostile documents are refused in milliseconds and never reach a recursive composer. Scalars are typed by the YAML 1.2 core
schema (``on``, ``no`` and ``1:30`` are text).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml
from yamlcore import CCoreLoader

from noetl.domain.sizes.table import PLAYBOOK_ALIASES, PLAYBOOK_BYTES, PLAYBOOK_DEPTH, PLAYBOOK_VALUES
from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.errors import explain, place_of
from noetl.dsl.yaml_text.scalars import BadScalar, key_text, typed_value
from noetl.dsl.yaml_text.tree import Key, Mapping, Scalar, Sequence, Source, Tree

MAX_BYTES = PLAYBOOK_BYTES.value
MAX_DEPTH = PLAYBOOK_DEPTH.value
MAX_NODES = PLAYBOOK_VALUES.value
"""Values in the document, counting an alias as often as it is used."""
MAX_ALIASES = PLAYBOOK_ALIASES.value

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_UNQUOTED_HINT = 'quote the whole value: key: "{{ … }}"'


class _Refused(Exception):  # noqa: N818 - a signal inside this module, not an error of its own
    """The document cannot be read any further; the reason is already in the diagnostics."""


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    tree: Mapping | Sequence
    start: int
    flow: bool
    anchor: str | None
    as_key: bool = False
    """It is in the place of a key: it was refused, and is only read to its end."""
    key: Key | None = None
    discard: bool = False
    """The value that comes next belongs to a key that was refused."""
    first_node: int = 0
    height: int = 1


PLAYBOOK = ("a playbook", "start with apiVersion: noetl.io/v2")


def load(
    text: str | bytes,
    diagnostics: Diagnostics,
    what: tuple[str, str] = PLAYBOOK,
    *,
    max_bytes: int = MAX_BYTES,
    max_depth: int = MAX_DEPTH,
) -> Mapping | None:
    """Read the document as a mapping; None when it cannot be read (see ``diagnostics``).

    ``what``: what the document is, and how one begins. ``max_bytes``, ``max_depth``: of its kind.
    """
    try:
        source = Source.of(_decode(text, diagnostics, max_bytes))
        _scan_characters(source, diagnostics)
        root = _Builder(source, diagnostics, max_depth).read()
    except _Refused:
        return None
    if root is None:
        diagnostics.error("yaml-empty", "the document is empty", Pos(1, 1), hint=what[1])
        return None
    if not isinstance(root, Mapping):
        diagnostics.error(
            "wrong-type",
            f"{what[0]} is a mapping at its root",
            root.pos,
            hint=what[1],
        )
        return None
    return None if diagnostics.has_errors() else root


def _decode(text: str | bytes, diagnostics: Diagnostics, max_bytes: int) -> str:
    if len(text) > max_bytes:
        size = f"{len(text) / 1024 / 1024:.1f} MiB"
        diagnostics.error(
            "yaml-too-large",
            f"the document has {size}; at most {max_bytes // 1024 // 1024} MiB are read",
            Pos(1, 1),
            hint="keep data in files or tables and pass its address in workload",
        )
        raise _Refused
    if isinstance(text, bytes):
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as problem:
            before = text[: problem.start].decode("utf-8")
            diagnostics.error(
                "yaml-encoding",
                f"byte 0x{text[problem.start]:02x} is not UTF-8",
                Source.of(before).position(len(before)),
                hint="save the file as UTF-8",
            )
            raise _Refused from None
    else:
        decoded = text
    return decoded.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _scan_characters(source: Source, diagnostics: Diagnostics) -> None:
    found = _FORBIDDEN.search(source.text)
    if found is None:
        return
    diagnostics.error(
        "yaml-control-character",
        f"character U+{ord(found.group()):04X} cannot stand in a playbook",
        source.position(found.start()),
        hint='remove it, or write it as an escape in double quotes, such as "\\x07"',
    )
    raise _Refused


@dataclass(slots=True)
class _Builder:
    source: Source
    diagnostics: Diagnostics
    max_depth: int
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, tuple[Tree, int, int]] = field(default_factory=dict)
    """anchor → (tree, nodes in it, levels of it)"""
    root: Tree | None = None
    documents: int = 0
    nodes: int = 0
    aliases: int = 0
    unquoted: bool = False

    def read(self) -> Tree | None:
        loader: Any = CCoreLoader(self.source.text)
        try:
            while loader.check_event():
                self.handle(loader, loader.get_event())
        except yaml.YAMLError as problem:
            if not self.unquoted:
                self.explain(problem)
            raise _Refused from None
        finally:
            loader.dispose()
        return self.root

    def handle(self, loader: Any, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.scalar(loader, event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self.close()
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.refuse(
                    "yaml-multiple-documents",
                    "a second document begins here; a playbook is one document",
                    event,
                    "remove the `---` line, or keep each playbook in a file of its own",
                )

    def refuse(self, code: str, message: str, event: Any, hint: str) -> _Refused:
        self.diagnostics.error(code, message, self.pos(event), hint=hint)
        return _Refused()

    def pos(self, event: Any) -> Pos:
        return self.source.position(event.start_mark.index)

    # -- collections --

    def open(self, event: Any) -> None:
        if len(self.stack) >= self.max_depth:
            raise self.refuse(
                "yaml-too-deep",
                f"nested more than {self.max_depth} levels deep",
                event,
                "split the value, or load it from a file",
            )
        if event.tag is not None and event.tag != "!":
            raise self.refuse("yaml-tag", f"the tag {event.tag} is not known here", event, "remove the tag")
        self.count(1, event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        as_key = self.expects_key()
        if as_key:
            self.refuse_collection_key(event, mapping)
        pos = self.pos(event)
        tree: Mapping | Sequence = Mapping({}, pos) if mapping else Sequence([], pos)
        flow = bool(event.flow_style)
        start = event.start_mark.index
        self.stack.append(_Open(tree, start, flow, event.anchor, as_key=as_key, first_node=self.nodes))
        if event.anchor:
            self.anchors.pop(event.anchor, None)

    def expects_key(self) -> bool:
        if not self.stack:
            return False
        parent = self.stack[-1]
        return isinstance(parent.tree, Mapping) and parent.key is None and not parent.discard

    def refuse_collection_key(self, event: Any, mapping: bool) -> None:
        """Refuse a mapping in the place of a key: nearly always a template without quotes."""
        if any(outer.as_key for outer in self.stack):
            return
        parent = self.stack[-1]
        if mapping and parent.flow and event.start_mark.index == parent.start + 1:
            self.unquoted = True
            self.diagnostics.error(
                "yaml-unquoted-template",
                "`{{` without quotes begins a YAML mapping, not a template",
                self.source.position(parent.start),
                hint=_UNQUOTED_HINT,
            )
        elif not self.unquoted:
            self.diagnostics.error(
                "yaml-key", "a key must be plain text", self.pos(event), hint="quote the key"
            )

    def close(self) -> None:
        done = self.stack.pop()
        if done.anchor:
            self.anchors[done.anchor] = (done.tree, self.nodes - done.first_node + 1, done.height)
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, done.height + 1)
        if done.as_key:
            self.stack[-1].discard = True
        else:
            self.place(done.tree)

    def place(self, tree: Tree) -> None:
        """Put a finished value where it belongs."""
        if not self.stack:
            self.root = tree
            return
        parent = self.stack[-1]
        if isinstance(parent.tree, Sequence):
            parent.tree.items.append(tree)
        elif parent.discard:
            parent.discard = False
        elif parent.key is not None:
            parent.tree.entries.setdefault(parent.key.text, (parent.key, tree))
            parent.key = None

    # -- scalars and aliases --

    def scalar(self, loader: Any, event: Any) -> None:
        self.count(1, event)
        pos = self.pos(event)
        tag = event.tag
        if tag is None or tag == "!":
            tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        try:
            if self.expects_key():
                self.key(Key(key_text(tag, event.value, plain=not event.style), pos))
                return
            value = typed_value(tag, event.value)
        except BadScalar as bad:
            self.diagnostics.error(bad.code, bad.message, pos, hint=bad.hint)
            if self.expects_key():
                self.stack[-1].discard = True
                return
            value = None
        start, end = event.start_mark.index, event.end_mark.index
        scalar = Scalar(value, pos, start, end, self.source, event.style or "")
        if event.anchor:
            self.anchors[event.anchor] = (scalar, 1, 0)
        self.place(scalar)

    def key(self, key: Key) -> None:
        parent = self.stack[-1]
        if isinstance(parent.tree, Mapping) and key.text in parent.tree.entries:
            first = parent.tree.entries[key.text][0].pos.line
            self.diagnostics.error(
                "yaml-duplicate-key",
                f"the key {key.text!r} is already given on line {first}",
                key.pos,
                hint="keep one of them, or rename one",
            )
            parent.discard = True
            return
        parent.key = key

    def alias(self, event: Any) -> None:
        self.aliases += 1
        name = event.anchor
        if self.expects_key():
            raise self.refuse(
                "yaml-key", f"the alias *{name} is in the place of a key", event, "write the key out"
            )
        if any(open_.anchor == name for open_ in self.stack):
            raise self.refuse(
                "yaml-alias-cycle",
                f"the alias *{name} contains itself",
                event,
                "write the value out, without the alias",
            )
        if name not in self.anchors:
            raise self.refuse(
                "yaml-syntax", f"there is no anchor &{name} before this alias", event, "define it first"
            )
        tree, weight, height = self.anchors[name]
        if self.aliases > MAX_ALIASES:
            raise self.refuse(
                "yaml-alias-limit", f"more than {MAX_ALIASES} aliases", event, "write the values out"
            )
        if len(self.stack) + height > self.max_depth:
            raise self.refuse(
                "yaml-too-deep",
                f"nested more than {self.max_depth} levels deep",
                event,
                "write the value out, less deep",
            )
        self.count(weight, event)
        self.stack[-1].height = max(self.stack[-1].height, height + 1)
        self.place(tree)

    def count(self, weight: int, event: Any) -> None:
        self.nodes += weight
        if self.nodes > MAX_NODES:
            code = "yaml-alias-limit" if weight > 1 else "yaml-too-many-nodes"
            raise self.refuse(
                code,
                f"the document holds more than {MAX_NODES} values, aliases counted as often as they are used",
                event,
                "keep data in files or tables and pass its address in workload",
            )

    def explain(self, problem: yaml.YAMLError) -> None:
        """Report a parser error in the words of playbook authors."""
        mark = place_of(problem)
        offset = min(mark.index, len(self.source.text)) if mark is not None else 0
        code, message, hint = explain(problem, self.source.text, offset)
        self.diagnostics.error(code, message, self.source.position(offset), hint=hint)
