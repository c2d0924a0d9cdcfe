"""Check of `--set`: names that the playbook neither has in its workload nor reads."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.cli.actions.payload import parse_set
from noetl.cli.render.output import note
from noetl.domain import callbacks
from noetl.domain.errors import InvalidInputError
from noetl.dsl.diagnostics import nearest
from noetl.dsl.lowering.endings import OUTCOME
from noetl.dsl.program import LiteralNode, Map, Program
from noetl.dsl.reads import names_in

_WHOLE = frozenset({"workload", "workload.*"})
_GIVEN = frozenset({callbacks.SCOPE, OUTCOME})
"""Names whose value the engine sets, in every template."""


def check_sets(program: Program, sets: Sequence[str], *, strict: bool) -> None:
    """Warn about names that have no effect, or refuse them.

    Raises InvalidInputError(code="unknown_set").
    """
    names = list(dict.fromkeys(parse_set(text)[0][0] for text in sets))
    known = known_names(program) if names else []
    problems = [
        _problem(name, known)
        for name in names
        if name not in known and not (_reads_whole(program) and nearest(name, known) is None)
    ]
    if not problems:
        return
    if strict:
        raise InvalidInputError(
            "; ".join(problems), code="unknown_set", hint="correct the name, or leave out --strict"
        )
    for problem in problems:
        note(f"warning: {problem}")


def known_names(program: Program) -> list[str]:
    """List the names that a start may set.

    These are the names of the workload and of `input`, then those that templates read.
    """
    workload = program.workload
    declared = (
        list(workload.value)
        if isinstance(workload, LiteralNode) and isinstance(workload.value, dict)
        else [str(key) for key, _ in workload.entries]
        if isinstance(workload, Map)
        else []
    )
    schema = program.input_schema or {}
    declared += list(schema.get("properties") or {})
    return list(dict.fromkeys([*declared, *(name.removeprefix("workload.") for name in _reads(program))]))


def _reads(program: Program) -> list[str]:
    """List the names that templates read from the workload.

    These are its own names, and bare names that neither a step nor the engine has.
    """
    given = {step.name for step in program.steps} | _GIVEN
    reads = [
        name
        for step in program.steps
        for part in (step.enter_reads, step.exit_reads)
        for name in part.names
        if name not in _WHOLE
    ]
    reads += sorted(names_in(program.workload) - _WHOLE)
    return [name for name in reads if name.startswith("workload.") or ("." not in name and name not in given)]


def _reads_whole(program: Program) -> bool:
    """Whether a step uses the whole workload as a value: then any name of it may matter."""
    parts = [part for step in program.steps for part in (step.enter_reads, step.exit_reads)]
    return any(name in _WHOLE for part in parts for name in part.names)


def _problem(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    remedy = (
        f"did you mean {near}?"
        if near
        else f"it has {', '.join(known[:8])}"
        if known
        else "it has no workload"
    )
    return f"--set {name}: the playbook has no workload value {name!r}, and reads none; {remedy}"
