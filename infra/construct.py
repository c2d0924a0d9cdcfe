"""An environment of NoETL in a CDK app of your own, from the installed package as from a checkout.

from noetl_cdk import NoetlEnvironment, environment

noetl = NoetlEnvironment(app, "Workflows", config=environment("orders", like="prod"))
noetl.grant_call(function, "POST", "/api/executions")
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from noetl.domain.kinds import KindLookup
from noetl.kinds.registry import default_registry

from .config import Environment
from .environments import load_environment
from .places import HOME
from .stacks_of import build


class NoetlEnvironment(Construct):
    """``stacks``: of the environment, each under its own name (`Noetl-<name>-…`).

    ``scope`` is an app or a stage. Your stacks and these find each other by references: the CDK orders them.
    """

    def __init__(
        self, scope: Construct, id: str, *, config: Environment, kinds: KindLookup | None = None
    ) -> None:
        """Raises ConfigError or LayerError."""
        super().__init__(scope, id)
        for name, value in flags().items():
            # The flags that these stacks are written for, regardless of those of the app.
            self.node.set_context(name, value)
        self.config = config
        self.stacks = build(self, config, kinds or default_registry())

    @property
    def api_url(self) -> str:
        """A token, until it is deployed."""
        return self.stacks.api.http.url

    def grant_call(self, grantee: iam.IGrantable, method: str, path: str) -> iam.Grant:
        """Let a principal call one path of the API (``*`` at its end: all below it); for ``auth: iam``."""
        api = self.stacks.api
        arn = api.format_arn(
            service="execute-api",
            resource=api.http.api_id,
            resource_name=f"{api.http.stage_name}/{method}/{path.lstrip('/')}",
        )
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["execute-api:Invoke"], resource_arns=[arn]
        )


def environment(name: str, *, like: str = "", file: str = "", **changes: object) -> Environment:
    """Return a preset, an environment of ``file``, or a new one ``like`` these.

    ``changes``: fields that differ. Raises ConfigError.
    """
    context = {key: value for key, value in (("like", like), ("environments", file)) if value}
    found = load_environment(name, context)
    return replace(found, **changes) if changes else found  # type: ignore[arg-type]


def flags() -> Mapping[str, Any]:
    """Feature flags of the CDK, as these stacks are written for them (cdk.json)."""
    found: dict[str, Any] = json.loads((HOME / "cdk.json").read_text("utf-8"))["context"]
    return found
