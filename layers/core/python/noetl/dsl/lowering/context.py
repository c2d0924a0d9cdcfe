"""Shared parts of lowering: places of templates, the document's names, values as nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from noetl.domain.durations import parse_duration, plain_seconds
from noetl.domain.kinds import HOLE, KindLookup
from noetl.domain.sizes.table import NAME, TEMPLATES, Size
from noetl.dsl.code_templates import templates_in_code
from noetl.dsl.diagnostics import Diagnostics
from noetl.dsl.expressions import Analysis, analyse, has_template
from noetl.dsl.forms import Form
from noetl.dsl.program import Expr, LiteralNode, Map, Node, Pos, Seq, Sql, Text
from noetl.dsl.template_rules import TemplateProblem
from noetl.dsl.versions import SEMANTICS
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Sequence, Tree

MAX_TEMPLATES = TEMPLATES.value


@dataclass(frozen=True, slots=True)
class Place:
    """A kind of place for templates: may secrets be read there, is an iteration in scope?"""

    name: str
    secrets: bool = False
    iteration: bool = False


TOOL = Place("a tool", secrets=True, iteration=True)
RULE = Place("a guard", iteration=True)
VALUE = Place("a value that is stored", iteration=True)
ADMIT = Place("admission")
MUTEX = Place("`mutex`")
LIMITS = Place("`limits`")
STEP_ARGS = Place("`args`")
LOOP = Place("loop.in")
BOUNDARY = Place("a guard at the end")
BOUNDARY_VALUE = Place("a value written at the end")
BOUNDARY_TOOL = Place("a tool run at the end", secrets=True)
NEXT_ARGS = Place("next.args")
ON_ERROR_ARGS = Place("on_error.args")
START = Place("workload")
KEYCHAIN = Place("keychain", secrets=True)
GUARDS = (RULE, BOUNDARY, ADMIT)
"""Places of conditions."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where lowering is: the step, the kind of place, and the names only this place knows."""

    step: str
    place: Place
    form: Form = "canonical"
    parallel: bool = False
    """Inside the body of a parallel loop."""
    names: frozenset[str] = frozenset()
    undoing: bool = False
    """In a compensation: the step's own result is there, and any step may have run."""
    open: bool = False
    """Names may come from a computed ``input``: an unknown bare name is not an error."""
    chosen: bool = False
    """It is open only because the task is chosen at run time: the inputs of the call may be meant for another one."""

    def at(self, place: Place) -> Frame:
        return replace(self, place=place)

    def guard(self) -> Frame:
        """Return this place for a guard, inside or outside of the iteration as it was."""
        return self.at(RULE if self.place.iteration else BOUNDARY)

    def value(self) -> Frame:
        """Return this place for a value that is stored."""
        return self.at(VALUE if self.place.iteration else BOUNDARY_VALUE)

    def tool(self) -> Frame:
        """Return this place for a tool's parameters."""
        return self.at(TOOL if self.place.iteration else BOUNDARY_TOOL)

    def knowing(self, names: Collection[str], *, open_: bool = False) -> Frame:
        return replace(
            self,
            names=self.names | frozenset(names),
            open=self.open or open_,
            chosen=self.chosen and not open_,
        )

    def choosing(self) -> Frame:
        """Return this place for a task that is chosen at run time."""
        return replace(self, open=True, chosen=not self.open)


@dataclass(frozen=True, slots=True)
class TemplateUse:
    """One template of the document, for the checks."""

    analysis: Analysis
    scalar: Scalar
    frame: Frame
    sql: bool = False
    """It is SQL, whose values are bound."""


@dataclass(slots=True)
class Names:
    """Every name that the document assigns."""

    steps: dict[str, Pos] = field(default_factory=dict)
    aliases: dict[str, tuple[str, Pos]] = field(default_factory=dict)
    """second name of a step's result → the step, and the place of the name"""
    workload: set[str] = field(default_factory=set)
    ctx: set[str] = field(default_factory=set)
    vars: set[str] = field(default_factory=set)
    keychain: set[str] = field(default_factory=set)
    iterators: dict[str, str] = field(default_factory=dict)
    """step → its iterator"""
    args: dict[str, set[str]] = field(default_factory=dict)
    """step → names that arcs give it"""
    own_args: dict[str, Tree | None] = field(default_factory=dict)
    """step → its own ``args``"""
    args_open: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=dict)
    calls_back: set[str] = field(default_factory=set)
    """Steps that may wait for a callback: their tasks know ``callback``."""
    iter: dict[str, set[str]] = field(default_factory=dict)

    def arguments(self, step: str) -> set[str]:
        """Names that arcs and the step's own ``args`` give a step."""
        own = self.own_args.get(step)
        return self.args.get(step, set()) | (set(own.entries) if isinstance(own, Mapping) else set())

    def give_args(self, step: str, tree: Tree | None) -> None:
        """Record ``tree`` as a payload for ``step``."""
        if isinstance(tree, Mapping):
            self.args.setdefault(step, set()).update(tree.entries)
        elif tree is not None:
            self.args_open.add(step)


