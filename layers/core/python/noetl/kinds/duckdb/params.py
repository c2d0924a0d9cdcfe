"""Parameters of a duckdb task: statements, their tables, and the use of the last rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from noetl.domain.kinds import ParamProblem
from noetl.kinds.support.nested_params import nested_problems
from noetl.kinds.support.params import has_hole
from noetl.kinds.support.sql_params import RowsResult, SqlParams, list_problems

_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"
Name = Annotated[str, Field(pattern=_NAME)]
FileFormat = Literal["csv", "jsonl", "json", "parquet"]
Type = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_ ,()\[\]]{0,200}$")]
_PLACES = ("ref", "postgres", "s3", "file")


class Source(BaseModel):
    """A table of the statements, from exactly one of ``ref``, ``postgres``, ``s3``, ``file``."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    ref: Annotated[Any, Field(description="The result of a step, or a list of rows.")] = None
    postgres: Annotated[
        str | None, Field(min_length=1, description="A credential's name: rows of `query` or `table` there.")
    ] = None
    s3: Annotated[
        str | None,
        Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+", description="`s3://bucket/key`."),
    ] = None
    file: Annotated[str | None, Field(min_length=1, description="A file of the playbook's folders.")] = None
    query: Annotated[
        str | None, Field(min_length=1, description="`postgres`: a query, without templates.")
    ] = None
    values: Annotated[
        dict[str, Any] | None,
        Field(alias="params", description="`postgres`: values of the query's `%(name)s` placeholders."),
    ] = None
    table: Annotated[str | None, Field(min_length=1, description="`postgres`: a table, as a whole.")] = None
    auth: Annotated[str | None, Field(min_length=1, description="`s3`: a credential of type aws.")] = None
    region: Annotated[
        str | None, Field(description="`s3`: default of the credential, then of the worker.")
    ] = None
    format: Annotated[
        FileFormat | None,
        Field(description="What the bytes are, unless the result or the file's name says it."),
    ] = None
    columns: Annotated[
        dict[str, Type] | None,
        Field(min_length=1, description="Types of columns, in place of those that the content suggests."),
    ] = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [name for name in _PLACES if getattr(self, name) is not None]
        if "ref" in self.model_fields_set and "ref" not in given:
            raise ValueError("`ref` is null: the step that it names has no result")
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(_PLACES)}")
        if given == ["postgres"] and (self.query is None) == (self.table is None):
            raise ValueError("`postgres` needs a `query` or a `table`")
        for name, place in (
            ("query", "postgres"),
            ("params", "postgres"),
            ("table", "postgres"),
            ("auth", "s3"),
        ):
            field = "values" if name == "params" else name
            if getattr(self, field) is not None and given != [place]:
                raise ValueError(f"`{name}` belongs to `{place}`")
        return self


class Params(SqlParams):
    """``query``, or ``table`` with ``args``; in memory unless ``database`` names a file."""

    refused: ClassVar[Mapping[str, str]] = {
        "auth": "credentials belong to `sources`: name: {postgres: CREDENTIAL, query: …} or {s3: …, auth: CREDENTIAL}"
    }

    database: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(\.duckdb)?$|^[^/\x00]{0,255}/[^\x00]{1,4000}$",
            description="A database file kept in the work folder, or the path of one to read; in memory unless given.",
        ),
    ] = None
    sources: Annotated[
        dict[Name, Source] | None,
        Field(description="Tables from other places, by their names in the statements."),
    ] = None
    result: RowsResult = "rows"

    @model_validator(mode="after")
    def _rows_to_keep(self) -> Self:
        if self.query is None and self.result != "rows" and not has_hole(self.result):
            raise ValueError("`table` with `args` returns no rows: leave `result` out")
        return self


def check(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """Check ``params``, keys of sources, and that no query of a source has a template.

    Its value would be pasted into the text.
    """
    yield from list_problems(params)
    sources = params.get("sources")
    if not isinstance(sources, Mapping):
        return
    for name, source in sources.items():
        if not re.match(_NAME, str(name)):
            yield ParamProblem(
                ("sources", name),
                f"{name!r} is no name of a source: letters, digits and _, as SQL names a table",
                f"write {re.sub(r'[^A-Za-z0-9_]', '_', str(name))}",
            )
        yield from nested_problems(Source, source, ("sources", name), f"the source {name!r}")
        if isinstance(source, Mapping) and has_hole(source.get("query")):
            yield ParamProblem(
                ("sources", name, "query"),
                f"the query of the source {name!r} is no place for a template: its value would be pasted into the SQL",
                "write %(name)s there, and the template in the source's `params`",
            )
