"""Observability: alarms with actions, and one dashboard."""

from __future__ import annotations

from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.alarms import FIVE_MINUTES, Alarms, metric, row
from infra.shared import Platform
from infra.stacks import StackArguments
from infra.stacks.api import ApiStack

CONNECTIONS_ALARM = 0.9
"""Part of max_connections at which somebody should look: the functions alone stay below 0.8."""


class ObservabilityStack(cdk.Stack):
    """``functions``: every function by the name to show."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        api: ApiStack,
        functions: dict[str, lambda_.IFunction],
        dlqs: dict[str, sqs.IQueue],
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, **stack)
        self._platform = platform
        self._functions = functions
        self.alarms = Alarms(self, "Alarms", prefix=platform.config.prefix, topic=self._topic())
        self._watch_queues()
        for name, function in functions.items():
            self.alarms.of_function(name, function)
        self._watch_api(api)
        self._watch_engine()
        for name, queue in dlqs.items():
            self.alarms.of_dlq(name, queue)
        self._dashboard(api)

    def _topic(self) -> sns.ITopic | None:
        config = self._platform.config.alarms
        if config.topic_arn:
            return sns.Topic.from_topic_arn(self, "Topic", config.topic_arn)
        if not config.emails:
            return None
        topic = sns.Topic(
            self,
            "Topic",
            topic_name=f"{self._platform.config.prefix}-alarms",
            master_key=self._platform.data.data_key,
            enforce_ssl=True,
        )
        for address in config.emails:
            topic.add_subscription(subscriptions.EmailSubscription(address))
        return topic

    def _watch_queues(self) -> None:
        config = self._platform.config.alarms
        for name, queue in self._platform.messaging.queues().items():
            commands = name.startswith("commands-")
            age = config.command_age_seconds if commands else config.event_age_seconds
            self.alarms.of_age(name, queue, age_seconds=age + (900 if name == "timers" else 0))
        for name, queue in self._platform.messaging.dead_letters().items():
            self.alarms.of_dlq(name, queue)

    def _watch_api(self, api: ApiStack) -> None:
        self.alarms.above(
            "api-5xx",
            api.http.api.metric_server_error(period=FIVE_MINUTES, statistic="Sum"),
            0,
            "the API answered with a server error",
            periods=2,
        )

    def _watch_engine(self) -> None:
        for name, function in (("refused-events", "engine"), ("refused-requests", "decide")):
            self.alarms.above(
                name,
                self._refused(function),
                0,
                "the engine refused events whose token does not fit: a worker speaks for what is not its own, or a key was lost",
            )
        database = self._platform.data.database
        if database is not None:
            most = self._platform.config.database.max_connections
            self.alarms.above(
                "database-connections",
                metric("AWS/RDS", "DatabaseConnections", database.dimensions, "Maximum"),
                int(most * CONNECTIONS_ALARM),
                f"the database holds almost all of its {most} connections",
                periods=3,
            )

    def _refused(self, function: str) -> cloudwatch.Metric:
        service = self._platform.function_name(function)
        return metric("NoETL", "RefusedEvents", {"service": service}, "Sum", period=FIVE_MINUTES)

    def _dashboard(self, api: ApiStack) -> None:
        queues = self._platform.messaging.queues()
        functions = self._functions.values()
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=self._platform.config.prefix)
        dashboard.add_widgets(
            row(
                "Messages sent per minute",
                [queue.metric_number_of_messages_sent(label=name) for name, queue in queues.items()],
            ),
            row(
                "Age of the oldest message (s)",
                [
                    queue.metric_approximate_age_of_oldest_message(label=name)
                    for name, queue in queues.items()
                ],
            ),
        )
        dashboard.add_widgets(
            row("Invocations", [function.metric_invocations() for function in functions]),
            row("Duration p95 (ms)", [function.metric_duration(statistic="p95") for function in functions]),
        )
        dashboard.add_widgets(
            row("Errors", [function.metric_errors() for function in functions]),
            row(
                "Given up",
                [
                    queue.metric_approximate_number_of_messages_visible(label=name)
                    for name, queue in self._platform.messaging.dead_letters().items()
                ],
            ),
        )
        dashboard.add_widgets(
            row(
                "API requests",
                [
                    api.http.api.metric_count(),
                    api.http.api.metric_client_error(),
                    api.http.api.metric_server_error(),
                ],
            ),
            row("API latency p95 (ms)", [api.http.api.metric_latency(statistic="p95")]),
        )
        database = self._platform.data.database
        if database is not None:
            dashboard.add_widgets(
                row(
                    "Database connections",
                    [metric("AWS/RDS", "DatabaseConnections", database.dimensions, "Maximum")],
                ),
                row("Refused events", [self._refused("engine"), self._refused("decide")]),
            )
        dashboard.add_widgets(
            row(
                "Events and starts that the API turned away",
                [_counted("api", "RefusedEvents"), _counted("api", "BacklogRefusals")],
            ),
            row(
                "Waiting, and fetched by workers over HTTP",
                [
                    _counted("maintenance", "BacklogEvents", "Maximum"),
                    _counted("maintenance", "BacklogCommands", "Maximum"),
                    _counted("api", "Claims"),
                ],
            ),
        )


def _counted(service: str, name: str, statistic: str = "Sum") -> cloudwatch.Metric:
    """What a function counts of itself."""
    return metric("NoETL", name, {"service": service}, statistic, period=FIVE_MINUTES)
