"""No test is lost between `make test`, `make test-full` and the table of CONTRIBUTING.md."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from source import ROOT

from tests import parts, soak
from tests.parts import over, parted, sampled
from tests.scopes import COLLECTED, rank

SECTION = (
    (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## What runs where\n", 1)[1].split("\n## ", 1)[0]
)
NAMED = set(re.findall(r"^\| `(tests/[\w/.:*]+)` \|", SECTION, re.MULTILINE))
"""Functions, files that bound repetitions, and with ``::*`` the functions of a file."""


def test_the_table_names_every_test_of_which_make_test_plays_a_part(request: pytest.FixtureRequest) -> None:
    """Functions that are collected now, which in `make test` are all of them."""
    collected = request.config.stash[COLLECTED]
    parts = {function for function, left in collected.items() if left}
    missing = {one for one in parts - NAMED if f"{one.partition('::')[0]}::*" not in NAMED}
    assert not missing, "add a row for each of these to CONTRIBUTING.md"
    files = {function.partition("::")[0] for function in parts}
    whole = {function for function in NAMED & collected.keys() if function not in parts}
    whole |= {
        name
        for name in NAMED
        if name.endswith("::*")
        and any(one.startswith(name[:-1]) for one in collected)
        and name.partition("::")[0] not in files
    }
    assert not whole, "make test plays all of these: take their rows away"


def test_the_table_names_every_file_that_bounds_its_repetitions() -> None:
    bounding = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if re.search(r"repeated\(gate=\d", file.read_text("utf-8"))
    }
    assert bounding == {name for name in NAMED if "::" not in name}


def test_what_the_table_names_exists() -> None:
    for name in NAMED:
        file, _, function = name.partition("::")
        assert (
            f"def {function}(" in (ROOT / file).read_text("utf-8")
            if function not in ("", "*")
            else (ROOT / file).exists()
        ), name


def test_make_test_leaves_out_what_make_test_full_plays() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert 'PART ?= -m "not full"\n' in makefile
    assert re.search(r"^test:.*\n(\t.*\n)*\t.*\$\(PART\) tests", makefile, re.MULTILINE)
    assert re.search(r"^test-full:.*\n\t@NOETL_TESTS=full \$\(MAKE\) .* test PART=$", makefile, re.MULTILINE)
    assert "\tNOETL_TESTS=$${NOETL_TESTS:-gate} $(BIN)/python -m pytest" in makefile
    assert '-m "not full"' not in makefile.replace('PART ?= -m "not full"', "")


def test_a_process_of_many_begins_with_what_takes_longest(request: pytest.FixtureRequest) -> None:
    ranks = [rank(item.nodeid) for item in request.session.items]
    assert not request.config.getoption("loadgroup", False) or ranks == sorted(ranks)


def test_a_sample_has_a_case_of_each_feature_and_does_not_depend_on_the_order() -> None:
    names = [f"{feature}/{number}" for number in range(9) for feature in ("arcs", "joins", "loops")]
    sample = sampled(names, of_each=2)
    assert sample == sampled(reversed(names), of_each=2)
    assert sorted(name.partition("/")[0] for name in sample) == [
        "arcs",
        "arcs",
        "joins",
        "joins",
        "loops",
        "loops",
    ]


@pytest.mark.parametrize(("gate", "made"), [(True, [0, 1, 5]), (False, [0, 1, 2, 3, 4, 5])])
def test_of_rows_that_are_left_out_make_test_makes_one(
    gate: bool, made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GATE", gate)
    rows = parted(range(6), [0, 5])
    assert [row.values[0] for row in rows] == made
    assert [bool(row.marks) for row in rows] == [number not in (0, 5) for number in made]


def test_a_test_that_goes_over_rows_tells_of_each_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    four = [(1, "a"), (2, "b"), (3, "c"), pytest.param(4, "d", id="E")]

    @over("number, word", four, ids=["A", "B", "C", "D"], seen=list)
    def rows(number: int, word: str, seen: list[int], monkeypatch: pytest.MonkeyPatch, given: str) -> None:
        assert not seen and "NOETL_ROW" not in os.environ
        seen.append(number)
        monkeypatch.setenv("NOETL_ROW", word)
        played.append((number, word, given))
        if number == 4:
            pytest.fail("four")
        assert number % 2, f"{word} is even"

    assert list(inspect.signature(rows).parameters) == ["monkeypatch", "given"]
    with pytest.raises(pytest.fail.Exception, match="2 of 4 rows fail") as failed:
        rows(monkeypatch=monkeypatch, given="x")
    assert [line for line in str(failed.value).splitlines() if line.startswith("---")] == ["--- B", "--- E"]
    assert "b is even" in str(failed.value) and "Failed: four" in str(failed.value)
    assert played == [(1, "a", "x"), (2, "b", "x"), (3, "c", "x"), (4, "d", "x")]
    with pytest.raises(ValueError, match="a test needs a row"):
        over("number", [])
    with pytest.raises(TypeError, match="nothing would run it"):
        over("number", [1])(_yields)
    with pytest.raises(ValueError, match="no marks of its own"):
        over("number", parted([1, 2], [1]))


def _yields(number: int) -> Iterator[int]:
    yield number


def test_no_row_is_skipped_and_none_hides_another() -> None:
    @over("end", [pytest.skip, pytest.fail, pytest.xfail, sys.exit, str], ids=iter("abcde"))
    def rows(end: Callable[[str], Any]) -> None:
        end("because")

    with pytest.raises(pytest.fail.Exception, match="4 of 5 rows fail") as failed:
        rows()
    assert re.findall("^--- (.)", str(failed.value), re.MULTILINE) == ["a", "b", "c", "d"]


def report(name: str, when: str, outcome: str, **happened: int) -> SimpleNamespace:
    properties = [(soak.PART, "kills"), *((soak.HAPPENED + what, count) for what, count in happened.items())]
    verdicts = {word: outcome == word for word in ("passed", "failed", "skipped")}
    return SimpleNamespace(nodeid=name, when=when, user_properties=properties, **verdicts)


def test_each_part_of_a_soak_tells_its_rounds_failures_and_what_happened() -> None:
    tally = soak.Tally()
    for number in range(1, 4):
        tally.take(report(str(number), "setup", "passed"))
        tally.take(report(str(number), "call", "failed" if number == 2 else "passed"))
        tally.take(
            report(str(number), "teardown", "failed" if number > 1 else "passed", deaths=1000 * number)
        )
    tally.take(report("left out", "setup", "skipped"))
    tally.take(
        SimpleNamespace(user_properties=[], when="call", skipped=False, failed=True, nodeid="of no part")
    )
    assert list(tally.lines()) == ["soak of kills: rounds 3, failed 2, deaths 6,000"]
    assert soak.is_asked({"NOETL_SOAK_SEEDS": "1"}) and not soak.is_asked({"NOETL_SOAK_REQUESTS": "1"})


def test_every_test_that_a_soak_multiplies_belongs_to_a_part() -> None:
    multiplied = re.compile(
        r'^@pytest\.mark\.parametrize\([("\w, )]*(?:share\(|parted\(range\(FIRST|range\(.*ROUNDS|range\(.*STOPS|range\(OUTAGES|outages\.NUMBERS)'
    )
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        lines = file.read_text("utf-8").splitlines()
        for before, line in pairwise(lines):
            assert not multiplied.match(line) or before.startswith("@pytest.mark.soak("), (
                f"{file.name}: {line}"
            )
