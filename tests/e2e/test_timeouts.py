"""Times that run out on the real deployment. What they end would never end by itself, so that only the order matters."""

from __future__ import annotations

import pytest

from tests.e2e.remote import Remote, Run
from tests.parts import parted
from tests.waiting import wait_until

CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: never, path: e2e/never }
workflow:
  - step: start
    spec: { policy: { admit: { rules: [{ else: { then: { allow: false } } }] } } }
    tool: { kind: noop }
"""
HEAD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: NAME, path: e2e/times/NAME }
"""
LATE = """\
    next: { arcs: [{ step: late, when: "{{ event.name == 'step.failed' }}" }] }
  - { step: late, tool: { kind: noop, args: { late: true } } }
"""
STEP = f"""\
workflow:
  - step: start
    spec: {{ timeout: 1 }}
    tool: {{ kind: wait, callback: true, timeout: 86400 }}
{LATE}"""
WAIT = f"""\
workflow:
  - step: start
    tool: {{ kind: wait, callback: true, timeout: 1 }}
{LATE}"""
SUB_PLAYBOOK = f"""\
workflow:
  - step: start
    spec: {{ timeout: 1 }}
    tool: {{ kind: playbook, path: e2e/never }}
{LATE}"""
EXECUTION = """\
executor: { spec: { timeout: 1 } }
workflow:
  - step: start
    spec: { compensate: { kind: noop, args: { undone: true } } }
    tool: { kind: noop }
    next: { arcs: [{ step: gate }] }
  - step: gate
    tool: { kind: wait, callback: true, timeout: 86400 }
"""
CASES = {"step": STEP, "wait": WAIT, "sub_playbook": SUB_PLAYBOOK, "execution": EXECUTION}


@pytest.fixture(scope="module")
def begun(remote: Remote) -> dict[str, str]:
    """All of them at once: they wait beside each other."""
    remote.register(CHILD)
    return {name: remote.begin(HEAD.replace("NAME", name) + text) for name, text in CASES.items()}


def ended(remote: Remote, execution_id: str) -> Run:
    wait_until(lambda: remote.status(execution_id)["ended"], f"the end of {execution_id}")
    return remote.seen(execution_id)


@pytest.mark.parametrize("name", parted(["step", "wait", "sub_playbook"], ["sub_playbook"]))
def test_a_step_whose_time_is_over_fails_and_its_arc_goes_on(
    remote: Remote, begun: dict[str, str], name: str
) -> None:
    run = ended(remote, begun[name])
    assert (run.status, run.result) == ("completed", {"late": True}), run.error
    assert run.count("step.failed") == 1
    # A slow machine may come to the end of the time before it comes to the sub-playbook.
    wait_until(lambda: set(run.children()) <= {"cancelled"}, "the end of the child")


def test_an_execution_whose_time_is_over_fails_and_undoes_what_it_did(
    remote: Remote, begun: dict[str, str]
) -> None:
    run = ended(remote, begun["execution"])
    assert run.status == "failed" and run.error is not None
    assert (run.error["kind"], run.error["code"]) == ("timeout", "execution_timeout")
    undone = run.error["details"].get("compensation", [])
    assert {one["status"] for one in undone} <= {"done"}, (
        "a slow machine may have had no time for the first step"
    )
