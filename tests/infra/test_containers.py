"""Containers of playbooks, in an environment that has them: who may run them, and as what; and what their end wakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.config import ContainersConfig
from noetl.runtime.cloud_jobs import cloud_jobs
from noetl.runtime.cloud_settings import CloudSettings
from tests.infra.templates import Templates


@pytest.fixture(scope="module")
def found(synthesise: Callable[..., Path]) -> Templates:
    """cdk-nag has looked at it."""
    changes = {"containers": ContainersConfig()}
    folder = synthesise("dev", changes=changes, alarm_email="ops@example.com")
    report = json.loads((folder / "validation-report.json").read_text())
    assert all(not one["violations"] for one in report["pluginReports"])
    return Templates(folder, "Noetl-dev-")


def test_their_workers_alone_may_run_them_as_two_roles_and_nothing_else(found: Templates) -> None:
    allowed = {
        place.key: [
            one for one in place.properties["PolicyDocument"]["Statement"] if "RunTask" in json.dumps(one)
        ]
        for place in found.all("AWS::IAM::Policy")
    }
    workers = {key: one for key, one in allowed.items() if one}
    assert {key.split(".")[1][:5] for key in workers} == {"conta", "mixed"}
    for (statement,) in workers.values():
        assert ":task-definition/noetl-dev-job-*" in json.dumps(statement["Resource"])
    passes = [
        one
        for place in found.all("AWS::IAM::Policy")
        for one in place.properties["PolicyDocument"]["Statement"]
        if one["Action"] == "iam:PassRole" and "ecs-tasks" in json.dumps(one)
    ]
    assert len(passes) == 2 and all(len(one["Resource"]) == 2 for one in passes)
    role = found.one("AWS::IAM::Role", RoleName="noetl-dev-jobs")
    assert "Policies" not in role.properties and "ManagedPolicyArns" not in role.properties
    assert not [
        one for one in found.all("AWS::IAM::Policy") if role.id in json.dumps(one.properties["Roles"])
    ]


def test_functions_find_them_as_they_are_made(found: Templates) -> None:
    with_containers = [
        place
        for place in found.all("AWS::Lambda::Function")
        if "NOETL_CONTAINERS" in place.properties.get("Environment", {}).get("Variables", {})
    ]
    names = {place.properties["FunctionName"] for place in with_containers}
    assert names == {"noetl-dev-worker-container", "noetl-dev-worker-mixed"}
    variable = with_containers[0].properties["Environment"]["Variables"]["NOETL_CONTAINERS"]
    text = "".join(part if isinstance(part, str) else "made" for part in variable["Fn::Join"][1])
    settings = CloudSettings("dev", "bucket", containers=json.loads(text))
    ground = cloud_jobs(settings)._ground  # type: ignore[attr-defined]
    assert (ground.cluster, ground.family, ground.public) == ("noetl-dev-jobs", "noetl-dev-job-", True)
    assert (
        ground.subnets and ground.execution_role and ground.secrets.endswith(":secret:noetl/dev/credentials/")
    )


def test_the_end_of_one_wakes_the_task_that_waits_for_it(found: Templates) -> None:
    (rule,) = [
        place
        for place in found.all("AWS::Events::Rule")
        if place.properties.get("EventPattern", {}).get("source") == ["aws.ecs"]
    ]
    detail = rule.properties["EventPattern"]["detail"]
    assert detail["lastStatus"] == ["STOPPED"] and "cluster/noetl-dev-jobs" in json.dumps(
        detail["clusterArn"]
    )
    (target,) = rule.properties["Targets"]
    assert "Scheduler" in json.dumps(target["Arn"]) and target["DeadLetterConfig"]


def test_an_environment_without_them_has_nothing_of_it(dev: Path) -> None:
    templates = Templates(dev, "Noetl-dev-")
    assert not list(templates.all("AWS::ECS::Cluster"))
    assert "NOETL_CONTAINERS" not in json.dumps(templates.stacks)
