"""What `transfer` takes: where rows come from, where they go, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from noetl.domain.kinds import HOLE
from noetl.kinds.cloud.aws_client import AwsParams
from noetl.kinds.rows.formats import RowFormat
from noetl.kinds.support.base import KindParams
from noetl.kinds.support.sql_params import SqlTexts

Mode = Literal["append", "replace", "upsert"]
MOST_CHUNK_ROWS = 100_000
CHUNK_ROWS = 5000
_PLACE = r"^[A-Za-z0-9_$.\"-]{1,255}$"
_DATABASE = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}(\.duckdb)?$"
_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(.+)", re.DOTALL)
_TABLE = Field(min_length=1, max_length=500, description="The table, as `schema.table`.")


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[
    list[str],
    BeforeValidator(_names),
    Field(min_length=1, max_length=100),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
    ),
]


class Store(KindParams):
    """A source or a target."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"auth", "params", "ref"})


class Query(Store):
    """Rows of a database: ``query`` or ``table``."""

    query: Annotated[SqlTexts, Field(description="One SELECT; templates become bound values.")] = None
    params: Annotated[dict[str, Any] | None, Field(description="Values of `%(name)s` placeholders.")] = None
    table: Annotated[str | None, _TABLE] = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Query:
        if (self.query is None) == (self.table is None):
            raise ValueError("give `query` or `table`")
        return self


class Ordered(Query):
    """A source that can be read from a place on when its rows have an order."""

    order_by: Annotated[
        Names | None,
        Field(
            description="Columns whose values are unique together and never null: a transfer that was cut off continues after the last."
        ),
    ] = None


class PostgresSource(Ordered):
    kind: Literal["postgres"]
    auth: Annotated[
        str | dict[str, Any] | None, Field(description="A credential's name; the scratch database without.")
    ] = None


class DuckdbSource(Ordered):
    kind: Literal["duckdb"]
    database: Annotated[
        str | None, Field(pattern=_DATABASE, description="A database file of the work folder.")
    ] = None


class SnowflakePlace(Store):
    auth: Annotated[str, Field(min_length=1, description="A credential of type snowflake.")]
    database: Annotated[
        str | None, Field(pattern=_PLACE, description="Default: of the credential, then of the user.")
    ] = None
    db_schema: Annotated[
        str | None,
        Field(pattern=_PLACE, alias="schema", description="Default: of the credential, then of the user."),
    ] = None
    warehouse: Annotated[
        str | None, Field(pattern=_PLACE, description="Default: of the credential, then of the user.")
    ] = None
    role: Annotated[
        str | None, Field(pattern=_PLACE, description="Default: of the credential, then of the user.")
    ] = None

    @property
    def places(self) -> dict[str, str | None]:
        """As ``snowflake.api.Session`` takes them."""
        return {
            "database": self.database,
            "schema": self.db_schema,
            "warehouse": self.warehouse,
            "role": self.role,
        }


class SnowflakeSource(Query, SnowflakePlace):
    kind: Literal["snowflake"]


