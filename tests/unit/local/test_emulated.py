"""What is added to the emulator: resources that are pretended, databases that are real, layers, placeholders of schedules."""

from __future__ import annotations

import io
import json
import queue
import subprocess
import sys
import types
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from noetl.local import stack
from noetl.local.layout import Layout
from noetl.local.noetl_emulator import functions, resources

POSTGRES = {"host": "127.0.0.1", "port": 5999}


def _zip(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


@pytest.mark.parametrize("kind", sorted(resources.IGNORED))
def test_a_pretended_resource_has_its_attributes(kind: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.objects.mkdir()
    handler = resources.ignoring(kind, "127.0.0.1", layout.ignored)
    physical_id, attributes = handler["create"]("Logical", {}, "Stack")
    assert set(attributes) == set(resources.IGNORED[kind])
    for name, value in attributes.items():
        if name in resources.HOSTS:
            assert value == "127.0.0.1"
        elif name.lower().endswith("arn"):
            assert value.startswith("arn:aws:") and value.endswith(physical_id)
    assert handler["update"](physical_id, {}, {}, "Stack") == (physical_id, attributes)
    handler["create"]("Logical", {}, "Stack")
    handler["create"]("Other", {}, "Stack")
    assert stack.ignored(layout) == {kind: 2}, "one that was replaced is still one resource"
    handler["delete"](physical_id, {})


def _provisioners() -> Any:
    """As much of the emulator as the databases need."""
    fake = types.SimpleNamespace(_rds=types.SimpleNamespace(_instances={}, _clusters={}))

    def instance(logical_id: str, props: dict[str, str], stack: str) -> tuple[str, dict[str, Any]]:
        fake._rds._instances["db"] = {
            "MasterUsername": "owner",
            "_MasterUserPassword": "pä's",
            "DBName": "noetl",
            "DBClusterIdentifier": props.get("cluster", ""),
            "Endpoint": {"Address": "db.rds.amazonaws.com", "Port": 5432},
        }
        return "db", {}

    def cluster(logical_id: str, props: dict[str, str], stack: str) -> tuple[str, dict[str, Any]]:
        fake._rds._clusters["c"] = {
            "MasterUsername": "owner",
            "_MasterUserPassword": "secret",
            "DatabaseName": "",
            "Endpoint": "c.rds.amazonaws.com",
            "ReaderEndpoint": "ro.rds.amazonaws.com",
            "Port": 5432,
        }
        return "c", {}

    def update(kind: str) -> Any:
        return lambda physical_id, old, new, stack, logical_id=None: (physical_id, {"stale": kind})

    fake._RESOURCE_HANDLERS = {
        "AWS::RDS::DBInstance": {"create": instance, "update": update("i")},
        "AWS::RDS::DBCluster": {"create": cluster, "update": update("c")},
        "AWS::EC2::EIP": {"create": "the emulator's own"},
    }
    fake._rds_db_instance_attrs = lambda record: dict(record["Endpoint"])
    fake._rds_db_cluster_attrs = lambda record: {"Address": record["Endpoint"], "Port": record["Port"]}
    return fake


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    fake, granted = _provisioners(), tmp_path / "granted"
    package = types.ModuleType("ministack.services.cloudformation")
    package.provisioners = fake  # type: ignore[attr-defined]
    for name in ("ministack", "ministack.services"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "ministack.services.cloudformation", package)
    code = f"import sys; open({str(granted)!r}, 'a').write(sys.stdin.read() + chr(10))"
    resources.register(tmp_path / "ignored", POSTGRES, (sys.executable, "-c", code))
    return fake._RESOURCE_HANDLERS, granted


def _granted(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_instance_leads_to_the_local_postgres(registered: tuple[Any, Path]) -> None:
    handlers, granted = registered
    made = handlers["AWS::RDS::DBInstance"]["create"]("Db", {}, "Stack")
    assert made == ("db", {"Address": "127.0.0.1", "Port": 5999})
    assert handlers["AWS::RDS::DBInstance"]["update"]("db", {}, {}, "Stack", "Db") == made
    assert _granted(granted) == [{"user": "owner", "password": "pä's", "database": "noetl"}] * 2


def test_a_cluster_is_granted_once_and_its_members_are_not(registered: tuple[Any, Path]) -> None:
    handlers, granted = registered
    made = handlers["AWS::RDS::DBCluster"]["create"]("Db", {}, "Stack")
    assert made == ("c", {"Address": "127.0.0.1", "Port": 5999})
    handlers["AWS::RDS::DBInstance"]["create"]("Db", {"cluster": "c"}, "Stack")
    assert _granted(granted) == [{"user": "owner", "password": "secret", "database": "postgres"}]


def test_what_the_emulator_knows_is_left_to_it(registered: tuple[Any, Path]) -> None:
    handlers, _ = registered
    assert handlers["AWS::EC2::EIP"] == {"create": "the emulator's own"}
    assert set(resources.IGNORED) <= set(handlers)


def test_a_refused_grant_fails_the_resource() -> None:
    code = "import sys; sys.exit('role exists elsewhere')"
    with pytest.raises(ValueError, match="role exists elsewhere"):
        resources._grant((sys.executable, "-c", code), {"user": "u"})


def test_a_layer_is_unpacked_once_and_leads_the_search_path(tmp_path: Path) -> None:
    data = _zip(
        {
            "python/mine.py": "WHERE = 'layer'",
            "python/lib/python3.11/site-packages/other.py": "WHERE = 'site'",
        }
    )
    folder = functions.unpacked(data, tmp_path / "layers")
    (folder / "python" / "marker").touch()
    assert functions.unpacked(data, tmp_path / "layers") == folder
    assert (folder / "python" / "marker").exists()
    pointer = tmp_path / "pointer"
    with zipfile.ZipFile(io.BytesIO(functions.pointer_layer(folder))) as archive:
        archive.extractall(pointer)
    code = f"import site; site.addsitedir({str(pointer / functions.SITE)!r}); import mine, other; print(mine.WHERE, other.WHERE)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["layer", "site"]


@pytest.mark.parametrize("name", ["../outside", "/outside", "python/../../outside"])
def test_a_layer_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuntimeError, match="outside of itself"):
        functions.unpacked(_zip({"python/fine.py": "", name: "x"}), tmp_path / "layers")
    assert not (tmp_path / "outside").exists()
    assert list((tmp_path / "layers").iterdir()) == []


def test_placeholders_of_a_schedule_are_filled() -> None:
    names = {"at": "scheduled-time", "id": "execution-id", "of": "schedule-arn", "n": "attempt-number"}
    text = json.dumps({key: f"<aws.scheduler.{name}>" for key, name in names.items()})
    event = {"Resources": ["arn:x"], "EventId": "e-1"}
    filled = json.loads(functions.filled(text, event, datetime(2026, 11, 21, 5, 30, tzinfo=UTC)))
    assert filled == {"at": "2026-11-21T05:30:00Z", "id": "e-1", "of": "arn:x", "n": "1"}


def test_only_schedules_have_placeholders() -> None:
    seen: list[Any] = []
    event = {"Source": "aws.scheduler", "Time": 1795239001.5, "EventId": "e"}
    target = {"Arn": "a", "Input": "<aws.scheduler.scheduled-time>"}
    functions._invoke_scheduled(lambda *call: seen.append(call), target, event, {})
    functions._invoke_scheduled(lambda *call: seen.append(call), target, {"Source": "aws.events"}, {})
    functions._invoke_scheduled(lambda *call: seen.append(call), {"Arn": "a"}, event, {})
    rule = {"ScheduleExpression": "at(2026-11-21T05:29:58)"}
    functions._invoke_scheduled(lambda *call: seen.append(call), target, event, rule)
    inputs = [call[0].get("Input") for call in seen]
    assert inputs == ["2026-11-21T05:30:00Z", target["Input"], None, "2026-11-21T05:29:58Z"]


def test_a_function_that_cannot_be_imported_logs_why() -> None:
    text = "Worker init failed: Traceback (most recent call last):\n  ...\nModuleNotFoundError: No module named 'x'\n"
    failed = {"error": True, "log": "", "body": {"errorMessage": text, "errorType": "RuntimeError"}}
    result = functions._logged(lambda *call: failed, "function", {}, "id")
    assert result["body"]["errorMessage"] == "ModuleNotFoundError: No module named 'x'"
    assert result["log"].startswith("Worker init failed: Traceback")
    raised = {"error": True, "log": "Traceback…", "body": {"errorMessage": "a\nb", "errorType": "X"}}
    assert functions._logged(lambda: raised)["body"]["errorMessage"] == "a\nb"
    assert functions._logged(lambda: {"body": "fine", "log": ""}) == {"body": "fine", "log": ""}


def test_a_site_folder_is_there_before_the_function(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("import builtins\nbuiltins.told = 'before'\n")
    (tmp_path / "early.pth").write_text("import early\n")
    script = functions.with_site("import builtins, early; print(builtins.told, early.__name__)", tmp_path)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "before early\n"
    assert functions.with_site("pass", None) == "pass"


def _python_script(body: str) -> str:
    """As much of the emulator's script as one invocation needs."""
    return (
        "import sys, json\n"
        "real, sys.stdout = sys.stdout, sys.stderr\n"
        f"def handler_fn(event, context):\n    {body}\n"
        "event = context = None\n"
        "for _ in range(2):\n"
        "        try:\n"
        "            result = handler_fn(event, context)\n"
        "            real.write('ok\\n')\n"
        "        except Exception as e:\n"
        "            real.write('error\\n')\n"
    )


@pytest.mark.parametrize(
    ("body", "answer", "log"),
    [
        ("print('a'); print(); print('b')", "ok", "a\n\nb"),
        ("print('a', end='')", "ok", "a"),
        ("pass", "ok", ""),
        ("print('a'); raise ValueError", "error", "a"),
    ],
)
def test_the_log_of_an_invocation_ends_at_its_mark(body: str, answer: str, log: str) -> None:
    script = functions.with_log_end(_python_script(body))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{answer}\n" * 2
    lines: queue.Queue[str] = queue.Queue()
    for line in ran.stderr.splitlines():
        lines.put(line)
    assert [functions.read_log(lines, lambda: True, 5) for _ in range(2)] == [log, log]
    assert lines.empty()


def test_the_log_of_a_function_that_died_ends_with_its_output() -> None:
    lines: queue.Queue[str] = queue.Queue()
    lines.put("one")
    lines.put("two")
    assert functions.read_log(lines, lambda: False, 5) == "one\ntwo", "it is dead"
    lines.put("three")
    assert functions.read_log(lines, lambda: True, -1) == "three", "its child lives on"


def test_a_number_that_the_emulator_lacks_is_refused() -> None:
    module = types.SimpleNamespace(GAP=0.05)
    functions._set(module, "GAP", 0.005)
    assert module.GAP == 0.005
    with pytest.raises(RuntimeError, match="no OTHER any more"):
        functions._set(module, "OTHER", 1)


def test_a_changed_script_of_the_emulator_is_refused() -> None:
    with pytest.raises(RuntimeError, match="has changed"):
        functions.with_log_end("result = handler(event)")
