"""cdk-nag runs over every stack and fails the synthesis.

What it finds and we mean is acknowledged here, each with a reason.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks
from constructs import Construct, IConstruct


def add_checks(app: cdk.App) -> None:
    """Check the whole app against AWS's Solutions rules."""
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))


def acknowledge(scope: IConstruct, rule: str, reason: str) -> None:
    """A finding that is meant, on ``scope`` and everything in it.

    ``rule``: as in a report, without the pack's name (`RDS3`, `IAM5[Resource::…]`).
    """
    cdk.Validations.of(scope).acknowledge(
        cdk.Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason)
    )


def acknowledge_provider(scope: Construct, handler: lambda_.IFunction) -> None:
    """The function that CDK itself brings for custom resources that ``handler`` answers."""
    policy = "arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
    acknowledge(
        scope,
        f"IAM4[Policy::{policy}]",
        "CDK's provider framework allows its own function to write logs",
    )
    resource = handler.node.default_child
    assert isinstance(resource, lambda_.CfnFunction)
    name = cdk.Stack.of(handler).get_logical_id(resource)
    acknowledge(
        scope,
        f"IAM5[Resource::<{name}.Arn>:*]",
        "CDK's provider framework may invoke every version of its one handler",
    )
    acknowledge(scope, "L1", "the runtime of CDK's own functions comes with the pinned version of CDK")
