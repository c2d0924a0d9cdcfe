"""The matrix of docs/scopes.md: which name means something where, found out by asking at every place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.errors import PlaybookError
from tests.conformance.cases import Case, play
from tests.conformance.conftest import MemoryBackend
from tests.parts import parted

PAGE = Path(__file__).parents[2] / "docs" / "scopes.md"
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: scopes }
keychain: [{ name: key, kind: bearer }]
"""
FLOW = """\
workflow:
  - step: start
    tool: { kind: noop, args: { x: 1 } }
    vars: { known: 1 }
    next: [{ step: here, args: { given: 1 } }]
  - step: here
"""
LOOP = "    loop: { in: [1], iterator: element }\n"
CALL = "    tool: { kind: http, url: 'http://a.example.com' }\n"
PAIR = "    tool: [{ sibling: { kind: noop } }, { asked: { kind: http, url: 'http://a.example.com' } }]\n"
ARC = "    next: { arcs: [{ step: end }] }\n"
RULES = "spec: { policy: { rules: [{ else: { then: { do: continue, set_ctx: { seen: PROBE } } } }] } }"
BOTH = "{{ event.name in ['step.done', 'step.failed'] }}"
ADMIT = "{ rules: [{ when: PROBE, then: { allow: true } }, { else: { then: { allow: skip } } }] }"


def end(value: str) -> str:
    return f'  - step: end\n    tool: {{ kind: noop, args: {{ seen: "{{{{ {value} }}}}" }} }}\n'


def case(event: str, then: str = "{ set: { ctx: { seen: PROBE } } }") -> str:
    return f"    case: [{{ when: \"{{{{ event.name == '{event}' }}}}\", then: {then} }}]\n    next: end\n"


PLACES = {
    "`workload`": "workload: { probe: PROBE }\nworkflow:\n  - step: start\n"
    "    tool: { kind: noop, args: { seen: '{{ workload.probe }}' } }\n",
    "`admit`": f"{FLOW}    spec: {{ policy: {{ admit: {ADMIT} }} }}\n    tool: {{ kind: noop }}\n{ARC}"
    + end("here.status == 'success'"),
    "step `args`": f"{FLOW}    args: {{ probe: PROBE }}\n    tool: {{ kind: noop, args: {{ seen: '{{{{ args.probe }}}}' }} }}\n",
    "`loop.in`": f"{FLOW}    loop: {{ in: [PROBE], iterator: element }}\n"
    "    tool: { kind: noop, args: { seen: '{{ iter.element }}' } }\n" + ARC + end("here[0].seen"),
    "tool": f"{FLOW}{LOOP}    tool: [{{ sibling: {{ kind: noop }} }}, {{ probe: {{ kind: noop, args: {{ seen: PROBE }} }} }}]\n{ARC}"
    + end("here[0].seen"),
    "rule": f"{FLOW}{LOOP}    tool:\n      - sibling: {{ kind: noop }}\n      - asked:\n          kind: http\n"
    f"          url: http://a.example.com\n          {RULES}\n{ARC}" + end("ctx.seen"),
    "step `set`": f"{FLOW}{PAIR}    set: {{ ctx.seen: PROBE }}\n{ARC}" + end("ctx.seen"),
    "arc": f'{FLOW}{PAIR}    next: {{ arcs: [{{ step: end, when: "{BOTH}", args: {{ seen: PROBE }} }}] }}\n'
    + end("args.seen"),
    "`case` per call": FLOW
    + LOOP
    + CALL
    + case("EVENT", "[{ set: { ctx: { seen: PROBE } } }, { result: 1 }]")
    + end("ctx.seen"),
    "`case` at the end": FLOW + LOOP + CALL + case("step.exit") + end("ctx.seen"),
    "`vars`": f"{FLOW}{LOOP}{CALL.replace(' }', ', vars: { seen: PROBE } }')}    next: end\n"
    + end("vars.seen"),
    "`retry`": f"{FLOW}{LOOP}{CALL}    retry: {{ max_attempts: 2, retry_when: PROBE }}\n    next: end\n"
    + end("1"),
    "`sink`": f"{FLOW}{LOOP}{CALL}    sink: {{ tool: {{ kind: postgres, table: t, args: {{ seen: PROBE }} }} }}\n    next: end\n"
    + end("1"),
    "`next` args": f"{FLOW}{CALL}    next: [{{ step: end, args: {{ seen: PROBE }} }}]\n" + end("args.seen"),
}
ALSO_AFTER_A_FAILURE = {"rule", "arc", "`case` per call", "`retry`"}
OBSERVE: dict[str, Callable[[Any], bool]] = {
    "`retry`": lambda seen: len(seen.tools.calls["here"]) == 2,
    "`sink`": lambda seen: seen.tools.calls["sink"][0]["input"]["seen"],
}
NAMES = (
    *("workload", "ctx", "vars", "keychain", "args", "input", "step", "given", "start", "here", "sibling"),
    *("iter", "element", "loop", "loop_index", "_index"),
    *("outcome", "output", "result", "response", "this", "error", "event"),
    *("_prev", "_task", "_attempt", "_results", "results"),
    *("attempt", "max_attempts", "success", "status_code", "data"),
    *("execution_id", "job", "now"),
)


def ask(place: str, name: str, backend: Any, worker: Any, folder: Path, *, failing: bool) -> str:
    """``yes``, ``no``, or ``refused`` by the compiler."""
    text = HEAD + PLACES[place].replace("PROBE", f"'{{{{ {name} is defined }}}}'")
    text = text.replace("EVENT", "call.error" if failing else "call.done")
    (folder / "playbook.yaml").write_text(text)
    reply = {"status": 500} if failing else {"body": {"a": 1}}
    tools = {"here": reply, "here/asked": reply, "sink": {"result": {}}}
    try:
        seen = play(Case("scopes", folder, {"expect": {}, "tools": tools}), backend, worker)
    except PlaybookError:
        return "refused"
    if place in OBSERVE:
        found = OBSERVE[place](seen)
    else:
        assert seen.status == "completed", seen.error
        found = seen.result["seen"]
    assert isinstance(found, bool)
    return "yes" if found else "no"


def mark(place: str, name: str, backend: Any, worker: Any, folder: Path) -> str:
    fine = ask(place, name, backend, worker, folder, failing=False)
    if fine == "refused":
        return "✗"
    bad = fine
    if place in ALSO_AFTER_A_FAILURE:
        bad = ask(place, name, backend, worker, folder, failing=True)
    return {("yes", "yes"): "✓", ("no", "no"): "", ("no", "yes"): "f", ("yes", "no"): "s"}[fine, bad]


def matrix() -> dict[str, dict[str, str]]:
    """The page's table: name → place → mark."""
    (text,) = re.findall(r"^<!-- matrix -->\n\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()]
    return {
        name: dict(zip(head[1:], cells, strict=True))
        for first, *cells in rows
        for name in re.findall(r"`([^`]+)`", first)
    }


TOLD = matrix()


def test_the_table_has_every_name_and_place() -> None:
    assert TOLD.keys() == set(NAMES)
    assert all(row.keys() == PLACES.keys() for row in TOLD.values())


@pytest.mark.parametrize("place", parted(PLACES, list(PLACES)[::4]))
def test_a_place_knows_what_the_table_says(place: str, worker: Any, tmp_path: Path) -> None:
    found = {name: mark(place, name, MemoryBackend(), worker, tmp_path) for name in NAMES}

    assert found == {name: row[place] for name, row in TOLD.items()}
