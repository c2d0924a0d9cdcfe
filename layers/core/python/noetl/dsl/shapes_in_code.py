"""Code that reads entries that no result has: ``data`` of SQL, ``status`` of HTTP.

Both are names of envelopes of other releases. ``get`` answers nothing there, so the code goes on without the values. Other code takes the
result of SQL for its rows, or that of a shell command for its text.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from noetl.dsl.python_source import PythonTree, parse_python, python_tree

_OF_SQL = re.compile(r"command_\d+|rows|row_count|columns|affected_rows|results")
"""Entries of a result of SQL, as code reads them."""
_COMMAND = re.compile(r"command_\d+")
_OF_TEXT = frozenset(
    {
        *("strip", "lstrip", "rstrip", "split", "splitlines", "startswith", "endswith", "find", "rfind"),
        *("lower", "upper", "replace", "partition", "rpartition", "removeprefix", "removesuffix"),
    }
)
"""Methods that a text has, and no mapping."""
_FIRST_LINE = re.compile(r"[^\n]*\n?")
_DEPTH = 4
"""Entries below each other that are looked at: of the context, of a result, of a list."""
_ROUNDS = 3
Shape = Literal["whole", "item", "data", "command", "row"]
Known = tuple[Shape, str]
"""What an expression is of a source.

