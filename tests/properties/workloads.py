"""What the simulator runs, what clients do meanwhile, and what has to come of it: that which comes of it undisturbed."""

from __future__ import annotations

import functools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.domain import codec
from noetl.domain.events import Cancel, ContextPatched, Event, Pause, Resume, Start
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.state import decode_state
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.results import ResultStore
from noetl.runtime.programs import Programs
from noetl.services.executions.start_execution import start_event
from noetl.services.queries import read_execution
from tests.properties.accounts import family
from tests.properties.happening import Happening
from tests.properties.laws import law
from tests.properties.tools import Call
from tests.properties.world import World, compile_all

EPOCH_MS = 1_800_000_000_000
PATCHES = (
    [Patch("ctx", "note", "thinking")],
    [Patch("ctx", "approver", "ada"), Patch("ctx", "approved", True)],
)


@dataclass(frozen=True)
class Workload:
    """``exact``: whatever happens, it comes to the same end. Otherwise ``ends`` are the statuses it may have."""

    path: str
    payload: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    ends: frozenset[str] = frozenset({"completed"})
    patched: bool = False
    cancelled: bool = False
    waits: bool = False


FIXED = tuple(
    [
        Workload(f"properties/{name}")
        for name in (
            "chain",
            "joins",
            "parallel_loop",
            "sequential_loop",
            "best_effort",
            "pipeline",
            "pages",
            "children",
            "large",
            "patterns",
            "locks",
            "partial",
            "limited",
            "alone",
            "callbacks",
            "concurrent",
            "polls",
            "leaving",
        )
    ]
    + [
        Workload("properties/fail_fast", exact=False),
        Workload("properties/break_loop", exact=False),
        Workload("properties/failing_child", exact=False, ends=frozenset({"failed"})),
        Workload("properties/failure", exact=False, ends=frozenset({"failed"})),
        Workload("properties/timeouts", exact=False),
        Workload("properties/withdrawn", exact=False),
        Workload("properties/impatient", exact=False),
        Workload("properties/newest", exact=False),
        Workload("properties/undo", exact=False, ends=frozenset({"failed"})),
        Workload("properties/undo", exact=False, cancelled=True, ends=frozenset({"cancelled", "failed"})),
        Workload("properties/last", exact=False, ends=frozenset({"completed", "failed"})),
        Workload("properties/last", {"bad": True}, exact=False, ends=frozenset({"failed"})),
        Workload(
            "properties/last",
            exact=False,
            cancelled=True,
            ends=frozenset({"completed", "cancelled", "failed"}),
        ),
        Workload("properties/admission", patched=True),
        Workload("properties/parked", exact=False, ends=frozenset({"running"}), waits=True),
        Workload(
            "properties/cancelled", exact=False, cancelled=True, ends=frozenset({"cancelled", "completed"})
        ),
    ]
)


@dataclass(frozen=True)
class Seen:
    """What came of one execution and its children. ``keys``: how many idempotency keys each distinct call was made with; ``calls``: how many
    its budget has counted."""

    status: str
    error: tuple[Any, ...] | None
    result: Any
    ctx: Any
    vars: Any
    family: Counter[tuple[str, str]]
    keys: dict[tuple[Any, ...], int]
    calls: int = 0


def happenings(
    workload: Workload, world: World, number: int, rng: random.Random, spread: int = 40
) -> list[Happening]:
    """The start of execution ``number``, within the first ``spread`` moves, and what clients do to it."""
    program = world.program(workload.path)
    start = start_event(program, workload.payload, now_ms=EPOCH_MS + number, random_bits=number * 7919 + 1)
    after = rng.randint(0, spread)
    found = [Happening(start, after)]
    if workload.patched:
        for place, patches in enumerate(PATCHES):
            event = ContextPatched(
                start.execution_id, f"ext:{place}", program.hash, patches, principal="user:ada"
            )
            found.append(Happening(event, after + rng.randint(0, 200)))
    if rng.random() < 0.3:
        pause = after + rng.randint(0, 300)
        for place, kind in enumerate((Pause, Resume)):
            event = kind(start.execution_id, f"ext:{kind.__name__}", program.hash, principal="user:ada")
            found.append(Happening(event, pause + place * rng.randint(1, 200)))
    if workload.cancelled:
        event = Cancel(start.execution_id, "ext:stop", program.hash, reason="enough", principal="user:ada")
        found.append(Happening(event, after + rng.choice((0, 20, 100, 300, 800))))
    return found


