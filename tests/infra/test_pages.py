"""What the pages and the cost model say about a deployment is what the templates hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.environments import load_environment
from tests.bench.cost import idle
from tests.infra.templates import Templates

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "<worker>": r"[a-z][a-z0-9_-]*",
    "<function>": r"(?:api|engine|decide|maintenance|scheduler|worker-[a-z0-9_-]+)",
}
"""What stands for a name in the table of alarms."""


def documented_alarms() -> list[str]:
    """Patterns of names, from the table of docs/operations.md."""
    section = (
        (ROOT / "docs/operations.md").read_text("utf-8").split("\n## Alarms\n", 1)[1].split("\n## ", 1)[0]
    )
    names = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    return [re.sub(r"<\w+>", lambda found: WORDS[found[0]], name) for name in names]


@pytest.mark.parametrize(("assembly", "name"), [("dev", "dev"), ("prod", "prod")], indirect=["assembly"])
def test_every_alarm_is_explained_and_every_explained_one_exists(assembly: Path, name: str) -> None:
    templates = Templates(assembly, f"Noetl-{name}-")
    alarms = {
        place.properties["AlarmName"].removeprefix(f"noetl-{name}-")
        for place in templates.all("AWS::CloudWatch::Alarm")
    }
    patterns = documented_alarms()
    assert patterns
    assert not [alarm for alarm in sorted(alarms) if not any(re.fullmatch(one, alarm) for one in patterns)]
    assert not [one for one in patterns if not any(re.fullmatch(one, alarm) for alarm in alarms)]


@pytest.mark.parametrize(("assembly", "name"), [("dev", "dev"), ("prod", "prod")], indirect=["assembly"])
def test_the_cost_of_doing_nothing_counts_what_is_deployed(assembly: Path, name: str) -> None:
    templates = Templates(assembly, f"Noetl-{name}-")
    counts = idle(load_environment(name))["counts"]
    assert counts["alarms"] == len(list(templates.all("AWS::CloudWatch::Alarm")))
    assert counts["queues_polled"] == len(list(templates.all("AWS::Lambda::EventSourceMapping")))
    endpoints = templates.all("AWS::EC2::VPCEndpoint")
    subnets = [len(place.properties.get("SubnetIds", ())) for place in endpoints]
    assert counts["endpoints"] == sum(subnets)
    reserved = [
        place.properties.get("ReservedConcurrentExecutions", 0)
        for place in templates.all("AWS::Lambda::Function")
    ]
    assert counts["reserved_concurrency"] == sum(reserved)


COSTS = {
    "database": ("database",),
    "RDS Proxy": ("database_proxy",),
    "interface endpoints": ("endpoints",),
    "NAT gateways": ("nat_gateways",),
    "queues polled": ("sqs_polling", "maintenance"),
    "alarms, dashboard": ("alarms_and_dashboard", "secrets_and_keys"),
    "**together**": ("total",),
}
"""Rows of the table, and the parts of `make cost` that each adds up."""


def test_the_bill_of_a_month_of_doing_nothing_is_what_make_cost_computes() -> None:
    page = (ROOT / "docs/deployment.md").read_text("utf-8")
    table = page.split("A month of doing nothing:", 1)[1].split("Metrics add", 1)[0]
    for column, name in enumerate(("dev", "staging", "prod")):
        dollars = idle(load_environment(name))["dollars_per_month"]
        for row, parts in COSTS.items():
            (line,) = [one for one in table.splitlines() if one.startswith(f"| {row}")]
            shown = line.strip("| ").split(" | ")[1 + column].strip("*").replace("–", "0")
            assert int(shown) == round(sum(dollars[part] for part in parts)), f"{name}: {row}"


def test_quotas_name_what_is_reserved() -> None:
    page = (ROOT / "docs/deployment.md").read_text("utf-8")
    reserved = {
        name: idle(load_environment(name))["counts"]["reserved_concurrency"] for name in ("dev", "prod")
    }
    assert f"at least {reserved['dev'] + 100} |" in page and f"| {reserved['prod']} are reserved" in page


@pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)
def test_no_function_has_a_runtime_past_its_end_of_life(assembly: Path) -> None:
    """CDK brings functions of its own for Node; Python is the environment's choice."""
    over = re.compile(r"nodejs(4|6|8|10|12|14|16|18|20)\b|python(2|3\.(6|7|8|9|10))\b")
    for path in assembly.glob("*.template.json"):
        assert not over.search(path.read_text()), path.name