It is its whole result, an item of it, what ``data`` of it was meant to be, what one of its commands gave, or an item of that.
"""
_ITEMS: dict[Shape, Shape] = {"whole": "item", "command": "row"}


class Reading(NamedTuple):
    """A place of code.

    ``start`` and ``end``: what to leave out there; both 0 where no rewriting is safe.
    """

    source: str
    line: int
    column: int
    start: int = 0
    end: int = 0


@dataclass(slots=True)
class CodeShapes:
    """The tree of code, with what its names hold.

    ``given``: entries of the input → source; ``named``: sources that ``context`` answers.
    """

    tree: PythonTree
    given: Mapping[str, str]
    named: Collection[str]
    parents: Mapping[ast.AST, ast.AST] = field(default_factory=dict)
    held: dict[str, Known] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    """Names that are assigned once → what is assigned."""
    uses: dict[str, list[ast.Name]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.parents = self.tree.parents
        for node in self.tree.names:
            if isinstance(node.ctx, ast.Load):
                self.uses[node.id].append(node)
        bound = Counter(_bound(self.tree))
        self.held = {name: ("whole", source) for name, source in self.given.items() if name not in bound}
        for name in _parameters(self.tree) - self.given.keys() - bound.keys():
            if name in self.named:
                self.held[name] = ("whole", name)
        self._follow(bound)

    def _follow(self, bound: Mapping[str, int]) -> None:
        """Follow assignments and loops; each round also follows what was assigned further down."""
        sets = [one for one in self.tree.nodes if isinstance(one, ast.Assign | ast.For | ast.comprehension)]
        for _ in range(_ROUNDS):
            items: dict[str, list[Known]] = defaultdict(list)
            for node in sets:
                if isinstance(node, ast.Assign):
                    target = node.targets[0]
                    if len(node.targets) > 1:
                        continue
                    if isinstance(target, ast.Name) and bound.get(target.id) == 1:
                        self.values[target.id] = node.value
                        if (found := self.known(node.value)) is not None:
                            self.held[target.id] = found
                else:
                    for name, found in self._items(node):
                        items[name].append(found)
            for name, every in items.items():
                if len(every) == bound.get(name) and len(set(every)) == 1:
                    self.held[name] = every[0]

    def _items(self, node: ast.For | ast.comprehension) -> Iterator[tuple[str, Known]]:
        target, over = node.target, node.iter
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "enumerate":
            over = over.args[0] if over.args else over
            target = target.elts[-1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        found = self.known(over)
        if isinstance(target, ast.Name) and found is not None and found[0] in _ITEMS:
            yield target.id, (_ITEMS[found[0]], found[1])

    def known(self, node: ast.expr, depth: int = 0) -> Known | None:
        """Return what an expression is of a source."""
        node = _without_default(node)
        if isinstance(node, ast.Name):
            return self.held.get(node.id)
        owner, key, default = keyed(node)
        if owner is None or depth > _DEPTH:
            return None
        if isinstance(owner, ast.Name) and owner.id in ("input_data", "context") and isinstance(key, str):
            if key in self.given:
                return "whole", self.given[key]
            return ("whole", key) if owner.id == "context" and key in self.named else None
        of = self.known(owner, depth + 1)
        if of is None or of[0] in ("item", "row"):
            return None
        if of[0] != "command" and isinstance(key, str) and _COMMAND.fullmatch(key):
            return "command", of[1]
        if of[0] == "whole" and key == "data" and is_empty(default):
            return "data", of[1]
        return (_ITEMS[of[0]], of[1]) if isinstance(key, int) and of[0] in _ITEMS else None

    def is_choice(self, node: ast.AST) -> bool:
        """Return whether an expression is one of several that the code tries."""
        while not isinstance(node, ast.stmt):
            part, node = node, self.parents[node]
            if isinstance(node, ast.IfExp) and part is not node.test and not _asks_for_shape(node):
                return True
            if (
                isinstance(node, ast.BoolOp)
                and isinstance(node.op, ast.Or)
                and sum(not is_empty(one) for one in node.values) > 1
            ):
                return True
        return False

    def origin(self, node: ast.expr) -> tuple[ast.expr, str]:
        """Return the expression that a name holds, and that name."""
        node = _without_default(node)
        if isinstance(node, ast.Name) and node.id in self.values:
            return _without_default(self.values[node.id]), node.id
        return node, ""


def data_of_sql(code: str, given: Mapping[str, str], named: Collection[str]) -> list[Reading]:
    """Return the places where ``data`` of a result of SQL is read, in order.

    What the code tries beside another place is left out.
    """
    tree = tree_of(code, '"data"', "'data'")
    if tree is None:
        return []
    known = CodeShapes(tree, given, named)
    found: dict[ast.expr, bool] = {}
    tested = _tested_for_data(known)
    for node in tree.nodes:
        owner: ast.expr | None = None
        key: object = None
        if isinstance(node, ast.For | ast.comprehension):
            owner = node.iter
        elif isinstance(node, ast.expr):
            owner, key, _ = keyed(node)
        of = known.known(owner) if owner is not None else None
        if owner is None or of is None or of[0] != "data" or of[1] in tested:
            continue
        place, name = known.origin(owner)
        if known.is_choice(place) or (isinstance(node, ast.expr) and known.is_choice(node)):
            continue
        plain = isinstance(key, str) and _OF_SQL.fullmatch(key) is not None
        if (
            plain
            and not _COMMAND.fullmatch(str(key))
            and not all(_reads_sql(known, use) for use in known.uses[name])
        ):
            continue
        if plain or not isinstance(node, ast.expr):
            found[place] = found.get(place, True) and plain
    return sorted(reading_of(code, known, place, plain) for place, plain in found.items())


def status_words(
    code: str, given: Mapping[str, str], named: Collection[str], loops: Collection[str]
) -> list[Reading]:
    """Return the places where ``status`` of an HTTP answer is compared with a text.

    ``loops``: sources whose result is a list of answers. Code that reads ``status_code``, too, knows what an answer is.
    """
    tree = tree_of(code, '"status"', "'status'")
    if tree is None or '"status_code"' in code or "'status_code'" in code:
        return []
    known = CodeShapes(tree, given, named)
    found = []
    for node in tree.nodes:
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In):
            continue
        owner, key, default = keyed(node.left)
        of = known.known(owner) if owner is not None and key == "status" and is_empty(default) else None
        if of is None or not _is_words(node.comparators[0]) or known.is_choice(node):
            continue
        if isinstance(node.left, ast.Call) and of[0] == ("item" if of[1] in loops else "whole"):
            found.append(
                Reading(of[1], node.left.lineno, _column(code, node.left.lineno, node.left.col_offset))
            )
    return sorted(found, key=lambda one: (one.line, one.column))


def rows_of_sql(code: str, given: Mapping[str, str], named: Collection[str] = ()) -> list[Reading]:
    """Return the places where code takes the result of SQL for the list of its rows.

    One for each source; code that reads that source as a mapping anywhere knows what it is.
    """
    if not given and not any(name in code for name in named):
        return []
    tree = tree_of(code, "len(", "[", "for ")
    if tree is None:
        return []
    return _taken(code, CodeShapes(tree, given, named), _uses_of_rows)


def whole_answers(
    code: str, given: Mapping[str, str], named: Collection[str], loops: Collection[str]
) -> list[Reading]:
    """Return the places where code reads ``status_code`` of a source, and ``data``, too.

    One for each source: both are parts of an HTTP answer, and seldom of its body. ``loops``: sources of which it reads them of an item.
    """
    tree = tree_of(code, '"status_code"', "'status_code'")
    if tree is None:
        return []
    known = CodeShapes(tree, given, named)
    found: dict[str, Reading] = {}
    data: set[str] = set()
    for node in tree.nodes:
        owner, key, _ = keyed(node)
        of = known.known(owner) if owner is not None and isinstance(node, ast.expr) else None
        if of is None or of[0] != ("item" if of[1] in loops else "whole"):
            continue
        if key == "data":
            data.add(of[1])
        elif key == "status_code" and isinstance(node, ast.expr):
            place = Reading(of[1], node.lineno, _column(code, node.lineno, node.col_offset))
            found.setdefault(of[1], place)
    return sorted(one for source, one in found.items() if source in data)


def free_names(code: str, name: str) -> list[Reading]:
    """Return the places where code reads a name that it neither binds nor is given."""
    tree = tree_of(code, name)
    if tree is None or name in _bound(tree) or name in _parameters(tree):
        return []
    within = tree.within_texts
    found = []
    for node in sorted(_names(tree, name), key=lambda one: (one.lineno, one.col_offset)):
        start = offset_of(code, node.lineno, node.col_offset)
        span = (0, 0) if node in within else (start, start + len(name))
        found.append(Reading(name, node.lineno, _column(code, node.lineno, node.col_offset), *span))
    return found


def entries_of_scope(code: str, scope: str, entries: Collection[str]) -> list[Reading]:
    """Return the places where code reads one of ``entries`` of a scope.

    It has that as a parameter, or from ``context``.
    """
    return entries_of_whole(code, {}, {scope}, entries) if scope in code else []


def entries_of_whole(
    code: str, given: Mapping[str, str], named: Collection[str], entries: Collection[str]
) -> list[Reading]:
    """Return the places where code reads one of ``entries`` of a whole source."""
    tree = tree_of(code, *entries)
    if tree is None:
        return []
    known = CodeShapes(tree, given, named)
    found = []
    for node in tree.nodes:
        owner, key, _ = keyed(node)
        if owner is None or not isinstance(node, ast.expr) or key not in entries or known.is_choice(node):
            continue
        of = known.known(owner)
        if of is not None and of[0] == "whole":
            found.append(Reading(of[1], node.lineno, _column(code, node.lineno, node.col_offset)))
    return sorted(found, key=lambda one: (one.line, one.column))


def read_alone(code: str, given: Mapping[str, str], entry: str) -> set[str]:
    """Return the sources of which code reads no other entry than this one."""
    tree = tree_of(code, entry)
    if tree is None:
        return set()
    known = CodeShapes(tree, given, ())
    keys: dict[str, set[object]] = defaultdict(set)
    for node in tree.nodes:
        owner, key, _ = keyed(node)
        of = known.known(owner) if owner is not None and isinstance(node, ast.expr) else None
        if of is not None and of[0] == "whole" and isinstance(node, ast.expr):
            keys[of[1]].add(None if known.is_choice(node) else key)
    return {source for source, found in keys.items() if found == {entry}}


def bound_names(code: str) -> set[str]:
    """Return the names that code assigns or defines, without parameters of ``main``."""
    tree = tree_of(code, "")
    return set() if tree is None else set(_bound(tree))


def is_parameter(code: str, name: str) -> bool:
    """Return whether ``main`` has a parameter of this name."""
    tree = tree_of(code, name)
    return tree is not None and name in _parameters(tree)


def renamed_parameter(code: str, name: str, new: str) -> str:
    """Return code whose ``main`` has another name for a parameter.

    Only entries of it are read. It is the code as it is where it has that name already, or no rewriting is sure.
    """
    tree = tree_of(code, name)
    if tree is None or name in _bound(tree) or name not in _parameters(tree):
        return code
    if new in _bound(tree) or new in _parameters(tree):
        return code
    tree = PythonTree(parse_python(code))  # its names change
    owners = (keyed(node)[0] for node in tree.nodes)
    read = {id(_without_default(owner)) for owner in owners if owner is not None}
    if any(id(one) not in read for one in _names(tree, name)):
        return code
    places = [one for main in _mains(tree) for one in ast.walk(main.args) if isinstance(one, ast.arg)]
    starts = [offset_of(code, one.lineno, one.col_offset) for one in places if one.arg == name]
    within = tree.within_texts
    starts += [offset_of(code, one.lineno, one.col_offset) for one in _names(tree, name) if one not in within]
    for one in places:
        one.arg = new if one.arg == name else one.arg
    return _replaced(code, tree, name, new, {(start, start + len(name)) for start in starts})


def renamed(code: str, name: str, new: str) -> str:
    """Return code that reads ``new`` where it read a free ``name``.

    It is the code as it is where no rewriting is sure.
    """
    spans = {(one.start, one.end) for one in free_names(code, name) if one.end}
    return _replaced(code, PythonTree(parse_python(code)), name, new, spans)


def _replaced(code: str, tree: PythonTree, name: str, new: str, spans: set[tuple[int, int]]) -> str:
    """Put a name into places of code, and into the texts with braces that read it."""
    for node in tree.nodes:
        if isinstance(node, ast.JoinedStr) and node.end_lineno and node.end_col_offset is not None:
            start, end = (
                offset_of(code, node.lineno, node.col_offset),
                offset_of(code, node.end_lineno, node.end_col_offset),
            )
            within = re.finditer(rf"(?<![\w.'\"]){re.escape(name)}(?![\w'\"])", code[start:end])
            spans |= {(start + one.start(), start + one.end()) for one in within}
    text = code
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    for one in _names(tree, name):
        one.id = new
    try:
        return text if ast.dump(parse_python(text)) == ast.dump(tree.module) else code
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code


def _names(tree: PythonTree, name: str) -> list[ast.Name]:
    return [node for node in tree.names if node.id == name]


def rows_of_a_command(
    code: str, given: Mapping[str, str], named: Collection[str] = (), *, taken: Collection[str] | None = None
) -> list[Reading]:
    """Return the places where code takes what a command of SQL gave for the list of its rows.

    ``start`` and ``end`` are those of ``.get("command_0", …)`` or ``["command_0"]``. ``taken``: the sources of which it does so, where they
    are known.
    """
    tree = tree_of(code, '"command_', "'command_")
    if tree is None:
        return []
    known = CodeShapes(tree, given, named)
    if taken is None:
        taken = {one.source for one in _taken(code, known, _uses_of_command, ("command", "row"))}
    found = set()
    for node in tree.nodes:
        if not isinstance(node, ast.Call | ast.Subscript):
            continue
        of = known.known(node)
        if of is not None and of[0] == "command" and of[1] in taken:
            found.add(reading_of(code, known, node, plain=True))
    return sorted(found)


def _uses_of_command(known: CodeShapes, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the uses of a list of rows; one that is gone through is one, too."""
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter, True
    else:
        yield from _uses_of_rows(known, node)


