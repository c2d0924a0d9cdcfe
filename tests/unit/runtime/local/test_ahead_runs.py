"""Which commands run before they are issued, and of which runs nothing is reported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.commands import Command, FrozenScope, LoopSlice
from noetl.domain.errors import NotFoundError, TaskError
from noetl.domain.events import CommandDone, Event, Start, TimerFired
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import Outcome
from noetl.domain.results.references import make_ref
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.program import Program
from noetl.kinds.registry import Registry
from noetl.kinds.support.base import KindParams
from noetl.runtime.local.ahead_runs import MOST, SECONDS, UNFIT_SECONDS, AheadRuns
from noetl.services.worker.run_ahead import MOST_SECONDS, SHORT_SECONDS
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.testing.memory import NoCredentials
from tests.parts import over

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\n"
ONE = "workflow:\n  - { step: start, tool: { kind: glue } }\n"
RULE = """
workflow:
  - step: start
    tool:
      kind: glue
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 3 } }] } }
"""
START = Start(1, "start", "", "t")


class Params(KindParams):
    pass


class Glue:
    """A kind whose calls do what a test says. ``seen``: others see them; ``cold``: they have to be prepared."""

    SPEC = KindSpec("glue", "Glue.", "python")
    Params = Params

    def __init__(self, call: Callable[[TaskContext], Any]) -> None:
        self.call, self.calls = call, 0
        self.seen = self.cold = False

    def is_unseen(self, raw_params: Any, context: TaskContext) -> bool:
        return not self.seen

    def is_at_hand(self, raw_params: Any, context: TaskContext) -> bool:
        return not self.cold

    def run(self, params: Params, context: TaskContext) -> TaskResult:
        self.calls += 1
        return TaskResult(self.call(context))


class Ground:
    def __init__(self, body: str = ONE, call: Callable[[TaskContext], Any] = lambda context: 7) -> None:
        self.kinds, registry = Glue(call), Registry(discover=False)
        registry.add(self.kinds)
        self.program = compile_playbook(HEAD + body, source_name="t.yaml", kinds=registry).program
        self.now, self.room = 0.0, True
        self.lines: list[str] = []
        self.results = MemoryResultStore()
        self.runs = AheadRuns(lambda: self.worker, lambda command: nullcontext(self.room), lambda: self.now)
        self.worker = WorkerDeps(
            self.found,
            registry,
            self.results,
            NoCredentials(),
            clock=lambda: self.now,
            log=self.lines.append,
            note_unseen=self.runs.note_unseen,
        )

    def found(self, name: str) -> Program:
        if name == "broken":
            raise RuntimeError("a defect")
        if name != self.program.hash:
            raise NotFoundError(f"no program {name}")
        return self.program

    def command(self, **given: Any) -> Command:
        return Command(
            **{"execution_id": 1, "command_id": "1", "run": 1, "step": "start", "pool": "python"}
            | {"program": self.program.hash}
            | given
        )

    def issue(self) -> None:
        run_command(self.command(), self.worker, lambda event: None)

    def ahead(self, command: Command | None = None) -> CommandDone | None:
        run = self.runs.of([START])
        assert run is not None
        return run(command or self.command())


def done(execution_id: int = 1, event_id: str = "e") -> CommandDone:
    return CommandDone(execution_id, event_id, "p", "1", 1, 0, 1, "start", Outcome("ok"))


def prints(context: TaskContext) -> int:
    context.log("a line")
    return 7


def fails(kind: str) -> Callable[[TaskContext], Any]:
    def call(context: TaskContext) -> Any:
        raise TaskError("no", kind=kind)

    return call


def test_the_outcome_is_that_of_the_issued_command() -> None:
    ground, issued = Ground(), list[Event]()
    command = ground.command()
    run_command(command, ground.worker, issued.append)
    ahead = ground.ahead(command)
    assert ahead is not None and ahead.outcome.result == 7
    for one in (ahead, issued[0]):
        assert isinstance(one, CommandDone)
        one.outcome.meta.clear()  # how long it took
    assert ahead == issued[0]


def test_an_error_of_the_code_is_an_outcome() -> None:
    found = Ground(call=fails("transform")).ahead()
    assert found is not None and found.outcome.error is not None and found.outcome.error.kind == "transform"


def test_a_call_that_was_cancelled_is_no_outcome_and_its_step_is_issued_for_a_while() -> None:
    ground = Ground(RULE, fails("cancelled"))
    ground.issue()
    calls = ground.kinds.calls
    assert ground.ahead() is None and ground.kinds.calls == calls + 1, "no rule answers it"
    ground.kinds.call = lambda context: 7
    assert ground.ahead() is None and ground.kinds.calls == calls + 1
    ground.now = UNFIT_SECONDS
    assert ground.ahead() is not None


def test_a_call_that_took_too_long_is_issued_until_it_takes_less() -> None:
    def call(context: TaskContext) -> Any:
        ground.now += MOST_SECONDS
        raise TaskError("late", kind="timeout")

    ground = Ground(call=call)
    assert ground.ahead() is None and ground.kinds.calls == 1
    ground.now += 1e6
    assert ground.ahead() is None and ground.kinds.calls == 1, "however long that was ago"
    ground.issue()
    assert ground.ahead() is None and ground.kinds.calls == 2
    ground.kinds.call = lambda context: 7
    ground.issue()
    assert ground.ahead() is not None


def test_a_call_has_little_time() -> None:
    ground = Ground(call=lambda context: context.timeout)
    found = ground.ahead()
    assert found is not None and found.outcome.result == MOST_SECONDS


def test_a_run_that_took_long_counts_and_is_not_repeated() -> None:
    """Such as one whose templates take long."""

    def call(context: TaskContext) -> int:
        ground.now += SHORT_SECONDS
        return 7

    ground = Ground(call=call)
    assert ground.ahead() is not None and ground.ahead() is None and ground.kinds.calls == 1


def test_templates_that_may_take_long_are_rendered_when_their_command_is_issued_first() -> None:
    ground = Ground(
        "workflow:\n  - { step: start, tool: { kind: glue, args: { n: '{{ range(9) | list }}' } } }\n"
    )
    assert ground.ahead() is None and not ground.kinds.calls
    ground.issue()
    assert ground.ahead() is not None and ground.kinds.calls == 2


def test_the_calls_of_a_command_have_little_time_together() -> None:
    def call(context: TaskContext) -> None:
        ground.now += 0.4 * MOST_SECONDS

    tasks = ", ".join(f"{{ t{number}: {{ kind: glue }} }}" for number in range(10))
    ground = Ground(f"workflow:\n  - {{ step: start, tool: [{tasks}] }}\n", call)
    assert ground.ahead() is None and ground.kinds.calls == 3


def test_a_large_result_is_stored_when_its_command_is_issued() -> None:
    ground = Ground(call=lambda context: "x" * 100_000)
    assert ground.ahead() is None and not ground.results.delete_execution(1)
    ground.issue()
    assert ground.results.delete_execution(1)


def test_a_large_value_is_read_when_its_command_is_issued() -> None:
    ground = Ground(
        "workflow:\n  - { step: start, tool: { kind: glue, args: { all: '{{ workload.all }}' } } }\n"
    )
    ground.results.put("noetl://execution/1/result/all", b"7")
    ref = make_ref(
        "noetl://execution/1/result/all",
        store="memory",
        size=1,
        sha256=sha256(b"7").hexdigest(),
        value=7,
        encoded=b"7",
    )
    command = ground.command(scope=FrozenScope(workload={"all": ref}))
    assert ground.ahead(command) is None and not ground.kinds.calls
    found: list[Event] = []
    run_command(command, ground.worker, found.append)
    assert ground.kinds.calls == 1


def test_code_that_prints_is_issued_and_its_lines_come_once() -> None:
    ground = Ground(call=prints)
    assert ground.ahead() is None and not ground.lines
    ground.now = UNFIT_SECONDS
    assert ground.ahead() is None and ground.kinds.calls == 1, "it always prints"
    ground.issue()
    assert ["a line" in line for line in ground.lines] == [True]


def test_a_call_that_others_see_is_not_made() -> None:
    ground = Ground()
    ground.kinds.seen = True
    assert ground.ahead() is None and not ground.kinds.calls
    ground.kinds.seen = False
    assert ground.ahead() is None, "it is not looked at again"
    assert ground.ahead(ground.command(execution_id=2)) is None, "in no execution"


def test_a_call_that_has_to_be_prepared_is_not_made_now() -> None:
    ground = Ground()
    ground.kinds.cold = True
    assert ground.ahead() is None and not ground.kinds.calls
    ground.kinds.cold = False
    assert ground.ahead() is not None


@over(
    "body",
    [
        "keychain: [{ name: k, kind: bearer, credential: c }]\n" + ONE,
        "workflow:\n  - { step: start, tool: { kind: glue, cache: { ttl: 60 } } }\n",
        "workflow:\n  - { step: start, tool: { kind: glue }, sink: { tool: { kind: glue } } }\n",
        "workflow:\n  - step: start\n    tool: { kind: iterator, collection: [1], element: x, task: { kind: glue, cache: { ttl: 60 } } }\n",
    ],
    ids=["secrets", "cache", "sink", "nested cache"],
)
def test_what_others_see_beside_calls_is_not_done(body: str) -> None:
    ground = Ground(body)
    assert ground.ahead() is None and not ground.kinds.calls


def test_what_cannot_be_run_at_all_is_issued() -> None:
    ground = Ground()
    assert ground.ahead(ground.command(program="another")) is None
    assert ground.ahead(ground.command(program="broken")) is None
    ground.room = False
    assert ground.ahead() is None and not ground.kinds.calls


def test_commands_begin_for_a_moment_and_are_counted() -> None:
    ground = Ground()
    run = ground.runs.of([START])
    assert run is not None
    assert all(run(ground.command()) for _ in range(MOST)) and run(ground.command()) is None
    later = ground.runs.of([START])
    ground.now += SECONDS
    assert later is not None and later(ground.command()) is None


def test_an_outcome_that_others_may_know_is_written_first() -> None:
    ground = Ground()
    assert ground.runs.of([done()]) is None
    assert ground.runs.of([TimerFired(1, "t", "p", "step:1", 1)]) is None
    ground.runs.note_unseen(ground.command(), done())
    assert ground.runs.of([done(), done(2)]) is None, "what follows from several is for several threads"
    assert ground.runs.of([done(event_id="f")]) is None
    assert ground.runs.of([done()]) is not None
    assert ground.runs.of([done()]) is None, "when it comes again, it is written"


@pytest.mark.parametrize("seen", [False, True])
def test_a_command_notes_that_others_do_not_see_it(seen: bool) -> None:
    ground, found = Ground(), list[Event]()
    ground.kinds.seen = seen
    run_command(ground.command(), ground.worker, found.append)
    assert (ground.runs.of(found) is None) is seen


def test_items_and_continued_commands_are_seen() -> None:
    ground, found = Ground(), list[Event]()
    slice_ = LoopSlice(1, 0, 1, 1, "item", "parallel", [1])
    run_command(ground.command(loop=slice_), ground.worker, found.append)
    assert ground.runs.of(found) is None
