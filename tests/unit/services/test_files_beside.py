"""Files beside a playbook are shipped exactly as they are, from its folder alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.domain.text.version_text import split_version
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.formatting.format import canonical_text
from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from noetl.services.catalog.files_beside import text_with_files, with_files
from tests.parts import over

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: beside }
modules:
  - rates.py
workflow:
  - step: start
    tool: { kind: noop }
"""


def problem(text: str) -> str:
    with pytest.raises(InvalidPlaybookError) as refused:
        compile_playbook(text, source_name="p.yaml", kinds=default_registry())
    return str(refused.value)


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="'\\\0\r")


@given(st.text(CHARACTERS, max_size=40), st.sampled_from(["", "\n", "\n\n"]))
def test_a_file_arrives_with_every_character(text: str, end: str) -> None:
    code = f"X = '''{text}'''{end}"
    shipped = with_files(PLAYBOOK, lambda path: code.encode())
    program = compile_playbook(shipped, kinds=default_registry()).program
    assert program.modules == {"rates.py": code}
    assert split_version(shipped)[0] == PLAYBOOK


def test_a_changed_file_is_another_program(tmp_path):
    def compiled(text):
        (tmp_path / "rates.py").write_text(text)
        shipped = text_with_files(PLAYBOOK, tmp_path / "p.yaml")
        return compile_playbook(shipped, kinds=default_registry()).program

    assert compiled("RATE = 1\n").hash == compiled("RATE = 1\n").hash != compiled("RATE = 2\n").hash


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    (tmp_path / "secret.py").write_text("KEY = 1\n")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "rates.py").symlink_to(tmp_path / "secret.py")
    shipped = text_with_files(PLAYBOOK, folder / "p.yaml")
    assert "KEY" not in shipped
    found = problem(shipped)
    assert found.startswith("p.yaml:5:5: module-missing: rates.py cannot be read: it is a link")


@over(
    ("entry", "code"),
    [
        ("/etc/rates.py", "module-path"),
        ("lib/../rates.py", "module-path"),
        ("my-rates.py", "module-path"),
        ("class.py", "module-path"),
        ("rates.txt", "module-path"),
        ("__init__.py", "module-path"),
        ("noetl/rates.py", "module-name"),
        ("json/rates.py", "module-name"),
        ("rates.py\n  - rates/__init__.py", "module-name"),
    ],
)
def test_a_path_that_cannot_be_imported_is_refused_at_its_place(entry, code):
    shipped = with_files(PLAYBOOK.replace("rates.py", entry), lambda path: b"")
    line = 6 if "\n" in entry else 5
    assert f"p.yaml:{line}:5: {code}: " in problem(shipped)


def test_a_problem_of_a_module_has_its_own_line():
    shipped = with_files(PLAYBOOK, lambda path: b"RATE = 1\nif RATE\n")
    assert "p.yaml:5:5: module-code: rates.py:2:8 is not Python: expected ':'" in problem(shipped)


def test_rewriting_a_version_keeps_its_files():
    older = PLAYBOOK.replace("tool: { kind: noop }", "tool: { kind: noop, args: { a: 1 } }")
    shipped = with_files(older, lambda path: b"RATE = 1\n")
    kinds = default_registry()
    for made in (
        canonical_text(shipped, source_name="p.yaml", kinds=kinds).text,
        migrate_text(shipped, source_name="p.yaml", kinds=kinds).text,
    ):
        assert compile_playbook(made, kinds=kinds).program.modules == {"rates.py": "RATE = 1\n"}
