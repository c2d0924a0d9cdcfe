"""Whole playbooks in the three published dialects: they compile, fit the schema, round-trip, and can be drawn."""

from __future__ import annotations

import jsonschema
import pytest
import yaml
from yamlcore import CCoreLoader

from noetl.dsl.compiler import compile_cached, compile_playbook
from noetl.dsl.editors.drawing import to_mermaid
from noetl.dsl.editors.schema import playbook_schema
from noetl.dsl.program import ScheduleSpec, decode, encode
from noetl.dsl.versions import program_hash

PAGINATED_LOOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reader_sync, path: examples/reader_sync, version: 2.1, labels: { team: library } }
keychain:
  - { name: lake_db, kind: postgres_credential }
workload:
  api: "http://127.0.0.1:7070"
  branches: [ { id: north, limit: 10 }, { id: south, limit: 25 } ]
workflow:
  - step: start
    next: { spec: { mode: exclusive }, arcs: [ { step: read_branches } ] }
  - step: read_branches
    spec:
      policy:
        admit:
          rules:
            - { when: "{{ workload.branches | length > 0 }}", then: { allow: true } }
            - { else: { then: { allow: false } } }
        failure: { mode: best_effort }
    loop:
      in: "{{ workload.branches }}"
      iterator: branch
      spec: { mode: parallel, max_in_flight: 3, policy: { exec: distributed } }
    tool:
      - name: begin
        kind: noop
        spec: { policy: { rules: [ { else: { then: { do: continue, set_iter: { cursor: 0, open: true } } } } ] } }
      - name: fetch
        kind: http
        method: GET
        url: "{{ workload.api }}/branches/{{ iter.branch.id }}/readers"
        params: { after: "{{ iter.cursor }}", limit: "{{ iter.branch.limit }}" }
        spec:
          timeout: { connect: 2, read: 8 }
          result:
            inline_max_bytes: 32768
            store: { kind: auto, scope: execution, ttl: 1h, compression: gzip }
            select: [ { path: "$.page.next", as: next } ]
          policy:
            rules:
              - when: "{{ outcome.status == 'error' and outcome.http.status in [429, 503] }}"
                then: { do: retry, attempts: 4, backoff: exponential, delay: 0.2 }
              - when: "{{ outcome.status == 'error' }}"
                then: { do: fail }
              - else:
                  then:
                    do: continue
                    set_iter:
                      open: "{{ outcome.result.data.page.open | default(false) }}"
                      readers: "{{ outcome.result.data.readers | default([]) }}"
      - name: keep
        kind: postgres
        auth: lake_db
        command: "INSERT INTO readers(branch, body) VALUES (%(branch)s, %(body)s::jsonb)"
        params: { branch: "{{ iter.branch.id }}", body: "{{ iter.readers | tojson }}" }
      - name: turn
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ iter.open }}"
                then: { do: jump, to: fetch, set_iter: { cursor: "{{ (iter.cursor | int) + 1 }}" } }
              - else: { then: { do: break } }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: summary, when: "{{ event.name == 'loop.done' }}", args: { count: "{{ workload.branches | length }}" } }
        - { step: page_operator, when: "{{ event.name == 'step.failed' }}" }
  - step: summary
    tool: { kind: python, args: { n: "{{ args.count }}" }, code: "result = {'branches': n}" }
  - step: page_operator
    tool: { kind: noop }
"""

APPROVAL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: discount_gate, path: examples/discount_gate }
executor: { spec: { entry_step: start, final_step: audit } }
workload: { ceiling: 50, quote: { id: q-8, percent: 60 } }
workflow:
  - step: start
    tool:
      kind: python
      input: { percent: "{{ workload.quote.percent }}", ceiling: "{{ workload.ceiling }}" }
      code: |
        result = {"percent": percent, "high": percent > ceiling}
    set: { ctx.percent: "{{ output.data.percent }}", ctx.check_ref: "{{ output.ref }}" }
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: hold, when: "{{ output.data.high }}", set: { ctx.why: above_ceiling } }
        - { step: grant }
  - step: hold
    spec:
      policy:
        admit:
          rules:
            - { when: "{{ ctx.approved is defined }}", then: { allow: true } }
            - { else: { then: { allow: false } } }
    tool: { kind: noop }
    next:
      arcs:
        - { step: grant, when: "{{ ctx.approved == true }}" }
        - { step: deny, when: "{{ ctx.approved != true }}" }
  - step: grant
    tool:
      - name: book
        kind: http
        method: POST
        url: "http://127.0.0.1:7070/discounts"
        json: { quote: "{{ workload.quote.id }}", percent: "{{ ctx.percent }}" }
        spec:
          policy:
            rules:
              - when: "{{ output.status == 'error' and (output.error.retryable or output.http.status >= 500) }}"
                then: { do: retry, attempts: 3, backoff: exponential, delay: 1.0 }
              - when: "{{ output.status == 'error' }}"
                then: { do: fail }
              - else: { then: { do: continue, set: { ctx.booking: "{{ output.data.data.id }}" } } }
      - name: tell
        kind: python
        input: { booking: "{{ ctx.booking }}" }
        code: |
          result = {"booking": booking}
    next:
      spec: { mode: exclusive }
      arcs:
        - { step: end, when: "{{ event.name == 'step.done' }}" }
        - { step: deny, when: "{{ event.name == 'step.failed' }}" }
  - { step: deny, tool: { kind: python, code: "result = {'denied': True}" } }
  - { step: end, tool: { kind: noop } }
  - { step: audit, tool: { kind: noop } }
"""

