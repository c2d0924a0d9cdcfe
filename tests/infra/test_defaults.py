"""What the design depends on is set in the templates, not left to a default of AWS: held to the table of docs/aws-defaults.md."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.templates import Place, Templates
from tests.unit.services.test_outages import RECEIVES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "aws-defaults.md"
both = pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)
ROW = re.compile(
    r"^\| `(AWS::[A-Za-z0-9:]+)` \|([^|]*)\| `([A-Za-z0-9._]+)` \| ([^|]+) \| ([^|]+) \|", re.MULTILINE
)

LIMIT = re.compile(r"^\| ([A-Z][^|]+) \| ([^|]+) \| (\d*) \| (?:`([a-z_.]+\.[A-Z_]+)`)? ?\| ", re.MULTILINE)
"""Service, limit, value of AWS, constant that holds to it."""


@pytest.fixture
def name(assembly: Path) -> str:
    return assembly.name.rstrip("0123456789")


@pytest.fixture
def templates(assembly: Path, name: str) -> Templates:
    return Templates(assembly, f"Noetl-{name}-")


def rows() -> list[tuple[str, str, str, str]]:
    """(type, words that its name has to hold, property, values that are set), from the table."""
    found = [
        (kind, ",".join(re.findall(r"`([^`]+)`", which)), path, values.strip())
        for kind, which, path, _, values in ROW.findall(PAGE.read_text("utf-8"))
    ]
    assert len(found) > 30, "the table could not be read"
    return found


def concerned(templates: Templates, kind: str, which: str) -> Iterator[Place]:
    """Resources of a row: by their name, `!` in front of what it must not hold. The CDK's own functions and alarms of scaling have none."""
    for place in templates.all(kind):
        names = [place.properties.get(key) for key in ("FunctionName", "QueueName", "AlarmName")]
        name = next((found for found in names if isinstance(found, str)), None)
        if kind in ("AWS::Lambda::Function", "AWS::CloudWatch::Alarm") and name is None:
            continue
        words = [word for word in which.split(",") if word]
        shown = f"{name or place.id}"
        if all((word[1:] not in shown) if word.startswith("!") else (word in shown) for word in words):
            yield place


def value(properties: Mapping[str, Any], path: str) -> Any:
    """``path``: names joined by dots; a name may have dots itself (``rds.force_ssl``)."""
    found: Any = properties
    rest = path
    while rest:
        if isinstance(found, dict) and rest in found:
            return found[rest]
        part, _, rest = rest.partition(".")
        found = found[int(part)] if part.isdigit() else found.get(part)
        if found is None:
            return None
    return found


@both
def test_every_default_that_the_design_depends_on_is_set(templates: Templates, name: str) -> None:
    for kind, which, path, values in rows():
        places = list(concerned(templates, kind, which))
        allowed = values.strip("` ")
        if not places:
            assert name not in values and " only)" in values, f"no {kind} {which}: the row is stale"
            continue
        for place in places:
            found = value(place.properties, path)
            shown = f"{place}: {path} is {found!r}, the page says {values}"
            if allowed == "set":
                assert found is not None, shown
            else:
                wanted = [each.strip("` ") for each in re.sub(r"\(.*?\)", "", allowed).split(" or ")]
                assert json.dumps(found).strip('"') in wanted, shown


@both
def test_lambda_stops_no_execution_as_a_runaway_loop(templates: Templates) -> None:
    """Engine and workers invoke each other through queues once a step: Lambda drops the message after about 16 rounds, unless told not to."""
    functions = list(concerned(templates, "AWS::Lambda::Function", ""))
    assert len(functions) > 5
    assert {place.properties.get("RecursiveLoop") for place in functions} == {"Allow"}
    watched = {
        templates.text(alarm.stack, alarm.properties["Dimensions"][0]["Value"])
        for alarm in templates.all("AWS::CloudWatch::Alarm")
        if alarm.properties.get("MetricName") == "RecursiveInvocationsDropped"
    }
    wanted = {f"<{one.key}>" for one in functions if "migrate" not in one.properties["FunctionName"]}
    assert watched == (wanted if templates.prefix == "Noetl-prod-" else set()), "dev has few alarms"


