"""Blocks of random playbooks in which several runs of one step are under way at once, each to see its own result and nothing else's.

Every run carries a number (``run``) that its call answers with; what follows from the result says which number it saw (``saw``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.properties.grammar import Block, Grammar

NUMBER = "{{ args.run }}"


def _start(grammar: Grammar, kind: str, before: str) -> str:
    return grammar.add(kind, tool={"kind": "noop", "args": {"v": grammar.value(before)}})


def _spec(grammar: Grammar, name: str, **spec: Any) -> None:
    grammar.steps[name].setdefault("spec", {}).update(spec)


def _plain(grammar: Grammar) -> dict[str, Any]:
    """Steering of a step in the event form, where the rules of tasks are not written."""
    found = grammar.steering()
    found.pop("fail_first", None)
    return found


def _worker(grammar: Grammar, kind: str, before: str, *, cases: bool = False) -> str:
    """A step that runs once per token, and may say how a run is undone."""
    steering = _plain(grammar) if cases else grammar.steering()
    call = grammar.http({"x": grammar.value(before), "run": NUMBER}, **steering)
    name = grammar.add(kind, tool=call)
    spec: dict[str, Any] = {"join": "each"}
    if grammar.rng.random() < 0.6:
        grammar.undoable = True
        undo = {"undoes": name, "run": NUMBER, "saw": "{{ result.run }}"}
        spec["compensate"] = {**grammar.http(undo), "set_ctx": {"undone": {"add": 1}}}
    else:
        grammar.steps[name].get("spec", {}).pop("compensate", None)
    _spec(grammar, name, **spec)
    return name


def _check(grammar: Grammar, before: str) -> str:
    """A step that tells the tools what the run before it saw."""
    told = {"x": grammar.value(before), "run": NUMBER, "saw": "{{ args.saw }}"}
    name = grammar.add("told", tool=grammar.http(told, **grammar.steering()))
    _spec(grammar, name, join="each")
    return name


def _gather(grammar: Grammar, before: str, count: int) -> str:
    """A step that runs once all tokens are there."""
    value = f"{{{{ {before}.v + {count} }}}}"
    name = grammar.add("gathered", tool={"kind": "noop", "args": {"v": value}})
    _spec(grammar, name, join={"wait": count, "of": "arrivals"})
    return name


def crowd(grammar: Grammar, before: str) -> Block:
    """Draw some runs of one step; arcs or cases choose where each goes on, by its own result."""
    count = grammar.rng.randint(2, 5)
    start = _start(grammar, "crowd", before)
    how = grammar.rng.randrange(3)
    worker = _worker(grammar, "one", start, cases=how > 0)
    odd, even = _check(grammar, start), _check(grammar, start)
    last = _gather(grammar, start, count)
    for number in range(count):
        grammar.arc(start, worker, args={"run": number})
    if how == 0:
        for way, rest in ((odd, 1), (even, 0)):
            when = f"{{{{ {worker}.run % 2 == {rest} }}}}"
            grammar.arc(worker, way, when=when, args={"run": NUMBER, "saw": f"{{{{ {worker}.run }}}}"})
    else:
        _cases(grammar, worker, odd, even, "call.done" if how == 1 else "step.exit")
    grammar.arc(odd, last)
    grammar.arc(even, last)
    return grammar.made(start, last)


def _cases(grammar: Grammar, worker: str, odd: str, even: str, event: str) -> None:
    """Give a step entries that route by its result, perhaps after a task of their own."""
    entries = []
    for way, rest in ((odd, 1), (even, 0)):
        then: list[dict[str, Any]] = []
        if grammar.rng.random() < 0.5:
            note = {"run": NUMBER, "saw": "{{ result.run }}"}
            then.append({"note": grammar.http(note, **_plain(grammar))})
        then.append({"next": [{"step": way, "args": {"run": NUMBER, "saw": "{{ result.run }}"}}]})
        entries.append(
            {"when": f"{{{{ event.name == '{event}' and result.run % 2 == {rest} }}}}", "then": then}
        )
    grammar.steps[worker]["case"] = entries


def carousel(grammar: Grammar, before: str) -> Block:
    """Draw a cycle for two or three tokens; each carries its number and what it saw in its last run."""
    count, turns = grammar.rng.randint(2, 3), grammar.rng.randint(1, 3)
    start = _start(grammar, "carousel", before)
    rider = _worker(grammar, "rider", start)
    away = _check(grammar, start)
    last = _gather(grammar, start, count)
    for number in range(count):
        grammar.arc(start, rider, args={"run": number, "left": turns})
    saw = {"run": NUMBER, "saw": f"{{{{ {rider}.run }}}}"}
    grammar.arc(rider, rider, when="{{ args.left > 0 }}", args={**saw, "left": "{{ args.left - 1 }}"})
    grammar.arc(rider, away, when="{{ args.left <= 0 }}", args=saw)
    grammar.arc(away, last)
    return grammar.made(start, last)


def gates(grammar: Grammar, before: str) -> Block:
    """Draw branches that reach one join by arcs and by cases, which count as ways of their own."""
    count = grammar.rng.randint(2, 4)
    start = _start(grammar, "gates", before)
    waits = grammar.rng.choice(("all", count, {"wait": count}, "sync", {"wait": count, "of": "arrivals"}))
    total = []
    last = grammar.add("gate", tool={"kind": "noop"})
    _spec(grammar, last, join=waits)
    for _ in range(count):
        way = grammar.add("way", tool=grammar.http({"x": grammar.value(start)}, **_plain(grammar)))
        grammar.arc(start, way)
        total.append(f"{way}.v")
        if grammar.rng.random() < 0.3:
            grammar.arc(way, last)
            continue
        event = grammar.rng.choice(("call.done", "step.exit"))
        then = [{"next": [{"step": last, "args": {"seen": True}}]}]
        grammar.steps[way]["case"] = [{"when": f"{{{{ event.name == '{event}' }}}}", "then": then}]
    grammar.steps[last]["tool"] = {"kind": "noop", "args": {"v": f"{{{{ {' + '.join(total)} }}}}"}}
    return grammar.made(start, last)


def blocks(grammar: Grammar) -> tuple[Callable[[Grammar, str], Block], ...]:
    """What may be drawn."""
    return crowd, crowd, carousel, gates
