"""Versions of a function behind an alias.

CodeDeploy sends a tenth of the work to a new version, and rolls it back when it fails (ADR 61)."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from ..constructs import nag

LIVE = "live"
"""The alias that queues, rules, schedules and the API invoke."""
_POLICY = "service-role/AWSCodeDeployRoleForLambdaLimited"


def rolled_out(
    scope: Construct, function: lambda_.Function, name: str, *, retries: int, max_age: cdk.Duration
) -> lambda_.Alias:
    """Return the alias.

    ``retries`` and ``max_age`` are of asynchronous invocations: those of the function do not hold for an alias.

    The previous versions stay: an alias can be pointed back at one by hand.
    """
    version = function.current_version
    version.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    alias = lambda_.Alias(
        scope,
        "Live",
        alias_name=LIVE,
        version=version,
        retry_attempts=retries,
        max_event_age=max_age,
    )
    alarm = cloudwatch.Alarm(
        scope,
        "Release",
        alarm_name=f"{name}-release",
        alarm_description="invocations failed: a deployment that is under way goes back to the version before",
        metric=alias.metric_errors(period=cdk.Duration.minutes(1), statistic="Sum"),
        threshold=0,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluation_periods=1,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
    codedeploy.LambdaDeploymentGroup(
        scope,
        "Rollout",
        application=_application(cdk.Stack.of(scope)),
        alias=alias,
        role=_role(cdk.Stack.of(scope)),
        deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
        alarms=[alarm],
        auto_rollback=codedeploy.AutoRollbackConfig(
            deployment_in_alarm=True, failed_deployment=True, stopped_deployment=True
        ),
    )
    return alias


def _application(stack: cdk.Stack) -> codedeploy.LambdaApplication:
    """Return the one application of a stack."""
    found = stack.node.try_find_child("Rollouts")
    if found is None:
        found = codedeploy.LambdaApplication(stack, "Rollouts")
    return found


def _role(stack: cdk.Stack) -> iam.Role:
    found = stack.node.try_find_child("RolloutRole")
    if found is None:
        found = iam.Role(
            stack,
            "RolloutRole",
            assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"),
            description="Shifts aliases of functions from one version to the next",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_POLICY)],
        )
        nag.acknowledge(
            found,
            f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}]",
            "what CodeDeploy needs for aliases, kept by AWS",
        )
    return found
