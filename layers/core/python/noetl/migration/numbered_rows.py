"""Code that takes rows of a command of SQL for lists, with all that it does to them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from noetl.dsl.shapes_in_code import CodeShapes, keyed, named_last, offset_of, reading_of, tree_of

_SAME = frozenset({"list", "tuple", "sorted", "reversed", "iter", "copy", "deepcopy"})
"""Functions whose answer has the rows that they are given."""
_ONE = frozenset({"next", "max", "min", "choice"})
"""Functions that answer with one of the rows."""
_SECOND = frozenset({"map", "filter"})
"""Functions of a function and rows."""
_LISTS = frozenset({"writerow", "extend", "from_iterable", "join"})
"""Methods that take a row for a list of values."""
_OF_LISTS = frozenset({"pop", "append", "index", "count"})
_OF_MAPPINGS = frozenset({"get", "keys", "values", "items"})
_BRANCH = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ROUNDS = 4
_DEPTH = 20
Part = Literal["rows", "row"]


class Rows(NamedTuple):
    """What an expression has of the rows of a command.

    ``place``: the identity of the expression that reads the command.
    """

    place: int
    part: Part


@dataclass(slots=True)
class _Evidence:
    """How code uses the rows of one place."""

    listed: bool = False
    """It takes the command's result for the list of its rows."""
    named: bool = False
    """It reads columns by name."""
    counted: bool = False
    """It takes a row for a list, in a way that means something else, or nothing, for a mapping."""
    mapped: bool = False
    """It takes the command's result for a mapping."""


class TakenRows(NamedTuple):
    """What code takes for rows."""

    sources: set[str]
    numbered: dict[int, int]
    """Places of ``rows_of_a_command`` whose rows are lists → the start of the whole expression."""


def taken_rows(code: str, given: Mapping[str, str], named: Collection[str] = ()) -> TakenRows:
    """Return the sources whose commands are taken for lists of rows, and where rows are lists."""
    tree = tree_of(code, '"command_', "'command_")
    if tree is None:
        return TakenRows(set(), {})
    followed = _Followed(CodeShapes(tree, given, named))
    found = followed.evidence()
    sources: dict[str, list[_Evidence]] = defaultdict(list)
    numbered = {}
    for at, place in followed.places.items():
        known = followed.known.known(place)
        assert known is not None
        used = found[at]
        sources[known[1]].append(used)
        if used.counted and not used.named:
            start = offset_of(code, place.lineno, place.col_offset)
            numbered[reading_of(code, followed.known, place, plain=True).start] = start
    return TakenRows(
        {
            source
            for source, uses in sources.items()
            if any(one.listed for one in uses) and not any(one.mapped for one in uses)
        },
        numbered,
    )


