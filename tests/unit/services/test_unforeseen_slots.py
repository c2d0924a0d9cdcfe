"""A decision may need any number of slots that nothing foresaw: it is made again until it has them, and the engine goes on."""

from __future__ import annotations

import json

import pytest

from noetl.domain.events import Cancel, ContextPatched
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.state import decode_state
from noetl.engine.scopes.slot_view import NeedSlots
from noetl.services.orchestrator import handle_events as module
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.handle_events import handle_events
from tests.unit.services.engine_bench import HEAD, Bench

GATES = 9


def gated() -> str:
    """Gates that each look at another step's result; the last of them breaks, and then a compensation looks at the result of its run."""
    names = [f"g{number}" for number in range(GATES)]
    steps = [
        {
            "step": "start",
            "tool": {"kind": "noop", "args": {"v": 1}},
            "spec": {"compensate": {"kind": "http", "url": "http://a.test/{{ result.v }}"}},
            "next": {"spec": {"mode": "inclusive"}, "arcs": [{"step": f"s{name}"} for name in names]},
        }
    ]
    for name in names:
        asked = f"s{name}.v" if name != names[-1] else f"1 / (s{name}.v - 1)"
        rules = [
            {"when": f"{{{{ ctx.approved is defined and {asked} }}}}", "then": {"allow": name == names[-1]}},
            {"else": {"then": {"allow": False}}},
        ]
        steps.append(
            {
                "step": f"s{name}",
                "tool": {"kind": "noop", "args": {"v": 1}},
                "next": {"arcs": [{"step": name}]},
            }
        )
        gate = {"policy": {"admit": {"rules": rules}}}
        steps.append({"step": name, "spec": gate, "tool": {"kind": "noop"}})
    return HEAD + "\n".join(f"  - {json.dumps(step)}" for step in steps)


def test_a_decision_that_needs_slot_after_slot_is_made() -> None:
    bench = Bench(gated())
    start = bench.start()
    bench.handle(bench.put(start))
    patch = ContextPatched(
        start.execution_id, "ext:1", start.program, [Patch("ctx", "approved", True)], "ada", ""
    )
    handle_events([patch], bench.deps.engine, BatchEffects())
    info = bench.store.info(start.execution_id)
    assert info is not None
    assert [(one.step, one.phase) for one in decode_state(info.state).tokens.values()] == [
        ("start", "compensate")
    ], bench.log


def test_a_decision_that_never_has_enough_fails_like_any_other(monkeypatch) -> None:
    bench = Bench()
    start = bench.start()
    bench.handle(bench.put(start))

    def never(*asked: object) -> None:
        raise NeedSlots(frozenset({"more"}))

    monkeypatch.setattr(module, "decide_one", never)
    with pytest.raises(RuntimeError, match="asks again for slots"):
        handle_events([Cancel(start.execution_id, "ext:1", start.program)], bench.deps.engine, BatchEffects())
