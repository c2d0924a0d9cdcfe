"""A function of functions/<folder>: its own role, an encrypted log group that does not grow for ever, JSON logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..config import LOG_DAYS, ConfigError, Environment
from ..constructs import nag
from ..constructs.grants import Grant, give, grant, grant_any
from ..constructs.layers import RUNTIMES, architecture
from ..constructs.rollout import rolled_out
from ..places import HOME

RETENTIONS = dict(
    zip(
        LOG_DAYS,
        (
            logs.RetentionDays.ONE_DAY,
            logs.RetentionDays.THREE_DAYS,
            logs.RetentionDays.ONE_WEEK,
            logs.RetentionDays.TWO_WEEKS,
            logs.RetentionDays.ONE_MONTH,
            logs.RetentionDays.TWO_MONTHS,
            logs.RetentionDays.THREE_MONTHS,
            logs.RetentionDays.SIX_MONTHS,
            logs.RetentionDays.ONE_YEAR,
        ),
        strict=True,
    )
)
NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
"""What AWS's own policy for functions in a VPC allows."""
FUNCTIONS = HOME / "functions"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where in the network a function runs."""

    vpc: ec2.IVpc
    subnets: ec2.SubnetSelection
    group: ec2.ISecurityGroup


LEAST_STORAGE = 512
"""MiB below /tmp that every function has."""


class PythonFunction(Construct):
    """``function``, ``role`` and ``log_group``; ``target``: what is invoked, an alias where versions are rolled out by canary. Policies are
    added with ``allow``."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        env: Environment,
        name: str,
        folder: str,
        timeout: int,
        memory: int,
        storage: int = LEAST_STORAGE,
        layers: Sequence[lambda_.ILayerVersion],
        log_key: kms.IKey,
        variables: Mapping[str, str],
        reserved: int | None = None,
        placement: Placement | None = None,
        dead_letter_queue: sqs.IQueue | None = None,
        retries: int = 2,
        released: bool = True,
    ) -> None:
        """``released``: rolled out as the environment says; else each deployment replaces the function at once.

        ``name``: without the environment. ``timeout``: seconds. ``memory``, ``storage`` (of /tmp): MiB. ``dead_letter_queue``: for
        asynchronous invocations that failed; ``retries``: of those. Raises ConfigError when the folder has no handler.
        """
        super().__init__(scope, id)
        full_name = f"{env.prefix}-{name}"
        age = cdk.Duration.hours(6) if retries else cdk.Duration.minutes(1)
        self.log_group = log_group(self, "Logs", env, name, log_key)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {full_name} may do",
        )
        self._allow_basics(env, placement)
        if dead_letter_queue is not None:
            self.allow(grant(["sqs:SendMessage"], [dead_letter_queue.queue_arn]))
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=full_name,
            code=lambda_.Code.from_asset(
                str(_handler_folder(folder)), exclude=["**/__pycache__", "Dockerfile"]
            ),
            handler="handler.handler",
            runtime=RUNTIMES[env.python],
            architecture=architecture(env),
            timeout=cdk.Duration.seconds(timeout),
            memory_size=memory,
            ephemeral_storage_size=cdk.Size.mebibytes(storage),
            layers=list(layers),
            role=self.role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel[env.log_level],
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            dead_letter_queue=dead_letter_queue,
            retry_attempts=retries,
            max_event_age=age,
            reserved_concurrent_executions=reserved,
            # Engine and workers call each other through queues for as long as an execution has steps. Lambda would take that for a runaway
            # loop after about 16 rounds, and drop the message. What ends endless executions is the engine (docs/adr/0044).
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
            tracing=lambda_.Tracing.ACTIVE if env.tracing else lambda_.Tracing.DISABLED,
            environment=dict(variables) | _telemetry(env, full_name),
            vpc=placement.vpc if placement else None,
            vpc_subnets=placement.subnets if placement else None,
            security_groups=[placement.group] if placement else None,
        )
        nag.acknowledge(
            self.function, "L1", "the environment says which Python; the layers are built for that one"
        )

        self.target: lambda_.IFunction = self.function
        if released and env.deploys == "canary":
            self.target = rolled_out(self, self.function, full_name, retries=retries, max_age=age)

    def allow(self, *given: Grant) -> None:
        """Add to the role."""
        give(self.role, *given)

    def consume(self, queue: sqs.IQueue, *, batch: int, concurrency: int, fifo: bool = False) -> None:
        """Invoke the function with batches of the queue; failed messages are reported one by one."""
        lambda_.EventSourceMapping(
            self,
            f"From-{queue.node.path.replace('/', '-')}",
            target=self.target,
            event_source_arn=queue.queue_arn,
            batch_size=batch,
            max_concurrency=max(2, concurrency),
            # Queues that are FIFO take no window. A message of the others does not wait for more of them.
            max_batching_window=None if fifo else cdk.Duration.seconds(0),
            report_batch_item_failures=True,
        )

    def _allow_basics(self, env: Environment, placement: Placement | None) -> None:
        self.allow(grant(["logs:CreateLogStream", "logs:PutLogEvents"], [self.log_group.log_group_arn]))
        if placement is not None:
            self.allow(grant_any(NETWORK_ACTIONS, "network interfaces have no name before Lambda makes them"))
        if env.tracing:
            actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
            self.allow(grant_any(actions, "trace segments have no name"))


def log_group(scope: Construct, id: str, env: Environment, name: str, key: kms.IKey) -> logs.LogGroup:
    """/noetl/<environment>/<name>, sealed, kept as long as the environment says."""
    return logs.LogGroup(
        scope,
        id,
        log_group_name=f"/noetl/{env.name}/{name}",
        encryption_key=key,
        retention=RETENTIONS[env.retention.logs],
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def _telemetry(env: Environment, name: str) -> dict[str, str]:
    return {
        "POWERTOOLS_SERVICE_NAME": name,
        "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
        "POWERTOOLS_LOG_LEVEL": env.log_level,
    }


def _handler_folder(folder: str) -> Path:
    path = FUNCTIONS / folder
    if not (path / "handler.py").is_file():
        raise ConfigError(f"functions/{folder}/handler.py does not exist: there is nothing to deploy")
    return path
