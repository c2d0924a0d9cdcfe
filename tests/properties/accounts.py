"""Laws that add up: children asked for and children there, runs done and runs undone, what was sent and what arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from noetl.domain.events import Parent
from noetl.domain.facts import facts as f
from noetl.domain.facts.facts import decode_facts
from noetl.domain.state import TERMINAL, decode_state
from noetl.dsl.program import Program
from noetl.ports.executions.execution_store import ExecutionInfo, ExecutionStore
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.world import World

Asked = tuple[Parent, int, str]
"""(who asked, which execution was to begin, its playbook)."""
CLOCK_STEP = 1e-6
"""Seconds. The store keeps microseconds; as a float, a moment of today is off by up to half of one."""


@law("each-child-has-one-parent", "always")
def check_children(asked: Collection[Asked]) -> None:
    """Two askers for a child never get the same execution."""
    parents: dict[int, Parent] = {}
    for parent, child, _ in asked:
        known = parents.setdefault(child, parent)
        assert known == parent, f"{child} is the child of {known} and of {parent}"


@law("each-child-exists-once", "end")
def check_asked(store: ExecutionStore, asked: Collection[Asked], infos: Iterable[ExecutionInfo]) -> None:
    """Every child that was asked for exists once, with the playbook and the parent that asked for it.

    A child may be missing that had not begun when its parent was cut short, or when the run that asked for it was withdrawn.
    One that is cancelled before it begins, with the family of a parent that has ended, has no playbook.
    """
    known = {info.execution_id: info for info in infos}
    children: dict[int, list[ExecutionInfo]] = {}
    for info in known.values():
        if info.parent_execution_id is not None:
            children.setdefault(info.parent_execution_id, []).append(info)
    wanted: dict[int, list[Asked]] = {}
    for one in asked:
        wanted.setdefault(one[0].execution_id, []).append(one)
    for parent_id, asks in wanted.items():
        parent, there = known[parent_id], children.pop(parent_id, [])
        assert len(there) <= len(asks), f"{parent.path} asked for {len(asks)} children and has {len(there)}"
        if cut_short(parent):
            continue
        gone = withdrawn(store, parent_id)
        needed = Counter(path for who, _, path in asks if who.run not in gone)
        missing = needed - Counter(info.path for info in there)
        unborn = sum(not info.path and info.status == "cancelled" for info in there)
        assert missing.total() <= unborn, (
            f"{parent.path} ({parent.status}) asked for {missing}, which do not exist"
        )
    assert not children, f"no execution asked for {children}"
    for info in known.values():
        if info.version and info.parent_execution_id is not None:
            said = decode_state(info.state).parent
            assert said is None or said.execution_id == info.parent_execution_id, info


def withdrawn(store: ExecutionStore, execution_id: int) -> set[int]:
    """Step runs that were called off."""
    return {
        fact.run
        for fact in facts_of(store, execution_id)
        if isinstance(fact, f.StepSkipped) and fact.withdrawn
    }


def facts_of(store: ExecutionStore, execution_id: int) -> Iterator[f.Fact]:
    """The facts of the main lane, in order."""
    after = 0
    while rows := store.events(execution_id, after=after, limit=500):
        after = rows[-1].seq
        for row in rows:
            yield from decode_facts(row.facts)


def cut_short(info: ExecutionInfo) -> bool:
    """Whether it ended, once, before all that it asked for had begun."""
    return info.status in ("cancelled", "failed") or decode_state(info.state).rounds > 0


@law("what-was-done-is-undone", "end")
def check_undone(store: ExecutionStore, info: ExecutionInfo) -> None:
    """A failed execution has compensated each run of its last round that succeeded and has a compensation, once, and no other run."""
    done: set[int] = set()
    undone: Counter[int] = Counter()
    for fact in facts_of(store, info.execution_id):
        if isinstance(fact, f.Redriven):
            done, undone = set(), Counter()
        elif isinstance(fact, f.StepExited) and fact.compensable:
            done.add(fact.run)
        elif isinstance(fact, (f.CallDone, f.CallFailed)) and fact.stage == "compensate":
            undone[fact.run] += 1
    assert dict(undone) == dict.fromkeys(done, 1), f"{info.path}: {sorted(done)} done, {undone} undone"


@law("last-tasks-come-last", "end")
def check_last(store: ExecutionStore, info: ExecutionInfo, program: Program) -> None:
    """The last tasks of a playbook begin once in every round, after all its other work, and the execution ends with the outcome they see."""
    last = set(program.last_steps)
    ending: f.Ending | None = None
    for fact in facts_of(store, info.execution_id):
        if isinstance(fact, f.Initialized) and not fact.program:
            return
        if isinstance(fact, f.Redriven):
            ending = None
        elif isinstance(fact, f.Ending):
            assert ending is None, f"{info.path}: {fact} after {ending}"
            assert fact.arrival.step == program.last[fact.status]
            ending = fact
        elif isinstance(fact, f.StepEntered):
            assert (fact.step in last) == (ending is not None), f"{info.path}: {fact} after {ending}"
        elif isinstance(fact, (f.Completed, f.Failed, f.Cancelled)):
            wanted = program.last.get(_STATUS[type(fact)])
            assert (ending is not None) == (wanted is not None), f"{info.path}: {fact} after {ending}"
            if ending is not None:
                assert ending.status == _STATUS[type(fact)], f"{info.path}: {fact} after {ending}"
            if ending is not None and isinstance(fact, f.Failed):
                assert fact.error == ending.error, f"{info.path}: {fact} after {ending}"


_STATUS = {f.Completed: "completed", f.Failed: "failed", f.Cancelled: "cancelled"}


@law("runs-see-their-own-result", "end")
def check_own_results(mixed: Collection[str]) -> None:
    """Arcs, cases and compensations of a run see the result and the arguments of that run."""
    assert not mixed, mixed


@law("values-arrive-as-they-left", "end")
def check_values(changed: Collection[str]) -> None:
    """Tools are given the values that the caller sent, by every route."""
    assert not changed, changed


@law("paused-families-are-still", "quiet")
def check_paused(world: World, root: int) -> None:
    """No member of a paused family runs, and none began after its own parent was paused.

    The pause travels down the family as events. A member that has not been told yet goes on: it may begin children, and may end.
    """
    infos = world.store.executions(limit=100_000)
    known = {info.execution_id: info for info in infos}
    if known[root].status != "paused":
        return
    for info in family(infos, root):
        assert info.status == "paused" or info.status in TERMINAL or not info.version, (
            f"{info.path} is {info.status} while its family is paused"
        )
        parent = known.get(info.parent_execution_id or 0)
        if info.execution_id == root or not info.version or parent is None or parent.status != "paused":
            continue
        since = _when(world.store, parent.execution_id, f.Paused)
        began = _when(world.store, info.execution_id, f.Initialized)
        assert began <= since + CLOCK_STEP, (
            f"{info.path} began {began - since} s after the pause of its parent, and is {info.status}"
        )


@law("cancelled-families-end", "quiet")
def check_cancelled(world: World, root: int) -> None:
    """Every member of a cancelled family has ended.

    A member that was redriven after its own parent had ended runs for itself.
    """
    infos = world.store.executions(limit=100_000)
    known = {info.execution_id: info for info in infos}
    if known[root].status != "cancelled":
        return
    for info in family(infos, root):
        parent = known.get(info.parent_execution_id or 0)
        ended = None if parent is None else parent.ended_at
        state = decode_state(info.state) if info.version else None
        alone = ended is not None and state is not None and state.rounds > 0 and state.started >= ended
        assert alone or info.status in TERMINAL, f"{info.path} is {info.status} while its family is cancelled"


def family(infos: Iterable[ExecutionInfo], root: int) -> list[ExecutionInfo]:
    """An execution and its descendants."""
    children: dict[int | None, list[ExecutionInfo]] = {}
    for info in infos:
        children.setdefault(info.parent_execution_id, []).append(info)
        if info.execution_id == root:
            children.setdefault(-1, []).append(info)
    found = list(children[-1])
    for info in found:
        found += children.get(info.execution_id, [])
    return found


def _when(store: ExecutionStore, execution_id: int, kind: type[f.Paused] | type[f.Initialized]) -> float:
    """When a fact of this kind was last told of (store time)."""
    found, after = 0.0, 0
    while rows := store.events(execution_id, after=after, limit=500):
        after = rows[-1].seq
        for row in rows:
            if any(isinstance(fact, kind) for fact in decode_facts(row.facts)):
                found = row.at
    return found
