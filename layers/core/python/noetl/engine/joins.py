"""Which waiting token may fire now: the synchronising merge and the classic patterns beside it.

A step with several incoming arcs fires once no other live token can still reach it (static reachability), counting only tokens that
are not themselves waiting at a join. So ``next: [a, b]`` followed by two arcs into ``c`` runs ``c`` once, an exclusive choice that rejoins
runs it at once, and cycles work.
"""

from __future__ import annotations

from dataclasses import dataclass

from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Program, Step, step_index


@dataclass(frozen=True, slots=True)
class Firing:
    """These tokens fire their step together. ``opens``: the join (any, n) keeps swallowing tokens until its wave is over."""

    step: Step
    tokens: tuple[Token, ...]
    opens: bool = False


@dataclass(frozen=True, slots=True)
class WaveOver:
    """Nothing can reach this any/n join any more: ``late`` tokens that wait there end."""

    step: Step
    late: tuple[Token, ...]


def next_ready(program: Program, state: ExecutionState) -> Firing | WaveOver | None:
    """The next thing that may happen at a join, or None when every waiting token has to wait."""
    steps = step_index(program)
    waiting: dict[str, list[Token]] = {}
    for token in state.tokens.values():
        if token.phase != "arrived":
            continue
        step = steps[token.step]
        if not token.sync or step.incoming <= 1 or step.join == "each":
            return Firing(step, (token,))
        waiting.setdefault(token.step, []).append(token)
    if not waiting and not state.fired:
        return None
    live = {token.step for token in state.tokens.values() if token.phase != "arrived"}
    return _ended_wave(steps, state, waiting, live) or _merge(steps, state, waiting, live)


def _blocked(steps: dict[str, Step], name: str, live: set[str]) -> bool:
    """Whether a token that is not waiting can still reach this step."""
    return any(name in steps[other].reaches for other in live)


def _ended_wave(
    steps: dict[str, Step], state: ExecutionState, waiting: dict[str, list[Token]], live: set[str]
) -> WaveOver | None:
    for name in state.fired:
        upstream = live | {other for other in waiting if other != name}
        if not _blocked(steps, name, upstream):
            return WaveOver(steps[name], tuple(waiting.get(name, ())))
    return None


def _merge(
    steps: dict[str, Step], state: ExecutionState, waiting: dict[str, list[Token]], live: set[str]
) -> Firing | None:
    free: list[str] = []
    for name, tokens in waiting.items():
        step = steps[name]
        if name in state.fired:
            continue
        needed = _needed(step)
        if needed is not None:
            arcs = {token.arc for token in tokens}
            if len(arcs) >= needed:
                return Firing(step, _one_each(tokens), opens=needed < step.incoming)
        elif not _blocked(steps, name, live):
            free.append(name)
    if not free:
        return None
    return _fire(steps, waiting, _upstream_first(steps, free))


def _one_each(tokens: list[Token]) -> tuple[Token, ...]:
    """The oldest token of each arc; later ones over the same arc belong to the next firing."""
    oldest: dict[int, Token] = {}
    for token in sorted(tokens, key=lambda token: token.run):
        oldest.setdefault(token.arc, token)
    return tuple(oldest.values())


def _needed(step: Step) -> int | None:
    """How many different arcs must have delivered; None for the synchronising merge."""
    if step.join == "sync":
        return None
    if step.join == "all":
        return step.incoming
    return 1 if step.join == "any" else int(step.join)


def _upstream_first(steps: dict[str, Step], free: list[str]) -> str:
    """A join that no other free join leads to, unless they lead to each other; then the first in playbook order."""
    ordered = sorted(free, key=lambda name: steps[name].index)
    for name in ordered:
        ahead = (other for other in ordered if other != name and name in steps[other].reaches)
        if all(other in steps[name].reaches for other in ahead):
            return name
    return ordered[0]


def _fire(steps: dict[str, Step], waiting: dict[str, list[Token]], name: str) -> Firing:
    return Firing(steps[name], tuple(waiting[name]))


def stuck(program: Program, state: ExecutionState) -> list[Token]:
    """Waiting tokens when nothing else is left alive: joins (all, n) that can never be satisfied."""
    if any(token.phase != "arrived" for token in state.tokens.values()):
        return []
    return list(state.tokens.values())
