"""What a call of the item lane costs grows with its items, not with their square. Measured in processor time of the database."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.executions.retention import PostgresRetention
from noetl.adapters.postgres.queries import query
from noetl.adapters.postgres.session_settings import SETTINGS
from noetl.domain import codec, ids
from noetl.domain.commands import LoopSlice
from noetl.domain.errors import NotFoundError
from noetl.domain.outcomes.outcomes import Outcome, Suspend
from noetl.domain.state import ExecutionState, Token
from noetl.ports.executions.answers import ExecutionFilter
from noetl.services.queries.analyze import AnalyzeDeps, analyze
from noetl.services.queries.read_execution import describe
from tests.parts import parted

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.skipif(
        not Path("/proc/self/schedstat").exists(), reason="needs the scheduler's counts in /proc"
    ),
]

EID = ids.execution_id(ids.EPOCH_MS + 86_400_000, 7)
CHILDREN = EID + 1_000_000_000
ME = "me"
EXECUTIONS = 8
BATCHES = 32
"""Of each execution."""
TIMES = 8
COPIES = (
    "INSERT INTO noetl.execution SELECT (jsonb_populate_record(e, jsonb_build_object("
    "'execution_id', e.execution_id + n))).* FROM noetl.execution e, generate_series(1, %s) AS n WHERE e.execution_id = %s"
)
"""So many rows like an execution's."""


def processor_seconds(pid: int) -> float:
    """Tell how long a process has run, to the nanosecond: the ticks of ``/proc/PID/stat`` are as long as a whole measure may be."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.fixture
def database(databases) -> Iterator[str]:
    """One that is dropped: what is counted here depends on the blocks and on the statistics of tables."""
    with databases.new() as dsn:
        yield dsn


@pytest.fixture
def backend(store, admin) -> int:
    """The process that serves the store's one session."""
    store.heartbeat(ME, 600)
    row = admin.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'noetl'"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def cost(store, make, backend):
    """What it costs to report chunks whose items all begin a sub-execution and wait for it, so many in each."""
    places = itertools.count()

    def measure(items: int) -> float:
        first = EID + 1000 * next(places)
        total = BATCHES * (items + 1)
        loops = (make.loop(total, total, first=BATCHES),)
        changes = [make.change(0, first + place, loops=loops) for place in range(EXECUTIONS)]
        begun = [make.items(one, one.loop.start, chunk=items) for one in store.commit(changes, ME).commands]
        chunks = store.commit_items(begun, ME)[1].commands
        assert len(chunks) == EXECUTIONS * BATCHES and chunks[0].loop.stop - chunks[0].loop.start == items
        reports = [waiting(make, chunk) for chunk in chunks]
        before = processor_seconds(backend)
        answers, committed = store.commit_items(reports, ME)
        taken = processor_seconds(backend) - before
        assert not any(answer.superseded for answer in answers)
        assert len(committed.events) == EXECUTIONS * BATCHES * items
        return taken

    return measure


def waiting(make, chunk):
    """A report of ``chunk``: each of its items waits for a sub-execution."""
    indexes = range(chunk.loop.start, chunk.loop.stop)
    outcome = Outcome("suspended", suspend=Suspend({"pc": 1}))
    batch = make.items(chunk, *indexes, outcomes=dict.fromkeys(indexes, outcome))
    return msgspec.structs.replace(
        batch,
        rows=tuple(
            make.row(ids.item_turn_event(1, 0, index, 0), seq=index, lane=1, facts=b"{}") for index in indexes
        ),
        waiting=tuple(
            make.command(
                ids.item_command_id(1, 0, index),
                chunk.execution_id,
                turn=1,
                loop=LoopSlice(0, index, index + 1, 0, "", "parallel"),
            )
            for index in indexes
        ),
        outbox=tuple(make.start(CHILDREN + (chunk.execution_id - EID) * 10_000 + index) for index in indexes),
    )


def test_many_items_that_begin_sub_executions_cost_each_what_a_few_do(cost):
    cost(4)
    few, many = min(cost(4), cost(4)), cost(4 * TIMES)
    assert many < 2 * TIMES * few, f"{TIMES} times the items took {many / few:.1f} times as long"


def test_items_cost_the_same_however_many_of_their_loop_are_done(store, make, backend):
    """Each is looked up in history by its key: a plan that reads what the loop has there already costs more with every item."""
    total, size = 6001, 1000
    loops = (make.loop(total, total, first=1),)
    begun = [
        make.items(one, 0, chunk=total - 1) for one in store.commit([make.change(loops=loops)], ME).commands
    ]
    (chunk,) = store.commit_items(begun, ME)[1].commands
    taken = []
    for first in range(1, total, size):
        before = processor_seconds(backend)
        store.commit_items([make.items(chunk, *range(first, first + size), closed=False)], ME)
        taken.append(processor_seconds(backend) - before)
    assert taken[-1] < 2.5 * min(taken[1:3]), taken


