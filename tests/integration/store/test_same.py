"""Both stores, driven by the same random calls, give the same answers and end in the same state."""

from __future__ import annotations

import os
import random

import msgspec
import pytest

from noetl.adapters.memory import MemoryExecutionStore
from noetl.domain import ids
from noetl.domain.commands import LoopSlice
from noetl.domain.events import ContextPatched
from noetl.domain.outcomes.outcomes import Outcome, Patch, Suspend
from noetl.ports.executions.execution_store import (
    GateChange,
    LoadRequest,
    TimerChange,
    VersionConflictError,
    Wake,
)
from tests.contract.builders import EID
from tests.parts import parted

pytestmark = pytest.mark.postgres

ME = "me"
EIDS = (EID, EID + 1, EID + 2)


class Twins:
    """Calls both stores; answers must agree. Commands that were given out are remembered as somebody's work."""

    def __init__(self, postgres, make, seed):
        self.stores = (MemoryExecutionStore(), postgres)
        self.make = make
        self.rng = random.Random(seed)
        self.work = []
        self.seq = 0
        for store in self.stores:
            store.heartbeat(ME, 600)

    def both(self, method, *arguments):
        found = []
        for store in self.stores:
            try:
                found.append(getattr(store, method)(*arguments))
            except VersionConflictError as conflict:
                found.append(("conflict", bool(conflict.execution_ids)))
        assert _plain(found[0]) == _plain(found[1]), (method, arguments)
        return found[0]

    def keep(self, committed):
        if not isinstance(committed, tuple):
            self.work.extend(committed.commands)

    # --- what may happen ---

    def main(self):
        eid = self.rng.choice(EIDS)
        loaded = (
            self.stores[0].load([LoadRequest(eid, commands=tuple(map(str, range(1, 9))))]).executions.get(eid)
        )
        version = loaded.version if loaded else 0
        self.seq += 1
        over = {}
        if self.rng.random() < 0.1:
            version += self.rng.choice((-1, 1))
        over["slots"] = {("ctx", self.rng.choice("abc")): self.rng.random()}
        over["unset"] = (("ctx", "z"),)
        over["events"] = (self.make.row(f"m{self.seq}", seq=self.seq, at=1.5),)
        over["issue"], over["waiting"], over["close"] = [], [], []
        for command_id in self.rng.sample(range(1, 9), 2):
            fence = loaded.fences.get(str(command_id)) if loaded else None
            turn = fence.turn + 1 if fence else 0
            command = self.make.command(str(command_id), eid, turn=turn)
            over[self.rng.choice(("issue", "waiting"))].append(command)
            if fence and self.rng.random() < 0.6:
                wrong = self.rng.random() < 0.1
                over["close"].append((str(command_id), fence.attempt + wrong, fence.turn))
        if self.rng.random() < 0.3:
            over["loops"] = (self.loop(),)
        if self.rng.random() < 0.3:
            over["gates"] = (GateChange(self.rng.randrange(20, 30), 0),)
        if self.rng.random() < 0.15:
            over["drop_runs"] = (self.rng.choice((*range(1, 9), *range(20, 30))),)
        if self.rng.random() < 0.3:
            over["wakes"] = tuple(
                Wake(str(self.rng.randrange(1, 9)), self.rng.randrange(3), Outcome("ok", result=1))
                for _ in range(2)
            )
        if self.rng.random() < 0.3:
            over["timers"] = (TimerChange("t", self.seq, self.rng.choice((None, 900.0))),)
        if self.rng.random() < 0.3:
            target = self.rng.choice(EIDS)
            over["outbox"] = (
                ContextPatched(target, f"o{self.rng.randrange(6)}", "prog", [Patch("ctx", "a", 1)]),
            )
            over["handled"] = (f"o{self.rng.randrange(6)}",)
        if self.rng.random() < 0.05:
            over |= {"end": True, "status": "failed", "cancel_children": True}
        over = {key: tuple(value) if isinstance(value, list) else value for key, value in over.items()}
        created = self.make.created(parent_execution_id=None if eid == EID else EID)
        self.keep(self.both("commit", [self.make.change(max(0, version), eid, created=created, **over)], ME))

    def loop(self):
        self.seq += 1
        mode = self.rng.choice(("parallel", "parallel", "sequential"))
        total = self.rng.randrange(0, 14)
        over = {"run": self.rng.randrange(20, 30), "mode": mode, "first": self.rng.randrange(1, 5)}
        return self.make.loop(total, self.rng.randrange(1, 6), round=self.seq, **over)

    def items(self):
        own = [command for command in self.work if command.loop is not None]
        if not own:
            return
        batches = []
        for _ in range(self.rng.randrange(1, 5)):
            command = self.rng.choice(own)
            batches.append(self.batch(command))
        answers, committed = self.both("commit_items", batches, ME)
        self.keep(committed)
        for batch, answer in zip(batches, answers, strict=True):
            gone = batch.event.closed or batch.event.rest is not None
            if (answer.superseded or (gone and not answer.early)) and self.rng.random() < 0.8:
                self.work = [one for one in self.work if one.command_id != batch.event.command_id]

    def batch(self, command):
        piece = command.loop
        indexes = list(range(piece.start, piece.stop))
        part = sorted(self.rng.sample(indexes, self.rng.randrange(1, len(indexes) + 1)))
        closed = self.rng.random() < 0.7
        over = {"closed": closed, "chunk": self.rng.randrange(1, 5)}
        if self.rng.random() < 0.5:
            over["undone"] = self.rng.randrange(len(indexes))
        if self.rng.random() < 0.15:
            over |= {"alert": self.rng.choice(("failed", "next")), "alert_index": part[0]}
        if self.rng.random() < 0.2:
            over["failed"] = (part[-1],)
        if piece.mode == "parallel" and self.rng.random() < 0.3:
            return self.suspended(command, part, over)
        if self.rng.random() < 0.2:
            over["closed"] = False
            rest = LoopSlice(piece.round, part[-1], -1, -1, "item", piece.mode)
            again = self.make.command(
                command.command_id, command.execution_id, turn=command.turn + 1, loop=rest, machine={"pc": 1}
            )
            over[self.rng.choice(("resumed", "waiting"))] = (again,)
        return self.make.items(command, *part, **over)

    def suspended(self, command, part, over):
        """The first of the items goes on alone; its row tells so."""
        index, piece = part[0], command.loop
        over.pop("failed", None)
        alone_id = ids.item_command_id(command.run, piece.round, index)
        turn = command.turn + 1 if alone_id == command.command_id else 1
        alone = self.make.command(
            alone_id,
            command.execution_id,
            run=command.run,
            turn=turn,
            loop=LoopSlice(piece.round, index, index + 1, -1, "item", "parallel"),
        )
        outcome = Outcome("suspended", suspend=Suspend({"pc": 0}))
        batch = self.make.items(command, *part, outcomes={index: outcome}, **over)
        row = self.make.row(
            ids.item_turn_event(command.run, piece.round, index, turn), seq=index, lane=command.run
        )
        return msgspec.structs.replace(batch, rows=(*batch.rows, row), resumed=(alone,))

    def recover(self):
        owner = f"o{self.rng.randrange(1_000_000)}"
        self.both("release", ME)
        self.work.extend(self.both("claim", owner, 1000))
        self.both("undelivered", owner, 1000)
        self.both("heartbeat", ME, 600.0)

    def compare(self):
        for eid in EIDS:
            for method in ("loop_progress", "open_work", "slots", "events"):
                self.both(method, eid)
            self.both("item_events", eid, -1)
            first, second = (list(store.every_item(eid)) for store in self.stores)
            assert _plain(first) == _plain(second)
            commands = tuple(map(str, range(1, 9)))
            fences = [
                store.load([LoadRequest(eid, commands=commands)]).executions.get(eid) for store in self.stores
            ]
            assert fences[0] == fences[1]


