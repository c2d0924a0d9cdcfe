"""Joins: the waiting token that may fire now, by the synchronizing merge and others.

A step with several incoming arcs fires once no other live token can still reach it (static reachability), counting only tokens that
are not themselves waiting at a join. So ``next: [a, b]`` followed by two arcs into ``c`` runs ``c`` once, an exclusive choice that rejoins
runs it at once, and cycles work.
"""

from __future__ import annotations

import msgspec

from noetl.domain.state import ExecutionState, Token
from noetl.dsl.program import Program, Step, step_index


class Firing(msgspec.Struct, frozen=True):
    """Tokens that fire their step together.

    ``opens``: the join (any, n) keeps absorbing tokens until its wave is over.
    """

    step: Step
    tokens: tuple[Token, ...]
    opens: bool = False

    @property
    def wave(self) -> tuple[int, ...]:
        """Return the arcs that have delivered in this wave, of a join that holds later tokens.

        It holds them for its next wave.
        """
        holds = self.opens and self.step.join_rest == "hold"
        return tuple(sorted({token.arc for token in self.tokens})) if holds else ()


class WaveEnded(msgspec.Struct, frozen=True):
    """Tokens (``late``) that end at an any/n join that has fired. ``over``: its wave ends too."""

    step: Step
    late: tuple[Token, ...]
    over: bool = True


def next_ready(program: Program, state: ExecutionState) -> Firing | WaveEnded | None:
    """Return what may happen next at a join, or None when every waiting token has to wait."""
    steps = step_index(program)
    waiting: dict[str, list[Token]] = {}
    for token in state.tokens.values():
        if token.phase != "arrived":
            continue
        step = steps[token.step]
        if not token.sync or step.join == "each" or (step.incoming <= 1 and step.join_of == "arcs"):
            return Firing(step, (token,))
        waiting.setdefault(token.step, []).append(token)
    if not waiting and not state.fired:
        return None
    live = {token.step for token in state.tokens.values() if token.phase != "arrived"}
    found = _wave(steps, state, waiting, live) or _merge(steps, state, waiting, live)
    if found is None and not live and state.fired:
        # Joins that wait for each other's waves: the oldest wave gives way.
        return _close(steps, state, waiting, state.fired[0])
    return found


def _blocked(steps: dict[str, Step], name: str, live: set[str]) -> bool:
    """Return whether a token that is not waiting can still reach this step."""
    return any(name in steps[other].reaches for other in live)


def _wave(
    steps: dict[str, Step], state: ExecutionState, waiting: dict[str, list[Token]], live: set[str]
) -> WaveEnded | None:
    """Return what is due at a join that has fired."""
    for name in state.fired:
        wave = state.waves.get(name)
        if wave is not None:
            missing = [token for token in _one_each(waiting.get(name, [])) if token.arc not in wave]
            if missing:
                return WaveEnded(steps[name], tuple(missing), over=False)
        upstream = live | {other for other in waiting if other != name}
        complete = wave is not None and len(set(wave)) >= steps[name].ways
        if complete or not _blocked(steps, name, upstream):
            return _close(steps, state, waiting, name)
    return None


def _close(
    steps: dict[str, Step], state: ExecutionState, waiting: dict[str, list[Token]], name: str
) -> WaveEnded:
    """End the wave: the tokens that wait end with it, unless they are held for the next wave."""
    late = () if name in state.waves else tuple(waiting.get(name, ()))
    return WaveEnded(steps[name], late)


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
            first = _oldest(tokens, needed) if step.join_of == "arrivals" else _one_each(tokens)
            if len(first) >= needed:
                return Firing(step, first, opens=_opens(step, needed))
        elif not _blocked(steps, name, live):
            free.append(name)
    if not free:
        return None
    return _fire(steps, waiting, _upstream_first(steps, free))


def _one_each(tokens: list[Token]) -> tuple[Token, ...]:
    """Return the oldest token of each arc; later ones of an arc belong to the next firing."""
    oldest: dict[int, Token] = {}
    for token in sorted(tokens, key=lambda token: token.run):
        oldest.setdefault(token.arc, token)
    return tuple(oldest.values())


def _oldest(tokens: list[Token], count: int) -> tuple[Token, ...]:
    """Return the first ``count`` tokens, over any arcs; later ones belong to the next firing."""
    return tuple(sorted(tokens, key=lambda token: token.run)[:count])


def _opens(step: Step, needed: int) -> bool:
    """Return whether a wave begins with this firing.

    It does when tokens may follow that must not fire the join again.
    """
    return step.join_rest != "hold" if step.join_of == "arrivals" else needed < step.ways


def _needed(step: Step) -> int | None:
    """Return how many different arcs (or arrivals) the join needs; None: synchronising merge."""
    if step.join == "sync":
        return None
    if step.join == "all":
        return step.ways
    return 1 if step.join == "any" else int(step.join)


def _upstream_first(steps: dict[str, Step], free: list[str]) -> str:
    """Choose a join that no other free join leads to, unless they lead to each other.

    Then it is the first in playbook order.
    """
    ordered = sorted(free, key=lambda name: steps[name].index)
    for name in ordered:
        ahead = (other for other in ordered if other != name and name in steps[other].reaches)
        if all(other in steps[name].reaches for other in ahead):
            return name
    return ordered[0]


def _fire(steps: dict[str, Step], waiting: dict[str, list[Token]], name: str) -> Firing:
    return Firing(steps[name], tuple(waiting[name]))


def stuck(program: Program, state: ExecutionState) -> list[Token]:
    """Return the tokens of joins (all, n) that can never be satisfied.

    There are such tokens only when no other token is alive.
    """
    if any(token.phase != "arrived" for token in state.tokens.values()):
        return []
    return list(state.tokens.values())
