"""What has to hold for every execution: at any moment (``audit``), and when nothing is left to do (``check_history``, ``check_end``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from noetl.domain.callbacks import SCOPE, awaited_in, run_of
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import Fact, decode_facts
from noetl.domain.facts.waits import CallbackAwaited
from noetl.domain.loop_resume import indexes
from noetl.domain.state import (
    LEGAL_PHASE,
    LEGAL_STATUS,
    TERMINAL,
    WAITING,
    ExecutionState,
    Slots,
    decode_state,
)
from noetl.engine.folds.apply import evolve
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore, LoadRequest
from noetl.services.history.history_pages import history as told
from noetl.services.history.replay import replay
from tests.conformance.order import check_order
from tests.properties.accounts import (
    check_asked,
    check_children,
    check_last,
    check_own_results,
    check_undone,
    check_values,
)
from tests.properties.evidence import Evidence, UseRow
from tests.properties.laws import law
from tests.properties.readers import check_analyze, check_readers
from tests.properties.scenes.removals import check_old
from tests.properties.watchdog import check_hope, check_leases, check_loops_in_flight

if TYPE_CHECKING:
    from tests.properties.world import World

STATE_LIMIT = 8 * 1024
COMMANDED = ("body", "collection", "case", "compensate")
LASTING = ("properties/last", "properties/last_child")
"""Playbooks with last tasks."""
ENDS = (f.Completed, f.Failed, f.Cancelled)


def audit(world: World) -> None:
    """All laws that hold between any two moves."""
    store, evidence = world.store, world.place.evidence()
    infos = store.executions(limit=100_000)
    check_limits(evidence, infos)
    check_leases(world, evidence)
    check_hope(world, evidence, infos)
    check_loops_in_flight(world, evidence, infos)
    check_children(world.place.watch.asked)
    check_readers(world, infos)
    check_old(world, evidence, infos)
    staying = [info for info in infos if info.execution_id not in world.leaving]
    check_analyze(world, staying)
    for info in staying:
        if info.version:
            audit_one(store, info)


def audit_one(store: ExecutionStore, info: ExecutionInfo) -> None:
    """Check the laws of one execution that hold between any two moves."""
    check_state(store, info)
    check_commands(store, info)
    check_queues(info)
    check_timers(store, info)


@law("history-is-the-state", "always")
def check_state(store: ExecutionStore, info: ExecutionInfo) -> None:
    """The stored state is small, and equals the fold of the stored history."""
    assert len(info.state) <= STATE_LIMIT, f"state of {info.path} takes {len(info.state)} bytes"
    report = replay(store, info.execution_id)
    assert report.agrees, (info.path, report.differences)


@law("timers-are-wanted", "always")
def check_timers(store: ExecutionStore, info: ExecutionInfo) -> None:
    """Every timer belongs to a token of the state, or limits a wait for an answer from outside."""
    slots = store.slots(info.execution_id)
    check_slots(info, slots)
    late = [awaited_in(slot) for (scope, _), slot in slots.items() if scope == SCOPE]
    answers_until = sum(found is not None and found.until is not None for found in late)
    timers = decode_state(info.state).timers
    assert store.open_work(info.execution_id)["timers"] <= len(timers) + answers_until, (
        f"{info.path}: nobody waits for a timer"
    )


@law("commands-are-there", "always")
def check_commands(store: ExecutionStore, info: ExecutionInfo) -> None:
    """Every token that waits for a command has it, at its turn."""
    state = decode_state(info.state)
    waiting = {token.command: token for token in state.tokens.values() if token.phase in COMMANDED}
    request = LoadRequest(info.execution_id, commands=tuple(str(command) for command in waiting))
    fences = store.load([request]).executions[info.execution_id].fences
    for command, token in waiting.items():
        assert command in fences, (
            f"{info.path}: the token at {token.step} waits for a command that does not exist"
        )
        assert fences[command].turn == token.turn, f"{info.path}: another turn of {command} is out"


@law("slots-are-of-live-runs", "always")
def check_slots(info: ExecutionInfo, slots: Slots) -> None:
    """The result and the callbacks of a run are removed with its token; its arguments stay for a redrive."""
    state = decode_state(info.state)
    own = {str(run) for run, token in state.tokens.items() if token.own}
    assert {name for scope, name in slots if scope == "run"} == own, f"{info.path}: results of other runs"
    kept = Counter(run_of(place) for scope, place in slots if scope == SCOPE)
    counted = {run: token.callbacks for run, token in state.tokens.items() if token.callbacks}
    assert kept == counted, f"{info.path}: callbacks of {kept}, and tokens count {counted}"
    known = {*state.tokens, *(token.run for token in state.left)}
    assert all(int(name) in known for scope, name in slots if scope == "args"), (
        f"{info.path}: arguments of no run"
    )


@law("limits-hold", "always")
def check_limits(evidence: Evidence, infos: Iterable[ExecutionInfo]) -> None:
    """Never more holders than slots; what has ended holds none and waits for none; nothing waits while a slot is free."""
    known = {info.execution_id: info for info in infos}
    open_commands = {(row.execution_id, row.command_id) for row in evidence.commands}
    together: dict[tuple[int, str], list[UseRow]] = {}
    for use in evidence.uses:
        together.setdefault((use.execution_id, use.command_id), []).append(use)
    held: Counter[str] = Counter()
    most: dict[str, int] = {}
    waiting: dict[str, list[tuple[int, int, UseRow]]] = {}
    for key, uses in together.items():
        info = known[key[0]]
        assert info.status not in TERMINAL, f"{info.path} is over and has {uses}"
        assert not key[1] or key in open_commands, f"nothing is left of {uses}"
        assert len({use.held for use in uses}) == 1, f"some of it: {uses}"
        assert sum(use.queued for use in uses) == (not uses[0].held), f"queued once while it waits: {uses}"
        for use in uses:
            if use.held and use.concurrent is not None:
                held[use.key] += 1
                most[use.key] = max(most.get(use.key, 0), use.concurrent)
            if use.queued and info.status != "paused":
                waiting.setdefault(use.key, []).append((-use.priority, use.order, use))
    assert all(count <= most[key] for key, count in held.items()), (held, most)
    for name, queue in waiting.items():
        first = min(queue, key=lambda one: one[:2])[2]
        assert held[name] >= (first.concurrent or 0), f"a slot of {name} is free, and {first} waits"


@law("locks-are-held", "always")
def check_queues(info: ExecutionInfo) -> None:
    """A lock that a run waits for is held by another run of its execution."""
    tokens = decode_state(info.state).tokens.values()
    held = {token.lock for token in tokens if token.phase not in WAITING}
    for token in tokens:
        assert not token.lock or token.phase not in WAITING or token.lock in held, (
            f"{info.path}: {token} waits for a lock that nobody holds"
        )


def history(store: ExecutionStore, execution_id: int) -> Iterator[tuple[int, list[Fact]]]:
    after = 0
    while rows := store.events(execution_id, after=after, limit=500):
        for row in rows:
            yield row.seq, decode_facts(row.facts)
        after = rows[-1].seq


def count_issued(fact: Fact, issued: Counter[tuple[str, int]], lies_still: set[tuple[str, int]]) -> None:
    """Count a turn that is given out. ``lies_still``: turns of this decision that begin to wait for a callback; told now, given out later."""
    if isinstance(fact, CallbackAwaited) and fact.index < 0 and not fact.early:
        lies_still.add((fact.command_id, fact.turn))
    if isinstance(fact, f.CommandIssued):
        turn = (fact.command_id, fact.turn)
        if turn in lies_still:
            lies_still.remove(turn)
        elif fact.stage != "compensate":
            issued[turn] += fact.child is None


@law("moves-are-legal", "end")
def check_history(store: ExecutionStore, info: ExecutionInfo) -> None:
    """History has only legal moves, each loop done once, and one terminal fact per round with nothing after it but a redrive.

    After the end there may be words of a parent, which are passed on.

    Of a run that was withdrawn nothing is told any more, no two runs hold one lock, and no command turn is issued twice.
    """
    state, slots = ExecutionState(), Slots()
    withdrawn: set[int] = set()
    started: Counter[tuple[int, int]] = Counter()
    done: Counter[tuple[int, int]] = Counter()
    issued: Counter[tuple[str, int]] = Counter()
    picked: dict[tuple[int, int], f.LoopStarted] = {}
    loops: dict[tuple[int, int], f.LoopFinished] = {}
    ended = 0
    for expected_seq, (seq, facts) in enumerate(history(store, info.execution_id), start=1):
        assert seq == expected_seq, f"{info.path}: row {expected_seq} is missing from history"
        lies_still: set[tuple[str, int]] = set()
        for fact in facts:
            assert not ended or isinstance(fact, (f.Superseded, f.FamilyRequestNoted, f.Redriven)), (
                f"{info.path}: {fact} after the end"
            )
            assert ended == isinstance(fact, f.Redriven) or isinstance(
                fact, (f.Superseded, f.FamilyRequestNoted)
            ), fact
            phases = {run: token.phase for run, token in state.tokens.items()}
            status = state.status
            assert getattr(fact, "run", 0) not in withdrawn, f"{info.path}: {fact}, although it was withdrawn"
            evolve(state, slots, fact)
            check_moves(info.path, phases, status, state, fact)
            check_locks(info.path, state, fact)
            if isinstance(fact, f.StepSkipped) and fact.withdrawn:
                withdrawn.add(fact.run)
            ended += isinstance(fact, ENDS) - isinstance(fact, f.Redriven)
            count_issued(fact, issued, lies_still)
            if isinstance(fact, f.LoopStarted):
                started[fact.run, fact.round] += 1
                if fact.again is not None:
                    picked[fact.run, fact.round] = fact
            if isinstance(fact, f.LoopFinished):
                done[fact.run, fact.round] += 1
                loops[fact.run, fact.round] = fact
                assert fact.done + fact.failed <= fact.total
            if isinstance(fact, f.LoopFinished) and picked.get((fact.run, fact.round)):
                check_kept(info.path, picked[fact.run, fact.round], loops)
        assert not lies_still, f"{info.path}: {lies_still} is waited for, and was not told of"
    assert ended == (info.status in TERMINAL), f"{info.path}: {ended} terminal facts, status {info.status}"
    assert set(issued.values()) <= {0, 1}, f"{info.path}: {issued.most_common(1)} was issued twice"
    assert set(started.values()) <= {1} and set(done.values()) <= {1}, f"{info.path}: a loop was done twice"
    assert done.keys() <= started.keys()
    check_loops(store, info, done)
    for loop in store.loop_progress(info.execution_id):
        assert loop.run not in withdrawn or loop.gate == "closed", loop


def check_kept(path: str, started: f.LoopStarted, loops: dict[tuple[int, int], f.LoopFinished]) -> None:
    """A loop that went on from an earlier run has that run's results where it ran nothing itself."""
    assert started.again is not None
    before = loops.get((started.again.run, started.again.round))
    after = loops[started.run, started.round]
    if before is None or not isinstance(before.results, list) or not isinstance(after.results, list):
        return
    if len(before.results) != started.whole or len(after.results) != started.whole:
        return
    again = set(indexes(started.picked))
    for index, (old, new) in enumerate(zip(before.results, after.results, strict=True)):
        assert index in again or old == new, f"{path}: item {index} had {old} and has {new}"


