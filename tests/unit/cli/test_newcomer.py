"""What a newcomer meets at the command line, in the order in which it is met."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from noetl.cli.app import app
from noetl.cli.client.http_transport import reached
from noetl.cli.commands.init import TEMPLATES, write_template
from noetl.cli.help_groups import GROUPS
from noetl.cli.render.output import UTC_SWITCH, clock, clock_time
from noetl.cli.render.summary import outline
from noetl.dsl.compiler import compile_playbook
from noetl.kinds.registry import default_registry
from noetl.services.catalog.playbook_needs import Present
from tests.parts import over
from tests.unit.cli.actions.test_execute import GREET, LOOPS

CALLS_OTHERS = """\
workload: { which: child }
workflow:
  - step: start
    tool: { kind: playbook, path: test/child }
    next: { arcs: [ { step: more } ] }
  - step: more
    tool: { kind: playbook, path: "jobs/{{ workload.which }}" }
    next: { arcs: [ { step: last } ] }
  - step: last
    tool: { kind: http, url: "http://127.0.0.1/", auth: shop_api }
"""
LARGE = """\
workflow:
  - step: start
    tool: { kind: double, value: "{{ range(300) | list }}" }
"""


def test_help_lists_every_command_in_one_group_and_one_line(noetl):
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(grouped) == len(set(grouped)) and set(grouped) == known
    text = noetl("--help").out
    assert [title for title in GROUPS if f"\n{title}:\n" in text] == list(GROUPS)
    listed = text[text.index("\nRun:") :]
    assert all(re.search(rf"^  {re.escape(name)} +\S", listed, re.MULTILINE) for name in known)
    assert "..." not in listed, "a line of help is cut off"


@pytest.mark.parametrize("words", [("--version",), ("-V",), ("version",)])
def test_the_version_is_asked_for_in_the_usual_ways(noetl, words):
    ran = noetl(*words)
    assert ran.code == 0 and re.fullmatch(r"noetl \d+\.\d+\.\d+\S* \(Python 3\.\d+\.\d+\)\n", ran.out)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_strictly_valid(template, tmp_path):
    playbook, *tests = write_template(template, "mine", tmp_path)
    compiled = compile_playbook(
        playbook.read_text(), source_name=str(playbook), strict=True, kinds=default_registry()
    )
    assert compiled.diagnostics == () and compiled.program.path == "mine"
    assert all(one.name == "mine.test.yaml" for one in tests)
    assert "NAME" not in playbook.read_text().replace("NAME=", "")


def test_init_writes_a_playbook_and_never_over_another(noetl, tmp_path):
    ran = noetl("init", "orders", "--template", "hello")
    assert ran.code == 0 and (tmp_path / "orders.yaml").exists() and (tmp_path / "orders.test.yaml").exists()
    assert "noetl run orders.yaml" in ran.out
    again = noetl("init", "orders")
    assert (again.code, "there already" in again.err) == (2, True)
    assert noetl("init", "orders", "--force").code == 0
    wrong = noetl("init", "--template", "helo")
    assert wrong.code == 2 and "did you mean 'hello'?" in wrong.err
    assert noetl("init", "a/b").code == 2
    assert {one["template"] for one in noetl("init", "--list", "--json").json[0]} == set(TEMPLATES)


def test_a_run_with_a_large_result_ends_in_five_lines(noetl, write):
    lines = noetl("run", write("large.yaml", LARGE)).out.splitlines()
    ended = next(place for place, line in enumerate(lines) if line.startswith("completed in "))
    assert len(lines) - ended == 5
    assert "1 step of test/large" in lines[ended]
    assert lines[ended + 1] == "result: list of 600"
    assert "noetl result latest" in lines[ended + 2] and "noetl ui" in lines[ended + 4]


def test_a_value_in_one_line():
    assert outline({"a": 1, "b": "x" * 50, "c": [1, 2], "d": {"e": "f" * 80}}) == (
        "{a: 1, b: text of 50 characters, c: [1,2], d: mapping of 1}"
    )
    assert outline(dict.fromkeys("abcdefgh", 0)).endswith("f: 0, and 2 more}")


def test_a_dry_run_checks_and_starts_nothing(noetl, write):
    file = write("greet.yaml", GREET)
    ran = noetl("run", file, "--dry-run", "--set", "n=9")
    assert ran.code == 0 and "Nothing was started" in ran.out and '"n": 9' in ran.out
    assert re.search(r"^start +double +done$", ran.out, re.MULTILINE)
    (plan,) = noetl("run", file, "--dry-run", "--json").json
    assert plan["workload"]["limits"] == {"days": 1, "hours": 2}
    assert [one["step"] for one in plan["steps"]] == ["start", "done"]
    assert noetl("list").err.startswith("nothing has been executed yet")
    checked = GREET + "input: { type: object, properties: { n: { type: integer } } }\n"
    assert noetl("run", write("checked.yaml", checked), "--dry-run", "--set", "n=x").code == 2


def test_a_set_of_an_unknown_name_is_warned_of_or_refused(noetl, write):
    file = write("greet.yaml", GREET)
    ran = noetl("run", file, "--set", "woh=x")
    assert ran.code == 0 and "--set woh" in ran.err and "did you mean who?" in ran.err
    assert noetl("run", file, "--set", "limits.days=3", "--set", "who=x", "--strict").err == ""
    assert noetl("run", file, "--set", "woh=x", "--strict").code == 2
    assert "did you mean who?" in noetl("exec", "test/greet", "--set", "woh=x").err


SCHEDULED = """\
workload: { api: "http://127.0.0.1:1", day: "{{ workload.schedule.at | default('none') }}" }
workflow:
  - step: start
    tool: { kind: noop, input: { day: "{{ workload.day }}" } }
