"""The reach of a redrive's arguments: those that the step reads, and does not compute."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.domain.errors import InvalidInputError
from noetl.dsl.program import LiteralNode, Map, Program, Step

MOST_NAMED = 10
NAME_SHOWN = 80
_ARGUMENT = re.compile(
    r"""(?<![\w.])(?:args|input)\b(?:\s*\.\s*(\w+)|\s*\[\s*(['"])((?:(?!\2).)*)\2\s*\])?"""
)
"""``args.table`` or ``input["table"]`` in a template; no group where a template uses all arguments."""


def check_reach(program: Program, step: str, names: Iterable[str]) -> None:
    """Refuse arguments that the step does not read, or that its own `input` replaces.

    Raises InvalidInputError(code="unread_argument").
    """
    problems = unreached(program, step, names)
    if problems:
        more = len(problems) - MOST_NAMED
        raise InvalidInputError(
            "; ".join([*problems[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]),
            code="unread_argument",
            hint="nothing was changed; with an output the step takes a result instead of running",
        )


def unreached(program: Program, step: str, names: Iterable[str]) -> list[str]:
    """Why each of these arguments has no effect, where it has none."""
    from noetl.dsl.diagnostics import nearest

    found = next((one for one in program.steps if one.name == step), None)
    if found is None:
        return []
    own = _keys(found.args)
    named, whole = _arguments(found)
    stored = {name for part in (found.enter_reads, found.exit_reads) for name in part.names}
    bare = sorted((stored | named) - own)
    problems = []
    for name in names:
        shown = name[:NAME_SHOWN]
        if name in own:
            problems.append(f"{shown} has no effect: step {step} computes {shown} itself, in its input")
        elif not whole and name not in bare:
            near = nearest(name, bare)
            remedy = (
                f"did you mean {near}?"
                if near
                else "change what it reads instead: another version of the playbook, or noetl ctx patch"
            )
            problems.append(f"{shown} has no effect: step {step} does not read it; {remedy}")
    return problems


def _arguments(step: Step) -> tuple[set[str], bool]:
    """Find which arguments the templates of a step name, and whether one uses all of them.

    The reads of a step do not have these: no store keeps arguments by their names.
    """
    from noetl.dsl.reads import nodes_in

    named, whole = set(), False
    for node in nodes_in(step):
        for attribute, _, key in _ARGUMENT.findall(node.source):
            named.add(attribute or key)
            whole = whole or not (attribute or key)
    return named - {""}, whole


def _keys(node: object) -> set[str]:
    if isinstance(node, Map):
        return {str(key) for key, _ in node.entries}
    return set(node.value) if isinstance(node, LiteralNode) and isinstance(node.value, dict) else set()
