"""run, resume, cancel and ctx patch: exit codes, what is printed, and that nothing shows a traceback."""

from __future__ import annotations

import json
import re

import pytest

from noetl.adapters.embedded.credentials import FileCredentials
from noetl.services.worker.worker_credentials import KnownCredentials

GREET = """\
workload: { n: 4, who: nobody, limits: { days: 1, hours: 2 } }
workflow:
  - step: start
    tool: { kind: double, value: "{{ workload.n }}" }
    next: { arcs: [ { step: done } ] }
  - step: done
    tool: { kind: noop, args: { n: "{{ start }}", who: "{{ workload.who }}", limits: "{{ workload.limits }}" } }
"""
FAILS = """\
workflow:
  - step: start
    tool: { kind: boom }
"""
PARKS = """\
workflow:
  - step: start
    spec:
      policy:
        admit:
          rules:
            - { when: "{{ ctx.approved is defined }}", then: { allow: true } }
            - { else: { then: { allow: false } } }
    tool: { kind: noop, args: { by: "{{ ctx.approved }}" } }
"""
LOOPS = """\
workflow:
  - step: start
    loop: { in: [1, 2, 3], iterator: n, spec: { mode: parallel } }
    tool: { kind: double, value: "{{ iter.n }}" }
"""
INTERRUPTS = """\
workflow:
  - step: start
    tool: { kind: interrupt }
"""


def test_a_result_is_printed_and_the_code_is_zero(noetl, write):
    ran = noetl("run", write("greet.yaml", GREET))
    assert ran.code == 0, ran.err
    assert "test/greet version 1" in ran.out
    assert "start" in ran.out
    assert '"n": 8' in ran.out
    assert "completed in" in ran.out


def test_quiet_prints_the_result_alone(noetl, write):
    ran = noetl("run", write("greet.yaml", GREET), "--quiet")
    assert json.loads(ran.out)["n"] == 8


def test_set_is_typed_nests_and_wins_over_the_payload(noetl, write):
    ran = noetl(
        "run", write("greet.yaml", GREET), "-q", "--payload", "-", "--set", "n=21", "--set", "limits.days=7",
        "--set", "who=on", stdin="n: 1\nwho: somebody\n",
    )  # fmt: skip
    assert json.loads(ran.out) == {"n": 42, "who": "on", "limits": {"days": 7, "hours": 2}}


def test_json_gives_events_and_a_last_line(noetl, write):
    ran = noetl("run", write("greet.yaml", GREET), "--json")
    *events, last = ran.json
    assert set(last) == {"execution_id", "status", "result", "error", "duration_ms"}
    assert (ran.code, last["status"], last["result"]["n"], last["error"]) == (0, "completed", 8, None)
    assert isinstance(last["execution_id"], str)
    names = [event["event_type"] for event in events]
    assert names[0] == "playbook.initialized"
    assert names[-1] == "playbook.completed"
    assert len({event["event_id"] for event in events}) == len(events)


def test_a_loop_tells_its_items(noetl, write):
    ran = noetl("run", write("loops.yaml", LOOPS))
    assert "3/3 items" in ran.out
    ran = noetl("run", "loops.yaml", "--json")
    assert [e["meta"]["loop_iteration_index"] for e in ran.json[:-1] if e["event_type"] == "loop.item"] == [
        0,
        1,
        2,
    ]
    assert ran.json[-1]["result"] == [2, 4, 6]


