"""Every example through the deployed API, held to what the tests of local runs say about it.

The tests are those of ``tests/integration/examples``; here ``local`` is the deployment. ``make test`` plays a case of each example here
that uses more of a deployment than others do, and all of them there.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest
from psycopg import conninfo

from tests.e2e.remote import EXAMPLES
from tests.integration.examples import test_examples as by_hand
from tests.integration.examples import test_printed_examples as printed
from tests.integration.examples import test_seattle_weather as weather
from tests.integration.examples.api import Api, ApiServer
from tests.integration.examples.conftest import sample_credentials
from tests.parts import parted

OTHERWISE = {"test_an_operator_decides"}
"""Has its own test, in ``test_control.py``: who decided is told by the API's authorizer."""


ALIKE = {
    "batch_counters",
    "conditional_retry",
    "config_loader",
    "fanout_join",
    "nested_loops",
    "paginated_endpoints",
    "price_merge",
}
"""Examples that use a deployment as another one does: HTTP, Python and loops."""


RUNS = re.compile(r'local\.run\("(\w+)"')


def _shared(module: Any) -> dict[str, Any]:
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and inspect.isfunction(test)
        and "local" in inspect.signature(test).parameters
        and name not in OTHERWISE
    }


TESTS = _shared(by_hand) | _shared(printed) | _shared(weather)


def _sample(tests: dict[str, Any]) -> dict[str, Any]:
    """Leave to ``make test-full`` all but the first case of the first test of each example that is like no other."""
    played = set(ALIKE)
    found = {}
    for name, test in tests.items():
        examples = set(RUNS.findall(inspect.getsource(test)))
        found[name] = _first_case(test) if examples - played else pytest.mark.full(_copy(test))
        played |= examples
    return found


def _first_case(test: FunctionType) -> FunctionType:
    copied = _copy(test)
    copied.pytestmark = [_first_row(mark) for mark in getattr(test, "pytestmark", ())]  # type: ignore[attr-defined]
    return copied


def _first_row(mark: pytest.Mark) -> pytest.Mark:
    if mark.name != "parametrize":
        return mark
    names, rows = mark.args
    return pytest.mark.parametrize(names, parted(rows, rows[:1])).mark


def _copy(test: FunctionType) -> FunctionType:
    """Copy a test, so that a mark counts here alone."""
    copied = FunctionType(test.__code__, test.__globals__, test.__name__, test.__defaults__, test.__closure__)
    copied.__dict__.update(vars(test))
    return copied


globals().update(_sample(TESTS))
observations = weather.observations


@pytest.fixture(scope="session")
def signed_in(deployment: Any) -> None:
    """The credentials that examples name, as an operator would store them; the database is the deployment's scratch one."""
    vault = deployment.client("secretsmanager")
    place = f"noetl/{deployment.environment}/credentials/"
    scratch = json.loads(vault.get_secret_value(SecretId=f"{place}workspace")["SecretString"])["data"]
    for name, credential in sample_credentials(conninfo.make_conninfo(**scratch)).items():
        text = json.dumps(credential)
        try:
            vault.create_secret(Name=place + name, SecretString=text)
        except vault.exceptions.ResourceExistsException:
            vault.put_secret_value(SecretId=place + name, SecretString=text)


@pytest.fixture
def local(remote: Any, signed_in: None) -> Any:
    return remote


@pytest.fixture
def api() -> Iterator[Api]:
    with ApiServer(Api()) as running:
        yield running


def test_no_example_is_left_out() -> None:
    sources = "".join(inspect.getsource(test) for test in TESTS.values())
    folders = [folder.name for folder in EXAMPLES.iterdir() if (folder / "README.md").exists()]
    missing = [name for name in folders if f'local.run("{name}"' not in sources]
    assert missing == [] and set(folders) >= ALIKE


MOVES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: moves, path: e2e/moves }
workflow:
  - step: start
    tool:
      kind: postgres
      query: |
        DROP TABLE IF EXISTS moved_from, moved_to;
        CREATE TABLE moved_from AS
        SELECT i AS id, (i / 8.0)::numeric(12,3) AS price, now() AS at, jsonb_build_object('i', i) AS doc FROM generate_series(1, 2500) t(i);
        CREATE TABLE moved_to (LIKE moved_from, PRIMARY KEY (id))
    next: [out]
  - step: out
    tool:
      kind: transfer
      source: { kind: postgres, query: "SELECT * FROM moved_from WHERE id <= {{ workload.most }}", order_by: id }
      target: { kind: s3, uri: "s3://{{ workload.bucket }}/rows.parquet" }
    next: [back]
  - step: back
    tool:
      kind: transfer
      source: { kind: s3, uri: "s3://{{ workload.bucket }}/rows.parquet" }
      target: { kind: postgres, table: moved_to }
      mode: upsert
      key: id
      chunk_rows: 1000
    next: [compare]
  - step: compare
    tool:
      - same: { kind: postgres, query: "SELECT count(*) AS n FROM moved_from f JOIN moved_to t USING (id, price, at, doc)" }
      - all:
          kind: noop
          args: { same: "{{ same.rows[0].n }}", out: "{{ out.rows_written }}", back: "{{ back.rows_written }}", bytes: "{{ out.bytes }}" }
"""


def test_rows_go_from_postgres_to_s3_and_back(deployment: Any, remote: Any) -> None:
    bucket = f"noetl-moves-{os.getpid()}"
    s3 = deployment.client("s3")
    s3.create_bucket(Bucket=bucket)
    run = remote.follow(remote.begin(MOVES, bucket=bucket, most=2300))
    assert (run.status, run.error) == ("completed", None)
    size = s3.head_object(Bucket=bucket, Key="rows.parquet")["ContentLength"]
    assert run.result == {"same": 2300, "out": 2300, "back": 2300, "bytes": size}
