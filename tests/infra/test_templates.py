"""What the templates promise: encryption, least privilege, nothing without an alarm, nothing open. Read from dev and prod as synthesised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from infra.environments import load_environment
from noetl.runtime.aws.settings import CloudSettings
from tests.infra.templates import Place, Templates, as_list

both = pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)

QUEUE, FUNCTION, MAPPING = "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"
PYTHON_VARIABLES = {
    "NOETL_ENV",
    "NOETL_RESULTS_BUCKET",
    "NOETL_EVENTS_QUEUE_URL",
    "NOETL_QUEUE_PREFIX",
    "NOETL_HTTP_ALLOW",
    "NOETL_DEPLOYMENT",
    "NOETL_WORKER",
    "NOETL_DECIDE_FUNCTION",
    "NOETL_DIRECT_STEPS",
    "NOETL_PUBLIC_URL",
    "NOETL_STORAGE_KV_TABLE",
    "NOETL_STORAGE_KV_AUTO_BYTES",
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_METRICS_NAMESPACE",
    "POWERTOOLS_LOG_LEVEL",
}
KEY_ACTIONS = ("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo", "GenerateDataKey", "DescribeKey")
"""Of the key of queues, results and the table of small results."""


@pytest.fixture
def name(assembly: Path) -> str:
    """The environment's."""
    return assembly.name.rstrip("0123456789")


@pytest.fixture
def templates(assembly: Path, name: str) -> Templates:
    return Templates(assembly, f"Noetl-{name}-")


def results_bucket(templates: Templates) -> Place:
    """The one that tells of its objects."""
    (found,) = (
        place for place in templates.all("AWS::S3::Bucket") if "NotificationConfiguration" in place.properties
    )
    return found


def ours(templates: Templates) -> Iterator[Place]:
    """Functions of this repository (CDK brings some of its own)."""
    return (place for place in templates.all(FUNCTION) if "FunctionName" in place.properties)


def own_queues(templates: Templates) -> tuple[list[Place], list[Place]]:
    """(queues, dead-letter queues)."""
    places = list(templates.all(QUEUE))
    dead = [place for place in places if "-dlq" in place.properties["QueueName"]]
    return [place for place in places if place not in dead], dead


@both
def test_every_queue_gives_up_into_a_dlq_that_rings(templates: Templates) -> None:
    queues, dead = own_queues(templates)
    targets = {
        templates.text(place.stack, place.properties["RedrivePolicy"]["deadLetterTargetArn"])
        for place in queues
    }
    assert len(queues) >= 7
    targets |= {
        templates.text(place.stack, place.properties["DeadLetterConfig"]["TargetArn"])
        for place in ours(templates)
        if "DeadLetterConfig" in place.properties
    }
    assert targets == {f"<{place.key}.Arn>" for place in dead}
    watched = {
        templates.text(alarm.stack, dimension["Value"])
        for alarm in templates.all("AWS::CloudWatch::Alarm")
        if alarm.properties.get("MetricName") == "ApproximateNumberOfMessagesVisible"
        and alarm.properties["Threshold"] == 0
        and alarm.properties["AlarmActions"]
        for dimension in alarm.properties["Dimensions"]
    }
    assert watched == {f"<{place.key}.QueueName>" for place in dead}


@both
def test_the_oldest_message_of_every_queue_and_every_function_is_watched(templates: Templates) -> None:
    def watched(metric: str) -> set[str]:
        return {
            templates.text(alarm.stack, alarm.properties["Dimensions"][0]["Value"])
            for alarm in templates.all("AWS::CloudWatch::Alarm")
            if alarm.properties.get("MetricName") == metric
        }

    queues, _ = own_queues(templates)
    assert len(watched("RefusedEvents")) == 2 and watched("Heartbeats")
    assert watched("DatabaseConnections") and watched("5xx")
    aged = {f"<{place.key}.QueueName>" for place in queues}
    assert watched("ApproximateAgeOfOldestMessage") == (
        aged if templates.prefix == "Noetl-prod-" else {one for one in aged if "Events" in one}
    )
    if templates.prefix == "Noetl-dev-":
        assert len(watched("Errors")) == 1 and not watched("Throttles"), "few alarms: dev stays cheap"
        return
    functions = {
        f"<{place.key}>" for place in ours(templates) if "migrate" not in place.properties["FunctionName"]
    }
    assert watched("Throttles") == watched("RecursiveInvocationsDropped") == functions
    assert watched("Errors") >= functions
    assert watched("Duration") == {one for one in functions if "Worker" not in one}
    assert watched("ACUUtilization") and watched("CPUUtilization")


