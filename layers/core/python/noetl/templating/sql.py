"""SQL with templates: expressions become bound parameters, or quoted names where needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TemplateError
from noetl.dsl.program import Sql
from noetl.templating.contract import RenderedSql, RenderedStatement, Scope
from noetl.templating.limits import DEFAULT_LIMITS, Allowance
from noetl.templating.plain import to_text, unwrap
from noetl.templating.positions import fail
from noetl.templating.run import Run
from noetl.templating.sql_plan import Body, Fill, Op, Placeholder, Plan, make_plan
from noetl.templating.sql_split import Hole, Piece
from noetl.templating.sql_values import (
    SqlName,
    SqlText,
    quote_literal,
    quote_name,
    quote_part,
    word_part,
    write_value,
)
from noetl.templating.undefined import Undefined, closest
from noetl.templating.views import BLANK, raw

if TYPE_CHECKING:
    from jinja2 import nodes

    from noetl.templating.statements import Out, Statement


def render_sql(
    node: Sql, scope: Scope, params: Mapping[str, Any] | None = None, limits: Allowance = DEFAULT_LIMITS
) -> RenderedSql:
    """Render a SQL text to statements with bound parameters.

    ``params`` are the values of the author's own ``%(name)s`` placeholders; when given, ``%%`` in the text is a percent sign.
    Lists and mappings stay Python values in the parameters. Raises TemplateError.
    """
    run = Run(scope, limits)
    out: Out = []
    try:
        statement, plan, holes = compiled_sql(node.source)
        statement(run, out)
        values = [piece.value for piece in out if isinstance(piece, _Value)]
        if plan is None or len(values) != holes:
            plan = make_plan(_numbered(out))
        return _fill(plan, values, params)
    except Exception as error:
        fail(error, node, run.line)


def plain_sql(text: str, params: Mapping[str, Any] | None = None) -> RenderedSql:
    """Return the statements of a SQL text without templates (braces are characters)."""
    return _fill(make_plan([text]), (), params)


WHOLE = "a statement cannot begin with a value, nor be one"
WHOLE_HINT = "add | raw_sql where the text is SQL of the playbook's own; never to a value from outside"


def sql_problem(source: str) -> tuple[str, str | None, int] | None:
    """Report what is wrong with a SQL text for any values: message, hint and line, or None.

    A text with blocks or ``| raw_sql`` is known only when it is rendered.
    """
    from jinja2 import nodes

    from noetl.templating.parser import parse_template

    try:
        tree = parse_template(source)
        raw = any(node.name == "raw_sql" for node in tree.find_all(nodes.Filter))
        if raw or not all(isinstance(node, nodes.Output) for node in tree.body):
            return None
        plan = make_plan(pieces_of([part for node in tree.body for part in node.iter_child_nodes()]))
    except TemplateError as error:
        return error.message, error.hint, int(error.details.get("source_line", 1))
    for op in (op for ops in plan for op in ops):
        if isinstance(op, Fill) and op.place == "statement":
            return WHOLE, WHOLE_HINT, op.line
    return None


class _Value:
    """The value of an expression, among the text around it."""

    __slots__ = ("line", "value")

    def __init__(self, value: Any, line: int) -> None:
        self.value = value
        self.line = line


def _emit(run: Run, out: Out, value: Any) -> None:
    if isinstance(value, Undefined):
        raise value.error()
    if value is BLANK:
        return
    if isinstance(value, SqlText):
        run.meter.allocate(len(value))
        out.append(str(value))
    else:
        out.append(_Value(value if isinstance(value, SqlName) else unwrap(raw(value)), run.line))


@lru_cache(1024)
def compiled_sql(source: str) -> tuple[Statement, Plan | None, int]:
    """Compile a SQL text: its function, its plan or None, and its number of expressions.

    The plan is there when it is the same for every evaluation.
    """
    from jinja2 import nodes

    from noetl.templating.parser import parse_template
    from noetl.templating.statements import Blocks

    body = list(parse_template(source).body)
    statement = Blocks(_emit, captures=False).compile(body)
    if not all(isinstance(node, nodes.Output) for node in body):
        return statement, None, 0
    parts = [part for node in body for part in node.iter_child_nodes()]
    pieces = pieces_of(parts)
    number = sum(isinstance(piece, Hole) for piece in pieces)
    try:
        return statement, make_plan(pieces), number
    except TemplateError:  # may be right once ``| raw_sql`` has put its text in
        return statement, None, 0


def pieces_of(parts: Sequence[nodes.Node]) -> list[Piece]:
    """Return the parts of a template without blocks as texts and holes."""
    from jinja2 import nodes

    pieces: list[Piece] = []
    written: dict[str, int] = {}
    number = 0
    for part in parts:
        if isinstance(part, nodes.TemplateData):
            pieces.append(part.data)
            continue
        pieces.append(Hole(number, part.lineno, written.setdefault(repr(part), number)))
        number += 1
    return pieces


def _numbered(out: Out) -> list[Piece]:
    pieces: list[Piece] = []
    number = 0
    for piece in out:
        if isinstance(piece, _Value):
            pieces.append(Hole(number, piece.line))
            number += 1
        else:
            pieces.append(piece)
    return pieces


def _fill(plan: Plan, values: Sequence[Any], params: Mapping[str, Any] | None) -> RenderedSql:
    return RenderedSql(tuple(_Writer(values, params).write(ops) for ops in plan))


class _Writer:
    """Writes one statement."""

    def __init__(self, values: Sequence[Any], given: Mapping[str, Any] | None) -> None:
        self._values = values
        self._given = given
        self._texts: list[str] = []
        self._is_placeholder: list[bool] = []
        self._params: dict[str, Any] = {}
        self._shared: dict[tuple[str | int, ...], str] = {}

    def write(self, ops: tuple[Op, ...]) -> RenderedStatement:
        for op in ops:
            if isinstance(op, str):
                self._put(op if self._given is None else op.replace("%%", "%"))
            elif isinstance(op, Placeholder):
                self._placeholder(op)
            elif isinstance(op, Body):
                self._body(op)
            else:
                self._fill(op)
        if not self._params:
            return RenderedStatement("".join(self._texts))
        texts = [
            text if is_placeholder else text.replace("%", "%%")
            for text, is_placeholder in zip(self._texts, self._is_placeholder, strict=True)
        ]
        return RenderedStatement("".join(texts), self._params)

    def _fill(self, op: Fill) -> None:
        try:
            getattr(self, f"_{op.place}")(op)
        except TemplateError as error:
            error.details.setdefault("source_line", op.line)
            raise

    def _one(self, op: Fill) -> Any:
        """Return the only value of a fill, or the text of all its parts."""
        if len(op.parts) == 1 and isinstance(op.parts[0], int):
            return self._values[op.parts[0]]
        return self._text(op)

    def _text(self, op: Fill) -> str:
        return "".join(part if isinstance(part, str) else to_text(self._values[part]) for part in op.parts)

    def _value(self, op: Fill) -> None:
        value = self._one(op)
        if isinstance(value, SqlName):
            self._put(str(value))
        else:
            self._bind(value, op.shared)

    def _after_in(self, op: Fill) -> None:
        if isinstance(self._one(op), list):
            raise TemplateError("a list cannot stand after IN", hint="write = ANY({{ … }})")
        self._value(op)

    def _sorting(self, op: Fill) -> None:
        value = self._one(op)
        if not isinstance(value, SqlName):
            raise TemplateError(
                "a value after ORDER BY, GROUP BY or PARTITION BY would be a constant, not a column",
                hint="add | identifier for a column's name, | raw_sql for any other SQL",
            )
        self._put(str(value))

    def _name(self, op: Fill) -> None:
        self._put(quote_name(self._one(op)))

    def _part(self, op: Fill) -> None:
        value = self._one(op)
        self._put(str(value) if isinstance(value, SqlName) else word_part(to_text(value)))

    def _quoted_name(self, op: Fill) -> None:
        self._put(quote_part(self._text(op)))

    def _literal(self, op: Fill) -> None:
        self._put(quote_literal(self._text(op)))

    def _quoted(self, op: Fill) -> None:
        value = self._one(op)
        keeps_type = value is None or isinstance(value, (list, dict))
        self._bind(value if keeps_type else to_text(value), op.shared)

    def _written(self, op: Fill) -> None:
        value = self._one(op)
        self._put(str(value) if isinstance(value, SqlName) else write_value(value))

    def _statement(self, op: Fill) -> None:
        raise TemplateError(WHOLE, hint=WHOLE_HINT)

    def _body(self, op: Body) -> None:
        """Code between dollar quotes. A value must not end the quotes."""
        inside = _Writer(self._values, None)
        text = inside.write(op.ops).text
        if op.quote in text:
            raise TemplateError(
                f"a value between {op.quote} and {op.quote} contains {op.quote}",
                hint="use quotes with a name: $body$ … $body$",
                details={"source_line": op.line},
            )
        self._put(f"{op.quote}{text}{op.quote}")

    def _placeholder(self, op: Placeholder) -> None:
        if self._given is None:
            self._put(op.text)
            return
        if op.name not in self._given:
            nearest = closest(op.name, self._given)
            raise TemplateError(
                f"{op.text} has no value in params",
                code="undefined",
                hint=f"did you mean {nearest!r}?" if nearest else "add it to params",
                details={"near": op.text, **({"nearest": nearest} if nearest else {})},
            )
        self._params[op.name] = self._given[op.name]
        self._put(op.text, is_placeholder=True)

    def _bind(self, value: Any, shared: tuple[str | int, ...] = ()) -> None:
        known = self._shared.get(shared)
        if known is not None:
            self._put(f"%({known})s", is_placeholder=True)
            return
        number = len(self._params) + 1
        while (name := f"p{number}") in self._params or name in (self._given or ()):
            number += 1
        self._params[name] = value
        if shared:
            self._shared[shared] = name
        self._put(f"%({name})s", is_placeholder=True)

    def _put(self, text: str, *, is_placeholder: bool = False) -> None:
        self._texts.append(text)
        self._is_placeholder.append(is_placeholder)
