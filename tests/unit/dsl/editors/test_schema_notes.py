"""Notes of the schema for editors: of keys that exist, and what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl.dsl.editors.schema import playbook_schema
from noetl.dsl.editors.schema_notes import PLACE, REFERS
from noetl.dsl.editors.template_words import NAMES, OWN, PLACES
from noetl.kinds.registry import default_registry

DOCS = Path(__file__).parents[4] / "docs"
ROLES = {"given": "argument", "start": "step", "here": "self", "sibling": "task", "element": "element"}
"""What the page calls a name of each role."""
WITHOUT_FIELDS = {"now"}
"""Functions, which the page has among the names."""


@pytest.fixture(scope="module")
def schema():
    return playbook_schema(default_registry())


def matrix():
    (text,) = re.findall(r"^<!-- matrix -->\n\n((?:\|.*\n)+)", (DOCS / "scopes.md").read_text(), re.MULTILINE)
    head, _, *rows = [
        [cell.strip(" `") for cell in line.strip("|\n").split("|")] for line in text.splitlines()
    ]
    columns = [place.replace("`", "") for place in head[1:]]
    for row in rows:
        places = tuple(place for place, cell in zip(columns, row[1:], strict=True) if cell in ("✓", "f", "s"))
        for name in re.findall(r"[\w]+", row[0]):
            yield name, places
    yield "", tuple(columns)


def test_names_mean_something_where_the_page_says():
    told = dict(matrix())
    assert told.pop("") == PLACES
    own = {role: told.pop(name) for name, role in ROLES.items()}
    assert own == OWN
    assert {name: places for name, places in told.items() if name not in WITHOUT_FIELDS} == {
        name: places for name, (_, places, _) in NAMES.items()
    }


def test_the_notes_are_of_places_and_keys_that_exist(schema):
    assert set(PLACE.values()) <= set(PLACES)
    assert set(REFERS.values()) == {"step", "task"}
    assert schema["$defs"]["kind_workbook"]["properties"]["name"]["x-refers"] == "workbook"
    assert schema["$defs"]["ArcBlock"]["properties"]["step"]["x-refers"] == "step"
    assert schema["$defs"]["kind_http"]["properties"]["auth"]["x-refers"] == "keychain"
    assert "round" in schema["x-templates"]["filters"] and "now" in schema["x-templates"]["functions"]


def test_each_mapping_names_the_page_that_explains_it(schema):
    told = {"Document": schema["x-docs"]} | {name: part["x-docs"] for name, part in schema["$defs"].items()}
    assert [page for page in told.values() if not (DOCS / f"{page}.md").is_file()] == []
    for page in ("dsl/keys", "dsl/task-keys"):
        text = (DOCS / f"{page}.md").read_text()
        models = [name for line in re.findall(r"<!-- keys: (.+) -->", text) for name in line.split()]
        assert {name: told[name] for name in models} == dict.fromkeys(models, page)
    assert told["kind_http_Paginate"] == "kinds/http"
