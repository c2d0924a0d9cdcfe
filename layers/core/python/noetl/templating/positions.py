"""Errors that say where: which template, which line and column of the playbook."""

from __future__ import annotations

from typing import Any, NoReturn

from noetl.domain.errors import NoetlError, TemplateError
from noetl.domain.shortages import MEMORY
from noetl.domain.text.excerpt import excerpt
from noetl.dsl.program import Expr, Pos, Sql, Text
from noetl.templating.limits import over_limit

_EXCERPT = 120


def fail(error: Exception, node: Expr | Text | Sql, line: int) -> NoReturn:
    """Raise an error of ``node`` as a TemplateError with its place.

    Errors that the template did not cause are raised unchanged. ``line`` is the line of the template's source that was being evaluated.
    """
    found = _as_template_error(error)
    if found is None or "template" in found.details:
        raise error
    _locate(found, node.source, node.pos, line, is_text=not isinstance(node, Expr))
    if found is error:
        raise error
    raise found from error


def _as_template_error(error: Exception) -> TemplateError | None:
    if isinstance(error, TemplateError):
        return error
    if isinstance(error, NoetlError):
        return None
    if isinstance(error, RecursionError):
        return over_limit("a value is nested too deeply")
    if isinstance(error, MemoryError):  # values have a bound long before it: the machine has less than that
        return over_limit(f"{MEMORY.reason} for a value", f"{MEMORY.remedy}; or make the value smaller")
    if isinstance(error, OverflowError) or (
        isinstance(error, ValueError) and "integer string conversion" in str(error)
    ):
        return over_limit("the calculation makes too large a number")
    if isinstance(error, ZeroDivisionError):
        return TemplateError("division by zero", hint="test the divisor first")
    if isinstance(error, (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)):
        return TemplateError(f"{type(error).__name__}: {error}")
    return None


def _locate(error: TemplateError, source: str, pos: Pos, line: int, *, is_text: bool) -> None:
    details: dict[str, Any] = error.details
    line = details.pop("source_line", 0) or line
    near = details.pop("near", "")
    line, offset, path = _find(source, line, near, is_text)
    if path and "name" in details:
        error.message = error.message.replace(repr(details["name"]), repr(path), 1)
        details["name"] = path
    shown = excerpt(source, _EXCERPT)
    details["template"] = shown if is_text else f"{{{{ {shown.strip()} }}}}"
    details["line"] = pos.line + line - 1 if pos.line else 0
    details["column"] = 0 if not pos.line else pos.column + offset if line == 1 or is_text else offset + 1
    place = f" at {details['line']}:{details['column']}" if pos.line else ""
    error.message = f"{error.message}, in {details['template']}{place}"
    error.args = (error.message,)


def _find(source: str, line: int, near: str, is_text: bool) -> tuple[int, int, str]:
    """Find ``near`` in the source: line, 0-based column, and the dotted path around it."""
    lines = source.split("\n")
    for number in range(max(line, 1), len(lines) + 1) if near else ():
        text = lines[number - 1]
        at = _find_word(text, near, is_text)
        if at >= 0:
            start = at
            while start and (text[start - 1].isalnum() or text[start - 1] in "_."):
                start -= 1
            return number, start, text[start : at + len(near)].lstrip(".") if near.isidentifier() else ""
    line = min(max(line, 1), len(lines))
    text = lines[line - 1]
    opening = [at for at in (text.find("{{"), text.find("{%")) if at >= 0] if is_text else []
    return line, min(opening, default=0), ""


def _find_word(text: str, word: str, is_text: bool) -> int:
    at = text.find("{") if is_text and "{" in text else 0
    while (at := text.find(word, at)) >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (word[0].isidentifier() and (_is_word(before) or _is_word(after))):
            return at
        at += 1
    return -1


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
