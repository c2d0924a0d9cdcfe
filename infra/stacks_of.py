"""The stacks of one environment, and how they fit.

    Network ─> Data ─> Messaging ─> Engine ─> Workers, Api, Schedules ─> Observability

What holds data (Data) is apart from what is deployed often, and the schema is migrated before anything that uses it changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from noetl.domain.kinds import KindLookup

from .config import Environment
from .constructs.layers import target_of
from .layer_build import build_layer, digest_of, layer_names
from .playbooks import playbook_files
from .shared import Platform
from .stacks import StackArguments
from .stacks.api import ApiStack
from .stacks.data import DataStack
from .stacks.engine import EngineStack
from .stacks.messaging import MessagingStack
from .stacks.network import NetworkStack
from .stacks.observability import ObservabilityStack
from .stacks.schedules import SchedulesStack
from .stacks.web import WebStack
from .stacks.workers import WorkersStack
from .triggers import read_programs, triggers_of
from .workers import kinds_of_packages, plan_workers


@dataclass(frozen=True, slots=True)
class Stacks:
    """What was built.

    ``network`` is None where the environment brings a database of its own (the emulator), ``web`` where it hosts no web UI.
    """

    network: NetworkStack | None
    data: DataStack
    messaging: MessagingStack
    engine: EngineStack
    workers: WorkersStack
    api: ApiStack
    schedules: SchedulesStack
    observability: ObservabilityStack
    web: WebStack | None = None


def build(app: Construct, config: Environment, kinds: KindLookup) -> Stacks:
    """Make all stacks of one environment in an app, a stage or a construct.

    Raises ConfigError or LayerError.
    """
    own_layers = set(layer_names()) - {"core", "deps"}
    plan = plan_workers(config, kinds, own_layers.__contains__)

    def name(stack: str) -> str:
        return f"Noetl-{config.name}-{stack}"

    def common(stack: str) -> StackArguments:
        return StackArguments(
            # The same name wherever the stacks are made: below a stage or a construct, the CDK would put its path in front.
            stack_name=name(stack),
            env=cdk.Environment(account=config.account, region=config.region),
            tags={"application": "noetl", **config.tags},
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=config.qualifier) if config.qualifier else None,
            permissions_boundary=boundary_of(config),
        )

    has_network = config.database.engine != "url"
    network = NetworkStack(app, name("Network"), config=config, **common("Network")) if has_network else None
    data = DataStack(
        app,
        name("Data"),
        config=config,
        network=network,
        **common("Data"),
    )
    messaging = MessagingStack(
        app, name("Messaging"), config=config, plan=plan, key=data.data_key, **common("Messaging")
    )
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
        code_placement=network.code_placement if network else None,
        api_endpoint=network.api_endpoint if network else None,
        code=digest_of(build_layer("core", target_of(config))),
    )
    engine = EngineStack(app, name("Engine"), platform=platform, **common("Engine"))
    triggers = triggers_of(read_programs(playbook_files(config.playbooks), kinds))
    api = ApiStack(app, name("Api"), platform=platform, triggers=triggers, **common("Api"))
    workers = WorkersStack(app, name("Workers"), platform=platform, api=api.http, **common("Workers"))
    schedules = SchedulesStack(
        app, name("Schedules"), platform=platform, engine=engine, triggers=triggers, **common("Schedules")
    )
    web = None
    if config.ui is not None:
        web = WebStack(
            app, name("Web"), platform=platform, ui=config.ui, engine=engine, api=api.http, **common("Web")
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
        **common("Observability"),
    )
    _warn(config, observability, kinds, own_layers)
    return Stacks(network, data, messaging, engine, workers, api, schedules, observability, web)


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
            "noetl:alarms", "alarms reach no person; set a receiver: -c alarm_email=ops@example.com"
        )
    for name, package in sorted(kinds_of_packages().items()):
        if name in kinds.names() and name not in own_layers:
            warnings.add_warning_v2(
                f"noetl:layer-{name}",
                f"the kind {name} comes from {package}, which no layer carries: write {package} into "
                f"layers/deps/{name}.in, then `make lock`",
            )
