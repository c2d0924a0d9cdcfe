"""Schedules: what starts playbooks by itself.

Registered last, when everything that a playbook may use is there.
"""

from __future__ import annotations

import json
from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from noetl.dsl.program import S3Trigger
from noetl.dsl.triggers import event_pattern

from ..constructs import grants
from ..constructs.jobs import wake_by_rule
from ..constructs.layers import Layers
from ..constructs.queue_with_dlq import dead_letter_queue
from ..shared import Platform
from ..stacks import StackArguments
from ..stacks.engine import EngineStack
from ..triggers import QueueTrigger, RuleTrigger, Triggers

TIMEOUT = 30
ATTEMPTS = 24
"""Times EventBridge tries to hand an event over, within a day."""


class SchedulesStack(cdk.Stack):
    """``function``: what schedules and triggers invoke. ``dlq``: starts that could not be delivered to it, or that it failed."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        engine: EngineStack,
        triggers: Triggers,
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, **stack)
        config = platform.config
        self.dlq = dead_letter_queue(self, "Dlq", platform.starts_dlq_name, platform.data.data_key)
        layers = Layers(self, "Layers", env=config)
        self.function = platform.database_function(
            self,
            "scheduler",
            timeout=TIMEOUT,
            layers=layers.get(),
            dead_letter_queue=self.dlq,
            variables={"NOETL_TRIGGER_QUEUES": json.dumps(triggers.paths_by_queue())},
        )
        for rule in triggers.rules:
            self._start_by_rule(rule)
        for queue in triggers.queues:
            self._start_by_queue(queue)
        if config.triggers.queues:
            self.function.allow(*grants.read_named(self, config.triggers.queues))
        if config.containers is not None:
            wake_by_rule(self, platform, self.function.target, self.dlq, ATTEMPTS)
        self._start_by_made_rules(platform.trigger_rules)
        group = scheduler.CfnScheduleGroup(self, "Group", name=config.prefix)
        self._register(engine, group, self._role(platform))

    def _role(self, platform: Platform) -> iam.Role:
        """What EventBridge Scheduler takes on: it may invoke this one function."""
        made = iam.Role(
            self,
            "ScheduleRole",
            role_name=platform.function_name("schedules"),
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": self.account}}
            ),
        )
        grants.give(made, grants.grant(["lambda:InvokeFunction"], [self.function.target.function_arn]))
        return made

    def _register(self, engine: EngineStack, group: scheduler.CfnScheduleGroup, role: iam.Role) -> None:
        """Put the environment's playbooks into the catalog, and their schedules into the group."""
        if engine.playbooks is None:
            return
        registered = cdk.CustomResource(
            self,
            "Playbooks",
            service_token=engine.provider.service_token,
            resource_type="Custom::NoetlPlaybooks",
            properties={
                "Bucket": engine.playbooks.s3_bucket_name,
                "Key": engine.playbooks.s3_object_key,
                "Digest": engine.playbooks.asset_hash,
            },
        )
        registered.node.add_dependency(group, role, self.function)

    def _start_by_made_rules(self, prefix: str) -> None:
        """Rules that the API makes while the system runs: known by how their names begin."""
        rules = self.format_arn(service="events", resource="rule", resource_name=f"{prefix}*")
        service = iam.ServicePrincipal("events.amazonaws.com")
        self.function.target.add_permission("FromTriggers", principal=service, source_arn=rules)
        self.dlq.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[service],
                actions=["sqs:SendMessage"],
                resources=[self.dlq.queue_arn],
                conditions={"ArnLike": {"aws:SourceArn": rules}},
            )
        )

    def _start_by_rule(self, found: RuleTrigger) -> None:
        """The rule itself is written out: CDK's own knows the fields of patterns, playbooks give whole patterns."""
        bus = "default" if isinstance(found.trigger, S3Trigger) else found.trigger.bus
        target = events.CfnRule.TargetProperty(
            id="scheduler",
            arn=self.function.target.function_arn,
            input_transformer=events.CfnRule.InputTransformerProperty(
                input_paths_map={"event": "$"},
                input_template=(
                    f'{{"trigger": {json.dumps(found.trigger.name)}, "path": {json.dumps(found.path)}, "event": <event>}}'
                ),
            ),
            retry_policy=events.CfnRule.RetryPolicyProperty(
                maximum_retry_attempts=ATTEMPTS, maximum_event_age_in_seconds=86_400
            ),
            dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=self.dlq.queue_arn),
        )
        rule = events.CfnRule(
            self,
            f"Rule-{found.id}",
            description=f"Starts {found.path} ({found.trigger.name})",
            event_bus_name=bus,
            event_pattern=event_pattern(found.trigger),
            targets=[target],
        )
        service = iam.ServicePrincipal("events.amazonaws.com")
        self.function.target.add_permission(f"From-{found.id}", principal=service, source_arn=rule.attr_arn)
        self.dlq.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[service],
                actions=["sqs:SendMessage"],
                resources=[self.dlq.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
            )
        )

    def _start_by_queue(self, found: QueueTrigger) -> None:
        """Start playbooks by a queue. Its owner sets up its key and its dead-letter queue."""
        arn = found.queue
        if not arn.startswith("arn:"):
            arn = f"arn:{self.partition}:sqs:{self.region}:{self.account}:{found.queue}"
        queue = sqs.Queue.from_queue_arn(self, f"Queue-{found.queue.rpartition(':')[2]}", arn)
        self.function.allow(grants.consume(queue))
        self.function.consume(queue, batch=found.batch, concurrency=2)