@both
def test_everything_at_rest_is_sealed_with_our_keys(templates: Templates) -> None:
    def sealed(kind: str, name: str) -> None:
        for place in templates.all(kind):
            assert "Key" in json.dumps(place.properties[name]), str(place)

    sealed(QUEUE, "KmsMasterKeyId")
    sealed("AWS::Logs::LogGroup", "KmsKeyId")
    sealed("AWS::SecretsManager::Secret", "KmsKeyId")
    sealed("AWS::RDS::DBCluster", "KmsKeyId")
    sealed("AWS::SNS::Topic", "KmsMasterKeyId")
    assert all(place.properties["StorageEncrypted"] for place in templates.all("AWS::RDS::DBCluster"))
    assert all(place.properties["EnableKeyRotation"] for place in templates.all("AWS::KMS::Key"))
    assert all(place.properties["RetentionInDays"] for place in templates.all("AWS::Logs::LogGroup"))
    results = results_bucket(templates)
    rule = results.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"


@both
def test_buckets_are_private_and_forget(templates: Templates) -> None:
    for place in templates.all("AWS::S3::Bucket"):
        assert set(place.properties["PublicAccessBlockConfiguration"].values()) == {True}, str(place)
        rules = place.properties["LifecycleConfiguration"]["Rules"]
        assert rules, str(place)


@both
def test_nothing_of_an_execution_expires_by_its_age(templates: Templates) -> None:
    """An execution may run for longer than any number of days: its objects and items go with it, and maintenance may remove them."""
    results = results_bucket(templates)
    rules = results.properties["LifecycleConfiguration"]["Rules"]
    timed = {"ExpirationInDays", "ExpirationDate", "Transitions"}
    expiring = {one.get("Prefix", "") for one in rules if timed & one.keys()}
    assert expiring == {"revoked/", "cached/"}, "executions/, programs/ and permanent/ stay"
    for table in templates.all("AWS::DynamoDB::Table"):
        assert "TimeToLiveSpecification" not in table.properties, str(table)


@both
def test_queues_and_buckets_answer_over_tls_only(templates: Templates) -> None:
    refused = {
        templates.text(policy.stack, target).strip("<>")
        for kind, field in (("AWS::SQS::QueuePolicy", "Queues"), ("AWS::S3::BucketPolicy", "Bucket"))
        for policy in templates.all(kind)
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Principal"] == {"AWS": "*"}
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        for target in as_list(policy.properties[field])
    }
    assert refused == {place.key for place in templates.all(QUEUE, "AWS::S3::Bucket")}


@both
def test_no_role_has_a_wildcard_action(templates: Templates) -> None:
    seen = 0
    for role in templates.all("AWS::IAM::Role"):
        for _, statement in templates.statements(role.key):
            for action in as_list(statement["Action"]):
                seen += 1
                assert "*" not in action, f"{role}: {action}"
    assert seen > 100