@dataclass(slots=True)
class Lowering:
    """The state of one compilation."""

    kinds: KindLookup
    diagnostics: Diagnostics
    ambiguous: frozenset[str] = frozenset()
    strict: bool = False
    """Older spellings and unused names are looked for too."""
    semantics: int = SEMANTICS
    """The meaning of the language that the program keeps."""
    files: dict[str, Any] | None = None
    """What is shipped behind the playbook, by path; None: nothing is missed."""
    uses: list[TemplateUse] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    workbook: dict[str, Mapping] = field(default_factory=dict)
    workbook_used: set[str] = field(default_factory=set)
    workbook_inputs: set[Pos] = field(default_factory=set)
    """Places of the values in the inputs that tasks of the workbook have of their own."""
    agents: dict[str, str] = field(default_factory=dict)
    """step that runs the tools of an agent → the step of the agent"""
    arcs: int = 0
    templates: int = 0
    made: int = 0
    """Templates that the compiler itself wrote: arguments of a step in its tasks."""

    # -- values --

    def node(self, tree: Tree | None, frame: Frame) -> Node:
        """Lower a value with its templates, types kept."""
        if tree is None:
            return LiteralNode(None)
        if isinstance(tree, Scalar):
            return self._scalar(tree, frame)
        if isinstance(tree, Sequence):
            items = tuple(self.node(item, frame) for item in tree.items)
            return _collapse_items(items)
        self.check_keys(tree)
        return _collapse_entries(tuple((key.text, self.node(value, frame)) for key, value in tree.items()))

    def optional(self, tree: Tree | None, frame: Frame) -> Node | None:
        return None if tree is None else self.node(tree, frame)

    def guard(self, tree: Tree | None, frame: Frame) -> Node | None:
        """Lower a condition. Since meaning 3, an undefined name in it is false."""
        node = self.optional(tree, frame)
        if self.semantics > 2 and isinstance(node, (Expr, Text)):
            return msgspec.structs.replace(node, lenient=True)
        return node

    def seconds(self, tree: Tree | None, frame: Frame) -> Node | None:
        """Lower a duration: a literal becomes its seconds.

        A template may yield seconds or a duration's text.
        """
        if isinstance(tree, Mapping):
            entries = tuple(
                (key.text, self.seconds(value, frame) or LiteralNode(None)) for key, value in tree.items()
            )
            return _collapse_entries(entries)
        if isinstance(tree, Scalar) and isinstance(tree.value, str) and not has_template(tree.value):
            found = parse_duration(tree.value)
            return LiteralNode(tree.value if found is None else plain_seconds(found))
        return self.optional(tree, frame)

    def _scalar(self, scalar: Scalar, frame: Frame) -> Node:
        value = scalar.value
        if not isinstance(value, str) or not has_template(value):
            return LiteralNode(value)
        analysis = self.analysis(scalar)
        if analysis is None:
            return LiteralNode(value)
        self.uses.append(TemplateUse(analysis, scalar, frame))
        reads = analysis.reads(self.ambiguous)
        chooses = analysis.chooses and self.semantics > 3
        if analysis.expression is not None:
            place = expression_pos(scalar, analysis.expression)
            return Expr(analysis.expression, place, reads, chooses=chooses)
        return Text(value, scalar.content_pos(), reads, chooses=chooses)

    def sql(self, tree: Tree, frame: Frame) -> Node:
        """SQL text, or a list of SQL texts."""
        if isinstance(tree, Sequence):
            return Seq(tuple(self.sql(item, frame) for item in tree.items))
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str):
            return self.node(tree, frame)
        reads: tuple[str, ...] = ()
        analysis = self.analysis(tree) if has_template(tree.value) else None
        if analysis is not None:
            self.uses.append(TemplateUse(analysis, tree, frame, sql=True))
            reads = analysis.reads(self.ambiguous)
            self._check_sql(tree)
            self.check_escapes(tree)
            self._check_lists(tree)
        return Sql(tree.value, tree.content_pos(), reads)

    def _check_sql(self, tree: Scalar) -> None:
        found = self.kinds.sql_problem(tree.value) if self.semantics > 2 else None
        if found is None:
            return
        message, hint, line = found
        start = sum(len(part) + 1 for part in tree.value.split("\n")[: line - 1])
        place = tree.locate(max(tree.value.find("{{", start), start))
        self.diagnostics.error("sql-template", message, place, hint=hint)

    def check_escapes(self, tree: Scalar) -> None:
        """Report quotes that are doubled by hand: the value is bound, so both would be stored.

        A value that ``{% set %}`` escapes may be used where that is right as well: of its use there is a warning.
        """
        if self.semantics < 5:
            return
        text = str(tree.value)
        for found in self.kinds.sql_escapes(text):
            doubling = text[found.start : found.end].lstrip()
            if found.through:
                self.diagnostics.warning(
                    "sql-escaped-by-hand",
                    f"`{found.through}` has its quotes doubled by `set`, and is a value that needs no escaping: both are stored",
                    tree.locate(found.start),
                    hint="leave replace() out of the `set`: the value is a parameter",
                )
                continue
            self.diagnostics.error(
                "sql-escaped-by-hand",
                f"{doubling[:80]} doubles the quotes of a value that needs no escaping: both would be stored",
                tree.locate(found.end - len(doubling)),
                hint="leave it out, the value is a parameter; where doubled quotes are wanted, use replace() of SQL",
            )

    def _check_lists(self, tree: Scalar) -> None:
        """Warn of a list that is joined to one text, which is one bound value of ``IN``."""
        text = str(tree.value)
        for found in self.kinds.sql_lists(text):
            self.diagnostics.warning(
                "sql-joined-list",
                f"{text[found.start : found.end][:80]} compares with one text that has commas in it",
                tree.locate(found.start),
                hint=f"write {found.comparison[:80]}",
            )

    def check_code(self, tree: Tree) -> None:
        """Warn of templates in code, which stay as they are."""
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str) or not has_template(tree.value):
            return
        names = self.names.steps.keys() | set(self.names.iterators.values())
        for found in templates_in_code(tree.value, names):
            self.diagnostics.warning(
                "template-in-code",
                f"{found.text[:80]} is no template here: code stays as it is written",
                tree.locate(found.start),
                hint=f'name the value in the tool\'s input (x: "{found.text[:80]}"), and write x',
            )

    def analysis(self, tree: Tree | None) -> Analysis | None:
        """Analyse a template; return None for a plain value or a broken template (reported)."""
        if not isinstance(tree, Scalar) or not isinstance(tree.value, str) or not has_template(tree.value):
            return None
        written = bool(tree.source.text)
        self.templates += written
        self.made += not written
        count = self.templates if written else self.made
        if count > MAX_TEMPLATES:
            if count == MAX_TEMPLATES + 1:
                self.diagnostics.error(
                    "too-many-templates",
                    f"more than {MAX_TEMPLATES} templates in one playbook",
                    tree.pos,
                    hint="loop over a list, or move a part into a playbook of its own",
                )
            return None
        try:
            return analyse(tree.value)
        except TemplateProblem as problem:
            self.diagnostics.error(
                problem.code,
                f"the template cannot be used: {problem.message}",
                tree.locate(problem.offset),
                hint=problem.hint,
            )
            return None

    def check_name(self, size: Size, name: str, what: str, pos: Pos) -> None:
        """Report a name that is too long for the index that it becomes a part of."""
        if len(name) > size.value:
            self.diagnostics.error(
                "name-too-long",
                f"{what} has {len(name)} characters, more than {size.value}",
                pos,
                hint="choose a shorter name",
            )

    def check_entries(self, tree: Tree | None, what: str) -> None:
        """Report keys that are too long for the names of an execution's values."""
        if isinstance(tree, Mapping):
            for key, _ in tree.items():
                self.check_name(NAME, key.text, f"a key of {what}", key.pos)

    def check_keys(self, tree: Mapping) -> None:
        for key, _ in tree.items():
            if has_template(key.text):
                self.diagnostics.error(
                    "template-in-key",
                    "keys are literal text; a template in a key is not evaluated",
                    key.pos,
                    hint='build the mapping in one expression: "{{ {name: value} }}"',
                )

    def expression(self, tree: Scalar, source: str, frame: Frame) -> Node:
        """Lower a path without braces (``response.data.items``) to an expression."""
        analysis = analyse(f"{{{{ {source} }}}}")
        self.uses.append(TemplateUse(analysis, tree, frame))
        return Expr(source, tree.content_pos(), analysis.reads(self.ambiguous))


