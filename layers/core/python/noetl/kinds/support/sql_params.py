"""Parameters that every SQL kind takes, and the statements made from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator

from noetl.domain.errors import TaskError, TemplateError
from noetl.domain.kinds import ParamProblem, TaskContext
from noetl.kinds.support.base import KindParams
from noetl.templating.contract import RenderedSql, RenderedStatement
from noetl.templating.sql import plain_sql
from noetl.templating.sql_values import quote_name, quote_part

ALIASES = {"command": "query", "commands": "query", "sql": "query"}
SQL_FIELDS = ("query", "command", "commands", "sql")
_OF_A_STATEMENT = ("rows", "row_count", "columns", "affected_rows")
SQL_RESULT_FIELDS = (
    *_OF_A_STATEMENT,
    "results",
    *(
        f"command_{number}{part}"
        for number in (0, 1)
        for part in ("", *(f".{name}" for name in _OF_A_STATEMENT))
    ),
)
"""Of several statements each has what one returns; the first two stand for all."""

_RENDERED = "noetl_rendered_"
_MARK = re.compile(r"%%|%\(([^\W\d]\w*)\)s")


def _accept(value: Any) -> Any:
    parts = value if isinstance(value, (list, tuple)) else [value]
    if parts and all(isinstance(part, (str, RenderedSql)) for part in parts):
        return tuple(parts)
    raise ValueError("input should be SQL text or a list of SQL texts")


SqlTexts = Annotated[
    Any,
    PlainValidator(_accept),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    ),
]
"""One or several SQL texts, rendered or plain; validated to a tuple."""


_FORMATS = ("rows", "jsonl", "csv", "parquet")
STREAM_ALIASES = {**ALIASES, "save": "result"}
"""Of kinds whose rows may become a stream."""


def _format_of(value: Any) -> Any:
    """Read ``save: {format: csv}``, as `http` has it, as ``result: csv``."""
    return value["format"] if isinstance(value, dict) and value.keys() == {"format"} else value


_CHOICE: dict[str, Any] = {"enum": list(_FORMATS)}
_SAVE = {
    "type": "object",
    "properties": {"format": _CHOICE},
    "required": ["format"],
    "additionalProperties": False,
}
RowsResult = Annotated[
    Literal["rows", "jsonl", "csv", "parquet"],
    BeforeValidator(_format_of),
    WithJsonSchema({"anyOf": [_CHOICE, _SAVE]}),
    Field(
        description="What the last query's rows become: `rows` as a value, else an artifact that is streamed."
    ),
]


class SqlParams(KindParams):
    """``query``, or ``table`` with ``args``."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"auth", "params", "args"})

    query: Annotated[
        SqlTexts, Field(description="One or several statements; templates become bound values.")
    ] = None
    params: Annotated[dict[str, Any] | None, Field(description="Values of `%(name)s` placeholders.")] = None
    table: Annotated[
        str | None, Field(min_length=1, description="Insert `args` into this table (`schema.table`).")
    ] = None
    args: Annotated[
        dict[str, Any] | list[dict[str, Any]] | None,
        Field(description="With `table`: a row, or a list of rows. With `query`: further values."),
    ] = None

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        if self.query is None and self.table is None and not self.does_more:
            raise ValueError("give 'query', or 'table' with 'args'")
        return self

    @property
    def does_more(self) -> bool:
        """True when a kind's own parameters say what to do, so that no statement is needed."""
        return False

    @property
    def is_insert(self) -> bool:
        """True when the statements were made from ``table`` and ``args``."""
        return self.query is None

    def statements(self, context: TaskContext) -> list[RenderedStatement]:
        """Build the statements to run. The task's input is used for missing ``args``.

        Raises TaskError.
        """
        rows = self.args if self.args is not None else dict(context.input)
        if self.query is None:
            return insert_statements(str(self.table), rows if isinstance(rows, list) else [rows])
        given = {**(rows if isinstance(rows, dict) else {}), **(self.params or {})}
        return statements_of(self.query, given if given or self.params is not None else None)


def list_problems(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """Report ``params`` that is a list, also where a template is in it."""
    if isinstance(params.get("params"), list):
        yield ParamProblem(
            ("params",),
            "'params' is a list: values have names here",
            "write each value in the SQL as a template ({{ … }}), where it is bound",
        )


def statements_of(
    texts: tuple[str | RenderedSql, ...], given: Mapping[str, Any] | None
) -> list[RenderedStatement]:
    """Return every statement of every text, with ``%(name)s`` bound from ``given``.

    Raises TaskError(kind="schema").
    """
    found: list[RenderedStatement] = []
    try:
        for text in texts:
            if isinstance(text, str):
                found += plain_sql(text, given).statements
            elif given is None:
                found += text.statements
            else:
                for statement in text.statements:
                    found += _rebound(statement, given).statements
    except TemplateError as error:
        raise TaskError(
            error.message, kind="schema", code="sql_params", hint=error.hint, details=error.details
        ) from None
    if not found:
        raise TaskError("there is no SQL statement to run", kind="schema", code="sql_empty")
    return found


def _rebound(statement: RenderedStatement, given: Mapping[str, Any]) -> RenderedSql:
    """Bind the author's placeholders in a rendered statement, beside its own."""
    if not statement.params:
        return plain_sql(statement.text, given)
    # Rendering doubled every percent sign of the author's text, those of ``%(name)s`` included.
    text = _MARK.sub(lambda match: "%" if match[1] is None else f"%({_RENDERED}{match[1]})s", statement.text)
    own = {f"{_RENDERED}{name}": value for name, value in statement.params.items()}
    return plain_sql(text, {**given, **own})


def native_text(statement: RenderedStatement, placeholder: Callable[[str], str]) -> str:
    """Write the statement with ``placeholder(name)`` for each parameter, and plain percents."""
    if not statement.params:
        return statement.text
    return _MARK.sub(lambda match: "%" if match[1] is None else placeholder(match[1]), statement.text)


def first_line(text: str) -> str:
    """Return the line by which an error names a statement."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= 120 else line[:119] + "…"


def insert_statements(table: str, rows: list[dict[str, Any]]) -> list[RenderedStatement]:
    """Write INSERT statements for ``rows``; without rows there is no statement.

    A key that a row does not have takes the column's default.
    """
    try:
        target = quote_name(table)
        columns = list(dict.fromkeys(name for row in rows for name in row))
        names = ", ".join(quote_part(name) for name in columns)
    except TemplateError as error:
        raise TaskError(error.message, kind="client_error", code="name_invalid", hint=error.hint) from None
    head = f"INSERT INTO {target}".replace("%", "%%")
    if rows and not columns:
        return [RenderedStatement(f"INSERT INTO {target} DEFAULT VALUES") for _ in rows]
    statements = []
    for batch in _batches(len(columns), len(rows)):
        values: dict[str, Any] = {}
        lines = []
        for index in batch:
            row = rows[index]
            values |= {f"r{index}_{at}": row[name] for at, name in enumerate(columns) if name in row}
            cells = (f"%(r{index}_{at})s" if name in row else "DEFAULT" for at, name in enumerate(columns))
            lines.append(f"({', '.join(cells)})")
        escaped = names.replace("%", "%%")
        statements.append(RenderedStatement(f"{head} ({escaped}) VALUES {', '.join(lines)}", values))
    return statements


def _batches(columns: int, rows: int) -> list[range]:
    """Rows of each INSERT: Postgres takes 65,535 parameters at most."""
    size = max(1, min(1000, 65_535 // max(1, columns)))
    return [range(start, min(start + size, rows)) for start in range(0, rows, size)]