@both
@pytest.mark.parametrize("worker", ["python", "script"])
def test_code_of_playbooks_reaches_its_queue_its_results_and_the_engine_only(
    templates: Templates, worker: str, name: str
) -> None:
    function = templates.function(f"noetl-{name}-worker-{worker}")
    queue = templates.one(QUEUE, QueueName=f"noetl-{name}-commands-{worker}")
    events = templates.one(QUEUE, QueueName=f"noetl-{name}-events.fifo")
    logs = templates.one("AWS::Logs::LogGroup", LogGroupName=f"/noetl/{name}/worker-{worker}")
    bucket = results_bucket(templates)
    table = templates.one("AWS::DynamoDB::Table")
    key = next(
        place
        for place in templates.all("AWS::KMS::Alias")
        if place.properties["AliasName"] == f"alias/noetl-{name}-data"
    )
    key_arn = templates.text(key.stack, key.properties["TargetKeyId"])
    allowed = templates.allowed(templates.role_of(function))
    tracing = {(action, "*") for action in ("xray:PutTraceSegments", "xray:PutTelemetryRecords")}
    invoked = [resource for action, resource in allowed if action == "lambda:InvokeFunction"]
    assert [_invoked(one) for one in invoked] == [f"noetl-{name}-decide"]
    assert allowed - tracing == {
        *(
            (f"sqs:{action}", f"<{queue.key}.Arn>")
            for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes")
        ),
        ("sqs:SendMessage", f"<{events.key}.Arn>"),
        *(("lambda:InvokeFunction", found) for found in invoked),
        ("s3:GetObject", f"<{bucket.key}.Arn>/executions/*"),
        ("s3:PutObject", f"<{bucket.key}.Arn>/executions/*"),
        ("s3:GetObject", f"<{bucket.key}.Arn>/permanent/*"),
        ("s3:PutObject", f"<{bucket.key}.Arn>/permanent/*"),
        ("s3:GetObject", f"<{bucket.key}.Arn>/cached/{worker}/*"),
        ("s3:PutObject", f"<{bucket.key}.Arn>/cached/{worker}/*"),
        ("s3:GetObject", f"<{bucket.key}.Arn>/programs/*"),
        ("s3:GetObject", f"<{bucket.key}.Arn>/revoked/*"),
        ("dynamodb:GetItem", f"<{table.key}.Arn>"),
        ("dynamodb:PutItem", f"<{table.key}.Arn>"),
        *((f"kms:{action}", key_arn) for action in KEY_ACTIONS),
        ("logs:CreateLogStream", f"<{logs.key}.Arn>"),
        ("logs:PutLogEvents", f"<{logs.key}.Arn>"),
    }
    assert "VpcConfig" not in function.properties, "the database is inside the VPC"
    assert set(templates.variables(function)) == PYTHON_VARIABLES
    role = templates.resource(templates.role_of(function))
    assert not role.properties.get("ManagedPolicyArns")


@both
def test_cached_results_are_chosen_by_the_worker_that_made_them(templates: Templates) -> None:
    bucket = f"<{results_bucket(templates).key}.Arn>"
    seen = 0
    for function in ours(templates):
        allowed = templates.allowed(templates.role_of(function))
        cached = {(action, of) for action, of in allowed if of.startswith(f"{bucket}/cached")}
        if not cached:
            continue
        folder = f"{bucket}/cached/{templates.variables(function)['NOETL_WORKER']}/*"
        assert cached == {("s3:GetObject", folder), ("s3:PutObject", folder)}, str(function)
        seen += 1
    assert seen > 1


@both
def test_who_may_not_list_results_knows_what_a_refusal_means(templates: Templates) -> None:
    """S3 says "forbidden" about a missing object to a role without s3:ListBucket: the code goes by NOETL_WORKER (CloudSettings.lists)."""
    bucket = f"<{results_bucket(templates).key}.Arn>"
    seen = set()
    for function in ours(templates):
        allowed = templates.allowed(templates.role_of(function))
        if not any(action == "s3:GetObject" and of.startswith(bucket) for action, of in allowed):
            continue
        lists = ("s3:ListBucket", bucket) in allowed
        assert lists == ("NOETL_WORKER" not in templates.variables(function)), str(function)
        seen.add(lists)
    assert seen == {True, False}
    for statement in (
        one for function in ours(templates) for one in templates.statements(templates.role_of(function))
    ):
        listing = "s3:ListBucket" in as_list(statement[1]["Action"])
        assert not listing or "Condition" not in statement[1], (
            "a GET has no prefix: a condition on it would refuse"
        )


@both
def test_keys_are_used_by_workers_only_through_their_services(templates: Templates) -> None:
    for function in ours(templates):
        if "-worker-" not in function.properties["FunctionName"]:
            continue
        for _, statement in templates.statements(templates.role_of(function)):
            if any(action.startswith("kms:") for action in as_list(statement["Action"])):
                assert list(statement["Condition"]) == ["StringEquals"] and list(
                    statement["Condition"]["StringEquals"]
                ) == ["kms:ViaService"]


@both
def test_secrets_are_read_by_those_who_need_them(templates: Templates) -> None:
    """The key of tokens by the engine's functions, the owner's password by migrations, credentials by trusted workers."""
    readers: dict[str, set[str]] = {}
    for function in ours(templates):
        for action, resource in templates.allowed(templates.role_of(function)):
            if action == "secretsmanager:GetSecretValue":
                short = function.properties["FunctionName"].split("-", 2)[2]
                readers.setdefault(_secret(templates, resource), set()).add(short)
    engine = {"api", "engine", "decide", "maintenance", "scheduler", "migrate"}
    workers = {name for found in readers["credentials"] for name in [found] if name.startswith("worker-")}
    assert readers["tokens"] == readers["app"] == engine
    assert readers["owner"] == {"migrate"}
    assert readers["reader"] == {"api", "migrate"}
    assert readers["credentials"] == workers | {"api"}
    assert workers and not workers & {"worker-python", "worker-script"}
    assert readers.keys() == {"tokens", "app", "owner", "reader", "credentials"}


