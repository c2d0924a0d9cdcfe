"""The same commands at a server: what is shown, refused and changed there is what it would be here."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from urllib.parse import quote, urlsplit

import pytest
from urllib3.exceptions import NewConnectionError

from noetl.api.history import event_pages
from noetl.cli.client import event_polling, http_client, runtime_access
from noetl.services.history.history_pages import history
from noetl.services.history.progress import Progress, read_progress
from tests.unit.api.ground import BROKEN, FAILING, GATED, HELLO
from tests.unit.cli.actions.test_execute import FAILS, GREET, LOOPS, PARKS
from tests.unit.cli.fake_runtime import MemoryRuntime
from tests.unit.cli.far import TOKEN, URL, Answer, Far

SCHEDULED = HELLO.replace(
    "path: demo/hello", "path: demo/daily, schedule: {cron: 0 6 * * *, timezone: Europe/Berlin}"
)
LOOP = HELLO.replace("demo/hello", "demo/loop").replace(
    'tool: {kind: double, value: "{{ workload.n }}"}',
    'loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}\n    tool: {kind: double, value: "{{ iter.n }}"}',
)
ASKS = HELLO.replace("demo/hello", "demo/asks").replace(
    'double, value: "{{ workload.n }}"', "wait, approve: true"
)
VARS = HELLO.replace("demo/hello", "demo/vars").replace(
    '"{{ workload.n }}"}',
    '"{{ workload.n }}"}\n    vars: {total: "{{ result }}", gone: "no more"}\n    next: hold',
) + GATED.partition("    next: {arcs: [{step: gate}]}\n")[2].replace("gate", "hold")


@pytest.fixture
def far(noetl, monkeypatch, tmp_path) -> Far:
    """A server, and its context in use. Whatever runs here has the same database."""
    made = Far()
    monkeypatch.setattr(runtime_access, "open_reading", lambda home: MemoryRuntime(made.ground.database))
    monkeypatch.setattr(runtime_access, "kinds", lambda: made.ground.database.kinds)
    monkeypatch.setattr(http_client, "transport", lambda url: made.send)
    monkeypatch.setattr(event_polling, "SOONEST", 0.01)
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert noetl("context", "add", "far", "--url", f"{URL}/", "--token-file", "token").code == 0
    return made


@pytest.fixture
def anywhere(noetl, far):
    """Runs a command here and there; gives both."""
    return lambda *words: (noetl(*words), noetl(*words, "--remote"))


# --- looking --------------------------------------------------------------------------------------


LOOKS = [
    "list --json",
    "list --status completed --json",
    "status ID --json",
    "status latest",
    "events ID --json",
    "events ID --json --vocabulary formal",
    "events ID",
    "events ID --type step.exit --type call.done --step start --json",
    "events ID --step start --last 3 --json",
    "events ID --vocabulary formal --type step.finished",
    "events ID --type step.failed --step nowhere",
    "logs ID",
    "logs ID --json",
    "logs ID --search DOUBLING --last 2",
    "logs ID --search doubling --item 1 --attempt 1 --json",
    "logs ID --last 2 --json",
    "logs ID --run 1 --step nowhere",
    "result ID --json",
    "result ID",
    "vars list ID --json",
    "vars list ID",
]


@pytest.mark.parametrize(
    "text", [HELLO, FAILING, LOOP, GATED, VARS], ids=["done", "failed", "loop", "waiting", "vars"]
)
def test_an_execution_looks_the_same_from_here_and_there(far, anywhere, text, monkeypatch):
    execution_id = far.ground.run(text)
    monkeypatch.setattr(time, "time", lambda: far.ground.database.now)
    for words in LOOKS:
        here, there = anywhere(*words.replace("ID", execution_id).split())
        told = there.out.replace(" --remote", ""), there.err.replace(" --remote", "")
        assert (told, there.code) == ((here.out, here.err), here.code)
        assert here.out or here.err or words.endswith("--json")


def test_lines_are_followed_until_the_execution_ends(noetl, far, monkeypatch):
    monkeypatch.setattr(event_polling, "PAGE", 2)
    far.ground.register(LOOP)
    execution_id, far.idle = far.ground.start("demo/loop"), 3
    told = noetl("logs", execution_id, "--follow", "--json", "--remote")
    assert [one["line"] for one in told.json] == ["doubling 1", "doubling 2", "doubling 3"]
    assert len(far.asked) > 4
    last = noetl(
        "logs", execution_id, "--last", "3", "--follow", "--search", "Doubling", "--json", "--remote"
    )
    assert last.json == told.json
    assert "no line that fits" in noetl("logs", execution_id, "--step", "none", "--remote").err


def test_a_long_history_and_a_long_list_come_in_pages(noetl, far, monkeypatch):
    monkeypatch.setattr(event_polling, "PAGE", 2)
    monkeypatch.setattr("noetl.cli.client.http_client.PAGE", 2)
    ids = sorted(far.ground.run() for _ in range(5))
    assert [one["execution_id"] for one in noetl("list", "--json", "--remote").json] == ids[::-1]
    assert len(noetl("list", "--json", "--remote", "-n", "3").json) == 3
    told = noetl("events", ids[0], "--json", "--remote").json
    assert [one["event_id"] for one in told] == [
        one.event_id for one in history(far.ground.store, int(ids[0]))
    ]
    assert told == noetl("events", ids[0], "-f", "--json", "--remote").json


def test_a_filter_reads_on_over_empty_pages(noetl, far, monkeypatch):
    monkeypatch.setattr(event_pages, "ROWS", 1)
    execution_id = far.ground.run(LOOP)
    for words in (("--type", "playbook.completed"), ("--type", "loop.item", "--step", "start")):
        here, there = noetl("events", execution_id, *words), noetl("events", execution_id, *words, "--remote")
        assert here.out and (there.out, there.err) == (here.out, here.err)
        assert noetl("events", execution_id, *words, "-f", "--remote").out == here.out
        assert noetl("events", execution_id, *words, "-n", "9", "--remote").code == 0


@pytest.mark.parametrize("remote", [(), ("--remote",)], ids=["here", "there"])
def test_an_unknown_event_type_is_refused_with_the_near_names(noetl, far, remote):
    refused = noetl("events", far.ground.run(), "--type", "step.fail", *remote)
    assert refused.code == 2 and "did you mean 'step.failed'" in refused.err
    none = noetl("events", far.ground.run(), "--type", "step.failed", *remote)
    assert (none.code, none.out) == (0, "") and "no event of execution" in none.err


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "damaged"])
def test_large_results_are_downloaded_without_telling_who_asks(noetl, far, kept):
    execution_id = far.ground.run()
    part = b'{"rows": [1, 2]}'
    digest = hashlib.sha256(part).hexdigest() if kept else "0" * 64
    result = {"large": {"kind": "result_ref", "ref": "noetl://execution/7/result/s/x", "sha256": digest}}
    link = {
        "ref": "noetl://execution/7/result/s/x",
        "url": f"{URL}/x?sig=1",
        "size": 16,
        "sha256": digest,
        "seconds": 9,
    }
    answer = {"execution_id": execution_id, "result": result, "complete": False, "downloads": [link]}
    far.troubles = [None, Answer(200, {}, json.dumps(answer).encode()), Answer(200, {}, part)]
    ran = noetl("result", execution_id, "--json", "--remote")
    method, url, headers, _ = far.asked[-1]
    assert (method, url) == ("GET", f"{URL}/x?sig=1") and TOKEN not in str(headers)
    if kept:
        assert (ran.code, ran.json) == (0, [{"large": {"rows": [1, 2]}}])
    else:
        assert (ran.code, ran.out) == (1, "") and "does not match its checksum" in ran.err


CSV = b"n,name\n1,Ann\n"


@pytest.mark.parametrize("there", [False, True], ids=["here", "there"])
def test_files_of_a_result_are_saved(noetl, far, tmp_path, there):
    uri = "noetl://execution/12/result/make/0b9e6f6e-0000-4000-8000-000000000000"
    far.ground.deps.results.put(uri, CSV)
    ref = {"kind": "result_ref", "ref": uri, "store": "memory", "size": len(CSV)}
    ref |= {"sha256": hashlib.sha256(CSV).hexdigest(), "meta": {"format": "csv", "content_type": "text/csv"}}
    blob = {**ref, "meta": {"format": "bytes"}}
    tool = f"tool: {{kind: noop, args: {json.dumps({'table': ref, 'again': ref, 'blob': blob})}}}"
    execution_id = far.ground.run(HELLO.replace('tool: {kind: double, value: "{{ workload.n }}"}', tool))
    shown = noetl("result", execution_id, "--json", *["--remote"][: int(there)]).json[0]
    assert shown["table"] == [{"n": "1", "name": "Ann"}] and shown["blob"]["ref"] == uri, "no value"
    if there:
        far.troubles = [None, None, *(Answer(200, {}, CSV) for _ in range(3))]
    ran = noetl("result", execution_id, "--save", "out", "--json", *["--remote"][: int(there)])
    assert ran.code == 0, ran.err
    files = {name: one["file"] for name, one in ran.json[0].items()}
    assert files == {"table": "out/make.csv", "again": "out/make-2.csv", "blob": "out/make.bin"}
    assert {(tmp_path / file).read_bytes() for file in files.values()} == {CSV}
    (tmp_path / "file").write_text("in the way")
    refused = noetl("result", execution_id, "--save", "file")
    assert refused.code == 2 and "cannot be written" in refused.err


@pytest.mark.parametrize("steps", [GREET, FAILS, LOOPS, PARKS], ids=["greet", "fails", "loops", "parks"])
def test_progress_is_the_same_from_events_and_from_rows(noetl, write, database, steps):
    noetl("run", write("some.yaml", steps))
    execution_id = int(noetl("list", "--json").json[0]["execution_id"])
    rows, events = read_progress(database.store, execution_id), Progress()
    for event in history(database.store, execution_id):
        events.add_event(event)
    assert events.terminal == rows.terminal
    assert (events.error, events.error_step, events.completed_steps) == (
        rows.error,
        rows.error_step,
        rows.completed_steps,
    )
    assert [_seen(run) for run in events.runs.values()] == [_seen(run) for run in rows.runs.values()]


def _seen(run):
    loop = run.loop and (run.loop.total, run.loop.done, run.loop.failed, run.loop.mode)
    times = (round(run.started, 4), run.ended and round(run.ended, 4))
    return run.run, run.step, run.status, run.attempts, loop, run.child, run.error, times


# --- running --------------------------------------------------------------------------------------


def test_a_file_is_registered_there_run_and_followed(noetl, far, tmp_path):
    (tmp_path / "hello.yaml").write_text(HELLO)
    ran = noetl("run", "hello.yaml", "--set", "n=4", "--remote")
    assert (ran.code, ran.err) == (0, "")
    assert "demo/hello version 1" in ran.out and "  start " in ran.out and ran.out.endswith("\n8\n")
    assert far.ground.database.catalog.get("demo/hello").source_name == "hello.yaml"
    *events, last = noetl("run", "demo/hello@1", "--json", "--remote").json
    assert (last["status"], last["result"], last["error"]) == ("completed", 42, None)
    assert [one["event_type"] for one in events][0 :: len(events) - 1] == [
        "playbook.initialized",
        "playbook.completed",
    ]
    assert noetl("run", "demo/hello", "-q", "--remote").out == "42\n"
    assert far.ground.store.info(int(last["execution_id"])).status == "completed"


def test_started_without_following_and_registered_with_a_schedule(noetl, far, tmp_path):
    (tmp_path / "daily.yaml").write_text(SCHEDULED)
    (here,) = noetl("register", "daily.yaml", "--json").json
    (there,) = noetl("register", "daily.yaml", "--json", "--remote").json
    assert {**there, "schedule": None} == {**here, "schedule": None}
    (started,) = noetl("exec", "demo/daily", "--set", "n=5", "--json", "--remote").json
    assert started["path"] == "demo/daily" and started["version"] == 1
    assert noetl("result", started["execution_id"], "--remote").out == "10\n"


def test_exec_here_leaves_it_to_whoever_runs(noetl, database, write):
    (started,) = noetl("exec", write("greet.yaml", GREET), "--json").json
    assert database.store.info(int(started["execution_id"])).version == 0
    assert noetl("resume", started["execution_id"]).code == 0
    assert database.store.info(int(started["execution_id"])).status == "completed"


@pytest.mark.parametrize("there", [(), ("--remote",)], ids=["here", "there"])
def test_exec_at_a_later_time_is_kept_listed_and_called_off(noetl, far, there, monkeypatch):
    """What is resumed in the meantime does not wait for it."""
    monkeypatch.setattr(runtime_access, "open_local", lambda home, **more: MemoryRuntime(far.ground.database))
    far.ground.register()
    assert "seconds, more than 31622400" in noetl("exec", "demo/hello", "--at", "+400d", *there).err
    (made,) = noetl("exec", "demo/hello", "--at", "+300d", "--json", *there).json
    assert made["status"] == "scheduled" and made["trigger_at"].endswith("Z")
    (past,) = noetl("exec", "demo/hello", "--at", "2020-01-01T00:00:00+02:00", "--json", *there).json
    assert "trigger_at" not in past
    (listed,) = noetl("list", "--status", "scheduled", "--json", *there).json
    assert listed["execution_id"] == made["execution_id"]
    assert made["execution_id"] not in noetl("resume").out, "it waits for nothing that starts later"
    assert noetl("cancel", made["execution_id"], *there).code == 0
    assert noetl("list", "--status", "scheduled", "--json", *there).json == []
    refused = noetl("exec", "demo/hello", "--at", "tomorrow", *there)
    assert refused.code == 2 and "'tomorrow' is not a time" in refused.err and "+90m" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "failing.yaml"], 1, "the pipe burst"),
        (["run", "broken.yaml"], 2, "unknown-kind"),
        (["run", "demo/helo"], 2, "did you mean 'demo/hello'?"),
        (["run", "demo/hello@7"], 2, "neither a file nor a registered playbook demo/hello@7"),
        (["exec", "nowhere.yaml"], 2, "there is no file nowhere.yaml"),
        (["status", "4711"], 2, "there is no execution 4711"),
        (["result", "latest"], 2, "nothing has been executed there yet"),
        (["cancel", "4711"], 2, "there is no execution 4711"),
        (["schedule", "show", "a/b?c"], 2, "there is no schedule 'a/b?c'"),
        (["list", "--status", "odd"], 2, "is not a status"),
        (["vars", "set", "4711"], 2, "nothing to set"),
        (["vars", "get", "4711", "x"], 2, "there is no execution 4711"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_refused_there_is_told_like_here(noetl, far, tmp_path, words, code, told):
    far.ground.register()
    for name, text in (("failing", FAILING), ("broken", BROKEN)):
        (tmp_path / f"{name}.yaml").write_text(text)
    ran = noetl(*words, "--remote")
    assert (ran.code, told in ran.err) == (code, True), ran.err
    assert "Traceback" not in ran.err


def test_an_invalid_playbook_is_told_with_the_lines_of_the_file_here(noetl, far, tmp_path):
    (tmp_path / "broken.yaml").write_text(BROKEN)
    here, there = noetl("run", "broken.yaml"), noetl("run", "broken.yaml", "--remote")
    assert here.err == there.err
    assert "broken.yaml:7:18: unknown-kind" in there.err and "^" in there.err
    assert noetl("run", "broken.yaml", "--json", "--remote").json[0]["status"] == "invalid"


def test_waiting_patched_and_done(noetl, far, tmp_path):
    (tmp_path / "gated.yaml").write_text(GATED)
    ran = noetl("run", "gated.yaml", "--remote")
    assert ran.code == 0
    assert "--set approved=true --remote" in ran.out
    ran = noetl("ctx", "patch", "latest", "--set", "approved=true", "--reason", "fine", "--remote")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "8"), ran
    told = [one for one in noetl("events", "--json", "--remote").json if one["event_type"] == "ctx.patched"]
    assert [(one["meta"]["principal"], one["payload"]["reason"]) for one in told] == [("token:ann", "fine")]
    ran = noetl("ctx", "patch", "latest", "--set", "approved=true", "--remote")
    assert ran.code == 2 and "execution_ended" in ran.err


def test_a_run_that_waits_for_an_answer_ends_and_says_how_to_answer(noetl, far, tmp_path):
    (tmp_path / "asks.yaml").write_text(ASKS)
    ran = noetl("run", "asks.yaml", "--timeout", "60", "--remote")
    assert ran.code == 0, ran
    assert "--set approved=true --remote" in ran.out
    ran = noetl("callback", "latest", "--set", "approved=true", "-q", "--remote")
    assert (ran.code, json.loads(ran.out)) == (0, {"approved": True})


def test_a_patch_that_is_not_applied_yet_is_waited_for(noetl, far):
    execution_id = far.ground.run(GATED)
    far.idle = 12
    ran = noetl("ctx", "patch", execution_id, "--set", "approved=true", "-q", "--remote")
    assert (ran.code, ran.out) == (0, "8\n") and len(far.asked) > 12


@pytest.mark.parametrize("where", [[], ["--remote"]], ids=["here", "there"])
def test_injected_and_cancelled_here_and_there(noetl, far, where, monkeypatch):
    monkeypatch.setattr(
        runtime_access,
        "open_local",
        lambda home, *, on_log=None, takes="": MemoryRuntime(far.ground.database, on_log),
    )
    execution_id = far.ground.run(GATED)
    ran = noetl("inject", execution_id, "start", "--set", "why=again", "--reason", "once more", *where)
    assert ran.code == 0, ran.err
    told = noetl("events", execution_id, "--json").json
    (injected,) = [one for one in told if one["event_type"] == "token.injected"]
    assert injected["payload"]["reason"] == "once more"
    entered = [one["payload"].get("args") for one in told if one["event_type"] == "step.enter"]
    assert {"why": "again"} in entered
    assert [one["entity_id"] for one in told if one["event_type"] == "step.exit"] == ["start", "start"]
    ran = noetl("inject", execution_id, "strat", *where)
    assert ran.code == 2 and "did you mean 'start'?" in ran.err
    (ended,) = noetl("cancel", execution_id, "--reason", "enough", "--json", *where).json
    assert ended == {"execution_id": execution_id, "status": "cancelled"}
    assert noetl("cancel", execution_id, *where).code == 2


@pytest.mark.parametrize("where", [[], ["--remote"]], ids=["here", "there"])
def test_variables_here_and_there(noetl, far, where):
    execution_id = far.ground.run(VARS)
    assert {
        one["name"]: one["value"] for one in noetl("vars", "list", execution_id, "--json", *where).json
    } == {
        "total": 42,
        "gone": "no more",
    }
    assert noetl("vars", "get", execution_id, "total", *where).out == "42\n"
    assert noetl("vars", "get", execution_id, "total", "--json", *where).json[0]["access_count"] == 2
    ran = noetl(
        "vars", "set", execution_id, "--set", "total=7", "--set", "a b=[1]", "--reason", "why", *where
    )
    assert (ran.code, ran.out) == (0, f"execution {execution_id}: total, a b set\n")
    assert noetl("vars", "get", execution_id, "a b", "--json", *where).json[0]["value"] == [1]
    assert noetl("vars", "delete", execution_id, "gone", *where).code == 0
    ran = noetl("vars", "get", execution_id, "gone", *where)
    assert ran.code == 2 and "has no variable 'gone'" in ran.err
    assert noetl("vars", "delete", execution_id, "gone", *where).code == 2


def test_schedules_there(noetl, far, anywhere, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: far.ground.database.now)
    far.ground.register()
    for name in ("hourly", "other"):
        body = {"path": "demo/hello", "name": name, "cron": "0 2 * * *", "timezone": "Europe/Berlin"}
        assert far.ground.ask("POST", "/api/schedules", body).status == 201
    for words in (["list"], ["list", "--json", "-n", "1"], ["show", "hourly"], ["next", "hourly", "-n", "3"]):
        here, there = anywhere("schedule", *words)
        assert (here.code, here.out, here.err) == (there.code, there.out, there.err) and here.out
    assert noetl("schedule", "pause", "hourly", "--json", "--remote").json[0]["state"] == "paused"
    assert "it is paused" in noetl("schedule", "next", "hourly", "--remote").err
    assert noetl("schedule", "resume", "hourly", "--json", "--remote").json[0]["state"] == "active"
    assert noetl("schedule", "delete", "hourly", "--remote").out == "hourly is deleted\n"
    assert noetl("schedule", "show", "hourly", "--remote").code == 2


# --- the way there --------------------------------------------------------------------------------


@pytest.fixture
def slept(monkeypatch) -> list[float]:
    """Pauses of the client, which take no time."""
    pauses: list[float] = []
    made = http_client.Client.__init__

    def quick(self, context, **more) -> None:
        clock = lambda: sum(pauses)  # noqa: E731
        made(self, context, sleep=pauses.append, clock=clock, **more)

    monkeypatch.setattr(http_client.Client, "__init__", quick)
    return pauses


AWAY = Answer(
    503, {"Retry-After": "3"}, b'{"code": "database_unreachable", "detail": "away", "retryable": true}'
)


def test_a_start_whose_answer_is_lost_is_asked_again_and_happens_once(noetl, far, slept):
    far.ground.register()
    far.troubles = [None, "lost", AWAY, NewConnectionError(None, "refused")]
    (started,) = noetl("exec", "demo/hello", "--json", "--remote").json
    starts = [ask for ask in far.asked if ask[0] == "POST"]
    assert len(starts) == 4 and len({str(ask) for ask in starts}) == 1
    assert starts[0][2]["Idempotency-Key"]
    assert [one.execution_id for one in far.ground.store.executions(limit=9)] == [
        int(started["execution_id"])
    ]
    assert slept[1] == 3.0 and 0 < slept[0] <= 0.25 < 0.5 <= slept[2] <= 1.0


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (AWAY, "error: away\n  code: database_unreachable"),
        (Answer(504, {}, b'{"message": "Endpoint request timed out"}'), "far: Endpoint request timed out"),
        (NewConnectionError(None, "connection refused"), "does not answer"),
    ],
    ids=["503", "gateway", "nobody"],
)
def test_what_stays_away_is_the_environment_s_fault(noetl, far, slept, trouble, told):
    far.troubles = [trouble] * 99
    ran = noetl("list", "--remote")
    assert ran.code == 3 and told in ran.err, ran.err
    assert 20 < sum(slept) <= http_client.PATIENCE and len(far.asked) == len(slept) + 1


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (Answer(200, {}, b"<html>login</html>"), 3, "is not one of this API"),
        (
            Answer(200, {}, b'{"executions": [{"execution_id": 7}], "next": null}'),
            3,
            "is not one of this API",
        ),
        (Answer(302, {"Location": "https://elsewhere.example"}, b""), 3, "answered 302"),
        (Answer(404, {}, b'{"message":"Not Found"}'), 2, "far: Not Found"),
        (Answer(403, {}, b'{"message":"Forbidden"}'), 3, "may lack its stage"),
        (Answer(500, {}, b'{"code": "internal_error", "detail": "\\u001b[2Jboo"}'), 3, "error: \\x1b[2Jboo"),
        (Answer(503, {"Retry-After": "86400"}, b""), 3, "answered 503"),
    ],
    ids=["html", "shape", "redirect", "404", "403", "500", "long"],
)
def test_answers_of_no_such_api_are_told_and_not_followed(noetl, far, slept, answer, code, told):
    far.troubles = [answer]
    ran = noetl("list", "--remote")
    assert (ran.code, told in ran.err, len(far.asked), slept) == (code, True, 1, []), ran.err


def test_who_may_not_is_told_so(noetl, far, tmp_path):
    far.scopes = ["read"]
    far.ground.register()
    ran = noetl("exec", "demo/hello", "--remote")
    assert ran.code == 3 and "needs the scope execute" in ran.err and "yours are: read" in ran.err
    (tmp_path / "token").write_text("noetl_of_yesterday")
    ran = noetl("list", "--remote")
    assert ran.code == 3 and "unauthenticated" in ran.err
    (tmp_path / "token").write_text(TOKEN)
    assert noetl("list", "--remote").code == 0


def test_the_token_is_nowhere_but_in_the_request(noetl, far, tmp_path, monkeypatch):
    monkeypatch.setenv("NOETL_DEBUG", "1")
    far.troubles = [NewConnectionError(None, "no"), *[ValueError("unforeseen")] * 3]
    monkeypatch.setattr(http_client, "PATIENCE", 0)
    said = [
        noetl(*words)
        for words in (
            ["context", "list"],
            ["context", "list", "--json"],
            ["list", "--remote"],
            ["status", "--remote", "--json"],
            ["context", "use", "far", "--json"],
        )
    ]
    assert far.asked[0][2]["Authorization"] == f"Bearer {TOKEN}"
    kept = [path.read_text() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert kept and not any(TOKEN in text for text in [*kept, *(ran.out + ran.err for ran in said)])
    (tmp_path / "token").write_text(f"{TOKEN}\nX-Evil: 1")
    ran = noetl("list", "--remote")
    assert ran.code == 3 and "is not a token" in ran.err and TOKEN not in ran.err


# --- contexts -------------------------------------------------------------------------------------


def test_contexts_are_kept_for_their_owner_chosen_and_forgotten(noetl, tmp_path, monkeypatch):
    assert "no context is in use" in noetl("list", "--remote").err
    add = ("context", "add")
    assert noetl(*add, "here", "--url", "http://127.0.0.1:8765/").code == 0
    assert noetl(*add, "prod", "--url", "https://x.execute-api.eu-west-1.amazonaws.com/v1", "--iam").code == 0
    assert noetl(*add, "ci", "--url", "https://ci.example", "--token-env", "CI_TOKEN", "--no-use").code == 0
    assert (tmp_path / "home" / "contexts.json").stat().st_mode & 0o777 == 0o600
    found = {one["name"]: one for one in noetl("context", "list", "--json").json}
    assert {name: (one["url"], one["auth"], one["in_use"]) for name, one in found.items()} == {
        "ci": ("https://ci.example", "token", False),
        "here": ("http://127.0.0.1:8765", "none", False),
        "prod": ("https://x.execute-api.eu-west-1.amazonaws.com/v1", "iam", True),
    }
    assert noetl("context", "use", "here").out == "context here is in use: http://127.0.0.1:8765\n"
    ran = noetl("context", "use", "her")
    assert ran.code == 2 and "did you mean 'here'?" in ran.err
    monkeypatch.delenv("CI_TOKEN", raising=False)
    ran = noetl("list", "--context", "ci")
    assert ran.code == 3 and "the variable CI_TOKEN holds no token" in ran.err
    monkeypatch.setenv("NOETL_CONTEXT", "ci")
    assert "CI_TOKEN" in noetl("status").err
    monkeypatch.setenv("NOETL_CONTEXT", "")
    assert noetl("list").code == 0
    assert noetl("context", "remove", "here").code == 0
    assert "no context is in use" in noetl("list", "--remote").err
    assert noetl("context", "remove", "here").code == 2
    (tmp_path / "home" / "contexts.json").write_text("{")
    assert noetl("context", "list").code == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["a b", "--url", "https://x.example"], "is not a name of a context"),
        (["x", "--url", "ftp://x.example"], "is not the address of an API"),
        (["x", "--url", "https://user:secret@x.example"], "is not the address of an API"),
        (["x", "--url", "https://x.example/?a=1"], "is not the address of an API"),
        (["x", "--url", "https://x.example:port"], "is not the address of an API"),
        (
            ["x", "--url", "http://x.example", "--token-file", "t"],
            "a token would travel to x.example unencrypted",
        ),
        (["x", "--url", "https://x.example", "--token-file", "t", "--iam"], "authenticates in one way"),
        (["x", "--url", "https://x.example", "--region", "eu-west-1"], "go with --iam"),
    ],
    ids=["name", "scheme", "user", "query", "port", "plain", "both", "region"],
)
def test_contexts_that_cannot_be_are_refused(noetl, tmp_path, words, told):
    ran = noetl("context", "add", *words)
    assert ran.code == 2 and told in ran.err and "secret" not in ran.err
    assert not (tmp_path / "home" / "contexts.json").exists()


def test_requests_are_signed_for_iam(noetl, far, monkeypatch, tmp_path):
    """Checked against the definition of signature version 4, not against who made it."""
    for name, value in (
        ("ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("SECRET_ACCESS_KEY", "key"),
        ("SESSION_TOKEN", "st"),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert noetl("context", "add", "prod", "--url", URL, "--iam", "--region", "eu-west-1").code == 0
    noetl("vars", "get", "4711", "a b/ü", "--remote")
    noetl("vars", "set", "4711", "--set", "n=1", "--remote")
    noetl("list", "--status", "running", "--remote")
    assert [ask[0] for ask in far.asked] == ["GET", "POST", "GET"]
    for method, url, headers, body in far.asked:
        given = dict(
            part.strip().split("=", 1) for part in headers["Authorization"].split(" ", 1)[1].split(",")
        )
        day = headers["X-Amz-Date"][:8]
        scope = f"{day}/eu-west-1/execute-api/aws4_request"
        assert given["Credential"] == f"AKIDEXAMPLE/{scope}" and headers["X-Amz-Security-Token"] == "st"
        low = {name.lower(): value for name, value in headers.items()} | {"host": "noetl.example"}
        parts = urlsplit(url)
        names = given["SignedHeaders"].split(";")
        canonical = [method, quote(parts.path, safe="/~"), "&".join(sorted(parts.query.split("&")))]
        canonical += [*(f"{name}:{low[name]}" for name in names), "", given["SignedHeaders"]]
        text = "\n".join([*canonical, hashlib.sha256(body or b"").hexdigest()])
        key = b"AWS4key"
        for word in scope.split("/"):
            key = hmac.digest(key, word.encode(), "sha256")
        digest = hashlib.sha256(text.encode()).hexdigest()
        told = f"AWS4-HMAC-SHA256\n{headers['X-Amz-Date']}\n{scope}\n{digest}"
        assert given["Signature"] == hmac.digest(key, told.encode(), "sha256").hex()


def test_without_aws_credentials_nothing_is_sent(noetl, far, monkeypatch, tmp_path):
    for name in [*os.environ]:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    noetl("context", "add", "prod", "--url", URL, "--iam", "--region", "eu-west-1")
    ran = noetl("list", "--remote")
    assert ran.code == 3 and "no AWS credentials" in ran.err
    noetl("context", "add", "prod", "--url", URL, "--iam", "--profile", "nowhere")
    ran = noetl("list", "--remote")
    assert ran.code == 3 and "nowhere" in ran.err
    assert far.asked == []


@pytest.mark.parametrize(
    ("sets", "patch"),
    [
        (["a=1", "b.c=x", "b.d=[1]"], {"a": 1, "b": {"c": "x", "d": [1]}}),
        (
            ['a={"x": 1}', "b/~=2"],
            [{"op": "add", "path": "/a", "value": {"x": 1}}, {"op": "add", "path": "/b~1~0", "value": 2}],
        ),
        (["a=null"], [{"op": "add", "path": "/a", "value": None}]),
        (["a.b=null"], None),
        (["a=null", "b.c=1"], None),
    ],
    ids=["merge", "set", "null", "inside", "mixed"],
)
def test_what_set_means_survives_the_way(noetl, far, sets, patch):
    execution_id = far.ground.run(GATED)
    ran = noetl("ctx", "patch", execution_id, *[f"--set={text}" for text in sets], "--remote")
    sent = [json.loads(ask[3])["patch"] for ask in far.asked if ask[0] == "PATCH"]
    assert (sent, ran.code) == (([patch], 0) if patch else ([], 2)), ran.err


def test_credentials_there(noetl, far, anywhere, tmp_path):
    (tmp_path / "shop.json").write_text('{"token": "canary-1"}')
    add = ("credential", "add", "team/shop", "--type", "bearer", "-f", "shop.json")
    assert noetl(*add, "--description", "till", "--remote").out == "team/shop is kept\n"
    assert noetl(*add, "--remote").out == "team/shop is replaced (version 2)\n"
    assert noetl(*add[:2], "other", "--type", "generic", "--set", "a=1", "--remote").code == 0
    for words in (["list"], ["list", "--type", "bearer", "--json"], ["show", "team/shop", "--json"]):
        here, there = anywhere("credential", *words)
        assert (here.code, here.out) == (there.code, there.out) and "canary" not in there.out
    assert "canary-1" in noetl("credential", "show", "team/shop", "--reveal", "--remote").out
    assert noetl("credential", "reseal", "--json", "--remote").json == [{"resealed": 2, "unreadable": []}]
    (gone,) = noetl("credential", "remove", "team/shop", "--json", "--remote").json
    assert (gone["name"], gone["deleted"]) == ("team/shop", True)
    ran = noetl("credential", "show", "team/shop", "--remote")
    assert ran.code == 2 and "credential_not_found" in ran.err
    far.scopes = ["read"]
    ran = noetl("credential", "show", "other", "--reveal", "--remote")
    assert ran.code == 3 and "needs the scope worker or admin" in ran.err


def test_pruning_is_counted_first(noetl, far):
    for _ in range(2):
        far.ground.run()
    far.ground.database.now += 31 * 86_400
    for there in ((), ("--remote",)):
        assert noetl("prune", "--older-than", "30d", "--dry-run", *there).out.startswith(
            "2 executions ended before"
        )
        assert "say how old" in noetl("prune", *there).err
    assert noetl("prune", "--older-than", "4 weeks").code == 2
    (done,) = noetl("prune", "--older-than", "4w", "--json", "--remote").json
    assert done["executions"] == 2 and done["events"] > 0
    assert noetl("prune", "--older-than", "1d").out.startswith("0 executions that ended before")
