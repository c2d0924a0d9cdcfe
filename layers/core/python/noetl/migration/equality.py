"""Equality of two programs: all but positions, names of files, and the hash."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.dsl.program import Program
from noetl.formatting.templates import NoSpellingError, substitute

_PLACES = frozenset({"pos", "hash", "source_name", "code_pos", "code_lines"})
_TEMPLATES = frozenset({"expr", "text", "sql"})


def same_program(one: Program, other: Program) -> bool:
    """Return whether two programs are equal, wherever their parts were written.

    ``outcome.result`` and ``output.data`` are two names of one value, and so are ``args`` and ``input``: such templates count as equal.
    """
    return bool(_facts(msgspec.to_builtins(one)) == _facts(msgspec.to_builtins(other)))


def _facts(value: Any) -> Any:
    if isinstance(value, dict):
        template = value.get("t") in _TEMPLATES and isinstance(value.get("source"), str)
        known = {key: _facts(item) for key, item in value.items() if key not in _PLACES}
        if template:
            known["source"] = _named(value["source"], braces=value["t"] == "expr")
        if "reads" in known:
            known["reads"] = _reads(known["reads"])
        return known
    if isinstance(value, (list, tuple)):
        return [_facts(item) for item in value]
    return value


def _named(source: str, *, braces: bool) -> str:
    text = f"{{{{ {source} }}}}" if braces else source
    try:
        return substitute(text, _newest)
    except NoSpellingError:
        return text


def _newest(name: str, attribute: str | None) -> tuple[str, bool] | None:
    if name == "args":
        return "input", False
    if name not in ("outcome", "output"):
        return None
    return ("output.data", True) if attribute == "result" else ("output", False)


def _reads(reads: Any) -> Any:
    if not isinstance(reads, list):
        return reads
    return sorted({_read(one) if isinstance(one, str) else str(one) for one in reads})


def _read(name: str) -> str:
    head, dot, rest = name.partition(".")
    if head == "args":
        return f"input{dot}{rest}"
    if head != "outcome":
        return name
    return (
        f"output.{rest.replace('result', 'data', 1) if rest.startswith('result') else rest}"
        if dot
        else "output"
    )