@both
def test_workers_that_may_have_credentials_ask_the_api_for_them_and_for_nothing_else(
    templates: Templates, name: str
) -> None:
    asking = set()
    for function in ours(templates):
        short = function.properties["FunctionName"].removeprefix(f"noetl-{name}-")
        rights = {
            one for one in templates.allowed(templates.role_of(function)) if one[0].startswith("execute-api")
        }
        assert bool(rights) == ("NOETL_API_URL" in templates.variables(function))
        if rights:
            asking.add(short)
            ((action, resource),) = rights
            assert action == "execute-api:Invoke"
            assert re.fullmatch(r"arn:.*:<Api\.\w+>/\$default/GET/api/keychain/\*", resource), resource
    assert {"worker-io" if name == "dev" else "worker-http", "worker-mixed"} <= asking
    assert not asking & {"worker-python", "worker-script", "api", "engine"}
    patterns = templates.variables(templates.function(f"noetl-{name}-api"))["NOETL_WORKER_ROLES"].split(",")
    for short in asking:
        arn = f"arn:aws:sts::123456789012:assumed-role/AnyRole/noetl-{name}-{short}"
        assert any(fnmatchcase(arn, pattern) for pattern in patterns)
    assert not any(
        fnmatchcase(f"arn:aws:sts::123456789012:assumed-role/Deploy/{who}", pattern)
        for who in ("ci", f"noetl-{name}-api", "noetl-other-worker-io")
        for pattern in patterns
    )


@both
def test_the_api_alone_seals_credentials_and_opens_nothing_else_with_that_key(
    templates: Templates, name: str
) -> None:
    for function in ours(templates):
        short = function.properties["FunctionName"].removeprefix(f"noetl-{name}-")
        purposes = [
            statement["Condition"]["StringEquals"].get("kms:EncryptionContext:purpose")
            for _, statement in templates.statements(templates.role_of(function))
            if any(action.startswith("kms:") for action in as_list(statement["Action"]))
            and "kms:ViaService" not in statement["Condition"]["StringEquals"]
        ]
        assert purposes == ([["auth_cache", "credential"]] if short == "api" else []), short
        assert ("NOETL_KMS_KEY_ID" in templates.variables(function)) == (short == "api")


def _secret(templates: Templates, resource: str) -> str:
    if not resource.startswith("<"):
        return "credentials" if re.search(r":secret:noetl/\w+/credentials/\*$", resource) else resource
    place = templates.resource(resource)
    if place.resource["Type"] == "AWS::SecretsManager::SecretTargetAttachment":
        place = templates.resource(templates.text(place.stack, place.properties["SecretId"]))
    return str(place.properties["Name"]).rsplit("/", 1)[-1]


@both
def test_every_queue_is_consumed_in_batches_whose_messages_fail_one_by_one(templates: Templates) -> None:
    mappings = list(templates.all(MAPPING))
    for mapping in mappings:
        assert mapping.properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping.properties["ScalingConfig"]["MaximumConcurrency"] >= 2
        assert mapping.properties["BatchSize"] <= 10
    queues, dead = own_queues(templates)
    consumed = {
        templates.text(mapping.stack, mapping.properties["EventSourceArn"]).strip("<>").removesuffix(".Arn")
        for mapping in mappings
    }
    commands = {place.key for place in dead if "-commands-" in place.properties["QueueName"]}
    by_tasks = {place.key for place in queues if place.properties["QueueName"].endswith("-commands-long")}
    assert consumed == {place.key for place in queues} - by_tasks | commands


