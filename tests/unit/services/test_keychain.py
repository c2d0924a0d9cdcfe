"""Keychains are resolved before the workflow: at the door where there is one, else the execution fails before its first step."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.adapters.embedded.credentials import FileCredentials
from noetl.domain.errors import InvalidInputError
from noetl.dsl.compiler import compile_playbook
from noetl.dsl.keychain import mentioned
from noetl.kinds.registry import default_registry
from noetl.services.credentials.credentials import CredentialRequest, keep_credential, remove_credential
from noetl.services.queries import read_execution
from noetl.services.worker.worker_credentials import KnownCredentials
from tests.unit.cli.fake_runtime import Database, MemoryRuntime

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: secretive, path: demo/secretive }
keychain:
  - { name: warehouse, kind: postgres_credential }
  - name: shop
    kind: bearer
    credential: "shop_{{ workload.stage }}"
workload: { stage: test, deep: { n: 1 } }
workflow:
  - step: start
    tool: { kind: double, value: 2 }
"""
PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: parent, path: demo/parent }
workflow:
  - step: start
    tool: { kind: playbook, path: demo/secretive, payload: { stage: live } }
"""


@pytest.fixture
def runtime(tmp_path):
    database = Database()
    file = tmp_path / "keys.yaml"
    file.write_text("shop_live: { type: oauth2, data: { token: x } }")
    file.chmod(0o600)
    database.names = KnownCredentials(database.credentials.store, FileCredentials(file))
    with MemoryRuntime(database) as opened:
        yield opened


def keep(runtime: MemoryRuntime, name: str, type_: str = "generic") -> None:
    data = {"host": "h", "token": "t"}
    keep_credential(CredentialRequest(name, type_, data), "me", runtime.database.credentials)


def start(runtime: MemoryRuntime, text: str = PLAYBOOK, **payload: Any) -> int:
    return runtime.start(runtime.register(text, source_name="secretive.yaml"), payload)


def ended(runtime: MemoryRuntime, execution_id: int) -> Any:
    runtime.run_until([execution_id])
    return read_execution.describe(runtime.store, runtime.programs, execution_id, now=0.0)


def test_entries_lead_to_credentials_by_their_own_name_or_a_computed_one(runtime):
    keep(runtime, "warehouse", "postgres")
    keep(runtime, "shop_test", "bearer")
    assert ended(runtime, start(runtime)).status == "completed"
    assert ended(runtime, start(runtime, stage="live")).status == "completed", "of the file, and exchanged"


@pytest.mark.parametrize(
    ("known", "payload", "place", "told", "hint"),
    [
        (
            [("warehous", "postgres"), ("shop_test", "bearer")],
            {},
            "5:5",
            "'warehouse'",
            "did you mean 'warehous'?",
        ),
        ([("warehouse", "postgres")], {}, "6:5", "'shop_test'", "did you mean 'shop_live'?"),
        ([("warehouse", "bearer"), ("shop_test", "bearer")], {}, "5:5", "type bearer", "kind"),
        (
            [("warehouse", "postgres")],
            {"stage": {"a": 1}},
            "6:5",
            "credential",
            "--type bearer --data-file FILE",
        ),
    ],
)
def test_a_start_is_refused_with_the_place_of_the_entry(runtime, known, payload, place, told, hint):
    for name, type_ in known:
        keep(runtime, name, type_)
    with pytest.raises(InvalidInputError) as refused:
        start(runtime, **payload)
    assert refused.value.code == "keychain_unresolved"
    assert refused.value.message.startswith(f"secretive.yaml:{place}: ") and told in refused.value.message
    assert hint in refused.value.hint
    assert not runtime.store.executions(limit=10)


def test_a_template_that_fails_is_told_with_its_own_place(runtime):
    keep(runtime, "warehouse", "postgres")
    with pytest.raises(InvalidInputError, match=r"^secretive\.yaml:8:\d+: "):
        start(runtime, PLAYBOOK.replace("workload.stage }}", "workload.deep.n.x.y }}"))


def test_a_sub_playbook_fails_before_its_first_step(runtime):
    """Nobody stands at a door: the execution exists, and says why it did not begin."""
    keep(runtime, "warehouse", "postgres")
    runtime.register(PLAYBOOK, source_name="secretive.yaml")
    parent = start(runtime, PARENT)
    assert ended(runtime, parent).status == "completed"
    remove_credential("warehouse", "me", runtime.database.credentials)
    parent = start(runtime, PARENT)
    found = ended(runtime, parent)
    assert found.status == "failed"
    (child,) = (
        one.execution_id for one in runtime.store.executions(limit=10) if one.parent_execution_id == parent
    )
    told = ended(runtime, child)
    assert (told.status, told.error["code"]) == ("failed", "keychain_unresolved")
    assert told.error["position"] == "secretive.yaml:5:5" and "'warehouse'" in told.error["message"]
    assert not runtime.store.slots(child).keys() & {("step", "start")}
    assert runtime.store.info(child).program == runtime.catalog.get("demo/secretive").program


def test_names_that_a_program_writes_out_are_found_wherever_they_stand():
    text = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: t }
workflow:
  - step: start
    loop: { in: [1], iterator: x }
    tool:
      - a: { kind: postgres, query: "select 1", auth: one }
      - b:
          kind: http
          url: "http://x/"
          auth: { type: bearer, credential: two }
      - c:
          kind: http
          url: "http://x/"
          auth: { type: basic, credential: "{{ ctx.computed | default('no') }}" }
          headers: { auth-like: "{{ x }}" }
      - d: { kind: noop, args: { name: six } }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: iterator, collection: [1], element: e, task: { kind: postgres, query: "select {{ e }}", auth: "three" } }
    sink: { tool: { kind: postgres, table: t, args: { a: 1 }, auth: four } }
"""
    program = compile_playbook(text, source_name="t", kinds=default_registry()).program
    assert mentioned(program) == {"one", "two", "three", "four"}
