"""Families of executions that are paused, go on or are cancelled: every member, also those that have not begun."""

from __future__ import annotations

import pytest

from noetl.adapters.memory import MemoryCatalog
from noetl.domain.commands import Command
from noetl.domain.errors import ConflictError
from noetl.domain.events import Cancel, Event, Pause, Redrive, Resume, Start
from noetl.domain.limits import Admission
from noetl.domain.state import TERMINAL
from noetl.ports.executions.execution_store import ChildrenWord, CreatedExecution, VersionConflictError
from noetl.runtime.programs import Programs
from noetl.services.executions.change_execution import ChangeRequest, pause, resume
from noetl.services.executions.start_execution import start_event
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.results.hydration import make_hydrate
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.testing.driver import Driver, VirtualClock
from noetl.testing.memory import NoCredentials
from tests.contract.builders import EID
from tests.parts import parted
from tests.properties.tools import PureTools

ME = "owner-1"
QUEUED, POSTED, BEGUN, HOLDER = EID + 1, EID + 2, EID + 3, EID + 4
ONE = Admission("execution:demo", 1, "queue")

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
FAMILY = (
    HEAD + "metadata: { name: parent, path: fam/parent }\nworkflow:\n"
    "  - { step: start, tool: { kind: noop }, next: [plain, many, detached] }\n"
    "  - { step: plain, tool: { kind: playbook, path: fam/child } }\n"
    "  - step: many\n    loop: { in: [1, 2, 3, 4], iterator: n, spec: { mode: parallel, max_in_flight: 3 } }\n"
    "    tool: { kind: playbook, path: fam/child }\n"
    "  - { step: detached, tool: { kind: playbook, path: fam/child, wait: false } }\n",
    HEAD + "metadata: { name: child, path: fam/child }\n"
    "executor: { spec: { concurrency: { limit: 2 } } }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/grandchild } }\n",
    HEAD + "metadata: { name: grandchild, path: fam/grandchild }\nworkflow:\n"
    "  - { step: start, tool: { kind: noop } }\n",
)
MEMBERS = 13
"""One parent, six children, a grandchild of each."""


