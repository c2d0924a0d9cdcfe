"""No test is lost between `make test`, `make test-full` and the table of CONTRIBUTING.md."""

import re

import pytest
from source import ROOT

from tests.parts import sampled
from tests.scopes import COLLECTED

SECTION = (
    (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## What runs where\n", 1)[1].split("\n## ", 1)[0]
)
NAMED = set(re.findall(r"^\| `(tests/[\w/.:]+)` \|", SECTION, re.MULTILINE))


def test_the_table_names_every_test_of_which_make_test_plays_a_part(request: pytest.FixtureRequest) -> None:
    """Functions that are collected now, which in `make test` are all of them."""
    collected = request.config.stash[COLLECTED]
    parts = {function for function, left in collected.items() if left}
    assert parts <= NAMED, "add a row for each of these to CONTRIBUTING.md"
    whole = {function for function in NAMED & collected.keys() if function not in parts}
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
            f"def {function}(" in (ROOT / file).read_text("utf-8") if function else (ROOT / file).exists()
        ), name


def test_make_test_leaves_out_what_make_test_full_plays() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert 'PART ?= -m "not full"\n' in makefile
    assert re.search(r"^test:.*\n(\t.*\n)*\t.*\$\(PART\) tests", makefile, re.MULTILINE)
    assert re.search(r"^test-full:.*\n\t@NOETL_TESTS=full \$\(MAKE\) .* test PART=$", makefile, re.MULTILINE)
    assert '-m "not full"' not in makefile.replace('PART ?= -m "not full"', "")


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
