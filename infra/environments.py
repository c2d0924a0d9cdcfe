"""The presets of environments: `-c env=local|dev|staging|prod`.

The rules are in config.py, further environments in a file of yours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from noetl.dsl.diagnostics import did_you_mean
from noetl.runtime.server.ui_build import ui_folder

from .config import (
    AlarmsConfig,
    ApiConfig,
    Auth,
    BackupConfig,
    ConfigError,
    DatabaseConfig,
    Environment,
    FunctionConfig,
    NetworkConfig,
    RetentionConfig,
    StorageConfig,
    WorkersConfig,
    name_problem,
)
from .environment_file import read_file
from .layer_build import Target
from .places import HOME
from .trigger_queues import TriggersConfig
from .ui_config import UiConfig

EXAMPLES = HOME / "playbooks" / "examples"
NAMES = ("local", "dev", "staging", "prod")
"""Presets. Others are made like one of these: by a file of environments, or by `-c like=dev`."""


def load_environment(name: str, context: Mapping[str, str] | None = None) -> Environment:
    """Return the environment of this name.

    ``context``: settings from the command line (``-c database_url=…``, ``-c alarm_email=…``).

    It is a preset, or in the file of environments (``environments``, environment_file.py), or made ``like`` one of them.
    Account and region come from NOETL_ACCOUNT and NOETL_REGION, or are left open. Raises ConfigError.
    """
    given = dict(context or {})
    file = read_file(given.get("environments", ""))
    known = list(dict.fromkeys((*NAMES, *file.names)))
    like = given.get("like", "")
    if name not in known and not like:
        raise ConfigError(_unknown(name, known))
    if problem := name_problem(name):
        raise ConfigError(problem)
    if like and like not in known:
        raise ConfigError(f"like={like}: {_unknown(like, known)}")
    if "local" in (like, *file.bases_of(name)) and name != "local":
        raise ConfigError("no environment can be like local, which is for an emulator on this machine")
    base = file.preset_of(like or name, NAMES)
    made = _PRESETS[base](name, given)
    made = file.apply(like or name, made)
    return _from_command_line(made, given)


def _unknown(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known) if name else None
    said = f"there is no environment {name!r}; {hint or 'choose one'}: cdk synth -c env={'|'.join(known)}"
    return f"{said}; a new one is like another: -c env={name} -c like=dev" if name and not hint else said


def _from_command_line(made: Environment, given: Mapping[str, str]) -> Environment:
    """What `-c` says about any environment comes last."""
    tags = dict(_pair(one) for one in _list(given.get("tags", "")))
    if tags:
        made = replace(made, tags={**made.tags, **tags})
    if "cidr" in given:
        made = replace(made, network=replace(made.network, cidr=given["cidr"]))
    if "ui_client_id" in given:
        made = replace(made, ui=replace(made.ui or UiConfig(), client_id=given["ui_client_id"]))
    if "permissions_boundary" in given:
        made = replace(made, permissions_boundary=given["permissions_boundary"])
    return made


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise ConfigError(f"tags has {text!r}: write tags=team=data,cost-center=42")
    return name.strip(), value.strip()


def _local(name: str, given: Mapping[str, str]) -> Environment:
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
        ui=UiConfig() if given.get("ui") != "off" and (ui_folder() / "index.html").is_file() else None,
        workspace="workspace",
        data_folders=tuple(sorted({str(file.parent) for file in EXAMPLES.glob("*/*.csv")})),
    )


def _dev(name: str, given: Mapping[str, str]) -> Environment:
    """Return the preset `dev`, which costs little while idle.

    The database pauses, one small machine forwards outbound traffic, light kinds share a worker (ADR 60).
    """
    return Environment(
        name=name,
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora",
            min_acu=0,
            max_acu=2,
            max_connections=200,
            pause_after_minutes=5,
            sweep_every=120,
            backup_days=1,
            protected=False,
        ),
        network=NetworkConfig(egress="nat", nat="instance", nat_gateways=1, flow_logs=False),
        functions=_functions(api=10, engine=10, decide=10, others=3),
        workers=WorkersConfig(pooled=True),
        api=_api(given),
        retention=RetentionConfig(logs=7, executions=30),
        storage=StorageConfig(point_in_time=False),
        alarms=_alarms(given, level="few"),
        triggers=_triggers(given),
        playbooks=_folders(given, ("playbooks/examples",)),
        tags={"environment": name},
    )


def _staging(name: str, given: Mapping[str, str]) -> Environment:
    """Production's shape at a smaller size."""
    return Environment(
        name=name,
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora", min_acu=0.5, max_acu=4, max_connections=400, multi_az=True, rotation_days=30
        ),
        network=NetworkConfig(egress="nat", nat_gateways=1, private_workers=True),
        functions=_functions(api=40, engine=40, decide=40, others=5),
        workers=WorkersConfig(pooled=False, default_concurrency=20, long=True),
        api=_api(given),
        storage=StorageConfig(version_days=7),
        alarms=_alarms(given),
        triggers=_triggers(given),
        tracing=True,
        deploys="canary",
        playbooks=_folders(given, ("playbooks/examples",)),
        tags={"environment": name},
    )


def _prod(name: str, given: Mapping[str, str]) -> Environment:
    """Survives the loss of a zone; nothing with data in it goes when a stack goes."""
    return Environment(
        name=name,
        account=_account(),
        region=_region(),
        database=DatabaseConfig(
            engine="aurora",
            min_acu=1.5,
            max_acu=32,
            max_connections=2000,
            multi_az=True,
            backup_days=35,
            rotation_days=30,
        ),
        network=NetworkConfig(egress="nat", zones=3, nat_gateways=3, private_workers=True),
        functions=_functions(api=200, engine=200, decide=100, others=10, memory=1769),
        workers=WorkersConfig(pooled=False, default_concurrency=100, long=True),
        api=_api(given, rate_limit=2000, burst_limit=4000),
        retention=RetentionConfig(logs=90, executions=180),
        storage=StorageConfig(version_days=30),
        backup=BackupConfig(copy_to=given.get("backup_vault", "")),
        alarms=_alarms(given),
        triggers=_triggers(given),
        tracing=True,
        deploys="canary",
        playbooks=_folders(given, ()),
        tags={"environment": name},
    )


_PRESETS: Mapping[str, Callable[[str, Mapping[str, str]], Environment]] = {
    "local": _local,
    "dev": _dev,
    "staging": _staging,
    "prod": _prod,
}


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


def _alarms(given: Mapping[str, str], *, level: Literal["all", "few"] = "all") -> AlarmsConfig:
    return AlarmsConfig(
        emails=_list(given.get("alarm_email", "")), topic_arn=given.get("alarm_topic", ""), level=level
    )


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