def test_children_that_have_not_begun_are_paused_and_begin_with_their_parent(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    ours = CreatedExecution("demo", "demo", parent_execution_id=EID)
    store.admit(Start(HOLDER, "start", "prog"), CreatedExecution("demo", "demo"), ONE, ME)
    store.commit([make.change(0, HOLDER, events=(make.row("start"),), handled=("start",), limited=True)], ME)
    starts = (Start(QUEUED, "start", "prog"), Start(POSTED, "start", "prog", path="demo/posted"))
    store.commit([make.change(outbox=starts)], ME)
    assert store.admit(starts[0], ours, ONE, ME)[0].status == "queued"
    store.commit([make.change(execution_id=BEGUN, created=ours)], ME)

    words = (ChildrenWord("pause", "pause:1", 1),)
    told = store.commit([make.change(1, status="paused", words=words)], ME).events
    assert told == (Pause(BEGUN, "pause:1", "prog", word=1),)
    paused = [store.info(one) for one in (QUEUED, POSTED)]
    assert [(one.status, one.version, one.parent_execution_id) for one in paused] == [("paused", 0, EID)] * 2
    assert paused[1].path == "demo/posted"
    for change in (pause, resume):
        with pytest.raises(ConflictError, match="paused with its parent") as refused:
            change(store, POSTED, ChangeRequest("user:ada", "1", ME))
        assert refused.value.code == "execution_not_started"
    begin = make.change(execution_id=POSTED, created=ours, events=(make.row("start"),), handled=("start",))
    with pytest.raises(VersionConflictError):
        store.commit([begin], ME)
    assert store.hold(starts[1:]) == []
    end = {"status": "completed", "end": True, "limited": True}
    assert store.commit([make.change(1, HOLDER, **end)], ME).events == (), "its slot is for others"
    store.release(ME)
    store.heartbeat(ME, 60)
    assert store.undelivered(ME, 9) == [*told] and store.claim(ME, 9) == []

    released = store.commit([make.change(2, release=True)], ME).events
    assert sorted(one.execution_id for one in released) == [QUEUED, POSTED]
    assert {store.info(one).status for one in (QUEUED, POSTED)} == {"running"}
    assert store.hold(starts[1:]) == list(starts[1:]), "it is not paused any more"
    store.commit([begin], ME)
    info = store.info(POSTED)
    assert (info.version, info.name, info.path) == (1, "demo", "demo")
    assert store.commit([make.change(3, release=True)], ME).events == (), "exactly once"


def test_a_pause_that_is_taken_back_in_its_commit_holds_nothing(harness, make):
    store = harness.store
    store.heartbeat(ME, 60)
    start = Start(POSTED, "start", "prog", path="demo")
    store.commit([make.change(outbox=(start,))], ME)
    both = (ChildrenWord("pause", "pause:1", 1), ChildrenWord("resume", "resume:2", 2))
    assert store.commit([make.change(1, words=both, release=True)], ME).events == ()
    assert store.hold([start]) == [start]
    again = (ChildrenWord("resume", "resume:3", 3), ChildrenWord("pause", "pause:4", 4))
    store.commit([make.change(2, status="paused", words=again, release=True)], ME)
    assert store.hold([start]) == []


PARKED = (
    "spec: { policy: { admit: { rules: [{ else: { then: { allow: false } } }] } } }, tool: { kind: noop }"
)
LEAVING = (
    HEAD + "metadata: { name: parent, path: fam/parent }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/leaver }, next: { arcs: [{ step: many }] } }\n"
    "  - step: many\n    loop: { in: [1, 2], iterator: n, spec: { mode: parallel } }\n"
    "    tool: { kind: playbook, path: fam/leaver }\n    next: { arcs: [{ step: stay }] }\n"
    f"  - {{ step: stay, {PARKED} }}\n",
    HEAD + "metadata: { name: leaver, path: fam/leaver }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/second, wait: false } }\n",
    HEAD + "metadata: { name: second, path: fam/second }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/staying, wait: false } }\n",
    HEAD + f"metadata: {{ name: staying, path: fam/staying }}\nworkflow:\n  - {{ step: start, {PARKED} }}\n",
)
"""Members that end and leave children behind, which no step waits for, and which stay."""
STAYING = {"fam/parent", "fam/staying"}


class Family:
    """The engine over a store, in one thread; commands run as soon as they may."""

    def __init__(self, harness, texts=FAMILY, payload=None) -> None:
        self.store = harness.store
        programs = Programs(MemoryCatalog(), PureTools())
        entries = [programs.register(text, source_name="family.yaml") for text in texts]
        self.program = programs(entries[0].program)
        results = harness.results
        deps = EngineDeps(
            self.store, results, programs, programs.resolve, make_hydrate(results), owner=ME,
        )  # fmt: skip
        worker = WorkerDeps(
            programs=programs, registry=PureTools(), results=results, credentials=NoCredentials()
        )

        def run(command: Command, emit) -> None:
            run_command(command, worker, emit)

        self.driver = Driver(deps, run, VirtualClock())
        start = start_event(self.program, payload or {}, now_ms=1_800_000_000_000, random_bits=5)
        self.root = start.execution_id
        self.store.create(start, CreatedExecution(self.program.path, self.program.name), ME)
        self.driver.submit(start)

    def ticks(self, count: int) -> bool:
        """False when it came to rest before."""
        for _ in range(count):
            if self.driver.idle:
                return False
            self.driver.tick()
        return True

    def say(self, event: Event) -> None:
        self.driver.submit(event)
        self.driver.settle()

    def members(self) -> list[tuple[str, int]]:
        return [(one.status, one.version) for one in self.store.executions(limit=1000)]

    def live(self) -> dict[str, set[str]]:
        """Return the statuses of those that have not ended, by playbook."""
        found: dict[str, set[str]] = {}
        for one in self.store.executions(limit=1000):
            if one.status not in TERMINAL:
                found.setdefault(one.path, set()).add(one.status)
        return found

    def leftovers(self) -> int:
        found = self.store.executions(limit=1000)
        return sum(sum(self.store.open_work(one.execution_id).values()) for one in found)


@pytest.mark.parametrize("moment", parted([1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 30], [2, 5, 8, 15]))
@pytest.mark.parametrize("died", [False, True])
def test_no_member_of_a_paused_family_begins_and_each_goes_on_once(harness, moment, died):
    family = Family(harness)
    if not family.ticks(moment):
        pytest.skip("the family was over before")
    family.say(Pause(family.root, "pause", family.program.hash))
    before = family.members()
    assert {status for status, _ in before} <= {"paused", *TERMINAL}, before
    if died:
        family.store.release(ME)
        family.store.heartbeat(ME, 60)
    family.driver.submit(*family.store.undelivered(ME, 100))
    family.driver.ready += family.store.claim(ME, 100)
    family.driver.settle()
    assert family.members() == before
    family.say(Resume(family.root, "resume", family.program.hash))
    assert [status for status, _ in family.members()] == ["completed"] * MEMBERS
    assert family.leftovers() == 0


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5, 8, 12])
def test_cancelling_a_paused_family_ends_every_member(harness, moment):
    family = Family(harness)
    assert family.ticks(moment)
    family.say(Pause(family.root, "pause", family.program.hash))
    family.say(Cancel(family.root, "cancel", family.program.hash, cascade=True))
    assert {status for status, _ in family.members()} <= TERMINAL
    assert family.store.info(family.root).status == "cancelled"
    assert family.leftovers() == 0