class S3Object(Store, AwsParams):
    """An object by its URI."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"auth"})
    uri: Annotated[str, Field(max_length=1100, description="`s3://bucket/key`.")]
    format: Annotated[
        RowFormat | None, Field(description="csv, jsonl, json or parquet; by the key's suffix unless given.")
    ] = None
    delimiter: Annotated[str, Field(pattern=r"^[^\r\n\"]$", description="Between the fields of CSV.")] = ","

    @model_validator(mode="after")
    def _readable(self) -> S3Object:
        uri: Any = self.uri
        if uri is not HOLE and _URI.fullmatch(uri) is None:
            raise ValueError("`uri` is not s3://bucket/key")
        return self

    @property
    def place(self) -> tuple[str, str]:
        """(bucket, key)."""
        found = _URI.fullmatch(self.uri)
        assert found is not None  # checked above
        return found[1], found[2]


class S3Source(S3Object):
    kind: Literal["s3"]
    version_id: Annotated[str | None, Field(description="One version of the object.")] = None


class ArtifactSource(Store):
    kind: Literal["artifact"]
    ref: Annotated[Any, Field(description="The result of a step: `{{ step }}`, large or small.")]
    format: Annotated[
        RowFormat | None, Field(description="What the rows are, where the reference does not say.")
    ] = None
    delimiter: Annotated[str, Field(pattern=r"^[^\r\n\"]$", description="Between the fields of CSV.")] = ","


class PostgresTarget(Store):
    kind: Literal["postgres"]
    auth: Annotated[
        str | dict[str, Any] | None, Field(description="A credential's name; the scratch database without.")
    ] = None
    table: Annotated[str, _TABLE]


class DuckdbTarget(Store):
    kind: Literal["duckdb"]
    database: Annotated[str, Field(pattern=_DATABASE, description="A database file of the work folder.")]
    table: Annotated[str, Field(min_length=1, max_length=250, description="The table.")]


class SnowflakeTarget(SnowflakePlace):
    kind: Literal["snowflake"]
    table: Annotated[str, _TABLE]


class Typed(Store):
    types: Annotated[
        dict[str, str],
        Field(
            description="Types of Parquet columns, as DuckDB names them (`{price: 'DECIMAL(12,2)'}`); by the source, or the values, without."
        ),
    ] = Field(default_factory=dict)


class S3Target(S3Object, Typed):
    kind: Literal["s3"]


class ArtifactTarget(Typed):
    kind: Literal["artifact"]
    format: Annotated[RowFormat, Field(description="csv, jsonl, json or parquet.")] = "jsonl"


Source = PostgresSource | DuckdbSource | SnowflakeSource | S3Source | ArtifactSource
Target = PostgresTarget | DuckdbTarget | SnowflakeTarget | S3Target | ArtifactTarget
SOURCES: Mapping[str, type[Store]] = {
    "postgres": PostgresSource,
    "duckdb": DuckdbSource,
    "snowflake": SnowflakeSource,
    "s3": S3Source,
    "artifact": ArtifactSource,
}
TARGETS: Mapping[str, type[Store]] = {
    "postgres": PostgresTarget,
    "duckdb": DuckdbTarget,
    "snowflake": SnowflakeTarget,
    "s3": S3Target,
    "artifact": ArtifactTarget,
}


class Params(KindParams):
    """``source``, ``target`` and ``mode``."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"source", "target"})

    source: Annotated[Source, Field(discriminator="kind", description="Where rows come from.")]
    target: Annotated[Target, Field(discriminator="kind", description="Where they go.")]
    mode: Annotated[
        Mode | None,
        Field(
            description="`append` (default of tables), `replace` (default and only mode of objects and artifacts), `upsert`."
        ),
    ] = None
    key: Annotated[
        Names | None, Field(description="`upsert`: the columns of the target by which rows are the same.")
    ] = None
    columns: Annotated[
        dict[str, str] | list[str] | None,
        Field(
            min_length=1,
            description="Column of the target: column of the source; or a list of columns of both.",
        ),
    ] = None
    chunk_rows: Annotated[
        int, Field(ge=1, le=MOST_CHUNK_ROWS, description="Rows that are read, written and committed at once.")
    ] = CHUNK_ROWS
    resume_key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="Two transfers of one key are the same one. Default: the task itself, over its attempts.",
        ),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        kind, mode = getattr(self.target, "kind", None), self.mode
        if kind in ("s3", "artifact") and mode in ("append", "upsert"):
            raise ValueError(f"`mode: {mode}` needs a table; {kind} is always replaced (`mode: replace`)")
        if (
            mode is not None
            and mode in ("append", "replace", "upsert")
            and (mode == "upsert") != (self.key is not None)
        ):
            raise ValueError("`mode: upsert` needs a `key`, and no other mode takes one")
        if mode is None and self.key is not None:
            raise ValueError("`key` belongs to `mode: upsert`")
        return self

    @property
    def way(self) -> Mode:
        """The mode, or the target's own."""
        return self.mode or ("replace" if self.target.kind in ("s3", "artifact") else "append")

    @property
    def pairs(self) -> dict[str, str] | None:
        """Column of the target: column of the source."""
        return {name: name for name in self.columns} if isinstance(self.columns, list) else self.columns
