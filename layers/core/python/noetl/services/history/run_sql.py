"""Read-only SQL over history: what a query may say, and the views that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.domain.sizes.gate import exceeded
from noetl.domain.sizes.table import SQL_ROWS, SQL_TEXT
from noetl.ports.history_sql import HistorySql, SqlTable
from noetl.templating.sql_split import Token, tokens_of

VIEWS: dict[str, dict[str, str]] = {
    "executions": {
        "execution_id": "bigint",
        "path": "text",
        "name": "text",
        "program": "text",
        "parent_execution_id": "bigint",
        "principal": "text",
        "status": "text",
        "started_at": "timestamp with time zone",
        "ended_at": "timestamp with time zone",
        "duration": "interval",
        "error_code": "text",
        "error_message": "text",
    },
    "steps": {
        "execution_id": "bigint",
        "run": "bigint",
        "step": "text",
        "status": "text",
        "entered_at": "timestamp with time zone",
        "ended_at": "timestamp with time zone",
        "duration": "interval",
        "retries": "bigint",
    },
    "facts": {
        "execution_id": "bigint",
        "seq": "bigint",
        "number": "bigint",
        "name": "text",
        "step": "text",
        "run": "bigint",
        "at": "timestamp with time zone",
        "fact": "json",
    },
    "items": {
        "execution_id": "bigint",
        "run": "bigint",
        "index": "bigint",
        "status": "text",
        "at": "timestamp with time zone",
        "outcome": "json",
    },
    "values": {"execution_id": "bigint", "scope": "text", "name": "text", "value": "json"},
    "playbooks": {
        "path": "text",
        "version": "integer",
        "name": "text",
        "program": "text",
        "content": "text",
        "created_at": "timestamp with time zone",
    },
}
"""Views and their columns with types, in order; a test compares them with the database."""

_FUNCTION_WORDS = """
count sum avg min max bool_and bool_or every array_agg string_agg json_agg jsonb_agg json_object_agg
jsonb_object_agg stddev stddev_pop stddev_samp variance var_pop var_samp corr percentile_cont percentile_disc
mode row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value abs
ceil ceiling floor round trunc sign sqrt power exp ln log mod div greatest least width_bucket coalesce nullif
lower upper initcap length char_length octet_length left right lpad rpad ltrim rtrim btrim trim replace
translate split_part substr substring position strpos starts_with overlay concat concat_ws reverse md5 format
regexp_match regexp_replace regexp_split_to_array regexp_like regexp_count regexp_substr to_char to_number
to_date to_timestamp date_trunc date_part date_bin extract age now justify_hours justify_days justify_interval
make_interval make_date make_timestamptz json_typeof jsonb_typeof json_array_length jsonb_array_length
json_array_elements jsonb_array_elements json_array_elements_text jsonb_array_elements_text json_each
jsonb_each json_each_text jsonb_each_text json_object_keys jsonb_object_keys json_extract_path
json_extract_path_text jsonb_extract_path jsonb_extract_path_text json_build_object jsonb_build_object
json_build_array jsonb_build_array to_json to_jsonb row_to_json jsonb_pretty json_strip_nulls jsonb_path_query
jsonb_path_exists array_length cardinality array_to_string array_position array_append unnest generate_series
encode grouping pg_typeof pg_size_pretty
"""
_FUNCTIONS = frozenset(_FUNCTION_WORDS.split())
"""Functions that only compute. The role could call others, too, but those that lock, notify, sleep or look at the server."""
_BRACKET_WORDS = """
in exists any all some values over filter as using on and or not select from where by when then else case
having limit offset union except intersect distinct lateral join is like ilike similar between row array
interval with recursive within group sets rollup cube materialized partition cast numeric decimal varchar char
character bit timestamp timestamptz time timetz float varying ordinality rows
"""
_BEFORE_BRACKETS = frozenset(_BRACKET_WORDS.split())
"""Words that are no functions although a bracket follows."""
_BEGINS = frozenset({"select", "with", "values"})
_SILENT = frozenset({"space", "comment"})


def run_sql(history: HistorySql | None, text: str, limit: int) -> SqlTable:
    """Run one reading statement over the views of history.

    Raises NotFoundError(code="sql_unavailable") where no role is set up, and what ``check_sql`` and ``HistorySql.run`` raise.
    """
    if history is None:
        raise NotFoundError(
            "this deployment has no role that reads history",
            code="sql_unavailable",
            hint="make one, and name it in NOETL_READER_URL (docs/api/history.md)",
        )
    if limit > SQL_ROWS.value:
        raise exceeded(
            SQL_ROWS, limit, "limit", code="sql_refused", remedy="ask for a page, or count in the query"
        )
    return history.run(check_sql(text), limit)


def check_sql(text: str) -> str:
    """Return the statement without its last semicolon.

    Raises InvalidInputError for anything but one statement that reads and calls known functions. What the statement may read is not
    decided here: the role can read nothing but the views.
    """
    if len(text) > SQL_TEXT.value:
        raise exceeded(SQL_TEXT, len(text), "sql", code="sql_refused", remedy="ask with a shorter query")
    if "\x00" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise InvalidInputError("the query has a NUL character, or half a surrogate pair", code="sql_refused")
    lexed = tokens_of([text])
    for unclear in _unclear_ends(lexed):
        raise unclear
    tokens = [token for token in lexed if token.kind not in _SILENT]
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens or tokens[0].text.lower() not in _BEGINS:
        raise _refused("a query begins with SELECT, WITH or VALUES", "write one statement that reads")
    for name in _refusals(tokens):
        raise name
    end = text.rstrip()
    while end.endswith(";"):
        end = end[:-1].rstrip()
    return end


def _unclear_ends(tokens: list[Token]) -> Iterator[InvalidInputError]:
    """Refuse what may end later for Postgres than for the gate.

    Postgres counts a space beyond ASCII to a name, and versions before 15 read ``1a$a$`` as a number and a name.
    """
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if token.kind == "space" and not token.text.isascii():
            odd = next(one for one in token.text if not one.isascii())
            yield _refused(
                f"U+{ord(odd):04X} is no space to Postgres", "write a plain space, or quotes around the name"
            )
        if token.kind == "number" and following is not None and following.text.startswith("$"):
            yield _refused(f"{token.text[:40]!r} is followed by $", "write a space after a number")


def _refusals(tokens: list[Token]) -> Iterator[InvalidInputError]:
    for index, token in enumerate(tokens):
        if not token.closed:
            yield _refused(f"{token.text[:40]!r} is not closed", "close the quotes, or the comment")
        if token.text == ";":
            yield _refused("there are several statements", "send one query at a time")
        if token.kind in ("placeholder", "hole") or token.text == "$":
            yield _refused(f"{token.text[:40]!r} is a parameter", "write the value itself")
        if token.kind in ("word", "name"):
            following = tokens[index + 1].text if index + 1 < len(tokens) else ""
            before = tokens[index - 1].text.lower() if index else ""
            yield from _names(token, following, before)


def _names(token: Token, following: str, before: str) -> Iterator[InvalidInputError]:
    quoted = token.kind == "name"
    name = token.text[1:-1].replace('""', '"') if quoted else token.text.lower()
    if before == "&" and quoted:
        yield _refused("names with U& are not read", "write the name without escapes")
    if (name.lower().startswith("pg_") and name not in _FUNCTIONS) or name.lower() == "information_schema":
        yield _refused(f"{name[:60]} belongs to the server", f"the views are {', '.join(VIEWS)}")
    if following != "(" or before in ("as", "with", "recursive"):
        return
    if name not in _FUNCTIONS and (quoted or name not in _BEFORE_BRACKETS):
        yield _refused(
            f"the function {name[:60]} cannot be called here",
            "docs/api/history.md lists the functions; write AS before the name of a table with columns",
        )


def _refused(message: str, hint: str) -> InvalidInputError:
    return InvalidInputError(message, code="sql_refused", hint=hint)
