"""The tables of speed are made from the history, and from nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench.speed import page
from tests.bench.speed.figures import Book, Figure

ABOUT = {
    "commit": "0123456789ab",
    "changed": False,
    "date": "2026-11-22T20:00:00+00:00",
    "cores": 2,
    "cpu": "A Processor",
    "system": "Linux 6",
    "python": "3.11.7",
    "postgres": "Postgres 18",
    "load": 0.1,
    "quiet": True,
}
PAGE = "before\n<!-- speed:tables -->\nold\n<!-- /speed:tables -->\nafter\n<!-- speed:brief -->\n<!-- /speed:brief -->\n"


def run(ours: float = 1.0, **about: Any) -> page.Record:
    """A run in which a commit takes half a millisecond."""
    book = Book({**ABOUT, **about})
    book.note("postgres", "ceiling", "none", "commit", "ms", [0.5])
    book.note("noetl", "chain", "python", "per step", "ms", [ours, 0.9 * ours, 1.2 * ours], size=100)
    book.note("noetl", "chain", "python-own", "per step", "ms", [0.25], size=100)
    book.note("noetl", "chain", "http", "per step", "ms", [2.0], size=100)
    book.note("dbos", "chain", "python", "per step", "ms", [2.5], size=100, way="plain functions")
    book.note("restate", "chain", "python", "per step", "ms", [0.5], size=100, way="ctx.run")
    book.note("noetl", "door", "python", "rate", "executions/s", [300.0], clients=16, size=500)
    book.note("restate", "door", "python", "rate", "executions/s", [240.0], clients=16, size=500)
    return book.record()


def rows(made: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in made.splitlines() if "|" in line
    ]


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.name)
def test_the_pages_show_what_the_history_holds(path):
    text = path.read_text("utf-8")
    assert page.render(text, page.load()) == text, "run `make speed-page`"


def test_python_comes_first_beside_its_peers_and_one_commit():
    chain, door = (
        row
        for row in rows(page.tables(run()))
        if row[0].startswith(("a chain", "three steps")) and len(row) > 4
    )
    assert chain[1:3] == ["1 ms (0.9–1.2)", "2"], "two commits of half a millisecond"
    assert chain[3].startswith("0.25 ms")
    assert (chain[5], chain[7]) == ("2.5 ×, 10 ×", "0.5 ×, 2 ×"), (
        "beside each peer, also with a process for each execution"
    )
    assert (door[0], door[7]) == ("three steps over HTTP: start, and wait for the end, 16 clients", "1.25 ×")
    assert (door[3], door[4], door[5]) == ("–", "–", "–"), (
        "neither a process for each execution nor DBOS has a figure"
    )


def test_the_profile_of_a_workload_adds_up_what_each_kind_needs():
    record = run()
    book = Book(ABOUT)
    for group, kind, value in (("engine", "python", 1.25), ("tasks", "python", 0.5), ("engine", "http", 2.0)):
        book.note("noetl", "many", kind, f"cpu {group}", "ms", [value], size=100)
    made = page.tables({**record, "figures": [*record["figures"], *book.record()["figures"]]})
    table = rows(made.partition("many at once goes, in milliseconds")[2])
    assert [row[1:] for row in table[2:] if set(row[1:]) != {"–"}] == [
        ["1.25", "–", "2"],
        ["0.5", "–", "–"],
        ["**1.75**", "–", "**2**"],
    ]
    assert "item of a parallel loop goes" not in made, "it was not measured"


def test_the_newest_quiet_run_is_shown_and_a_busy_one_says_so():
    shown = page.render(PAGE, [run(3.0), run(7.0), run(9.0, quiet=False, load=8.0)])
    assert shown.startswith("before\n") and "after" in shown and "old" not in shown
    assert "7 ms (" in shown and "3 ms (" not in shown and "9 ms (" not in shown
    assert page.render(shown, [run(7.0)]) == shown, "made again, it is the same"
    assert "not quiet" in page.render(PAGE, [run(quiet=False, load=8.0)])


def test_without_a_recorded_run_a_page_stays_as_it_is():
    assert page.render(PAGE, []) == PAGE


def test_the_history_keeps_every_run(tmp_path):
    kept = tmp_path / "speed.json"
    kept.write_text("[\n]\n")
    for ours in (1.0, 2.0):
        page.append(run(ours), kept)
    assert page.load(kept) == [run(1.0), run(2.0)]
    assert [line.count('"system": "dbos"') for line in kept.read_text().splitlines()].count(1) == 2


def test_a_workload_that_fails_is_told_and_hides_no_other():
    told: list[Figure] = []
    book = Book(ABOUT, told.append)
    book.guarded("broken", lambda: [][1])
    book.guarded("chain", lambda: book.note("noetl", "chain", "python", "per step", "ms", [3.0, 1.0, 2.0]))
    assert book.failed == {"broken": "IndexError: list index out of range"}
    assert [(one.min, one.median, one.max) for one in told] == [(1.0, 2.0, 3.0)]


def test_a_measured_zero_is_a_figure():
    book = Book(ABOUT)
    book.note("noetl", "parallel", "python", "peak memory", "MB", [0.0, 0.0, 4.0])
    (figure,) = book.record()["figures"]
    assert (figure["min"], figure["median"], figure["max"]) == (0, 0, 4)
    assert not {"clients", "size", "way"} & set(figure)
