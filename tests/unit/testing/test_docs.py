"""The pages about testing: every file on them is written, every command run, and the output is the one that is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("testing.md", "testing-in-a-build.md")
"""In reading order: the second page uses files of the first."""
TEXTS = {page: (DOCS / page).read_text() for page in PAGES}
BLOCK = re.compile(r"^```(?P<kind>yaml|console)\n(?P<text>.*?)^```\n", re.DOTALL | re.MULTILINE)
TIMES = re.compile(r"\(\d+ ms|in \d+\.\d\d s")


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    text: str


BLOCKS = [
    Block(page, text[: found.start()].count("\n") + 1, found["kind"], found["text"])
    for page, text in TEXTS.items()
    for found in BLOCK.finditer(text)
]
COMMANDS = [number for number, block in enumerate(BLOCKS) if block.kind == "console"]
TESTS = [
    number
    for number, block in enumerate(BLOCKS)
    if block.kind == "yaml" and block.text.split("\n")[0].endswith(".test.yaml")
]
SHOWN = {number - 1 for number in COMMANDS}


def _write(folder: Path, until: int) -> str:
    """Write the files of the pages up to a block; return the name of the last one."""
    name = ""
    for block in BLOCKS[: until + 1]:
        if block.kind == "yaml":
            name = block.text.split("\n")[0].removeprefix("# ")
            (folder / name).write_text(block.text)
    return name


def _label(number: int) -> str:
    return f"{BLOCKS[number].page}-{BLOCKS[number].line}"


@pytest.mark.parametrize("number", COMMANDS, ids=_label)
def test_the_output_is_the_one_that_is_shown(number: int, noetl, tmp_path: Path) -> None:
    _write(tmp_path, number)
    command, _, output = BLOCKS[number].text.partition("\n")

    ran = noetl(*command.removeprefix("$ noetl ").split())

    assert TIMES.sub("#", ran.out) == TIMES.sub("#", output)
    failed = 2 if "cannot be run" in output else 1 if "FAIL" in output or "wanted" in output else 0
    assert ran.code == failed


@pytest.mark.parametrize("number", [one for one in TESTS if one not in SHOWN], ids=_label)
def test_every_other_test_file_passes(number: int, noetl, tmp_path: Path) -> None:
    ran = noetl("test", _write(tmp_path, number), "--shuffle", "3")

    assert (ran.code, ran.err) == (0, ""), ran.out


def test_the_pages_show_enough() -> None:
    assert len(COMMANDS) >= 6
    assert len(TESTS) >= 10


def test_the_pages_name_every_key() -> None:
    from noetl.testing.document import Case, Expectation, TestDocument

    text = "".join(TEXTS.values())
    keys = {*Case.known_keys(), *Expectation.known_keys(), *TestDocument.known_keys()}
    assert not [key for key in keys if f"`{key}`" not in text]