def test_a_failed_execution_is_one_and_tells_why(noetl, write):
    ran = noetl("run", write("fails.yaml", FAILS))
    assert ran.code == 1
    assert "failed in" in ran.err
    assert "the pipe burst" in ran.err
    assert "burst" in ran.err
    assert "call a plumber" in ran.err
    assert "Traceback" not in ran.err + ran.out
    ran = noetl("run", "fails.yaml", "--json")
    assert (ran.code, ran.json[-1]["status"], ran.json[-1]["error"]["message"]) == (
        1,
        "failed",
        "the pipe burst",
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "nowhere.yaml"], "there is no file nowhere.yaml"),
        (["run", "grete.yaml"], "did you mean greet.yaml?"),
        (["run", "test/gret"], "did you mean 'test/greet'?"),
        (["run", "test/greet@9"], "test/greet@9"),
        (["run", "."], "is a folder"),
        (["run", "greet.yaml", "--set", "n"], "is not name=value"),
        (["run", "greet.yaml", "--set", "a..b=1"], "is not name=value"),
        (["run", "greet.yaml", "--set", "a=[1, 2"], "begins like JSON but is not"),
        (["run", "greet.yaml", "--payload", "nothing.json"], "nothing.json cannot be read"),
        (["run", "greet.yaml", "--payload", '{"n": 1}'], "--set NAME=VALUE sets a single value"),
        (["run", "greet.yaml", "--payload", "list.json"], "a payload is a mapping, not a list"),
        (["run", "greet.yaml", "--payload", "deep.yaml"], "deep.yaml:1:"),
        (["run", "greet.yaml", "--payload", "deep.json"], "nested"),
        (["run", "greet.yaml", "--payload", "nan.json"], "nan.json: NaN is not JSON"),
        (["run", "greet.yaml", "--payload", "cut.json"], "cut.json:2:1: "),
        (["run", "greet.yaml", "--timeout", "soon"], "is not a duration"),
        (["run", "latin.yaml"], "is not UTF-8"),
        (["register", "latin.yaml"], "latin.yaml is not UTF-8 text (byte 9)"),
        (["graph", "."], ". cannot be read: Is a directory"),
        (["run", "bad\0name.yaml"], "cannot be read"),
        (["status", "12x"], "is not an execution id"),
        (["status", "9" * 30], "is not an execution id"),
        (["status", "0"], "is not an execution id"),
        (["status", "77"], "there is no execution 77"),
        (["events", "latest", "--vocabulary", "klingon"], "is not a vocabulary"),
        (["list", "--status", "done"], "is not a status"),
        (["replay"], "name one execution, or use --all"),
        (["ctx", "patch", "latest"], "nothing to set"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_usage_is_two_and_says_what_to_do(noetl, write, tmp_path, words, told):
    noetl("run", write("greet.yaml", GREET))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 100_000)
    (tmp_path / "deep.json").write_text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")
    (tmp_path / "nan.json").write_text('{"n": NaN}')
    (tmp_path / "cut.json").write_text('{"n": 1,\n')
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    ran = noetl(*words)
    assert ran.code == 2, (ran.out, ran.err)
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_a_missing_credential_is_shown_in_the_playbook(noetl, write, database, tmp_path):
    file = tmp_path / "keys.yaml"
    file.write_text("shop_live: { type: bearer, data: { token: x } }")
    file.chmod(0o600)
    database.names = KnownCredentials(database.credentials.store, FileCredentials(file))
    text = "keychain: [{ name: shop, kind: bearer }]\nworkflow:\n  - { step: start, tool: { kind: noop } }\n"
    ran = noetl("run", write("buy.yaml", text))
    assert ran.code == 2 and "needs the credential 'shop', which does not exist" in ran.err
    (line,) = re.findall(r"^  at: buy.yaml:(\d+):\d+$", ran.err, re.MULTILINE)
    assert "keychain: [{ name: shop" in (tmp_path / "buy.yaml").read_text().splitlines()[int(line) - 1]


def test_an_invalid_playbook_is_refused_before_anything_is_opened(noetl, write, database):
    ran = noetl(
        "run", write("bad.yaml", "workflow:\n  - step: start\n    tool: { kind: duble }\n    wehn: x\n")
    )
    assert ran.code == 2
    assert database.opened == 0
    assert "bad.yaml:8:19: " in ran.err
    assert "^" in ran.err
    assert ran.err.strip().endswith("errors") or ran.err.strip().endswith("error")
    ran = noetl("run", "bad.yaml", "--json")
    assert (ran.code, ran.json[-1]["status"], ran.json[-1]["execution_id"]) == (2, "invalid", None)
    assert ran.json[-1]["error"]["details"]["diagnostics"][0]["line"] == 8


def test_a_registered_playbook_runs_by_path_and_version(noetl, write):
    noetl("run", write("greet.yaml", GREET))
    write("greet.yaml", GREET.replace("n: 4", "n: 5"))
    noetl("run", "greet.yaml")
    assert json.loads(noetl("run", "test/greet", "-q").out)["n"] == 10
    assert json.loads(noetl("run", "test/greet@1", "-q").out)["n"] == 8


def test_a_playbook_finds_those_below_it_that_it_calls(noetl, write, tmp_path):
    for folder in ("parts/deep", "parts/again"):
        (tmp_path / folder).mkdir(parents=True)
    call = "workflow:\n  - step: start\n    tool: { kind: playbook, path: %s, payload: { n: 8 } }\n"
    write("parts/deep/child.yaml", GREET)
    write("parts/middle.yaml", call % "test/child")
    write("parts/other.yaml", GREET)
    write("parts/twice.yaml", GREET)
    write("parts/again/twice.yaml", GREET)
    ran = noetl("run", write("parent.yaml", call % "test/middle"))
    assert ran.code == 0, ran.err
    assert '"n": 16' in ran.out
    assert noetl("run", "test/child").code == 0
    assert noetl("run", "test/other").code != 0
    assert noetl("run", write("parent.yaml", call % "test/twice")).code != 0


def test_a_playbook_finds_those_beside_it(noetl, write):
    write("child.yaml", GREET)
    write("broken.yaml", "workflow: nonsense\n")
    steps = "workflow:\n  - step: start\n    tool: { kind: playbook, path: test/child, payload: { n: 8 } }\n"
    ran = noetl("run", write("parent.yaml", steps))
    assert ran.code == 0, ran.err
    assert '"n": 16' in ran.out
    assert (
        "warning: broken.yaml is not registered as a sub-playbook" in ran.err
        and "noetl validate broken.yaml" in ran.err
    )
    listed = noetl("list", "--children", "--json").json
    assert {e["name"]: e["parent_execution_id"] is None for e in listed} == {"parent": True, "child": False}
    (root,) = noetl("list", "--json").json
    assert root["name"] == "parent"
    child = next(e for e in listed if e["name"] == "child")
    assert f"started {child['execution_id']}  test/child  completed" in noetl("status").out
    assert listed[0]["name"] == "child"
    assert noetl("status", "latest", "--json").json[0]["name"] == "parent"


