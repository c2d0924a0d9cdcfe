"""Code that reads entries of other releases' envelopes, and code that only looks like it."""

from __future__ import annotations

import pytest

from noetl.dsl.shapes_in_code import (
    data_of_sql,
    entries_of_scope,
    free_names,
    renamed,
    renamed_parameter,
    rows_of_a_command,
    rows_of_sql,
    status_words,
    text_of_shell,
    whole_answers,
)
from tests.parts import over

GIVEN = {"found": "load", "answers": "each"}
NAMED = {"load"}


@over(
    ("code", "left"),
    [
        (
            "context.get('load', {}).get('data', {}).get('command_0')",
            "context.get('load', {}).get('command_0')",
        ),
        ("found['data'] [ 'rows' ]", "found [ 'rows' ]"),
        ("input_data['found'].get('data', {}).get('rows', [])", "input_data['found'].get('rows', [])"),
        ("'é', found.get('data', {}).get('row_count')", "'é', found.get('row_count')"),
        ("data = found.get('data', {})\nrows = data['rows']", "data = found\nrows = data['rows']"),
        ("other = found\n'\f', other.get('data')['columns']", "other = found\n'\f', other['columns']"),
        (
            "def main(load):\n  return load.get('data', {}).get('rows')",
            "def main(load):\n  return load.get('rows')",
        ),
        (
            "data = found.get('data')\nn = data.get('rows') if isinstance(data, dict) else 0",
            "data = found\nn = data.get('rows') if isinstance(data, dict) else 0",
        ),
        ("found \\\n  .get('data', {}).get('rows')", "found \\\n  .get('rows')"),
    ],
)
def test_data_of_sql_is_left_out_where_an_entry_is_read_in_it(code: str, left: str) -> None:
    (one,) = data_of_sql(code, GIVEN, NAMED)
    assert one.source == "load" and code[: one.start] + code[one.end :] == left
    assert not data_of_sql(left, GIVEN, NAMED)


@pytest.mark.parametrize(
    "code", ["for row in found.get('data', []): pass", "found. get('data', {}).get('rows')"]
)
def test_what_no_text_can_be_left_out_of_is_found_all_the_same(code: str) -> None:
    (one,) = data_of_sql(code, GIVEN, NAMED)
    assert (one.line, one.start, one.end) == (1, 0, 0)


@over(
    "code",
    [
        "found.get('rows') or found.get('data', {}).get('rows')",
        "found['data']['rows'] if 'data' in found else found['rows']",
        "found.get('data', found)['rows']",
        "if 'data' in found:\n  rows = found['data']['rows']",
        "found.get('data', {}).get('shelf')",
        "data = found.get('data') or found\nrows = data['rows']",
        "data = found.get('data', {})\nrows = data.get('rows') or list(data)",
        "found = {'data': {'rows': []}}\nrows = found.get('data', {}).get('rows')",
        "def read(found): return found.get('data', {}).get('rows')",
        "other.get('data', {}).get('rows')",
        "context.get('more', {}).get('data', {}).get('rows')",
        "found.get('data', {}).get(",
        "found" + "['data']" * 300,
    ],
)
def test_data_that_the_code_may_find_is_none_of_it(code: str) -> None:
    assert data_of_sql(code, GIVEN, NAMED) == []


@over(
    ("code", "count"),
    [
        ("[one for one in answers if one.get('status') == 'success']", 1),
        ("for place, one in enumerate(answers):\n  print(place, one.get('status', None) != 'error')", 1),
        ("answers[0].get('status') in ('ok', 'success')", 1),
        ("found.get('status') == 'success'", 1),
        ("answers.get('status') == 'success'", 0),
        ("found.get('status', 'success') == 'success'", 0),
        ("found.get('status') == 200", 0),
        ("found.get('status') == 'success' or found.get('body')", 0),
        ("found.get('status') == 'success' and found.get('status_code') == 200", 0),
        ("for one in other:\n  print(one.get('status') == 'success')", 0),
        ("for one in answers: pass\nfor one in other:\n  print(one.get('status') == 'success')", 0),
    ],
)
def test_a_status_is_compared_with_a_word(code: str, count: int) -> None:
    assert len(status_words(code, GIVEN, NAMED, {"each"})) == count


@over(
    "code",
    [
        "n = len(found)",
        "n = len(found) if found else 0",
        "first = found[0]['jars']",
        "for row in found or []:\n  print(row['jars'])",
        "def main(found):\n  return [row.get('jars') for row in found]",
        "rows = input_data.get('found') or []\nn = len(rows)",
        "for place, row in enumerate(found):\n  print(place, row['jars'])",
        "n = len(context['load'])",
    ],
)
def test_code_that_takes_the_result_of_sql_for_its_rows_is_found(code: str) -> None:
    assert [one.source for one in rows_of_sql(code, GIVEN, NAMED)] == ["load"]


@over(
    "code",
    [
        "n = len(found['rows'])",
        "n = len(found.get('rows') or [])",
        "if isinstance(found, dict):\n  found = found['rows']\nn = len(found)",
        "for name in found:\n  print(name, found[name])",
        "for name, value in found.items():\n  print(name, len(found))",
        "if 'rows' in found:\n  n = len(found)",
        "def count(found):\n  return len(found)\nresult = count([1])",
        "result = [found]\nn = len(found)",
        "other = {}\nn = len(other)",
        "n = len(found",
    ],
)
def test_code_that_knows_the_mapping_is_none_of_it(code: str) -> None:
    assert not rows_of_sql(code, GIVEN, NAMED)


