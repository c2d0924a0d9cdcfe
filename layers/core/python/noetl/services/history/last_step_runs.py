"""The last run of each step in history, from which a redrive of that step begins."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from noetl.domain.facts.facts import Ending, LoopFinished, LoopStarted, Redriven, StepEntered, decode_facts
from noetl.domain.redrive import LOCAL
from noetl.domain.unreadable import demand
from noetl.ports.executions.execution_store import ExecutionStore

PAGE = 500


class LastRuns(msgspec.Struct):
    """By step: the arguments of its last run, and the last run of its loop."""

    args: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    loops: dict[str, LastLoop] = msgspec.field(default_factory=dict)
    ending: bool = False
    """The last tasks of the playbook run: no redrive begins with them."""

    def candidates(self) -> list[str]:
        """Return where an execution can be redriven from: steps that ran, and loop items."""
        found: list[str] = []
        for step in self.args:
            found.append(step)
            loop = self.loops.get(step)
            if loop is not None and loop.whole:
                last = loop.whole - 1
                found += [f"{step}[failed]", f"{step}[0]"] + ([f"{step}[{last}]"] if last else [])
        return found


class LastLoop(msgspec.Struct, frozen=True):
    """The last run of a loop.

    ``whole``: its items, including those kept from earlier runs. ``applied``: their writes are in the context.
    """

    run: int
    round: int
    whole: int
    applied: bool = False


def last_runs(store: ExecutionStore, execution_id: int) -> LastRuns:
    """Fold the whole main lane into the last runs of all steps."""
    found = LastRuns()
    after = 0
    while True:
        page = store.events(execution_id, after=after, limit=PAGE)
        for row in page:
            after = row.seq
            facts = demand(
                partial(decode_facts, row.facts), f"event {row.event_id} of execution {execution_id}"
            )
            for fact in facts:
                _fold(found, fact)
        if len(page) < PAGE:
            return found


def _fold(found: LastRuns, fact: Any) -> None:
    if isinstance(fact, (Ending, Redriven)):
        found.ending = isinstance(fact, Ending)
    elif found.ending:
        return
    elif isinstance(fact, StepEntered):
        found.args.pop(fact.step, None)
        found.args[fact.step] = {name: value for name, value in fact.args.items() if name != LOCAL}
    elif isinstance(fact, LoopStarted):
        whole = fact.whole if fact.again is not None else fact.total
        found.loops[fact.step] = LastLoop(fact.run, fact.round, whole)
    elif isinstance(fact, LoopFinished):
        loop = found.loops.get(fact.step)
        if loop is not None and (loop.run, loop.round) == (fact.run, fact.round):
            found.loops[fact.step] = LastLoop(loop.run, loop.round, loop.whole, fact.applied)