@both
def test_operators_reach_the_dead_letters_that_the_engine_sends_back(templates: Templates, name: str) -> None:
    """The API may take those of events and timers out, and send them to where they came from, and no others."""
    api = next(one for one in ours(templates) if one.properties["FunctionName"] == f"noetl-{name}-api")
    queues, dead = own_queues(templates)
    reachable = {
        place.key: {
            action.removeprefix("sqs:")
            for action, resource in templates.allowed(templates.role_of(api))
            if resource == f"<{place.key}.Arn>"
        }
        for place in (*queues, *dead)
    }
    names = {place.key: place.properties["QueueName"].removesuffix(".fifo") for place in (*queues, *dead)}
    taken = {
        names[key]: rights
        for key, rights in reachable.items()
        if rights & {"ReceiveMessage", "DeleteMessage"}
    }
    rights = {"ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes"}
    assert taken == {f"noetl-{name}-events-dlq": rights, f"noetl-{name}-timers-dlq": rights}
    sent = {names[key] for key, rights in reachable.items() if "SendMessage" in rights}
    assert {f"noetl-{name}-events", f"noetl-{name}-timers"} <= sent
    assert not any("-dlq" in one for one in sent)


@both
def test_what_connects_fits_into_the_database(templates: Templates, name: str) -> None:
    group = next(templates.all("AWS::RDS::DBClusterParameterGroup"))
    most = int(group.properties["Parameters"]["max_connections"])
    connecting = [
        place for place in ours(templates) if "NOETL_DATABASE_SECRET_ARN" in templates.variables(place)
    ]
    reserved = [place.properties["ReservedConcurrentExecutions"] for place in connecting]
    assert len(connecting) == 6 and all("VpcConfig" in place.properties for place in connecting)
    assert sum(reserved) < 0.8 * most


@both
def test_queries_of_people_run_on_the_reader_where_there_is_one(templates: Templates, name: str) -> None:
    """Postgres cannot limit the memory of a query, so none shall take that of the instance which the engine writes to."""
    api = next(one for one in ours(templates) if one.properties["FunctionName"] == f"noetl-{name}-api")
    host = templates.variables(api).get("NOETL_READER_HOST")
    assert ("ReadEndpoint" in json.dumps(host)) == (name == "prod")
    readers = [one for one in ours(templates) if "NOETL_READER_HOST" in templates.variables(one)]
    assert len(readers) == (2 if name == "prod" else 0), "the API, and the migration that makes the role"


@pytest.mark.full
def test_an_environment_may_do_without_queries(synthesise: Callable[..., Path]) -> None:
    database = replace(load_environment("dev", {}).database, queries=False)
    found = Templates(synthesise("dev", changes={"database": database}), "Noetl-dev-")
    api = next(one for one in ours(found) if one.properties["FunctionName"] == "noetl-dev-api")
    assert "NOETL_READER_SECRET_ARN" not in found.variables(api)


@both
def test_every_function_understands_its_variables(templates: Templates, name: str) -> None:
    for function in ours(templates):
        settings = CloudSettings.from_env(templates.variables(function))
        worker = "-worker-" in function.properties["FunctionName"]
        assert settings.env == name and settings.auth == "iam"
        assert bool(settings.worker) == worker != bool(settings.token_secret)
        assert (
            settings.queue_prefix.endswith("-commands-") and settings.deployment["stack"] == f"noetl-{name}"
        )
        if not worker:
            assert set(settings.queues.values()) | {"mixed"} == set(settings.workers)
            assert settings.close_connections == (
                name == "dev" and not function.properties["FunctionName"].endswith("migrate")
            )


@both
def test_functions_run_where_the_layers_were_built_for(templates: Templates) -> None:
    for function in ours(templates):
        assert function.properties["Runtime"] == "python3.13"
        assert function.properties["Architectures"] == ["arm64"]
        assert function.properties["LoggingConfig"]["LogFormat"] == "JSON"
        layers = [
            templates.resource(templates.text(function.stack, layer)).properties["LayerName"]
            for layer in function.properties["Layers"]
        ]
        wanted = ["core", "deps"] + (
            ["duckdb"] if re.search(r"-(duckdb|mixed|transfer)$", function.properties["FunctionName"]) else []
        )
        assert [layer.rsplit("-", 1)[1] for layer in layers] == wanted


@both
def test_nobody_enters_without_being_known(templates: Templates) -> None:
    """But senders of webhooks, and who answers a callback: their addresses are signed, which the function looks at."""
    routes = {place.properties["RouteKey"]: place for place in templates.all("AWS::ApiGatewayV2::Route")}
    kinds = {key: route.properties["AuthorizationType"] for key, route in routes.items()}
    callbacks = [f"{method} /api/callbacks/{{token}}" for method in ("GET", "POST")]
    assert kinds == {"$default": "AWS_IAM", **dict.fromkeys(["POST /api/hooks/{token}", *callbacks], "NONE")}
    stage = next(templates.all("AWS::ApiGatewayV2::Stage")).properties
    assert stage["RouteSettings"].keys() == set(callbacks)
    for limits in stage["RouteSettings"].values():
        assert 0 < limits["ThrottlingRateLimit"] <= 20
    assert "$context.path" not in stage["AccessLogSettings"]["Format"], "the path of a callback is a secret"
    assert json.loads(stage["AccessLogSettings"]["Format"])["status"] == "$context.status"
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] >= 100


