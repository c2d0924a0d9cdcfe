"""Long texts that kinds search where a task runs, in the process of the server: none holds it for longer than the text is long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from noetl.domain.errors import TaskError
from noetl.dsl.program import Map, Pos, Text
from noetl.kinds import script
from noetl.kinds.postgres import run
from noetl.kinds.postgres.leading_words import leading_words
from noetl.services.catalog.playbook_needs import _paths
from noetl.services.executions.redrive_reach import _ARGUMENT
from tests.parts import over

COMMENTS = "/**/" * 60
LONG = 60_000


@over("behind", ["!", "(!", "/*", "--", "1"])
def test_a_search_behind_comments_ends(behind):
    """Each comment more doubled the time: these 60 would take longer than anybody lives."""
    run._refuse_control(COMMENTS + behind)
    assert leading_words(COMMENTS + behind, 1, "(") == []


def test_what_follows_comments_is_still_seen():
    with pytest.raises(TaskError, match="COMMIT"):
        run._refuse_control(f"{COMMENTS} -- a\n /* ; */ COMMIT")
    assert leading_words(f"{COMMENTS} -- a\n ((SELECT 1))", 1, "(") == ["select"]


CONTROL = [
    "/* /* */ */ COMMIT",
    "/*/**/*/commit",
    "/***/ /* * / */ End",
    "-- a\rCOMMIT",
    "; ; COMMIT",
    "COMMIT/* a */AND CHAIN",
    "PREPARE /* /* */ */ TRANSACTION 'a'",
    "PREPARE -- a\n TRANSACTION 'a'",
    "/* a */ rollback -- to",
]
OTHERS = [
    "/* /* */ COMMIT",
    "/* COMMIT */ SELECT 1",
    "-- COMMIT",
    "ROLLBACK /* a */ TO here",
    "PREPARE a AS SELECT 1",
    "committed",
    "",
]


@over("text", CONTROL)
def test_control_of_transactions_is_seen_behind_what_postgres_skips(text):
    with pytest.raises(TaskError) as refused:
        run._refuse_control(text)
    assert refused.value.code == "transaction_control"


@over("text", OTHERS)
def test_other_statements_are_let_through(text):
    run._refuse_control(text)


@pytest.mark.parametrize("text", [
    "/*" * (LONG // 4) + "*/" * (LONG // 4),
    "/**/" * (LONG // 4),
    "/*" + "*" * LONG + "/",
    "-- *\r" * (LONG // 5),
    "; \n" * (LONG // 3),
])  # fmt: skip
def test_long_comments_are_left_behind_in_a_time_that_grows_with_them(text):
    began = time.process_time()
    assert leading_words(f"{text} COMMIT /* {text} */ x", 2) == ["commit", "x"]
    assert leading_words(f"/* {text}", 2) == []
    assert time.process_time() - began < 2.0


LINES = {
    b"#!/bin/sh": "sh",
    b"#! /usr/bin/env -S python3.12 -u": "python",
    b"#!/usr/bin/env\tbash": "bash",
    b"#!python": "python",
    b"#!/opt/env/python3": "python",
    b"#!/bin/bash -e": "bash",
    b"#!/usr/bin/perl": None,
    b"#!/usr/bin/env node": None,
    b"#!/bin/shell": None,
    b"#!": None,
    b"#!" + b"/" * LONG: None,
    b"#!/usr/bin/env " + b"-a " * LONG: None,
    b"#!" + b" /" * LONG + b"python": None,
}


@over("line", LINES, ids=lambda line: line[:30].decode())
def test_the_first_line_of_a_script_names_its_interpreter(line):
    began = time.process_time()
    try:
        found = script._interpreter_of(Path("a.py"), line + b"\nmore")
    except TaskError as refused:
        assert refused.code == "script_interpreter"
        found = None
    assert time.process_time() - began < 2.0
    assert found == LINES[line]


def test_the_arguments_that_a_template_names_are_found():
    assert _ARGUMENT.findall("""args['a'] + input["b'c"] + args.d + args""") == [
        ("", "'", "a"),
        ("", '"', "b'c"),
        ("d", "", ""),
        ("", "", ""),
    ]
    began = time.process_time()
    assert len(_ARGUMENT.findall("args['a " * (LONG // 8))) == LONG // 8
    assert time.process_time() - began < 2.0


@over(
    ("source", "parts"),
    [
        ("a/{{ x }}", ("a/", "")),
        ("{{ x }}{% if y %}b{% endif %}", ("", "", "b", "")),
        ("a{{ '{%' }}b", ("a", "b")),
        ("a{{ '}' ~ \"%}\" }}b", ("a", "b")),
    ],
)
def test_the_known_parts_of_a_computed_path(source, parts):
    (need,) = _paths(Map((("path", Text(source)),)), Pos(1, 1))
    assert need.parts == parts
