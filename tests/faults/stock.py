"""Playbooks of the fault tests, what is sent to them, and what the engine makes of it in memory, undisturbed.

Two sets: the ordinary workloads of the simulator, and the shapes in which executions meet each other: large families with loops of their
own, concurrent runs of one step, queued children, compensations, hostile texts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

from noetl.domain import codec
from tests.properties.doors import Root
from tests.properties.grammar import Grammar, draw, random_playbook
from tests.properties.shapes import hostile_payload
from tests.properties.shapes import undisturbed as through_the_door
from tests.properties.workloads import FIXED, Seen, Workload, fixed_programs, undisturbed
from tests.properties.world import PLAYBOOKS, World, compile_all

SLOW = frozenset(
    f"properties/{name}"
    for name in (
        "last",
        "parallel_loop",
        "sequential_loop",
        "pipeline",
        "pages",
        "timeouts",
        "withdrawn",
        "newest",
        "locks",
        "undo",
        "callbacks",
        "impatient",
    )
)
"""Workloads with long delays: time is real here. (Nobody outside answers callbacks either.)"""
RANDOM = 12
CROWDS = 24
HOSTILE = 8
WIDE, LINGERING = "properties/wide", "properties/lingering"
CHILDREN = 150
WIDE_TEXT = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: wide, path: {WIDE} }}
workflow:
  - {{ step: start, tool: {{ kind: noop }}, next: {{ spec: {{ mode: inclusive }}, arcs: [{{ step: many }}, {{ step: queued }}] }} }}
  - step: many
    loop: {{ in: "{{{{ range({CHILDREN}) | list }}}}", iterator: i, spec: {{ mode: parallel, max_in_flight: 60 }} }}
    tool: {{ kind: playbook, path: properties/nest, payload: {{ n: "{{{{ iter.i }}}}", m: "{{{{ iter.i % 4 }}}}" }} }}
    next: {{ arcs: [{{ step: end }}] }}
  - step: queued
    loop: {{ in: "{{{{ range(20) | list }}}}", iterator: i, spec: {{ mode: parallel }} }}
    tool: {{ kind: playbook, path: properties/queued_leaf, payload: {{ n: "{{{{ iter.i }}}}" }} }}
    next: {{ arcs: [{{ step: end }}] }}
  - {{ step: end, tool: {{ kind: noop, args: {{ v: "{{{{ (many | map(attribute='v') | sum) + (queued | map(attribute='v') | sum) }}}}" }} }} }}
"""


@cache
def texts() -> dict[str, str]:
    """Every playbook by path: those of the simulator, and random ones without long delays."""
    found = {f"properties/{file.stem}": file.read_text() for file in sorted(PLAYBOOKS.glob("*.yaml"))}
    for number in range(RANDOM):
        rng = random.Random(f"fault {number}")
        found[f"properties/random{number}"] = random_playbook(rng, f"random{number}", delays=(0, 0.1, 0.4))
    return found | {path: text for path, (text, _) in _crowds().items()} | {WIDE: WIDE_TEXT}


@cache
def _fixed() -> frozenset[str]:
    return frozenset(f"properties/{file.stem}" for file in PLAYBOOKS.glob("*.yaml"))


def texts_of(paths: Iterable[str]) -> dict[str, str]:
    """Return the playbooks at ``paths``, and those that these may call: none of the random ones."""
    used = {*paths, *_fixed()}
    return {path: text for path, text in texts().items() if path in used}


@cache
def _crowds() -> dict[str, tuple[str, bool]]:
    """Random playbooks with families and concurrent runs: text, and whether branches may call each other off."""
    found = {}
    for number in range(CROWDS):
        grammar = Grammar(
            random.Random(f"crowd {number}"), (0, 0.1, 0.3), crowded=True, large=number % 8 == 0
        )
        name = f"crowd{number}"
        found[f"properties/{name}"] = (draw(grammar, name), grammar.races)
    return found


@cache
def workloads() -> dict[str, Workload]:
    """The ordinary ones, by path."""
    chosen = [
        one for one in FIXED if one.path not in SLOW and not (one.patched or one.cancelled or one.waits)
    ]
    chosen += [Workload(path) for path in texts() if path.startswith("properties/random")]
    return {workload.path: workload for workload in chosen}


@cache
def shapes() -> dict[str, Workload]:
    """Those in which executions meet, by name; ``hostile0`` and so on are one playbook with several payloads."""
    found = {path: Workload(path, exact=not races) for path, (_, races) in _crowds().items()}
    found["properties/concurrent"] = workloads()["properties/concurrent"]
    found[WIDE] = Workload(WIDE)
    return found | _hostile()


@cache
def _hostile() -> dict[str, Workload]:
    """The first payloads that are taken, and come to a good end."""
    found: dict[str, Workload] = {}
    seed = 0
    while len(found) < HOSTILE:
        payload, seed = hostile_payload(random.Random(f"hostile {seed}")), seed + 1
        workload = Workload("properties/hostile", payload)
        if _through_the_door(workload).status == "completed":
            found[f"hostile{len(found)}"] = workload
    return found


def _through_the_door(workload: Workload) -> Seen:
    """What becomes of a start that may be refused."""
    root = Root(World(fixed_programs()), workload.path, workload.payload, 1)
    return through_the_door(root, named(workload))


def sent(workload: Workload) -> dict[str, bytes]:
    """What tools have to be given, encoded, by name."""
    return {name: codec.encode(value) for name, value in named(workload).items()}


def named(workload: Workload) -> dict[str, Any]:
    """Values of a payload of playbook ``hostile``, by the name under which it hands them on."""
    payload = workload.payload
    if workload.path != "properties/hostile":
        return {}
    found = {"value": payload["value"], "map": payload["map"]}
    return found | {f"list.{place}": one for place, one in enumerate(payload["list"])}


def workload_of(name: str) -> Workload:
    """Return a workload of either set."""
    return workloads().get(name) or {**shapes(), LINGERING: Workload(LINGERING)}[name]


@cache
def wanted(name: str) -> Seen:
    """What the engine makes of it in memory, undisturbed."""
    workload = workload_of(name)
    return _through_the_door(workload) if named(workload) else undisturbed(_programs(workload.path), workload)


@cache
def _programs(path: str) -> Any:
    return fixed_programs() if path in _fixed() else compile_all((texts()[path],))
