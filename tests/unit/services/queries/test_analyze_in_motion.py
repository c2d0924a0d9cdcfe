"""An analysis of an execution that goes on between two of its reads: it never claims damage, and never finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.services.queries.analyze import Analysis, AnalyzeDeps, analyze
from tests.conformance.explained import check_analysis
from tests.parts import parted
from tests.unit.api.ground import FAILING, GATED, HELLO, LOOPED, Ground

PARENT = HELLO.replace("demo/hello", "demo/parent").replace(
    'kind: double, value: "{{ workload.n }}"', "kind: playbook, path: demo/hello"
)
LINE = HELLO.replace("demo/hello", "demo/line") + (
    "    next: {arcs: [{step: second}]}\n"
    "  - step: second\n    loop: {in: [1, 2, 3], iterator: n, spec: {mode: sequential}}\n"
    "    tool: {kind: double, value: 1}\n    next: {arcs: [{step: third}]}\n"
    "  - step: third\n    tool: {kind: double, value: 2}\n"
)
SOME = {"line": LINE, "loop": LOOPED, "parent": PARENT, "gated": GATED, "failing": FAILING}


class Between:
    """A port; before each of its calls something happens."""

    def __init__(self, port: Any, happens: Callable[[], None]) -> None:
        self._port, self._happens = port, happens

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._happens()
            return method(*args, **kwargs)

        return call


def tick(ground: Ground) -> None:
    """Let the engine handle what there is, or a worker run a command."""
    runtime = ground.runtime
    runtime.events += ground.publisher.sent
    ground.publisher.sent = []
    ground.store.heartbeat(runtime.owner, 1e9)
    ticked: list[int] = []

    def once() -> None:
        if ticked:
            raise StopIteration
        ticked.append(1)

    try:
        runtime.run_until([], on_tick=once)
    except StopIteration:
        return


def moves(ground: Ground) -> bool:
    return bool(ground.runtime.events or ground.runtime.commands or ground.publisher.sent)


def begun(name: str, moment: int) -> Ground:
    """An execution after so many moves."""
    ground = Ground()
    ground.register()
    ground.start(ground.register(SOME[name])["path"])
    for _ in range(moment):
        tick(ground)
    return ground


def look(ground: Ground, happens: Callable[[int], None]) -> tuple[Analysis, int]:
    """Analyze the first execution while ``happens`` is called before each read, with its number."""
    calls: list[int] = []

    def called() -> None:
        calls.append(1)
        happens(len(calls))

    deps = ground.deps
    first = min(info.execution_id for info in ground.store.executions(limit=100))
    store, inspection = Between(deps.store, called), Between(deps.inspection, called)
    found = analyze(first, AnalyzeDeps(store, inspection, deps.programs, deps.clock))
    return found, len(calls)


@pytest.mark.parametrize("ticks", parted([1, 2, 1000], [1]))
@pytest.mark.parametrize("name", SOME)
def test_what_goes_on_between_two_reads_is_no_damage(name: str, ticks: int) -> None:
    """``ticks``: how much happens before one of the reads; every read of every moment has its turn."""
    moment = 0
    while moves(begun(name, moment)):
        reads, number = 1, 1
        while number <= reads:
            ground = begun(name, moment)

            def happens(call: int, ground: Ground = ground, number: int = number) -> None:
                for _ in range(ticks if call == number and moves(ground) else 0):
                    tick(ground)

            found, reads = look(ground, happens)
            check_analysis(found, f"{name} after {moment} moves, {ticks} more before read {number}")
            number += 1
        moment += 1
    assert moment > 1


def test_what_never_stands_still_makes_progress() -> None:
    """Each look of the analysis meets another moment: it names no damage, though no two of its reads fit."""
    ground = begun("line", 0)
    found, _ = look(ground, lambda call: tick(ground))
    check_analysis(found, "a move before each read")
