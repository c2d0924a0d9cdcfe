"""The reach of `redrive --set`: arguments that the step reads, and does not compute."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.cli.client.protocol import Place, Registered
from noetl.domain.errors import InvalidInputError
from noetl.domain.redrive import parse_address
from noetl.dsl.diagnostics import nearest
from noetl.dsl.program import LiteralNode, Map, Program


def check_reach(
    place: Place, execution_id: int, step: str, names: Iterable[str], version: int | None
) -> None:
    """Refuse arguments that the step does not read, or that its own `args` replace.

    Raises InvalidInputError(code="invalid_set").
    """
    summary = place.describe(execution_id).summary
    entry = Registered(summary.path, summary.version or 0, summary.name, summary.program)
    program = place.program(place.find(f"{summary.path}@{version}") if version is not None else entry)
    if program is None:
        return
    problems = unreached(program, parse_address(step).step, names)
    if problems:
        raise InvalidInputError(
            "; ".join(problems),
            code="invalid_set",
            hint="nothing was changed; with --output the step takes a result instead of running",
        )


def unreached(program: Program, step: str, names: Iterable[str]) -> list[str]:
    """Why each of these arguments has no effect, where it has none."""
    found = next((one for one in program.steps if one.name == step), None)
    if found is None:
        return []
    own = _keys(found.args)
    reads = {name for part in (found.enter_reads, found.exit_reads) for name in part.names}
    if reads & {"args", "args.*", "input", "input.*"}:
        reads |= set(names)
    bare = sorted({name.removeprefix("args.").removeprefix("input.") for name in reads} - own)
    problems = []
    for name in names:
        if name in own:
            problems.append(f"--set {name} has no effect: step {step} computes {name} itself, in its args")
        elif name not in bare:
            near = nearest(name, bare)
            remedy = (
                f"did you mean {near}?"
                if near
                else "change what it reads instead: --version, or noetl ctx patch"
            )
            problems.append(f"--set {name} has no effect: step {step} does not read it; {remedy}")
    return problems


def _keys(node: object) -> set[str]:
    if isinstance(node, Map):
        return {str(key) for key, _ in node.entries}
    return set(node.value) if isinstance(node, LiteralNode) and isinstance(node.value, dict) else set()