@pytest.fixture
def batch_blocks(store, make, admin):
    """How many blocks the database reads to choose a batch of members that go, in a tree of so many children.

    As a session of the engine, which plans once: a plan for each call reads a few blocks more, as statistics have it.
    """
    for name, value in SETTINGS.items():
        admin.execute(f"SET {name} = '{value}'")

    def measure(children: int) -> int:
        root = EID + 10_000_000 * children
        store.commit([make.change(0, root, created=make.created(), status="completed", end=True)])
        admin.execute(
            "INSERT INTO noetl.execution SELECT (jsonb_populate_record(e, jsonb_build_object("
            "'execution_id', e.execution_id + n, 'parent_execution_id', e.execution_id))).*"
            " FROM noetl.execution e, generate_series(1, %s) AS n WHERE e.execution_id = %s",
            (children, root),
        )
        admin.execute("ANALYZE noetl.execution")
        asked = f"SELECT * FROM noetl.leaves_first(ARRAY[{root}]::bigint[], 50)"
        assert len(admin.execute(asked.encode()).fetchall()) == 50
        return min(blocks(asked) for _ in range(6))

    def blocks(asked: str) -> int:
        # Tests beside this one make databases, after which a session reads the catalogs again: the least of several measures has none of
        # that. Each is rolled back, so that the next one finds as much to do.
        admin.execute("BEGIN")
        row = admin.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + asked.encode()).fetchone()
        admin.execute("ROLLBACK")
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    return measure


def test_a_batch_that_is_removed_costs_the_same_in_a_tree_of_any_size(batch_blocks):
    """Statistics that know a few large families favour the primary key, by which each member would read all executions behind it."""
    small, large = batch_blocks(500), batch_blocks(8000)
    assert max(small, large) < 2 * min(small, large), (small, large)
    assert large < 50 * 4, "each member costs a descent of one index"


@pytest.fixture
def word_blocks(store, make, admin):
    """How many blocks the database reads to tell a family a word, beside children of it that have ended and live ones of another parent."""
    for name, value in SETTINGS.items():
        admin.execute(f"SET {name} = '{value}'")

    def measure(word: str, ended: int, foreign: int) -> int:
        parent = EID + 10_000_000 * (ended + foreign) + len(word)
        other, child, stranger = parent + 1, parent + 1_000_000, parent + 2_000_000
        store.commit([make.change(0, one) for one in (parent, other)])
        over = {"status": "completed", "end": True}
        store.commit([make.change(0, child, created=make.created(parent_execution_id=parent), **over)])
        store.commit([make.change(0, stranger, created=make.created(parent_execution_id=other))])
        admin.execute(COPIES, (ended, child))
        admin.execute(COPIES, (foreign, stranger))
        admin.execute("ANALYZE noetl.execution")
        asked = f"SELECT * FROM noetl.cancel_children('me', '{word.replace('PARENT', str(parent))}')"
        # Plans that a function makes read the catalog. How much of it a session has cached depends on others of the server, which make and drop
        # databases: the least of three is what the statement itself reads.
        return min(blocks(asked) for _ in range(3))

    def blocks(asked: str) -> int:
        admin.execute("DISCARD PLANS")
        with admin.transaction(force_rollback=True):
            row = admin.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + asked.encode()).fetchone()
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    return measure


PAUSE = '[{"execution": PARENT, "what": "pause", "id": "pause:1", "seq": 1}]'
RESUME = (
    '[{"execution": PARENT, "what": "resume", "id": "resume:2", "seq": 2},'
    ' {"execution": PARENT, "what": "release", "begin": true}]'
)
CANCEL = '[{"execution": PARENT, "run": null, "id": "cancel:1", "reason": "null"}]'


WORDS = [PAUSE, RESUME, CANCEL]


@pytest.mark.parametrize("word", parted(WORDS, [CANCEL], ids=["pause", "resume", "cancel"]))
def test_a_word_to_a_family_reads_no_more_beside_many_that_have_ended(word_blocks, word):
    few, many, foreign = word_blocks(word, 10, 0), word_blocks(word, 3000, 0), word_blocks(word, 10, 3000)
    assert max(many, foreign) < few + 200, (few, many, foreign)