on_failure:
  - { slack: "{{ workload.api }}", text: "{{ execution.message }}" }
"""


def test_names_that_the_workload_itself_reads_are_known(noetl, write):
    file = write("scheduled.yaml", SCHEDULED)
    ran = noetl("run", file, "--strict", "--set", "schedule.at=2026-03-01T00:00:00Z", "--quiet")
    assert (ran.code, json.loads(ran.out)) == (0, {"day": "2026-03-01T00:00:00Z"})
    said = noetl("run", file, "--set", "zzz=1", "--dry-run")
    assert said.err.rstrip().endswith("it has api, day, schedule"), "`execution` is the engine's"
    assert "valid, 2 steps." in said.out


def test_a_whole_workload_that_is_passed_on_may_hold_any_name(noetl, write):
    steps = 'workload: { who: x }\nworkflow:\n  - step: start\n    tool: { kind: noop, args: { all: "{{ workload }}" } }\n'
    file = write("whole.yaml", steps)
    assert noetl("run", file, "--set", "another=1").err == ""
    assert "did you mean who?" in noetl("run", file, "--set", "wh=1").err


def test_the_same_key_starts_one_execution(noetl, write):
    file = write("greet.yaml", GREET)
    first = noetl("run", file, "--idempotency-key", "order-1", "--json").json[-1]
    again = noetl("run", file, "--idempotency-key", "order-1", "--json").json[-1]
    other = noetl("run", file, "--idempotency-key", "order-2", "--json").json[-1]
    assert first["execution_id"] == again["execution_id"] != other["execution_id"]
    assert noetl("run", file, "--idempotency-key", "order-1", "--set", "n=1").code == 2


def test_labels_select(noetl, write):
    labelled = GREET.replace("workload:", "workload:", 1)
    (Path("labelled.yaml")).write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: l, path: test/l, labels: { team: data } }\n"
        + labelled
    )
    noetl("run", "labelled.yaml", "--label", "stage=raw")
    noetl("run", write("greet.yaml", GREET), "--label", "stage=raw")
    noetl("run", "greet.yaml")
    paths = lambda *words: [one["path"] for one in noetl("list", "--json", *words).json]  # noqa: E731
    assert paths("--label", "stage=raw") == ["test/greet", "test/l"]
    assert paths("--label", "stage=raw", "--label", "team=data") == ["test/l"]
    assert paths("--filter", "label=team=other") == []
    (one,) = noetl("list", "--json", "--label", "team=data").json
    assert one["labels"] == {"team": "data", "stage": "raw"} and one["version"] == 1 and one["principal"]
    assert "labels: team=data, stage=raw" in noetl("status", one["execution_id"]).out
    assert noetl("run", "greet.yaml", "--label", "stage").code == 2
    assert noetl("run", "greet.yaml", "--label", f"stage={'x' * 201}").code == 2


def test_a_run_has_the_labels_of_its_playbook(noetl):
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: l, labels: { team: data } }\n"
    Path("labelled.yaml").write_text(head + GREET)
    noetl("run", "labelled.yaml")
    (one,) = noetl("list", "--json", "--label", "team=data").json
    assert one["labels"] == {"team": "data"}


def test_times_carry_their_zone(noetl, write, monkeypatch):
    monkeypatch.setenv(UTC_SWITCH, "1")
    assert clock(0) == "1970-01-01 00:00:00Z"
    assert clock_time("2026-03-01T12:00:00.004+01:00") == "11:00:00.004Z"
    monkeypatch.setenv(UTC_SWITCH, "0")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", clock(0))
    noetl("run", write("greet.yaml", GREET))
    for words in (("list",), ("status",), ("events",), ("logs",)):
        assert re.search(r"\d\d:\d\d:\d\d(\.\d{3})?Z", noetl("--utc", *words).out), words
        monkeypatch.delenv(UTC_SWITCH)


def test_online_finds_what_is_missing(noetl, write):
    file = write("parent.yaml", CALLS_OTHERS)
    assert noetl("validate", file).code == 0
    ran = noetl("validate", file, "--online")
    assert ran.code == 2
    assert "there is no registered playbook 'test/child'" in ran.out
    assert "no registered playbook has a path like 'jobs/{{ workload.which }}'" in ran.out
    remedy = "keep it: noetl credential add shop_api --type TYPE --data-file FILE"
    assert f"there is no credential 'shop_api' ({remedy})" in ran.out
    assert re.search(r"parent\.yaml:\d+:\d+: playbook-missing", ran.out)
    write("child.yaml", LOOPS)
    noetl("register", "child.yaml")
    (Path("job.yaml")).write_text(Path("child.yaml").read_text().replace("test/child", "jobs/child"))
    noetl("register", "job.yaml")
    noetl("credential", "add", "shop_api", "--type", "generic", "--set", "k=v")
    assert noetl("validate", file, "--online").code == 0


def test_online_looks_while_the_place_is_open(noetl, write, monkeypatch):
    opened = []

    def known(*_):
        assert opened == [True], "the place is closed"
        return {}

    @contextmanager
    def place(_at):
        opened.append(True)
        yield SimpleNamespace(present=lambda: Present({}, known))
        opened.clear()

    monkeypatch.setattr("noetl.cli.client.connect.open_place", place)
    ran = noetl("validate", write("parent.yaml", CALLS_OTHERS), "--online")
    assert ran.code == 2 and "there is no credential 'shop_api'" in ran.out


def test_a_token_is_shown_where_it_is_asked_for_alone(noetl, write):
    steps = "workflow:\n  - step: start\n    tool: { kind: wait, callback: true }\n"
    ran = noetl("run", write("asks.yaml", steps))
    execution_id = ran.out.split()[1]
    (found,) = noetl("callback", execution_id, "--json").json
    assert found["token"] not in ran.out + ran.err and f"noetl callback {execution_id} --set" in ran.out
    last = noetl("run", "asks.yaml", "--json").json[-1]
    assert last["callbacks"][0]["step"] == "start" and "token" not in json.dumps(last["callbacks"])
    assert found["token"] in noetl("callback", execution_id).out


SAME = "workflow:\n  - step: start\n    tool: { kind: noop }\n"


def test_two_files_of_one_path_are_refused_by_name(noetl, write):
    write("one.yaml", SAME)
    write("two.yaml", SAME)
    text = Path("two.yaml").read_text().replace("test/two", "test/one")
    Path("two.yaml").write_text(text)
    ran = noetl("register", ".")
    assert ran.code == 2 and "one.yaml and two.yaml are both the playbook test/one" in ran.err
    assert noetl("register", "one.yaml").code == 0
    steps = "workflow:\n  - step: start\n    tool: { kind: playbook, path: test/one }\n"
    ran = noetl("run", write("parent.yaml", steps))
    assert ran.code == 2 and "one.yaml and two.yaml are both" in ran.err
    Path("two.yaml").unlink()
    assert noetl("run", "parent.yaml").code == 0


def test_two_files_of_one_path_are_refused_when_they_bring_files(noetl, write):
    Path("rates.py").write_text("VAT = 20\n")
    text = Path(write("one.yaml", SAME)).read_text() + "modules: [rates.py]\n"
    Path("one.yaml").write_text(text)
    Path("two.yaml").write_text(text)
    ran = noetl("register", ".")
    assert ran.code == 2 and "one.yaml and two.yaml are both the playbook test/one" in ran.err


REACHES = """\
workflow:
  - step: start
    tool: { kind: noop, args: { a: 1 } }
    next: { arcs: [{ step: load, args: { table: orders } }] }
  - step: load
    args: { computed: "{{ 1 + 1 }}" }
    tool: { kind: noop, args: { t: "{{ table }}", c: "{{ computed }}" } }
