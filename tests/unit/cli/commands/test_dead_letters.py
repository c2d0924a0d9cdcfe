"""``noetl dead-letters`` at a server with queues: what it prints, and its exit codes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl.cli.client import http_client
from noetl.ports.queue import Outgoing
from noetl.services.messaging.operate_dead_letters import LetterQueue
from tests.doubles.queue import MemoryQueue
from tests.unit.cli.far import TOKEN, URL, Far


@pytest.fixture
def queues(noetl, monkeypatch, tmp_path):
    """(the queue of dead letters, the queue they came from) of a server that the commands reach."""
    far = Far()
    dead, home = MemoryQueue(), MemoryQueue()
    queue = LetterQueue("timers", dead, home, lambda: len(dead))
    far.ground.deps = replace(far.ground.deps, letter_queues=[queue])
    monkeypatch.setattr(http_client, "transport", lambda url: far.send)
    (tmp_path / "token").write_text(TOKEN)
    assert noetl("context", "add", "far", "--url", URL, "--token-file", "token").code == 0
    dead.send([Outgoing("first", why="no such value"), Outgoing("second")])
    return dead, home


def test_the_list_says_why_and_what_to_do(noetl, queues):
    ran = noetl("dead-letters", "list", "--remote")
    assert ran.code == 0 and "the engine laid it aside: no such value" in ran.out
    assert "its queue moved it there" in ran.out and "noetl dead-letters retry" in ran.err
    (page,) = noetl("dead-letters", "list", "--remote", "--json", "--limit", "1").json
    assert [one["id"] for one in page["letters"]] == ["timers:m1"]


def test_a_dry_run_then_one_then_all(noetl, queues):
    dead, home = queues
    ran = noetl("dead-letters", "retry", "timers:m1", "--dry-run", "--remote")
    assert ran.code == 0 and "1 dead letters would be sent back, 1 stay" in ran.out and len(dead) == 2
    assert noetl("dead-letters", "retry", "timers:m1", "--remote").code == 0
    assert (len(dead), len(home)) == (1, 1)
    again = noetl("dead-letters", "retry", "timers:m1", "--remote")
    assert again.code == 1 and "it is not there" in again.err and (len(dead), len(home)) == (1, 1)
    (done,) = noetl("dead-letters", "delete", "--all", "--remote", "--json").json
    assert done["ids"] == ["timers:m2"] and (len(dead), len(home)) == (0, 1)
    assert "there is no dead letter" in noetl("dead-letters", "list", "--remote").err


@pytest.mark.parametrize("words", [(), ("--queue", "timers"), ("--all", "--queue", "commands")])
def test_a_command_that_names_none_is_wrong_usage(noetl, queues, words):
    assert noetl("dead-letters", "delete", *words, "--remote").code == 2
    assert len(queues[0]) == 2
