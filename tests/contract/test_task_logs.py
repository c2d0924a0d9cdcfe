"""Places for what tasks print: every line once, in order, also of several writers."""

from __future__ import annotations

import threading

import pytest

from noetl.adapters.aws import task_logs
from noetl.adapters.aws.task_logs import OBJECTS, SETTLE_SECONDS, S3TaskLogs
from noetl.adapters.embedded.task_logs import FileTaskLogs
from noetl.domain.errors import InvalidInputError
from noetl.domain.task_logs import TaskLine
from noetl.ports.task_logs import PAGE_BYTES
from tests.contract.clouds import BUCKET, Clock, make_bucket, mocked_aws
from tests.doubles.task_logs import MemoryTaskLogs
from tests.parts import over


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file", "s3"])
def logs(request, tmp_path, clock, monkeypatch):
    if request.param == "s3":
        with mocked_aws(monkeypatch) as make_client:
            client = make_client("s3")
            make_bucket(client)
            yield S3TaskLogs(BUCKET, client, clock)
        return
    yield MemoryTaskLogs() if request.param == "memory" else FileTaskLogs(tmp_path / "logs")


def line(text, **more):
    return TaskLine("2026-11-21T10:00:00.000Z", "load", "load", text, **more)


def pages(logs, execution_id, limit, *, after="", everything=True):
    while True:
        page = logs.read(execution_id, after, limit, everything=everything)
        assert len(page.lines) <= limit
        yield page
        if not page.more:
            return
        after = page.next


def test_every_line_is_told_once_and_in_order(logs, clock):
    assert not logs.read(7, "", 10, everything=True).lines
    texts = [f"{number}: \u00e9 \x00 \ud800 \x85 \u2028 | " for number in range(9)]
    for start in (0, 4, 5):
        logs.append(7, [line(text, run=2, index=0) for text in texts[start : {0: 4, 4: 5, 5: 9}[start]]])
        clock.sleep(0.002)
    logs.append(70, [line("of another execution")])
    for limit in (1, 2, 3, 4, 5, 9, 100):
        found = list(pages(logs, 7, limit))
        told = [one for page in found for one in page.lines]
        assert [one.line for one in told] == texts and {(one.run, one.index) for one in told} == {(2, 0)}
    last = found[-1].next
    assert not logs.read(7, last, 10, everything=True).lines
    clock.sleep(1)
    logs.append(7, [line("later")])
    assert [one.line for one in logs.read(7, last, 10, everything=True).lines] == ["later"]
    logs.delete_execution(7)
    logs.delete_execution(7)
    assert not logs.read(7, "", 10, everything=True).lines
    assert logs.read(70, "", 10, everything=True).lines


def back(logs, execution_id, limit, before):
    while True:
        page = logs.read_back(execution_id, before, limit)
        assert len(page.lines) <= limit
        yield page
        if not page.more:
            return
        before = page.next


def kept(logs, clock, count=9):
    texts = [str(number) for number in range(count)]
    for start in range(0, count, 4):
        logs.append(7, [line(text) for text in texts[start : start + 4]])
        clock.sleep(0.002)
    return texts


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9, 100])
def test_lines_are_read_from_the_end_and_every_one_once(logs, clock, limit):
    assert logs.end(7, everything=True) in ("", "0") and not logs.read_back(7, "", 10).lines
    texts = kept(logs, clock)
    end = logs.end(7, everything=True)
    told = [one.line for page in back(logs, 7, limit, end) for one in page.lines]
    assert told == texts[::-1]
    assert not logs.read(7, end, 10, everything=True).lines
    logs.append(7, [line("later")])
    assert [one.line for one in logs.read(7, end, 10, everything=True).lines] == ["later"]
    assert [one.line for page in back(logs, 7, limit, end) for one in page.lines] == texts[::-1]


def test_every_cursor_is_a_place_between_two_lines_in_both_orders(logs, clock):
    texts = kept(logs, clock)
    forward = logs.read(7, "", 100, everything=True).places
    backward = logs.read_back(7, logs.end(7, everything=True), 100).places
    assert len(forward) == len(backward) == len(texts)
    for cursors in (forward, backward[:-1][::-1]):
        for count, cursor in enumerate(cursors, 1):
            after = [one.line for page in pages(logs, 7, 2, after=cursor) for one in page.lines]
            before = [one.line for page in back(logs, 7, 2, cursor) for one in page.lines]
            assert after == texts[count:] and before == texts[:count][::-1]
    assert not logs.read_back(7, backward[-1], 10).lines
    assert [one.line for one in logs.read(7, backward[-1], 100, everything=True).lines] == texts


