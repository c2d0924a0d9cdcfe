"""Schedules: what starts playbooks by itself. Registered last, when everything that a playbook may use is there."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs.layers import Layers
from infra.shared import Platform
from infra.stacks.engine import EngineStack

TIMEOUT = 30


class SchedulesStack(cdk.Stack):
    """``function``: what schedules and triggers invoke."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, engine: EngineStack, **stack: object
    ) -> None:
        super().__init__(scope, id, **stack)  # type: ignore[arg-type]
        config = platform.config
        layers = Layers(self, "Layers", env=config)
        self.function = platform.database_function(self, "scheduler", timeout=TIMEOUT, layers=layers.get())
        group = scheduler.CfnScheduleGroup(self, "Group", name=config.prefix)
        role = self._role(platform)
        if engine.playbooks is not None:
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
        made.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[self.function.function.function_arn]
            )
        )
        return made