@pytest.mark.parametrize("asked", ["tree_is_old({}, now())", "tree_over_at({})"], ids=["old", "over"])
def test_what_retention_asks_of_a_tree_costs_each_member_the_same(store, make, admin, asked):
    def cost(children: int) -> float:
        root = EID + 10_000_000 * children
        over = {"status": "completed", "end": True}
        store.commit([make.change(0, root, **over)])
        store.commit([make.change(0, root + 1, created=make.created(parent_execution_id=root), **over)])
        admin.execute(COPIES, (children, root + 1))
        admin.execute("ANALYZE noetl.execution")
        taken = []
        for _ in range(5):
            before = processor_seconds(admin.info.backend_pid)
            admin.execute(f"SELECT noetl.{asked.format(root)}".encode())
            taken.append(processor_seconds(admin.info.backend_pid) - before)
        return min(taken) / children

    for name, value in SETTINGS.items():
        admin.execute(f"SET {name} = '{value}'")
    few, many = cost(500), cost(4000)
    assert many < 3 * few, f"each of {TIMES} times the members cost {many / few:.1f} times as much"


ENDS = (
    "INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, at, facts)"
    " SELECT %s, 'item:1:0:' || i, 1, i, 'call.done', now() + make_interval(secs => i), '{}' FROM generate_series(0, %s - 1) AS i"
)
"""Items of a loop that have ended."""


def test_the_bands_of_a_loop_cost_each_item_the_same(store, admin, backend):
    """The planner expects few items, and would add all of them up again for each of them."""

    def cost(items: int) -> float:
        loop = EID + 10_000_000 * items
        admin.execute(ENDS, (loop, items))
        taken = []
        for _ in range(3):
            before = processor_seconds(backend)
            found = store.item_bands(loop, 1, 60)
            taken.append(processor_seconds(backend) - before)
            assert sum(band.done for band in found.bands) == items and len(found.bands) == 60
        return min(taken)

    few, many = cost(1000), cost(1000 * TIMES)
    assert many < 2 * TIMES * few, f"{TIMES} times the items took {many / few:.1f} times as long"


FORGOTTEN = b"""
    SELECT pg_clear_attribute_stats(schemaname::text, tablename::text, attname::text, inherited) FROM pg_stats WHERE schemaname = 'noetl';
    SELECT pg_clear_relation_stats('noetl', relname::text) FROM pg_class
    WHERE relnamespace = 'noetl'::regnamespace AND relkind IN ('r', 'p', 'i', 'I')
"""
"""Takes the planner's knowledge of the tables away again."""


def test_a_claim_costs_the_same_before_the_planner_knows_the_tables(store, make, admin, backend):
    """Without statistics the planner expects many children of each execution, and many trees that each is held by: room for those
    that it expected took hundreds of times as long as the claim."""
    store.commit([make.change(0, EID, status="completed", end=True)], ME)
    admin.execute(COPIES, (20_000, EID))
    retention = PostgresRetention(store.database)

    def cost() -> float:
        before = processor_seconds(backend)
        assert len(retention.claim(4e9, 20)) == 20
        return processor_seconds(backend) - before

    def least_cost() -> float:
        # A call plans its statements again after each ANALYZE or VACUUM that any process runs, autovacuum included, and after tests
        # beside this one have made a database: that overflows the server's queue of invalidations. Planning costs up to fifty times the
        # claim, so many calls are measured, and all of them again where every one was planned.
        return min(cost() for _ in range(60))

    def times_as_much() -> float:
        admin.execute(FORGOTTEN)
        unknown = least_cost()
        admin.execute("ANALYZE")
        return unknown / least_cost()

    found: list[float] = []
    while len(found) < 10 and (not found or found[-1] >= 20):
        found.append(times_as_much())
    assert found[-1] < 20, found


@pytest.fixture
def looked(store, make, monkeypatch):
    """How many rows a look at an execution reads from the database, while so many items of its loop wait for callbacks."""

    def measure(look, items: int) -> int:
        execution = EID + 10_000_000 * items
        places = [f"1.r1.i{index}" for index in range(items)]
        token = Token(1, "ask", "loop", round=1, awaits=items, callbacks=items)
        told = [
            make.row(
                f"await:{place}:0", seq=seq, type="callback.awaited", facts=AWAITED % (place.encode(), seq)
            )
            for seq, place in enumerate(places, 2)
        ]
        begun = make.row("start", seq=1, facts=BEGUN % items)
        change = make.change(
            0,
            execution,
            state=codec.encode(ExecutionState(program="prog", seq=items + 1, tokens={1: token})),
            events=(begun, *told),
            slots={
                ("callback", place): {
                    "serial": 0,
                    "command": place,
                    "turn": 1,
                    "step": "ask",
                    "task": "t",
                    "since": 1,
                }
                for place in places
            },
            waiting=tuple(make.command(place, execution, turn=1) for place in places[:50]),
        )
        store.commit([change], ME)
        read = []
        # Of this store alone: a thread that another test left behind may still ask its own database, which is none of these rows.
        run = store.database.run
        with monkeypatch.context() as patch:
            patch.setattr(store.database, "run", lambda *call: (rows := run(*call), read.extend(rows))[0])
            look(store, execution)
        return len(read)

    return measure


