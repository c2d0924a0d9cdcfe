"""The language reference: every playbook on the page compiles, and gives the result that is shown below it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from tests.conformance.cases import Case, play

PAGE = Path(__file__).parents[2] / "docs" / "dsl.md"
BLOCK = re.compile(
    r"^```yaml\n(?P<text>.*?)^```\n(?:\n```json\n(?P<result>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


class Snippet(NamedTuple):
    line: int
    text: str
    result: Any


def snippets() -> list[Snippet]:
    page = PAGE.read_text()
    return [
        Snippet(page.count("\n", 0, found.start()) + 2, found["text"], json.loads(found["result"] or "null"))
        for found in BLOCK.finditer(page)
    ]


SNIPPETS = snippets()


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: f"line-{snippet.line}")
def test_snippet_compiles_without_a_warning(snippet: Snippet) -> None:
    compiled = compile_playbook(snippet.text, source_name=f"dsl.md+{snippet.line}", kinds=default_registry())

    assert list(compiled.diagnostics) == []


SHOWN = [snippet for snippet in SNIPPETS if snippet.result is not None]


@pytest.mark.parametrize("snippet", SHOWN, ids=lambda snippet: f"line-{snippet.line}")
def test_snippet_gives_its_result(snippet: Snippet, memory_backend, worker, tmp_path: Path) -> None:
    (tmp_path / "playbook.yaml").write_text(snippet.text)

    seen = play(Case(f"dsl.md+{snippet.line}", tmp_path, {"expect": {}}), memory_backend, worker)

    assert (seen.status, seen.error) == ("completed", None)
    assert seen.result == snippet.result


def test_the_page_shows_enough() -> None:
    assert len(SNIPPETS) >= 18
    assert len(SHOWN) >= 12
