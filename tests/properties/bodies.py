"""Blocks of random playbooks with more inside one step run: loops inside it, gathered results, entries with tasks of their own, time
limits, sub-playbooks of iterations.

Nothing of what these blocks give depends on the order in which anything happens, but for ``unawaited`` (how its child ends when the
execution fails).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.properties.meetings import NEVER

if TYPE_CHECKING:
    from tests.properties.grammar import Block, Grammar

SUM = "{{{{ {name} | selectattr('v', 'defined') | map(attribute='v') | sum }}}}"
"""Of a loop's list, without the iterations that failed."""


def nested(grammar: Grammar, before: str) -> Block:
    """An iterator in a list of tasks, perhaps inside a loop, perhaps with an iterator inside it; some iterations may fail."""
    inner, failing = _iterator(grammar, before, depth=grammar.rng.choice((1, 1, 2)))
    tool = [
        {"inner": inner},
        {"sum": {"kind": "noop", "args": {"v": "{{ inner.count * 10 + inner.failed }}"}}},
    ]
    if not failing and grammar.rng.random() < 0.5:
        tool[1]["sum"]["args"]["v"] = SUM.format(name="inner")
    if grammar.rng.random() < 0.5:
        name = grammar.add("nested", tool=tool)
        return grammar.made(name, name)
    return _over(grammar, tool, grammar.rng.choice(("parallel", "sequential")))


def _iterator(grammar: Grammar, before: str, depth: int) -> tuple[dict[str, Any], bool]:
    """The task, and whether iterations of it fail."""
    total = grammar.rng.choice((0, 1, 3, 5))
    element = f"e{depth}"
    if depth > 1:
        task, failing = _iterator(grammar, before, depth - 1)
    else:
        failing = total > 1 and grammar.rng.random() < 0.3
        steering = {"fail": "not_found", "only": [total - 1]} if failing else grammar.steering()
        where = {
            "x": grammar.value(before),
            "e": f"{{{{ {element} }}}}",
            "up": "{{ iter.parent.index | default(0) }}",
        }
        task = grammar.http(where, **steering)
        task.setdefault("spec", {"policy": {"rules": []}})["policy"]["rules"].append(
            {
                "when": "{{ outcome.status == 'ok' }}",
                "then": {"do": "continue", "set_iter": {"v": "{{ outcome.result.v }}"}},
            }
        )
    made: dict[str, Any] = {"kind": "iterator", "collection": list(range(total)), "element": element}
    if failing:
        made["spec"] = {"policy": {"failure": {"mode": "best_effort"}}}
    label = f"work{depth}"
    return {**made, "task": [{label: task}] if grammar.rng.random() < 0.5 else task}, failing


def _over(grammar: Grammar, tool: list[dict[str, Any]], mode: str) -> Block:
    """The tasks as the body of a loop."""
    items = list(range(grammar.rng.choice((1, 3, 6))))
    name = grammar.add("over", loop={"in": items, "iterator": "item", "spec": {"mode": mode}}, tool=tool)
    last = grammar.add("total", tool={"kind": "noop", "args": {"v": SUM.format(name=name)}})
    grammar.arc(name, last)
    return grammar.made(name, last)


def gathered(grammar: Grammar, before: str) -> Block:
    """A task that goes back to itself, and what it gave each time."""
    most = grammar.rng.randint(0, 3)
    page = grammar.http({"x": grammar.value(before), "n": "{{ iter.n | default(0) }}"}, **grammar.steering())
    page["output"] = {"accumulate": {"strategy": "append", "path": "$.data.v"}}
    again = {"do": "jump", "to": "page", "set_iter": {"n": "{{ (iter.n | default(0)) + 1 }}"}}
    page.setdefault("spec", {"policy": {"rules": []}})["policy"]["rules"] += [
        {"when": f"{{{{ outcome.status == 'ok' and (iter.n | default(0)) < {most} }}}}", "then": again},
        {"when": "{{ outcome.status == 'ok' }}", "then": {"do": "continue"}},
    ]
    tool = [{"page": page}, {"total": {"kind": "noop", "args": {"v": "{{ page | sum }}"}}}]
    if grammar.rng.random() < 0.4:
        return _over(grammar, tool, grammar.rng.choice(("parallel", "sequential")))
    name = grammar.add("gather", tool=tool)
    return grammar.made(name, name)


