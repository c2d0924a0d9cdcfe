"""What `noetl run` says when the author slipped: where, what was there, what to do; and never a secret.

Every mistake is one that only shows when it runs.
"""

# ruff: noqa: E501

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from noetl.cli.client import runtime_access
from noetl.domain.kinds import Credential
from tests.unit.cli.fake_runtime import MemoryRuntime

CANARY = "canary-7f3d9a-never-shown"


class Vault:
    """One credential, whose secret must not leave the worker."""

    def get(self, name, execution_id):
        return Credential(name, "bearer", {"token": CANARY, "host": "example.test"})


@pytest.fixture
def noetl(noetl, database, monkeypatch):
    def opened(home, *, on_log=None, takes=""):
        runtime = MemoryRuntime(database, on_log)
        runtime.worker = dataclasses.replace(runtime.worker, credentials=Vault())
        return runtime

    monkeypatch.setattr(runtime_access, "open_local", opened)
    return noetl


HEAD = """\
keychain: [ { name: api, kind: bearer } ]
workload: { name: Ada, n: 3, word: three, rows: { a: 1 }, text: "a,b", list: [ 1, 2 ], nothing: null, more: {} }
workflow:
"""


def step(body: str) -> str:
    return f"{HEAD}  - step: start\n{body}"


def tool(text: str) -> str:
    return step(f"    tool: {text}\n")


MISTAKES = {
    "key of the payload": (
        tool('{ kind: double, value: "{{ workload.more.amount }}" }'),
        "workload.more.amount",
        "amount",
        "default",
    ),
    "misspelt key of a result": (
        tool("{ kind: noop, args: { name: Ada } }").replace("}\n", "}\n", 1)
        + '    next: { arcs: [ step: use ] }\n  - step: use\n    tool: { kind: double, value: "{{ start.nam }}" }\n',
        "start.nam",
        "nam",
        "did you mean 'name'?",
    ),
    "division by zero": (
        tool('{ kind: double, value: "{{ workload.n / 0 }}" }'),
        "workload.n / 0",
        "workload.n / 0",
        "divisor",
    ),
    "text and number": (
        tool('{ kind: double, value: "{{ workload.word + 1 }}" }'),
        "workload.word + 1",
        "workload.word + 1",
        "",
    ),
    "guard that is text": (
        tool("{ kind: noop }")
        + '    next: { arcs: [ { step: b, when: "{{ workload.word }}" } ] }\n  - step: b\n',
        "workload.word",
        "three",
        "compare it",
    ),
    "rule's guard": (
        tool(
            '{ kind: noop, spec: { policy: { rules: [ { when: "{{ workload.rows }}", then: { do: break } } ] } } }'
        ),
        "workload.rows",
        "workload.rows",
        "length > 0",
    ),
    "admission's guard": (
        step(
            '    spec: { policy: { admit: { rules: [ { when: "{{ workload.word }}", then: { allow: true } } ] } } }\n'
        ),
        "workload.word",
        "three",
        "compare it",
    ),
    "loop over a text": (
        step('    loop: { in: "{{ workload.text }}", iterator: x }\n    tool: { kind: noop }\n'),
        "workload.text",
        "text",
        "list",
    ),
    "loop over nothing": (
        step('    loop: { in: "{{ workload.nothing }}", iterator: x }\n    tool: { kind: noop }\n'),
        "workload.nothing",
        "None",
        "list",
    ),
    "task in a loop": (
        step(
            '    loop: { in: "{{ workload.list }}", iterator: x }\n    tool: { kind: double, value: "{{ x.price }}" }\n'
        ),
        "x.price",
        "price",
        "",
    ),
    "parameter of a kind": (
        tool('{ kind: boom, times: "{{ workload.word }}" }'),
        "workload.word",
        "three",
        "",
    ),
    "http method": (
        tool('{ kind: http, url: "http://127.0.0.1/", method: "{{ workload.word }}" }'),
        "workload.word",
        "three",
        "",
    ),
    "http url": (tool('{ kind: http, url: "{{ workload.name }}" }'), "kind: http", "Ada", ""),
    "a host that is not reached": (
        tool('{ kind: http, url: "http://10.1.2.3/{{ workload.n }}" }'),
        "kind: http",
        "10.1.2.3",
        "",
    ),
    "python code raises": (
        step(
            '    tool:\n      kind: python\n      args: { n: "{{ workload.n }}" }\n      code: |\n        a = n + 1\n        result = {}["missing"]\n'
        ),
        '{}["missing"]',
        "KeyError",
        "",
    ),
    "python name": (
        step(
            "    tool:\n      kind: python\n      code: |\n        result = 1\n        result = amount * 2\n"
        ),
        "amount * 2",
        "amount",
        "input",
    ),
    "python result": (tool('{ kind: python, code: "result = object()" }'), "kind: python", "", ""),
    "input is no mapping": (
        tool('{ kind: noop, args: "{{ workload.text }}" }'),
        "workload.text",
        "mapping",
        "name: value",
    ),
    "timeout of a task": (
        tool('{ kind: double, value: 1, spec: { timeout: "{{ workload.word }}" } }'),
        "workload.word",
        "three",
        "",
    ),
    "timeout of a step": (
        step('    spec: { timeout: "{{ workload.word }}" }\n    tool: { kind: noop }\n'),
        "workload.word",
        "three",
        "number",
    ),
    "attempts of a retry": (
        tool(
            '{ kind: boom, spec: { policy: { rules: [ { when: "{{ outcome.status == \'error\' }}", then: { do: retry, attempts: "{{ workload.word }}" } } ] } } }'
        ),
        "workload.word",
        "three",
        "",
    ),
    "reducer on the wrong type": (
        tool("{ kind: noop }").replace("kind: noop", "kind: double, value: 1")
        + '    set: { ctx.total: "{{ workload.word }}" }\n    next: { arcs: [ { step: b, set: { ctx.total: { add: 1 } } } ] }\n  - step: b\n',
        "ctx.total: { add: 1 }",
        "total",
        "",
    ),
    "a rule that fails": (
        tool(
            '{ kind: double, value: 4, spec: { policy: { rules: [ { when: "{{ outcome.result == 8 }}", then: { do: fail, message: "eight is too much" } } ] } } }'
        ),
        "{ do: fail",
        "eight is too much",
        "",
    ),
    "a tool that fails": (
        tool('{ kind: boom, message: "pipe {{ workload.name }} burst" }'),
        "kind: boom",
        "pipe Ada burst",
        "call a plumber",
    ),
    "sub-playbook that is not there": (
        tool('{ kind: playbook, path: "test/{{ workload.word }}" }'),
        "kind: playbook",
        "test/three",
        "",
    ),
    "sub-playbook's version": (
        tool('{ kind: playbook, path: test/x, version: "{{ workload.word }}" }'),
        "workload.word",
        "three",
        "",
    ),
    "no arc": (
        "executor: { spec: { no_next_is_error: true } }\n"
        + tool("{ kind: noop }")
        + '    next: { arcs: [ { step: b, when: "{{ workload.n > 5 }}" } ] }\n  - step: b\n',
        "step: start",
        "start",
        "",
    ),
    "secret in a message": (
        tool('{ kind: boom, message: "refused {{ keychain.api.token }}" }'),
        "kind: boom",
        "refused ***",
        "",
    ),
    "secret in a header": (
        tool(
            '{ kind: http, url: "http://10.1.2.3/", headers: { authorization: "Bearer {{ keychain.api.token }}", x-trace: "{{ workload.n }}" } }'
        ),
        "kind: http",
        "x-trace",
        "",
    ),
}


