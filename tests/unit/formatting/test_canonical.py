"""What the canonical form makes of the event form, and what it leaves with which reason."""

from __future__ import annotations

import re

import pytest

from noetl.formatting.format import Formatted, canonical_text
from noetl.kinds.registry import default_registry
from tests.parts import over

KINDS = default_registry()
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: p }\nworkflow:\n"
HTTP = 'tool: { kind: http, url: "http://api.test/", params: { page: 1 } }'
NOOP = "tool: { kind: noop }"
LOOP = f"loop: {{ in: [1], iterator: n }}\n    {NOOP}"


def canonical(step: str) -> Formatted:
    """The document with this step, and with the steps it goes to, rewritten."""
    targets = [name for name in "ab" if re.search(rf"next: \[?[^}}]*\b{name}\b", step)]
    ends = "".join(f"  - {{ step: {name}, tool: {{ kind: noop }} }}\n" for name in targets)
    text = f"{HEAD}  - step: start\n    {step}\n{ends}"
    return canonical_text(text, source_name="p.yaml", kinds=KINDS)


def on(event: str, then: str, more: str = "") -> str:
    return f"- {{ when: \"{{{{ event.name == '{event}'{more} }}}}\", then: {then} }}"


def case(*entries: str) -> str:
    return "\n    case:\n" + "\n".join(f"      {entry}" for entry in entries)


@over(
    ("step", "shown"),
    [
        (f"{NOOP}\n    next: a", "next: { arcs: [{ step: a }] }"),
        (
            f"{NOOP}\n    next: [a, b]",
            "next: { spec: { mode: inclusive }, arcs: [{ step: a }, { step: b }] }",
        ),
        (
            NOOP + case(on("step.exit", "{ next: a }", " and result.n > 1")) + "\n    next: b",
            'next: { arcs: [{ step: a, when: "{{ output.data.n > 1 }}" }, { step: b }] }',
        ),
        (
            NOOP
            + case(on("step.exit", "[{ set: { x: 1 } }, { next: a }]", " and result.n > 1"))
            + "\n    next: b",
            'arcs: [{ step: a, when: "{{ output.data.n > 1 }}", set: { ctx.x: 1 } }, { step: b }]',
        ),
        (NOOP + case(on("step.exit", "{ set: { ctx: { x: 1 } } }")), "    set: { ctx.x: 1 }"),
        (
            LOOP + case(on("loop.done", "{ next: a }", " and result | length > 1")) + "\n    next: b",
            'next: { arcs: [{ step: a, when: "{{ (output.data | length) > 1 }}" }, { step: b }] }',
        ),
        (
            LOOP + '\n    vars: { n: "{{ result | length }}" }',
            '    set: { vars.n: "{{ output.data | length }}" }',
        ),
        (
            "loop: { in: [1], iterator: n }" + '\n    vars: { n: "{{ result[0] }}" }',
            '- step: start\n    loop: { in: [1], iterator: n }\n    set: { vars.n: "{{ output.data[0] }}" }',
        ),
        (HTTP, "tool: { kind: http"),
        (
            HTTP + "\n    retry: { max_attempts: 4, backoff_multiplier: 3 }",
            "retry: { attempts: 4, multiplier: 3 }",
        ),
        (
            HTTP
            + '\n    retry: { initial_delay: 2, backoff_multiplier: 1, retry_when: "{{ status_code == 503 }}" }',
            'retry: { delay: 2, multiplier: 1, when: "{{ status_code == 503 }}" }',
        ),
        (
            HTTP + case(on("call.error", "{ skip: { message: gone } }", " and error.status == 404")),
            """- when: "{{ output.status == 'error' and output.error.status == 404 }}"
              then: { do: skip, message: gone }""",
        ),
        (
            HTTP
            + case(
                on("call.done", '{ call: { params: { page: "{{ response.next }}" } } }', " and response.next")
            ),
            'params: { page: "{{ iter.page | default(1) }}" }',
        ),
        (
            HTTP + case(on("call.done", "{ collect: { from: $.rows, into: all, mode: extend } }")),
            'set: { ctx.all: { extend: "{{ output.data.rows }}" } }',
        ),
        (
            HTTP
            + case(
                on("call.error", "{ retry: { max_attempts: 2 } }"),
                on("call.error", "{ fail: { message: gone } }"),
            ),
            "output.status == 'error' and _attempt < 2",
        ),
        (HTTP + '\n    vars: { n: "{{ result.n }}" }', 'set: { vars.n: "{{ output.data.n }}" }'),
        (
            HTTP + '\n    sink: { tool: { kind: postgres }, table: t, args: { n: "{{ result.n }}" } }',
            'sink: { tool: { kind: postgres }, table: t, args: { n: "{{ output.data.n }}" } }',
        ),
        (
            "loop: { in: [1], iterator: x, mode: async, max_in_flight: 3 }\n    " + NOOP,
            "loop: { in: [1], iterator: x, spec: { mode: parallel, max_in_flight: 3 } }",
        ),
        (
            HTTP + case(on("call.done", "{ result: { from: response.status_code } }")),
            'result: "{{ (output.data.status_code | default(output.http.status)) }}"',
        ),
        (
            HTTP + case(on("call.done", "{ collect: { from: response.data.rows.items, into: all } }")),
            "{{ (output.data.data.rows | default(output.data.rows)).items }}",
        ),
        (
            HTTP + case(on("call.done", '{ result: "{{ response.data | length }}" }')),
            "{{ (output.data.data | default(output.data)) | length }}",
        ),
        (
            HTTP + case(on("call.done", "{ result: \"{{ response.data.get('rows') }}\" }")),
            "{{ (output.data.data | default(output.data)).get('rows') }}",
        ),
    ],
)
def test_rewritten(step: str, shown: str) -> None:
    made = canonical(step)
    assert shown in made.text
    assert made.kept == ()
    assert "case:" not in made.text
    again = canonical_text(made.text, source_name="p.yaml", kinds=KINDS)
    assert (again.text, again.converted) == (made.text, ())


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (HTTP + case(on("call.error", "{ next: a }")), "a failure is answered by `next`"),
        (HTTP + case(on("call.done", "{ next: a }")), "a failure is answered by `next`"),
        (NOOP + case(on("step.enter", "{ set: { x: 1 } }")), "`step.enter`"),
        (NOOP + case(on("step.exit", "{ result: 1 }")), "`result` on `step.exit`"),
        (NOOP + case(on("step.exit", "[{ t: { kind: noop } }, { next: a }]")), "inline tasks"),
        (HTTP + "\n    vars: { before: { x: 1 }, after: { y: 2 } }", "`vars: {before, after}`"),
        (HTTP + case(on("call.done", '{ set: { x: "{{ response }}" } }')), "`response` as a whole"),
        (
            HTTP
            + case(
                on("call.done", '{ call: { params: { cursor: "{{ response.c }}" } } }', " and response.c")
            ),
            "`call` adds `params.cursor`",
        ),
        (
            "loop: { in: [1], iterator: x }\n    "
            + HTTP
            + case(on("call.done", "{ next: a }", " and response.x")),
            "breaks the loop",
        ),
        (
            "loop: { in: [1], iterator: x }\n    sink: { tool: { kind: postgres, table: t } }",
            "without a tool",
        ),
        (NOOP + case(on("step.exit", "{ next: [a, b] }", " and result.x")), "goes to several steps"),
        (NOOP + case(on("step.exit", "{ set: { x: 1 } }", " and result.x")), "writes only sometimes"),
        (
            "spec: { on_error: continue }\n    " + NOOP + case(on("step.exit", "{ next: a }")),
            "`on_error: continue`",
        ),
    ],
)
def test_kept_with_a_reason(step: str, reason: str) -> None:
    made = canonical(step)
    assert made.converted == ()
    assert reason in made.kept[0].reason
    assert (made.kept[0].step, made.kept[0].line) == ("start", 5)


