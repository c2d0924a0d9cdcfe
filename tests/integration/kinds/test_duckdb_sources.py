"""What a duckdb task is given from other places: tables, and databases in folders."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.duckdb.params import Source
from noetl.kinds.duckdb.sources import tables_of
from noetl.kinds.registry import default_registry

_WRITTEN = """
import duckdb, os, sys
duckdb.connect(sys.argv[1]).execute("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)").close()
open_one = duckdb.connect(sys.argv[1])
open_one.execute("INSERT INTO t VALUES (4)")
os._exit(0)
"""
"""A database whose last row is in the log beside it."""
_HELD = """
import duckdb, sys
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_copy_of_a_file_ends_with_the_time_of_its_task(make_context, tmp_path: Path) -> None:
    """Of a file in a folder that tasks may write to: how large it is, is theirs to say."""
    given, copies = tmp_path / "given", tmp_path / "copies"
    for folder in (given, copies):
        folder.mkdir()
    (given / "rows.csv").write_text("n\n1\n")
    settings = {"task_folders": (str(given),), "data_dirs": (str(given),)}
    source = {"rows": Source(file="rows.csv")}
    with ExitStack() as stack:
        (table,) = tables_of(source, make_context(timeout=60.0, **settings), copies, stack)
        assert table.files == (str(copies / "source-0.csv"),)
        with pytest.raises(TaskError, match="'rows' was not read within") as late:
            tables_of(source, make_context(timeout=-1.0, **settings), copies, stack)
    assert (late.value.kind, late.value.code) == ("timeout", "timeout")


@pytest.fixture
def given(make_context, tmp_path: Path):
    """A folder that tasks may read, with a database, and a call that reads one."""
    folder, work, outside = (tmp_path / name for name in ("given", "work", "outside"))
    for one in (folder, work, outside):
        one.mkdir()
    subprocess.run([sys.executable, "-c", _WRITTEN, str(folder / "state.duckdb")], check=True)
    context = make_context(data_dirs=(str(folder),), work_dir=str(work))

    def call(database: Path | str, query: str = "SELECT sum(n) AS n FROM state.t"):
        params = {"database": str(database), "query": query}
        return default_registry().run("duckdb", params, context).result["rows"]

    return folder, outside, call


def test_a_database_in_a_folder_that_tasks_write_to_is_not_opened(given, make_context) -> None:
    """A task can make a file of which DuckDB crashes, and with it the worker."""
    folder, _, _ = given
    data = {"data_dirs": (str(folder.parent),)}
    for context in (
        make_context(**data, task_folders=(str(folder),)),
        make_context(**data, work_dir=str(folder)),  # COPY writes there
    ):
        with pytest.raises(TaskError, match="tasks may write to") as refused:
            params = {"database": str(folder / "state.duckdb"), "query": "SELECT 1"}
            default_registry().run("duckdb", params, context)
        assert (refused.value.kind, refused.value.code) == ("storage_access", "path_outside")
        assert "beside the playbook" in (refused.value.hint or "")


def test_a_database_in_a_folder_of_the_operator_is_read_as_a_copy(given) -> None:
    folder, _, call = given
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"state.duckdb", "state.duckdb.wal"}
    assert call(folder / "state.duckdb") == call("./state.duckdb") == [{"n": 7}]
    for change in ("INSERT INTO t VALUES (8)", "CREATE TABLE u (n int)", "DROP TABLE t"):
        with pytest.raises(TaskError, match="read-only") as refused:
            call(folder / "state.duckdb", change)
        assert (refused.value.kind, refused.value.code) == ("storage_access", "write_refused")
        assert refused.value.hint is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_database_elsewhere_is_not_opened(given, tmp_path: Path) -> None:
    folder, outside, call = given
    with duckdb.connect(str(outside / "own.duckdb")) as own:
        own.execute("CREATE TABLE t (n int)")
    (folder / "link.duckdb").symlink_to(outside / "own.duckdb")
    (folder / "way").symlink_to(outside)
    for name in ("link.duckdb", "way/own.duckdb", "../outside/own.duckdb"):
        with pytest.raises(TaskError) as refused:
            call(folder / name)
        assert refused.value.code == "path_outside", name
        assert "NOETL_DATA_DIRS" in (refused.value.hint or "")
    (folder / "no.duckdb").write_text("no database")
    with pytest.raises(TaskError) as refused:
        call(folder / "no.duckdb")
    assert refused.value.code == "database_invalid"
    view = folder / "view.duckdb"
    with duckdb.connect(str(view)) as made:
        made.execute(
            f"CREATE TABLE t (n int); CREATE VIEW v AS SELECT * FROM read_blob('{outside / 'own.duckdb'}')"
        )
    with pytest.raises(TaskError) as refused:
        call(view, "SELECT * FROM v")
    assert refused.value.code == "access_refused", "a view is no way to another file"


def test_a_database_that_is_being_changed_is_tried_again(given) -> None:
    folder, _, call = given
    command = [sys.executable, "-c", _HELD, str(folder / "state.duckdb")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        with pytest.raises(TaskError) as refused:
            call(folder / "state.duckdb")
        assert (refused.value.code, refused.value.retryable) == ("database_locked", True)
        assert other.stdin is not None
        other.stdin.close()
    assert call(folder / "state.duckdb") == [{"n": 7}]
