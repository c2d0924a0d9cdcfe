"""Texts of tasks and of remote errors in what people read: they begin no line of their own, and steer no terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from noetl.cli import errors
from noetl.cli.render import output
from noetl.domain.text.untrusted_text import escape_block, escape_json, log_entry

AUDIT = "owner did cancel_execution: 200 7 (request 1)"
HOSTILE = f"first\n{AUDIT}\r\x1b[2J\x9b2J\u202e\u2066\u2028{AUDIT}\x07\ufeffend"
STEERING = "\x1b\x9b\u202e\u2066\u2028\x07\ufeff\r"
PLAYBOOK = """workflow:
  - step: prints
    tool: {{ kind: double, value: {hostile} }}
    next: {{ arcs: [{{ step: fails }}] }}
  - step: fails
    tool: {{ kind: boom, message: {hostile} }}
"""


def _is_quiet(shown: str) -> None:
    assert not any(char in shown for char in STEERING), shown
    assert not any(line.strip().startswith("owner did") for line in shown.split("\n")), shown


@pytest.fixture
def ran(noetl, write):
    return noetl("run", write("hostile.yaml", PLAYBOOK.format(hostile=json.dumps(HOSTILE))))


def test_run_names_execution_and_step_of_every_line(ran, noetl):
    _is_quiet(ran.out + ran.err)
    execution_id = noetl("list", "--json").json[0]["execution_id"]
    (line,) = [line for line in ran.out.splitlines() if "doubling" in line]
    assert line.startswith(rf"  | [{execution_id} prints] doubling first\n{AUDIT}\r\x1b[2J\x9b2J\u202e")


@pytest.mark.parametrize("words", [("logs",), ("status",), ("events",), ("analyze",), ("result",), ("list",)])
def test_what_is_shown_of_an_execution_steers_nothing(words, ran, noetl):
    shown = noetl(*words)
    _is_quiet(shown.out + shown.err)
    if words == ("logs",):
        (line,) = shown.out.splitlines()
        assert "prints" in line and rf"doubling first\n{AUDIT}" in line


def test_json_stays_exact_and_harmless(ran, noetl):
    shown = noetl("logs", "latest", "--json")
    assert shown.json[0]["line"] == f"doubling {HOSTILE}"
    assert not any(char in shown.out for char in STEERING)
    assert json.loads(escape_json(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE
    assert json.loads(output.pretty({"a": HOSTILE})) == {"a": HOSTILE}


def test_a_log_entry_is_one_line_and_what_continues_it(capsys):
    output.note_log(f"the engine failed: {HOSTILE}")
    shown = capsys.readouterr().err
    _is_quiet(shown)
    assert [line[:6] for line in shown.splitlines()] == ["the en", "    | "]
    assert log_entry("fine: ä 漢字 👩‍💻\tx") == "fine: ä 漢字 👩‍💻\tx"


@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_a_log_entry_that_cannot_be_written_is_lost(monkeypatch, error):
    """The threads of a server log, and those of its engine and its leases must not end by it."""
    tried = []

    class Full(io.StringIO):
        def write(self, text):
            tried.append(output)
            raise error("No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    output.note_log("the database is away")
    assert tried == ["the database is away"]


def test_errors_and_blocks():
    shown = errors.describe_failure(
        {"message": HOSTILE, "code": HOSTILE, "hint": HOSTILE, "position": HOSTILE}
    )
    _is_quiet(shown)
    assert escape_block("a\nb\x1b\ud800\U000e0041") == "a\nb\\x1b\\ud800\\udb40\\udc41"
