"""The event form's names in the canonical form's words, boundary by boundary."""

from __future__ import annotations

from noetl.dsl.expressions import has_template
from noetl.formatting.nodes import Entry, List, Map, Text, Value
from noetl.formatting.templates import NEXT, NoSpellingError, Replace, substitute

_AROUND = {"status_code": "output.http.status", "headers": "output.http.headers", "url": "output.http.url"}
_STATUS = "('success' if output.status == 'ok' else 'error')"
_THIS = {
    "data": "output.data",
    "result": "output.data",
    "error": "output.error",
    "meta": "output.meta",
    "status": _STATUS,
}


def after_call(name: str, attribute: str | None) -> tuple[str, bool] | None:
    """Rename a ``case`` rule's ``response``, ``result``, ``error`` and ``this``.

    Raises NoSpellingError.
    """
    if name == "result":
        return "output.data", False
    if name == "error":
        return "output.error", False
    if name == "event":
        raise NoSpellingError("a template uses `event` for more than its name")
    if name == "this":
        if attribute not in _THIS:
            raise NoSpellingError("a template uses `this` as a whole")
        return _THIS[attribute], True
    return _response(attribute) if name == "response" else None


def _response(attribute: str | None) -> tuple[str, bool]:
    """Rename ``response``, where the body's keys come first, then what is around the body.

    What the value of its key ``data`` has not is the body's: ``response.data.paging``.
    """
    if attribute is None:
        raise NoSpellingError("a template uses `response` as a whole")
    if attribute == "data":
        return f"(output.data.data{NEXT} | default(output.data{NEXT}))", True
    around = _AROUND.get(attribute)
    if around is not None:
        return f"(output.data.{attribute} | default({around}))", True
    if attribute in ("elapsed", "status", "error", "meta"):
        raise NoSpellingError(f"`response.{attribute}` may come from the body or from around it")
    return f"output.data.{attribute}", True


def at_exit(name: str, attribute: str | None) -> tuple[str, bool] | None:
    """At the end of a step the names are the same in both forms; ``result`` has a newer one."""
    if name == "event":
        raise NoSpellingError("a template uses `event` for more than its name")
    if name == "response" and (attribute in _AROUND or attribute in (None, "data", "elapsed")):
        return None
    return ("output.data", False) if name in ("result", "response") else None


def reworded(value: Value, change: Replace) -> Value:
    """Copy the value with other names in its templates (comments go with it).

    Raises NoSpellingError.
    """
    if isinstance(value, Text):
        text = value.value
        if not isinstance(text, str) or not has_template(text):
            return Text(value.value, value.raw, value.style, value.anchor)
        new = substitute(text, change)
        return Text(new, value.raw if new == text else None, value.style if "\n" in new else "")
    if isinstance(value, (Map, List)):
        entries = [_entry(entry, reworded(entry.value, change)) for entry in value.entries]
        return Map(entries, value.flow) if isinstance(value, Map) else List(entries, value.flow)
    raise NoSpellingError("it contains an alias")


def _entry(entry: Entry, value: Value) -> Entry:
    return Entry(
        entry.key,
        value,
        entry.raw_key,
        list(entry.lead),
        entry.trail,
        list(entry.after),
        entry.gap,
        entry.line,
    )