def _plain(value):
    """Answers without what may differ: times of rows, and the order of several commands or events in one answer."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], list):
        return value[0], _plain(value[1])
    if hasattr(value, "events") and hasattr(value, "commands"):
        commands = sorted(value.commands, key=lambda one: (one.execution_id, one.command_id))
        return commands, sorted(value.events, key=lambda one: (one.execution_id, one.event_id))
    if isinstance(value, list) and value and hasattr(value[0], "execution_id"):
        return sorted(
            value, key=lambda one: (one.execution_id, getattr(one, "command_id", "") or one.event_id)
        )
    if isinstance(value, list) and value and hasattr(value[0], "facts"):
        return [msgspec.structs.replace(row, at=0.0) for row in value]
    return value


SEEDS = int(os.environ.get("NOETL_STORE_SEEDS", "12"))
GATE = range(4)
"""Seeds of `make test`."""


@pytest.mark.parametrize("seed", parted(range(SEEDS), GATE))
def test_both_stores_do_the_same(store, make, seed):
    twins = Twins(store, make, seed)
    for step in range(120):
        twins.rng.choice((twins.main, twins.items, twins.items, twins.recover))()
        if step % 20 == 19:
            twins.compare()
    assert any(True for eid in EIDS for _ in store.every_item(eid))
