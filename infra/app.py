"""The CDK app: `cdk synth|diff|deploy --all -c env=dev`.

It makes no call to AWS, and needs no Docker.

What it is made of: stacks_of.py. Apps of others: construct.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk

from noetl.kinds.registry import default_registry

from . import idle_cost
from .config import ConfigError
from .constructs import nag
from .environments import load_environment
from .layer_build import LayerError
from .stacks_of import build

CONTEXT = (
    "alarm_email",
    "alarm_topic",
    "auth",
    "backup_vault",
    "certificate_arn",
    "cidr",
    "database_url",
    "domain_name",
    "environments",
    "jwt_audience",
    "jwt_issuer",
    "like",
    "permissions_boundary",
    "playbooks",
    "tags",
    "trigger_queues",
    "ui",
    "ui_client_id",
)
"""What the command line may say about an environment: `-c NAME=VALUE`."""


def main() -> int:
    """Synthesise the environment that the context names; 3 with an explanation when it cannot be."""
    app = cdk.App()
    nag.add_checks(app)
    try:
        config = load_environment(str(app.node.try_get_context("env") or ""), given_context(app))
        build(app, config, default_registry())
        idle_cost.write(Path(app.synth().directory))
    except (ConfigError, LayerError, idle_cost.CostError) as error:
        print(f"noetl: {error}", file=sys.stderr)  # noqa: T201
        return 3
    return 0


def given_context(app: cdk.App) -> Mapping[str, str]:
    """What the command line says about the environment."""
    found = {key: app.node.try_get_context(key) for key in CONTEXT}
    return {key: str(value) for key, value in found.items() if value is not None}


if __name__ == "__main__":
    raise SystemExit(main())
