"""The environments: `-c env=local|dev|staging|prod`. Edit these numbers; the rules are in config.py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from infra.config import (
    AlarmsConfig,
    ApiConfig,
    Auth,
    ConfigError,
    DatabaseConfig,
    Environment,
    FunctionConfig,
    NetworkConfig,
    RetentionConfig,
    StorageConfig,
    WorkersConfig,
)
from infra.trigger_queues import TriggersConfig
from layers.build import Target

EXAMPLES = Path(__file__).resolve().parents[1] / "playbooks" / "examples"
NAMES = ("local", "dev", "staging", "prod")


def load_environment(name: str, context: Mapping[str, str] | None = None) -> Environment:
    """The environment of this name. ``context``: settings from the command line (``-c database_url=…``, ``-c alarm_email=…``).

    Account and region come from NOETL_ACCOUNT and NOETL_REGION, or are left open. Raises ConfigError.
    """
    given = dict(context or {})
    if name not in NAMES:
        raise ConfigError(f"there is no environment {name!r}; choose one: cdk synth -c env={'|'.join(NAMES)}")
    made = {"local": _local, "dev": _dev, "staging": _staging, "prod": _prod}[name]
    return made(given)


def _local(given: Mapping[str, str]) -> Environment:
    """An emulator on this machine: its Python, its processor, nothing that the emulator does not know."""
    target = Target.of_host()
    url = given.get("database_url", "")
    return Environment(
        name="local",
        account=None,
        region=None,
        python=target.python,
        arch=target.arch,
        database=DatabaseConfig(
            engine="url" if url else "instance", url=url, max_connections=100, backup_days=0, protected=False
        ),
        network=NetworkConfig(egress="none", flow_logs=False),
        functions=_functions(api=10, engine=10, decide=4, others=3),
        workers=WorkersConfig(pooled=True, default_concurrency=4),
        api=ApiConfig(auth="none"),
        retention=RetentionConfig(logs=1, executions=7),
        storage=StorageConfig(kv_auto_bytes=64 * 1024, point_in_time=False, cache_mb=64),
        triggers=_triggers(given, ("noetl-local-in-*",)),
        playbooks=_folders(given, ()),
        http_allow=("127.0.0.1", "localhost"),
        workspace="workspace",
        data_folders=tuple(sorted({str(file.parent) for file in EXAMPLES.glob("*/*.csv")})),
    )


def _dev(given: Mapping[str, str]) -> Environment:
    """Costs little while nobody uses it: the database pauses, no NAT gateway, light kinds share a worker."""
    return Environment(
        name="dev",
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora",
            min_acu=0,
            max_acu=2,
            max_connections=200,
            backup_days=1,
            protected=False,
        ),
        network=NetworkConfig(egress="endpoints"),
        functions=_functions(api=10, engine=10, decide=10, others=3),
        workers=WorkersConfig(pooled=True),
        api=_api(given),
        retention=RetentionConfig(logs=7, executions=30),
        storage=StorageConfig(point_in_time=False),
        alarms=_alarms(given),
        triggers=_triggers(given),
        playbooks=_folders(given, ("playbooks/examples",)),
        tags={"environment": "dev"},
    )


def _staging(given: Mapping[str, str]) -> Environment:
    """Production's shape at a smaller size."""
    return Environment(
        name="staging",
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora", min_acu=0.5, max_acu=4, max_connections=400, multi_az=True, rotation_days=30
        ),
        network=NetworkConfig(egress="both", nat_gateways=1, private_workers=True),
        functions=_functions(api=40, engine=40, decide=40, others=5),
        workers=WorkersConfig(pooled=False, default_concurrency=20),
        api=_api(given),
        alarms=_alarms(given),
        triggers=_triggers(given),
        tracing=True,
        playbooks=_folders(given, ("playbooks/examples",)),
        tags={"environment": "staging"},
    )


def _prod(given: Mapping[str, str]) -> Environment:
    """Survives the loss of a zone; nothing with data in it goes when a stack goes."""
    return Environment(
        name="prod",
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora",
            min_acu=2,
            max_acu=32,
            max_connections=2000,
            multi_az=True,
            proxy=True,
            backup_days=35,
            rotation_days=30,
        ),
        network=NetworkConfig(egress="both", zones=3, nat_gateways=3, endpoint_zones=3, private_workers=True),
        functions=_functions(api=200, engine=200, decide=100, others=10, memory=1769),
        workers=WorkersConfig(pooled=False, default_concurrency=100),
        api=_api(given, rate_limit=2000, burst_limit=4000),
        retention=RetentionConfig(logs=90, executions=180),
        alarms=_alarms(given),
        triggers=_triggers(given),
        tracing=True,
        playbooks=_folders(given, ()),
        tags={"environment": "prod"},
    )


def _functions(
    *, api: int, engine: int, decide: int, others: int, memory: int = 1024
) -> dict[str, FunctionConfig]:
    return {
        "api": FunctionConfig(memory=memory, reserved=api),
        "engine": FunctionConfig(memory=memory, reserved=engine),
        # How many outcomes are decided by request at once; what is throttled goes through the queue.
        "decide": FunctionConfig(memory=memory, reserved=decide),
        "scheduler": FunctionConfig(memory=512, reserved=others),
        "maintenance": FunctionConfig(memory=512, reserved=others),
        "migrate": FunctionConfig(memory=512, reserved=1),
    }


def _api(given: Mapping[str, str], *, rate_limit: int = 100, burst_limit: int = 200) -> ApiConfig:
    """Signed requests, unless the command line names another way or a token issuer."""
    issuer = given.get("jwt_issuer", "")
    auth: Auth = "jwt" if issuer else "iam"
    if given.get("auth") == "none":
        auth = "none"
    return ApiConfig(
        auth=auth,
        jwt_issuer=issuer,
        jwt_audience=_list(given.get("jwt_audience", "")),
        domain_name=given.get("domain_name", ""),
        certificate_arn=given.get("certificate_arn", ""),
        rate_limit=rate_limit,
        burst_limit=burst_limit,
    )


def _alarms(given: Mapping[str, str]) -> AlarmsConfig:
    return AlarmsConfig(emails=_list(given.get("alarm_email", "")), topic_arn=given.get("alarm_topic", ""))


def _triggers(given: Mapping[str, str], default: tuple[str, ...] = ()) -> TriggersConfig:
    return TriggersConfig(queues=_list(given["trigger_queues"]) if "trigger_queues" in given else default)


def _folders(given: Mapping[str, str], default: tuple[str, ...]) -> tuple[str, ...]:
    return _list(given["playbooks"]) if "playbooks" in given else default


def _list(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _account() -> str | None:
    return os.environ.get("NOETL_ACCOUNT") or None


def _region() -> str | None:
    return os.environ.get("NOETL_REGION") or None