def test_children_that_are_left_alone_begin_when_their_paused_parent_is_cancelled(harness):
    """No other execution could let them begin."""
    family = Family(harness)
    assert family.ticks(5)
    family.say(Pause(family.root, "pause", family.program.hash))
    unborn = sum(member == ("paused", 0) for member in family.members())
    family.say(Cancel(family.root, "cancel", family.program.hash, cascade=False))
    assert unborn and ("paused", 0) not in family.members()


WITH_A_LAST_TASK = (
    HEAD + "metadata: { name: parent, path: fam/parent }\nworkflow:\n"
    "  - { step: start, tool: { kind: playbook, path: fam/child } }\n"
    "finally: { tool: { kind: playbook, path: fam/child } }\n",
    *FAMILY[1:],
)


@pytest.mark.parametrize("cascade", [True, False])
@pytest.mark.parametrize("requests", [1, 2])
def test_a_cancel_of_the_parent_alone_leaves_its_children_also_when_last_tasks_run(
    harness, cascade, requests
):
    """The second request comes while the last task waits for a child of its own."""
    family = Family(harness, WITH_A_LAST_TASK)
    children: list[int] = []
    for number in range(1, requests + 1):
        while len(children) < number:
            assert family.ticks(1)
            rows = family.store.executions(limit=100)
            children = sorted(
                one.execution_id for one in rows if one.parent_execution_id == family.root and one.version
            )
        family.driver.submit(Cancel(family.root, f"cancel{number}", family.program.hash, cascade=cascade))
    family.driver.settle()
    assert family.store.info(family.root).status == "cancelled"
    ends = [family.store.info(child).status for child in children]
    if cascade:
        assert ends == ["cancelled"] * requests
    else:
        assert ends == ["completed"] * requests
    assert family.leftovers() == 0


