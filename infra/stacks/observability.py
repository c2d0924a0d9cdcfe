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

from ..constructs.alarms import FIVE_MINUTES, Alarms, metric, row
from ..shared import Platform
from ..stacks import StackArguments
from ..stacks.api import ApiStack

BUSY_DATABASE = 90
"""Percent of capacity and of the processor."""
CONCURRENCY_ALARM = 80
"""Percent of the account's concurrency."""
CONNECTIONS_ALARM = 0.9
"""Part of max_connections at which an operator should look: the functions alone stay below 0.8."""

DECIDING = ("engine", "decide", "api")
"""Functions that run the engine: by queue, by request, and for starts."""


class ObservabilityStack(cdk.Stack):
    """``functions``: every function by the name to show."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        api: ApiStack,
        functions: dict[str, lambda_.Function],
        dlqs: dict[str, sqs.IQueue],
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, **stack)
        self._platform = platform
        self._functions = functions
        self.alarms = Alarms(self, "Alarms", prefix=platform.config.prefix, topic=self._topic())
        self._watch_queues()
        if platform.config.alarms.level == "all":
            for name, function in functions.items():
                # A worker uses its time up on purpose, and returns the remaining commands five seconds before the end.
                timeout = None if name.startswith("worker-") else _seconds(function)
                self.alarms.of_function(name, function, timeout=timeout)
            if not platform.config.is_local:
                # Emulators know no arithmetic of metrics, and have no quota to compare with.
                self._watch_account()
        else:
            self._watch_engine_function(functions["engine"])
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
        few = config.level == "few"
        for name, queue in self._platform.messaging.queues().items():
            if few and name != "events":
                continue
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
                self._counted(function, "RefusedEvents"),
                0,
                "the engine refused events whose token does not fit: a worker speaks for what is not its own, or a key was lost",
            )
        minutes = self._platform.config.database.sweep_minutes
        self.alarms.silent(
            "heartbeat",
            # Two ticks, and never less than five minutes: one tick may be late.
            self._counted("maintenance", "Heartbeats", period=cdk.Duration.minutes(max(5, 2 * minutes))),
            f"maintenance did not get through a tick in {max(5, 2 * minutes)} minutes: lost commands and due timers are not picked up",
        )
        self.alarms.above(
            "failed-executions",
            self._failed(),
            self._platform.config.alarms.failed_executions,
            "executions ended failed: a playbook, or what it calls",
        )
        self._watch_database()

    def _watch_engine_function(self, engine: lambda_.IFunction) -> None:
        """Watch errors of the engine function, which every execution needs, where few alarms are wanted."""
        self.alarms.above(
            "engine-errors",
            engine.metric_errors(period=FIVE_MINUTES, statistic="Sum"),
            0,
            "invocations of engine failed",
            periods=2,
        )

    def _watch_account(self) -> None:
        """Watch the concurrency that all functions of the account and region share.

        Without free concurrency no worker runs.
        """
        used = metric(
            "AWS/Usage",
            "ConcurrentExecutions",
            {"Type": "Resource", "Resource": "ConcurrentExecutions", "Service": "Lambda", "Class": "None"},
            "Maximum",
            period=FIVE_MINUTES,
        )
        self.alarms.above(
            "account-concurrency",
            cloudwatch.MathExpression(
                expression="used / SERVICE_QUOTA(used) * 100",
                using_metrics={"used": used},
                period=FIVE_MINUTES,
            ),
            CONCURRENCY_ALARM,
            f"functions of this account use more than {CONCURRENCY_ALARM}% of its concurrency: workers are refused next",
        )

    def _watch_database(self) -> None:
        database = self._platform.data.database
        if database is not None and self._platform.config.alarms.level == "all":
            if self._platform.config.database.engine == "aurora":
                self.alarms.above(
                    "database-capacity",
                    metric("AWS/RDS", "ACUUtilization", database.dimensions, "Average", period=FIVE_MINUTES),
                    BUSY_DATABASE,
                    f"the database uses more than {BUSY_DATABASE}% of its largest capacity",
                    periods=3,
                )
            self.alarms.above(
                "database-cpu",
                metric("AWS/RDS", "CPUUtilization", database.dimensions, "Average", period=FIVE_MINUTES),
                BUSY_DATABASE,
                f"the database computes more than {BUSY_DATABASE}% of its time",
                periods=3,
            )
        if database is not None:
            most = self._platform.config.database.max_connections
            self.alarms.above(
                "database-connections",
                metric("AWS/RDS", "DatabaseConnections", database.dimensions, "Maximum"),
                int(most * CONNECTIONS_ALARM),
                f"the database holds almost all of its {most} connections",
                periods=3,
            )

    def _failed(self) -> cloudwatch.IMetric:
        """Executions that ended failed, in the function that decided it.

        Emulators know no arithmetic of metrics: there, those of one.
        """
        if self._platform.config.is_local:
            return self._counted(DECIDING[0], "FailedExecutions")
        counts = {name: self._counted(name, "FailedExecutions") for name in DECIDING}
        return cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in counts),
            using_metrics=counts,
            period=FIVE_MINUTES,
            label="FailedExecutions",
        )

    def _counted(
        self, function: str, name: str, statistic: str = "Sum", *, period: cdk.Duration = FIVE_MINUTES
    ) -> cloudwatch.Metric:
        """What a function counts of itself.

        Its service is its name: without the environment's, no metric would be found.
        """
        service = self._platform.function_name(function)
        return metric("NoETL", name, {"service": service}, statistic, period=period)

    def _waiting(self, name: str) -> cloudwatch.IMetric:
        """What maintenance finds waiting; it counts nothing while there is nothing."""
        found = self._counted("maintenance", name, "Maximum")
        return cloudwatch.MathExpression(
            expression=f"FILL({name.lower()}, 0)", using_metrics={name.lower(): found}, label=name
        )

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
                row("Refused events", [self._counted(name, "RefusedEvents") for name in DECIDING[:2]]),
            )
            dashboard.add_widgets(
                row(
                    "Database capacity and processor (%)",
                    [
                        metric("AWS/RDS", name, database.dimensions, "Average", period=FIVE_MINUTES)
                        for name in ("ACUUtilization", "CPUUtilization")
                    ],
                ),
                row("Throttles", [function.metric_throttles() for function in functions]),
            )
        dashboard.add_widgets(
            row("Executions that failed", [self._counted(name, "FailedExecutions") for name in DECIDING]),
            row("Ticks of maintenance", [self._counted("maintenance", "Heartbeats")]),
        )
        dashboard.add_widgets(
            row(
                "Events and starts that the API turned away",
                [self._counted("api", "RefusedEvents"), self._counted("api", "BacklogRefusals")],
            ),
            row(
                "Waiting, and fetched by workers over HTTP",
                [
                    self._waiting("BacklogEvents"),
                    self._waiting("BacklogCommands"),
                    self._counted("api", "Claims"),
                ],
            ),
        )


def _seconds(function: lambda_.Function) -> int:
    assert function.timeout is not None  # every function of this repository has one
    return int(function.timeout.to_seconds())
