"""The names that a playbook declares, also while it is wrong."""

from __future__ import annotations

from pathlib import Path

from noetl.dsl.editors.names import names_of
from noetl.kinds.registry import default_registry
from tests.parts import over

KINDS = default_registry()
TEXT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: a }
workload: { city: Oslo }
input: { properties: { days: {} } }
keychain: [{ name: weather, kind: bearer }]
workbook: { forecast: { kind: noop } }
workflow:
  - step: start
    args: { rate: 2 }
    loop: { in: [1], iterator: n }
    tool:
      - { name: read, kind: noop, set: { iter.page: 1, ctx.total: 2 } }
      - { name: keep, kind: noop }
    next: { arcs: [{ step: last, args: { mood: good } }] }
  - step: last
    as: ending
    tool: { kind: noop }
finally: { kind: noop }
"""


def test_every_kind_of_name_is_found():
    found = names_of(TEXT, KINDS)
    assert (found.workload, found.ctx, found.vars) == (["city", "days"], ["total"], [])
    assert (found.keychain, found.workbook) == (["weather"], ["forecast"])
    start, last = found.steps
    assert (start.step, start.iterator, start.arguments) == ("start", "n", ["rate"])
    assert (start.tasks, start.iteration) == (["keep", "read"], ["page"])
    assert (last.step, last.alias, last.iterator, last.arguments) == ("last", "ending", None, ["mood"])


def test_errors_of_the_playbook_do_not_hide_its_names():
    broken = (
        TEXT.replace("kind: noop }", "kind: nop, url: 3 }").replace("arcs:", "acs:").replace("/v2", "/v9")
    )
    found = names_of(broken, KINDS)
    assert found.workload == ["city", "days"] and [step.step for step in found.steps] == ["start", "last"]


@over("text", ["", "- a", "a: [", "\t", "workflow: 3", "StartAt: a\nStates: {}", "💥"])
def test_what_is_no_playbook_has_no_names(text):
    assert names_of(text, KINDS) is None


@over("cut", [*range(0, len(TEXT), 7)])
def test_a_text_that_is_half_written_breaks_nothing(cut):
    names_of(TEXT[:cut], KINDS)


def test_wrong_playbooks_break_nothing():
    for file in (Path(__file__).parents[4] / "playbooks" / "invalid").rglob("*.yaml"):
        names_of(file.read_bytes().decode("utf-8", "replace"), KINDS)
