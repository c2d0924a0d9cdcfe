"""libyaml's complaints in the words of playbook authors."""

from __future__ import annotations

from typing import Any

import yaml


def place_of(problem: yaml.YAMLError) -> Any:
    """Return the mark to show: where an open quote began, else where reading stopped.

    None when libyaml reports no mark.
    """
    context, mark = getattr(problem, "context_mark", None), getattr(problem, "problem_mark", None)
    return context if _open_quote(problem) and context is not None else mark or context


def _open_quote(problem: yaml.YAMLError) -> bool:
    return "quoted scalar" in str(getattr(problem, "context", "")) and "end of stream" in str(problem)


def explain(problem: yaml.YAMLError, text: str, offset: int) -> tuple[str, str, str]:
    """(code, message, hint) for a parser error at ``offset`` of ``text``."""
    what = str(getattr(problem, "problem", None) or problem)
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    if _open_quote(problem):
        return (
            "yaml-syntax",
            "a quote is opened here and never closed",
            "close it; a quote inside it is written twice or escaped",
        )
    if "\t" in text[line_start : offset + 1] and ("token" in what or "tab" in what or "indent" in what):
        return (
            "yaml-tab",
            "the indentation contains a tab",
            "indent with spaces; YAML does not allow tabs there",
        )
    if "cannot start any token" in what:
        return (
            "yaml-syntax",
            f"a value cannot begin with {text[offset : offset + 1]!r}",
            "put quotes around the whole value",
        )
    if "{{" in line or "{%" in line:
        return (
            "yaml-syntax",
            f"the template on this line is not quoted as YAML needs it ({what})",
            "put the whole value in quotes, and use the other kind of quotes inside the template",
        )
    if "mapping values are not allowed" in what:
        return (
            "yaml-syntax",
            "there is a colon where no key can be",
            "quote the value, or indent the line by spaces",
        )
    if "undefined alias" in what:
        return "yaml-syntax", what, "define the anchor (&name) before the alias (*name)"
    if what.startswith("did not find expected"):
        return (
            "yaml-syntax",
            what,
            "check the indentation and the closing quotes and brackets of the lines above",
        )
    return "yaml-syntax", what, "check the indentation, quotes and brackets here"
