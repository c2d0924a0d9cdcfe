"""Triggers through ``noetl serve``: a webhook and a folder start what they should; later everything is pruned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import Client
from tests.waiting import wait_until

pytestmark = pytest.mark.postgres
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: load, path: etl/load }
workload: { file: none, event: null }
workflow:
  - step: start
    tool: { kind: noop, args: { file: "{{ workload.file }}", said: "{{ workload.event.body | default(none) }}" } }
"""


@pytest.fixture
def serve(database: str, tmp_path: Path) -> Any:
    settings = Settings(home=tmp_path / "home", database_url=database)
    settings.home.mkdir()
    return lambda: Server(settings, ServeSettings(port=0, open_to_all=True), on_log=lambda line: None)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "incoming"
    found.mkdir()
    (found / "old.csv").write_text("1")
    yield found


def results(client: Client) -> list[Any]:
    """Of everything that has completed, oldest first."""
    found = client("GET", "/api/executions?status=completed")[1]["executions"]
    return [client("GET", f"/api/executions/{one['execution_id']}/result")[1]["result"] for one in found][
        ::-1
    ]


def test_a_webhook_and_a_folder_start_once_and_what_they_started_is_pruned(
    serve: Any, folder: Path, database: str
) -> None:
    with serve() as server:
        client = Client(server.address)
        assert client("POST", "/api/catalog/register", {"content": PLAYBOOK})[0] == 201
        made = client(
            "POST", "/api/triggers", {"name": "w", "path": "etl/load", "source": {"type": "webhook"}}
        )
        for _ in range(2):
            status, fired = client("POST", made[1]["hook"], {"a": 1}, Webhook_Id="1")
            assert status == 202, fired
        wait_until(lambda: results(client) == [{"file": "none", "said": {"a": 1}}])
        source = {"type": "file", "folder": str(folder), "pattern": "*.csv"}
        wish = {"name": "f", "path": "etl/load", "source": source, "payload": {"file": "{{ event.name }}"}}
        assert client("POST", "/api/triggers", wish)[0] == 201
        wait_until(lambda: list((folder.parent / "home" / "watched").glob("f-*.json")))
        (folder / "new.csv").write_text("2")
        wait_until(lambda: len(results(client)) == 2)
        assert client("GET", "/api/triggers/f")[1]["fired"] == 1
    (folder / "while-away.csv").write_text("3")
    with serve() as server:
        client = Client(server.address)
        wait_until(lambda: len(results(client)) == 3)
        assert [one["file"] for one in results(client)] == ["none", "new.csv", "while-away.csv"]
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE noetl.execution SET ended_at = ended_at - interval '40 days'")
        status, pruned = client("POST", "/api/admin/prune", {"older_than_days": 30})
        assert (status, pruned["executions"], pruned["status"]) == (200, 3, "complete")
        assert results(client) == []