def root_of(happening: Sequence[Happening]) -> Start:
    event: Event = happening[0].event
    assert isinstance(event, Start)
    return event


@functools.cache
def fixed_programs() -> Programs:
    return compile_all()


def undisturbed(programs: Programs, workload: Workload) -> Seen:
    """One process, nothing goes wrong, everything in order."""
    world = World(programs)
    process = world.spawn()
    asked = happenings(replace(workload, cancelled=False), world, 1, random.Random(0))
    driver = process.driver
    for happening in asked:
        driver.submit(happening.event)
        driver.settle()
    while driver.advance() or world.outside.open:
        driver.submit(*world.outside.answer_all(process.owner))
        driver.settle()
    return observe(world.store, world.results, world.tools.calls, root_of(asked).execution_id)


@functools.cache
def expected(workload_path: str) -> Seen:
    """Of a fixed workload."""
    workload = next(found for found in FIXED if found.path == workload_path)
    return undisturbed(fixed_programs(), workload)


def observe(store: ExecutionStore, results: ResultStore, calls: Iterable[Call], root: int) -> Seen:
    info = read_execution.find(store, root)
    state = decode_state(info.state)
    members = family(store.executions(limit=100_000), root)
    paths = {member.execution_id: member.path for member in members}
    slots = store.slots(root)

    def scope(wanted: str) -> Any:
        return read_execution.resolve(
            {name: value for (where, name), value in slots.items() if where == wanted}, results
        )

    keys: defaultdict[tuple[Any, ...], set[tuple[int, str]]] = defaultdict(set)
    for call in calls:
        if call.execution_id in paths:
            keys[(paths[call.execution_id], *call.asked)].add((call.execution_id, call.key))
    error = state.error
    return Seen(
        status=info.status,
        error=None if error is None else (error.message, error.kind, error.code),
        result=read_execution.result(store, results, root) if info.status == "completed" else None,
        ctx=scope("ctx"),
        vars=scope("vars"),
        family=Counter((member.path, member.status) for member in members),
        keys={call: len(found) for call, found in keys.items()},
        calls=state.calls,
    )


@law("disturbances-change-no-result", "end")
def compare(workload: Workload, wanted: Seen, seen: Seen) -> None:
    """An execution reaches the same status, result, context, children, idempotency keys and counted calls as an undisturbed run."""
    if not workload.exact:
        assert seen.status in workload.ends, f"{workload.path}: {seen.status} {seen.error}"
        if seen.status == wanted.status:
            assert seen.error == wanted.error, f"{workload.path}: {seen.error} instead of {wanted.error}"
            assert same(seen.result, wanted.result), f"{workload.path}: {seen.result}, not {wanted.result}"
        return
    assert (seen.status, seen.error) == (wanted.status, wanted.error), workload.path
    assert same(seen.result, wanted.result), f"{workload.path}: {seen.result} instead of {wanted.result}"
    assert same(seen.ctx, wanted.ctx), f"{workload.path}: ctx {seen.ctx} instead of {wanted.ctx}"
    assert same(seen.vars, wanted.vars), workload.path
    assert seen.family == wanted.family, workload.path
    assert seen.keys == wanted.keys, difference(seen.keys, wanted.keys)
    assert seen.calls == wanted.calls, f"{workload.path}: {seen.calls} calls counted, not {wanted.calls}"


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: ``1``, ``1.0`` and ``true`` differ."""
    return plain(left) == plain(right)


def plain(value: Any) -> bytes:
    return codec.encode(ordered(value))


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(one) for one in value] if isinstance(value, list) else value


def difference(seen: dict[Any, int], wanted: dict[Any, int]) -> str:
    lines = [
        f"{call}: {seen.get(call, 0)} idempotency keys instead of {wanted.get(call, 0)}"
        for call in {**seen, **wanted}
        if seen.get(call) != wanted.get(call)
    ]
    return "\n".join(lines)


@law("keys-stand-for-one-call", "end")
def check_keys(calls: Iterable[Call]) -> None:
    """An idempotency key names one call: every attempt sends the same request under it."""
    asked: dict[tuple[int, str], Any] = {}
    for call in calls:
        known = asked.setdefault((call.execution_id, call.key), call.asked)
        assert known == call.asked, f"{call.key} was used for {known} and for {call.asked}"