def text_of_shell(code: str, given: Mapping[str, str], named: Collection[str] = ()) -> list[Reading]:
    """Return the places where code takes the result of a shell command for its text.

    One for each source; code that reads that source as a mapping anywhere knows what it is.
    """
    if not given and not any(name in code for name in named):
        return []
    tree = tree_of(code, "str", "loads(", ".")
    return _taken(code, CodeShapes(tree, given, named), _uses_of_text) if tree is not None else []


_Uses = Callable[[CodeShapes, ast.AST], Iterator[tuple[ast.expr, bool]]]
"""What a node uses, and whether that use takes it for what it is not."""


def _taken(
    code: str, known: CodeShapes, uses: _Uses, shapes: tuple[Shape, Shape] = ("whole", "item")
) -> list[Reading]:
    found: dict[str, ast.expr] = {}
    others: set[str] = set()
    for node in known.tree.nodes:
        for owner, taken in uses(known, node):
            of = known.known(owner)
            if of is None or of[0] not in shapes or (of[0] == shapes[1] and not taken):
                continue
            if taken:
                found.setdefault(of[1], owner)
            else:
                others.add(of[1])
    readings = [
        Reading(source, owner.lineno, _column(code, owner.lineno, owner.col_offset))
        for source, owner in found.items()
        if source not in others
    ]
    return sorted(readings, key=lambda one: (one.line, one.column))


