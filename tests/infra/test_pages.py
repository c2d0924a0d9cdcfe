"""What the pages and the cost model say about a deployment is what the templates hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra import idle_cost
from infra.environments import load_environment
from tests.bench.cost import idle
from tests.bench.cost_page import months, printed_months
from tests.infra.templates import Templates

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "<worker>": r"[a-z][a-z0-9_-]*",
    "<function>": r"(?:api|engine|decide|maintenance|scheduler|worker-[a-z0-9_-]+)",
}
"""What stands for a name in the table of alarms."""


def documented_alarms() -> list[str]:
    """Patterns of names, from the table of docs/alarms.md."""
    section = (ROOT / "docs/alarms.md").read_text("utf-8").split("\n## Alarms\n", 1)[1].split("\n## ", 1)[0]
    names = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    return [re.sub(r"<\w+>", lambda found: WORDS[found[0]], name) for name in names]


@pytest.mark.parametrize(("assembly", "name"), [("dev", "dev"), ("prod", "prod")], indirect=["assembly"])
def test_every_alarm_is_explained_and_every_explained_one_exists(assembly: Path, name: str) -> None:
    templates = Templates(assembly, f"Noetl-{name}-")
    alarms = {
        str(place.properties["AlarmName"]).removeprefix(f"noetl-{name}-")
        for place in templates.all("AWS::CloudWatch::Alarm")
        if "AlarmName" in place.properties  # scaling of Fargate has alarms of its own
    }
    patterns = documented_alarms()
    assert patterns
    assert not [alarm for alarm in sorted(alarms) if not any(re.fullmatch(one, alarm) for one in patterns)]
    if name == "prod":  # dev has few of them
        assert not [one for one in patterns if not any(re.fullmatch(one, alarm) for alarm in alarms)]


LIMITS = {"dev": 20, "prod": 450}
"""Dollars of a month of doing nothing, at most."""


@pytest.mark.full
def test_the_bill_of_a_month_of_doing_nothing_is_on_the_page(dev: Path, staging: Path, prod: Path) -> None:
    bills = [idle(name, folder) for name, folder in (("dev", dev), ("staging", staging), ("prod", prod))]
    assert printed_months() == months(bills), "make cost PAGE=1 writes the table"


@pytest.mark.parametrize(("assembly", "name"), [("dev", "dev"), ("prod", "prod")], indirect=["assembly"])
def test_a_month_of_doing_nothing_costs_little_and_what_the_page_says(assembly: Path, name: str) -> None:
    bill = idle(name, assembly)["dollars_per_month"]
    assert 0 < bill["total"] <= LIMITS[name], f"{name} costs {bill['total']} dollars a month"
    head, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in printed_months().splitlines())
    column = head.index(name)
    printed = {row[0]: row[column] for row in rows}
    assert printed.pop("**together**") == f"**{bill.pop('total'):.0f}**", "make cost PAGE=1 writes the table"
    wanted = {word: f"{cost:.0f}" for word, cost in bill.items() if cost >= 0.5}
    shown = {word: cell for word, cell in printed.items() if cell.isdigit()}
    assert shown == wanted, "make cost PAGE=1 writes the table"


def test_what_nobody_has_priced_fails_the_bill(dev: Path, tmp_path: Path) -> None:
    (tmp_path / "A.template.json").write_text(
        '{"Resources": {"Search": {"Type": "AWS::OpenSearch::Domain"}}}'
    )
    with pytest.raises(
        idle_cost.CostError, match=r"A\.Search: the idle cost of AWS::OpenSearch::Domain is not known"
    ):
        idle_cost.report(tmp_path)
    with pytest.raises(idle_cost.CostError, match="no synthesized templates"):
        idle_cost.report(tmp_path / "nowhere")
    assert not idle_cost.BILLED.keys() & idle_cost.UNBILLED


@pytest.mark.parametrize(
    ("kind", "properties", "dollars"),
    [
        ("AWS::RDS::DBInstance", {"DBInstanceClass": "db.t4g.micro", "AllocatedStorage": "20"}, 13.98),
        ("AWS::EC2::VPCEndpoint", {"VpcEndpointType": "Interface", "SubnetIds": ["a", "b"]}, 14.6),
        ("AWS::EC2::VPCEndpoint", {"VpcEndpointType": "Gateway"}, 0),
        ("AWS::RDS::DBProxy", {}, 21.9),
        ("AWS::WAFv2::WebACL", {"Rules": [{}, {}]}, 7.0),
        ("AWS::CloudWatch::Alarm", {"Metrics": [{"MetricStat": {}}, {"Expression": ""}]}, 0.1),
    ],
)
def test_a_resource_is_billed_by_what_it_is(kind: str, properties: dict[str, object], dollars: float) -> None:
    template = {"Resources": {"One": {"Type": kind, "Properties": properties}}}
    assert sum(idle_cost.bill(idle_cost.Assembly({"A": template})).values()) == pytest.approx(
        dollars, abs=0.01
    )


def test_quotas_name_what_is_reserved() -> None:
    page = (ROOT / "docs/deployment.md").read_text("utf-8")
    reserved = {
        name: sum(size.reserved for size in load_environment(name).functions.values())
        for name in ("dev", "prod")
    }
    assert f"at least {reserved['dev'] + 100} |" in page and f"| {reserved['prod']} are reserved" in page


@pytest.mark.parametrize("assembly", ["dev", "prod"], indirect=True)
def test_no_function_has_a_runtime_past_its_end_of_life(assembly: Path) -> None:
    """CDK brings functions of its own for Node; Python is the environment's choice."""
    over = re.compile(r"nodejs(4|6|8|10|12|14|16|18|20)\b|python(2|3\.(6|7|8|9|10))\b")
    for path in assembly.glob("*.template.json"):
        assert not over.search(path.read_text()), path.name