BEGUN = (
    b'[{"name":"step.enter","run":1,"step":"ask"},'
    b'{"name":"loop.started","run":1,"step":"ask","round":1,"total":%d,"mode":"parallel"}]'
)
AWAITED = b'[{"name":"callback.awaited","run":1,"step":"ask","task":"t","place":"%s","serial":0,"since":1,"index":%d}]'


def no_programs(digest):
    raise NotFoundError(f"there is no program {digest}")


def status(store, execution):
    view = describe(store, no_programs, execution, now=0.0)
    assert view.steps[0].loop is not None
    assert len(view.awaiting) == 100 and view.awaiting_left_out == view.steps[0].loop.total - 100


def analysis(store, execution):
    deps = AnalyzeDeps(store, PostgresInspection(store.database), no_programs, lambda: 0.0)
    assert "waits_for_callback" in {one.kind for one in analyze(execution, deps).findings}


@pytest.mark.parametrize("look", [status, analysis])
def test_a_look_at_a_loop_reads_as_many_rows_whatever_its_items_wait_for(looked, look):
    few, many = looked(look, 200), looked(look, 2000)
    assert many == few < 400


def test_counts_of_outstanding_work_read_no_commands_of_other_executions(store, make, admin):
    """The plan is made while there are few commands, and stays."""
    for name, value in SETTINGS.items():
        admin.execute(f"SET {name} = '{value}'")

    def blocks() -> int:
        (found,) = admin.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked ({EID})".encode()
        ).fetchone()
        return int(found[0]["Plan"]["Shared Hit Blocks"] + found[0]["Plan"]["Shared Read Blocks"])

    store.commit([make.change()], ME)
    admin.execute("VACUUM ANALYZE noetl.command, noetl.timer, noetl.outbox")
    admin.execute(b"PREPARE asked AS " + query("open_work").text)
    alone = max(blocks(), blocks())
    other = EID + 1
    store.commit(
        [make.change(0, other, issue=tuple(make.command(str(n), other) for n in range(2, 3002)))], ME
    )
    assert blocks() < alone + 10


FAMILY = 8000


@pytest.fixture
def listed_blocks(store, make, admin, monkeypatch):
    """How many blocks the database reads for a page of executions, among three families of as many children.

    ``plans``: the plan of each page that was measured.
    """
    for name, value in SETTINGS.items():
        admin.execute(f"SET {name} = '{value}'")
    parents = [EID + number * 10_000_000 for number in range(3)]
    for parent in parents:
        store.commit([make.change(0, parent)])
        store.commit([make.change(0, parent + 1, created=make.created(parent_execution_id=parent))])
        admin.execute(COPIES, (FAMILY - 1, parent + 1))
    admin.execute("ANALYZE noetl.execution")

    def measure(wanted: ExecutionFilter, count: int) -> int:
        asked: list[tuple[str, dict]] = []
        run = store.database.run
        with monkeypatch.context() as patch:
            patch.setattr(store.database, "run", lambda *call: (asked.append(call), run(*call))[1])
            assert len(store.executions(limit=50, wanted=wanted)) == count
        ((name, values),) = asked
        statement = query(name)
        admin.execute("DEALLOCATE ALL")
        admin.execute(b"PREPARE asked AS " + statement.text)
        given = ", ".join(
            "NULL" if value is None else f"'{value.decode()}'" for value in statement.bind(values)
        )
        row = admin.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked ({given})").fetchone()
        plan = row[0][0]["Plan"]
        measure.plans.append(plan)
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    measure.plans = []
    return measure


def test_a_page_of_executions_is_looked_up_by_what_narrows_it(listed_blocks):
    """One plan serves every call: a filter that may be missing would be held against every execution."""
    first, last = EID, EID + 20_000_000
    ids = (first + 7, last + 7, EID + 10_000_007)
    cost = {
        "of the family that began first": listed_blocks(ExecutionFilter(parent=first), 50),
        "of the one that began last": listed_blocks(ExecutionFilter(parent=last), 50),
        "of a parent without any": listed_blocks(ExecutionFilter(parent=first + 5), 0),
        "by their ids": listed_blocks(ExecutionFilter(ids=ids), 3),
        "any": listed_blocks(ExecutionFilter(), 50),
    }
    assert max(cost.values()) < 50 * 4, (cost, listed_blocks.plans)
