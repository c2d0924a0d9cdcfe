"""The polls of a worker over HTTP: one that is told to stop ends its poll, one that cannot run a command rests."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from noetl.adapters.http_work import (
    FIRST_PAUSE,
    HOLD_SECONDS,
    LONGEST_REST,
    POLL_SECONDS,
    WAIT_SECONDS,
    CommandTokens,
    HttpCommands,
)
from noetl.domain.errors import InfrastructureError


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
    assert slept == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE] and len(asked) == 3


def test_a_server_that_waits_is_asked_again_at_once():
    now, asked, slept = [0.0], [], []

    def exchange(method, path, body, headers):
        asked.append(json.loads(body)["wait"])
        now[0] += asked[-1]
        return 200, b'{"commands":[]}'

    commands = HttpCommands(exchange, "w", "io", 1, CommandTokens(), clock=lambda: now[0], sleep=slept.append)
    assert commands.receive(1, 2.5 * WAIT_SECONDS) == []
    assert asked == [WAIT_SECONDS, WAIT_SECONDS, 0.5 * WAIT_SECONDS] and slept == []


def test_a_server_whose_claims_do_not_wait_is_asked_without():
    """Workers and servers of neighbouring versions work together."""
    asked, slept = [], []

    def exchange(method, path, body, headers):
        asked.append(json.loads(body))
        return (400, b'{"code":"body_invalid"}') if "wait" in asked[-1] else (200, b'{"commands":[]}')

    commands = HttpCommands(
        exchange, "w", "io", 1, CommandTokens(), clock=lambda: sum(slept), sleep=slept.append
    )
    assert commands.receive(1, 5.0) == [] and max(slept) == POLL_SECONDS
    assert ["wait" in one for one in asked[:3]] == [True, False, False]


def test_pauses_of_a_poll_grow_up_to_their_longest():
    slept = []
    commands = HttpCommands(
        lambda method, path, body, headers: (200, b'{"commands":[]}'),
        "w",
        "io",
        1,
        CommandTokens(),
        clock=lambda: sum(slept),
        sleep=slept.append,
    )
    assert commands.receive(1, 20.0) == []
    assert slept == sorted(slept) and max(slept) == POLL_SECONDS and len(slept) < 50


def test_what_cannot_be_run_now_is_not_claimed_again_at_once():
    """The server offers a command that was given back at once; one that is refused would be claimed again and again."""
    asked, now = [], [0.0]
    claims = b'{"commands":[{"execution_id":"1","command_id":"c","attempt":1,"turn":1,"command":"t","message":"m"}]}'

    def exchange(method, path, body, headers):
        asked.append(path)
        return (403, b"{}") if refusing and path.endswith("give-back") else (200, claims)

    def sleep(seconds):
        now[0] += seconds

    for refusing in (False, True):
        commands = HttpCommands(
            exchange, "w", "io", 1, CommandTokens(), clock=lambda: now[0], sleep=sleep, stopping=lambda: False
        )
        (found,) = commands.receive(1, 20.0)
        began = now[0]
        with pytest.raises(InfrastructureError) if refusing else nullcontext():
            commands.nack([found], 900)
        asked.clear()
        assert commands.receive(1, LONGEST_REST / 2) == [] and asked == []
        assert commands.receive(1, 20.0) and now[0] == began + LONGEST_REST
        commands.nack([found], HOLD_SECONDS)
        with pytest.raises(InfrastructureError) if refusing else nullcontext():
            commands.nack([found])
        assert commands.receive(1, 20.0) and now[0] == began + LONGEST_REST, "its next turn may begin at once"
