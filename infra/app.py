"""The CDK app: `cdk synth|diff|deploy --all -c env=dev`. It makes no call to AWS, and needs no Docker.

    Network ─> Data ─> Messaging ─> Engine ─> Workers, Api, Schedules ─> Observability

What holds data (Data) stands apart from what is deployed often, and the schema is migrated before anything that uses it changes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk

from infra import idle_cost
from infra.config import ConfigError, Environment
from infra.constructs import nag
from infra.constructs.layers import target_of
from infra.environments import load_environment
from infra.playbooks import playbook_files
from infra.shared import Platform
from infra.stacks import StackArguments
from infra.stacks.api import ApiStack
from infra.stacks.data import DataStack
from infra.stacks.engine import EngineStack
from infra.stacks.messaging import MessagingStack
from infra.stacks.network import NetworkStack
from infra.stacks.observability import ObservabilityStack
from infra.stacks.schedules import SchedulesStack
from infra.stacks.workers import WorkersStack
from infra.triggers import read_programs, triggers_of
from infra.workers import kinds_of_packages, plan_workers
from layers.build import LayerError, build_layer, digest_of, layer_names
from noetl.domain.kinds import KindLookup
from noetl.kinds.registry import default_registry

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
)
"""What the command line may say about an environment: `-c NAME=VALUE`."""


def build(app: cdk.App, config: Environment, kinds: KindLookup) -> None:
    """All stacks of one environment. Raises ConfigError or LayerError."""
    own_layers = set(layer_names()) - {"core", "deps"}
    plan = plan_workers(config, kinds, own_layers.__contains__)
    common = StackArguments(
        env=cdk.Environment(account=config.account, region=config.region),
        tags={"application": "noetl", **config.tags},
        synthesizer=cdk.DefaultStackSynthesizer(qualifier=config.qualifier) if config.qualifier else None,
        permissions_boundary=boundary_of(config),
    )

    def name(stack: str) -> str:
        return f"Noetl-{config.name}-{stack}"

    has_network = config.database.engine != "url"
    network = NetworkStack(app, name("Network"), config=config, **common) if has_network else None
    data = DataStack(
        app,
        name("Data"),
        config=config,
        network=network,
        **common,
    )
    messaging = MessagingStack(app, name("Messaging"), config=config, plan=plan, key=data.data_key, **common)
    platform = Platform(
        config=config,
        plan=plan,
        data=data,
        messaging=messaging,
        engine_placement=network.engine_placement if network else None,
        worker_placement=network.worker_placement if network else None,
        closed_placement=network.closed_placement if network else None,
        vpc=network.vpc if network else None,
        outer_subnets=network.outer_subnets if network else None,
        code=digest_of(build_layer("core", target_of(config))),
    )
    engine = EngineStack(app, name("Engine"), platform=platform, **common)
    triggers = triggers_of(read_programs(playbook_files(config.playbooks), kinds))
    api = ApiStack(app, name("Api"), platform=platform, triggers=triggers, **common)
    workers = WorkersStack(app, name("Workers"), platform=platform, api=api.http, **common)
    schedules = SchedulesStack(
        app, name("Schedules"), platform=platform, engine=engine, triggers=triggers, **common
    )
    for after in (workers, api, schedules):
        after.add_stack_dependency(engine, "the schema is migrated before what uses it changes")
    observed = {
        "api": api.function,
        "engine": engine.engine,
        "decide": engine.decide,
        "maintenance": engine.maintenance,
        "scheduler": schedules.function,
    } | {f"worker-{worker}": made.function for worker, made in workers.functions.items()}
    observability = ObservabilityStack(
        app,
        name("Observability"),
        platform=platform,
        api=api,
        functions={shown: made.function for shown, made in observed.items()},
        dlqs={"starts": schedules.dlq},
        **common,
    )
    _warn(config, observability, kinds, own_layers)


def boundary_of(config: Environment) -> cdk.PermissionsBoundary | None:
    """Return what every role is made with, those of the CDK's own functions included."""
    given = config.permissions_boundary
    if not given:
        return None
    return (
        cdk.PermissionsBoundary.from_arn(given)
        if given.startswith("arn:")
        else cdk.PermissionsBoundary.from_name(given)
    )


def _warn(config: Environment, stack: cdk.Stack, kinds: KindLookup, own_layers: set[str]) -> None:
    """What can be deployed, and will probably not do what is wanted."""
    warnings = cdk.Annotations.of(stack)
    if not (config.is_local or config.alarms.emails or config.alarms.topic_arn):
        warnings.add_warning_v2(
            "noetl:alarms", "alarms ring nowhere; name somebody: -c alarm_email=ops@example.com"
        )
    for name, package in sorted(kinds_of_packages().items()):
        if name in kinds.names() and name not in own_layers:
            warnings.add_warning_v2(
                f"noetl:layer-{name}",
                f"the kind {name} comes from {package}, which no layer carries: write {package} into "
                f"layers/deps/{name}.in, then `make lock`",
            )


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
