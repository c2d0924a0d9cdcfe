"""Texts of older dialects that were written to take long: reading them is linear in their length."""

from __future__ import annotations

import json

import pytest

from noetl.kinds.registry import default_registry
from noetl.migration.guards import compared, inner
from noetl.migration.migrate import Migrated, migrate_text
from tests.parts import repeated
from tests.work import calls

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{ name: hostile }}
workload: {{ a: 1, b: 2 }}
workflow:
  - step: start
    tool: {{ kind: shell, cmds: [{command}] }}
"""


STEPS = repeated(gate=50, full=100)


def migrated(command: str) -> Migrated:
    text = PLAYBOOK.format(command=json.dumps(command))
    return migrate_text(text, source_name="hostile.yaml", kinds=default_registry())


@pytest.mark.parametrize(
    "command", ["echo {{" + " " * 60_000, "echo {{" + " " * 60_000 + "x }", "echo }}" + " " * 60_000]
)
def test_spaces_behind_an_open_template_do_not_hold_the_process(command: str) -> None:
    """Without the mend this does not end: three repetitions try every division of the spaces."""
    assert command in migrated(command).text


def test_expressions_of_one_word_get_names_of_their_own() -> None:
    command = "echo {{ a|string }} {{- b -}} {{ a | int }} {{ a|string }} {{ a_2 }}"
    text = migrated(command).text
    assert 'echo "${A}" "${B}" "${A_2}" "${A}" "${A_2_2}"' in text
    assert [text.count(name) for name in ("A: ", "A_2: ", "A_2_2: ", "B: ")] == [1, 1, 1, 1]


def test_spaces_in_a_guard_do_not_hold_the_process() -> None:
    """Without the mend this takes hours: a pattern tried every division of the spaces."""
    spaces = " " * 1_000_000
    assert inner("{{ a" + spaces + "b") is None
    assert inner("{{- a" + spaces + "== 2 -}}") == "a == 2"
    assert compared("{{ a" + spaces + "b") is None
    assert compared("{{ a" + spaces + "}} > 2" + spaces) == "{{ (a) | float > 2 }}"


def test_a_long_chain_of_steps_behind_an_item_is_refused() -> None:
    """Each step would be one more call of the rule in itself."""
    head = PLAYBOOK.partition("  - step")[0].format()
    loop = "  - step: s0\n    loop: { in: [1], iterator: n }\n    tool: { kind: noop }\n"
    ways = [
        "    case: [{ when: \"{{ event.name == 'step.exit' }}\", "
        f"then: {{ next: [{{ step: s{at + 1}, args: {{ n: '{{{{ {read} }}}}' }} }}] }} }}]\n"
        for at, read in enumerate(["n", *["args.n"] * repeated(gate=60, full=1_200)])
    ]
    steps = [f"  - step: s{at}\n    tool: {{ kind: noop }}\n{way}" for at, way in enumerate(ways)][1:]
    text = head + loop + ways[0] + "".join(steps) + f"  - step: s{len(ways)}\n"
    made = migrate_text(text, source_name="hostile.yaml", kinds=default_registry())
    assert [one.message for one in made.refusals] == [
        "more than 20 steps follow an item, one behind the other"
    ]


def test_migrating_is_near_linear_in_the_steps() -> None:
    """Four times the steps take about four times the calls, of a text that no rule changes too."""

    def migrate(count: int) -> Migrated:
        lines = [
            f"  - {{ step: s{n}, next: [ s{(n + 1) % count}, s{(7 * n + 3) % count} ] }}\n"
            for n in range(count)
        ]
        head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: large }\nworkflow:\n"
        return migrate_text(head + "".join(lines), source_name="large.yaml", kinds=default_registry())

    migrate(10)
    few, many = (calls(lambda count=count: migrate(count)) for count in (STEPS, 4 * STEPS))
    assert many < 4.8 * few, (few, many)