def expression_pos(scalar: Scalar, expression: str) -> Pos:
    """Return the place of the first character inside the braces."""
    return scalar.locate(max(scalar.value.find(expression, scalar.value.find("{{") + 2), 0))


def _collapse_items(items: tuple[Node, ...]) -> Node:
    values = [item.value for item in items if isinstance(item, LiteralNode)]
    return LiteralNode(values) if len(values) == len(items) else Seq(items)


def _collapse_entries(entries: tuple[tuple[str, Node], ...]) -> Node:
    values = {key: item.value for key, item in entries if isinstance(item, LiteralNode)}
    return LiteralNode(values) if len(values) == len(entries) else Map(entries)


def with_holes(tree: Tree) -> Any:
    """Return the plain value, with ``HOLE`` in place of each template."""
    if isinstance(tree, Mapping):
        return {key.text: with_holes(value) for key, value in tree.items()}
    if isinstance(tree, Sequence):
        return [with_holes(item) for item in tree.items]
    if isinstance(tree.value, str) and has_template(tree.value):
        return HOLE
    return tree.value


def merge_trees(outer: Tree | None, inner: Tree | None) -> Tree | None:
    """Layering of specs: mappings merge, anything else is replaced by the inner value."""
    if inner is None:
        return outer
    if not isinstance(outer, Mapping) or not isinstance(inner, Mapping):
        return inner
    entries = dict(outer.entries)
    for name, (key, value) in inner.entries.items():
        below = entries[name][1] if name in entries else None
        merged = merge_trees(below, value)
        entries[name] = (key, value if merged is None else merged)
    return Mapping(entries, inner.pos)
