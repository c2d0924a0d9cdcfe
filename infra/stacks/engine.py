"""Engine: the functions that decide and keep house, and the migration that runs before they change."""

from __future__ import annotations

from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import custom_resources
from constructs import Construct

from ..constructs import grants, nag
from ..constructs.layers import Layers
from ..constructs.python_function import PythonFunction, log_group
from ..playbooks import staged
from ..shared import Platform
from ..stacks import StackArguments
from ..stacks.messaging import ENGINE_TIMEOUT

BATCH = 10
"""Messages of a FIFO queue that one invocation gets, at most."""
DEAD_LETTERS_AT_ONCE = 2
"""Invocations of maintenance that take dead letters: fewer than are reserved for it (config.py), so that its tick always runs."""


class EngineStack(cdk.Stack):
    """``provider``: service token of custom resources that functions/migrate answers. ``playbooks``: what is registered at deploy."""

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, **stack: Unpack[StackArguments]
    ) -> None:
        super().__init__(scope, id, **stack)
        self._platform = platform
        self._layers = Layers(self, "Layers", env=platform.config)
        self.migrate = self._migrate()
        self.playbooks = self._playbooks()
        self.provider = self._provider()
        migration = cdk.CustomResource(
            self,
            "Migration",
            service_token=self.provider.service_token,
            resource_type="Custom::NoetlMigration",
            properties={"Digest": platform.code},
        )
        self.engine = self._engine()
        self.decide = self._decide()
        self.maintenance = self._maintenance()
        for made in (self.engine, self.decide, self.maintenance):
            made.node.add_dependency(migration)

    def _engine(self) -> PythonFunction:
        platform = self._platform
        messaging = platform.messaging
        made = platform.database_function(self, "engine", timeout=ENGINE_TIMEOUT, layers=self._layers.get())
        timers = platform.config.timer_concurrency
        made.allow(
            grants.consume(messaging.events.queue),
            grants.consume(messaging.timers.queue),
            # What the engine cannot do anything with it lays aside itself.
            grants.send([messaging.events.dlq, messaging.timers.dlq]),
            # Whether what a keychain names exists; never what is in it.
            grants.credentials(self, platform.config.credentials_prefix, ["DescribeSecret"]),
        )
        made.consume(
            messaging.events.queue,
            batch=BATCH,
            concurrency=platform.config.functions["engine"].reserved - timers,
            fifo=True,
        )
        made.consume(messaging.timers.queue, batch=BATCH, concurrency=timers)
        return made

    def _decide(self) -> PythonFunction:
        """The engine by request.

        Apart from the engine that reads queues: its reservation bounds the requests, and workers, which may invoke
        it, cannot pass for a queue.
        """
        platform = self._platform
        made = platform.database_function(self, "decide", timeout=ENGINE_TIMEOUT, layers=self._layers.get())
        made.allow(grants.credentials(self, platform.config.credentials_prefix, ["DescribeSecret"]))
        return made

    def _maintenance(self) -> PythonFunction:
        """Every now and then; and what workers could not do, as soon as it is known."""
        platform = self._platform
        messaging = platform.messaging
        # A tick that fails is not repeated: the next one comes.
        made = platform.database_function(
            self, "maintenance", timeout=55, layers=self._layers.get(), retries=0
        )
        made.allow(
            platform.result_objects(["s3:DeleteObject"], ["executions", "permanent", "revoked"]),
            *platform.tier_grants(self, delete=True),
            grants.measure([*messaging.queues().values()]),
            *(grants.consume(queue) for queue in messaging.dead_letters().values()),
        )
        made.consume(messaging.dead_commands, batch=BATCH, concurrency=DEAD_LETTERS_AT_ONCE)
        events.Rule(
            self,
            "Sweep",
            rule_name=f"{platform.config.prefix}-maintenance",
            description="Publishes what was left behind",
            schedule=events.Schedule.rate(cdk.Duration.minutes(platform.config.database.sweep_minutes)),
            targets=[
                targets.LambdaFunction(
                    made.target,
                    event=events.RuleTargetInput.from_object({"noetl": "tick"}),
                    max_event_age=cdk.Duration.minutes(1),
                    retry_attempts=0,
                )
            ],
        )
        return made

    def _migrate(self) -> PythonFunction:
        platform = self._platform
        made = platform.database_function(self, "migrate", timeout=300, layers=self._layers.get(), owner=True)
        made.allow(*platform.schedule_grants(self))
        return made

    def _playbooks(self) -> s3_assets.Asset | None:
        """A zip of the environment's playbooks, which the function may read."""
        folders = self._platform.config.playbooks
        if not folders:
            return None
        asset = s3_assets.Asset(self, "Playbooks", path=str(staged(folders)))
        self.migrate.allow(
            grants.grant(["s3:GetObject"], [asset.bucket.arn_for_objects(asset.s3_object_key)])
        )
        return asset

    def _provider(self) -> custom_resources.Provider:
        """Return CDK's provider, which calls the migration for CloudFormation.

        It answers CloudFormation from outside the VPC, also when the migration fails.
        """
        config = self._platform.config
        provider = custom_resources.Provider(
            self,
            "Provider",
            on_event_handler=self.migrate.function,
            log_group=log_group(self, "ProviderLogs", config, "provider", self._platform.data.data_key),
        )
        nag.acknowledge_provider(provider, self.migrate.function)
        return provider
