"""Every example says what it is, compiles without an error, and is run by a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.services.catalog.register_playbook import playbooks_below
from tests.integration.examples.conftest import EXAMPLES

FOLDERS = sorted(folder for folder in EXAMPLES.iterdir() if (folder / "README.md").exists())


def test_there_are_examples() -> None:
    assert len(FOLDERS) >= 15


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_example_is_complete(folder: Path) -> None:
    main = folder / f"{folder.name}.yaml"
    readme = (folder / "README.md").read_text()
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))

    assert f"noetl run {main.relative_to(EXAMPLES.parents[1])}" in readme
    assert f'local.run("{folder.name}"' in tests
    for playbook in playbooks_below(folder):
        compiled = compile_playbook(playbook.read_text(), source_name=playbook.name, kinds=default_registry())
        assert compiled.program.path == f"examples/{playbook.relative_to(EXAMPLES).with_suffix('')}".replace(
            f"{folder.name}/{folder.name}", folder.name
        )
        assert compiled.program.description


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_line_of_commands_has_one_command(folder: Path) -> None:
    """Wrapping commands as prose merges them: what follows the first ``#`` is then no longer run."""
    lines = [line for line in (folder / "README.md").read_text().splitlines() if line.startswith("    ")]
    merged = re.compile(r" # .*(?:noetl \w+ .*--|make example|noetl run )")
    assert [line for line in lines if merged.search(line)] == []
    assert [line for line in lines if line.startswith("    --")] == []


def test_the_page_of_examples_names_each() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "examples.md").read_text()
    named = re.findall(
        r"^\|.*\| \[(\w+)\]\(\.\./playbooks/examples/(\w+)/README\.md\) \|(.*)\|$", page, re.MULTILINE
    )
    assert sorted(folder for _, folder, _ in named) == [folder.name for folder in FOLDERS]
    serving = {folder for name, folder, note in named if name == folder and note.strip() == "API"}
    assert serving == {folder.name for folder in FOLDERS if (folder / "service.py").exists()}
