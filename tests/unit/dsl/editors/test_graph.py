"""Pictures of playbooks: what is drawn, kept as text beside this file, and that no name can break out of its label.

``NOETL_UPDATE_GRAPHS=1`` writes the pictures anew; read the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.editors.graph import graph_of, to_dot, to_json, to_mermaid
from noetl.kinds.registry import default_registry

ROOT = Path(__file__).parents[3] / "playbooks"
KEPT = Path(__file__).parent / "graphs"
EVERYTHING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: everything }
executor: { spec: { final_step: report } }
workload: { rows: [ 1 ], big: 5 }
workflow:
  - step: start
    next: { spec: { mode: inclusive }, arcs: [ { step: book }, { step: gate }, { step: each } ] }
  - step: book
    tool: { kind: noop, args: { id: 1 } }
    spec: { compensate: { kind: noop, args: { id: "{{ args.id | default(1) }}" } }, on_error: rescue, mutex: till }
    next: { arcs: [ { step: meet, when: "{{ workload.big > 3 and 'a\\"b' != '<c>' }}" } ] }
  - step: gate
    spec:
      policy:
        admit: { rules: [ { when: "{{ ctx.approved is defined }}", then: { allow: true } }, else: { then: { allow: false } } ] }
    next: { arcs: [ { step: meet }, { step: rescue, when: "{{ event.name == 'step.failed' }}" } ] }
  - step: each
    loop: { in: "{{ workload.rows }}", iterator: row, spec: { mode: parallel } }
    tool: { kind: playbook, path: "shop/{{ workload.big }}" }
    spec: { on_error: continue }
    next: { arcs: [ { step: meet } ] }
  - { step: meet, spec: { join: any, cancels: [ gate ] }, tool: { kind: noop }, next: { arcs: [ { step: stop } ] } }
  - { step: stop, spec: { cancels: all }, tool: { kind: noop } }
  - { step: rescue, tool: { kind: noop } }
  - { step: report, tool: { kind: noop } }
"""
SOURCES = {
    "everything": EVERYTHING,
    **{
        name: (ROOT / "examples" / name / f"{name}.yaml").read_text()
        for name in ("operator_approval", "book_trip", "nested_loops")
    },
}
FORMS = {
    "mmd": to_mermaid,
    "dot": to_dot,
    "json": lambda program: json.dumps(to_json(program), indent=1) + "\n",
}


def compiled(text):
    return compile_playbook(text, kinds=default_registry()).program


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOURCES)
def test_picture_is_the_one_that_is_kept(name, form):
    drawn = FORMS[form](compiled(SOURCES[name]))
    kept = KEPT / f"{name}.{form}"
    if os.environ.get("NOETL_UPDATE_GRAPHS"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(drawn)
    assert drawn == kept.read_text()


LABEL = r"[\w .,=/()+*…<>#;-]*"
MERMAID = re.compile(
    rf'flowchart TD|    [a-z]\d+u?[\[({{>/]+"{LABEL}"[\])}}/]+'
    rf'|    (?:[a-z]\d+u?|begin\(\( \)\)|finish\(\[when all is done\]\)) (?:-->|-\.->|-\.-x|-\.-o|==>)(?:\|"{LABEL}"\|)? [a-z]\d+'
)
HOSTILE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: "a\\"]; x[\\\\\\"" }
workload: { n: 1 }
workflow:
  - step: end
    tool: { kind: playbook, path: "\\"]-->x[\\"<script>alert(1)</script>`${x}`\\\\" }
    spec: { mutex: "|\\"]\\n%%{init: {}}%%" }
    next: { arcs: [ { step: subgraph, when: "{{ workload.n == '\\"]; click s0 \\\\\\" \\n end' }}" }, { step: style } ] }
  - { step: subgraph, loop: { in: "{{ workload.n }}", iterator: click }, tool: { kind: noop } }
  - { step: style }
"""


@pytest.mark.parametrize("text", [*SOURCES.values(), HOSTILE], ids=[*SOURCES, "hostile"])
def test_nothing_breaks_out_of_its_label(text):
    program = compiled(text)
    for line in to_mermaid(program).splitlines():
        assert MERMAID.fullmatch(line), line
    drawn = to_dot(program)
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', drawn)
    assert '"' not in bare.replace('""', "")
    assert re.fullmatch(r"[\w\s{}\[\]=,;>\"-]*", bare)
    assert drawn.count("\n") == len(drawn.splitlines())
    graph = graph_of(program)
    known = {node.id for node in graph.nodes}
    assert {end for edge in graph.edges for end in (edge.source, edge.target)} <= known