def test_a_parent_hears_of_a_child_that_is_cancelled_before_it_begins(harness):
    """A person cancels a child that waits for its slot: the step or item that waits for it goes on."""
    family = Family(harness)
    queued: list[int] = []
    while not queued and family.ticks(1):
        rows = family.store.executions(limit=1000)
        queued = [one.execution_id for one in rows if not one.version and one.parent_execution_id]
    for child in queued:
        family.driver.submit(Cancel(child, f"ext:{child}", "", principal="user:ada", cascade=True))
    family.driver.settle()
    assert queued and {status for status, _ in family.members()} <= TERMINAL, family.members()
    assert family.store.info(family.root).status == "failed"
    assert family.leftovers() == 0


def test_a_start_that_comes_after_its_cancel_changes_nothing_also_when_it_could_not_begin(harness, make):
    family = Family(harness)
    family.ticks(1)
    cancel = Cancel(QUEUED, f"cancel:{family.root}:1", "")
    family.store.commit([make.change(0, HOLDER, created=CreatedExecution("d", "d"), outbox=(cancel,))], ME)
    family.driver.submit(cancel, Start(QUEUED, "start", "", path="fam/none"))
    family.driver.settle()
    assert family.store.info(QUEUED).status == "cancelled"
    assert [row.seq for row in family.store.events(QUEUED) if row.lane == 0] == [1]


@pytest.mark.parametrize("name", ["ext:again", f"cancel:{EID - 1}:1"])
def test_a_cancel_that_comes_again_after_its_family_was_removed_creates_nothing(harness, name):
    family = Family(harness)
    family.driver.submit(Cancel(QUEUED, name, ""))
    family.driver.settle()
    assert family.store.info(QUEUED) is None and family.leftovers() == 0


def test_a_redriven_child_is_cancelled_with_its_parent_again(harness):
    family = Family(harness)
    assert family.ticks(6)
    family.say(Cancel(family.root, "cancel 1", family.program.hash, cascade=True))
    rows = family.store.executions(limit=1000)
    child = next(one for one in rows if one.path == "fam/child" and one.status == "cancelled" and one.program)
    for execution_id, program in ((child.execution_id, child.program), (family.root, family.program.hash)):
        family.driver.submit(Redrive(execution_id, "redrive", program))
        family.driver.tick()
        assert family.store.info(execution_id).status == "running"
    family.say(Cancel(family.root, "cancel 2", family.program.hash, cascade=True))
    assert family.store.info(child.execution_id).status == "cancelled"
    assert {status for status, _ in family.members()} <= TERMINAL and family.leftovers() == 0


@pytest.mark.parametrize("moment", parted([3, 5, 7, 9, 12, 1000], [3, 7, 1000]))
@pytest.mark.parametrize("after", ["resumed", "cancelled", "resumed alone", "cancelled alone"])
def test_a_pause_and_what_follows_reach_those_below_a_child_that_has_ended(harness, moment, after):
    """The child may end before its parent's Pause arrives, or before its parent is paused at all."""
    family = Family(harness, LEAVING)
    family.ticks(moment)
    family.say(Pause(family.root, "pause", family.program.hash))
    assert {status for found in family.live().values() for status in found} == {"paused"}, family.live()
    if moment == 1000:
        assert family.live() == {path: {"paused"} for path in STAYING}
    cascade = "alone" not in after
    if after.startswith("resumed"):
        family.say(Resume(family.root, "resume", family.program.hash, cascade=cascade))
    else:
        family.say(Cancel(family.root, "cancel", family.program.hash, cascade=cascade))
    rows = family.store.executions(limit=1000)
    known = {one.execution_id: one for one in rows}
    if cascade:
        assert family.live() == ({path: {"running"} for path in STAYING} if after == "resumed" else {})
    for one in rows:
        above = known.get(one.parent_execution_id or 0)
        if one.status == "paused":
            assert one.version and above.status in ("running", "paused", "cancelled"), (one, above)
            assert above.execution_id == family.root or above.status == "paused", "none could resume it"