@both
def test_the_schema_is_migrated_before_what_uses_it_changes(templates: Templates) -> None:
    migration = templates.one("Custom::NoetlMigration")
    for name in ("engine", "maintenance"):
        function = next(
            place for place in ours(templates) if place.properties["FunctionName"].endswith(f"-{name}")
        )
        assert migration.id in function.resource["DependsOn"]
    manifest = json.loads((templates.folder / "manifest.json").read_text())["artifacts"]
    for stack in ("Api", "Schedules", "Workers"):
        found = next(value for key, value in manifest.items() if key.endswith(f"-{stack}"))
        assert any(key.endswith("-Engine") for key in found["dependencies"])


@both
def test_a_tick_that_lets_a_pausing_database_sleep_and_no_database_port_but_for_the_engine(
    templates: Templates,
) -> None:
    rule = next(
        place for place in templates.all("AWS::Events::Rule") if "ScheduleExpression" in place.properties
    )
    pauses = templates.prefix == "Noetl-dev-"
    assert rule.properties["ScheduleExpression"] == ("rate(2 hours)" if pauses else "rate(1 minute)")
    assert rule.properties["Targets"][0]["Input"] == '{"noetl":"tick"}'
    opened = {
        templates.text(place.stack, place.properties["SourceSecurityGroupId"])
        for place in templates.all("AWS::EC2::SecurityGroupIngress")
        if place.properties["FromPort"] == 5432
    }
    groups = {
        name: templates.resource(f"Network.{id}")
        for id, place in templates.stacks["Network"]["Resources"].items()
        for name in ("EngineGroup", "DatabaseGroup")
        if place["Type"] == "AWS::EC2::SecurityGroup" and id.startswith(name)
    }
    assert opened == {f"<{place.key}.GroupId>" for place in groups.values()}


def test_dev_costs_little_while_nobody_uses_it(dev: Path) -> None:
    templates = Templates(dev, "Noetl-dev-")
    cluster = next(templates.all("AWS::RDS::DBCluster")).properties
    assert cluster["ServerlessV2ScalingConfiguration"] == {
        "MinCapacity": 0,
        "MaxCapacity": 2,
        "SecondsUntilAutoPause": 300,
    }
    assert not list(templates.all("AWS::EC2::NatGateway", "AWS::RDS::DBProxy"))
    assert {one.properties["VpcEndpointType"] for one in templates.all("AWS::EC2::VPCEndpoint")} == {
        "Gateway"
    }
    (machine,) = templates.all("AWS::EC2::Instance")
    (face,) = machine.properties["NetworkInterfaces"]
    assert face["AssociatePublicIpAddress"] and not machine.properties["SourceDestCheck"]
    entered = [
        rule
        for place in templates.all("AWS::EC2::SecurityGroup")
        for rule in place.properties.get("SecurityGroupIngress", ())
    ]
    assert entered and {templates.text("Network", rule["CidrIp"]) for rule in entered} == {"10.42.0.0/16"}


def test_in_prod_workers_are_inside_and_do_not_reach_the_database(prod: Path) -> None:
    """Their group is another than the engine's, whose functions reach the database and port 443."""
    templates = Templates(prod, "Noetl-prod-")
    for name in ("worker-artifact", "worker-http", "worker-mixed", "worker-postgres", "api", "engine"):
        function = templates.function(f"noetl-prod-{name}")
        subnets = [
            templates.text(function.stack, found) for found in function.properties["VpcConfig"]["SubnetIds"]
        ]
        assert {re.search(r"\.Vpc([a-z]+)Subnet", subnet)[1] for subnet in subnets} == {"outgoing"}
        (group,) = function.properties["VpcConfig"]["SecurityGroupIds"]
        wanted = "WorkerGroup" if name.startswith("worker-") else "EngineGroup"
        assert wanted in templates.text(function.stack, group)


