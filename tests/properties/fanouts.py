"""Blocks of random playbooks with families: many children in one loop, children with loops and children of their own, and queued ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.properties.bodies import SUM

if TYPE_CHECKING:
    from tests.properties.grammar import Block, Grammar

COUNTS = (2, 3, 5, 8, 13)
LARGE = (40, 120, 300)
CHILDREN = ("properties/leaf", "properties/nest", "properties/mid", "properties/queued_leaf")


def _child(grammar: Grammar, path: str, number: str) -> dict[str, Any]:
    payload: dict[str, Any] = {"n": number}
    if path == "properties/nest":
        payload["m"] = grammar.rng.choice((0, 2, 5, 9))
    return {"kind": "playbook", "path": path, "payload": payload}


def fanout(grammar: Grammar, before: str) -> Block:
    """Draw a loop over children, perhaps more of them than caches and ranges of ids hold."""
    large = grammar.large and grammar.rng.random() < 0.3
    grammar.large = grammar.large and not large
    total = grammar.rng.choice(LARGE if large else COUNTS)
    path = grammar.rng.choice(CHILDREN[:1] if large and total > 100 else CHILDREN)
    spec: dict[str, Any] = {"mode": grammar.rng.choice(("parallel", "parallel", "sequential"))}
    if spec["mode"] == "parallel" and grammar.rng.random() < 0.4:
        spec["max_in_flight"] = grammar.rng.choice((1, 3, 50))
    tool: Any = _child(grammar, path, "{{ iter.item }}")
    if grammar.rng.random() < 0.3:
        tool = [{"ask": grammar.http({"i": "{{ iter.item }}"}, **grammar.steering())}, {"sub": tool}]
    name = grammar.add("fan", loop={"in": list(range(total)), "iterator": "item", "spec": spec}, tool=tool)
    if grammar.rng.random() < 0.2:
        limit = {"key": grammar.rng.choice(("narrow", "wide")), "concurrent": grammar.rng.randint(1, 3)}
        grammar.steps[name].setdefault("spec", {})["limits"] = [limit]
    last = grammar.add("total", tool={"kind": "noop", "args": {"v": SUM.format(name=name)}})
    grammar.arc(name, last)
    return grammar.made(name, last)


def siblings(grammar: Grammar, before: str) -> Block:
    """Draw branches that each call a child; the children have loops, which all run at once."""
    start = grammar.add("siblings", tool={"kind": "noop", "args": {"v": grammar.value(before)}})
    count = grammar.rng.randint(2, 5)
    names = []
    for number in range(count):
        child = _child(grammar, grammar.rng.choice(CHILDREN), f"{{{{ {start}.v + {number} }}}}")
        names.append(grammar.add("kin", tool=child))
    total = " + ".join(f"{name}.v" for name in names)
    last = grammar.add("kin_all", tool={"kind": "noop", "args": {"v": f"{{{{ {total} }}}}"}})
    for name in names:
        grammar.arc(start, name)
        grammar.arc(name, last)
    return grammar.made(start, last)


def blocks(grammar: Grammar) -> tuple[Callable[[Grammar, str], Block], ...]:
    """What may be drawn."""
    return fanout, fanout, siblings
