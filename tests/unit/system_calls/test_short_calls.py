"""Short calls do what the calls of ``os`` and ``socket`` do."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.system_calls import short_calls
from noetl.system_calls.short_calls import Buffer, Readable


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "file"
    found.write_bytes(b"0123456789")
    return found


def test_what_was_written_is_read_as_far_as_the_buffer_goes(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    buffer = Buffer(4)
    assert short_calls.write(writing, b"a\0bcde") == 6
    assert [buffer.read(reading), buffer.read(reading)] == [b"a\0bc", b"de"]


def test_a_read_of_nothing_and_a_write_to_a_full_pipe_would_block(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with pytest.raises(BlockingIOError):
        Buffer(4).read(reading)
    with pytest.raises(BlockingIOError):
        while True:
            short_calls.write(writing, b"x" * 4096)


def test_the_end_of_the_other_side_is_seen(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(writing)
    assert Buffer(4).read(reading) == b""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        short_calls.write(writing, b"x")
    os.close(writing)


def test_a_closed_descriptor_is_an_error(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    os.close(descriptor)
    buffer = Buffer(4)
    for call in (buffer.read, buffer.read_at, buffer.receive, short_calls.links):
        with pytest.raises(OSError, match=r"Bad file descriptor|Socket operation"):
            call(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        short_calls.write(descriptor, b"x")


def test_a_call_that_a_signal_interrupts_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def interrupted(*arguments: object) -> int:
        made.append(len(arguments))
        if len(made) < 3:
            ctypes.set_errno(errno.EINTR)
            return -1
        return 1

    monkeypatch.setattr(short_calls, "_poll", interrupted)
    assert Readable(0)() and len(made) == 3


def test_places_of_a_file_are_read(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        assert Buffer(4).read_at(descriptor) == b"0123"
        assert Buffer(64).read_at(descriptor, 8) == b"89"
    finally:
        os.close(descriptor)


def test_links_of_a_folder_are_counted_as_fstat_does(tmp_path: Path, path: Path) -> None:
    os.link(path, tmp_path / "other")
    (tmp_path / "below").mkdir()
    for place in (tmp_path, path):
        descriptor = os.open(place, os.O_RDONLY)
        assert short_calls.links(descriptor) == os.fstat(descriptor).st_nlink
        os.close(descriptor)


def test_a_message_is_received_whole_and_none_is_waited_for() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        with pytest.raises(BlockingIOError):
            Buffer(8).receive(here.fileno())
        there.send(b"first")
        there.send(b"second")
        buffer = Buffer(8)
        assert [buffer.receive(here.fileno()), buffer.receive(here.fileno())] == [b"first", b"second"]


def test_a_descriptor_is_readable_when_there_is_something_or_its_other_side_has_gone(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    readable = Readable(reading)
    assert not readable()
    os.write(writing, b"x")
    assert readable()
    Buffer(1).read(reading)
    assert not readable()
    os.close(writing)
    assert readable()


def test_random_bytes_come_from_elsewhere_where_the_call_is_forbidden(monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: object) -> int:
        ctypes.set_errno(errno.EPERM)
        return -1

    monkeypatch.setattr(short_calls, "_getrandom", refuse)
    assert len(short_calls.random_bytes(8)) == 8 and short_calls.random_bytes(8) != bytes(8)
