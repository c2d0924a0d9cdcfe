"""Blocks of random playbooks whose branches meet: locks, counted arrivals, waves, and branches that are called off.

``race`` is the only one in which it depends on the order how far a branch comes; what the block gives does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.properties.grammar import Block, Grammar

LOCKS = ("left", "{{ 'right' }}")
NEVER = {
    "rules": [
        {"when": "{{ ctx.never is defined }}", "then": {"allow": True}},
        {"else": {"then": {"allow": False}}},
    ]
}


def lock(grammar: Grammar, name: str) -> None:
    """Let the step hold a lock that others of the playbook hold too."""
    grammar.steps[name].setdefault("spec", {})["mutex"] = grammar.rng.choice(LOCKS)


def _spec(grammar: Grammar, name: str, **spec: Any) -> None:
    grammar.steps[name].setdefault("spec", {}).update(spec)


def _noop(grammar: Grammar, kind: str, value: str, **spec: Any) -> str:
    name = grammar.add(kind, tool={"kind": "noop", "args": {"v": value}})
    _spec(grammar, name, **spec)
    return name


def threads(grammar: Grammar, before: str) -> Block:
    """Some threads over one arc, all of which are brought together again."""
    count = grammar.rng.randint(2, 4)
    start = _noop(grammar, "threads", grammar.value(before))
    worker = grammar.add("thread", tool=grammar.http({"x": grammar.value(start), "n": "{{ args.n }}"}))
    _spec(grammar, worker, join="each")
    if grammar.rng.random() < 0.5:
        lock(grammar, worker)
    rest = grammar.rng.choice(({}, {"rest": "absorb"}, {"rest": "cancel"}))
    last = _noop(
        grammar, "together", f"{{{{ {start}.v + {count} }}}}", join={"wait": count, "of": "arrivals", **rest}
    )
    for number in range(count):
        grammar.arc(start, worker, args={"n": number})
    grammar.arc(worker, last)
    return grammar.made(start, last)


def waves(grammar: Grammar, before: str) -> Block:
    """Two arcs deliver twice each to a join that holds: it fires once per wave, whatever comes first."""
    start = _noop(grammar, "waves", grammar.value(before))
    wave = _noop(grammar, "wave", grammar.value(start), join={"wait": "any", "rest": "hold"})
    both_waves_and_every_surge = {"wait": 2 + 4, "of": "arrivals"}
    last = _noop(grammar, "ebb", f"{{{{ {wave}.v + 2 }}}}", join=both_waves_and_every_surge)
    for _ in range(2):
        branch = grammar.add("surge", tool=grammar.http({"x": grammar.value(start), "n": "{{ args.n }}"}))
        _spec(grammar, branch, join="each")
        grammar.arc(start, branch, args={"n": 1})
        grammar.arc(start, branch, args={"n": 2})
        grammar.arc(branch, wave)
        grammar.arc(branch, last)
    grammar.arc(wave, last)
    return grammar.made(start, last)


def spared(grammar: Grammar, before: str) -> Block:
    """A branch that can never come is withdrawn by the join, or by name, once the other has come."""
    start = _noop(grammar, "spare", grammar.value(before))
    branch = grammar.block(start)
    tool: dict[str, Any] = {"kind": "noop", "args": {"v": 0}}
    if grammar.may_race and grammar.rng.random() < 0.3:
        grammar.races = True  # whether the child has begun when it is cancelled
        tool = {"kind": "playbook", "path": "properties/parked_child"}
    waits = grammar.add("waits", tool=tool)
    if tool["kind"] == "noop":
        _spec(grammar, waits, policy={"admit": NEVER})
    by_name = grammar.rng.random() < 0.5
    spec = {"cancels": [waits]} if by_name else {"join": {"wait": "any", "rest": "cancel"}}
    last = _noop(grammar, "spared", f"{{{{ {branch.last}.v + 1 }}}}", **spec)
    grammar.arc(start, branch.first)
    grammar.arc(start, waits)
    grammar.arc(branch.last, last)
    if not by_name:
        grammar.arc(waits, last)
    return grammar.made(start, last)


def race(grammar: Grammar, before: str) -> Block:
    """One branch calls the other off, wherever that is by then."""
    grammar.races = True
    start = _noop(grammar, "race", grammar.value(before))
    winner = grammar.block(start)
    known = set(grammar.steps)
    loser = grammar.block(start)
    called_off = [name for name in grammar.steps if name not in known]
    stop = _noop(grammar, "stop", f"{{{{ {winner.last}.v + 3 }}}}", cancels=called_off)
    last = _noop(grammar, "raced", f"{{{{ {stop}.v }}}}")
    grammar.arc(start, winner.first)
    grammar.arc(start, loser.first)
    grammar.arc(winner.last, stop)
    grammar.arc(stop, last)
    grammar.arc(loser.last, last)
    return grammar.made(start, last)


def blocks(grammar: Grammar) -> tuple[Callable[[Grammar, str], Block], ...]:
    """What may be drawn."""
    return (threads, waves, spared, race) if grammar.may_race else (threads, waves, spared)