def test_register_keeps_the_version_of_what_did_not_change(noetl, write):
    name = write("greet.yaml", GREET)
    assert noetl("register", name).out == noetl("register", ".").out == "test/greet version 1\n"
    write("greet.yaml", GREET.replace("n: 4", "n: 5"))
    assert noetl("register", name, "--json").json[0]["version"] == 2
    write("greet.yaml", "workflow: nonsense\n")
    assert noetl("register", name).code == 2


def test_waiting_for_approval_is_zero_and_tells_how_to_approve(noetl, write):
    ran = noetl("run", write("parks.yaml", PARKS))
    assert ran.code == 0, ran.err
    assert "start is admitted when: ctx.approved is defined" in ran.out
    execution_id = ran.out.split()[1]
    assert f"noetl ctx patch {execution_id} --set approved=true" in ran.out
    assert noetl("status", "latest", "--json").json[0]["status"] == "waiting"
    assert execution_id in noetl("list", "--status", "waiting").out
    ran = noetl("ctx", "patch", execution_id, "--set", "approved=Ada", "--reason", "looks right", "-q")
    assert (ran.code, json.loads(ran.out)) == (0, {"by": "Ada"})
    patched = [e for e in noetl("events", execution_id, "--json").json if e["event_type"] == "ctx.patched"]
    assert patched[0]["payload"]["reason"] == "looks right"
    assert patched[0]["meta"]["principal"].startswith("user:")
    again = noetl("ctx", "patch", execution_id, "--set", "approved=Bob")
    assert (again.code, "is completed and cannot be changed" in again.err) == (2, True)


def test_an_interrupt_keeps_the_execution_and_resume_goes_on(noetl, write):
    ran = noetl("run", write("interrupts.yaml", INTERRUPTS))
    assert ran.code == 130
    execution_id = ran.out.split()[1]
    assert f"noetl resume {execution_id}" in ran.err
    assert "Traceback" not in ran.err
    assert noetl("status", execution_id, "--json").json[0]["status"] == "running"
    ran = noetl("resume")
    assert (ran.code, "went on" in ran.out) == (0, True)
    assert noetl("resume").out.strip() == "nothing to resume"


def test_a_timeout_is_an_interruption(noetl, write):
    ran = noetl("run", write("greet.yaml", GREET), "--timeout", "1ms", "--json")
    assert (ran.code, ran.json[-1]["status"]) == (130, "running")
    assert noetl("resume", "latest", "-q").code == 0


def test_resume_of_an_ended_execution_tells_its_result(noetl, write):
    noetl("run", write("greet.yaml", GREET))
    assert json.loads(noetl("resume", "latest", "-q").out)["n"] == 8
    noetl("run", write("fails.yaml", FAILS))
    assert noetl("resume", "latest").code == 1


def test_cancel_ends_an_execution_once(noetl, write):
    noetl("run", write("parks.yaml", PARKS))
    ran = noetl("cancel", "latest", "--reason", "changed my mind", "--json")
    assert (ran.code, ran.json[0]["status"]) == (0, "cancelled")
    shown = noetl("status", "latest")
    assert "reason: changed my mind" in shown.out
    assert noetl("cancel", "latest").code == 2
    assert noetl("result", "latest").code == 1


def test_a_defect_of_ours_is_one_line_and_a_log(noetl, write, monkeypatch, tmp_path):
    def broken(*args, **kwargs):
        raise RuntimeError("wires\ncrossed")

    from noetl.cli.client import runtime_access

    monkeypatch.setattr(runtime_access, "open_local", broken)
    ran = noetl("run", write("greet.yaml", GREET))
    assert ran.code == 3
    assert ran.err.splitlines()[0] == "error: unexpected RuntimeError: wires crossed"
    log = tmp_path / "home" / "logs" / "cli.log"
    assert str(log) in ran.err
    assert "Traceback" in log.read_text()
    assert "Traceback" not in ran.err
    monkeypatch.setenv("NOETL_DEBUG", "1")
    assert "Traceback" in noetl("run", "greet.yaml").err


def test_retries_and_task_output_are_shown(noetl, write):
    steps = """\
workflow:
  - step: start
    tool:
      kind: boom
      times: 2
      spec:
        policy:
          rules:
            - { when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3, delay: 0 } }
    next: { arcs: [ { step: twice } ] }
  - step: twice
    tool: { kind: double, value: 3 }
"""
    ran = noetl("run", write("retries.yaml", steps))
    assert ran.code == 0, ran.err
    assert "3 calls" in ran.out
    assert "  | " in ran.out
    assert "doubling 3" in ran.out
