"""Workers that are started for a piece of work."""

from __future__ import annotations

import sys
import time

import pytest
from botocore.exceptions import ClientError

from noetl.adapters.aws.ecs import FargateTasks
from noetl.adapters.embedded.containers import ProcessContainers
from noetl.domain.errors import ConflictError, InfrastructureError
from tests.contract.clouds import mocked_aws

READY = "import pathlib, os; pathlib.Path(os.environ['READY']).touch(); "
OBEDIENT = (
    f"import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); {READY}time.sleep(60)"
)
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}time.sleep(60)"
UNKNOWN = "arn:aws:ecs:eu-central-1:123456789012:task/c/00000000"


@pytest.fixture
def fargate(monkeypatch):
    from moto.moto_api import state_manager

    with mocked_aws(monkeypatch) as make_client:
        # Left alone, moto's tasks end by themselves when they are looked at.
        state_manager.set_transition("ecs::task", {"progression": "manual", "times": 1_000_000})
        ec2 = make_client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        # Without names moto fails to attach a task's network interface.
        ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
        client = make_client("ecs")
        client.create_cluster(clusterName="c")
        client.register_task_definition(
            family="worker",
            requiresCompatibilities=["FARGATE"],
            networkMode="awsvpc",
            cpu="256",
            memory="512",
            containerDefinitions=[{"name": "worker", "image": "i", "memory": 512}],
        )
        yield FargateTasks("c", "worker", [subnet], ["sg-1"], client)
        state_manager.unset_transition("ecs::task")


@pytest.fixture(params=["process", "fargate"])
def containers(request, tmp_path):
    if request.param == "fargate":
        yield request.getfixturevalue("fargate")
        return
    made = ProcessContainers([sys.executable, "-c", OBEDIENT], grace=5)
    yield made
    made.close()


def until(condition):
    for _ in range(500):
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def in_state(containers, name, state):
    def look():
        found = containers.describe(name)
        return found if found is not None and found.state == state else None

    return until(look)


def test_a_worker_is_started_described_and_stopped(containers, tmp_path):
    name = containers.start("token-1", {"READY": str(tmp_path / "ready")})
    assert in_state(containers, name, "running").exit_code is None
    containers.stop(name, "not wanted")
    containers.stop(name, "not wanted")
    found = in_state(containers, name, "stopped")
    assert found.container_id == name and "not wanted" in found.reason


def test_other_tokens_are_other_workers_and_strangers_are_unknown(containers, tmp_path):
    environment = {"READY": str(tmp_path / "ready")}
    assert containers.start("a", environment) != containers.start("b", environment)
    assert containers.describe(UNKNOWN) is None
    if isinstance(containers, ProcessContainers):
        # moto breaks down where ECS answers InvalidParameterException: see below.
        containers.stop(UNKNOWN, "nobody")


def test_a_process_is_started_once_per_token_with_its_variables(tmp_path):
    containers = ProcessContainers(
        [sys.executable, "-c", "import os; open(os.environ['OUT'], 'a').write('x'); raise SystemExit(7)"]
    )
    environment = {"OUT": str(tmp_path / "out")}
    name = containers.start("t", environment)
    assert in_state(containers, name, "stopped").exit_code == 7
    assert containers.start("t", environment) == name
    with pytest.raises(ConflictError):
        containers.start("t", {"OUT": "elsewhere"})
    assert (tmp_path / "out").read_text() == "x"
    with pytest.raises(InfrastructureError):
        ProcessContainers([str(tmp_path / "missing")]).start("t", {})


@pytest.mark.parametrize(("code", "exit_code"), [(OBEDIENT, 3), (STUBBORN, 137)])
def test_a_process_is_asked_before_it_is_ended(tmp_path, code, exit_code):
    containers = ProcessContainers([sys.executable, "-c", code], grace=0.3)
    name = containers.start("t", {"READY": str(tmp_path / "ready")})
    until((tmp_path / "ready").exists)
    containers.stop(name, "enough")
    assert in_state(containers, name, "stopped").exit_code == exit_code
    containers.close()


class Ecs:
    """Answers run_task, and keeps what was asked: moto's neither knows client tokens nor refuses."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def run_task(self, **wanted):
        self.asked.append(wanted)
        if isinstance(self.answer, str):
            error = {"Code": self.answer, "Message": "The referenced task was not found."}
            raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "RunTask")
        return self.answer

    stop_task = describe_tasks = run_task


def test_what_ecs_is_asked():
    client = Ecs({"tasks": [{"taskArn": "arn"}]})
    tasks = FargateTasks("c", "worker:3", ["s"], ["g"], client)
    assert [tasks.start("token ä", {"A": "1"}), tasks.start("token ä", {"A": "1"})] == ["arn", "arn"]
    first, second = client.asked
    assert first == second and len(first["clientToken"]) == 64
    assert (first["launchType"], first["count"], first["taskDefinition"]) == ("FARGATE", 1, "worker:3")
    assert first["networkConfiguration"]["awsvpcConfiguration"] == {
        "subnets": ["s"],
        "securityGroups": ["g"],
        "assignPublicIp": "DISABLED",
    }
    assert first["overrides"]["containerOverrides"] == [
        {"name": "worker", "environment": [{"name": "A", "value": "1"}]}
    ]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("ConflictException", ConflictError, "other variables"),
        ("AccessDeniedException", InfrastructureError, "iam:PassRole"),
        ({"tasks": [], "failures": [{"reason": "RESOURCE:CPU"}]}, InfrastructureError, "RESOURCE:CPU"),
    ],
)
def test_what_ecs_refuses(answer, error, words):
    with pytest.raises(error, match=words):
        FargateTasks("c", "w", ["s"], ["g"], Ecs(answer)).start("t", {})


def test_ecs_does_not_know_a_task_any_more():
    tasks = FargateTasks("c", "w", ["s"], ["g"], Ecs("InvalidParameterException"))
    tasks.stop(UNKNOWN, "nobody")
    assert tasks.describe(UNKNOWN) is None
    for code in ("ClusterNotFoundException", "AccessDeniedException"):
        tasks = FargateTasks("c", "w", ["s"], ["g"], Ecs(code))
        for call in (
            lambda tasks=tasks: tasks.stop(UNKNOWN, "x"),
            lambda tasks=tasks: tasks.describe(UNKNOWN),
        ):
            with pytest.raises(InfrastructureError):
                call()
