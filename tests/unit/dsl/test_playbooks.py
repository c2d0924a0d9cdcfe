"""The playbooks of the repository compile with the real kinds, without a warning, and fit the schema that editors get."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from yamlcore import CCoreLoader

from noetl.domain.text.version_text import split_version
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.editors.schema import playbook_schema
from noetl.dsl.program import decode, encode
from noetl.kinds.registry import Registry
from tests.parts import over, parted, sampled

ROOT = Path(__file__).parents[3] / "playbooks"
FILES = sorted(
    path
    for folder in ("conformance", "examples")
    for path in (ROOT / folder).rglob("*.yaml")
    if "kind: Playbook" in path.read_text()
)
CASES = ROOT / "conformance"
CASE_OF = {path: path.parent.relative_to(CASES).as_posix() for path in FILES if path.is_relative_to(CASES)}
SAMPLE = sampled(set(CASE_OF.values()))
PLAYED = [path for path in FILES if path not in CASE_OF or CASE_OF[path] in SAMPLE]
"""Of the cases, which ``tests/conformance`` compiles as well, a sample."""
MEANT = re.compile(r"^# lint: (\S+)", re.MULTILINE)
"""A playbook that is about something a lint warns of says so."""


@pytest.fixture(scope="module")
def registry():
    return Registry()


@pytest.fixture(scope="module")
def validator(registry):
    schema = playbook_schema(registry)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", parted(FILES, PLAYED, ids=[str(path.relative_to(ROOT)) for path in FILES]))
def test_compiles_and_fits_the_schema(path, registry, validator):
    text = path.read_text()
    compiled = compile_playbook(text, source_name=path.name, kinds=registry)
    assert decode(encode(compiled.program)) == compiled.program
    said = {found.code for found in compiled.diagnostics}
    if path.name == "twin.yaml":  # the same in the other form, where a part of it may be right
        assert said <= set(MEANT.findall(text + path.with_name("playbook.yaml").read_text()))
    else:
        assert said == set(MEANT.findall(text))
    validator.validate(yaml.load(split_version(text)[0], Loader=CCoreLoader))


PRINTED = [
    *((path.relative_to(ROOT).as_posix(), path.read_text()) for path in FILES if "examples" in path.parts),
    *(
        (f"README.md {number}", text)
        for number, text in enumerate(
            re.findall(
                r"^```yaml\n(.*?)^```$", (ROOT.parent / "README.md").read_text(), re.DOTALL | re.MULTILINE
            )
        )
    ),
]


def test_there_are_printed_playbooks():
    assert len(PRINTED) > 20
    assert any(name.startswith("README.md") for name, _ in PRINTED)


@over(("name", "text"), PRINTED, ids=[name for name, _ in PRINTED])
def test_printed_playbooks_use_one_vocabulary(registry, name, text):
    compiled = compile_playbook(text, source_name=name, kinds=registry, strict=True)
    assert list(compiled.diagnostics) == []
