"""The statements of the specification: each names cases and tests that exist, and a difference names its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.parts import over

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "specification").glob("*.md"))


class Statement(NamedTuple):
    page: str
    line: int
    says: str
    here: str
    held_by: tuple[str, ...]


def statements() -> Iterator[Statement]:
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            if not line.startswith("|") or line.startswith(("|---", "| statement |")):
                continue
            says, here, held_by = (cell.strip() for cell in line.strip("|").split(" | "))
            yield Statement(page.name, number, says, here, tuple(re.findall("`([^`]+)`", held_by)))


def exists(name: str) -> bool:
    feature, _, case = name.partition("/")
    if feature == "refused":
        return (ROOT / "playbooks" / "invalid" / f"{case}.yaml").is_file()
    return (ROOT / "playbooks" / "conformance" / name).is_dir() or (ROOT / "tests" / f"{name}.py").is_file()


def test_the_pages_are_read_whole() -> None:
    assert len(PAGES) == 5 and len(list(statements())) > 200


@over("page", PAGES, ids=lambda page: page.stem)
def test_each_statement_names_what_holds_it(page: Path) -> None:
    rows = [row for row in statements() if row.page == page.name]
    missing = [(row.line, name) for row in rows for name in row.held_by if not exists(name)]
    assert not missing
    assert not [row for row in rows if not row.held_by], "a statement that nothing holds"


def test_a_statement_holds_as_written_or_differs_for_a_reason() -> None:
    for row in statements():
        reason = row.here.removeprefix("differs: ")
        assert row.here.startswith("as written") or (row.here != reason and len(reason) > 20), row


def test_no_statement_is_listed_twice_on_a_page() -> None:
    said = [(row.page, row.says) for row in statements()]
    assert len(set(said)) == len(said)
