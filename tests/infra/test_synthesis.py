"""The synthesis as a whole: linted, checked by cdk-nag, clear about what is missing, free of what an emulator does not know."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.config import ConfigError
from tests.infra.made_up import kind, registry_with
from tests.infra.templates import Templates

ROOT = Path(__file__).resolve().parents[2]

FLAGS = json.loads((ROOT / "cdk.json").read_text())["context"]


@pytest.mark.full
@pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)
def test_cfn_lint_finds_nothing(assembly: Path) -> None:
    files = [str(path) for path in sorted(assembly.glob("*.template.json"))]
    assert len(files) == 8
    command = [
        str(Path(sys.executable).with_name("cfn-lint")),
        "--config-file",
        str(ROOT / ".cfnlintrc"),
        *files,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)
def test_cdk_nag_ran_and_found_nothing(assembly: Path) -> None:
    report = json.loads((assembly / "validation-report.json").read_text())
    reports = {found["pluginName"]: found for found in report["pluginReports"]}
    assert all(found["conclusion"] == "success" and not found["violations"] for found in reports.values())
    assert all(len(meant["reason"]) > 20 for meant in reports["AwsSolutions"]["suppressedViolations"])


def test_cdk_nag_would_find_something(tmp_path: Path) -> None:
    """The checks are wired: a queue without a DLQ and without TLS fails the synthesis."""
    import aws_cdk as cdk
    from aws_cdk import aws_sqs as sqs

    from infra.constructs import (
        nag,
    )  # imported at the top, it would start a process of Node in every process of the suite

    app = cdk.App(outdir=str(tmp_path))
    nag.add_checks(app)
    sqs.Queue(cdk.Stack(app, "Bare"), "Queue")
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    findings = (tmp_path / "validation-report.json").read_text()
    assert "AwsSolutions-SQS3" in findings and "AwsSolutions-SQS4" in findings


@pytest.mark.full
def test_what_will_not_do_what_is_wanted_is_said(
    synthesise: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind whose package no layer carries, and alarms that reach nobody: possible, but said at every synthesis."""
    monkeypatch.setattr(
        "infra.stacks_of.kinds_of_packages", lambda: {"kafka": "noetl-kafka", "duckdb": "noetl-duck"}
    )
    folder = synthesise("dev", registry_with(kind("kafka")))
    said = (folder / "validation-report.json").read_text()
    assert "noetl:alarms" in said
    assert "write noetl-kafka into layers/deps/kafka.in" in said and "noetl-duck" not in said


def test_a_missing_handler_is_named(
    synthesise: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("infra.constructs.python_function.FUNCTIONS", tmp_path)
    with pytest.raises(ConfigError, match=r"functions/migrate/handler\.py does not exist"):
        synthesise("dev")


@pytest.mark.full
def test_local_asks_nobody_and_needs_no_database_of_aws(synthesise: Callable[..., Path]) -> None:
    """With a database of its own there is neither a network nor RDS, and the functions are built for this machine's Python."""
    url = "postgresql://me@127.0.0.1/noetl"
    templates = Templates(synthesise("local", database_url=url), "Noetl-local-")
    assert "Network" not in templates.stacks
    assert not [
        place for place in templates.all() if place.resource["Type"].startswith(("AWS::RDS", "AWS::EC2"))
    ]
    function = templates.function("noetl-local-engine")
    variables = templates.variables(function)
    assert variables["NOETL_DATABASE_URL"] == url and variables["NOETL_AUTH"] == "none"
    assert "NOETL_DATABASE_SECRET_ARN" not in variables
    assert function.properties["Runtime"] == f"python3.{sys.version_info.minor}"
    routes = list(templates.all("AWS::ApiGatewayV2::Route"))
    assert {route.properties["AuthorizationType"] for route in routes} == {"NONE"}
    alarms = list(templates.all("AWS::CloudWatch::Alarm"))
    assert alarms and not [one for one in alarms if "Metrics" in one.properties], (
        "emulators know no arithmetic"
    )


PROBLEMS = pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({}, "there is no environment ''; choose one"),
        ({"env": "dev", "auth": "none"}, "auth none would open the API to the internet"),
        ({"env": "dev", "playbooks": "no/such/folder"}, "'no/such/folder' is not a folder"),
    ],
)


@PROBLEMS
def test_what_cannot_be_synthesised_is_one_line_and_a_code(
    context: dict[str, str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, whose Node has been started."""
    import aws_cdk as cdk

    from infra import app

    made = cdk.App(outdir=str(tmp_path), context=FLAGS | context)
    monkeypatch.setattr(app, "cdk", SimpleNamespace(App=lambda: made))
    assert app.main() == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("noetl: ")]
    assert len(lines) == 1 and problem in lines[0]


@pytest.mark.full
@PROBLEMS
def test_the_app_ends_with_one_clear_line(context: dict[str, str], problem: str, tmp_path: Path) -> None:
    environment = {
        "CDK_CONTEXT_JSON": json.dumps(FLAGS | context),
        "CDK_OUTDIR": str(tmp_path),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-m", "infra.app"], capture_output=True, text=True, env=environment, cwd=ROOT
    )
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if line.startswith("noetl: ")]
    assert len(lines) == 1 and problem in lines[0]
    assert "Traceback" not in done.stderr
