"""The page on migrating: what is refused gives the errors that are shown; what came before and what comes after do the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.formatting.format import canonical_text
from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from noetl.migration.rules import RULES
from tests.conformance.cases import Case, Observed, play

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
PLAYBOOK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
REFUSED = re.compile(
    r"^```yaml\n((?:(?!^```)[^\n]*\n)*?)^```\n\n```text\n(.*?)^```", re.DOTALL | re.MULTILINE
)
CHANGED = re.compile(
    r"^```yaml\n((?:(?!^```)[^\n]*\n)*?)^```\n\n`noetl fmt --canonical` rewrites it to:\n\n```yaml\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)

REFUSALS = [found.groups() for found in REFUSED.finditer(PAGE)]
MIGRATED = re.compile(
    r"^```yaml\n((?:(?!^```)[^\n]*\n)*?)^```\n\n```text\n.*?^```\n\n`noetl migrate` rewrites it to:\n\n```yaml\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)
CHANGES = [found.groups() for found in CHANGED.finditer(PAGE)]
REPLIES: dict[str, list[Any]] = {
    "pull_items": [
        {"status": 503},
        {"body": {"rows": [1, 2], "next": 2}},
        {"body": {"rows": [3], "next": None}},
    ],
    "charge": [{"status": 500}, {"body": {"id": "r-1"}}],
}


def test_the_page_has_what_it_should() -> None:
    assert (len(REFUSALS), len(CHANGES)) == (1, 2)


@pytest.mark.parametrize(("text", "errors"), REFUSALS)
def test_what_is_refused_gives_the_errors_that_are_shown(text: str, errors: str) -> None:
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, source_name="old.yaml", kinds=default_registry())

    told = [problem.format("old.yaml") for problem in refused.value.diagnostics]
    assert told == errors.splitlines()


def test_what_migration_makes_is_what_is_shown() -> None:
    ((before, after),) = MIGRATED.findall(PAGE)
    made = migrate_text(before, source_name="old.yaml", kinds=default_registry(), canonical=True)
    assert (made.text, made.runs) == (after, True)


def test_the_page_names_every_rule() -> None:
    table = PAGE.partition("## What is rewritten")[2].partition("## What is refused")[0]
    named = re.findall(r"\| ((?:`[a-z-]+`(?:, )?)+) \|$", table, re.MULTILINE)
    assert {rule for cell in named for rule in re.findall(r"`([a-z-]+)`", cell)} == {
        rule.name for rule in RULES
    }


@pytest.mark.parametrize("text", [text for text in PLAYBOOK.findall(PAGE) if text not in dict(REFUSALS)])
def test_what_runs_compiles_without_a_warning(text: str) -> None:
    assert compile_playbook(text, source_name="page.yaml", kinds=default_registry()).diagnostics == ()


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_what_the_formatter_makes_is_what_is_shown(before: str, after: str) -> None:
    made = canonical_text(before, source_name="page.yaml", kinds=default_registry())

    assert (made.text, made.kept) == (after, ())


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_before_and_after_do_the_same(
    before: str, after: str, memory_backend, worker, tmp_path: Path
) -> None:
    def run(text: str, name: str) -> Observed:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "playbook.yaml").write_text(text)
        name = re.search(r"name: (\w+)", text).group(1)  # type: ignore[union-attr]
        tools = {"start": REPLIES[name], "page": REPLIES[name], "charge": REPLIES[name]}
        return play(Case(name, folder, {"expect": {}, "tools": tools}), memory_backend, worker)

    one, other = run(before, "before"), run(after, "after")

    assert (one.status, one.error) == ("completed", None)
    assert (other.status, other.result, other.ctx) == (one.status, one.result, one.ctx)
    assert sum(map(len, one.tools.calls.values())) == sum(map(len, other.tools.calls.values()))
