"""Environments: those that ship are right, and what must not be deployed is refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from infra.config import BackupConfig, ConfigError, Environment, ExistingVpc, FunctionConfig
from infra.environments import NAMES, load_environment
from infra.trigger_queues import TriggersConfig

DEV = load_environment("dev")
PROD = load_environment("prod")
VPC = ExistingVpc(
    id="vpc-0123456789abcdef0",
    cidr="10.1.0.0/16",
    zones=("eu-central-1a", "eu-central-1b"),
    engine_subnets=("subnet-0a00000000000001", "subnet-0a00000000000002"),
)


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_is_right(name: str) -> None:
    assert load_environment(name).name == name


def test_queues_of_triggers_come_from_the_command_line_or_the_environment() -> None:
    assert DEV.triggers.queues == () and load_environment("local").triggers.queues == ("noetl-local-in-*",)
    assert load_environment("prod", {"trigger_queues": "orders, in-*"}).triggers.queues == ("orders", "in-*")


def test_account_and_region_come_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_ACCOUNT", "123456789012")
    monkeypatch.setenv("NOETL_REGION", "eu-central-1")
    made = load_environment("prod")
    assert (made.account, made.region) == ("123456789012", "eu-central-1")


def database(env: Environment, **changes: Any) -> dict[str, Any]:
    return {"database": replace(env.database, **changes)}


def network(env: Environment, **changes: Any) -> dict[str, Any]:
    return {"network": replace(env.network, **changes)}


def api(env: Environment, **changes: Any) -> dict[str, Any]:
    return {"api": replace(env.api, **changes)}


def storage(env: Environment, **changes: Any) -> dict[str, Any]:
    return {"storage": replace(env.storage, **changes)}


def queues(*names: str) -> dict[str, Any]:
    return {"triggers": TriggersConfig(queues=names)}


def functions(env: Environment, **changes: int) -> dict[str, Any]:
    changed = {name: FunctionConfig(memory=512, reserved=count) for name, count in changes.items()}
    return {"functions": {**env.functions, **changed}}


@pytest.mark.parametrize(
    ("env", "changes", "problem"),
    [
        (DEV, {"name": "Dev!"}, "lower-case letters"),
        (DEV, {"account": "12"}, "12 digits"),
        (DEV, {"python": "2.7"}, "python '2.7'"),
        (DEV, {"arch": "sparc"}, "neither arm64 nor x86_64"),
        (DEV, {"functions": {}}, "api, decide, engine, maintenance, migrate, scheduler"),
        (DEV, {"retention": replace(DEV.retention, logs=8)}, "not 8"),
        (DEV, {"retention": replace(DEV.retention, executions=0)}, "executions cannot be kept 0 days"),
        (DEV, storage(DEV, kv_auto_bytes=2**21), "kv_auto_bytes 2097152"),
        (DEV, storage(DEV, cache_mb=500), "cache_mb 500"),
        (DEV, storage(DEV, variables={"NOETL_STORAGE_KV_TABLE": "x"}), "cannot set NOETL_STORAGE_KV_TABLE"),
        (DEV, storage(DEV, variables={"NOETL_STORAGE_MINIO_SECRET_KEY": "x"}), "would show a secret"),
        (
            DEV,
            queues("in-orders", "https://sqs/1/q"),
            "'https://sqs/1/q', which is neither a name nor an ARN",
        ),
        (DEV, queues("noetl-dev-in-*", "*"), "'*', which reaches queues of the engine itself"),
        (DEV, queues("noetl-*"), "begin it with noetl-dev-in-"),
        (DEV, queues("no*"), "'no*', which reaches"),
        (DEV, queues("noetl-dev-timers"), "'noetl-dev-timers', which reaches"),
        (DEV, queues("arn:aws:sqs:eu-west-1:123456789012:noetl-prod-in-*"), "reaches queues of the engine"),
        (DEV, api(DEV, auth="none"), "auth none would open the API"),
        (DEV, api(DEV, auth="jwt"), "needs jwt_issuer"),
        (DEV, api(DEV, domain_name="api.example.com"), "certificate_arn"),
        (DEV, database(DEV, engine="url", url="postgresql://x"), "password in templates"),
        (DEV, database(DEV, proxy=True), "never pauses"),
        (DEV, database(DEV, pause_after_minutes=1), "5 to 1440"),
        (DEV, database(DEV, max_acu=0.5), "not within 0 to 256"),
        (DEV, database(DEV, max_connections=2000), "more than its largest capacity holds (378)"),
        (DEV, network(DEV, egress="none"), "could not reach their queues"),
        (DEV, network(DEV, nat_gateways=0), "0 NAT gateways"),
        (DEV, network(DEV, egress="endpoints", private_workers=True), "private_workers need egress"),
        (DEV, network(DEV, nat_gateways=3), "more than one for each of 2 zones"),
        (DEV, network(DEV, cidr="10.0.0.0/8"), "'10.0.0.0/8' is not /16 to /20"),
        (DEV, network(DEV, cidr="8.8.0.0/16"), "a range of the internet"),
        (DEV, network(DEV, cidr="ten"), "no range of addresses"),
        (DEV, network(DEV, existing=replace(VPC, id="my-vpc")), "no id of a VPC"),
        (DEV, network(DEV, existing=replace(VPC, zones=("eu-central-1a",))), "at least two zones"),
        (DEV, network(DEV, existing=replace(VPC, public_subnets=("public-1",))), "no id of a subnet"),
        (DEV, network(DEV, existing=replace(VPC, engine_subnets=())), "has 0 subnets for 2 zones"),
        (DEV, {"name": "dev-worker"}, "'worker' behind a hyphen"),
        (DEV, {"name": "a-name-that-is-long"}, "2 to 16"),
        (DEV, {"name": "two--hyphens"}, "single hyphens"),
        (DEV, storage(DEV, version_days=400), "version_days 400"),
        (PROD, {"backup": BackupConfig(copy_to="vault")}, "no ARN of a backup vault"),
        (PROD, {"backup": BackupConfig(keep_days=0)}, "kept at least one day"),
        (DEV, network(DEV, zones=4), "zones is 2 or 3"),
        (DEV, functions(DEV, engine=3), "engine needs a reserved concurrency of at least 4"),
        (DEV, functions(DEV, maintenance=2), "maintenance needs a reserved concurrency of at least 3"),
        (
            DEV,
            functions(DEV, api=100, engine=43),
            "160 connections (api 100 + engine 43 + decide 10 + scheduler 3 + maintenance 3 + migrate 1), but only 159",
        ),
        (PROD, database(PROD, proxy=False, max_connections=500), "put a proxy in front"),
    ],
)
def test_what_must_not_be_deployed_is_refused(
    env: Environment, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        replace(env, **changes)
    assert problem in str(refused.value)


def test_connections_may_reach_but_not_pass_their_share() -> None:
    """159 of 200 are less than 80%; a proxy multiplexes, so no sum is too large behind one."""
    assert replace(DEV, **functions(DEV, api=100, engine=42)).connections() == 159
    behind = replace(PROD, **database(PROD, proxy=True))
    assert replace(behind, **functions(PROD, api=5000)).connections() > PROD.database.max_connections


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"python.*arch.*auth none"):
        replace(DEV, python="2.7", arch="sparc", **api(DEV, auth="none"))


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no environment 'tset'; choose one: cdk synth -c env=local\|dev"):
        load_environment("tset")
