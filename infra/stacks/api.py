"""API: the function that answers, and the HTTPS door in front of it."""

from __future__ import annotations

import json
from typing import Unpack

import aws_cdk as cdk
from constructs import Construct

from ..constructs import grants
from ..constructs.http_api import HttpApi
from ..constructs.layers import Layers
from ..constructs.python_function import log_group
from ..constructs.rest_api import ApiDoor, RestApi
from ..shared import Platform
from ..stacks import StackArguments
from ..triggers import Triggers


class ApiStack(cdk.Stack):
    """``function`` and ``http``."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        triggers: Triggers,
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, **stack)
        config, messaging = platform.config, platform.messaging
        layers = Layers(self, "Layers", env=config)
        scopes = {"NOETL_SCOPES": json.dumps(dict(config.api.scopes))} if config.api.scopes else {}
        variables = scopes | {
            "NOETL_KMS_KEY_ID": platform.data.secrets_key.key_arn,
            "NOETL_WORKER_ROLES": ",".join(
                f"arn:*:sts::*:assumed-role/{pattern}"
                for pattern in (f"*/{config.prefix}-worker-*", f"{config.prefix}-task-*")
            ),
        }
        variables |= platform.trigger_variables(self, triggers)
        if config.workspace:
            variables["NOETL_WORKSPACE"] = config.workspace
        if config.api.domain_name:
            variables["NOETL_PUBLIC_URL"] = f"https://{config.api.domain_name}"
        self.function = platform.database_function(
            self,
            "api",
            timeout=29,
            layers=layers.get(),
            variables=variables,
            reads_history=config.database.queries,
        )
        self.function.allow(
            grants.measure([*messaging.queues().values(), *messaging.dead_letters().values()]),
            # To list dead letters of events and timers, send them back, and remove them. Those of commands are maintenance's alone.
            grants.take_out([messaging.events.dlq, messaging.timers.dlq]),
            *platform.schedule_grants(self),
            *platform.trigger_grants(self),
            # What an administrator prunes goes with its results.
            platform.result_objects(["s3:DeleteObject"], ["executions", "permanent"]),
            *platform.tier_grants(self, delete=True),
            grants.seal_credentials(platform.data.secrets_key),
            grants.credentials(
                self,
                config.credentials_prefix,
                [
                    "CreateSecret",
                    "DescribeSecret",
                    "GetSecretValue",
                    "PutSecretValue",
                    "UpdateSecret",
                    "DeleteSecret",
                    "RestoreSecret",
                    "TagResource",
                ],
            ),
            grants.grant_any(["secretsmanager:ListSecrets"], "AWS does not limit lists to a prefix"),
        )
        log = log_group(self, "AccessLog", config, "access", platform.data.data_key)
        self.http: ApiDoor
        if config.api.rest:
            self.http = RestApi(
                self,
                "Rest",
                env=config,
                function=self.function.target,
                access_log=log,
                endpoint=platform.api_endpoint,
            )
        else:
            self.http = HttpApi(self, "Http", env=config, function=self.function.target, access_log=log)
        cdk.CfnOutput(self, "ApiEndpoint", value=self.http.url)
        cdk.CfnOutput(self, "ApiAuth", value=config.api.auth)
        cdk.CfnOutput(self, "ApiId", value=self.http.api_id)
