"""A worker over HTTP that is told to stop ends its poll."""

from __future__ import annotations

from noetl.adapters.http_work import POLL_SECONDS, CommandTokens, HttpCommands


def test_a_poll_ends_when_nothing_more_is_to_be_received():
    asked, slept = [], []
    commands = HttpCommands(
        lambda method, path, body, headers: asked.append(path) or (200, b'{"commands":[]}'),
        "w",
        "io",
        1,
        CommandTokens(),
        clock=lambda: 0.0,
        sleep=slept.append,
        stopping=lambda: len(slept) == 3,
    )
    assert commands.receive(1, 20.0) == []
    assert slept == [POLL_SECONDS] * 3 and len(asked) == 3