@both
def test_functions_of_the_engine_leave_by_two_ports(templates: Templates) -> None:
    (group,) = (one for one in templates.all("AWS::EC2::SecurityGroup") if one.id.startswith("EngineGroup"))
    rules = list(group.properties["SecurityGroupEgress"])
    rules += [
        one.properties
        for one in templates.all("AWS::EC2::SecurityGroupEgress")
        if templates.text(one.stack, one.properties["GroupId"]) == f"<{group.key}.GroupId>"
    ]
    assert sorted((rule["FromPort"], rule["ToPort"]) for rule in rules) == [(443, 443), (5432, 5432)]


def _invoked(resource: str) -> str:
    """The name in a function's ARN, without an alias."""
    return resource.partition(":function:")[2].partition(":")[0]


@both
def test_workers_hand_outcomes_over_by_request(templates: Templates, name: str) -> None:
    """A worker invokes the function `decide` and no other; that one reads no queue, and its reservation bounds the requests."""
    decide = templates.function(f"noetl-{name}-decide")
    assert decide.properties["ReservedConcurrentExecutions"] > 0
    sources = [templates.text(one.stack, one.properties["FunctionName"]) for one in templates.all(MAPPING)]
    assert sources and not [one for one in sources if decide.key in one]
    workers = 0
    for function in ours(templates):
        if "-worker-" not in function.properties["FunctionName"]:
            continue
        workers += 1
        variables = templates.variables(function)
        invoked = [
            resource
            for action, resource in templates.allowed(templates.role_of(function))
            if action == "lambda:InvokeFunction"
        ]
        alias = ":live" if name == "prod" else ""
        assert variables["NOETL_DECIDE_FUNCTION"] == f"noetl-{name}-decide{alias}"
        assert [one.endswith(f":function:noetl-{name}-decide{alias}") for one in invoked] == [True]
        assert int(variables["NOETL_DIRECT_STEPS"]) > 0
    assert workers > 4


@both
def test_small_results_are_sealed_and_are_removed_by_those_who_keep_house(
    templates: Templates, name: str
) -> None:
    table = templates.one("AWS::DynamoDB::Table")
    assert table.properties["BillingMode"] == "PAY_PER_REQUEST"
    assert table.properties["SSESpecification"]["SSEType"] == "KMS"
    removing, cached = set(), set()
    for function in ours(templates):
        short = function.properties["FunctionName"].removeprefix(f"noetl-{name}-")
        rights = {
            one for one in templates.allowed(templates.role_of(function)) if one[0].startswith("dynamodb")
        }
        assert {resource for _, resource in rights} <= {f"<{table.key}.Arn>"}
        if rights:
            assert {"dynamodb:GetItem", "dynamodb:PutItem"} <= {action for action, _ in rights}
        removing |= {short} if ("dynamodb:BatchWriteItem", f"<{table.key}.Arn>") in rights else set()
        cached |= {short} if "NOETL_STORAGE_LOCAL_CACHE_DIR" in templates.variables(function) else set()
    assert removing == {"api", "maintenance"}
    assert cached and all(one.startswith("worker-") for one in cached)
    assert not cached & {"worker-python", "worker-script"}


def test_prod_survives_a_zone_and_a_deleted_stack(prod: Path) -> None:
    templates = Templates(prod, "Noetl-prod-")
    assert len(list(templates.all("AWS::RDS::DBInstance"))) == 2
    assert len(list(templates.all("AWS::EC2::NatGateway"))) == 3
    assert not list(templates.all("AWS::RDS::DBProxy")), "421 of 2,000 connections: ADR 60"
    cluster = next(templates.all("AWS::RDS::DBCluster"))
    assert cluster.properties["DeletionProtection"] and cluster.properties["BackupRetentionPeriod"] == 35
    assert cluster.resource["DeletionPolicy"] == "Snapshot"
    table = templates.one("AWS::DynamoDB::Table").properties
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["DeletionProtectionEnabled"] is True
    for place in templates.all("AWS::S3::Bucket", "AWS::KMS::Key", "AWS::DynamoDB::Table"):
        assert place.stack == "Network" or place.resource["DeletionPolicy"] == "Retain", str(place)
    manifest = json.loads((prod / "manifest.json").read_text())["artifacts"]
    assert manifest["Noetl-prod-Data"]["properties"]["terminationProtection"] is True
    rotated = [place.properties for place in templates.all("AWS::SecretsManager::RotationSchedule")]
    assert len(rotated) == 3