def entries(grammar: Grammar, before: str) -> Block:
    """The event form: an entry that retries after tasks of its own, and one with tasks at the end of the step."""
    retry = {"max_attempts": 4, "initial_delay": grammar.rng.choice(grammar.delays)}
    note = {"kind": "http", "url": "http://api.test/n", "params": {"note": grammar.value(before)}}
    stage = grammar.http({"stage": grammar.value(before)}, **grammar.steering())
    when = grammar.rng.choice(("step.enter", "step.exit"))
    case = [
        {"when": "{{ event.name == 'call.error' }}", "then": [{"retry": retry}, {"note": note}]},
        {
            "when": f"{{{{ event.name == '{when}' }}}}",
            "then": [{"stage": stage}, {"set": {"ctx": {"staged": True}}}],
        },
    ]
    tool = {
        "kind": "http",
        "url": "http://api.test/x",
        "params": {"x": grammar.value(before), **grammar.steering()},
    }
    if grammar.rng.random() < 0.4:
        items = list(range(grammar.rng.choice((0, 2, 5))))
        tool["params"]["i"] = "{{ iter.item }}"
        loop = {"in": items, "iterator": "item", "mode": grammar.rng.choice(("parallel", "sequential"))}
        return _cased(grammar, SUM, tool=tool, case=case, loop=loop)
    return _cased(grammar, "{{{{ {name}.v }}}}", tool=tool, case=case)


def _cased(grammar: Grammar, value: str, **step: Any) -> Block:
    """A step in the event form: its way on is a list, so what comes after it is part of the block. ``value``: what that gives."""
    name = grammar.add("entries", **step)
    after = grammar.add("after", tool={"kind": "noop", "args": {"v": value.format(name=name)}})
    grammar.steps[name]["next"] = [after]
    return grammar.made(name, after)


def limited(grammar: Grammar, before: str) -> Block:
    """A step that is never admitted, until its time is over; and one whose time is ample."""
    limit = 2 * max(grammar.delays)
    late = grammar.add("late", tool={"kind": "noop", "args": {"v": 0}})
    policy: dict[str, Any] = {"admit": dict(NEVER)}
    if grammar.rng.random() < 0.5:
        policy["lifecycle"] = {"deadline_s": limit}
    else:
        policy["admit"]["timeout"] = limit
    grammar.steps[late].setdefault("spec", {}).update({"policy": policy, "on_error": "continue"})
    ample = grammar.add("ample", tool=grammar.http({"x": grammar.value(before)}, **grammar.steering()))
    spec = {"timeout": 10**6, "policy": {"lifecycle": {"deadline_s": 10**6}}}
    grammar.steps[ample].setdefault("spec", {}).update(spec)
    grammar.arc(late, ample)
    return grammar.made(late, ample)


def offspring(grammar: Grammar, before: str) -> Block:
    """Every iteration asks, and waits for a sub-playbook; some of those leave children behind when they end.

    How far such a child is when its root fails and calls it off, is a matter of time."""
    path = "properties/child"
    if grammar.crowded and grammar.rng.random() < 0.3:
        path, grammar.races = "properties/leaver", True
    tool = [
        {"ask": grammar.http({"x": grammar.value(before), "i": "{{ iter.item }}"}, **grammar.steering())},
        {"sub": {"kind": "playbook", "path": path, "payload": {"n": "{{ ask.v % 13 }}"}}},
    ]
    return _over(grammar, tool, grammar.rng.choice(("parallel", "sequential")))


def unawaited(grammar: Grammar, before: str) -> Block:
    """A sub-playbook that nobody waits for, started by a task, by an iteration, or by an entry."""
    grammar.races = True
    path = grammar.rng.choice(("properties/child", "properties/leaver"))
    child = {"kind": "playbook", "path": path, "wait": False, "payload": {"n": 3}}
    ask = grammar.http({"x": grammar.value(before)}, **grammar.steering())
    last = {"kind": "noop", "args": {"v": "{{ ask.v }}"}}
    how = grammar.rng.randrange(3)
    if how == 0:
        return _over(grammar, [{"ask": ask}, {"sub": child}, {"v": last}], "parallel")
    if how == 1:
        name = grammar.add("begin", tool=[{"sub": child}, {"ask": ask}, {"v": last}])
        return grammar.made(name, name)
    case = [{"when": "{{ event.name == 'step.exit' }}", "then": [{"sub": child}, {"ask": ask}]}]
    tool = {"kind": "noop", "args": {"v": grammar.value(before)}}
    return _cased(grammar, "{{{{ {name}.v }}}}", tool=tool, case=case)


def blocks(grammar: Grammar) -> tuple[Callable[[Grammar, str], Block], ...]:
    """What may be drawn."""
    settled = (nested, gathered, entries, limited, offspring)
    return (*settled, unawaited) if grammar.may_race else settled
