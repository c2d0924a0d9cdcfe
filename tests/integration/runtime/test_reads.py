"""How many rows an execution reads, counted by the database: as many in a database of many executions as in a new one.

Plans are made once for a session, often over empty tables. A plan that looks at a whole table is right there and is used ever after.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from tests.parts import repeated
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
EACH, MORE = repeated(gate=3, full=12), repeated(gate=200, full=500)
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {0}, path: reads/{0} }}\n"
PLAIN = """workflow:
  - { step: start, tool: { kind: noop, args: { a: 1 } }, next: { arcs: [{ step: b }] } }
  - { step: b, tool: { kind: noop } }
"""
CHILD = "kind: playbook, path: reads/plain"
PLAYBOOKS = {
    "plain": PLAIN,
    "child": f"workflow: [{{ step: start, tool: {{ {CHILD} }} }}]\n",
    "detached": f"workflow: [{{ step: start, tool: {{ {CHILD}, wait: false }} }}]\n",
    "loop": "workflow: [{ step: start, loop: { in: [1, 2, 3], iterator: i }, tool: { kind: noop } }]\n",
    "children": f"workflow: [{{ step: start, loop: {{ in: [1, 2, 3], iterator: i, mode: parallel }}, tool: {{ {CHILD} }} }}]\n",
    "failed": "workflow: [{ step: start, tool: { kind: noop, args: { a: '{{ 1 / 0 }}' } } }]\n",
    "waiting": "workflow: [{ step: start, tool: { kind: wait, seconds: 0 } }]\n",
    "limited": f"executor: {{ spec: {{ concurrency: {{ key: k, limit: 2 }} }} }}\n{PLAIN}",
}


@pytest.fixture
def runtime(tmp_path) -> Iterator[LocalRuntime]:
    tmp_path.chmod(0o755)
    with LocalRuntime(Settings.from_env({}, home=tmp_path)) as found:
        yield found


def rows_read(runtime: LocalRuntime) -> int:
    """Rows that statements have read so far. A session tells them when it ends."""
    with psycopg.connect(runtime.opened.dsn, autocommit=True) as connection:

        def sessions() -> int:
            # Those that threads opened after the last look, too. One that is still at work would be counted with the next playbook.
            runtime.store.database.close()
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'noetl' AND datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

        wait_until(lambda: not sessions(), "the sessions of the engine have ended")
        row = connection.execute(
            "SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE schemaname = 'noetl')"
            " + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'noetl')"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_an_execution_reads_does_not_grow_with_their_number(runtime: LocalRuntime) -> None:
    entries = {
        name: runtime.register(HEAD.format(name) + text, source_name=name) for name, text in PLAYBOOKS.items()
    }

    def played(name: str, count: int, together: int = 1) -> None:
        for _ in range(0, count, together):
            started = runtime.start_many(entries[name], [{}] * together)
            runtime.run_until(started, timeout=120)

    def measured() -> dict[str, float]:
        found = {}
        for name in entries:
            before = rows_read(runtime)
            played(name, EACH)
            found[name] = (rows_read(runtime) - before) / EACH
        return found

    for name in entries:
        played(name, 2)
    first = measured()
    played("plain", MORE, MORE)
    before = rows_read(runtime)
    assert [runtime.store.executions(limit=20, status=status) for status in ("running", "paused")] == [[], []]
    assert rows_read(runtime) - before < 100, "a list of those that have not ended passes by those that have"

    def grown() -> dict[str, tuple[float, float]]:
        return {
            name: (first[name], count) for name, count in measured().items() if count > 2 * first[name] + 100
        }

    # What the engine looks at now and then may fall into one measurement, and not into the same one twice.
    once = grown()
    again = grown() if once else {}
    assert not once.keys() & again.keys(), (once, again)
