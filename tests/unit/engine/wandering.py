"""Random programs of everything that steers steps, and random events for them, in any order: over the pure engine, without a store.

What the simulator of ``tests/properties`` does with whole machines is done here with events alone, and so a hundred times as often: time
limits beside outcomes, requests of clients between any two events, tokens out of nowhere, redrives from any step.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from noetl.domain import ids
from noetl.domain.callbacks import SCOPE, run_of
from noetl.domain.commands import Command
from noetl.domain.events import (
    Cancel,
    CommandDone,
    ContextPatched,
    LoopAlert,
    LoopDone,
    LoopSummary,
    MainEvent,
    Pause,
    Redrive,
    Resume,
    Start,
    TimerFired,
    TokenInjected,
)
from noetl.domain.facts.facts import Fact, TimerExpired
from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Patch, Suspend, Target
from noetl.domain.state import TERMINAL, ExecutionState, Slots
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.dsl.program import Program
from noetl.engine.decision import Decision
from noetl.engine.folds.apply import rebuild
from noetl.engine.handle_event import handle_event
from noetl.engine.pausing import waits
from noetl.engine.scopes.prefetch import prefetch
from noetl.engine.scopes.slot_view import DELETED, SCOPES, EarlierLoop, Limits, NeedSlots, View
from noetl.kinds.registry import default_registry

EID = 7
FEW = Limits(inline_moves=30, inline_runs=60)
HTTP = {"kind": "http", "url": "http://api.test/x"}
STATES = ("{{ ctx.n | default(0) > 1 }}", "{{ ctx.n is defined }}", "{{ ctx.n | default(0) % 2 == 0 }}")
EVENTS = ("{{ event.name == 'step.failed' }}", "{{ event.name in ['step.done', 'loop.done'] }}")
MOST_RUNS = 200
"""Some playbooks multiply their tokens in a cycle; from here on such an execution is left alone."""
COMMANDED = ("body", "collection", "case", "compensate")


def document(rng: random.Random) -> dict[str, Any]:
    """Draw a playbook. It may get stuck or run in circles: no law says that it ends well."""
    names = [f"s{number}" for number in range(rng.randint(2, 6))]
    found: dict[str, Any] = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "any"},
        "executor": {"spec": {"entry_step": "s0"}},
        "workflow": [_step(rng, name, names) for name in names],
    }
    spec = found["executor"]["spec"]
    if rng.random() < 0.3:
        spec["timeout"] = "1h"
    if rng.random() < 0.3:
        spec["budget"] = {"calls": rng.randint(1, 9)}
    if rng.random() < 0.2:
        spec["final_step"] = names[-1]
    for last in ("on_success", "on_failure", "finally"):
        if rng.random() < 0.25:
            found[last] = rng.choice(({"kind": "noop"}, HTTP, [HTTP, {"kind": "noop"}]))
    return found


def _step(rng: random.Random, name: str, names: list[str]) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name, "spec": _spec(rng, names)}
    what = rng.random()
    if what < 0.55:
        step["tool"] = HTTP
    elif what < 0.8:
        step["tool"] = {"kind": "noop", "input": {"n": "{{ ctx.n | default(0) }}"}}
    if what < 0.8 and rng.random() < 0.3:
        step["spec"]["compensate"] = HTTP
    if what < 0.15:
        step["loop"] = {"in": [1, 2, 3][: rng.randint(0, 3)], "iterator": "i"}
        step["loop"]["spec"] = {"mode": rng.choice(("parallel", "sequential"))}
        if rng.random() < 0.5:
            step["spec"].setdefault("policy", {})["failure"] = {"mode": "best_effort"}
    if what < 0.8 and rng.random() < 0.2:
        return step | _event_form(rng, names)
    if rng.random() < 0.3:
        step["set"] = {"ctx.n": {"add": 1}}
    arcs = [_arc(rng, names) for _ in range(rng.randint(0, 3))]
    if arcs:
        step["next"] = {"spec": {"mode": rng.choice(("inclusive", "exclusive"))}, "arcs": arcs}
    return step


def _spec(rng: random.Random, names: list[str]) -> dict[str, Any]:
    rests = [{"wait": "any", "rest": rest} for rest in ("hold", "cancel", "absorb")]
    counted = {"wait": 2, "of": "arrivals"}
    spec: dict[str, Any] = {
        "join": rng.choice(("sync", "sync", "each", "each", "any", "all", 2, counted, *rests))
    }
    if rng.random() < 0.25:
        spec["timeout"] = "10s"
    if rng.random() < 0.3:
        spec["mutex"] = rng.choice(("left", "right", "{{ ctx.n | default('left') }}"))
    if rng.random() < 0.2:
        rule = {"when": rng.choice(STATES), "then": {"allow": True}}
        rest = {"else": {"then": {"allow": rng.choice((False, "skip"))}}}
        spec["policy"] = {"admit": {"rules": [rule, rest], "timeout": "5s"}}
    if rng.random() < 0.15:
        spec["cancels"] = rng.choice(("all", rng.sample(names, min(2, len(names)))))
    if rng.random() < 0.2:
        spec["on_error"] = rng.choice(("continue", rng.choice(names)))
    return spec


def _arc(rng: random.Random, names: list[str]) -> dict[str, Any]:
    arc: dict[str, Any] = {"step": rng.choice(names)}
    if rng.random() < 0.5:
        arc["when"] = rng.choice((*STATES, *EVENTS))
    if rng.random() < 0.3:
        arc["args"] = {"a": rng.randint(0, 9)}
    return arc


def _event_form(rng: random.Random, names: list[str]) -> dict[str, Any]:
    """Draw an entry of ``case``, perhaps with tasks of its own."""
    event = rng.choice(("step.enter", "step.exit", "loop.done"))
    then: list[dict[str, Any]] = [{"note": HTTP}] if rng.random() < 0.7 else []
    then.append(rng.choice(({"set": {"ctx": {"n": 3}}}, {"next": [{"step": rng.choice(names)}]})))
    entry = {"when": f"{{{{ event.name == '{event}' }}}}", "then": then}
    return {"case": [entry], "next": [rng.choice(names)] if rng.random() < 0.7 else []}


@dataclass
class Wandering:
    """An execution, and what a store would keep beside it: commands, loops and timers."""

    program: Program
    rng: random.Random
    state: ExecutionState = field(default_factory=ExecutionState)
    slots: Slots = field(default_factory=dict)
    rows: list[tuple[int, list[Fact]]] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    loops: dict[tuple[int, int], str] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    sent: list[MainEvent] = field(default_factory=list)
    now: float = 0.0
    said: int = 0

    @classmethod
    def drawn(cls, rng: random.Random) -> Wandering:
        while True:
            text = json.dumps(document(rng))
            try:
                return cls(compile_playbook(text, kinds=default_registry()).program, rng)
            except InvalidPlaybookError:
                """Keys of both forms in one playbook: the next one is drawn."""

    def take(self, event: MainEvent) -> None:
        if waits(self.state, event):
            return
        names, scopes = (frozenset(part) for part in prefetch(self.program, event))
        scopes = SCOPES if isinstance(event, Start) else scopes
        while True:
            known = {key: value for key, value in self.slots.items() if key[1] in names or key[0] in scopes}
            view = View(known, names, scopes, limits=FEW, earlier=self._earlier)
            try:
                decision = handle_event(self.program, self.state, event, self.now, view)
                break
            except NeedSlots as need:
                assert not (need.names <= names and need.scopes <= scopes), f"asked again: {need}"
                names, scopes = names | need.names, scopes | need.scopes
        self._commit(decision)
        if isinstance(event, LoopDone):
            self.loops.pop((event.run, event.round), None)
        for fact in decision.facts:
            if isinstance(fact, TimerExpired) and self.timers.get(fact.timer) == fact.generation:
                del self.timers[fact.timer]
        self._check()

    def _earlier(self, again: Any, **loop: Any) -> EarlierLoop:
        return EarlierLoop(3, ((1, 3),), [1, 2, 3], None)

    def _commit(self, decision: Decision) -> None:
        assert decision.facts, "a decision leaves a record"
        self.state = decision.state
        self.rows.append((decision.state.seq, list(decision.facts)))
        for key, value in decision.slots.items():
            if value is DELETED:
                self.slots.pop(key, None)
            else:
                self.slots[key] = value
        for key in [key for key in self.slots if key[0] == SCOPE and run_of(key[1]) in decision.over_runs]:
            del self.slots[key]
        for command, _, _ in decision.close:
            del self.commands[command]
        for command_id in [one.command_id for one in self.commands.values() if one.run in decision.drop_runs]:
            del self.commands[command_id]
        for key in [key for key in self.loops if key[0] in decision.drop_runs]:
            del self.loops[key]
        for one in (*decision.issue, *decision.waiting):
            self.commands[one.command_id] = one
        for start in decision.loops:
            if start.run not in decision.drop_runs:
                self.loops[start.run, start.round] = start.step.name
        for timer in decision.timers:
            if timer.seconds is None:
                self.timers.pop(timer.timer, None)
            else:
                self.timers[timer.timer] = timer.generation
        if decision.end:
            self.commands.clear()
            self.loops.clear()
            self.timers.clear()
            for key in [key for key in self.slots if key[0] == "undo"]:
                del self.slots[key]

    def _check(self) -> None:
        state = self.state
        assert rebuild(self.rows) == (state, self.slots), "history has something else"
        assert (state.status in TERMINAL) <= (not state.tokens and not self.commands and not self.loops)
        assert self.timers.keys() <= state.timers.keys(), "no run waits for a timer"
        assert state.timers.keys() <= self.timers.keys(), "a timer that is waited for does not exist"
        live = {str(run) for run in state.tokens}
        left = {str(token.run) for token in state.left}
        assert {name for scope, name in self.slots if scope == "args"} <= live | left, "arguments of no run"
        assert {name for scope, name in self.slots if scope == "run"} <= live, "results of no run"
        if state.status == "running":
            self._check_hope()

    def _check_hope(self) -> None:
        state = self.state
        assert state.tokens, "it neither runs nor ends"
        held = {token.lock for token in state.tokens.values() if token.lock and token.phase != "parked"}
        for token in state.tokens.values():
            if token.phase in COMMANDED:
                assert self.commands[str(token.command)].turn == token.turn
            elif token.phase == "loop":
                assert (token.run, token.round) in self.loops
            elif token.phase == "parked":
                assert not token.lock or token.lock in held, "it waits for a lock that is free"
            else:
                assert token.phase == "arrived" and len(state.tokens) > 1, token
        assert any(token.phase != "arrived" for token in state.tokens.values())
        known = {token.command for token in state.tokens.values() if token.phase in COMMANDED}
        assert set(self.commands) == known, "a command whose outcome no run waits for"
        assert {run for run, _ in self.loops} == {
            token.run for token in state.tokens.values() if token.phase == "loop"
        }

    # --- events ---

    def begin(self) -> None:
        self.take(Start(EID, "start", self.program.hash, path="any"))

    def step(self) -> None:
        self.now += self.rng.choice((0, 0, 1, 7))
        event = self._event()
        if event is not None:
            self.sent.append(event)
            self.take(event)

    def _event(self) -> MainEvent | None:
        rng = self.rng
        if self.state.status in TERMINAL:
            return self._late() if rng.random() < 0.3 else self._redrive()
        what = rng.random()
        if what < 0.55:
            return self._outcome()
        if what < 0.7 and self.timers:
            timer = rng.choice(sorted(self.timers))
            return self._rung(timer, self.timers[timer])
        if what < 0.8:
            return self._late()
        return self._said(what)

    def _outcome(self) -> MainEvent | None:
        rng = self.rng
        live = [*self.commands.values(), *self.loops.items()]
        if not live:
            return None
        one = rng.choice(live)
        if isinstance(one, Command):
            return CommandDone.of(one, self._report(one))
        (run, round_), step = one
        token = self.state.tokens.get(run)
        if rng.random() < 0.3 and token is not None and token.closing is None:
            name = ids.loop_alert_event(run, round_)
            return LoopAlert(EID, name, self.program.hash, run, round_, step, 0, "failed")
        failed = rng.choice((0, 0, 1))
        error = ErrorInfo("no") if failed else None
        patches = [Patch("ctx", "n", 1, "add")] if rng.random() < 0.3 else []
        summary = LoopSummary(3, 3, 3 - failed, failed, [1], patches, error=error)
        name = ids.loop_done_event(run, round_)
        return LoopDone(EID, name, self.program.hash, run, round_, step, summary)

    def _report(self, command: Command) -> Outcome:
        rng = self.rng
        patches = [Patch("ctx", "n", 1, "add")] if rng.random() < 0.2 else []
        if rng.random() < 0.05:
            patches = [Patch("ctx", "n", "text", "add")]
        what = rng.random()
        if what < 0.2:
            return Outcome("suspended", suspend=Suspend({}, delay=3.0), meta={"calls": 1})
        if what < 0.45:
            return Outcome("error", error=ErrorInfo("no"), patches=patches)
        route = None
        if what < 0.55 and command.stage == "body":
            route = [Target(rng.choice([step.name for step in self.program.steps]), {})]
        return Outcome("skipped" if what > 0.97 else "ok", {"n": 1}, patches=patches, route=route)

    def _rung(self, timer: str, generation: int) -> TimerFired:
        return TimerFired(EID, f"timer:{timer}:{generation}", self.program.hash, timer, generation)

    def _late(self) -> MainEvent | None:
        """Any event that came before, once more."""
        again = [one for one in self.sent if not isinstance(one, Redrive)]
        return self.rng.choice(again) if again else None

    def _redrive(self) -> Redrive:
        self.said += 1
        steps = ["", "", *(step.name for step in self.program.steps)]
        return Redrive(
            EID,
            f"ext:{self.said}",
            self.program.hash,
            self.rng.choice(steps),
            ended=self.now,
            principal="ada",
        )

    def _said(self, what: float) -> MainEvent:
        self.said += 1
        about = (EID, f"ext:{self.said}", self.program.hash)
        if self.state.status == "paused" and self.rng.random() < 0.6:
            return Resume(*about, principal="ada")
        if what < 0.85:
            return ContextPatched(*about, [Patch("ctx", "n", self.rng.randint(0, 3))], principal="ada")
        if what < 0.9:
            return TokenInjected(*about, self.rng.choice(self.program.steps).name, {"a": 1}, principal="ada")
        if what < 0.97:
            return Pause(*about, principal="ada")
        return Cancel(*about, principal="ada", cascade=self.rng.random() < 0.5)


def wander(seed: int, events: int = 60) -> Wandering:
    """Play a seed."""
    found = Wandering.drawn(random.Random(seed))
    found.begin()
    for _ in range(events):
        if found.state.next_run < MOST_RUNS:
            found.step()
    return found
