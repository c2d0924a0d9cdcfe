"""``cmds`` of a shell tool, and templates in its commands."""

from __future__ import annotations

import re

from noetl.formatting.nodes import Entry, List, Map, Text, plain
from noetl.migration.page import Page, kind_of
from noetl.migration.rule import Rule

_TEMPLATE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}")
_TAKEN = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "IFS"})
_WORD = re.compile(r"[A-Za-z_]\w*")


def apply(page: Page) -> None:
    """Write one script; values reach it as variables, so that no value is run as code."""
    for tool in page.tools():
        if kind_of(tool) != "shell":
            continue
        for name in ("cmds", "commands", "cmd", "command"):
            entry = tool.entry(name)
            if entry is not None and (name == "command" or not tool.has("command")):
                _script(page, tool, entry)
                break


def _script(page: Page, tool: Map, entry: Entry) -> None:
    lines = _lines(entry)
    if lines is None:
        return
    if any("{%" in line for line in lines):
        page.refuse(
            entry,
            "a shell command is put together by a template",
            "write the branches as steps, or as shell code",
        )
        return
    env = tool.entry("env")
    if env is not None and not isinstance(env.value, Map):
        return
    variables = env.value if env is not None and isinstance(env.value, Map) else Map([])
    made = [_without_templates(line, variables) for line in lines]
    if made != lines:
        page.note(
            entry, "values are variables of the script now: each is one word, regardless of its content"
        )
    entry.key = entry.raw_key = "command"
    if isinstance(entry.value, List):
        entry.value = Text("\n".join(["set -e", *made]) + "\n", style="|")
    elif made != lines:
        entry.value = Text(made[0], style="|" if "\n" in made[0] else "'")
    if variables.entries and env is None:
        tool.entries.insert(tool.entries.index(entry), Entry("env", variables, "env", line=entry.line))


def _lines(entry: Entry) -> list[str] | None:
    value = plain(entry.value)
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return [str(line) for line in value]
    return None


def _without_templates(line: str, variables: Map) -> str:
    """Return a line that reads variables, quoted as their place demands."""
    out: list[str] = []
    quote, place = "", 0
    while place < len(line):
        found = _TEMPLATE.match(line, place)
        if found is not None:
            name = _variable(found[1], variables)
            out.append({"'": f"'\"${{{name}}}\"'", '"': f"${{{name}}}", "": f'"${{{name}}}"'}[quote])
            place = found.end()
            continue
        char = line[place]
        if char == "\\" and quote != "'":
            out.append(line[place : place + 2])
            place += 2
            continue
        if char in "'\"" and quote in ("", char):
            quote = "" if quote else char
        out.append(char)
        place += 1
    return "".join(out)


def _variable(expression: str, variables: Map) -> str:
    """Return the name of the variable that holds an expression.

    The same expression is one variable.
    """
    template = f"{{{{ {expression} }}}}"
    for entry in variables.entries:
        if plain(entry.value) == template:
            return str(entry.key)
    words = _WORD.findall(expression.split("|")[0]) or ["value"]
    base = words[-1].upper()
    base = f"VALUE_{base}" if base in _TAKEN else base
    name, count = base, 1
    while variables.has(name):
        count += 1
        name = f"{base}_{count}"
    variables.entries.append(Entry(name, Text(template, style='"'), name))
    return name


RULE = Rule("shell-commands", "A shell tool has one script; values reach it by `env`.", apply)