def test_comments_go_with_what_became_of_them() -> None:
    step = f"{HTTP}  # the call\n    case:\n      # try again\n      {on('call.error', '{ retry: {} }')}\n    # and on\n    next: a  # the end"
    lines = canonical(step).text.split("\n")
    above = {lines[place].strip(): lines[place + 1].strip() for place in range(len(lines) - 1)}
    assert above["# try again"].startswith("- { when: \"{{ output.status == 'error' }}")
    assert above["# and on"] == "next: { arcs: [{ step: a }] }  # the end"
    assert sum("# the call" in line for line in lines) == 1


def test_spellings() -> None:
    text = HEAD + (
        "  - step: start\n    args: { n: 1 }\n    tool:\n      - fetch:\n"
        '          { kind: http, endpoint: "http://api.test/", json: { a: 1 }, with: { b: 2 } }\n'
        '      - { name: keep, kind: python, code: "result = \'{{ outcome }}\'", args: { v: "{{ outcome.result.v }}" } }\n'
        "    set_ctx: { x: 1 }\n    next: { spec: { mode: all }, arcs: [{ step: a, args: { n: 1 }, set_ctx: { y: 2 } }] }\n"
        "  - { step: a, tool: { kind: noop } }\n"
    )
    made = canonical_text(text, source_name="p.yaml", kinds=KINDS).text
    for shown in (
        "    input: { n: 1 }",
        "name: fetch",
        'url: "http://api.test/"',
        "body: { a: 1 }",
        "input: { b: 2 }",
        "result = '{{ outcome }}'",
        'v: "{{ output.data.v }}"',
        "    set: { ctx.x: 1 }",
        "mode: inclusive",
        "input: { n: 1 }, set: { ctx.y: 2 }",
    ):
        assert shown in made, shown


def test_names_of_the_playbook_are_not_taken_for_built_in_ones() -> None:
    text = HEAD.replace("workflow:", "workload: { outcome: 1 }\nworkflow:") + (
        '  - { step: start, tool: { kind: noop, input: { v: "{{ outcome }}" } } }\n'
    )
    assert '"{{ outcome }}"' in canonical_text(text, source_name="p.yaml", kinds=KINDS).text
