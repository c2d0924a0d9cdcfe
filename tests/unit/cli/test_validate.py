"""`noetl validate`: what it takes, what it says, and how it ends."""

from __future__ import annotations

import pytest

GOOD = "workflow:\n  - step: start\n    tool: { kind: double, input: { n: 1 } }\n"
WARNS = (
    "workflow:\n  - step: first\n    tool: { kind: double, input: { n: 1 } }\n"
    '    next: { arcs: [{ step: first, when: "{{ first.n > 5 }}" }] }\n'
)
OLD = "workflow:\n  - step: start\n    tool: { kind: double, args: { n: 1 } }\n"
BAD = "workflow:\n  - step: start\n    tool: { kind: duble }\n"


@pytest.fixture
def folder(write, tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write("good.yaml", GOOD)
    write("deep/warns.yaml", WARNS)
    write("deep/er/old.yaml", OLD)
    (tmp_path / "deep" / "values.yaml").write_text("name: not a playbook\n")


@pytest.mark.parametrize(
    ("targets", "files"),
    [
        (["good.yaml"], ["good.yaml"]),
        (["deep"], ["deep/er/old.yaml", "deep/warns.yaml"]),
        (["**/*.yaml"], ["deep/er/old.yaml", "deep/warns.yaml", "good.yaml"]),
        (["deep/w?rns.yaml", "deep", "deep/warns.yaml"], ["deep/warns.yaml", "deep/er/old.yaml"]),
    ],
)
def test_files_folders_and_patterns(noetl, folder, targets, files):
    ran = noetl("validate", *targets, "--json")
    assert ran.code == 0
    assert [report["file"] for report in ran.json] == files


@pytest.mark.parametrize("target", ["none.yaml", "empty", "*.yml"])
def test_nothing_there_is_said(noetl, folder, tmp_path, target):
    (tmp_path / "empty").mkdir()
    ran = noetl("validate", target)
    assert ran.code == 2
    assert target in ran.err


def test_a_summary_counts_files_and_problems(noetl, folder, write):
    write("bad.yaml", BAD)
    ran = noetl("validate", ".")
    assert ran.code == 2
    assert ran.out.splitlines()[-1] == "4 playbooks, 1 refused: 1 error, 1 warning"


def test_strict_refuses_warnings_older_spellings_and_nothing_else(noetl, folder):
    assert noetl("validate", ".").code == 0
    ran = noetl("validate", ".", "--strict", "--json")
    assert ran.code == 2
    told = {report["file"]: report for report in ran.json}
    assert told["good.yaml"] == {"file": "good.yaml", "valid": True, "diagnostics": []}
    (old,) = told["deep/er/old.yaml"]["diagnostics"]
    assert "noetl fmt --canonical" in old["hint"]
    assert (old["code"], old["line"], old["column"]) == ("deprecated-spelling", 8, 27)
    (warned,) = told["deep/warns.yaml"]["diagnostics"]
    assert (warned["code"], warned["severity"]) == ("entry-first-step", "error")


def test_json_tells_everything(noetl, write):
    (report,) = noetl("validate", write("bad.yaml", BAD), "--json").json
    (problem,) = report["diagnostics"]
    assert not report["valid"]
    assert problem == {
        "file": "bad.yaml",
        "severity": "error",
        "code": "unknown-kind",
        "line": 8,
        "column": 19,
        "message": "there is no tool kind 'duble'",
        "hint": "did you mean 'double'?",
        "path": "",
        "help": "docs/diagnostics.md#unknown-kind",
    }


def test_a_file_of_tests_is_checked_as_that(noetl, folder, write, tmp_path):
    tests = tmp_path / "good.test.yaml"
    tests.write_text("cases:\n  - name: a\n    expect: { status: completed }\n")
    ran = noetl("validate", "good.test.yaml")
    assert (ran.code, ran.out) == (0, "good.test.yaml: valid tests; `noetl test good.test.yaml` runs them\n")
    tests.write_text("cases:\n  - name: a\n    expct: {}\n")
    ran = noetl("validate", "good.test.yaml")
    assert (ran.code, ran.out.splitlines()[-1]) == (2, "1 error")
    assert "good.test.yaml:3:5: unknown-key: `expct`" in ran.out
    write("good.yaml", BAD)
    tests.write_text("cases:\n  - name: a\n")
    ran = noetl("validate", "good.test.yaml")
    assert ran.code == 2 and "good.yaml is not valid: there is no tool kind 'duble'" in ran.out


@pytest.mark.parametrize(("version", "code"), [("noetl.io/v1", 0), ("noetl.io/v3", 2), ("noetl.io/v20", 2)])
def test_an_earlier_version_runs_as_it_is_and_a_later_one_does_not(noetl, write, tmp_path, version, code):
    file = tmp_path / write("good.yaml", GOOD)
    file.write_text(file.read_text().replace("noetl.io/v2", version))
    ran = noetl("validate", "good.yaml")
    assert ran.code == code, ran.out
    assert ("older-dialect" in ran.out) is (code == 0)
    assert (f"apiVersion is '{version}'" in ran.out) is (code == 2)


def test_a_state_machine_is_one_error(noetl, tmp_path):
    (tmp_path / "rest.json").write_text(
        '{"StartAt": "Rest", "States": {"Rest": {"Type": "Pass", "End": true}}}'
    )
    ran = noetl("validate", "rest.json")
    assert (ran.code, ran.out.splitlines()[-1]) == (2, "1 error")
    assert "state machine of AWS Step Functions" in ran.out and "docs/other-systems.md" in ran.out


def test_notes_are_shown_where_they_are_asked_for_and_refuse_nothing(noetl, write):
    code = "workflow:\n  - step: start\n    tool:\n      kind: python\n      code: |\n        import json\n        import os\n"
    file = write("code.yaml", code)
    assert noetl("validate", file).out.endswith("valid\n")
    ran = noetl("validate", file, "--notes")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "1 note")
    assert "code.yaml:12:9: note: own-process: " in ran.out and "`import os`" in ran.out
    (report,) = noetl("validate", file, "--notes", "--strict", "--json").json
    assert report["valid"] and [one["severity"] for one in report["diagnostics"]] == ["note"]
    write("code.yaml", code.replace("import os", "import re"))
    assert noetl("validate", file, "--notes").out.endswith("valid\n")
