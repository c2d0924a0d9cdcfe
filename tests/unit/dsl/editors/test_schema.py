"""The JSON Schema that editors get: valid, complete in words, and refusing what is wrong in shape."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from yamlcore import CCoreLoader

from noetl.dsl.editors.schema import DIALECT, playbook_schema
from noetl.dsl.editors.schema_words import BETTER, DEFAULTS, WORDS
from noetl.kinds.registry import default_registry
from tests.parts import over

ROOT = Path(__file__).parents[4]
SHAPES = frozenset(
    {
        *(
            "unknown-key",
            "missing-key",
            "misplaced-key",
            "wrong-type",
            "wrong-value",
            "out-of-range",
            "bad-name",
        ),
        *("reserved-name", "reserved-key", "v1-syntax", "api-version", "document-kind", "guard-not-template"),
        *("kind-params", "unknown-kind", "mixed-forms", "schedule-rhythm"),
    }
)
"""Codes of what a schema can say."""


@pytest.fixture(scope="module")
def schema():
    return playbook_schema(default_registry())


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def models(schema):
    return [("Document", schema), *schema["$defs"].items()]


def test_every_key_says_what_it_is_for(schema):
    assert schema["$schema"] == DIALECT
    silent = [
        f"{model}.{key}"
        for model, definition in models(schema)
        for key, about in definition.get("properties", {}).items()
        if isinstance(about, dict) and len(about.get("description", "")) < 5
    ]
    assert silent == []


def test_words_and_defaults_are_of_keys_that_exist(schema):
    places = {
        f"{model}.{key}" for model, definition in models(schema) for key in definition.get("properties", {})
    }
    keys = {place.split(".", 1)[1] for place in places}
    assert WORDS.keys() <= keys
    assert BETTER.keys() | DEFAULTS.keys() <= places


def test_defaults_are_offered_and_null_is_none_of_them(schema):
    found = {
        f"{model}.{key}": about["default"]
        for model, definition in models(schema)
        for key, about in definition.get("properties", {}).items()
        if isinstance(about, dict) and "default" in about
    }
    assert None not in [value for place, value in found.items() if not place.startswith("kind_")]
    assert {
        "LoopSpec.mode": "sequential",
        "NextSpec.mode": "exclusive",
        "RuleThen.attempts": 3,
        "StepRetryBlock.max_attempts": 3,
        "ScheduleBlock.timezone": "UTC",
    }.items() <= found.items()


def snippets():
    pages = [ROOT / "docs" / "dsl.md", *sorted((ROOT / "docs" / "dsl").glob("*.md")), ROOT / "README.md"]
    for page in pages:
        for found in re.finditer(
            r"^```yaml\n(.*?)^```", page.read_text() if page.exists() else "", re.DOTALL | re.MULTILINE
        ):
            if "kind: Playbook" in found[1]:
                yield pytest.param(
                    found[1], id=f"{page.name}-{page.read_text().count(chr(10), 0, found.start()) + 2}"
                )


@over("text", list(snippets()))
def test_playbooks_of_the_docs_fit(text, validator):
    validator.validate(yaml.load(text, Loader=CCoreLoader))


def test_wrong_shapes_are_refused(validator):
    accepted, refused = set(), 0
    for file in sorted((ROOT / "playbooks" / "invalid").glob("*.yaml")):
        text = file.read_text()
        codes = set(re.findall(r"^# expect: (\S+)", text, re.MULTILINE))
        if not codes <= SHAPES:
            continue
        if validator.is_valid(yaml.load(text, Loader=CCoreLoader)):
            accepted.add(file.stem)
        else:
            refused += 1
    for_the_compiler = {
        "nested-failure-elsewhere",
        "nested-timeout",
        "trigger-pattern",
        "result-permanent-ttl",
    }
    assert accepted == for_the_compiler | {
        *("limit-bounds-nothing", "limit-per-without-rate", "callback-label"),
        *("wait-schema", "wait-two-ways", "wait-until-without-offset"),
        *("vars-of-a-task", "document-path", "cache-ttl", "cache-without-a-tool"),
        *("agent-asks-nothing", "agent-in-a-loop", "agent-inclusive", "agent-with-rules"),
        *("agent-tool-jumps", "agent-tools-of-one-label", "agent-with-a-join"),
    }
    assert refused >= 60
