"""An execution of one playbook, moved on event by event over the pure engine: no store, no shell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from noetl.domain import ids
from noetl.domain.callbacks import SCOPE, run_of
from noetl.domain.events import CommandDone, MainEvent, Start
from noetl.domain.facts.facts import Fact
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.state import ExecutionState, Slots, Token
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program
from noetl.engine.decision import Decision
from noetl.engine.folds.apply import rebuild
from noetl.engine.handle_event import handle_event
from noetl.engine.scopes.prefetch import prefetch
from noetl.engine.scopes.slot_view import DELETED, SCOPES, NeedSlots, View
from noetl.kinds.registry import default_registry

EID = 7


def compiled(workflow: str) -> Program:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n"
    return compile_playbook(head + workflow, source_name="t.yaml", kinds=default_registry()).program


@dataclass
class Stepping:
    """``reads``: what had to be read again, per event, because ``prefetch`` did not foresee it."""

    program: Program
    state: ExecutionState = field(default_factory=ExecutionState)
    slots: Slots = field(default_factory=dict)
    rows: list[tuple[int, list[Fact]]] = field(default_factory=list)
    reads: list[NeedSlots] = field(default_factory=list)

    def start(self) -> Decision:
        return self.take(Start(EID, "start", self.program.hash, path="t"))

    def answer(self, token: Token, outcome: Outcome) -> Decision:
        """The worker has run the command that ``token`` waits for."""
        assert token.command is not None
        stage: Any = token.phase
        return self.take(
            CommandDone(
                execution_id=EID,
                event_id=ids.outcome_event(token.command, token.turn),
                program=self.program.hash,
                command_id=token.command,
                attempt=1,
                turn=token.turn,
                run=token.run,
                step=token.step,
                outcome=outcome,
                stage=stage,
            )
        )

    def take(self, event: MainEvent) -> Decision:
        names, scopes = (frozenset(part) for part in prefetch(self.program, event))
        if isinstance(event, Start):
            scopes = SCOPES
        while True:
            known = {key: value for key, value in self.slots.items() if key[1] in names or key[0] in scopes}
            try:
                decision = handle_event(self.program, self.state, event, 0.0, View(known, names, scopes))
                break
            except NeedSlots as need:
                self.reads.append(need)
                names, scopes = names | need.names, scopes | need.scopes
        self.state = decision.state
        self.rows.append((decision.state.seq, list(decision.facts)))
        for key, value in decision.slots.items():
            if value is DELETED:
                self.slots.pop(key, None)
            else:
                self.slots[key] = value
        for run in decision.over_runs:
            for place in [place for place in self.scope(SCOPE) if run_of(place) == run]:
                del self.slots[SCOPE, place]
        assert rebuild(self.rows) == (self.state, self.slots), "history gives something else"
        return decision

    def at(self, step: str) -> list[Token]:
        """The live tokens at a step, by run."""
        return sorted(
            (one for one in self.state.tokens.values() if one.step == step), key=lambda one: one.run
        )

    def scope(self, scope: str) -> dict[str, Any]:
        return {name: value for (where, name), value in self.slots.items() if where == scope}
