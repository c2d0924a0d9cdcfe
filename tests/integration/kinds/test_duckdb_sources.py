"""Tables of a duckdb task: how long bringing them here may take."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.duckdb.params import Source
from noetl.kinds.duckdb.sources import tables_of


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