def check_locks(path: str, state: ExecutionState, fact: Fact) -> None:
    holders = Counter(
        token.lock for token in state.tokens.values() if token.lock and token.phase not in WAITING
    )
    assert all(count == 1 for count in holders.values()), f"{path}: {fact} gives {holders}"


def check_moves(path: str, before: dict[int, str], status: str, state: ExecutionState, fact: Fact) -> None:
    if state.status != status:
        assert state.status in LEGAL_STATUS[status], f"{path}: {status} → {state.status}"
    for run, token in state.tokens.items():
        if run not in before:
            again = token.phase == "compensate" and state.undoing
            assert token.phase == "arrived" or again, f"{path}: {token} appears out of nowhere by {fact}"
        elif token.phase != before[run]:
            assert token.phase in LEGAL_PHASE[before[run]], f"{path}: {before[run]} → {token.phase} by {fact}"


@law("issued-is-done", "end")
def check_loops(store: ExecutionStore, info: ExecutionInfo, done: Counter[tuple[int, int]]) -> None:
    """A finished loop has counted every item it issued, and has issued every item unless it was ended early."""
    closed = {
        fact.run
        for _, facts in history(store, info.execution_id)
        for fact in facts
        if isinstance(fact, f.LoopItem)
    }
    for loop in store.loop_progress(info.execution_id):
        if (loop.run, loop.round) not in done:
            continue
        assert loop.gate == "closed", loop
        assert loop.done + loop.failed == loop.issued, loop
        assert loop.issued == loop.total or loop.run in closed, loop
        indexes = [row.index for row in store.loop_items(info.execution_id, loop.run, loop.round, 0, 100_000)]
        assert len(indexes) == len(set(indexes)) == loop.issued, loop


