"""Lines on their way: they are there before the outcome is, after a second at the latest, and never in a task's way."""

from __future__ import annotations

import threading

from noetl.domain.errors import InfrastructureError
from noetl.services.worker import task_log_writer
from noetl.services.worker.task_log_writer import COMMAND_BYTES, LineKeeper
from tests.doubles.task_logs import MemoryTaskLogs
from tests.unit.api.ground import Ground
from tests.waiting import PATIENCE, wait_until

LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: demo/hello}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: double, value: "{{ iter.n }}"}
    next: {arcs: [{step: last}]}
  - step: last
    tool: {kind: double, value: 7}
"""


class Away(MemoryTaskLogs):
    def append(self, execution_id, lines):
        raise InfrastructureError("the bucket does not answer", code="aws_unreachable")


class Command:
    execution_id, step, run = 7, "start", 1


def test_lines_name_their_item_and_are_there_when_the_execution_has_ended():
    ground = Ground()
    execution_id = ground.run(LOOP)
    page = ground.ask("GET", f"/api/executions/{execution_id}/logs").json
    told = [(line["step"], line.get("index"), line["line"]) for line in page["lines"]]
    assert told == [
        ("start", 0, "doubling 1"),
        ("start", 1, "doubling 2"),
        ("start", 2, "doubling 3"),
        ("last", None, "doubling 7"),
    ]
    assert page["complete"]


def test_a_task_that_goes_on_is_heard_after_a_moment(monkeypatch):
    monkeypatch.setattr(task_log_writer, "FLUSH_SECONDS", 0.01)
    kept = threading.Event()

    class Told(MemoryTaskLogs):
        def append(self, execution_id, lines):
            super().append(execution_id, lines)
            kept.set()

    lines = LineKeeper(Told(), lambda line: None).of(Command)
    for text in ("one", "two"):
        lines.add("load", 1, None, text)
        assert kept.wait(PATIENCE), "nobody wrote it"
        kept.clear()


def test_a_writer_that_is_not_used_any_more_has_no_thread(monkeypatch):
    monkeypatch.setattr(task_log_writer, "FLUSH_SECONDS", 0.01)
    logs = MemoryTaskLogs()
    keeper = LineKeeper(logs, lambda line: None)
    for number in (1, 2):
        keeper.of(Command).add("load", 1, None, "printed")
        wait_until(lambda: keeper._writer is None, "the end of its thread")
        assert len(logs.lines[7]) == number


def test_lines_are_there_at_the_end_of_their_command_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    logs = MemoryTaskLogs()
    lines = LineKeeper(logs, lambda line: None).of(Command)
    lines.add("load", 1, None, "printed")
    lines.flush()
    assert [line.line for line in logs.lines[7]] == ["printed"]


def test_what_cannot_be_kept_is_counted_and_the_task_goes_on():
    said: list[str] = []
    lines = LineKeeper(Away(), said.append).of(Command)
    for number in range(3):
        lines.add("load", 1, None, str(number))
    lines.flush()
    assert len(said) == 1 and "3 line(s)" in said[0] and "bucket does not answer" in said[0]


def test_endless_output_of_a_step_is_cut_with_a_word():
    logs = MemoryTaskLogs()
    lines = LineKeeper(logs, lambda line: None).of(Command)
    for _ in range(COMMAND_BYTES // 8000 + 50):
        lines.add("load", 1, None, "x" * 8000)
    lines.flush()
    kept = logs.lines[7]
    assert sum(len(line.line) for line in kept) < COMMAND_BYTES + 200
    assert "not kept" in kept[-1].line and len(kept[-2].line) == 8000


def test_a_defect_of_the_logs_ends_neither_the_writer_nor_the_task(monkeypatch):
    monkeypatch.setattr(task_log_writer, "FLUSH_SECONDS", 0.01)
    kept, told = threading.Event(), []

    class Once(MemoryTaskLogs):
        broken = True

        def append(self, execution_id, lines):
            if self.broken:
                self.broken = False
                raise OSError(28, "No space left on device")
            super().append(execution_id, lines)
            kept.set()

    keeper = LineKeeper(Once(), told.append)
    keeper.of(Command).add("a", 1, None, "lost")
    wait_until(lambda: told, "the word of the defect")
    keeper.of(Command).add("a", 1, None, "kept")
    assert kept.wait(PATIENCE) and "No space left" in told[0]
