"""``noetl test``: exit codes, what is printed, machine-readable results, and speed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

EXAMPLES = Path(__file__).parents[3] / "playbooks" / "examples"
PLAYBOOK = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: play }
workload: { n: 1 }
workflow:
  - step: start
    tool: { kind: http, url: "http://a.test/{{ workload.n }}" }
    next:
      arcs:
        - { step: large, when: "{{ start.v > 5 }}" }
        - { step: small }
  - { step: large, tool: { kind: noop, args: { size: large } } }
  - { step: small, tool: { kind: noop, args: { size: small } } }
"""
GOOD = "  - { name: large one, tools: { start: { body: { v: 9 } } }, expect: { result: { size: large } } }\n"
BAD = "  - { name: small one, tools: { start: { body: { v: 9 } } }, expect: { result: { size: small } } }\n"


@pytest.fixture
def files(tmp_path: Path):
    """``files(cases)``: the playbook with these cases."""

    def files(cases: str, name: str = "play") -> None:
        (tmp_path / f"{name}.yaml").write_text(PLAYBOOK.replace("name: play", f"name: {name}"))
        (tmp_path / f"{name}.test.yaml").write_text(f"cases:\n{cases}")

    return files


def test_all_well(noetl, files):
    files(GOOD)
    ran = noetl("test")
    assert (ran.code, ran.err) == (0, "")
    assert re.fullmatch(
        r"play.test.yaml\n  ok    large one  \(\d+ ms\)\n\n1 case: 1 passed in \d\.\d\d s\n", ran.out
    )


def test_a_wrong_expectation_is_readable(noetl, files):
    files(GOOD + BAD)
    ran = noetl("test", "play.yaml")
    assert ran.code == 1
    assert ran.out.splitlines()[3:-2] == [
        "        result.size",
        '          expected "small"',
        '          got      "large"',
        "        path   start → large",
        "        calls  start ×1",
        "        at play.test.yaml:3",
    ]
    assert ran.out.splitlines()[-1].startswith("2 cases: 1 passed, 1 failed in ")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["-k", "LARGE"], 0, "1 case: 1 passed"),
        (["-k", "nobody"], 2, "no case has 'nobody' in its name"),
        (["gone.yaml"], 2, "there is no file gone.yaml"),
        (["--live", "htp"], 2, "there is no tool kind 'htp'"),
        (["--coverage-min", "90", "-k", "large"], 1, "wanted 90 %"),
        (["--coverage-min", "50", "-k", "large"], 0, "60.0 %"),
        (["--coverage-min", "101"], 2, "less than or equal to 100"),
        (["--shuffle", "-1"], 2, "greater than or equal to 0"),
        (["--junit", "no/such/folder/x.xml"], 2, "cannot be written"),
        (["--shuffle", "2", "--seed", "40", "-k", "large"], 0, "seeds 40 to 41"),
        (["-v", "-k", "large"], 0, "path   start → large"),
    ],
)
def test_options(noetl, files, words, code, text):
    files(GOOD + BAD)
    ran = noetl("test", *words)
    assert ran.code == code, ran.out + ran.err
    assert text in ran.out + ran.err


def test_nothing_to_run(noetl, tmp_path):
    ran = noetl("test")
    assert ran.code == 2
    assert "there are no tests below ." in ran.err


def test_a_playbook_without_tests_is_named_with_where_its_tests_go(noetl):
    assert noetl("init", "orders", "--template", "nightly").code == 0
    ran = noetl("test", "orders.yaml")
    assert ran.code == 2 and "orders.yaml has no tests" in ran.err
    assert "write them in orders.test.yaml beside it" in ran.err
    assert "`noetl test orders.yaml --from EXECUTION`" in ran.err


def test_fail_fast_stops_at_the_first(noetl, files):
    files(BAD + GOOD)
    files(GOOD, "later")
    assert "1 case: 0 passed, 1 failed" in noetl("test", "play.yaml", "later.yaml", "--fail-fast").out
    assert "3 cases: 2 passed, 1 failed" in noetl("test").out