def check_end(world: World, waiting: Collection[str] = ()) -> None:
    """All laws of the end. ``waiting``: paths of executions that wait for the outside."""
    store = world.store
    infos = store.executions(limit=100_000)
    check_ended(store, infos, waiting)
    for info in infos:
        if info.path in LASTING and info.status in TERMINAL and info.version:
            check_last(store, info, world.program(info.path))
    check_asked(store, world.place.watch.asked, infos)
    check_own_results(world.tools.mixed)
    check_values(world.tools.changed)


def check_ended(
    store: ExecutionStore, infos: Collection[ExecutionInfo], waiting: Collection[str] = ()
) -> None:
    """Check the laws of the end that the store alone can show. ``waiting``: as in ``check_end``."""
    for info in infos:
        check_history(store, info)
        check_told(store, info)
        if info.status == "failed":
            check_undone(store, info)
    check_over(store, infos, waiting)


@law("events-come-in-order", "end")
def check_told(store: ExecutionStore, info: ExecutionInfo) -> None:
    """The events that clients read come in the documented order, with the terminal event of the status last."""
    check_order(list(told(store, info.execution_id)), info.status)


@law("everything-ends", "end")
def check_over(store: ExecutionStore, infos: Iterable[ExecutionInfo], waiting: Collection[str]) -> None:
    """Every execution reaches a terminal status, and leaves no command, timer or event behind."""
    for info in infos:
        work = store.open_work(info.execution_id)
        assert not any(work.values()), f"{info.path} is {info.status}, and yet there is {work}"
        if info.path in waiting:
            phases = {token.phase for token in decode_state(info.state).tokens.values()}
            assert phases == {"parked"}, f"{info.path} should be parked and is {info.status} {phases}"
        else:
            assert info.status in TERMINAL, f"{info.path} never ended: {decode_state(info.state)}"
