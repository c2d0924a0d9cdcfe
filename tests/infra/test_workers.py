"""Which workers there are follows from the registry of kinds and the environment alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from infra.config import Access, ConfigError, ContainersConfig
from infra.environments import load_environment
from infra.workers import WorkerPlan, plan_workers
from noetl.domain.kinds import KindSpec
from noetl.kinds.registry import Registry
from tests.infra.made_up import kind, registry_with

DEV = load_environment("dev")
PROD = load_environment("prod")


LIGHT = (
    "artifact",
    "container",
    "eventbridge",
    "gcs",
    "http",
    "lambda",
    "postgres",
    "resolve",
    "s3",
    "secrets",
    "snowflake",
)


def plan(env: object = DEV, *specs: KindSpec) -> WorkerPlan:
    return plan_workers(env, registry_with(*specs), {"duckdb"}.__contains__)  # type: ignore[arg-type]


def shape(made: WorkerPlan) -> dict[str, tuple[str, ...]]:
    return {worker.name: worker.kinds for worker in made.workers}


def test_light_kinds_are_pooled_where_the_environment_says_so() -> None:
    alone = {name: (name,) for name in ("duckdb", "python", "script", "shell", "transfer")}
    mixed = {"mixed": tuple(sorted({*LIGHT, *alone}))}
    assert shape(plan()) == {"io": LIGHT} | alone | mixed
    long = {"long": mixed["mixed"]}
    assert shape(plan(PROD)) == {name: (name,) for name in LIGHT} | alone | mixed | long


def test_tasks_that_say_they_are_long_have_a_worker_without_an_end_where_the_environment_wants_one() -> None:
    assert "long" not in plan().routes
    made = plan(replace(DEV, workers=replace(DEV.workers, long=True)))
    workers = {worker.name: worker for worker in made.workers}
    assert (workers["long"].compute, made.routes["long"]) == ("fargate", "long")
    assert workers["long"].kinds == workers["mixed"].kinds and workers["mixed"].compute == "function"


def test_containers_have_a_worker_of_their_own_where_there_are_any() -> None:
    assert "container" in shape(plan())["io"]
    made = shape(plan(replace(DEV, containers=ContainersConfig())))
    assert (
        made["container"] == ("container",) and "container" not in made["io"] and "container" in made["mixed"]
    )


def test_every_kind_that_runs_has_a_worker_and_the_rewritten_ones_none() -> None:
    routes = plan().routes
    assert routes == {
        **dict.fromkeys(LIGHT, "io"),
        "duckdb": "duckdb",
        "noop": "io",
        "playbook": "io",
        "python": "python",
        "script": "script",
        "shell": "shell",
        "transfer": "transfer",
        "wait": "io",
    }
    assert plan(PROD).routes["noop"] == "http"


def test_only_code_of_playbooks_is_isolated_and_brings_small_batches() -> None:
    workers = {worker.name: worker for worker in plan().workers}
    assert {name for name, worker in workers.items() if worker.isolated} == {"python", "script", "shell"}
    assert {name: worker.batch for name, worker in workers.items()} == {
        "duckdb": 10,
        "io": 10,
        "mixed": 5,
        "python": 5,
        "script": 5,
        "shell": 5,
        "transfer": 10,
    }
    assert all(workers[name].layers == ("duckdb",) for name in ("duckdb", "mixed", "transfer"))
    assert workers["io"].layers == ()


def test_a_kind_appears_by_being_registered() -> None:
    made = plan(DEV, kind("kafka"), kind("sandboxed", pool="python"), kind("crunch", pool="cpu"))
    assert shape(made)["io"] == tuple(sorted({*LIGHT, "kafka"}))
    assert shape(made)["sandboxed"] == ("sandboxed",)
    assert made.routes["crunch"] == "crunch"


@pytest.mark.parametrize("by_config", [True, False])
def test_long_work_runs_on_fargate_and_in_no_mixed_pipeline(by_config: bool) -> None:
    env = replace(DEV, workers=replace(DEV.workers, fargate_kinds=("spark",))) if by_config else DEV
    made = plan(env, kind("spark", long_running=not by_config))
    workers = {worker.name: worker for worker in made.workers}
    assert workers["spark"].compute == "fargate"
    assert "spark" not in workers["mixed"].kinds


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (kind("mixed"), "cannot be called mixed"),
        (kind("io"), "cannot be called io"),
        (kind("My Kind", pool="cpu"), "'My Kind' cannot name a queue"),
        (kind("k" * 40, pool="cpu"), "cannot name a queue"),
    ],
)
def test_names_that_cannot_be_queues_are_refused(spec: KindSpec, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(DEV, spec)
    assert problem in str(refused.value)


def test_a_kind_that_cannot_be_loaded_is_named() -> None:
    broken = Registry({"gone": "noetl.kinds.no_such_module"}, discover=False)
    with pytest.raises(ConfigError, match=r"kind 'gone' cannot be planned.*no_such_module"):
        plan_workers(DEV, broken, lambda name: False)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (
            {"s4": (Access(actions=("s3:GetObject",), resources=("arn:aws:s3:::a/*",)),)},
            "names the kind 's4'",
        ),
        (
            {"python": (Access(actions=("s3:GetObject",), resources=("arn:aws:s3:::a/*",)),)},
            "runs code of playbooks",
        ),
        ({"s3": (Access(actions=("s3:*",), resources=("arn:aws:s3:::a/*",)),)}, "is no action"),
        ({"s3": (Access(actions=("s3:GetObject",), resources=("*",)),)}, "is no ARN"),
        ({"s3": (Access(actions=("s3:GetObject",), resources=("arn:aws:s3:::*",)),)}, "is no ARN"),
    ],
)
def test_access_that_names_too_much_or_nothing_is_refused(
    access: dict[str, tuple[Access, ...]], words: str
) -> None:
    env = replace(DEV, workers=replace(DEV.workers, access=access))
    with pytest.raises(ConfigError, match=re.escape(words)):
        plan(env)