def _uses_of_text(known: CodeShapes, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the uses of a text."""
    if isinstance(node, ast.Call) and node.args and named_last(node.func) in ("isinstance", "loads"):
        kind = node.args[1] if len(node.args) > 1 else None
        of_text = kind is None or (isinstance(kind, ast.Name) and kind.id == "str")
        yield node.args[0], of_text
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_TEXT:
        yield node.func.value, True
    else:
        yield from ((owner, False) for owner, _ in _uses_of_rows(known, node))


def named_last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _uses_of_rows(known: CodeShapes, node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what a node uses, and whether that use is one of a list of rows, or of a row."""
    owner, key, _ = keyed(node)
    if owner is not None and isinstance(key, str):
        of = known.known(owner)
        yield owner, of is not None and of[0] in ("item", "row")
    elif owner is not None and isinstance(key, int) and isinstance(node, ast.Subscript):
        yield owner, True
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        if node.func.id == "len":
            yield node.args[0], True
        elif node.func.id in ("isinstance", "dict"):
            yield node.args[0], False
    elif isinstance(node, ast.Attribute) and node.attr in ("keys", "values", "items"):
        yield node.value, False
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        yield node.comparators[0], False
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(getattr(node, "ctx", None), ast.Load):
        for one in node.elts:
            yield one, False


def keyed(node: ast.AST) -> tuple[ast.expr | None, object, ast.expr | None]:
    """Return what ``x.get('key', default)`` and ``x['key']`` read, the key, and the default."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        if not node.args or not isinstance(node.args[0], ast.Constant):
            return None, None, None
        return node.func.value, node.args[0].value, node.args[1] if len(node.args) > 1 else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.value, node.slice.value, None
    return None, None, None


def is_empty(node: ast.expr | None) -> bool:
    """Return whether a default is empty."""
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.List):
        return not node.elts
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _is_no_value(node: ast.expr) -> bool:
    return is_empty(node) or (isinstance(node, ast.Constant) and node.value == "")


def _asks_for_shape(node: ast.IfExp) -> bool:
    """Return whether it is ``… if isinstance(x, dict) else {}``: one value, or nothing."""
    test, other = node.test, node.orelse
    asks = isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "isinstance"
    return asks and (is_empty(other) or isinstance(other, ast.Constant))


def _tested_for_data(known: CodeShapes) -> set[str]:
    """Return the sources of which code asks whether they have ``data``."""
    found = set()
    for node in known.tree.nodes:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            left, of = node.left, known.known(node.comparators[0])
            if of is not None and isinstance(left, ast.Constant) and left.value == "data":
                found.add(of[1])
    return found


def tree_of(code: str, *words: str) -> PythonTree | None:
    if not any(word in code for word in words):
        return None
    try:
        return python_tree(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _without_default(node: ast.expr) -> ast.expr:
    """Return ``x`` of ``(x or {})``."""
    if (
        isinstance(node, ast.BoolOp)
        and isinstance(node.op, ast.Or)
        and all(map(_is_no_value, node.values[1:]))
    ):
        return node.values[0]
    return node


def _bound(tree: PythonTree) -> Iterator[str]:
    """Yield each name that code assigns or defines, without parameters of ``main``."""
    given = {id(one) for main in _mains(tree) for one in ast.walk(main.args) if isinstance(one, ast.arg)}
    for node in tree.nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg) and id(node) not in given:
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest


def _mains(tree: PythonTree) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    found = (node for node in tree.module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [node for node in found if node.name == "main"]


def _parameters(tree: PythonTree) -> set[str]:
    return {
        one.arg
        for main in _mains(tree)
        for one in (*main.args.posonlyargs, *main.args.args, *main.args.kwonlyargs)
    }


def _reads_sql(known: CodeShapes, use: ast.Name) -> bool:
    """Return whether a use of a name reads an entry of a result of SQL, or asks for a mapping."""
    parent = known.parents[use]
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "isinstance":
        return True
    reading = known.parents[parent] if isinstance(parent, ast.Attribute) else parent
    owner, key, _ = keyed(reading)
    return owner is use and isinstance(key, str) and _OF_SQL.fullmatch(key) is not None


def _is_words(node: ast.expr) -> bool:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return bool(parts) and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in parts)


def reading_of(code: str, known: CodeShapes, place: ast.expr, plain: bool) -> Reading:
    owner, _, _ = keyed(place)
    found = known.known(place)
    assert owner is not None and found is not None and place.end_lineno and place.end_col_offset is not None
    line, column = place.lineno, _column(code, place.lineno, place.col_offset)
    end = offset_of(code, place.end_lineno, place.end_col_offset)
    if place in known.tree.within_texts:
        return Reading(found[1], line, column)
    if isinstance(place, ast.Subscript):
        within = offset_of(code, place.slice.lineno, place.slice.col_offset)
        start = code.rindex("[", 0, within)
        plain = plain and not code[start + 1 : within].strip()
    else:
        assert isinstance(place, ast.Call) and place.func.end_lineno and place.func.end_col_offset is not None
        start = offset_of(code, place.func.end_lineno, place.func.end_col_offset) - len(".get")
        plain = plain and code[start : start + len(".get")] == ".get"
    return Reading(found[1], line, column, *((start, end) if plain else (0, 0)))


@functools.lru_cache(maxsize=4)
def _starts(code: str) -> tuple[int, ...]:
    """Return where the lines of code begin, which is asked for each of its places."""
    return (0, *(found.end() for found in _FIRST_LINE.finditer(code)))


def offset_of(code: str, line: int, column: int) -> int:
    """Return the place in ``code`` of a line and a column in bytes."""
    starts = _starts(code)
    start = starts[line - 1]
    return start + len(code[start : start + column].encode()[:column].decode())


def _column(code: str, line: int, column: int) -> int:
    """Return the column in characters, from 1."""
    return offset_of(code, line, column) - _starts(code)[line - 1] + 1