def test_a_pause_that_is_taken_back_alone_in_its_batch_holds_no_child(harness):
    """Nothing else would let the children begin: their parent is not paused any more."""
    family = Family(harness)
    assert family.ticks(5)
    words = (
        Pause(family.root, "pause", family.program.hash),
        Resume(family.root, "resume", family.program.hash, cascade=False),
    )
    family.driver.submit(*words)
    family.driver.settle()
    rows = {one.execution_id: one for one in family.store.executions(limit=1000)}
    unborn = [one for one in rows.values() if one.status == "paused" and not one.version]
    assert {rows[one.parent_execution_id].status for one in unborn} <= {"paused"}


def test_a_family_is_paused_below_a_member_that_was_paused_alone(harness):
    texts = (
        HEAD + "metadata: { name: parent, path: fam/parent }\nworkflow:\n"
        "  - { step: start, tool: { kind: playbook, path: fam/mid } }\n",
        HEAD + "metadata: { name: mid, path: fam/mid }\nworkflow:\n"
        "  - { step: start, tool: { kind: playbook, path: fam/staying } }\n",
        LEAVING[-1],
    )
    family = Family(harness, texts)
    family.ticks(1000)
    (mid,) = [one for one in family.store.executions(limit=9) if one.path == "fam/mid"]
    family.say(Pause(mid.execution_id, "alone", mid.program, cascade=False))
    family.say(Pause(family.root, "pause", family.program.hash))
    members = ("fam/parent", "fam/mid", "fam/staying")
    assert family.live() == {path: {"paused"} for path in members}
    family.say(Resume(family.root, "resume", family.program.hash))
    assert family.live() == {path: {"running"} for path in members}


@pytest.mark.parametrize("one_by_one", [True, False])
def test_words_reach_what_was_redriven_below_members_that_had_ended_with_all_they_started(
    harness, make, one_by_one
):
    store = harness.store
    store.commit([make.change()])
    child, grandchild, last = line = EID + 1, EID + 2, EID + 3
    for below in reversed(line):
        born = make.created(parent_execution_id=below - 1)
        store.commit([make.change(0, below, created=born, status="completed", end=True)])
    assert _told(harness, make, "pause:1", EID) == {}
    redrive = Redrive(last, "redrive", "prog")
    posted = store.post(redrive, ME) if one_by_one else store.post_all([redrive], ME)[last]
    assert posted.posted
    store.commit([make.change(1, last)])
    assert _told(harness, make, "pause:2", EID) == {child: "pause:2"}
    assert _told(harness, make, "pause:2", child, "completed") == {grandchild: "pause:2"}
    assert _told(harness, make, "pause:2", grandchild, "completed") == {last: "pause:2"}


def test_words_reach_below_two_members_that_ended_one_after_the_other(harness, make):
    store = harness.store
    store.commit([make.change()])
    child, grandchild, last = EID + 1, EID + 2, EID + 3
    for below in (child, grandchild):
        store.commit([make.change(0, below, created=make.created(parent_execution_id=below - 1))])
    over = {"status": "completed", "end": True}
    store.commit([make.change(1, grandchild, outbox=(make.start(last),), **over)])
    store.commit([make.change(1, child, **over)])
    assert _told(harness, make, "pause:1", EID) == {child: "pause:1"}
    store.commit(
        [make.change(0, last, created=make.created(parent_execution_id=grandchild), handled=("start",))]
    )
    assert _told(harness, make, "pause:2", EID) == {child: "pause:2"}
    store.commit([make.change(1, last, **over)])
    assert _told(harness, make, "pause:3", EID) == {}


def _told(harness, make, word, execution_id, status="running"):
    """Return whom a commit of this execution tells the word."""
    version, seq = harness.snapshot(execution_id).version, int(word[-1])
    words = (ChildrenWord("pause", word, seq),)
    events = harness.store.commit([make.change(version, execution_id, status=status, words=words)], ME).events
    return {event.execution_id: event.event_id for event in events if isinstance(event, Pause)}
