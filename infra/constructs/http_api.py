"""The HTTPS door: an HTTP API that sends every request to one function, once its authoriser has agreed."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from ..config import Environment
from ..constructs import nag

ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "ip": "$context.identity.sourceIp",
    "caller": "$context.identity.caller",
    "subject": "$context.authorizer.claims.sub",
    "method": "$context.httpMethod",
    "route": "$context.routeKey",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "milliseconds": "$context.responseLatency",
    "error": "$context.integrationErrorMessage",
}
"""One line per request; never a body or a header, and no path: that of a callback is a secret.
The function's own log line of the same request has the path without the token."""
CALLBACKS = "/api/callbacks/{token}"
CALLBACK_RATE, CALLBACK_BURST = 20, 50
"""Requests a second, all callers together, of the one path that needs no signature."""


class HttpApi(Construct):
    """``api``, ``url`` and ``host`` (of the custom domain, when there is one); ``exported``: the name of the export of its id."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        env: Environment,
        function: lambda_.IFunction,
        access_log: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, id)
        self._env = env
        self.stage_name = "$default"
        domain = self._domain()
        self.api = gateway.HttpApi(
            self,
            "Api",
            api_name=env.prefix,
            description="NoETL: playbooks and executions",
            create_default_stage=False,
            disable_execute_api_endpoint=domain is not None,
            default_integration=integrations.HttpLambdaIntegration("Function", function),
            default_authorizer=self._authorizer(),
        )
        if env.api.auth == "jwt":
            # Workers have no tokens of people: they sign as their role, and show their command.
            self.api.add_routes(
                path="/api/keychain/{proxy+}",
                methods=[gateway.HttpMethod.GET],
                integration=integrations.HttpLambdaIntegration("Keychain", function),
                authorizer=authorizers.HttpIamAuthorizer(),
            )
        callbacks: list[gateway.HttpRoute] = []
        if env.api.auth != "none":
            # A webhook's address is all the credentials its sender has: the function looks at its signature.
            [hooks] = self.api.add_routes(
                path="/api/hooks/{token}",
                methods=[gateway.HttpMethod.POST],
                integration=integrations.HttpLambdaIntegration("Hooks", function),
                authorizer=gateway.HttpNoneAuthorizer(),
            )
            nag.acknowledge(hooks, "APIG4", "the address is signed, and the function refuses any other")
            callbacks = self._open_callbacks(function)
        stage = gateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            detailed_metrics_enabled=True,
            throttle=gateway.ThrottleSettings(rate_limit=env.api.rate_limit, burst_limit=env.api.burst_limit),
            domain_mapping=gateway.DomainMappingOptions(domain_name=domain) if domain else None,
        )
        _log_requests(stage, access_log)
        if callbacks:
            _throttle(stage, callbacks, env)
        stack = cdk.Stack.of(self)
        self.host: str = (
            env.api.domain_name or f"{self.api.api_id}.execute-api.{stack.region}.{stack.url_suffix}"
        )
        self.url = f"https://{env.api.domain_name}" if domain else self.api.api_endpoint
        self.exported = str(stack.resolve(stack.export_value(self.api.api_id))["Fn::ImportValue"])
        if env.api.auth == "none":
            nag.acknowledge(self.api, "APIG4", "an emulator on this machine authenticates no caller")

    @property
    def api_id(self) -> str:
        return str(self.api.api_id)

    def _authorizer(self) -> gateway.IHttpRouteAuthorizer:
        settings = self._env.api
        if settings.auth == "jwt":
            return authorizers.HttpJwtAuthorizer(
                "Tokens", settings.jwt_issuer, jwt_audience=list(settings.jwt_audience)
            )
        return authorizers.HttpIamAuthorizer() if settings.auth == "iam" else gateway.HttpNoneAuthorizer()

    def _open_callbacks(self, function: lambda_.IFunction) -> list[gateway.HttpRoute]:
        """Add the routes of callbacks; the token in the path is the only credential."""
        routes: list[gateway.HttpRoute] = self.api.add_routes(
            path=CALLBACKS,
            methods=[gateway.HttpMethod.GET, gateway.HttpMethod.POST],
            integration=integrations.HttpLambdaIntegration("Callbacks", function),
            authorizer=gateway.HttpNoneAuthorizer(),
        )
        for route in routes:
            nag.acknowledge(route, "APIG4", "the token in the path is the credential; the function proves it")
        return routes

    def _domain(self) -> gateway.DomainName | None:
        settings = self._env.api
        if not settings.domain_name:
            return None
        return gateway.DomainName(
            self,
            "Domain",
            domain_name=settings.domain_name,
            certificate=acm.Certificate.from_certificate_arn(self, "Certificate", settings.certificate_arn),
            security_policy=gateway.SecurityPolicy.TLS_1_2,
        )


def _throttle(stage: gateway.HttpStage, routes: list[gateway.HttpRoute], env: Environment) -> None:
    resource = stage.node.default_child
    assert isinstance(resource, gateway.CfnStage)
    limits = {
        "ThrottlingRateLimit": min(CALLBACK_RATE, env.api.rate_limit),
        "ThrottlingBurstLimit": min(CALLBACK_BURST, env.api.burst_limit),
        "DetailedMetricsEnabled": True,
    }
    resource.route_settings = {f"{method} {CALLBACKS}": limits for method in ("GET", "POST")}
    for route in routes:
        stage.node.add_dependency(route)


def _log_requests(stage: gateway.HttpStage, access_log: logs.ILogGroup) -> None:
    resource = stage.node.default_child
    assert isinstance(resource, gateway.CfnStage)
    resource.access_log_settings = gateway.CfnStage.AccessLogSettingsProperty(
        destination_arn=access_log.log_group_arn, format=json.dumps(ACCESS_LOG)
    )
