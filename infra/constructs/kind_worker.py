"""One worker of the plan: a function on its queue, or a Fargate service that grows with it.

Both may do the same, and no more.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from ..config import ConfigError
from ..constructs import grants, nag
from ..constructs.grants import Grant, give
from ..constructs.jobs import Jobs
from ..constructs.layers import Layers
from ..constructs.python_function import Placement, PythonFunction, log_group
from ..constructs.queue_with_dlq import QueueWithDlq
from ..constructs.rest_api import ApiDoor
from ..shared import Platform
from ..workers import TIMEOUT, Worker

BACKLOG_PER_TASK = 10
"""Commands that wait for each running task before another one starts."""


def worker_grants(
    scope: Construct,
    platform: Platform,
    worker: Worker,
    queue: QueueWithDlq,
    api: ApiDoor | None,
    direct: bool,
) -> list[Grant]:
    """Its queue, its results, the engine's queue; secrets of playbooks only for workers that run none of their code. ``api``: where it asks
    for those that were registered. ``direct``: it hands outcomes over by request."""
    statements = [
        grants.consume(queue.queue),
        platform.result_objects(
            ["s3:GetObject", "s3:PutObject"], ["executions", "permanent", f"cached/{worker.name}"]
        ),
        platform.result_objects(["s3:GetObject"], ["programs", "revoked"]),
        grants.send([platform.messaging.events.queue]),
        *platform.tier_grants(scope),
    ]
    if not worker.isolated:
        statements += [
            grants.credentials(scope, platform.config.credentials_prefix, ["GetSecretValue"]),
            grants.use_key_through(scope, platform.data.secrets_key, "secretsmanager"),
        ]
    for kind in worker.kinds:
        statements += grants.configured(platform.config.workers.access.get(kind, ()))
    if direct:
        statements.append(grants.grant(["lambda:InvokeFunction"], [platform.target_arn(scope, "decide")]))
    if api is not None:
        statements.append(grants.ask_for_credentials(scope, api.api_id, api.exported, api.stage_name))
    return statements


def _asks(worker: Worker, api: ApiDoor, *, reaches: bool) -> ApiDoor | None:
    """The API, for a worker that may have credentials and gets as far."""
    return api if reaches and not worker.isolated else None


def _is_direct(platform: Platform, worker: Worker) -> bool:
    """Check whether the worker reports outcomes by request to Lambda.

    Inner subnets, beside others that have NAT, reach Lambda only by an endpoint.
    """
    config = platform.config
    inner = (
        platform.config.network.egress == "both" and _placement(platform, worker) is platform.closed_placement
    )
    return config.workers.direct_steps > 0 and (
        not inner or platform.closed_placement is None or bool(config.triggers.queues)
    )


def _placement(platform: Platform, worker: Worker) -> Placement | None:
    """Code of playbooks runs outside the VPC, or in isolated subnets; neither has a way to the database."""
    if worker.isolated:
        return platform.code_placement
    return platform.worker_placement if worker.needs_network else platform.closed_placement


class FunctionWorker(Construct):
    """``function``: what runs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        worker: Worker,
        queue: QueueWithDlq,
        layers: Layers,
        api: ApiDoor,
        jobs: Jobs | None = None,
    ) -> None:
        """``jobs``: containers that the worker may run."""
        super().__init__(scope, id)
        asks = _asks(worker, api, reaches=worker.needs_network or platform.closed_placement is None)
        direct = _is_direct(platform, worker)
        self.function = PythonFunction(
            self,
            "Worker",
            env=platform.config,
            name=f"worker-{worker.name}",
            folder="worker",
            timeout=TIMEOUT,
            memory=worker.memory,
            storage=worker.storage,
            layers=layers.get(*worker.layers),
            log_key=platform.data.data_key,
            placement=_placement(platform, worker),
            variables=platform.worker_variables(
                worker.name,
                isolated=worker.isolated,
                public_url=api.url,
                api_url=asks.url if asks else "",
                direct=direct,
            )
            | (jobs.variable() if jobs else {}),
        )
        self.function.allow(*worker_grants(self, platform, worker, queue, asks, direct))
        self.function.allow(*(jobs.run_grants(self) if jobs else ()))
        self.function.consume(queue.queue, batch=worker.batch, concurrency=worker.concurrency)


