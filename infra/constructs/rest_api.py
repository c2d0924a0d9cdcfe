"""The HTTPS door for environments that want it private, or behind a firewall: a REST API in front of the same function.

An HTTP API has neither an endpoint in a VPC nor a place for AWS WAF (ADR 83).
"""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_apigateway as gateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from ..config import Environment
from ..constructs import nag
from ..constructs.firewall import Firewall
from ..constructs.http_api import CALLBACK_BURST, CALLBACK_RATE, HttpApi

STAGE = "live"
ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "ip": "$context.identity.sourceIp",
    "caller": "$context.identity.userArn",
    "method": "$context.httpMethod",
    "route": "$context.resourcePath",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "firewall": "$context.waf.status",
    "error": "$context.integrationErrorMessage",
}
"""As of an HTTP API: never a body, a header or a path."""
CALLBACK = "/api/callbacks/{token}"


class RestApi(Construct):
    """``api``, ``url``, ``host`` and ``stage_name``; ``exported``: the name of the export of its id."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        env: Environment,
        function: lambda_.IFunction,
        access_log: logs.ILogGroup,
        endpoint: ec2.IVpcEndpoint | None,
    ) -> None:
        """``endpoint``: of a private API, from which alone it can be called."""
        super().__init__(scope, id)
        self.stage_name = STAGE
        # One permission for the API: one for each method would not fit into the function's policy.
        self._integration = gateway.LambdaIntegration(function, scope_permission_to_method=False)
        self.api = gateway.RestApi(
            self,
            "Api",
            rest_api_name=env.prefix,
            description="NoETL: playbooks and executions",
            endpoint_configuration=_endpoint(endpoint),
            policy=_only_through(endpoint) if endpoint is not None else None,
            binary_media_types=["*/*"],
            default_integration=self._integration,
            default_method_options=gateway.MethodOptions(authorization_type=gateway.AuthorizationType.IAM),
            deploy_options=_stage(env, access_log),
            cloud_watch_role=True,
            cloud_watch_role_removal_policy=cdk.RemovalPolicy.RETAIN,
            disable_execute_api_endpoint=bool(env.api.domain_name),
            domain_name=self._domain(env),
        )
        self._routes()
        if env.api.waf:
            Firewall(self, "Firewall", env=env, resource_arn=self.api.deployment_stage.stage_arn)
        self._acknowledge(firewall=env.api.waf)
        stack = cdk.Stack.of(self)
        name = (
            self.api.rest_api_id if endpoint is None else f"{self.api.rest_api_id}-{endpoint.vpc_endpoint_id}"
        )
        self.host: str = env.api.domain_name or f"{name}.execute-api.{stack.region}.{stack.url_suffix}"
        self.url = f"https://{self.host}" if env.api.domain_name else f"https://{self.host}/{STAGE}"
        self.exported = str(stack.resolve(stack.export_value(self.api.rest_api_id))["Fn::ImportValue"])

    @property
    def api_id(self) -> str:
        return str(self.api.rest_api_id)

    def _routes(self) -> None:
        """Everything is signed, but webhooks and callbacks, whose address is the credential.

        A resource that has children answers only what it has methods for, so each of these has one for all methods.
        """
        root = self.api.root
        root.add_method("ANY")
        root.add_resource("{proxy+}").add_method("ANY")
        api = root.add_resource("api")
        api.add_method("ANY")
        api.add_resource("{proxy+}").add_method("ANY")
        for noun, methods in (("hooks", ["POST"]), ("callbacks", ["GET", "POST"])):
            nouns = api.add_resource(noun)
            nouns.add_method("ANY")
            token = nouns.add_resource("{token}")
            token.add_method("ANY")
            for method in methods:
                opened = token.add_method(method, authorization_type=gateway.AuthorizationType.NONE)
                nag.acknowledge(opened, "APIG4", "the address is signed, and the function refuses any other")

    def _domain(self, env: Environment) -> gateway.DomainNameOptions | None:
        settings = env.api
        if not settings.domain_name:
            return None
        return gateway.DomainNameOptions(
            domain_name=settings.domain_name,
            certificate=acm.Certificate.from_certificate_arn(self, "Certificate", settings.certificate_arn),
            security_policy=gateway.SecurityPolicy.TLS_1_2,
            endpoint_type=gateway.EndpointType.REGIONAL,
        )

    def _acknowledge(self, *, firewall: bool) -> None:
        reasons = {
            "APIG2": "the function checks each request against its route, and says where it is wrong",
            "APIG6": "a log of executions of the API would hold bodies and addresses that are credentials",
            "COG4": "requests are signed with IAM, or their address is the credential",
            "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs]": (
                "AWS's own policy of the account's role with which API Gateway writes logs"
            ),
        }
        if not firewall:
            reasons["APIG3"] = "the API is private; api.waf puts a firewall in front of it as well"
        for rule, reason in reasons.items():
            nag.acknowledge(self.api, rule, reason)


def _endpoint(endpoint: ec2.IVpcEndpoint | None) -> gateway.EndpointConfiguration:
    if endpoint is None:
        return gateway.EndpointConfiguration(types=[gateway.EndpointType.REGIONAL])
    return gateway.EndpointConfiguration(types=[gateway.EndpointType.PRIVATE], vpc_endpoints=[endpoint])


def _only_through(endpoint: ec2.IVpcEndpoint) -> iam.PolicyDocument:
    """Refuse what comes another way. Who may call is the concern of each caller's own policy."""
    everyone = [iam.AnyPrincipal()]
    place = {"aws:SourceVpce": endpoint.vpc_endpoint_id}
    return iam.PolicyDocument(
        statements=[
            iam.PolicyStatement(
                principals=everyone, actions=["execute-api:Invoke"], resources=["execute-api:/*"]
            ),
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                principals=everyone,
                actions=["execute-api:Invoke"],
                resources=["execute-api:/*"],
                conditions={"StringNotEquals": place},
            ),
        ]
    )


def _stage(env: Environment, access_log: logs.ILogGroup) -> gateway.StageOptions:
    few = gateway.MethodDeploymentOptions(
        throttling_rate_limit=min(CALLBACK_RATE, env.api.rate_limit),
        throttling_burst_limit=min(CALLBACK_BURST, env.api.burst_limit),
        metrics_enabled=True,
    )
    return gateway.StageOptions(
        stage_name=STAGE,
        access_log_destination=gateway.LogGroupLogDestination(access_log),
        access_log_format=gateway.AccessLogFormat.custom(json.dumps(ACCESS_LOG)),
        metrics_enabled=True,
        tracing_enabled=env.tracing,
        throttling_rate_limit=env.api.rate_limit,
        throttling_burst_limit=env.api.burst_limit,
        method_options={f"{CALLBACK}/{method}": few for method in ("GET", "POST")},
    )


ApiDoor = HttpApi | RestApi
