"""Every command says whether it works at a server; those that do answer there as they do here: the same code, the same JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from noetl.cli.app import app
from noetl.cli.client import event_polling, http_client, runtime_access
from tests.unit.api.ground import FAILING, GATED, HELLO, LOOPED
from tests.unit.cli.fake_runtime import MemoryRuntime
from tests.unit.cli.far import TOKEN, URL, Far

CASES = {
    "analyze": "analyze WAITING",
    "callback": "callback ASKING --set approved=true",
    "cancel": "cancel WAITING --reason x",
    "catalog show": "catalog show demo/hello",
    "compare": "compare DONE WAITING",
    "cost": "cost LOOPED --family",
    "credential add": "credential add new --type generic --set k=value",
    "credential list": "credential list",
    "credential log": "credential log kept",
    "credential remove": "credential remove kept",
    "credential reseal": "credential reseal",
    "credential show": "credential show kept --reveal",
    "ctx patch": "ctx patch WAITING --set approved=true --reason x --correlation-id ticket-1",
    "dead-letters delete": "dead-letters delete --all --dry-run",
    "dead-letters list": "dead-letters list",
    "dead-letters retry": "dead-letters retry --all --dry-run",
    "events": "events DONE --type step.exit --step start --last 3",
    "exec": "exec demo/hello --priority 3",
    "inject": "inject WAITING start --set a=1 --correlation-id ticket-1",
    "items": "items LOOPED --step start --failed",
    "limit list": "limit list kept",
    "limit remove": "limit remove kept",
    "limit set": "limit set api/v1 --concurrent 2 --rate 10 --burst 3",
    "list": "list",
    "logs": "logs DONE",
    "pause": "pause WAITING --reason x",
    "prune": "prune --older-than 90d --dry-run",
    "redrive": "redrive FAILED",
    "register": "register hello.yaml",
    "result": "result DONE",
    "run": "run hello.yaml",
    "schedule backfill": "schedule backfill hourly --from 2026-03-01T00:00:00Z --to 2026-03-01T02:00:00Z --dry-run",
    "schedule delete": "schedule delete hourly",
    "schedule list": "schedule list",
    "schedule next": "schedule next hourly",
    "schedule pause": "schedule pause hourly",
    "schedule resume": "schedule resume hourly",
    "schedule show": "schedule show hourly",
    "sql": "sql SELECT",
    "status": "status FAILED",
    "trigger add": "trigger add later demo/hello --webhook",
    "trigger delete": "trigger delete hook",
    "trigger disable": "trigger disable hook",
    "trigger enable": "trigger enable hook",
    "trigger fire": "trigger fire hook --set n=1",
    "trigger list": "trigger list",
    "trigger rotate": "trigger rotate hook",
    "trigger show": "trigger show hook",
    "unpause": "unpause PAUSED",
    "validate": "validate hello.yaml",
    "vars delete": "vars delete WAITING n",
    "vars get": "vars get WAITING n",
    "vars list": "vars list WAITING",
    "vars set": "vars set WAITING --set m=1",
}
UNKNOWN = (
    "status 7",
    "events 7",
    "items 7",
    "logs 7",
    "vars get 7 n",
    "cancel 7",
    "ctx patch 7 --set a=1",
    "inject 7 s",
    "redrive 7",
    "pause 7",
    "analyze 7",
    "cost 7",
)
UNKNOWN += (
    "credential show none",
    "limit list none",
    "limit remove none",
    "limit set nothing",
    "catalog show demo/none",
    "schedule show none",
    "run demo/none",
    "exec demo/none",
    "result 7",
    "status x",
)
OF_A_SERVER = {"worker start", "ui", "test"}
"""Runs here, for the server that its options name, or (`test --from`) with what that server recorded."""
REMOTE_PAGE = Path(__file__).parents[3] / "docs" / "remote.md"


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, one in (group or typer.main.get_command(app)).commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, (*path, name))
        else:
            yield " ".join((*path, name)), one


def has(command: click.Command, option: str) -> bool:
    return any(option in one.opts for one in command.params)


def test_every_command_is_remote_or_says_why_not():
    known = dict(commands())
    remote = {name for name, one in known.items() if has(one, "--remote")} - OF_A_SERVER
    assert remote == CASES.keys(), "each of them is tried here and there below"
    assert all(has(known[name], option) for name in remote for option in ("--context", "--json"))
    page = REMOTE_PAGE.read_text("utf-8").partition("## Local commands")[2]
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|$", page, re.MULTILINE)
    told = {name for names, reason in rows for name in re.findall(r"`(.+?)`", names) if reason.strip()}
    groups = {name for name in told if any(one.startswith(f"{name} ") for one in known)}
    local = {name for name in known if name in told or name.split()[0] in groups}
    assert local == known.keys() - remote and told - groups <= known.keys()


class Near(MemoryRuntime):
    """What is posted is done at once, as by the threads of a real one."""

    def accept(self, events: Any) -> None:
        self._handle(list(events))


class Side:
    """A world of its own: a credential, a limit, a schedule, and a fresh execution in whatever state a command is to find it in."""

    def __init__(self) -> None:
        self.far = Far()
        self.ask, self.run = self.far.ground.ask, self.far.ground.run
        wish = {"name": "kept", "type": "generic", "data": {"k": "value"}}
        assert self.ask("POST", "/api/credentials", wish).status == 201
        assert self.ask("PUT", "/api/limits/kept", {"concurrent": 3}).status == 200
        schedule = {"path": "demo/hello", "name": "hourly", "cron": "0 * * * *"}
        self.run()
        assert self.ask("POST", "/api/schedules", schedule).status == 201
        hook = {"name": "hook", "path": "demo/hello", "source": {"type": "webhook"}}
        assert self.ask("POST", "/api/triggers", hook).status == 201

    def words(self, text: str) -> list[str]:
        made = {
            "WAITING": self.waiting,
            "DONE": self.run,
            "FAILED": lambda: self.run(FAILING),
            "LOOPED": lambda: self.run(LOOPED),
            "PAUSED": self.paused,
            "ASKING": lambda: self.run(
                HELLO.replace('double, value: "{{ workload.n }}"', "wait, callback: true")
            ),
        }
        return [made[word]() if word in made else word for word in text.split()]

    def waiting(self) -> str:
        one: str = self.run(GATED)
        variables = {"variables": {"n": 1}, "source_step": "start"}
        assert self.ask("POST", f"/api/vars/{one}", variables).status == 200
        self.far.ground.settle()
        return one

    def paused(self) -> str:
        one: str = self.run(GATED)
        assert self.ask("POST", f"/api/executions/{one}/pause", {}).status == 202
        self.far.ground.settle()
        return one


def shape(value: Any) -> Any:
    """What of an answer is the same for every execution."""
    if isinstance(value, dict):
        return {name: shape(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [shape(entry) for entry in value]
    return value if isinstance(value, bool | None) else type(value).__name__


@pytest.fixture
def both(noetl, monkeypatch, tmp_path):
    """words → what a command says here, and at a server, in two worlds that are alike."""
    near, away = Side(), Side()
    monkeypatch.setattr(runtime_access, "open_reading", lambda home: MemoryRuntime(near.far.ground.database))
    monkeypatch.setattr(runtime_access, "open_local", lambda home, **more: Near(near.far.ground.database))
    monkeypatch.setattr(runtime_access, "kinds", lambda: near.far.ground.database.kinds)
    monkeypatch.setattr(http_client, "transport", lambda url: away.far.send)
    monkeypatch.setattr(event_polling, "SOONEST", 0.01)
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "token").write_text(TOKEN)
    assert noetl("context", "add", "far", "--url", URL, "--token-file", "token").code == 0
    return lambda text: (noetl(*near.words(text), "--json"), noetl(*away.words(text), "--json", "--remote"))


def _late(text: str) -> int:
    """What looks at everything comes first; what switches off, and then what removes, comes last."""
    if text == "list":
        return 0
    return 3 if "remove" in text or "delete" in text else 2 if "disable" in text else 1


def test_commands_answer_there_as_here(both):
    for text in sorted(CASES.values(), key=_late):
        here, there = both(text)
        assert here.code == there.code and here.code in (0, 1), (text, here.err, there.err)
        assert [shape(line) for line in there.json] == [shape(line) for line in here.json], text


def test_what_is_not_there_is_refused_alike(both):
    for text in UNKNOWN:
        here, there = both(text)
        assert here.code == there.code == 2, (text, here, there)
        codes = [
            re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", ran.err or ran.json[0]["error"]["code"])
            for ran in (here, there)
        ]
        assert codes[0] and codes[0][0] == codes[1][0], (text, here, there)
