"""What appears in a deployment by being added: a kind by its registration, a trigger by a playbook that has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.config import ConfigError
from infra.playbooks import playbook_files, staged
from infra.triggers import read_programs, triggers_of
from noetl.kinds.registry import default_registry
from noetl.runtime.aws.jobs import cloud_jobs
from noetl.runtime.aws.settings import CloudSettings
from tests.infra.extended import PLAYBOOKS, SHARED
from tests.infra.templates import Templates


@pytest.fixture(scope="module")
def templates(extended: Templates) -> Templates:
    return extended


def test_a_cluster_that_rds_named_keeps_its_name(templates: Templates) -> None:
    """A name in the template would replace the cluster of an older deployment; the log group that RDS made would be made twice."""
    assert "DBClusterIdentifier" not in templates.one("AWS::RDS::DBCluster").properties
    groups = [place.properties["LogGroupName"] for place in templates.all("AWS::Logs::LogGroup")]
    assert groups and not [name for name in groups if "/aws/rds/" in str(name)]


def test_a_kind_brings_its_queue_its_function_and_its_alarms(templates: Templates) -> None:
    queue = templates.one("AWS::SQS::Queue", QueueName="noetl-dev-commands-kafka")
    function = templates.function("noetl-dev-worker-kafka")
    source = templates.one("AWS::Lambda::EventSourceMapping", FunctionName={"Ref": function.id})
    assert templates.text(source.stack, source.properties["EventSourceArn"]) == f"<{queue.key}.Arn>"
    alarms = {place.properties.get("AlarmName") for place in templates.all("AWS::CloudWatch::Alarm")}
    wanted = ("commands-kafka-age", "worker-kafka-errors", "worker-kafka-throttles")
    assert alarms >= {f"noetl-dev-{name}" for name in wanted}
    engine = templates.variables(templates.function("noetl-dev-engine"))
    assert json.loads(engine["NOETL_QUEUES"])["kafka"] == "kafka"
    assert json.loads(engine["NOETL_WORKERS"])["kafka"] == 10


def test_a_long_running_kind_is_a_service_that_sleeps(templates: Templates) -> None:
    queue = templates.one("AWS::SQS::Queue", QueueName="noetl-dev-commands-spark")
    service = templates.one("AWS::ECS::Service", ServiceName="noetl-dev-worker-spark").properties
    assert service["DesiredCount"] == 0
    target = next(templates.all("AWS::ApplicationAutoScaling::ScalableTarget")).properties
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 10)
    policies = [
        place.properties["StepScalingPolicyConfiguration"]
        for place in templates.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    ]
    assert {policy["AdjustmentType"] for policy in policies} == {"ExactCapacity"}
    sizes = {step["ScalingAdjustment"] for policy in policies for step in policy["StepAdjustments"]}
    assert sizes == {0, 1, 2, 5, 10}
    task = next(templates.all("AWS::ECS::TaskDefinition"))
    role = templates.text(task.stack, task.properties["TaskRoleArn"]).strip("<>").removesuffix(".Arn")
    assert ("sqs:ReceiveMessage", f"<{queue.key}.Arn>") in templates.allowed(role)
    container = task.properties["ContainerDefinitions"][0]
    assert "Images" in json.dumps(container["Image"])
    assert {"Name": "NOETL_WORKER", "Value": "spark"} in container["Environment"]
    assert not [
        place
        for place in templates.all("AWS::Lambda::Function")
        if "worker-spark" in str(place.properties.get("FunctionName"))
    ]


def test_a_kind_may_do_what_the_environment_says_and_no_other_may(templates: Templates) -> None:
    """Its own worker, and the one that runs pipelines of several kinds."""
    granted = set()
    for place in templates.all("AWS::Lambda::Function"):
        name = str(place.properties.get("FunctionName"))
        if name.startswith("noetl-dev-"):
            role = templates.text(place.stack, place.properties["Role"]).strip("<>").removesuffix(".Arn")
            if ("s3:GetObject", "arn:aws:s3:::lake/*") in templates.allowed(role):
                granted.add(name)
    assert granted == {"noetl-dev-worker-duckdb", "noetl-dev-worker-mixed"}


def test_events_start_playbooks(templates: Templates) -> None:
    scheduler = templates.function("noetl-dev-scheduler")
    rules = {
        place.properties["EventBusName"]: place
        for place in templates.all("AWS::Events::Rule")
        if place.stack == "Schedules" and "EventBusName" in place.properties
    }
    assert rules["shop"].properties["EventPattern"] == {"source": ["shop.orders"], "detail-type": ["paid"]}
    assert rules["default"].properties["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": ["incoming"]}, "object": {"key": [{"wildcard": "orders/*.csv"}]}},
    }
    dlq = templates.one("AWS::SQS::Queue", QueueName="noetl-dev-starts-dlq")
    for rule in rules.values():
        (target,) = rule.properties["Targets"]
        assert templates.text(rule.stack, target["Arn"]) == f"<{scheduler.key}.Arn>"
        assert templates.text(rule.stack, target["DeadLetterConfig"]["Arn"]) == f"<{dlq.key}.Arn>"
        sent = json.loads(target["InputTransformer"]["InputTemplate"].replace("<event>", '"EVENT"'))
        assert sent["path"] == "tests/intake" and sent["event"] == "EVENT"
        assert sent["trigger"] == ("paid" if rule.properties["EventBusName"] == "shop" else "uploads")
        permission = templates.one(
            "AWS::Lambda::Permission", SourceArn={"Fn::GetAtt": [rule.id, "Arn"]}
        ).properties
        assert permission["Principal"] == "events.amazonaws.com"


def test_triggers_are_made_under_one_prefix_and_invoke_one_function(templates: Templates) -> None:
    rules = "arn:<AWS::Partition>:events:<AWS::Region>:<AWS::AccountId>:rule/noetl-dev-t-*"
    api = templates.function("noetl-dev-api")
    given = list(templates.statements(templates.role_of(api)))
    allowed = templates.allowed(templates.role_of(api))
    actions = {action for action, resource in allowed if action.startswith("events:")}
    assert actions == {f"events:{name}" for name in ("PutRule", "PutTargets", "RemoveTargets", "DeleteRule")}
    assert {resource for action, resource in allowed if action.startswith("events:")} == {rules}
    (aim,) = [one for _, one in given if one["Action"] == "events:PutTargets"]
    scheduler = "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:noetl-dev-scheduler"
    assert templates.text(api.stack, aim["Condition"]["ArnEquals"]["events:TargetArn"]) == scheduler
    permission = [
        place
        for place in templates.all("AWS::Lambda::Permission")
        if templates.text(place.stack, place.properties.get("SourceArn", "")) == rules
    ]
    assert [one.properties["Principal"] for one in permission] == ["events.amazonaws.com"]
    assert templates.variables(api)["NOETL_TRIGGER_RULES"] == "noetl-dev-t-"
    assert templates.variables(api)["NOETL_STARTS_DLQ_ARN"].endswith(":noetl-dev-starts-dlq")
    assert templates.variables(api)["NOETL_RETENTION_DAYS"] == "30"


def test_a_queue_that_two_playbooks_name_is_polled_once(templates: Templates) -> None:
    scheduler = templates.function("noetl-dev-scheduler")
    source = templates.one("AWS::Lambda::EventSourceMapping", FunctionName={"Ref": scheduler.id})
    arn = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:letters"
    assert templates.text(source.stack, source.properties["EventSourceArn"]) == arn
    assert source.properties["BatchSize"] == 3
    queues = json.loads(templates.variables(scheduler)["NOETL_TRIGGER_QUEUES"])
    assert queues == {"letters": ["tests/archive", "tests/intake"]}
    assert ("sqs:DeleteMessage", arn) in templates.allowed(templates.role_of(scheduler))


def test_queues_that_the_environment_names_are_read_by_one_function_and_mapped_by_one(
    templates: Templates, dev: Path
) -> None:
    own = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:"
    scheduler, api = templates.function("noetl-dev-scheduler"), templates.function("noetl-dev-api")
    may_read = {
        resource
        for action, resource in templates.allowed(templates.role_of(scheduler))
        if action == "sqs:ReceiveMessage"
    }
    assert may_read == {f"{own}noetl-dev-in-*", f"{own}orders", f"{SHARED}:in-*", f"{own}letters"}
    allowed = templates.allowed(templates.role_of(api))
    emptied = {
        templates.resource(resource).properties["QueueName"]
        for action, resource in allowed
        if action == "sqs:DeleteMessage"
    }
    assert emptied == {"noetl-dev-events-dlq.fifo", "noetl-dev-timers-dlq"}, "what operators remove"
    looked = {
        templates.resource(resource).properties["QueueName"]
        for action, resource in allowed
        if action == "sqs:ReceiveMessage"
    }
    assert looked == {"noetl-dev-events-dlq.fifo", "noetl-dev-timers-dlq"}, (
        "for analyze, which leaves them there"
    )
    mappings = "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:event-source-mapping:*"
    assert {pair for pair in allowed if pair[0].startswith("lambda:")} == {
        ("lambda:CreateEventSourceMapping", "*"),
        ("lambda:UpdateEventSourceMapping", mappings),
        ("lambda:DeleteEventSourceMapping", mappings),
        ("lambda:ListEventSourceMappings", "*"),
    }
    scheduler_arn = "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:noetl-dev-scheduler"
    for stack, statement in templates.statements(templates.role_of(api)):
        if "EventSourceMapping" in str(statement["Action"]) and "List" not in str(statement["Action"]):
            function = statement["Condition"]["ArnEquals"]["lambda:FunctionArn"]
            assert templates.text(stack, function) == scheduler_arn
    variables = templates.variables(api)
    assert variables["NOETL_READABLE_QUEUES"] == f"noetl-dev-in-*,orders,{SHARED}:in-*"
    assert json.loads(variables["NOETL_TRIGGER_QUEUES"]) == {"letters": ["tests/archive", "tests/intake"]}
    services = [str(place.properties["ServiceName"]) for place in templates.all("AWS::EC2::VPCEndpoint")]
    assert [one for one in services if ".lambda" in one], "the API reaches Lambda from inside the network"
    private = [
        place.properties["PrivateDnsEnabled"]
        for place in templates.all("AWS::EC2::VPCEndpoint")
        if place.properties["VpcEndpointType"] == "Interface"
    ]
    assert len(private) == 6 and all(private), "functions would ask addresses to which there is no way"
    without = Templates(dev, "Noetl-dev-")
    api = without.function("noetl-dev-api")
    assert "NOETL_READABLE_QUEUES" not in without.variables(api)
    assert not [one for one, _ in without.allowed(without.role_of(api)) if one.startswith("lambda:")]


def test_playbooks_are_registered_last(templates: Templates) -> None:
    registered = templates.one("Custom::NoetlPlaybooks")
    function = templates.function("noetl-dev-scheduler")
    group = templates.one("AWS::Scheduler::ScheduleGroup")
    assert {function.id, group.id} <= set(registered.resource["DependsOn"])
    key = registered.properties["Key"]
    migrate = templates.allowed(templates.role_of(templates.function("noetl-dev-migrate")))
    assert [resource for action, resource in migrate if action == "s3:GetObject" and key in resource]


def test_staging_takes_playbooks_and_nothing_else() -> None:
    folder = staged(("playbooks/examples",))
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert "playbooks/examples/weather_loop/weather_loop.yaml" in found
    assert all(name.endswith((".yaml", ".yml")) for name in found)
    assert staged(("playbooks/examples",)) == folder


@pytest.mark.parametrize("folder", ["playbooks/no-such-folder", "../..", "/etc"])
def test_folders_elsewhere_are_refused(folder: str) -> None:
    with pytest.raises(ConfigError, match="is not a folder below"):
        list(playbook_files((folder,)))


def test_a_playbook_that_does_not_compile_stops_the_synthesis(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow: []\n")
    with pytest.raises(ConfigError, match=r"wrong\.yaml cannot be deployed"):
        read_programs([wrong], default_registry())


def test_a_playbook_of_an_older_dialect_is_deployed_as_the_api_registers_it(tmp_path: Path) -> None:
    older = tmp_path / "older.yaml"
    older.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkflow:\n"
        "  - step: start\n    tool: {kind: noop, spec: {retry: {attempts: 3}}}\n"
    )
    assert [program.path for program in read_programs([older], default_registry())] == ["x"]


def test_two_playbooks_of_one_path_are_refused() -> None:
    programs = read_programs(list(playbook_files((PLAYBOOKS,)))[-1:], default_registry())
    with pytest.raises(ConfigError, match="have the path 'tests/intake'"):
        triggers_of([*programs, *programs])


# --- containers of playbooks ---


def test_their_workers_alone_may_run_them_as_two_roles_and_nothing_else(templates: Templates) -> None:
    allowed = {
        place.key: [
            one for one in place.properties["PolicyDocument"]["Statement"] if "RunTask" in json.dumps(one)
        ]
        for place in templates.all("AWS::IAM::Policy")
    }
    workers = {key: one for key, one in allowed.items() if one}
    assert {key.split(".")[1][:5] for key in workers} == {"conta", "mixed"}
    for (statement,) in workers.values():
        assert ":task-definition/noetl-dev-job-*" in json.dumps(statement["Resource"])
    passes = [
        one
        for place in templates.all("AWS::IAM::Policy")
        for one in place.properties["PolicyDocument"]["Statement"]
        if one["Action"] == "iam:PassRole" and "ecs-tasks" in json.dumps(one)
    ]
    assert len(passes) == 2 and all(len(one["Resource"]) == 2 for one in passes)
    role = templates.one("AWS::IAM::Role", RoleName="noetl-dev-jobs")
    assert "Policies" not in role.properties and "ManagedPolicyArns" not in role.properties
    assert not [
        one for one in templates.all("AWS::IAM::Policy") if role.id in json.dumps(one.properties["Roles"])
    ]


def test_functions_find_them_as_they_are_made(templates: Templates) -> None:
    with_containers = [
        place
        for place in templates.all("AWS::Lambda::Function")
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


def test_the_end_of_one_wakes_the_task_that_waits_for_it(templates: Templates) -> None:
    (rule,) = [
        place
        for place in templates.all("AWS::Events::Rule")
        if place.properties.get("EventPattern", {}).get("source") == ["aws.ecs"]
    ]
    detail = rule.properties["EventPattern"]["detail"]
    assert detail["lastStatus"] == ["STOPPED"] and "cluster/noetl-dev-jobs" in json.dumps(
        detail["clusterArn"]
    )
    (target,) = rule.properties["Targets"]
    assert "Scheduler" in json.dumps(target["Arn"]) and target["DeadLetterConfig"]


def test_an_environment_without_them_has_nothing_of_it(dev: Path) -> None:
    without = Templates(dev, "Noetl-dev-")
    assert not list(without.all("AWS::ECS::Cluster"))
    assert "NOETL_CONTAINERS" not in json.dumps(without.stacks)