FAN_OUT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: shelf_value, path: examples/shelf_value }
workload: { titles: [ 4, 5, 6 ] }
workflow:
  - step: start
    tool: { kind: noop }
    next:
      spec: { mode: all }
      arcs: [ { step: appraise }, { step: count, when: "{{ workload.titles | length > 1 }}" } ]
  - step: appraise
    loop: { in: "{{ workload.titles }}", iterator: title, spec: { mode: sequential } }
    tool:
      kind: python
      input: { title: "{{ iter.title }}", at: "{{ iter.index }}" }
      code: |
        result = {"title": title, "value": 3 * int(title), "at": at}
    next: { arcs: [ { step: join, when: "{{ event.name == 'loop.done' }}" } ] }
  - step: count
    tool: { kind: duckdb, query: "SELECT t, t % 2 AS copies FROM (VALUES (4), (5)) AS v(t)" }
    set: { ctx.copies: "{{ output.data.rows }}" }
    next: { arcs: [ { step: join } ] }
  - step: join
    tool:
      kind: python
      input: { copies: "{{ ctx.copies }}" }
      code: |
        result = {"rows": len(copies)}
"""

EVENT_FORM = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: harvest, schedule: { cron: "0 3 * * *" } }
keychain: [ { name: token, kind: bearer } ]
workload: { base: "http://127.0.0.1:7070", cities: [ oslo, lima ] }
workbook:
  - name: report
    tool: { kind: http, method: POST, url: "{{ workload.base }}/report", input: { text: none }, body: { text: "{{ input.text }}" } }
    sink: { tool: { kind: postgres, command: "INSERT INTO reports VALUES ({{ result.id }})" } }
workflow:
  - step: start
    vars: { began: "{{ now() }}" }
    next: [ { step: pull, args: { since: "{{ workload.since | default('2026-01-01') }}" } }, quiet ]
  - step: pull
    loop: { in: "{{ workload.cities }}", iterator: city, mode: parallel }
    tool:
      kind: http
      endpoint: "{{ workload.base }}/weather/{{ city }}"
      headers: { authorization: "Bearer {{ keychain.token.value }}" }
      params: { since: "{{ args.since }}", page: 1 }
    retry: { max_attempts: 4, initial_delay: 0.5, backoff_multiplier: 2, retry_when: "{{ status_code in [429, 503] }}" }
    case:
      - when: "{{ event.name == 'call.error' and error.status == 404 }}"
        then: { skip: "no such city" }
      - when: "{{ event.name == 'call.done' and response.paging.next is defined }}"
        then:
          - collect: { from: response.rows, into: rows, mode: extend }
          - call: { params: { page: "{{ response.paging.next }}" } }
      - when: "{{ event.name == 'call.done' }}"
        then:
          collect: { strategy: extend, path: $.rows, into: rows }
          sink: { tool: { kind: postgres }, table: weather, args: { city: "{{ city }}", rows: "{{ response.rows }}" } }
      - when: "{{ event.name == 'step.exit' }}"
        then:
          - size: { kind: python, input: { rows: "{{ ctx.rows }}" }, code: "result = len(rows)" }
          - next: [ { step: tell, args: { n: "{{ ctx.rows | length }}" } } ]
    sink: { tool: { kind: duckdb, query: "INSERT INTO raw VALUES ({{ result }})" }, when: "{{ result is defined }}" }
    next: quiet
  - step: tell
    tool: { kind: workbook, name: report, with: { text: "{{ args.n }} rows" } }
    next: quiet
  - step: quiet
"""

EXAMPLES = {"loop": PAGINATED_LOOP, "approval": APPROVAL, "fan-out": FAN_OUT, "event form": EVENT_FORM}


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES.keys())
def example(request):
    return request.param


def test_compiles_without_a_word_and_round_trips(example, kinds):
    compiled = compile_playbook(example, source_name="e.yaml", kinds=kinds)
    assert compiled.diagnostics == ()
    assert decode(encode(compiled.program)) == compiled.program
    assert compiled.program.source_name == "e.yaml"


