"""Containers of playbooks on Fargate: a cluster, what a container may do (nothing, unless the environment says), and who may run one."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..config import ConfigError
from ..constructs import grants
from ..constructs.grants import Grant, give
from ..constructs.python_function import log_group
from ..shared import Platform


class Jobs(Construct):
    """``variable``: NOETL_CONTAINERS, for workers that run containers; ``run_grants``: what they may do for that."""

    def __init__(self, scope: Construct, id: str, *, platform: Platform) -> None:
        super().__init__(scope, id)
        config = platform.config
        containers = config.containers
        if containers is None or platform.vpc is None:
            raise ConfigError("containers need a network (database engine url has none)")
        self._platform = platform
        stack = cdk.Stack.of(self)
        self.cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=cluster_name(platform),
            vpc=platform.vpc,
            container_insights_v2=ecs.ContainerInsights.ENABLED,
        )
        logs = log_group(self, "Logs", config, "jobs", platform.data.data_key)
        tasks = iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        self.execution_role = iam.Role(
            self,
            "ExecutionRole",
            role_name=f"{config.prefix}-jobs-start",
            assumed_by=tasks,
            description="Starts containers of playbooks: pulls images, reads the credentials they are given, writes their output",
        )
        logs.grant_write(self.execution_role)
        pull = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"]
        give(
            self.execution_role,
            grants.named(self, "ecr", "repository", "*", [one.partition(":")[2] for one in pull], _IMAGES),
            grants.grant_any(
                ["ecr:GetAuthorizationToken"], "the token that pulls images belongs to no repository"
            ),
            grants.credentials(self, config.credentials_prefix, ["GetSecretValue"]),
            grants.use_key_through(self, platform.data.secrets_key, "secretsmanager"),
        )
        self.task_role = iam.Role(
            self,
            "TaskRole",
            role_name=f"{config.prefix}-jobs",
            assumed_by=tasks,
            description="What containers of playbooks may do: nothing, unless the environment says",
        )
        give(self.task_role, *grants.configured(containers.access))
        self._settings = {
            **_place(self, platform, private=containers.private),
            "cluster": cluster_name(platform),
            "family": family(platform),
            "execution_role": self.execution_role.role_arn,
            "task_role": self.task_role.role_arn,
            "log_group": logs.log_group_name,
            "region": stack.region,
            "secrets": f"arn:{stack.partition}:secretsmanager:{stack.region}:{stack.account}:secret:{config.credentials_prefix}",
            "arch": containers.arch,
        }

    def variable(self) -> dict[str, str]:
        return {"NOETL_CONTAINERS": cdk.Stack.of(self).to_json_string(self._settings)}

    def run_grants(self, scope: Construct) -> list[Grant]:
        """Run containers in this cluster, with these two roles and no others; look at them, read their output, end them."""
        definitions = grants.named(
            scope,
            "ecs",
            "task-definition",
            f"{family(self._platform)}*",
            ["RunTask", "RegisterTaskDefinition"],
            "a definition for each image and size; the names of all begin with the environment's prefix",
        )
        return [
            definitions,
            grants.grant_any(["ecs:DescribeTaskDefinition"], "AWS limits it to no resource"),
            *_task_grants(scope, self._platform),
            Grant(
                iam.PolicyStatement(
                    actions=["iam:PassRole"],
                    resources=[self.execution_role.role_arn, self.task_role.role_arn],
                    conditions={"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}},
                )
            ),
            grants.named(
                scope,
                "logs",
                f"log-group:/noetl/{self._platform.config.name}/jobs:log-stream:job",
                "*",
                ["GetLogEvents"],
                "a stream for each container, named when it is started",
            ),
        ]


def _place(scope: Construct, platform: Platform, *, private: bool) -> dict[str, str]:
    """Subnets and groups: the workers' own, or public ones where nothing may connect to a container."""
    assert platform.vpc is not None
    inside = platform.worker_placement if private else None
    if private and inside is None:
        raise ConfigError("private containers need workers in the network (network.private_workers)")
    if inside is not None:
        subnets = (
            inside.subnets.subnets
            or platform.vpc.select_subnets(subnet_group_name=inside.subnets.subnet_group_name).subnets
        )
        group: ec2.ISecurityGroup = inside.group
    elif platform.outer_subnets is None:
        raise ConfigError("containers need public_subnets of network.existing, or containers.private")
    else:
        subnets = platform.vpc.select_subnets(subnet_group_name="public").subnets
        group = ec2.SecurityGroup(
            scope, "Group", vpc=platform.vpc, description="Containers of playbooks: nothing connects to them"
        )
    return {
        "subnets": ",".join(subnet.subnet_id for subnet in subnets),
        "security_groups": group.security_group_id,
        "public": "" if inside else "1",
    }


_IMAGES = "playbooks name the images; only those of this account's registry need a permission"


def cluster_name(platform: Platform) -> str:
    return f"{platform.config.prefix}-jobs"


def family(platform: Platform) -> str:
    """What the names of task definitions begin with."""
    return f"{platform.config.prefix}-job-"


def _task_grants(scope: Construct, platform: Platform) -> list[Grant]:
    """Find the containers of the cluster, look at them, and end them."""
    stack = cdk.Stack.of(scope)
    cluster = stack.format_arn(service="ecs", resource="cluster", resource_name=cluster_name(platform))
    found = grants.grant_any(
        ["ecs:ListTasks"], "it is limited to the cluster by a condition, which is all AWS has for it"
    )
    found.statement.add_condition("ArnEquals", {"ecs:cluster": cluster})
    reason = "tasks are named when they are started; all are of this cluster"
    name = f"{cluster_name(platform)}/*"
    return [grants.named(scope, "ecs", "task", name, ["DescribeTasks", "StopTask"], reason), found]


def wake_by_rule(
    scope: Construct, platform: Platform, function: lambda_.IFunction, dlq: sqs.IQueue, attempts: int
) -> events.CfnRule:
    """The end of a container wakes the task that waits for it."""
    stack = cdk.Stack.of(scope)
    cluster = stack.format_arn(service="ecs", resource="cluster", resource_name=cluster_name(platform))
    rule = events.CfnRule(
        scope,
        "JobEnds",
        description="The end of a container wakes the task that waits for it",
        event_pattern={
            "source": ["aws.ecs"],
            "detail-type": ["ECS Task State Change"],
            "detail": {"clusterArn": [cluster], "lastStatus": ["STOPPED"]},
        },
        targets=[
            events.CfnRule.TargetProperty(
                id="scheduler",
                arn=function.function_arn,
                retry_policy=events.CfnRule.RetryPolicyProperty(
                    maximum_retry_attempts=attempts, maximum_event_age_in_seconds=3600
                ),
                dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=dlq.queue_arn),
            )
        ],
    )
    service = iam.ServicePrincipal("events.amazonaws.com")
    function.add_permission("FromJobs", principal=service, source_arn=rule.attr_arn)
    dlq.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[service],
            actions=["sqs:SendMessage"],
            resources=[dlq.queue_arn],
            conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
        )
    )
    return rule