def test_the_end_of_a_file_is_behind_its_last_whole_line(tmp_path):
    logs = FileTaskLogs(tmp_path)
    wide = [line(f"{number}" + "\u00e9" * 3000) for number in range(500)]
    logs.append(7, wide)
    file = tmp_path / "7.jsonl"
    size = file.stat().st_size
    assert size > 2 * PAGE_BYTES
    with file.open("ab") as damaged:
        damaged.write(b'{"time": "' + b"x" * 200_000)
    end = logs.end(7, everything=False)
    assert end == str(size)
    found = list(back(logs, 7, 1000, end))
    assert [one for page in found for one in page.lines] == wide[::-1]
    assert len(found) == 3 and all(sum(len(one.line) for one in page.lines) < PAGE_BYTES for page in found)
    huge = [line("a" * (PAGE_BYTES + 5)), line("b" * (PAGE_BYTES + 5))]
    logs.append(8, huge)
    assert [one for page in back(logs, 8, 9, logs.end(8, everything=True)) for one in page.lines] == huge[
        ::-1
    ]


class CountedClient:
    """A client of S3 that counts what is listed."""

    def __init__(self, client):
        self._client, self.lists = client, 0

    def list_objects_v2(self, **options):
        self.lists += 1
        return self._client.list_objects_v2(**options)

    def __getattr__(self, name):
        return getattr(self._client, name)


def test_the_newest_objects_are_found_in_few_lists_however_they_lie_in_time(clock, monkeypatch):
    """A burst of more objects than a list holds, then months of nothing, then a few."""
    with mocked_aws(monkeypatch) as make_client:
        client = CountedClient(make_client("s3"))
        make_bucket(client)
        logs = S3TaskLogs(BUCKET, client, clock)
        monkeypatch.setattr(task_logs, "_LIST", 30)
        texts = [str(number) for number in range(OBJECTS + 60)]
        for text in texts[:-3]:
            logs.append(7, [line(text)])
            clock.sleep(0.002)
        clock.sleep(90 * 86_400)
        for text in texts[-3:]:
            logs.append(7, [line(text)])
            clock.sleep(60)
        clock.sleep(90 * 86_400)
        client.lists = 0
        end = logs.end(7, everything=True)
        assert client.lists < 20
        found = [one.line for page in back(logs, 7, 1000, end) for one in page.lines]
        assert found == texts[::-1] and client.lists < 120
        assert logs.end(7, everything=False) == end
        logs.append(7, [line("young")])
        assert logs.end(7, everything=False) == end and logs.end(7, everything=True) > end


@over("after", ["x", "-1", "1 ", "../../etc", "1" * 40, "\u0663", "1700000000000-zz"])
def test_what_is_no_cursor_is_refused(logs, after):
    with pytest.raises(InvalidInputError) as caught:
        logs.read(7, after, 10, everything=True)
    assert caught.value.code == "invalid_cursor"
    with pytest.raises(InvalidInputError):
        logs.read_back(7, after, 10)


def test_lines_of_several_writers_stay_whole(tmp_path):
    logs = FileTaskLogs(tmp_path)
    wide = [[line(f"{writer}.{number}" + "x" * 3000) for number in range(40)] for writer in range(4)]
    threads = [threading.Thread(target=logs.append, args=(7, lines)) for lines in wide]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [one for page in pages(logs, 7, 50) for one in page.lines]
    assert len(told) == 160
    for lines in wide:
        assert [one for one in told if one in lines] == lines


def test_half_of_a_line_is_not_told_before_its_end(tmp_path):
    logs = FileTaskLogs(tmp_path)
    logs.append(7, [line("one"), line("two")])
    file = tmp_path / "7.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    page = logs.read(7, "", 10, everything=False)
    assert [one.line for one in page.lines] == ["one"] and not page.more
    file.write_bytes(whole + b'{"time": "killed in the mid\n')
    logs.append(7, [line("three")])
    told = logs.read(7, page.next, 10, everything=False)
    assert [one.line for one in told.lines] == ["two", "three"]


def test_young_objects_wait_until_none_can_come_before_them(clock, monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        client = make_client("s3")
        make_bucket(client)
        logs = S3TaskLogs(BUCKET, client, clock)
        logs.append(7, [line("first")])
        assert not logs.read(7, "", 10, everything=False).lines
        clock.sleep(SETTLE_SECONDS + 0.1)
        for number in range(OBJECTS + 5):
            logs.append(7, [line(f"young {number}")])
            clock.sleep(0.01)
        page = logs.read(7, "", 100, everything=False)
        assert [one.line for one in page.lines] == ["first"] and not page.more
        told = [one.line for rest in pages(logs, 7, 1000, after=page.next) for one in rest.lines]
        assert told == [f"young {number}" for number in range(OBJECTS + 5)]