@over(
    "code",
    [
        "raw = found if isinstance(found, str) else str(found)",
        "import json\nresult = json.loads(found)",
        "lines = [line for line in (found or '').strip().splitlines()]",
        "def main(found):\n  return found.split()",
        "result = input_data.get('found', '').strip()",
    ],
)
def test_code_that_takes_the_result_of_a_command_for_a_text_is_found(code: str) -> None:
    assert [one.source for one in text_of_shell(code, GIVEN)] == ["load"]


@over(
    "code",
    [
        "raw = found.get('stdout', '') if isinstance(found, dict) else found.strip()",
        "raw = found if isinstance(found, str) else found['stdout']",
        "result = found['stdout'].strip()",
        "print(str(found))",
        "found = ''\nresult = found.strip()",
    ],
)
def test_code_that_knows_what_a_command_gives_is_none_of_it(code: str) -> None:
    assert not text_of_shell(code, GIVEN)


@over(
    ("code", "places"),
    [
        ("for row in found.get('command_1', []):\n  print(row)", [".get('command_1', [])"]),
        ("rows = found['command_0']\nn = len(rows)", ["['command_0']"]),
        ("rows = found['command_0']\nn = rows[0]['jars']", ["['command_0']"]),
        ("rows = found['command_0']\nn = len(rows.get('rows'))", []),
        ("rows = found['command_0']\nif isinstance(rows, dict):\n  rows = rows['rows']\nn = len(rows)", []),
        ("n = len(found['command_0']['rows'])", []),
    ],
)
def test_what_a_command_gave_is_no_list_of_rows(code: str, places: list[str]) -> None:
    assert [code[one.start : one.end] for one in rows_of_a_command(code, GIVEN)] == places


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("a = ctx['x']\nprint(f\"{ctx['y']} of ctx now\")\nb = 'ctx'", None),
        ("a = f'{ctx[0]}' + ctx['é']", "a = f'{context[0]}' + context['é']"),
        ("a = ctx.get('ctx', b.ctx)", "a = context.get('ctx', b.ctx)"),
    ],
)
def test_a_free_name_is_renamed_where_that_is_sure(code: str, made: str | None) -> None:
    assert renamed(code, "ctx", "context") == (code if made is None else made)


def test_a_name_is_free_where_code_does_not_bind_it() -> None:
    text = "b = ctx['x']\na = f'{ctx}'"
    assert [(one.line, text[one.start : one.end]) for one in free_names(text, "ctx")] == [(1, "ctx"), (2, "")]
    for code in ("ctx = {}\nctx['x']", "def main(ctx):\n  return ctx", "print('ctx')", "a.ctx", "ctx ="):
        assert not free_names(code, "ctx")


@over(
    ("code", "found"),
    [
        ("ok = found.get('status_code', 0) == 200\nrows = found.get('data')", ["load"]),
        ("rows = [one['data'] for one in answers if one.get('status_code') == 200]", ["each"]),
        ("ok = found.get('status_code', 0) == 200", []),
        ("rows = [one['data'] for one in found if one.get('status_code') == 200]", []),
    ],
)
def test_status_code_and_data_are_those_of_a_whole_answer(code: str, found: list[str]) -> None:
    assert [one.source for one in whole_answers(code, GIVEN, NAMED, {"each"})] == found


@over(
    ("code", "new"),
    [
        ("def main(ctx): return ctx.get('jars')", "def main(context): return context.get('jars')"),
        (
            "def main(é, ctx=None, *, n=1):\n  x = (ctx or {}).get('jars')",
            "def main(é, context=None, *, n=1):\n  x = (context or {}).get('jars')",
        ),
        (
            "def main(é, ctx=None):\n  return f\"{ctx['jars']} ctx\"",
            "def main(é, context=None):\n  return f\"{context['jars']} ctx\"",
        ),
        ("def main(ctx, context): return ctx['jars']", "def main(ctx, context): return ctx['jars']"),
        ("def main(ctx): return [ctx, ctx['jars']]", "def main(ctx): return [ctx, ctx['jars']]"),
        ("found = context.get('ctx', {})\nfound['jars']", "found = context.get('ctx', {})\nfound['jars']"),
    ],
)
def test_what_only_the_workload_has_is_found_where_ctx_is_read(code: str, new: str) -> None:
    assert len(entries_of_scope(code, "ctx", {"jars"})) == 1
    assert renamed_parameter(code, "ctx", "context") == new


@over(
    "code",
    [
        "def main(ctx): return ctx.get('shelf')",
        "def main(ctx): return ctx.get('jars') or context['jars']",
        "def main(n):\n  ctx = {'jars': n}\n  return ctx['jars']",
        "def read(ctx): return ctx['jars']",
    ],
)
def test_other_entries_and_names_are_none_of_it(code: str) -> None:
    assert entries_of_scope(code, "ctx", {"jars"}) == []
