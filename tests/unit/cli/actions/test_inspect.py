"""list, status, events, result, replay, validate, graph, schema, doctor, help, and the live view."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from noetl.adapters.embedded.files import FileResultStore
from noetl.cli.actions.payload import parse_set, parse_value
from noetl.cli.commands import doctor
from noetl.cli.render import live
from noetl.cli.render.event_stream import StoreFeed, TaskLog
from noetl.cli.render.output import duration, one_line, printable
from noetl.runtime.settings import Settings
from noetl.runtime.storage_settings import StorageSettings
from noetl.services.history.progress import StepRun
from tests.parts import over
from tests.unit.cli.actions.test_execute import FAILS, GREET, LOOPS, PARKS
from tests.unit.cli.fake_runtime import Database, MemoryRuntime
from tests.waiting import PATIENCE


def test_status_shows_steps_in_the_order_they_began(noetl, write):
    noetl("run", write("greet.yaml", GREET))
    shown = noetl("status").out.splitlines()
    assert shown[1].startswith("completed  started ")
    assert [line.split()[:2] for line in shown[2:]] == [["start", "done"], ["done", "done"]]
    view = noetl("status", "latest", "--json").json[0]
    assert [(s["step"], s["status"]) for s in view["steps"]] == [("start", "done"), ("done", "done")]
    assert view["outstanding"] == {"commands": 0, "timers": 0, "outbox": 0, "lost": 0}


def test_status_of_a_failure_has_error_and_hint(noetl, write):
    noetl("run", write("fails.yaml", FAILS))
    ran = noetl("status", "latest")
    assert ran.code == 0
    assert "error: the pipe burst" in ran.out
    assert "hint: call a plumber" in ran.out
    error = noetl("status", "latest", "--json").json[0]["error"]
    assert (error["kind"], error["step"], error["retryable"]) == ("server_error", "start", True)


def test_lists_and_status_tell_time_at_work_and_redrives(noetl, write):
    noetl("run", write("fails.yaml", FAILS))
    assert "redriven" not in noetl("status").out
    assert "  start to end " in noetl("status").out.splitlines()[1]
    noetl("redrive", "latest")
    assert noetl("status").out.splitlines()[1].endswith(", redriven 1×")
    header = noetl("list").out.splitlines()[0].split("  ")
    assert [word.strip() for word in header if word][3:5] == ["START TO END", "AT WORK"]
    (listed,) = noetl("list", "--json").json
    assert listed["rounds"] == 1 and listed["active_seconds"] >= 0


def test_status_of_a_loop_counts_items(noetl, write):
    noetl("run", write("loops.yaml", LOOPS))
    loop = noetl("status", "--json").json[0]["steps"][0]["loop"]
    assert loop == {"total": 3, "done": 3, "failed": 0, "issued": 3, "mode": "parallel"}


def test_analyze_tells_what_to_try_next(noetl, write):
    noetl("run", write("parks.yaml", PARKS))
    told = noetl("analyze")
    assert told.code == 0 and "stuck" in told.out and "!  parked: step" in told.out
    assert "try: `noetl ctx patch" in told.out
    noetl("run", write("fails.yaml", FAILS))
    (found,) = noetl("analyze", "latest", "--json").json
    assert [one["kind"] for one in found["findings"]] == ["failed_step"]
    noetl("run", write("greet.yaml", GREET))
    assert "nothing is wrong" in noetl("analyze").out


def test_list_is_newest_first_and_filters(noetl, write):
    assert noetl("list").code == 0
    noetl("run", write("greet.yaml", GREET))
    noetl("run", write("fails.yaml", FAILS))
    noetl("run", write("parks.yaml", PARKS))
    assert [e["status"] for e in noetl("list", "--json").json] == ["waiting", "failed", "completed"]
    assert [e["name"] for e in noetl("list", "--json", "--status", "failed").json] == ["fails"]
    assert [e["name"] for e in noetl("list", "--json", "-n", "1").json] == ["parks"]
    assert noetl("list", "--json", "--status", "running").json == []


def test_events_speak_both_vocabularies(noetl, write):
    noetl("run", write("greet.yaml", GREET))
    stored = [e["event_type"] for e in noetl("events", "--json").json]
    formal = [e["event_type"] for e in noetl("events", "--json", "--vocabulary", "formal").json]
    assert stored.count("step.exit") == formal.count("step.finished") == 2
    assert formal[:4] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "playbook.started",
        "workflow.started",
    ]
    assert formal[-2:] == ["workflow.finished", "playbook.processed"]
    lines = noetl("events", "latest", "-f").out.splitlines()
    assert len(lines) == len(stored)


def test_result_is_printed_whole_and_alone(noetl, write):
    noetl("run", write("loops.yaml", LOOPS))
    assert json.loads(noetl("result").out) == [2, 4, 6]
    assert noetl("result", "--json").out == "[2,4,6]\n"
    noetl("run", write("parks.yaml", PARKS))
    ran = noetl("result")
    assert (ran.code, ran.out) == (2, "")
    assert "is waiting" in ran.err


def test_text_that_no_encoding_has_is_printed_as_an_escape(noetl, write):
    steps = 'workflow:\n  - step: start\n    tool: { kind: noop, args: { half: "{{ workload.half }}" } }\n'
    ran = noetl("run", write("half.yaml", steps), "-q", "--payload", "-", stdin='{"half": "\\ud800"}')
    assert (ran.code, json.loads(ran.out)) == (0, {"half": "\ud800"}), ran.err
    assert json.loads(noetl("result").out) == {"half": "\ud800"}


def test_a_large_result_comes_from_where_it_lies(noetl, write):
    noetl(
        "run",
        write(
            "big.yaml",
            "workflow:\n  - step: start\n    tool: { kind: double, value: \"{{ 'x' * 60000 }}\" }\n",
        ),
    )
    assert len(noetl("result").out) == 120_001
    shown = noetl("run", "big.yaml").out
    assert len(shown) < 6_000
    assert "result: text of 120,000 characters" in shown and "next:   noetl result latest" in shown
    assert "result_ref" not in shown


def test_a_loop_whose_results_are_too_large_to_travel_is_printed_as_a_list(noetl, write):
    steps = LOOPS.replace("[1, 2, 3]", "\"{{ ['a', 'b', 'c'] }}\"").replace("iter.n }}", "iter.n * 20000 }}")
    ran = noetl("run", write("wide.yaml", steps), "-q")
    assert ran.code == 0, ran.err
    assert [(item[0], len(item)) for item in json.loads(ran.out)] == [
        ("a", 40_000),
        ("b", 40_000),
        ("c", 40_000),
    ]


def test_a_result_whose_bytes_are_gone_says_so(noetl, write, database):
    noetl(
        "run",
        write(
            "big.yaml",
            "workflow:\n  - step: start\n    tool: { kind: double, value: \"{{ 'x' * 60000 }}\" }\n",
        ),
    )
    database.results.delete_execution(database.store.executions(limit=1)[0].execution_id)
    ran = noetl("result")
    assert ran.code == 1
    assert "is not available" in ran.err


def test_replay_agrees_until_somebody_touches_the_database(noetl, write, database):
    noetl("run", write("loops.yaml", LOOPS))
    noetl("run", write("greet.yaml", GREET))
    ran = noetl("replay", "--all")
    assert ran.code == 0, ran.out
    assert ran.out.splitlines()[-1] == "2 executions replayed, 0 differ"
    record = database.store.executions(limit=1)[0]
    _tamper(database, record.execution_id)
    ran = noetl("replay", "latest", "--json")
    assert (ran.code, ran.json[0]["agrees"]) == (1, False)
    assert ran.json[0]["differences"][0]["path"] == "slots.step.start.data"
    assert "stored 9, history says 8" in noetl("replay", "latest").out


def _tamper(database: Database, execution_id: int) -> None:
    slots = dict(database.store.slots(execution_id))
    changed = {**slots[("step", "start")], "data": 9}
    database.store.slots = lambda one: {**slots, ("step", "start"): changed} if one == execution_id else slots


def test_validate_reports_all_files(noetl, write, tmp_path):
    write("good.yaml", GREET)
    write("bad.yaml", "workflow:\n  - step: start\n    tool: { kind: duble }\n")
    (tmp_path / "other.yaml").write_text("name: not a playbook\n")
    assert noetl("validate", "good.yaml").code == 0
    ran = noetl("validate", ".")
    assert ran.code == 2
    assert "bad.yaml:8:19:" in ran.out
    assert "2 playbooks, 1 refused" in ran.out
    reports = {
        report["file"]: report["valid"]
        for report in noetl("validate", "good.yaml", "bad.yaml", "--json").json
    }
    assert reports == {"good.yaml": True, "bad.yaml": False}
    assert noetl("validate", "none.yaml").code == 2


def test_strict_refuses_warnings(noetl, write):
    name = write("entry.yaml", "workflow:\n  - { step: start, tool: { kind: noop } }\n  - step: never\n")
    relaxed, strict = noetl("validate", name), noetl("validate", name, "--strict")
    assert (relaxed.code, strict.code) == (0, 2)
    assert "1 warning" in relaxed.out


def test_graph_and_schema(noetl, write, tmp_path):
    graph = noetl("graph", write("greet.yaml", GREET))
    assert graph.out.startswith("flowchart TD")
    assert "-->" in graph.out
    assert noetl("schema", "-o", "schema.json").code == 0
    schema = json.loads((tmp_path / "schema.json").read_text())
    assert schema == json.loads(noetl("schema").out)
    assert "$schema" in schema


@over(
    ("text", "value"),
    [
        ("1", 1), ("-2.5", -2.5), ("true", True), ("null", None), ("", None), ("on", "on"), ("1:30", "1:30"), ("0x1F", 31),
        ("00123456789012345678901234", 123456789012345678901234), ("hello # world", "hello # world"), ("a: b", "a: b"),
        ("[1, 2]", [1, 2]), ('{"a": 1}', {"a": 1}), ('"7"', "7"), ("{{ x }}", "{{ x }}"), ("=", "="), ("*anchor", "*anchor"),
        ("1e999", "1e999"), (".nan", ".nan"), ("  spaced  ", "  spaced  "), ("9" * 4000, 10**4000 - 1),
    ],
)  # fmt: skip
def test_values_of_set_are_typed_like_yaml(text, value):
    found = parse_value(text)
    assert (found, type(found)) == (value, type(value))


def test_set_keeps_equal_signs_of_the_value():
    assert parse_set("query=a=b") == (["query"], "a=b")


@over(
    ("milliseconds", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1240, "1.24 s"), (185_000, "3m 05s"), (7_620_000, "2h 07m")],
)
def test_durations_are_readable(milliseconds, text):
    assert duration(milliseconds) == text


def test_a_printed_line_keeps_its_columns_but_steers_no_terminal():
    assert printable("a\tb   c\x1b[2J  ", 40) == "a   b   c\\x1b[2J"
    assert printable("abcdef", 4) == "abc…"


def test_one_line_cuts():
    assert one_line("a\nb  c", 10) == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("\x1b[31mred\x07", 40) == "\\x1b[31mred\\x07"


def test_the_live_view_draws_states_loops_and_output(write, noetl, database, monkeypatch):
    noetl("run", write("loops.yaml", LOOPS))
    noetl("run", write("fails.yaml", FAILS))
    page = io.StringIO()
    monkeypatch.setattr(
        live, "Console", lambda: Console(file=page, force_terminal=True, width=100, height=30)
    )
    log = TaskLog()
    log.add("a task says hello")
    ids = [info.execution_id for info in MemoryRuntime(database).store.executions(limit=2)]
    view = live.LiveView(StoreFeed(database.store), ids, log)
    view.finish()
    shown = page.getvalue()
    for part in ("a task says hello", "3/3 items", "✓", "✗", "the pipe burst", "elapsed"):
        assert part in shown


def test_the_live_view_keeps_to_the_room_there_is():
    runs = [StepRun(n, f"s{n}", "done", 0.0, 1.0) for n in range(100)]
    runs[3] = StepRun(3, "s3", "running", 0.0)
    shown = live.visible(runs, 5)
    assert [run.run for run in shown] == [3, 96, 97, 98, 99]
    assert live.visible(runs[:4], 5) == runs[:4]


def test_doctor_tries_the_tiers_of_results(tmp_path, monkeypatch):
    def check(**storage):
        return doctor.check_results(Settings(tmp_path, storage=StorageSettings(**storage)))

    assert check().detail == "large ones go to file; there are db, kv, memory as well"
    shared = doctor.check_results(Settings(tmp_path, database_url="postgresql://127.0.0.1:1/noetl"))
    assert "large ones go to file, which processes with another home folder do not see" in shared.detail
    good = check(pvc_dir=str(tmp_path / "."), cloud_tier="pvc")
    assert (good.status, good.detail) == (
        "ok",
        "large ones go to disk; there are db, file, kv, memory, pvc as well",
    )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], "nothing is left behind"
    away = check(
        minio_endpoint="http://127.0.0.1:9", minio_bucket="b", minio_access_key="a", minio_secret_key="s"
    )
    assert away.status == "failed" and "the tier minio" in away.detail and away.fix

    with monkeypatch.context() as patched:
        patched.setattr(FileResultStore, "put", lambda self, uri, data: None)
        patched.setattr(FileResultStore, "get", lambda self, uri: b"1")
        assert "replaces objects" in check(pvc_dir=str(tmp_path)).detail


def test_doctor_names_what_is_wrong_with_a_fix(tmp_path):
    assert doctor.check_python((3, 10, 1)).status == "failed"
    assert doctor.check_python((3, 12, 1)).status == "ok"
    home = tmp_path / "new" / "home"
    assert doctor.check_home(home).status == "ok"
    home.chmod(0o755)
    told = doctor.check_home(home)
    assert (told.status, told.fix) == ("warning", f"chmod go-rw {home}")
    (tmp_path / "file").write_text("")
    assert doctor.check_home(tmp_path / "file").status == "failed"
    secrets = tmp_path / "secrets.yaml"
    assert doctor.check_credentials(None).status == "ok"
    assert doctor.check_credentials(secrets).status == "failed"
    secrets.write_text("warehouse: { type: postgres, data: {} }")
    secrets.chmod(0o644)
    assert doctor.check_credentials(secrets).fix == f"chmod 600 {secrets}"
    secrets.chmod(0o600)
    assert doctor.check_credentials(secrets).status == "ok"
    secrets.write_text("- a list")
    assert doctor.check_credentials(secrets).status == "failed"


def test_doctor_can_do_without_node(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = doctor.check_node()
    assert found.status == "warning" and "noetl local" in found.fix


def test_doctor_reports_a_database_that_does_not_answer(noetl, monkeypatch):
    monkeypatch.setenv("NOETL_DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:1/none?connect_timeout=1")
    ran = noetl("doctor", "--json")
    found = {check["name"]: check for check in ran.json}
    assert ran.code == 3
    assert found["database"]["status"] == "failed"
    assert found["database"]["fix"]
    assert "secret" not in ran.out
    assert found["python"]["status"] == "ok"


def test_a_setting_that_cannot_be_understood_is_named(noetl, monkeypatch):
    monkeypatch.setenv("NOETL_IO_WORKERS", "many")
    ran = noetl("doctor")
    assert ran.code == 3
    assert "NOETL_IO_WORKERS" in ran.out


def test_help_of_every_command_works(noetl):
    assert noetl("--help").code == 0
    for words in (
        "run",
        "resume",
        "cancel",
        "list",
        "status",
        "events",
        "result",
        "replay",
        "validate",
        "graph",
        "schema",
    ):
        ran = noetl(words, "--help")
        assert (ran.code, "Usage:" in ran.out) == (0, True)
    assert noetl("ctx", "patch", "-h").code == noetl("db", "status", "-h").code == 0
    assert noetl("version").out.startswith("noetl 0.")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    program = "import sys\nsys.argv = ['noetl', 'schema']\nfrom noetl.cli.main import main\nraise SystemExit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(tmp_path)
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(PATIENCE) == 0


def test_views_are_plain_json(noetl, write, database):
    from noetl.services.queries.read_execution import describe

    noetl("run", write("loops.yaml", LOOPS))
    execution_id = database.store.executions(limit=1)[0].execution_id
    view = describe(database.store, database.programs, execution_id, now=database.now)
    assert msgspec.json.decode(msgspec.json.encode(view.to_dict())) == view.to_dict()
