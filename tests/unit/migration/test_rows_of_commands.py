"""Code that takes rows of a duckdb command apart: what `migrate` makes of it finds what it found."""

from __future__ import annotations

import json
import textwrap

import pytest
import yaml

from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from tests.parts import parted

PLAYBOOK = """\
apiVersion: noetl.io/v1
kind: Playbook
metadata: {{ name: t, path: t/t }}
workflow:
  - step: start
    tool: {{ kind: duckdb, query: "SELECT jar, n FROM jars" }}
    next: [{{ step: use }}]
  - step: use
    tool:
      kind: python
      input: {{ load: "{{{{ start }}}}" }}
      code: |
{code}
    next: [{{ step: end }}]
  - {{ step: end }}
"""
NAMED = [{"jar": "c", "n": 1}, {"jar": "r", "n": 2}, {"jar": "s", "n": 3}]
LISTS = [["c", 1], ["r", 2], ["s", 3]]
TODAY = {"command_0": {"rows": NAMED, "row_count": 3, "columns": ["jar", "n"]}}

BY_NUMBER = [
    "a, b = rows[0]; result = [a, b]",
    "row = rows[0]; a, b = row; result = [a, b]",
    "row = rows[-1]; other = row; a, b = other; result = a",
    "result = []\nfor at in range(len(rows)):\n    a, b = rows[at]\n    result.append(b)",
    "result = []\nfor a, b in reversed(rows): result.append(a)",
    "result = []\nfor at, (a, b) in zip([1, 2, 3], rows): result.append(a)",
    "all_rows = list(rows); result = [a for a, b in all_rows]",
    "all_rows = list(rows); result = [row[0] for row in all_rows]",
    "large = [row for row in rows if row[1] > 1]; result = [a for a, b in large]",
    "result = []\nfor row in rows: result.extend(row)",
    "result = []\nfor row in rows: result += row",
    "import csv, io\nf = io.StringIO()\nw = csv.writer(f)\nfor row in rows: w.writerow(row)\nresult = f.getvalue()",
    "import csv, io\nf = io.StringIO()\ncsv.writer(f).writerows(rows)\nresult = f.getvalue()",
    "def shown(row):\n    a, b = row\n    return f'{a}-{b}'\nresult = [shown(row) for row in rows]",
    "def shown(row): return [cell for cell in row]\nresult = [shown(row) for row in rows]",
    "def shown(row): return row[0]\nresult = list(map(shown, rows))",
    "def first(found): return [row[0] for row in found]\nresult = first(rows)",
    "def first(found): return [a for a, b in found]\nresult = first(found=rows)",
    "result = ['c' in row for row in rows]",
    "result = ['c', 1] in rows",
    "result = [cell for cell in rows[0]]",
    "result = list(rows[0])",
    "result = [*rows[0]]",
    "result = '{}={}'.format(*rows[0])",
    "result = ','.join(str(cell) for cell in rows[0])",
    "match rows[0]:\n    case [a, b]: result = a\n    case _: result = None",
    "result = max(rows, key=lambda row: row[1])",
    "result = list(map(list, rows))",
    "from itertools import chain\nresult = list(chain(*rows))",
    "from itertools import chain\nresult = list(chain.from_iterable(rows))",
    "from operator import itemgetter\nresult = sorted(rows, key=itemgetter(1))[0][0]",
    "result = list(next(iter(rows)))",
    "result = dict(rows[1:])",
    "(a, b), *others = rows; result = [a, b, len(others)]",
    "first, *others = rows; result = first[0]",
    "result = 0\nwhile rows:\n    a, b = rows.pop()\n    result += b",
    "found = rows if rows else []; result = [a for a, b in found]",
    "found = rows + []; result = [a for a, b in found]",
    "result = rows[0] == ['c', 1]",
]
BY_NAME = [
    "result = [{key: row[key] for key in row} for row in rows]",
    "def shown(jar, n): return jar\nresult = [shown(**row) for row in rows]",
    "def shown(row): return row['jar']\nresult = [shown(row) for row in rows]",
    "head = list(rows[0])\nresult = [[row[one] for one in head] for row in rows]",
    "result = 'jar' in rows[0] and rows[0]['jar']",
    "for row in rows: last = row['n']\nfor row in [[1, 2]]: last += row[1]\nresult = last",
    "import csv, io\nf = io.StringIO()\ncsv.DictWriter(f, ['jar', 'n']).writerows(rows)\nresult = f.getvalue()",
    "result = [dict(row) for row in rows]",
]


def found_by(code: str, load: object) -> object:
    scope = {"load": json.loads(json.dumps(load))}
    exec(code, scope)
    return scope["result"]


CASES = [
    (code, rows, reading)
    for reading in ("load['command_0']", "load.get('command_0') or []")
    for codes, rows in ((BY_NUMBER, LISTS), (BY_NAME, NAMED))
    for code in codes
]


@pytest.mark.parametrize(
    ("code", "rows", "reading"),
    parted(CASES, [one for at, one in enumerate(CASES) if "get" not in one[2] or at % 4 == 0]),
)
def test_code_finds_what_it_found(code: str, rows: object, reading: str) -> None:
    code = f"rows = {reading}\n{code}"
    text = PLAYBOOK.format(code=textwrap.indent(code, " " * 8))
    made = migrate_text(text, source_name="t.yaml", kinds=default_registry())
    assert made.runs
    written = next(
        one["tool"]["code"] for one in yaml.safe_load(made.text)["workflow"] if one["step"] == "use"
    )
    assert found_by(written, TODAY) == found_by(code, {"command_0": rows})


def test_a_row_that_is_taken_apart_where_it_is_read() -> None:
    text = PLAYBOOK.format(code="        a, b = load['command_0'][0]; result = [a, b]")
    made = migrate_text(text, source_name="t.yaml", kinds=default_registry())
    assert "a, b = [[*row.values()] for row in load['command_0']['rows']][0]" in made.text


def test_a_result_that_is_only_handed_on_stays_what_it_is() -> None:
    text = PLAYBOOK.format(code="        result = load['command_0']")
    made = migrate_text(text, source_name="t.yaml", kinds=default_registry())
    assert "result = load['command_0']\n" in made.text