"""


def test_a_redrive_refuses_values_that_reach_nothing_and_takes_an_output(noetl, write):
    ran = noetl("run", write("loads.yaml", REACHES))
    assert ran.code == 0, ran.err
    sets = ("--set", "tabel=x", "--set", "computed=2", "--set", "table=y")
    ran = noetl("redrive", "latest", "--from", "load", *sets)
    assert "tabel has no effect: step load does not read it; did you mean table?" in ran.err
    assert "computed has no effect: step load computes computed itself" in ran.err
    assert ran.code == 2 and "; table has" not in ran.err
    ran = noetl("redrive", "latest", "--from", "load", "--set", "table=y")
    assert ran.code == 0 and '"t": "y"' in ran.out
    ran = noetl("redrive", "latest", "--from", "load", "--output", '{"t": "given"}', "--reason", "by phone")
    assert ran.code == 0 and '"t": "given"' in ran.out
    told = noetl("events", "latest").out
    (line,) = [line for line in told.splitlines() if "output.patched" in line]
    assert '"principal":"' in line and "by phone" in line
    ran = noetl("redrive", "latest", "--output", "1")
    assert ran.code == 2 and "--from" in ran.err
    ran = noetl("redrive", "latest", "--from", "load[1]", "--output", "1")
    assert ran.code == 2 and "one whole step" in ran.err
    assert noetl("replay", "latest").code == 0


@over(
    ("url", "address", "shown"),
    [
        ("http://h:1/api/callbacks/t", "http://h:1/apis/x/prod", "http://h:1/apis/x/prod/api/callbacks/t"),
        ("http://h:1/api/callbacks/t", "http://h:1", "http://h:1/api/callbacks/t"),
        ("https://public.example/api/callbacks/t", "http://h:1/x", "https://public.example/api/callbacks/t"),
        ("http://h:1/x/api/callbacks/t", "http://h:1/x", "http://h:1/x/api/callbacks/t"),
    ],
)
def test_the_address_of_a_callback_is_one_that_this_client_reaches(url, address, shown):
    assert reached(url, address) == shown
