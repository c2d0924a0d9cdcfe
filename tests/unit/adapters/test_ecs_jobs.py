"""Containers on Fargate, as far as ECS can be played here: what is asked of it, and what its answers mean."""

from __future__ import annotations

import time
from typing import Any

import pytest

from noetl.adapters.aws.ecs_jobs import EcsJobs, JobSettings, job_of, size_of
from noetl.domain.errors import TaskError
from noetl.domain.events import WorkAdvanced
from noetl.domain.workers.container_jobs import Job, JobOrder
from noetl.services.automations.ingest_task_stopped import take_job_end
from tests.contract.clouds import mocked_aws
from tests.parts import over

ORDER = JobOrder(
    "example/image:1",
    "7/1/load/1",
    ("load", "--all"),
    {"DAY": "1"},
    {"DB": "warehouse"},
    0.5,
    900,
    60.0,
    "7/3.r0.i5",
)


@pytest.fixture
def ground(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        ec2, ecs, logs = make_client("ec2"), make_client("ecs"), make_client("logs")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        ecs.create_cluster(clusterName="noetl-jobs")
        logs.create_log_group(logGroupName="jobs")
        role = "arn:aws:iam::123456789012:role/"
        secrets = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:noetl/dev/"
        made = JobSettings(
            "noetl-jobs",
            "noetl-job-",
            (subnet,),
            ("sg-1",),
            f"{role}start",
            f"{role}run",
            "jobs",
            "eu-central-1",
            secrets,
        )
        yield made, ecs, logs


def test_an_order_is_a_task_of_a_definition_that_is_made_once(ground):
    made, ecs, logs = ground
    now = [1000.0]
    jobs = EcsJobs(made, lambda: ecs, lambda: logs, lambda: now[0])
    name = jobs.start(ORDER)
    assert jobs.look(name).state in ("running", "preparing", "ended")
    (family,) = ecs.list_task_definitions()["taskDefinitionArns"]
    definition = ecs.describe_task_definition(taskDefinition=family)["taskDefinition"]
    assert (definition["cpu"], definition["memory"]) == ("512", "1024")
    (container,) = definition["containerDefinitions"]
    assert container["secrets"] == [{"name": "DB", "valueFrom": f"{made.secrets}warehouse"}]
    (task,) = ecs.describe_tasks(cluster="noetl-jobs", tasks=[name])["tasks"]
    (override,) = task["overrides"]["containerOverrides"]
    variables = {one["name"]: one["value"] for one in override["environment"]}
    assert override["command"] == ["load", "--all"]
    assert variables == {"DAY": "1", "NOETL_UNTIL": "1060", "NOETL_WAKE": "7/3.r0.i5"}
    jobs.start(JobOrder(**{field: getattr(ORDER, field) for field in ORDER.__slots__} | {"token": "another"}))
    assert len(ecs.list_task_definitions()["taskDefinitionArns"]) == 1
    jobs.stop(name, "enough")
    assert jobs.look(name).state == "ended"
    assert jobs.look("arn:aws:ecs:eu-central-1:123456789012:task/noetl-jobs/0000") is None
    assert jobs.logs(name, 10) == ""
    at = int(time.time() * 1000) - 1000
    stream = f"job/job/{name.rpartition('/')[2]}"
    logs.create_log_stream(logGroupName="jobs", logStreamName=stream)
    logs.put_log_events(
        logGroupName="jobs",
        logStreamName=stream,
        logEvents=[{"timestamp": at, "message": "a"}, {"timestamp": at + 1, "message": "b"}],
    )
    assert jobs.logs(name, 10) == "a\nb\n"


@over(
    ("task", "found"),
    [
        ({"lastStatus": "PENDING"}, Job("running")),
        (
            {"containers": [{"name": "job", "exitCode": 0}], "stopCode": "EssentialContainerExited"},
            Job("ended", 0),
        ),
        (
            {
                "containers": [
                    {"name": "job", "exitCode": 137, "reason": "OutOfMemoryError: Container killed"}
                ]
            },
            Job("ended", 137, "out_of_memory", "OutOfMemoryError: Container killed"),
        ),
        (
            {"stopCode": "TaskFailedToStart", "stoppedReason": "CannotPullContainerError: no such image"},
            Job("ended", None, "image_pull_failed", "CannotPullContainerError: no such image"),
        ),
        (
            {"stopCode": "TaskFailedToStart", "stoppedReason": "ResourceInitializationError: secrets"},
            Job("ended", None, "start_refused", "ResourceInitializationError: secrets"),
        ),
        (
            {
                "stopCode": "UserInitiated",
                "stoppedReason": "by hand",
                "containers": [{"name": "job", "exitCode": 143}],
            },
            Job("ended", 143, "stopped", "by hand"),
        ),
        ({"stopCode": "SpotInterruption", "stoppedReason": "gone"}, Job("ended", None, "host_lost", "gone")),
        (
            {"containers": [{"name": "job", "reason": "CannotStartContainerError: exec"}]},
            Job("ended", None, "start_failed", "CannotStartContainerError: exec"),
        ),
    ],
)
def test_what_ecs_says_of_a_task(task: dict[str, Any], found: Job):
    assert job_of({"lastStatus": "STOPPED", **task}) == found


def test_sizes_are_those_of_fargate():
    assert [size_of(0.1, 64), size_of(0.25, 3000), size_of(3, 100), size_of(16, 122_880)] == [
        (256, 512),
        (512, 3072),
        (4096, 8192),
        (16_384, 122_880),
    ]
    with pytest.raises(TaskError, match="no size"):
        size_of(16, 200_000)


def _event(**detail: Any) -> dict[str, Any]:
    variables = [{"name": "DAY", "value": "1"}, {"name": "NOETL_WAKE", "value": "7/3.r0.i5"}]
    overrides = {"containerOverrides": [{"name": "job", "environment": variables}]}
    return {
        "source": "aws.ecs",
        "detail": {"lastStatus": "STOPPED", "taskArn": "arn:t", "overrides": overrides, **detail},
    }


def test_the_end_of_a_task_wakes_whom_its_variables_name():
    assert take_job_end(_event()) == WorkAdvanced(7, "work:arn:t", "", "3.r0.i5")
    for other in (
        _event(lastStatus="RUNNING"),
        _event(overrides={}),
        _event(
            overrides={"containerOverrides": [{"environment": [{"name": "NOETL_WAKE", "value": "x/1"}]}, 7]}
        ),
        {"source": "aws.ec2"},
        {"source": "aws.ecs", "detail": "?"},
    ):
        assert take_job_end(other) is None
