"""Random playbooks for a real server: those of the simulator's grammar, with waits, gates, time limits and the caller's data in them."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.properties import hostile
from tests.properties.grammar import Block, Grammar, draw

DELAYS = (0.0, 0.02, 0.2)
"""Seconds between tries: time is real here."""


class WholeGrammar(Grammar):
    """Draws blocks that need a caller, a clock or data besides those of the simulator."""

    def block(self, before: str) -> Block:
        """Draw a block after the step ``before``."""
        if self.depth > 3 or self.rng.random() > 0.4:
            return super().block(before)
        own = (
            self.asked,
            self.gate,
            self.rest,
            self.overdue,
            self.data,
            self.each_item,
            self.echoed,
            self.heir,
            self.paced,
            self.kept,
        )
        return self.rng.choice(own)(before)

    def _then(self, first: str, value: str) -> Block:
        last = self.add("then", tool={"kind": "noop", "args": {"v": value}})
        self.arc(first, last)
        return Block(first, last)

    def _next(self, first: str, before: str) -> Block:
        return self._then(first, f"{{{{ {before}.v + 1 }}}}")

    def asked(self, before: str) -> Block:
        """Wait for a callback, perhaps in a loop, perhaps not for long."""
        wait: dict[str, Any] = {"kind": "wait", "callback": True}
        step: dict[str, Any] = {"tool": [{"answer": wait}]}
        if self.rng.random() < 0.3:
            wait["timeout"] = 0.3
            step["spec"] = {"on_error": "continue"}
        if self.rng.random() < 0.3:
            mode = self.rng.choice(("parallel", "sequential"))
            step["loop"] = {"in": [0, 1, 2], "iterator": "item", "spec": {"mode": mode}}
        return self._next(self.add("asked", **step), before)

    def gate(self, before: str) -> Block:
        """Wait until somebody patches the context."""
        rules = [
            {"when": "{{ ctx.approved | default(false) }}", "then": {"allow": True}},
            {"else": {"then": {"allow": self.rng.choice((False, False, "skip"))}}},
        ]
        spec = {"policy": {"admit": {"rules": rules}}}
        return self._next(self.add("gate", spec=spec, tool={"kind": "noop"}), before)

    def rest(self, before: str) -> Block:
        """Wait for a moment."""
        return self._next(self.add("rest", tool={"kind": "wait", "seconds": 0.05}), before)

    def overdue(self, before: str) -> Block:
        """Run out of time while it waits."""
        spec = {"timeout": 0.2, "on_error": "continue"}
        return self._next(self.add("overdue", spec=spec, tool={"kind": "wait", "seconds": 600}), before)

    def data(self, before: str) -> Block:
        """Pass the caller's data on, and publish it."""
        name = self.add("data", tool={"kind": "noop", "args": {"got": "{{ workload.data }}"}})
        self.steps[name]["set"] = {self.rng.choice(("ctx.seen", "ctx.approved")): "{{ workload.data }}"}
        return self._next(name, before)

    def each_item(self, before: str) -> Block:
        """Loop over the caller's items."""
        loop = {"in": "{{ workload.items }}", "iterator": "item", "spec": {"mode": "parallel"}}
        tool = {"kind": "noop", "args": {"got": "{{ iter.item }}"}}
        return self._next(self.add("each", loop=loop, tool=tool), before)

    def echoed(self, before: str) -> Block:
        """Send the caller's data over HTTP and get it back."""
        tool = {
            "kind": "http",
            "method": "POST",
            "url": "http://api.test/echo",
            "body": {"data": "{{ workload.data }}"},
        }
        return self._next(self.add("echo", spec={"on_error": "continue"}, tool=tool), before)

    def heir(self, before: str) -> Block:
        """Give the caller's data to a sub-playbook, which may refuse it."""
        payload = {"n": f"{{{{ {before}.v % 13 }}}}", "more": "{{ workload.data }}"}
        tool = {"kind": "playbook", "path": "properties/leaf", "payload": payload}
        return self._next(self.add("heir", tool=tool), before)

    def paced(self, before: str) -> Block:
        """Share a rate, or slots under a key that is the caller's text."""
        key = self.rng.choice(("paced", "{{ workload.key | default('k') }}"))
        limit = self.rng.choice(
            ({"key": key, "rate": 200, "per": 1, "burst": 5}, {"key": key, "concurrent": 2})
        )
        loop = {"in": [0, 1, 2, 3], "iterator": "item", "spec": {"mode": "parallel"}}
        tool = {"kind": "http", "url": "http://api.test/p", "params": {"i": "{{ iter.item }}"}}
        return self._next(self.add("paced", spec={"limits": [limit]}, loop=loop, tool=tool), before)

    def kept(self, before: str) -> Block:
        """Run a little Python, rarely."""
        if self.rng.random() < 0.7:
            return self.rest(before)
        tool = {"kind": "python", "code": "def main(x):\n    return {'got': x}\n"}
        name = self.add("python", tool={**tool, "args": {"x": "{{ workload.data }}"}})
        self.steps[name]["spec"] = {"on_error": "continue"}
        return self._next(name, before)


def playbook(rng: random.Random, name: str, crowded: bool) -> str:
    """Draw the text of a playbook at ``properties/<name>``."""
    grammar = WholeGrammar(rng, DELAYS, may_race=True, crowded=crowded)
    document = json.loads(draw(grammar, name))
    document["workload"] = {"data": 1, "items": [1, 2]}
    spec = document["executor"]["spec"]
    if rng.random() < 0.3:
        spec["concurrency"] = {
            "limit": rng.randint(1, 2),
            "on_excess": rng.choice(("queue", "queue", "refuse", "cancel_oldest")),
        }
        if rng.random() < 0.5:
            spec["concurrency"]["key"] = "whole-{{ workload.key | default('k') }}"
    if rng.random() < 0.2:
        spec["priority"] = rng.choice((5, -5, "{{ workload.data }}"))
    return json.dumps(document, indent=1)


def damaged(rng: random.Random, text: str) -> str:
    """Make a playbook wrong, as a rule: by a letter, by a value, or by a key."""
    how = rng.randrange(4)
    if how == 0:
        at = rng.randrange(len(text))
        return text[:at] + rng.choice(("", "{", '"', "\x00", "\t", ": ", "{{", "\ud800")) + text[at + 1 :]
    document = json.loads(text)
    step = rng.choice(document["workflow"])
    if how == 1:
        step[rng.choice(("tool", "loop", "next", "spec", "step", "set", hostile.name(rng)))] = hostile.value(
            rng
        )
    elif how == 2:
        document[rng.choice(("metadata", "executor", "workload", "workflow", hostile.name(rng)))] = (
            hostile.value(rng)
        )
    else:
        words = rng.choice(("{{ ", "{{ x", "{% if %}", "{{ 1 +* 2 }}", "{{ workload.x | nofilter }}"))
        step["tool"] = {
            "kind": rng.choice(("noop", "htpp", "http")),
            "args": {"v": words + hostile.text(rng)},
        }
    return json.dumps(document, indent=rng.choice((None, 1)))
