"""Values that are more than data inside SQL: names and verbatim text."""

from __future__ import annotations

from typing import Any

from noetl.domain.errors import TemplateError
from noetl.templating.access import describe
from noetl.templating.views import content, raw

MAX_NAME_BYTES = 63
"""Postgres cuts longer names silently."""


class SqlName(str):
    """A quoted identifier (``"schema"."table"``)."""

    __slots__ = ()


class SqlText(str):
    """Text that goes into SQL as it is (``| raw_sql``)."""

    __slots__ = ()


def quote_part(part: str, whole: Any) -> str:
    """One part of a name in double quotes. Raises TemplateError when it cannot be a name."""
    if not part or "\0" in part or len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise TemplateError(
            f"{str(whole)[:80]!r} is not a usable SQL name",
            hint=f"each part between dots needs 1 to {MAX_NAME_BYTES} bytes",
        )
    escaped = part.replace('"', '""')
    return f'"{escaped}"'


def quote_name(value: Any) -> SqlName:
    """``schema.table`` → ``"schema"."table"``; a list of names → names with commas between them."""
    if isinstance(value, SqlName):
        return value
    value = raw(content(value))
    if isinstance(value, list) and value:
        return SqlName(", ".join(quote_name(entry) for entry in value))
    if not isinstance(value, str):
        raise TemplateError(
            f"a SQL name must be a text, not {describe(value)}", hint="a table or column stands here"
        )
    return SqlName(".".join(quote_part(part, value) for part in value.split(".")))
