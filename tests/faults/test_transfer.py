"""A transfer whose worker is killed between and inside of its chunks: `noetl run`, then `noetl resume`, with the example that is shipped."""

from __future__ import annotations

import json
import subprocess

import psycopg
import pytest

from tests.faults.ground import ROOT, Ground
from tests.faults.test_command_line import noetl
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.postgres, pytest.mark.slow]
EXAMPLE = ROOT / "playbooks" / "examples" / "order_archive" / "order_archive.yaml"
ORDERS = 12_000


def moved(ground: Ground) -> int:
    """Rows that are committed so far; 0 before there is anything."""
    with psycopg.connect(ground.server.dsn("workspace"), autocommit=True) as connection:
        found = connection.execute("SELECT to_regclass('noetl_transfer') IS NOT NULL").fetchone()
        rows = (
            connection.execute("SELECT max(rows_read) FROM noetl_transfer").fetchone()
            if found and found[0]
            else None
        )
        return rows[0] or 0 if rows else 0


def killed_after(ground: Ground, process: subprocess.Popen[str], rows: int) -> None:
    """The process dies when so many rows are there."""

    def enough() -> bool:
        assert process.poll() is None, process.communicate()
        return moved(ground) >= rows

    wait_until(enough, f"{rows} rows")
    process.kill()
    process.wait(timeout=PATIENCE)
    ground.explain()


@pytest.mark.full
def test_every_order_is_archived_once_though_its_worker_is_killed_twice(ground: Ground) -> None:
    run = noetl(ground, "run", str(EXAMPLE), "--set", f"orders={ORDERS}", "--set", "chunk_rows=20")
    assert run.stdout is not None
    execution_id = str(json.loads(run.stdout.readline())["execution_id"])
    killed_after(ground, run, 200)
    run.communicate(timeout=PATIENCE)
    first = moved(ground)
    again = noetl(ground, "resume", execution_id)
    killed_after(ground, again, first + 200)
    again.communicate(timeout=PATIENCE)
    second = moved(ground)
    assert 200 <= first < second < ORDERS

    out, told = noetl(ground, "resume", execution_id).communicate(timeout=PATIENCE)
    last = json.loads(out.splitlines()[-1])
    assert (last["status"], last["error"]) == ("completed", None), told
    assert last["result"]["orders"] == ORDERS
    with psycopg.connect(ground.server.dsn("workspace")) as connection:
        compared = (
            "SELECT count(*) FROM shop_archive a JOIN shop_orders o"
            " ON (o.id, o.customer, o.total, o.placed_at) = (a.order_id, a.customer, a.total, a.placed_at)"
        )
        assert connection.execute(compared).fetchone() == (ORDERS,)
        assert connection.execute("SELECT count(*) FROM shop_archive").fetchone() == (ORDERS,)
        assert connection.execute("SELECT rows_read, rows_written, done FROM noetl_transfer").fetchall() == [
            (ORDERS, ORDERS, True)
        ]
