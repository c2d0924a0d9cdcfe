"""Messages between processes arrive whole, in order, and as they were."""

from __future__ import annotations

import fcntl
import socket
import threading
from pathlib import Path

import pytest

from noetl.domain.commands import Command, FrozenScope
from noetl.domain.events import CommandDone
from noetl.domain.outcomes.outcomes import Outcome
from noetl.runtime.local.worker_process.messages import (
    Begin,
    Channel,
    Failed,
    FromWorker,
    Over,
    Report,
    Run,
    Size,
    ToWorker,
    decode_settings,
    encode_settings,
)
from noetl.runtime.settings import Settings
from tests.waiting import PATIENCE


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def command(number: int, value: object = 1) -> Command:
    scope = FrozenScope(workload={"value": value})
    return Command(100 + number, str(number), number, "load", "p", "python", scope=scope)


@pytest.mark.parametrize("value", ["\ud800 \0 é", 10**23, {"a": [1.5, None]}, "x" * 3_000_000])
def test_messages_of_any_size_arrive_as_they_were(ends, value):
    one, other = ends
    sent = [Run([(1, command(1, value))]), Size("io", 3), Over([7], [(7, 2)], 1), Run([(2, command(2))])]
    thread = threading.Thread(target=Channel(one, FromWorker).send, args=sent)
    thread.start()
    channel, found = Channel(other, ToWorker), []
    while len(found) < len(sent):
        found += channel.receive()
    thread.join()
    assert found == sent


def test_threads_that_send_at_once_do_not_mix_their_messages(ends):
    one, other = ends
    channel = Channel(one, ToWorker)
    done = CommandDone.of(command(1), Outcome("ok", "y" * 50_000))
    threads = [
        threading.Thread(target=channel.send, args=[Report(number, [done], True)]) for number in range(40)
    ]
    for thread in threads:
        thread.start()
    found, reader = [], Channel(other, FromWorker)
    while len(found) < 40:
        found += reader.receive()
    for thread in threads:
        thread.join()
    assert sorted(one.number for one in found) == list(range(40))
    assert all(one.events == [done] for one in found)


def test_the_end_of_the_other_process_is_seen_and_no_message_is_waited_for_in_vain(ends):
    one, other = ends
    channel = Channel(other, ToWorker)
    assert channel.receive(0.0) == []
    Channel(one, FromWorker).send(Size("io", 1))
    one.close()
    assert channel.receive() == [Size("io", 1)]
    assert channel.receive() is None


def test_a_process_that_takes_nothing_keeps_nobody_waiting_and_gets_all_in_order_later(ends):
    one, other = ends
    channel = Channel(one, FromWorker)
    sent = [Run([(number, command(number, "z" * 300_000))]) for number in range(20)]
    sender = threading.Thread(target=lambda: [channel.send(message) for message in sent], daemon=True)
    sender.start()
    sender.join(PATIENCE)
    assert not sender.is_alive(), "it waits"
    found, reader = [], Channel(other, ToWorker)
    while len(found) < len(sent):
        found += reader.receive()
    assert found == sent
    channel.send(Size("io", 1))
    assert reader.receive() == [Size("io", 1)]


def test_half_a_message_is_none(ends):
    one, other = ends
    one.sendall(b'\0\0\0\x10["si')
    assert Channel(other, ToWorker).receive(0.0) == []
    one.close()
    assert Channel(other, ToWorker).receive() is None


def test_settings_are_the_same_in_the_other_process(tmp_path):
    env = {
        "NOETL_CREDENTIALS": str(tmp_path / "c.yaml"),
        "NOETL_HTTP_ALLOW": "127.0.0.1",
        "NOETL_RETENTION_DAYS": "3",
    }
    settings = Settings.from_env(env, home=Path(tmp_path))
    assert decode_settings(encode_settings(settings)) == settings
    begin = Begin(encode_settings(settings), "me", [], [], {"io": 1}, "", [])
    one, other = socket.socketpair()
    with one, other:
        Channel(one, FromWorker).send(begin)
        (found,) = Channel(other, ToWorker).receive()
    assert decode_settings(found.settings) == settings


def test_an_outage_is_one_in_both_processes():
    outage = Failed(1, "no results", "store_unavailable", True, True).error()
    assert outage.retryable and outage.code == "store_unavailable"
    assert str(Failed(1, "SystemExit: 3", "", False, False).error()) == "SystemExit: 3"


def test_a_descriptor_of_any_number_can_be_waited_for(ends):
    one, _ = ends
    with socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 1024)) as high:
        assert Channel(high, FromWorker).receive(0.0) == []
