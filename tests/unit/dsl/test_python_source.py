"""Parsing Python while other threads do."""

from __future__ import annotations

import ast

import pytest

from noetl.dsl import python_source
from noetl.dsl.code_templates import templates_in_code
from noetl.dsl.python_source import parse_python, python_tree


def test_a_source_that_the_interpreter_refused_by_mistake_is_parsed_again(monkeypatch):
    asked, parse = [], ast.parse

    def mistaken(source):
        asked.append(source)
        if len(asked) < 3:
            raise SystemError("AST constructor recursion depth mismatch (before=183, after=20)")
        return parse(source)

    monkeypatch.setattr(python_source.ast, "parse", mistaken)
    assert ast.unparse(parse_python("n = 1")) == "n = 1" and len(asked) == 3


@pytest.mark.parametrize(("source", "error"), [("def", SyntaxError), ("\0", (SyntaxError, ValueError))])
def test_what_is_wrong_with_a_source_is_raised_at_once(source, error):
    with pytest.raises(error):
        parse_python(source)


def test_a_template_in_a_comment_is_none() -> None:
    code = "# was {{ workload.n }}\nif True:\n    # or {{ load }}\n    n = {{ load }} # here\n"
    assert [code[one.start :].split()[1] for one in templates_in_code(code, {"load"})] == ["load"]


def test_a_tree_knows_what_walks_find():
    code = "x = f'{a + b}'\nfor y in x: print(y)\n"
    tree = python_tree(code)
    held = (ast.expr_context, ast.operator)
    assert [type(one) for one in tree.nodes] == [
        type(one) for one in ast.walk(parse_python(code)) if not isinstance(one, held)
    ]
    assert {one.id for one in tree.names if one in tree.within_texts} == {"a", "b"}
    assert python_tree(code) is tree
