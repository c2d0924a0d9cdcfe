"""Prefetch: the slots that an event's decision will need, read with the first round trip.

They are computed from the program alone. A miss is no fault: the view raises NeedSlots and the shell reads again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from noetl.domain.events import CallbackDone, CommandDone, Event, ItemAwaits, LoopDone, TokenInjected
from noetl.dsl.program import Program, Step, step_index

Names = tuple[tuple[str, ...], tuple[str, ...]]


def prefetch(program: Program, event: Event) -> Names:
    """Return (slot names, whole scopes) to read before deciding ``event``."""
    if isinstance(event, CommandDone) and event.stage == "compensate":
        names, scopes = undo_reads(program)
        return (*names, str(event.run), *_folded(event)), scopes
    if isinstance(event, CommandDone) and event.stage == "collection":
        return _entering(_Hashed(program), event.step)
    if isinstance(event, (CommandDone, LoopDone)):
        names, scopes = _after(_Hashed(program), event.step)
        own = (str(event.run),) if isinstance(event, CommandDone) and event.stage == "case" else ()
        return (*names, *own, *_folded(event)), scopes
    if isinstance(event, (CallbackDone, ItemAwaits)):
        return (event.place,), ("args",)
    if isinstance(event, TokenInjected):
        return _entering(_Hashed(program), event.step)
    return (), ("args",)


class _Hashed:
    """A Program as a cache key: equal by its content hash."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return hash(self.program.hash)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and other.program.hash == self.program.hash


def undo_reads(program: Program) -> Names:
    """Return what any compensation may read, except the run that it undoes."""
    return _undoing(_Hashed(program))


@lru_cache(maxsize=512)
def _undoing(program: _Hashed) -> Names:
    reads = {"0"}
    for step in program.program.steps:
        if step.compensate is not None:
            reads.update(step.compensate.reads.names)
    return _split(reads)


@lru_cache(maxsize=4096)
def _after(program: _Hashed, name: str) -> Names:
    step = step_index(program.program).get(name)
    if step is None:
        return (), ("args",)
    reads: set[str] = set()
    _leave(program.program, step, reads, set())
    return _split(reads)


@lru_cache(maxsize=4096)
def _entering(program: _Hashed, name: str) -> Names:
    step = step_index(program.program).get(name)
    if step is None:
        return (), ("args",)
    reads: set[str] = set()
    _enter(program.program, step, reads, set())
    return _split(reads)


def _leave(program: Program, step: Step, reads: set[str], seen: set[str]) -> None:
    """Add what is read when ``step`` ends and its successors are entered.

    That includes what steps that may wait for its lock read.
    """
    reads.update(step.exit_reads.names)
    steps = step_index(program)
    if step.mutex is not None:
        for other in program.steps:
            if other.mutex is not None:
                _enter(program, other, reads, seen)
    for target in successors(step):
        if target in steps:
            _enter(program, steps[target], reads, seen)


def _enter(program: Program, step: Step, reads: set[str], seen: set[str]) -> None:
    if step.name in seen:
        return
    seen.add(step.name)
    reads.update(step.enter_reads.names)
    if step.body is None or step.body.pool == "control":
        _leave(program, step, reads, seen)


def successors(step: Step) -> Iterable[str]:
    """Return the steps that this one may release tokens to over its arcs.

    Targets that only a case or ``on_error`` names cost a second read.
    """
    return dict.fromkeys(arc.target for arc in step.arcs if not arc.fallback)


def _folded(event: CommandDone | LoopDone) -> set[str]:
    """Return names whose patches build on the old value: those of reducers and appends."""
    if isinstance(event, CommandDone):
        patches = event.outcome.patches
    else:
        patches = event.summary.patches if event.summary is not None else []
    return {patch.name for patch in patches if patch.op != "set" or patch.scope == "vars"}


def _split(reads: set[str]) -> Names:
    names: set[str] = set()
    scopes = {"args"}
    for read in reads:
        where, dot, name = read.partition(".")
        if where == "keychain":
            continue
        if not dot:
            names.add(where)
        elif name == "*":
            scopes.update(("ctx", "vars") if where == "ctx" else (where,))
        else:
            names.add(name)
    return tuple(sorted(names)), tuple(sorted(scopes))