@pytest.mark.parametrize(("steps", "place", "offending", "hint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_explained(noetl, write, database, tmp_path, steps, place, offending, hint):
    """``place``: what the playbook has where the message points."""
    ran = noetl("run", write("slip.yaml", steps))
    assert ran.code == 1, ran.out + ran.err
    (at,) = re.findall(r"^  at: slip.yaml:(\d+):(\d+)$", ran.err, re.MULTILINE)
    line, column = map(int, at)
    source = (tmp_path / "slip.yaml").read_text().splitlines()[line - 1]
    assert source[column - 1 :].startswith(place), f"points at {source[column - 1 :]!r}"
    shown, caret = ran.err.split(f"  at: slip.yaml:{line}:{column}\n", 1)[1].splitlines()[:2]
    assert (shown[4:], caret) == (source, " " * (column + 3) + "^")
    assert offending in ran.err
    (remedy,) = re.findall(r"^  hint: (.{5,})$", ran.err, re.MULTILINE)
    assert hint in remedy
    status = noetl("status", "--json")
    error = json.loads(status.out)["error"]
    assert error["position"].endswith(f"slip.yaml:{line}:{column}")
    assert len(json.dumps(error.get("details", {}).get("input", {}))) <= 1024
    history = noetl("events", "--json").out
    stored = repr(vars(database.store)) + repr(vars(database.results))
    assert CANARY not in ran.out + ran.err + status.out + history + stored


def test_what_a_call_was_made_with_is_bounded_and_masked(noetl, write):
    secret = '"{{ keychain.api.token }}"'
    body = '{ kind: boom, message: "{{ args.long }}", args: { long: "{{ \'a\' * 5000 }}", many: "{{ range(500) | list }}", '
    body += f"deep: {{ a: {{ b: {{ c: {{ d: {{ e: 1 }} }} }} }} }}, password: hunter2, url: 'https://me:pw@h/x', s: {secret} }} }}"
    noetl("run", write("slip.yaml", tool(body)))
    found = json.loads(noetl("status", "--json").out)["error"]["details"]["input"]
    assert len(json.dumps(found, ensure_ascii=False).encode()) <= 1024
    args = found["args"]
    assert (args["password"], args["s"], args["url"]) == ("***", "***", "https://***@h/x")
    assert args["long"].startswith("aaa")
    assert "(5000 characters)" in args["long"]
    assert args["many"][-1].endswith("more")
