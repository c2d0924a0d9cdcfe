"""The document of diagnostics: all that can be read, and nothing secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from noetl.api.http.machine_report import MachineReport
from noetl.domain.errors import InfrastructureError
from noetl.runtime.server.diagnosis import machine_report, masked
from noetl.runtime.settings import Settings
from noetl.runtime.storage_settings import StorageSettings
from tests.unit.api.ground import FAILING, Ground

SECRETS = ("hunter2", "AKIAEXAMPLE", "s3cr3t")


def settings(home: Path) -> Settings:
    return Settings(
        home,
        database_url="postgresql://noetl:hunter2@db.example/noetl",
        public_url="https://me:hunter2@api.example",
        task_folders=("/data/s3cr3t",),
        storage=StorageSettings(minio_access_key="AKIAEXAMPLE", minio_secret_key="s3cr3t"),
    )


def test_the_state_of_a_server_is_in_one_document(ground: Ground):
    ground.run()
    ground.run(FAILING)
    ground.ask("PUT", "/api/limits/shop", {"concurrent": 2})
    ground.deps = replace(ground.deps, machine=lambda: MachineReport([], {"io_workers": 16}))
    found = ground.ask("GET", "/api/diagnostics").json
    assert found["unread"] == {} and found["ready"] == {"database": "ok", "bucket": "ok"}
    assert found["executions"]["completed"] == 1 and found["executions"]["failed"] == 1
    assert found["failures"][0]["count"] == 1 and found["limits"][0]["key"] == "shop"
    assert found["machine"]["settings"] == {"io_workers": 16}
    assert found["version"] == ground.ask("GET", "/api/version").json
    assert found["queues"]["queues"][0]["name"] == "events.fifo"


def test_what_cannot_be_read_is_named_and_the_rest_is_there(ground: Ground):
    def away():
        raise InfrastructureError("no database", code="database_unreachable")

    ground.failing["database"] = InfrastructureError("no database", code="database_unreachable")
    ground.deps = replace(ground.deps, machine=away, gauges=away)
    reply = ground.ask("GET", "/api/diagnostics")
    assert reply.status == 200
    assert reply.json["unread"] == {"machine": "database_unreachable", "queues": "database_unreachable"}
    assert reply.json["ready"]["database"] == "database_unreachable" and reply.json["machine"] is None


def test_it_needs_the_scope_admin_and_the_version_read():
    viewer = Ground(grants={"*": "read"})
    assert viewer.ask("GET", "/api/diagnostics").status == 403
    assert viewer.ask("GET", "/api/version").status == 200


def test_settings_show_no_text(tmp_path: Path):
    shown = masked(settings(tmp_path))
    assert not any(secret in str(shown) for secret in SECRETS) and str(tmp_path) not in str(shown)
    assert shown["database_url"] == "set" and shown["reader_url"] is None
    assert shown["storage"]["minio_secret_key"] == "set" and shown["storage"]["gcs_bucket"] == "not set"
    assert shown["io_workers"] == 16 and shown["clients"]["connections"] == 1000


def test_the_machine_is_checked_as_the_doctor_does(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    report = machine_report(settings(tmp_path / "home"))
    checks = {one.name: one for one in report.checks}
    assert {"python", "packages", "home"} <= checks.keys()
    assert checks["home"].detail.startswith("~/home")
    assert not any(secret in str(report) for secret in SECRETS)
