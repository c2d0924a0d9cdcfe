"""Alarms: made in one way, so that none is without an action and all read alike."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

MINUTE = cdk.Duration.minutes(1)
FIVE_MINUTES = cdk.Duration.minutes(5)
NEAR_TIMEOUT = 0.8
"""Part of a function's time that an invocation may take."""


class Alarms(Construct):
    """Alarms of one environment; ``all`` in the order they were made."""

    def __init__(self, scope: Construct, id: str, *, prefix: str, topic: sns.ITopic | None) -> None:
        super().__init__(scope, id)
        self._prefix = prefix
        self._topic = topic
        self.all: list[cloudwatch.Alarm] = []

    def above(
        self, name: str, metric: cloudwatch.IMetric, threshold: float, description: str, *, periods: int = 1
    ) -> cloudwatch.Alarm:
        """Rings when ``metric`` is above ``threshold`` for ``periods``.

        No data is good news: nothing happened.
        """
        return self._alarm(name, metric, threshold, description, periods, silence=False)

    def silent(self, name: str, metric: cloudwatch.IMetric, description: str) -> cloudwatch.Alarm:
        """Rings when ``metric`` is not counted for a period: no data is the bad news."""
        return self._alarm(name, metric, 1, description, 1, silence=True)

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        description: str,
        periods: int,
        *,
        silence: bool,
    ) -> cloudwatch.Alarm:
        compared, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._prefix}-{name}",
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=compared.LESS_THAN_THRESHOLD if silence else compared.GREATER_THAN_THRESHOLD,
            evaluation_periods=periods,
            treat_missing_data=missing.BREACHING if silence else missing.NOT_BREACHING,
        )
        if self._topic is not None:
            alarm.add_alarm_action(actions.SnsAction(self._topic))
            alarm.add_ok_action(actions.SnsAction(self._topic))
        self.all.append(alarm)
        return alarm

    def of_dlq(self, name: str, queue: sqs.IQueue) -> None:
        """Something was given up."""
        self.above(
            f"{name}-dlq",
            queue.metric_approximate_number_of_messages_visible(period=MINUTE, statistic="Maximum"),
            0,
            f"messages of {name} could not be delivered: read them, mend the cause, redrive (docs/operations.md)",
        )

    def of_age(self, name: str, queue: sqs.IQueue, *, age_seconds: int) -> None:
        """The oldest message waits too long."""
        self.above(
            f"{name}-age",
            queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum"),
            age_seconds,
            f"the oldest message of {name} waits longer than {age_seconds} s: its consumer fails or is too small",
            periods=3,
        )

    def of_function(self, name: str, function: lambda_.IFunction, *, timeout: int | None) -> None:
        """It fails, or AWS does not let it run, or it may soon be stopped (``timeout``: after so many seconds; None: it stops by itself)."""
        self.above(
            f"{name}-errors",
            function.metric_errors(period=FIVE_MINUTES, statistic="Sum"),
            0,
            f"invocations of {name} failed",
            periods=2,
        )
        self.above(
            f"{name}-throttles",
            function.metric_throttles(period=FIVE_MINUTES, statistic="Sum"),
            0,
            f"invocations of {name} were refused for lack of concurrency",
            periods=3,
        )
        if timeout is not None:
            self.above(
                f"{name}-duration",
                function.metric_duration(period=FIVE_MINUTES, statistic="Maximum"),
                timeout * 1000 * NEAR_TIMEOUT,
                f"invocations of {name} take more than {NEAR_TIMEOUT:.0%} of the {timeout} s after which Lambda stops them",
                periods=3,
            )
        self.above(
            f"{name}-dropped",
            function.metric("RecursiveInvocationsDropped", period=FIVE_MINUTES, statistic="Sum"),
            0,
            f"Lambda took {name} for a runaway loop and dropped invocations: executions stop (set RecursiveLoop: Allow)",
        )


def metric(
    namespace: str,
    name: str,
    dimensions: dict[str, str],
    statistic: str,
    *,
    period: cdk.Duration = MINUTE,
) -> cloudwatch.Metric:
    """A metric that no construct offers."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=period,
    )


def row(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    """A graph of half a dashboard's width."""
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=12)