def test_fits_the_schema(example, kinds):
    validator = jsonschema.Draft202012Validator(playbook_schema(kinds))
    validator.validate(yaml.load(example, Loader=CCoreLoader))


def test_can_be_drawn(example, kinds):
    program = compile_playbook(example, kinds=kinds).program
    drawn = to_mermaid(program)
    assert drawn.startswith("flowchart TD\n")
    for step in program.steps:
        assert f"s{step.index}" in drawn
        assert step.name in drawn
    arrows = [
        line for line in drawn.splitlines() if line.startswith("    s") and ("-->" in line or "-.->" in line)
    ]
    assert len(arrows) >= sum(len(step.arcs) for step in program.steps)


def test_picture(program):
    found = program(
        """\
workflow:
  - { step: start, next: { arcs: [ { step: b, when: "{{ workload.x == '<b>' }}" }, { step: c, when: "{{ event.name == 'step.failed' }}" } ] } }
  - { step: b, loop: { in: [ 1 ], iterator: n }, tool: { kind: noop } }
  - { step: c, tool: { kind: http, url: x } }
"""
    )
    assert to_mermaid(found) == (
        'flowchart TD\n    s0("start")\n    s1[["b<br/>noop<br/>for each n"]]\n    s2["c<br/>http"]\n    begin(( )) --> s0\n'
        '    s0 -->|"workload.x == #39;#60;b#62;#39;"| s1\n    s0 -.->|"event.name == #39;step.failed#39;"| s2\n'
    )


def test_picture_of_what_is_cancelled_and_locked(program):
    found = program(
        """\
workflow:
  - { step: start, next: [ a, b, end ] }
  - { step: a, spec: { cancels: [ b, start ], mutex: bench }, tool: { kind: noop } }
  - { step: b, spec: { mutex: "key-{{ args.k | default(1) }}" } }
  - { step: end, spec: { cancels: all } }
"""
    )
    drawn = to_mermaid(found)
    assert '    s1["a<br/>noop<br/>lock bench"]\n' in drawn
    assert '("b<br/>lock key-' in drawn
    assert '    s3((("end")))\n' in drawn
    assert '    s1 -.-x|"cancels"| s2\n    s1 -.-x|"cancels"| s0\n' in drawn


@pytest.mark.parametrize(
    "change",
    [
        ("apiVersion: noetl.io/v2", "apiVersion: noetl.io/v1"),
        ("kind: Playbook", "kind: Playbook\nvars: { a: 1 }"),
        ("- step: start", "- stp: start"),
        ("method: GET", "method: FETCH"),
        ("kind: http", "kind: htpt"),
        ("iterator: branch", "iteratr: branch"),
        ("mode: parallel", "mode: paralel"),
        ("attempts: 4", "attempts: 0"),
        ("delay: 0.2", "delay: soon"),
        ("do: jump", "do: leap"),
    ],
    ids=lambda change: change[1],
)
def test_the_schema_refuses_what_the_compiler_refuses(change, kinds):
    assert change[0] in PAGINATED_LOOP
    validator = jsonschema.Draft202012Validator(playbook_schema(kinds))
    document = yaml.load(PAGINATED_LOOP.replace(*change, 1), Loader=CCoreLoader)
    assert not validator.is_valid(document)


def test_document_facts(kinds):
    program = compile_playbook(PAGINATED_LOOP, kinds=kinds).program
    assert (program.name, program.path, program.version, program.labels) == (
        *("reader_sync", "examples/reader_sync", "2.1"),
        {"team": "library"},
    )
    assert [(entry.name, entry.kind) for entry in program.keychain] == [("lake_db", "postgres_credential")]
    event = compile_playbook(EVENT_FORM, kinds=kinds).program
    assert event.schedule == ScheduleSpec(cron="0 3 * * *")
    assert event.path == "harvest"
    approval = compile_playbook(APPROVAL, kinds=kinds).program
    assert (approval.entry, approval.final_step) == ("start", "audit")


def test_hash_is_of_the_text(kinds):
    program = compile_playbook(FAN_OUT, kinds=kinds).program
    assert program.hash == program_hash(FAN_OUT) == program_hash(FAN_OUT.encode())
    assert program.hash != program_hash(FAN_OUT + "\n")
    assert len(program.hash) == 64


def test_cache_is_by_content_and_bounded(kinds):
    first = compile_cached(FAN_OUT, source_name="a", kinds=kinds)
    assert compile_cached(FAN_OUT, source_name="a", kinds=kinds) is first
    assert compile_cached(FAN_OUT, source_name="b", kinds=kinds).program.source_name == "b"
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: n }\nworkflow: [ { step: start } ]\n"
    for number in range(256):
        compile_cached(f"{head}# {number}\n", source_name="a", kinds=kinds)
    assert compile_cached(FAN_OUT, source_name="a", kinds=kinds) is not first