@dataclass(slots=True)
class _Followed:
    """The names of code, with the rows that they hold."""

    known: CodeShapes
    places: dict[int, ast.expr] = field(default_factory=dict)
    held: dict[tuple[str, ast.AST], Rows | None] = field(default_factory=dict)
    """A name and the statement or function in which it is bound → what it holds there."""
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    found: dict[int, _Evidence] = field(default_factory=lambda: defaultdict(_Evidence))

    def __post_init__(self) -> None:
        nodes = self.known.tree.nodes
        for node in nodes:
            if isinstance(node, ast.Call | ast.Subscript) and self._is_command(node):
                self.places[id(node)] = node
            elif isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
        binding = [one for one in nodes if isinstance(one, _BINDS)] if self.places else []
        for _ in range(_ROUNDS):
            before = dict(self.held)
            for node in binding:
                self._bind(node)
            if self.held == before:
                break

    def _is_command(self, node: ast.expr) -> bool:
        of = self.known.known(node)
        return of is not None and of[0] == "command"

    # --- what an expression is ------------------------------------------------------------------

    def rows(self, node: ast.AST | None, depth: int = 0) -> Rows | None:
        """Return what an expression has of the rows of a place; None for anything else."""
        if node is None or depth > _DEPTH:
            return None
        if id(node) in self.places:
            return Rows(id(node), "rows")
        if isinstance(node, ast.Name):
            return self._held(node)
        if isinstance(node, ast.IfExp):
            return self.rows(node.body, depth + 1) or self.rows(node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp):
            return next(filter(None, (self.rows(one, depth + 1) for one in node.values)), None)
        if isinstance(node, ast.NamedExpr | ast.Starred | ast.Await):
            return self.rows(node.value, depth + 1)
        if isinstance(node, ast.BinOp):
            left, right = self.rows(node.left, depth + 1), self.rows(node.right, depth + 1)
            return next((one for one in (left, right) if one is not None and one.part == "rows"), None)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            row = self.rows(node.elt, depth + 1)
            return row._replace(part="rows") if row is not None and row.part == "row" else None
        if isinstance(node, ast.Subscript):
            return self._item(node, depth)
        return self._answer(node, depth) if isinstance(node, ast.Call) else None

    def _item(self, node: ast.Subscript, depth: int) -> Rows | None:
        of = self.rows(node.value, depth + 1)
        if of is None or of.part == "row" or isinstance(keyed(node)[1], str):
            return None
        return of if isinstance(node.slice, ast.Slice) else of._replace(part="row")

    def _answer(self, node: ast.Call, depth: int) -> Rows | None:
        name = named_last(node.func)
        if isinstance(node.func, ast.Attribute) and name in ("pop", "copy"):
            of = self.rows(node.func.value, depth + 1)
            if of is not None and of.part == "rows":
                return of._replace(part="row") if name == "pop" else of
        given = node.args[1:] if name == "filter" else node.args
        of = self.rows(given[0], depth + 1) if given and name in _SAME | _ONE | {"filter"} else None
        if of is None or of.part == "row":
            return None
        return of._replace(part="row") if name in _ONE else of

    def _held(self, node: ast.Name) -> Rows | None:
        at: ast.AST | None = node
        while at is not None:
            if (node.id, at) in self.held:
                return self.held[node.id, at]
            at = self.known.parents.get(at)
        return None

    # --- what names hold ------------------------------------------------------------------------

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            within = self.known.parents[node] if isinstance(node, ast.comprehension) else node
            self._take_apart(node.target, self._each(node.iter), within)
        elif isinstance(node, ast.Assign):
            of = self.rows(node.value)
            for target in node.targets:
                if isinstance(target, ast.Name) and of is not None:
                    self.held[target.id, self._scope(node)] = of
                elif of is not None and of.part == "rows" and isinstance(target, ast.Tuple | ast.List):
                    self._first_ones(target, of, self._scope(node))
        elif isinstance(node, ast.NamedExpr):
            if (of := self.rows(node.value)) is not None:
                self.held[node.target.id, self._scope(node)] = of
        elif isinstance(node, ast.Call):
            self._hand_over(node)

    def _first_ones(self, target: ast.Tuple | ast.List, of: Rows, within: ast.AST) -> None:
        """Bind ``first, *others = rows``."""
        for one in target.elts:
            rest = isinstance(one, ast.Starred)
            name = one.value if isinstance(one, ast.Starred) else one
            if isinstance(name, ast.Name):
                self.held[name.id, within] = of if rest else of._replace(part="row")
            else:
                self._take_apart(name, of._replace(part="row"), within)

    def _each(self, iterated: ast.expr) -> Rows | list[Rows | None] | None:
        """Return what each item is; a list: it is a tuple of these."""
        if isinstance(iterated, ast.Call) and named_last(iterated.func) in (
            "enumerate",
            "zip",
            "zip_longest",
        ):
            of = [self._each(one) for one in iterated.args]
            plain = [one if isinstance(one, Rows) else None for one in of]
            return [None, *plain[:1]] if named_last(iterated.func) == "enumerate" else plain
        found = self.rows(iterated)
        return found._replace(part="row") if found is not None and found.part == "rows" else None

    def _take_apart(self, target: ast.expr, each: Rows | list[Rows | None] | None, within: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.held[target.id, within] = each if isinstance(each, Rows) else None
        elif isinstance(target, ast.Tuple | ast.List):
            parts = (
                each
                if isinstance(each, list) and len(each) == len(target.elts)
                else [None] * len(target.elts)
            )
            if isinstance(each, Rows):
                self.found[each.place].counted = True
            for one, part in zip(target.elts, parts, strict=True):
                self._take_apart(one, part, within)

    def _hand_over(self, node: ast.Call) -> None:
        """Bind the parameters of own functions, and of functions that are called with each row."""
        function = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is not None:
            names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            for name, value in (
                *zip(names, node.args, strict=False),
                *((w.arg, w.value) for w in node.keywords),
            ):
                if name is not None and (of := self.rows(value)) is not None:
                    self.held[name, function] = of
        called = [word.value for word in node.keywords if word.arg == "key"]
        over = node.args[0] if node.args else None
        if named_last(node.func) in _SECOND and len(node.args) > 1:
            called, over = [node.args[0]], node.args[1]
        of = self.rows(over)
        if of is None or of.part == "row":
            return
        for one in called:
            by = self.functions.get(one.id) if isinstance(one, ast.Name) else one
            if isinstance(by, _BRANCH) and by.args.args:
                self.held[by.args.args[0].arg, by] = of._replace(part="row")

    def _scope(self, node: ast.AST) -> ast.AST:
        at = self.known.parents[node]
        while not isinstance(at, (*_BRANCH, ast.Module)):
            at = self.known.parents[at]
        return at

    # --- how they are used ----------------------------------------------------------------------

    def evidence(self) -> dict[int, _Evidence]:
        """Return how the rows of each place are used."""
        nodes = self.known.tree.nodes if self.places else []
        by_name = any(isinstance(one, ast.Call) and named_last(one.func) == "DictWriter" for one in nodes)
        for node in nodes:
            for used, how in _uses(node):
                of = self.rows(used)
                if of is None:
                    continue
                used_here = self.found[of.place]
                if (
                    by_name
                    and isinstance(node, ast.Call)
                    and named_last(node.func) in ("writerow", "writerows")
                ):
                    used_here.listed = used_here.named = True
                elif of.part == "rows":
                    used_here.mapped |= how in ("name", "asked", "within")
                    used_here.listed |= how in ("number", "index", "each", "spread", "count")
                    used_here.counted |= how in ("spread", "copied")
                else:
                    used_here.listed = True
                    if how == "index" and isinstance(node, ast.Subscript):
                        how = self._by(node.slice)
                    used_here.named |= how in ("name", "copied")
                    used_here.counted |= how in ("number", "each", "spread", "within")
        return self.found

    def _by(self, index: ast.expr) -> How:
        """Return whether a computed index of a row is a number or a name."""
        at: ast.AST | None = index
        while at is not None and isinstance(index, ast.Name):
            over = [at] if isinstance(at, ast.For) else getattr(at, "generators", [])
            for one in over:
                if isinstance(one.target, ast.Name) and one.target.id == index.id:
                    return "number" if named_last(getattr(one.iter, "func", one.iter)) == "range" else "name"
            at = self.known.parents.get(at)
        return "count"


_BINDS = (ast.For, ast.AsyncFor, ast.comprehension, ast.Assign, ast.NamedExpr, ast.Call)
How = Literal["name", "number", "each", "spread", "count", "within", "copied", "asked", "index"]


def _uses(node: ast.AST) -> Iterator[tuple[ast.expr, How]]:
    """Yield what a node uses, and how.

    ``each``: its items, ``spread``: its items as lists. ``count``: only how many there are. ``within``: whether something is in it.
    ``copied``: as a mapping of its items. ``asked``: what it is. ``index``: an item whose place or name is computed.
    """
    if isinstance(node, ast.Call):
        yield from _uses_of_call(node)
    elif isinstance(node, ast.Compare):
        yield from _uses_of_comparison(node)
    elif isinstance(node, ast.Subscript):
        key = keyed(node)[1]
        plain = isinstance(node.slice, ast.Constant | ast.UnaryOp | ast.Slice)
        yield node.value, "name" if isinstance(key, str) else "number" if plain else "index"
    elif isinstance(node, ast.Attribute):
        if node.attr in _OF_MAPPINGS | _OF_LISTS:
            yield node.value, "name" if node.attr in _OF_MAPPINGS else "each"
    elif isinstance(node, ast.Dict):
        yield from ((value, "name") for key, value in zip(node.keys, node.values, strict=True) if key is None)
    elif isinstance(node, ast.Match):
        if any(isinstance(one, ast.MatchSequence) for case in node.cases for one in ast.walk(case.pattern)):
            yield node.subject, "each"
    elif isinstance(node, ast.BinOp):
        yield from ((one, "each") for one in (node.left, node.right))
    elif isinstance(node, ast.Assign):
        if any(isinstance(one, ast.Tuple | ast.List) for one in node.targets):
            yield node.value, "each"
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield node.iter, "each"
    elif isinstance(node, ast.Starred | ast.AugAssign):
        yield node.value, "each"


def _uses_of_comparison(node: ast.Compare) -> Iterator[tuple[ast.expr, How]]:
    lists = any(isinstance(one, ast.List | ast.Tuple) for one in (node.left, *node.comparators))
    for one, operator in zip(node.comparators, node.ops, strict=True):
        if isinstance(operator, ast.In | ast.NotIn):
            yield one, "spread" if isinstance(node.left, ast.List | ast.Tuple) else "within"
        elif lists:
            yield one, "each"
    if lists:
        yield node.left, "each"


def _uses_of_call(node: ast.Call) -> Iterator[tuple[ast.expr, How]]:
    name = named_last(node.func)
    yield from ((word.value, "name") for word in node.keywords if word.arg is None)
    for one in node.args:
        if isinstance(one, ast.Starred) and name in ("zip", "zip_longest", "chain", "product"):
            yield one.value, "spread"
    if name in ("len", "any", "all"):
        yield from ((one, "count") for one in node.args)
    elif name == "isinstance" and len(node.args) == 2:
        yield node.args[0], "name" if "dict" in ast.dump(node.args[1]) else "asked"
    elif name in ("writerows", "from_iterable", "executemany"):
        yield from ((one, "spread") for one in node.args[-1:])
    elif name == "dict":
        yield from ((one, "copied") for one in node.args)
    elif name in _SECOND and len(node.args) > 1:
        by_number = named_last(node.args[0]) in ("list", "tuple") or _gets_by_number(node.args[0])
        yield node.args[1], "spread" if by_number else "each"
    elif name in _SAME | _ONE | _LISTS | {"set", "sum", "enumerate", "zip", "zip_longest", "deque"}:
        by_number = any(word.arg == "key" and _gets_by_number(word.value) for word in node.keywords)
        yield from ((one, "spread" if by_number else "each") for one in node.args)


def _gets_by_number(node: ast.expr) -> bool:
    """Return whether it is ``itemgetter(0)``."""
    return (
        isinstance(node, ast.Call)
        and named_last(node.func) == "itemgetter"
        and any(isinstance(one, ast.Constant) and isinstance(one.value, int) for one in node.args)
    )
