"""A pause and the slots of keys that executions share: those that waited behind a paused execution have their turn."""

from __future__ import annotations

from noetl.domain.events import Pause, Start
from tests.unit.services.engine_bench import HEAD, Bench


def limited(bench: Bench, name: str, concurrent: int) -> Start:
    """Start an execution of a playbook that says for itself how many may hold the key at a time."""
    text = HEAD.replace("it", name) + (
        f"  - step: start\n    spec: {{ limits: [{{ key: api, concurrent: {concurrent} }}] }}\n"
        "    tool: { kind: http, url: 'http://a.test/' }\n"
    )
    bench.program = bench.programs(bench.programs.register(text, source_name=f"{name}.yaml").program)
    return bench.start()


def test_those_behind_a_paused_execution_have_their_turn_when_it_is_paused():
    """The second asks for the key alone and waits; the third would share it, and waits behind the second only."""
    bench = Bench()
    holder = limited(bench, "holder", 1)
    bench.handle(bench.put(holder))
    assert [one.execution_id for one, _ in bench.given()] == [holder.execution_id]
    alone, sharing = limited(bench, "alone", 1), limited(bench, "sharing", 2)
    bench.handle(bench.put(alone))
    bench.handle(bench.put(sharing))
    assert bench.given() == []
    bench.handle(bench.put(Pause(alone.execution_id, "pause", "")))
    assert [one.execution_id for one, _ in bench.given()] == [sharing.execution_id]