@both
def test_a_function_that_dies_hides_its_messages_for_no_longer_than_it_may_run(templates: Templates) -> None:
    seen = 0
    for mapping in templates.all("AWS::Lambda::EventSourceMapping"):
        queue = templates.resource(templates.text(mapping.stack, mapping.properties["EventSourceArn"]))
        function = templates.invoked(mapping)
        timeout, hidden = function.properties["Timeout"], queue.properties["VisibilityTimeout"]
        assert timeout <= hidden <= max(60, timeout), (
            f"{queue} hides for {hidden} s, {function} runs for {timeout} s"
        )
        seen += 1
    assert seen > 5


@both
def test_a_queue_gives_up_after_days_and_keeps_what_it_has_for_longer(templates: Templates) -> None:
    for place in templates.all("AWS::SQS::Queue"):
        assert place.properties["MessageRetentionPeriod"] == 14 * 86_400, str(place)
        if "RedrivePolicy" in place.properties:
            assert place.properties["RedrivePolicy"]["maxReceiveCount"] == RECEIVES


@both
def test_dead_letters_of_commands_share_a_queue_and_leave_maintenance_its_tick(
    templates: Templates, name: str
) -> None:
    dead = templates.one("AWS::SQS::Queue", QueueName=f"noetl-{name}-commands-dlq")
    for place in concerned(templates, "AWS::SQS::Queue", "-commands-,!-dlq"):
        target = place.properties["RedrivePolicy"]["deadLetterTargetArn"]
        assert templates.text(place.stack, target) == f"<{dead.key}.Arn>"
    maintenance = templates.function(f"noetl-{name}-maintenance")
    mapped = [
        place
        for place in templates.all("AWS::Lambda::EventSourceMapping")
        if templates.invoked(place).key == maintenance.key
    ]
    at_once = [place.properties["ScalingConfig"]["MaximumConcurrency"] for place in mapped]
    assert len(mapped) == 1 and sum(at_once) < maintenance.properties["ReservedConcurrentExecutions"]


@both
def test_logs_of_the_database_expire(templates: Templates, name: str) -> None:
    groups = [
        place
        for place in templates.all("AWS::Logs::LogGroup")
        if str(place.properties.get("LogGroupName", "")).startswith("/aws/rds/")
    ]
    (group,) = groups
    assert group.properties["RetentionInDays"] == {"dev": 7, "prod": 90}[name]
    cluster = next(templates.all("AWS::RDS::DBCluster"))
    assert cluster.properties["DBClusterIdentifier"] in group.properties["LogGroupName"]
    assert group.id in cluster.resource["DependsOn"], "RDS would make the group first, without an end"


@both
def test_a_database_that_is_replaced_is_kept(templates: Templates, name: str) -> None:
    """A changed name makes another cluster; without this, CloudFormation would delete the one with the data (dev) or try to (prod)."""
    (cluster,) = templates.all("AWS::RDS::DBCluster")
    assert cluster.resource["UpdateReplacePolicy"] == "Retain"
    assert cluster.resource["DeletionPolicy"] == {"dev": "Delete", "prod": "Snapshot"}[name]


def test_constants_hold_to_the_limits_of_aws() -> None:
    held = [
        (limit, int(value), name) for _, limit, value, name in LIMIT.findall(PAGE.read_text("utf-8")) if name
    ]
    assert len(held) >= 10
    for limit, most, name in held:
        module, _, constant = name.rpartition(".")
        found = getattr(importlib.import_module(module), constant)
        assert 0 < getattr(found, "value", found) <= most, f"{limit}: {name} is {found}, AWS gives {most}"


@both
def test_templates_hold_to_the_limits_of_aws(templates: Templates) -> None:
    limits = {(service, limit): value for service, limit, value, _ in LIMIT.findall(PAGE.read_text("utf-8"))}
    seconds = int(limits["Lambda", "seconds of an invocation"])
    room = int(limits["Lambda", "bytes of the environment variables"])
    at_once = int(limits["Lambda", "most that a mapping may hand over at once"])
    gateway = int(limits["API Gateway", "seconds that an HTTP API waits"])
    for place in concerned(templates, "AWS::Lambda::Function", ""):
        assert place.properties["Timeout"] <= seconds, str(place)
        used = sum(len(name) + len(text.encode()) for name, text in templates.variables(place).items())
        # References are longer or shorter when they are resolved: an ARN or the URL of a queue has about 100 characters.
        assert used <= room * 0.9, f"{place}: {used} bytes of environment variables"
        if place.properties["FunctionName"].endswith("-api"):
            assert place.properties["Timeout"] < gateway
    for place in templates.all("AWS::Lambda::EventSourceMapping"):
        assert 2 <= place.properties["ScalingConfig"]["MaximumConcurrency"] <= at_once, str(place)
