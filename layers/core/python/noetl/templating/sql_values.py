"""Values that are more than data inside SQL: names and verbatim text."""

from __future__ import annotations

from typing import Any

from noetl.domain.codec import encode
from noetl.domain.errors import TemplateError
from noetl.templating.access import describe
from noetl.templating.views import raw

MAX_NAME_BYTES = 63
"""Postgres cuts longer names silently."""


class SqlName(str):
    """A quoted identifier (``"schema"."table"``)."""

    __slots__ = ()


class SqlText(str):
    """Text that goes into SQL as it is (``| raw_sql``)."""

    __slots__ = ()


def quote_part(part: str, whole: str | None = None) -> str:
    """Quote one part of a name.

    Raises TemplateError when it cannot be a name.
    """
    if not part or "\0" in part or len(part.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise TemplateError(
            f"{(part if whole is None else whole)[:80]!r} is not a usable SQL name",
            hint=f"each part between dots needs 1 to {MAX_NAME_BYTES} bytes",
        )
    escaped = part.replace('"', '""')
    return f'"{escaped}"'


def quote_name(value: Any) -> SqlName:
    """Quote a name: ``schema.table`` → ``"schema"."table"``; a list becomes names with commas."""
    if isinstance(value, SqlName):
        return value
    value = raw(value)
    if isinstance(value, list) and value:
        return SqlName(", ".join(quote_name(entry) for entry in value))
    if not isinstance(value, str):
        raise TemplateError(
            f"a SQL name must be a text, not {describe(value)}",
            hint="the name of a table or column belongs here",
        )
    return SqlName(".".join(quote_part(part, value) for part in value.split(".")))


def word_part(text: str) -> str:
    """Check a value that is joined to a name, as in ``FROM sales_{{ year }}``.

    It may have letters, digits and underscores only.
    """
    if text and all(char == "_" or (char.isascii() and char.isalnum()) for char in text):
        return text
    raise TemplateError(
        f"{text[:60]!r} cannot be part of a SQL name",
        hint="only letters, digits and _ may be joined to a name; put a space before the braces for a value",
    )


def write_value(value: Any) -> str:
    """Write a value as a SQL literal of its type, for code that has no parameters.

    Raises TemplateError.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        text = repr(value)
        return f"({text})" if text.startswith("-") else text
    return quote_literal(value if isinstance(value, str) else encode(value).decode(), escapes=True)


def quote_literal(text: str, *, escapes: bool = False) -> str:
    """Write a text as a SQL literal, where no parameter may be.

    ``escapes``: backslashes may be written as ``E'…'``.
    """
    if escapes and "\\" in text and "\0" not in text:
        doubled = text.replace("\\", "\\\\").replace("'", "''")
        return f"E'{doubled}'"
    if "\0" in text or "\\" in text:
        raise TemplateError(
            "a text with a backslash or NUL cannot stand here",
            hint="only a literal is possible in this place; use forward slashes",
        )
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