def test_an_invalid_file_does_not_hide_the_others(noetl, files, tmp_path):
    files(GOOD)
    files("  - { name: a, tolls: {} }\n", "broken")
    ran = noetl("test", "--junit", "results.xml")
    assert ran.code == 2
    assert (
        "broken.test.yaml:2:16: unknown-key: `tolls` is not a key of cases[0] (did you mean 'tools'?)"
        in ran.out
    )
    assert "1 case: 1 passed, 1 file cannot be run" in ran.out
    suites = {suite.get("name"): suite for suite in ElementTree.parse(tmp_path / "results.xml").getroot()}
    assert (suites["broken.test.yaml"].get("errors"), suites["play.test.yaml"].get("errors")) == ("1", "0")
    told = noetl("test", "--json").json
    assert told[0]["file"] == "broken.test.yaml"
    assert told[0]["error"]["details"]["diagnostics"][0]["line"] == 2


def test_json_has_a_line_per_case_and_report(noetl, files):
    files(GOOD + BAD)
    large, small, coverage, summary = noetl("test", "--json", "--coverage").json
    assert (large["case"], large["passed"], large["path"], large["calls"]) == (
        "large one",
        True,
        ["start", "large"],
        {"start": 1},
    )
    assert small["findings"] == [
        {"where": "result.size", "expected": '"small"', "got": '"large"', "message": ""}
    ]
    assert (coverage["percent"], [one["what"] for one in coverage["missed"]]) == (
        60.0,
        ["arc start → small", "step small"],
    )
    assert (summary["cases"], summary["failed"], summary["invalid_files"]) == (2, 1, 0)


def test_junit_has_failures_with_their_text(noetl, files, tmp_path):
    files(GOOD + BAD.replace("small one", '"small \\u0001 one"'))
    assert noetl("test", "--junit", "results.xml").code == 1
    suite = ElementTree.parse(tmp_path / "results.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite] == ["large one", "small ? one"]
    failure = suite[1].find("failure")
    assert failure is not None and failure.text is not None
    assert 'expected "small"' in failure.text


def test_the_command_that_shows_a_race_again_works(noetl, tmp_path):
    (tmp_path / "race.yaml").write_text(
        """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: race }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }
  - { step: a, tool: { kind: http, url: "http://a.test/" }, set_ctx: { last: a }, next: { arcs: [{ step: end }] } }
  - { step: b, tool: { kind: http, url: "http://b.test/" }, set_ctx: { last: b }, next: { arcs: [{ step: end }] } }
  - { step: end }
"""
    )
    (tmp_path / "race.test.yaml").write_text(
        "cases: [{ name: who is last, tools: { a: { body: 1 }, b: { body: 1 } } }]\n"
    )
    assert noetl("test").code == 0
    ran = noetl("test", "--shuffle", "30")
    assert ran.code == 1
    command = re.search(r"noetl test race.test.yaml -k \"who is last\" --shuffle 1 --seed \d+", ran.out)
    assert command is not None
    seed = command.group().split()[-1]
    again = noetl("test", "race.test.yaml", "-k", "who is last", "--shuffle", "1", "--seed", seed)
    assert again.code == 1
    assert f"(seed {seed})" in again.out


def test_the_schema_of_test_files(noetl, files):
    files(GOOD)
    schema = json.loads(noetl("schema", "--test").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"] == "Tests of a NoETL playbook"
    assert json.loads(noetl("schema").out)["title"] == "NoETL playbook"


def test_test_files_are_no_playbooks(noetl, files):
    files(GOOD)
    ran = noetl("validate", ".")
    assert (ran.code, ran.out) == (0, "play.yaml: valid\n")


def test_the_examples_pass_and_every_branch_of_them_is_reached(noetl):
    ran = noetl("test", str(EXAMPLES), "--coverage-min", "100", "--shuffle", "5")
    assert ran.code == 0, ran.out
    assert ran.out.count("100.0 %") >= 3
