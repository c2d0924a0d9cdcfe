"""The database looks into no document of a user: operators of json refuse one that holds a NUL or half of a surrogate pair."""

import re
from pathlib import Path

from noetl.adapters.postgres import migrations

LOOKS_INSIDE = re.compile(
    r"->|#>|@>|@\?|\bjsonb\b|\bjsonb?_(?:each|array_elements|object_keys|extract|typeof|populate|path|strip)\w*",
    re.IGNORECASE,
)
ALLOWED = {
    # The published shape of transient is jsonb; literals.for_jsonb replaces what it refuses.
    ("10_shared.sql", "jsonb"),
    # noetl.failure_code replaces what operators refuse before it looks (tests/contract/test_figures.py has such an error).
    ("10_shared.sql", "->"),
    # item_work replaces what operators refuse before it looks (tests/contract/test_item_work.py has such outcomes).
    ("items.sql", "->"),
    ("items.sql", "json_typeof"),
    ("items.sql", "json_array_elements"),
}


def _found(path: Path) -> set[tuple[str, str]]:
    code = re.sub(r"--[^\n]*", "", path.read_text())
    return {(path.name, match[0].lower()) for match in LOOKS_INSIDE.finditer(code)}


def test_statements_look_into_no_document():
    scripts = [
        path for part in ("functions", "queries") for path in sorted((migrations.SQL / part).glob("*.sql"))
    ]
    assert len(scripts) > 10
    assert set().union(*map(_found, scripts)) == ALLOWED, "give what a statement looks at a column of its own"
