"""``noetl limit`` and ``noetl status`` for people: what holds, who has it, who waits and why."""

from __future__ import annotations

import re

ONE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: one }
executor: { spec: { concurrency: { limit: 1 } } }
workflow:
  - step: start
    spec:
      limits: [{ key: api, concurrent: 1 }]
      policy: { admit: { rules: [{ when: "{{ ctx.go is defined }}", then: { allow: true } }, { else: { then: { allow: false } } }] } }
    tool: { kind: double, value: 1 }
"""


def test_a_queued_execution_says_what_it_waits_for(noetl, tmp_path):
    (tmp_path / "one.yaml").write_text(ONE)
    first = re.search(r"execution (\d+)", noetl("run", "one.yaml").out)[1]
    second = re.search(r"execution (\d+)", noetl("run", "one.yaml", "--priority", "7").out)[1]
    told = noetl("status", second).out
    assert "queued" in told
    assert f"the execution waits for key 'execution:one': 1 of 1 in use by {first}, position 1" in told
    assert "queued" in noetl("list", "--status", "queued").out
    shown = noetl("limit", "list", "execution:one").out
    assert f"{first}  the whole execution since" in shown and "priority 7" in shown
    assert "execution:one  1 at once" in noetl("limit", "list").out
    assert "waits for key" in noetl("analyze", second).out


def test_what_bounds_nothing_is_told(noetl):
    refused = noetl("limit", "set", "api")
    assert refused.code == 2 and "bounds nothing" in refused.err
    assert noetl("limit", "set", "api", "--rate", "2", "--burst", "3").out.startswith(
        "api: 2 every 1 s (3 together)"
    )
    assert noetl("limit", "remove", "api").code == 0