class FargateWorker(Construct):
    """``service``: no task while the queue is empty, up to the worker's concurrency while it is not."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        worker: Worker,
        queue: QueueWithDlq,
        cluster: ecs.ICluster,
        image: ecs.ContainerImage,
        api: ApiDoor,
    ) -> None:
        super().__init__(scope, id)
        self._platform = platform
        config = platform.config
        asks = _asks(worker, api, reaches=True)
        direct = config.workers.direct_steps > 0
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            family=f"{config.prefix}-worker-{worker.name}",
            task_role=iam.Role(
                self,
                "Role",
                role_name=f"{config.prefix}-task-{worker.name}",
                assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"),
                description=f"What tasks of {worker.name} may do; the API knows them by its name",
            ),
            cpu=1024,
            memory_limit_mib=max(2048, worker.memory),
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64
                if config.arch == "arm64"
                else ecs.CpuArchitecture.X86_64,
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
        )
        logs = log_group(self, "Logs", config, f"worker-{worker.name}", platform.data.data_key)
        task.add_container(
            "Worker",
            image=image,
            logging=ecs.LogDrivers.aws_logs(stream_prefix="worker", log_group=logs),
            environment=platform.worker_variables(
                worker.name,
                isolated=worker.isolated,
                public_url=api.url,
                api_url=asks.url if asks else "",
                direct=direct,
            ),
            stop_timeout=cdk.Duration.seconds(120),
        )
        give(task.task_role, *worker_grants(self, platform, worker, queue, asks, direct))
        nag.acknowledge(task, "IAM5[Resource::*]", "the token that pulls images belongs to no repository")
        nag.acknowledge(task, "ECS2", "the variables name queues and buckets; none is a secret")
        self.service = self._service(worker, task, cluster)
        self._scale(worker, queue)

    def _service(
        self, worker: Worker, task: ecs.FargateTaskDefinition, cluster: ecs.ICluster
    ) -> ecs.FargateService:
        """Make the Fargate service of a worker.

        It runs in private subnets where workers are kept inside the VPC, else in a public subnet without inbound access.
        """
        platform = self._platform
        placement, outer, vpc = platform.worker_placement, platform.outer_subnets, platform.vpc
        assert vpc is not None
        inside = placement is not None and (not worker.isolated or outer is None)
        subnets = placement.subnets if inside and placement else outer
        if subnets is None:
            raise ConfigError(
                f"the worker {worker.name!r} is a Fargate service: network.existing has no public_subnets for it, "
                "and network.private_workers is off"
            )
        group = ec2.SecurityGroup(
            self, "Group", vpc=vpc, description=f"Tasks of {worker.name}: nothing connects to them"
        )
        return ecs.FargateService(
            self,
            "Service",
            service_name=f"{self._platform.config.prefix}-worker-{worker.name}",
            cluster=cluster,
            task_definition=task,
            desired_count=0,
            assign_public_ip=not inside,
            vpc_subnets=subnets,
            security_groups=[group],
            min_healthy_percent=0,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
        )

    def _scale(self, worker: Worker, queue: QueueWithDlq) -> None:
        """By what waits and what is being worked on, so that a task with one long command is not taken away from it."""
        scaling = self.service.auto_scale_task_count(min_capacity=0, max_capacity=worker.concurrency)
        depth = cloudwatch.MathExpression(
            expression="waiting + running",
            using_metrics={
                "waiting": queue.queue.metric_approximate_number_of_messages_visible(statistic="Maximum"),
                "running": queue.queue.metric_approximate_number_of_messages_not_visible(statistic="Maximum"),
            },
            period=cdk.Duration.minutes(1),
            label=f"commands of {worker.name}",
        )
        sizes = sorted(
            {min(count, worker.concurrency) for count in (1, 2, 5, 10, 20, 50, worker.concurrency)}
        )
        steps = [autoscaling.ScalingInterval(upper=0, change=0)]
        lower = 1
        for index, count in enumerate(sizes):
            last = index == len(sizes) - 1
            upper = None if last else count * BACKLOG_PER_TASK
            steps.append(autoscaling.ScalingInterval(lower=lower, upper=upper, change=count))
            lower = upper or lower
        scaling.scale_on_metric(
            "Depth",
            metric=depth,
            scaling_steps=steps,
            adjustment_type=autoscaling.AdjustmentType.EXACT_CAPACITY,
            cooldown=cdk.Duration.minutes(1),
        )
