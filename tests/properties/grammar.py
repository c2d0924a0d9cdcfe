"""Random playbooks from a small grammar: sequences, forks with joins, choices, rounds, loops, pipelines, children, answered failures.

Every block is a piece of workflow with one step to enter by and one to leave by; the last step of a block has a value ``v``. Values flow
from block to block, so a run that went another way gives another result. What branches do to the context does not depend on their order.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from tests.properties import bodies, fanouts, meetings, runs

DONE, FAILED = "{{ event.name in ['step.done', 'loop.done'] }}", "{{ event.name == 'step.failed' }}"

AMPLE = {"calls": 1_000_000, "cost": 1_000_000}
"""A budget that lasts: what it counts is compared with the undisturbed run."""


@dataclass
class Block:
    """The step to enter by, and the one to leave by."""

    first: str
    last: str


@dataclass
class Grammar:
    rng: random.Random
    delays: tuple[float, ...]
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    depth: int = 0
    undoable: bool = False
    """Some step says how it is undone."""
    may_race: bool = False
    """Branches may be drawn that call each other off."""
    races: bool = False
    """There are some: how far they come depends on the order, only the end of the execution does not."""
    crowded: bool = False
    """Rather blocks with concurrent runs of one step and with families are drawn."""
    large: bool = False
    """One of the loops over children may be large."""

    # --- steps ---

    def add(self, kind: str, **step: Any) -> str:
        name = f"{kind}{len(self.steps)}"
        self.steps[name] = {"step": name, **step}
        if self.rng.random() < 0.3:
            self.undo(name)
        return name

    def undo(self, name: str) -> None:
        """Say how a step is undone: what is called depends on its result alone, and what it leaves does not depend on any order."""
        shown = f"{{{{ {name} | length }}}}" if "loop" in self.steps[name] else "{{ result.v }}"
        steering = self.rng.choice(({}, {}, {"fail_first": 1}, {"fail": "auth"}))
        task = {**self.http({"was": shown}, **steering), "set_ctx": {"undone": {"add": 1}}}
        self.steps[name].setdefault("spec", {})["compensate"] = self.rng.choice((task, [{"undo": task}]))
        self.undoable = True

    def arc(self, source: str, target: str, **arc: Any) -> None:
        routing = self.steps[source].setdefault("next", {"spec": {"mode": "inclusive"}, "arcs": []})
        routing["arcs"].append({"step": target, **arc})

    def http(self, given: dict[str, Any], **steering: Any) -> dict[str, Any]:
        tool: dict[str, Any] = {"kind": "http", "url": "http://api.test/x", "params": {**given, **steering}}
        if "fail_first" in steering:
            delay = self.rng.choice(self.delays)
            retry = {
                "do": "retry",
                "attempts": 4,
                "backoff": self.rng.choice(("none", "exponential")),
                "delay": delay,
            }
            rule = {"when": "{{ outcome.status == 'error' and outcome.error.retryable }}", "then": retry}
            tool["spec"] = {"policy": {"rules": [rule]}}
        return tool

    def steering(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            found["fail_first"] = self.rng.randint(1, 2)
        if self.rng.random() < 0.15:
            found["size"] = self.rng.choice((600, 5000, 40_000))
        if self.rng.random() < 0.15:
            found["polls"] = self.rng.randint(1, 3)
        return found

    # --- blocks ---

    def block(self, before: str) -> Block:
        """Any block, after the step ``before`` (whose value it uses)."""
        simple = (
            self.call,
            self.call,
            self.pipeline,
            self.parallel,
            self.sequential,
            self.child,
            self.answered,
            self.diverted,
            self.tolerated,
            self.silent,
        )
        nested = (self.sequence, self.fork, self.fork, self.choice, self.rounds)
        self.depth += 1
        more = (meetings.blocks, bodies.blocks)
        if self.crowded:
            more += (runs.blocks, runs.blocks, fanouts.blocks, fanouts.blocks)
        if self.depth <= 3 and self.rng.random() < (0.75 if self.crowded else 0.4):
            made = self.rng.choice(self.rng.choice(more)(self))(self, before)
        else:
            made = self.rng.choice(simple if self.depth > 3 else simple + nested)(before)
            if self.rng.random() < 0.15:
                meetings.lock(self, made.first)
        self.depth -= 1
        return made

    def made(self, first: str, last: str) -> Block:
        return Block(first, last)

    def value(self, step: str) -> str:
        return f"{{{{ {step}.v }}}}"

    def call(self, before: str) -> Block:
        name = self.add("call", tool=self.http({"x": self.value(before)}, **self.steering()))
        return Block(name, name)

    def silent(self, before: str) -> Block:
        name = self.add("silent", tool={"kind": "noop", "args": {"v": f"{{{{ {before}.v + 1 }}}}"}})
        return Block(name, name)

    def pipeline(self, before: str) -> Block:
        """Tasks one after the other, the second of which goes back to the first until its own count is reached."""
        count = f"count{len(self.steps)}"
        most = self.rng.randint(0, 2)
        seen = f"(ctx.{count} | default(0))"
        rules = [
            {
                "when": f"{{{{ {seen} < {most} }}}}",
                "then": {
                    "do": "jump",
                    "to": "one",
                    "set_ctx": {count: f"{{{{ {seen} + 1 }}}}", "cost": {"add": 1}},
                },
            },
            {"else": {"then": {"do": "continue"}}},
        ]
        one = self.http({"x": self.value(before), "n": f"{{{{ {seen} }}}}"}, **self.steering())
        two = {"kind": "noop", "args": {"v": "{{ _prev.v }}"}, "spec": {"policy": {"rules": rules}}}
        three = self.http({"y": "{{ _prev.v }}"}, **self.steering())
        name = self.add("pipe", tool=[{"one": one}, {"two": two}, {"three": three}])
        return Block(name, name)

    def parallel(self, before: str) -> Block:
        return self.loop(before, "parallel")

    def sequential(self, before: str) -> Block:
        return self.loop(before, "sequential")

    def loop(self, before: str, mode: str) -> Block:
        total = self.rng.choice((0, 1, 3, 7, 12))
        spec: dict[str, Any] = {"mode": mode}
        if mode == "parallel" and self.rng.random() < 0.5:
            spec["max_in_flight"] = self.rng.randint(1, 4)
        failing = self.rng.random() < 0.3 and total > 1
        steering = self.steering()
        if "fail_first" in steering or failing:
            steering["only"] = sorted(self.rng.sample(range(total), min(total, 2)))
        if failing:
            steering.pop("fail_first", None)
            steering["fail"] = "not_found"
        gather = {
            "set_ctx": {"sum": {"add": "{{ outcome.result.v }}"}, "most": {"max": "{{ outcome.result.v }}"}}
        }
        tool = self.http({"x": self.value(before), "i": "{{ iter.item }}"}, **steering)
        rules = tool.setdefault("spec", {"policy": {"rules": []}})["policy"]["rules"]
        rules.append({"when": "{{ outcome.status == 'ok' }}", "then": {"do": "continue", **gather}})
        step: dict[str, Any] = {
            "loop": {"in": list(range(total)), "iterator": "item", "spec": spec},
            "tool": [{"work": tool}],
        }
        if failing:
            step["spec"] = {"policy": {"failure": {"mode": "best_effort"}}}
        name = self.add("loop", **step)
        total_of = f"{{{{ {name} | selectattr('v', 'defined') | map(attribute='v') | sum }}}}"
        last = self.add("total", tool={"kind": "noop", "args": {"v": total_of}})
        self.arc(name, last)
        return Block(name, last)

    def child(self, before: str) -> Block:
        tool = {
            "kind": "playbook",
            "path": "properties/child",
            "payload": {"n": f"{{{{ {before}.v % 13 }}}}"},
        }
        name = self.add("child", tool=tool)
        return Block(name, name)

    def answered(self, before: str) -> Block:
        """A failure that another step answers (what waits for the block waits for the arc of its success: failure arcs do not count)."""
        bad = self.add("bad", tool=self.http({"x": self.value(before)}, fail="auth"))
        handler = self.add("handler", tool={"kind": "noop", "args": {"v": f"{{{{ {before}.v + 7 }}}}"}})
        after = self.add("after", tool={"kind": "noop", "args": {"v": self.value(handler)}})
        self.arc(bad, after, when=DONE)
        self.arc(bad, handler, when=FAILED)
        self.arc(handler, after)
        return Block(bad, after)

    def diverted(self, before: str) -> Block:
        """As ``answered``, by ``on_error``."""
        handler = self.add("aside", tool={"kind": "noop", "args": {"v": "{{ args.v + 9 }}"}})
        way = {"step": handler, "args": {"v": self.value(before)}}
        bad = self.add("bad", tool=self.http({"x": self.value(before)}, fail="auth"))
        self.steps[bad].setdefault("spec", {})["on_error"] = way
        after = self.add("after", tool={"kind": "noop", "args": {"v": self.value(handler)}})
        self.arc(bad, after, when=DONE)
        self.arc(handler, after)
        return Block(bad, after)

    def tolerated(self, before: str) -> Block:
        """A failure after which the ordinary arcs are taken."""
        bad = self.add("soft", tool=self.http({"x": self.value(before)}, fail="auth"))
        self.steps[bad].setdefault("spec", {})["on_error"] = "continue"
        after = self.add("after", tool={"kind": "noop", "args": {"v": f"{{{{ {before}.v + 3 }}}}"}})
        self.arc(bad, after)
        return Block(bad, after)

    def sequence(self, before: str) -> Block:
        one = self.block(before)
        two = self.block(one.last)
        self.arc(one.last, two.first)
        return Block(one.first, two.last)

    def fork(self, before: str) -> Block:
        start = self.add("fork", tool={"kind": "noop", "args": {"v": self.value(before)}})
        branches = [self.block(start) for _ in range(self.rng.randint(2, 3))]
        total = " + ".join(f"{branch.last}.v" for branch in branches)
        join = self.add("join", tool={"kind": "noop", "args": {"v": f"{{{{ {total} }}}}"}})
        for branch in branches:
            self.arc(start, branch.first)
            self.arc(branch.last, join)
        return Block(start, join)

    def choice(self, before: str) -> Block:
        start = self.add("pick", tool={"kind": "noop", "args": {"v": self.value(before)}})
        left, right = self.block(start), self.block(start)
        value = f"({left.last}.v | default(0)) + ({right.last}.v | default(0)) * 2"
        join = self.add("merge", tool={"kind": "noop", "args": {"v": f"{{{{ {value} }}}}"}})
        self.arc(start, left.first, when=f"{{{{ {start}.v % 2 == 0 }}}}")
        self.arc(start, right.first, when=f"{{{{ {start}.v % 2 == 1 }}}}")
        self.arc(left.last, join)
        self.arc(right.last, join)
        return Block(start, join)

    def rounds(self, before: str) -> Block:
        """A cycle that is gone through a few times."""
        count = f"round{len(self.steps)}"
        seen = f"(ctx.{count} | default(0))"
        head = self.add("head", tool=self.http({"x": self.value(before), "round": f"{{{{ {seen} }}}}"}))
        self.steps[head]["set"] = {f"ctx.{count}": f"{{{{ {seen} + 1 }}}}"}
        tail = self.add("tail", tool={"kind": "noop", "args": {"v": self.value(head)}})
        self.arc(head, head, when=f"{{{{ ctx.{count} < 3 }}}}")
        self.arc(head, tail, when=f"{{{{ ctx.{count} >= 3 }}}}")
        return Block(head, tail)


def random_playbook(rng: random.Random, name: str, delays: tuple[float, ...] = (0, 1, 40)) -> str:
    """The text of a playbook of which nothing depends on the order in which anything happens. ``delays``: of its retries, seconds."""
    return draw(Grammar(rng, delays), name)


def draw(grammar: Grammar, name: str) -> str:
    """The text of a playbook whose end does not depend on the order in which anything happens."""
    rng = grammar.rng
    start = grammar.add("start", tool={"kind": "noop", "args": {"v": rng.randint(0, 99)}})
    last = start
    for _ in range(rng.randint(1, 3)):
        block = grammar.block(last)
        grammar.arc(last, block.first)
        last = block.last
    if rng.random() < (0.5 if grammar.undoable else 0.15):
        bad = grammar.add("unanswered", tool=grammar.http({"x": grammar.value(last)}, fail="not_found"))
        grammar.arc(last, bad)
    spec: dict[str, Any] = {"entry_step": start}
    if rng.random() < 0.5:
        spec["budget"] = AMPLE
    document = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": name, "path": f"properties/{name}"},
        "executor": {"spec": spec},
        "workflow": list(grammar.steps.values()),
    }
    if rng.random() < 0.25:
        document["finally"] = grammar.http({"what": "{{ execution.status }}"})
    return json.dumps(document, indent=1)
