"""The language's pages: every playbook compiles and gives the result that is shown below it; every key is told."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.expressions import FUNCTIONS
from noetl.dsl.model import Document
from noetl.dsl.template_rules import FILTERS, GLOBAL_FUNCTIONS, TESTS
from noetl.kinds.registry import default_registry
from tests.conformance.cases import Case, play
from tests.parts import over

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "dsl.md", *sorted((DOCS / "dsl").glob("*.md")), DOCS / "scopes.md"]
BLOCK = re.compile(
    r"^```yaml\n(?P<text>.*?)^```\n(?:\n```json\n(?P<result>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
MOST_LINES = 500


class Snippet(NamedTuple):
    page: str
    line: int
    text: str
    result: Any

    @property
    def place(self) -> str:
        return f"{self.page}+{self.line}"


def snippets() -> Iterator[Snippet]:
    for file in PAGES:
        page = file.read_text()
        for found in BLOCK.finditer(page):
            line = page.count("\n", 0, found.start()) + 2
            result = json.loads(found["result"] or "null")
            yield Snippet(file.relative_to(DOCS).as_posix(), line, found["text"], result)


SNIPPETS = list(snippets())


@over("snippet", SNIPPETS, ids=lambda snippet: snippet.place)
def test_snippet_compiles_without_a_warning(snippet: Snippet) -> None:
    compiled = compile_playbook(snippet.text, source_name=snippet.place, kinds=default_registry())

    assert list(compiled.diagnostics) == []


@over(
    "snippet",
    [one for one in SNIPPETS if not one.page.endswith("events.md") and "    case:" not in one.text],
    ids=lambda snippet: snippet.place,
)
def test_snippet_is_written_in_one_vocabulary(snippet: Snippet) -> None:
    """Only the page of the event form, and a snippet with ``case`` beside a canonical one, use other words."""
    compile_playbook(snippet.text, source_name=snippet.place, kinds=default_registry(), strict=True)


SHOWN = [snippet for snippet in SNIPPETS if snippet.result is not None]


@pytest.mark.parametrize("snippet", SHOWN, ids=lambda snippet: snippet.place)
def test_snippet_gives_its_result(snippet: Snippet, memory_backend, worker, tmp_path: Path) -> None:
    (tmp_path / "playbook.yaml").write_text(snippet.text)

    seen = play(Case(snippet.place, tmp_path, {"expect": {}}), memory_backend, worker)

    assert (seen.status, seen.error) == ("completed", None)
    assert seen.result == snippet.result


def test_the_agent_calls_the_tools_that_the_model_names(memory_backend, worker, tmp_path: Path) -> None:
    (snippet,) = [one for one in SNIPPETS if "name: tool_agent" in one.text]
    (tmp_path / "playbook.yaml").write_text(snippet.text)
    calls = [
        {"id": "c1", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}},
        {"id": "c2", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}},
    ]
    messages = [{"role": "assistant", "tool_calls": calls}, {"role": "assistant", "content": "5, and cold"}]
    usage = {"total_tokens": 100}
    replies = [{"body": {"choices": [{"message": message}], "usage": usage}} for message in messages]

    case = Case(snippet.place, tmp_path, {"expect": {}, "tools": {"ask": replies}})
    seen = play(case, memory_backend, worker)

    assert (seen.status, seen.error, seen.result) == ("completed", None, {"answer": "5, and cold"})
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "tool", "tool_call_id": "c2", "content": '{"city":"Oslo","celsius":4}'},
    ]
    first = {"role": "user", "content": "What is 2 and 3?"}
    assert seen.ctx["ask_messages"] == [first, messages[0], *results, messages[1]]
    assert seen.ctx["cost"] == pytest.approx(0.002)


def test_the_pages_show_enough() -> None:
    assert len(SNIPPETS) >= 30
    assert len(SHOWN) >= 20
    assert {page.relative_to(DOCS).as_posix() for page in PAGES} - {one.page for one in SNIPPETS} <= {
        "dsl/keys.md",
        "dsl/task-keys.md",
    }


@over("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_not_too_long(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= MOST_LINES


def test_the_front_page_leads_to_every_page() -> None:
    front = (DOCS / "dsl.md").read_text()
    assert [page.name for page in PAGES[1:] if f"({page.relative_to(DOCS).as_posix()})" not in front] == []


# --- keys -------------------------------------------------------------------------------------------

TABLE = re.compile(r"^<!-- keys: (?P<models>[\w ]+) -->\n\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
ONLY_TO_REFUSE = {"UnknownTriggerBlock"}


def models() -> dict[str, type[BaseModel]]:
    """Every model a document is made of, by name."""
    found: dict[str, type[BaseModel]] = {}

    def look(annotation: Any) -> None:
        model = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
        if model is not None and model.__name__ not in found:
            found[model.__name__] = model
            for field in model.model_fields.values():
                look(field.annotation)
        for part in typing.get_args(annotation):
            look(part)

    look(Document)
    return found


MODELS = models()
TOLD = {
    table["models"]: set(
        re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| ([^|]+) \|", table["rows"], re.M)[1:]))
    )
    for page in ("keys.md", "task-keys.md")
    for table in TABLE.finditer((DOCS / "dsl" / page).read_text())
}
"""Names of models that one table describes → the keys in its first column."""


def test_every_block_has_a_table() -> None:
    told = [name for names in TOLD for name in names.split()]
    assert len(told) == len(set(told))
    assert set(told) == MODELS.keys() - ONLY_TO_REFUSE


@over("names", sorted(TOLD))
def test_a_table_has_exactly_the_keys_of_its_block(names: str) -> None:
    fields = [MODELS[name].model_fields.items() for name in names.split()]
    assert TOLD[names] == {field.alias or key for block in fields for key, field in block}


# --- templates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "known"),
    [("filters", FILTERS), ("tests", TESTS), ("functions", GLOBAL_FUNCTIONS | FUNCTIONS)],
)
def test_what_templates_may_use_is_listed(what: str, known: frozenset[str]) -> None:
    page = (DOCS / "dsl" / "values.md").read_text()
    (rows,) = re.findall(rf"^<!-- {what} -->\n\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert set(re.findall(r"`([^`]+)`", rows.replace("after `is`", ""))) == known


def test_every_error_code_on_the_page_is_one_of_the_code() -> None:
    page = (DOCS / "dsl" / "failures.md").read_text()
    table = page.split("| code | meaning |\n|---|---|\n", 1)[1].split("\n\n", 1)[0]
    codes = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]+) \|", table, re.M))))
    source = "".join(
        file.read_text() for file in (DOCS.parent / "layers" / "core" / "python" / "noetl").rglob("*.py")
    )
    assert len(codes) > 20
    assert [code for code in sorted(codes) if f'"{code}"' not in source] == []
