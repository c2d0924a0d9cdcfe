"""The cost of an idle month, computed from every resource of the synthesized templates.

    python -m infra.idle_cost cdk.out        # writes and prints cdk.out/idle-cost.json

A type of resource that is in neither table is an error: add its price to one of them. Storage and traffic are not idle, and not here.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import prices

FILE = "idle-cost.json"
POLLERS, POLL_SECONDS = 5, 20
"""What Lambda keeps polling each queue with while there is nothing in it."""
TICK_SECONDS = 0.1
"""Of a tick of maintenance that finds nothing. Assumed."""
AWAKE_ACU = 0.5
"""The least that a database which pauses has while it is awake."""

Properties = Mapping[str, Any]


class CostError(Exception):
    """The bill of a template cannot be computed; the text says which resource, and what to add."""


class Assembly:
    """The resources of every stack of a cloud assembly."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        self.resources = [
            (stack, id, resource["Type"], resource.get("Properties", {}))
            for stack, template in sorted(templates.items())
            for id, resource in sorted(template.get("Resources", {}).items())
        ]

    @classmethod
    def read(cls, folder: Path) -> Assembly:
        """Raises CostError when there is no template in the folder."""
        found = {
            path.name.removesuffix(".template.json"): json.loads(path.read_text("utf-8"))
            for path in folder.glob("*.template.json")
        }
        if not found:
            raise CostError(f"{folder} holds no synthesized templates: `cdk synth -c env=…` first")
        return cls(found)

    def all(self, kind: str) -> Iterator[Properties]:
        return (properties for _, _, found, properties in self.resources if found == kind)

    def tick_minutes(self) -> float:
        """Return the minutes between two ticks of maintenance, from the rule of the project."""
        for rule in self.all("AWS::Events::Rule"):
            found = re.fullmatch(
                r"rate\((\d+) (minute|hour|day)s?\)", str(rule.get("ScheduleExpression", ""))
            )
            if found:
                return int(found[1]) * {"minute": 1, "hour": 60, "day": 1440}[found[2]]
        return 60.0 * prices.MONTH_HOURS


Price = Callable[[Properties, Assembly], float]


def _cluster(one: Properties, all_: Assembly) -> float:
    """Each server at the smallest capacity.

    One that pauses is awake after each tick until it pauses again.
    """
    scaling = one.get("ServerlessV2ScalingConfiguration", {})
    least = float(scaling.get("MinCapacity", 0))
    servers = sum(
        server.get("DBInstanceClass") == "db.serverless" for server in all_.all("AWS::RDS::DBInstance")
    )
    month: float = prices.AURORA_ACU_HOUR * prices.MONTH_HOURS * servers
    if least:
        return month * least
    pause = float(scaling.get("SecondsUntilAutoPause", 300)) / 60
    return month * AWAKE_ACU * min(1.0, pause / all_.tick_minutes())


def _server(one: Properties, all_: Assembly) -> float:
    kind = one["DBInstanceClass"]
    if kind == "db.serverless":
        return 0.0  # in the cluster's
    hour = _known(prices.INSTANCE_HOUR, kind, "INSTANCE_HOUR")
    servers = 2 if one.get("MultiAZ") else 1
    disk = float(one.get("AllocatedStorage", 0)) * prices.DATABASE_GIB_MONTH
    return servers * (hour * prices.MONTH_HOURS + disk)


def _proxy(one: Properties, all_: Assembly) -> float:
    if list(all_.all("AWS::RDS::DBCluster")):
        return prices.PROXY_ACU_HOUR * prices.PROXY_LEAST_ACU * prices.MONTH_HOURS
    return prices.PROXY_VCPU_HOUR * prices.PROXY_LEAST_VCPU * prices.MONTH_HOURS


def _endpoint(one: Properties, all_: Assembly) -> float:
    if one.get("VpcEndpointType") != "Interface":
        return 0.0
    return len(one["SubnetIds"]) * prices.ENDPOINT_HOUR * prices.MONTH_HOURS


def _machine(one: Properties, all_: Assembly) -> float:
    hour = _known(prices.MACHINE_HOUR, one["InstanceType"], "MACHINE_HOUR")
    address = any(face.get("AssociatePublicIpAddress") for face in one.get("NetworkInterfaces", ()))
    hour += prices.ADDRESS_HOUR if address else 0.0
    return hour * prices.MONTH_HOURS + prices.MACHINE_DISK_GIB * prices.DISK_GIB_MONTH


def _polling(one: Properties, all_: Assembly) -> float:
    polls = POLLERS * prices.MONTH_HOURS * 3600 / POLL_SECONDS
    return polls * prices.QUEUE_REQUESTS / 1e6


def _heartbeats(one: Properties, all_: Assembly) -> float:
    """The metric that each tick of maintenance counts: it is paid by the hours in which it is sent."""
    if not str(one.get("FunctionName", "")).endswith("-maintenance"):
        return 0.0
    return prices.METRIC_MONTH * min(1.0, 60 / all_.tick_minutes())


def _ticks(one: Properties, all_: Assembly) -> float:
    """Nothing but maintenance runs in a month of nothing."""
    if not str(one.get("FunctionName", "")).endswith("-maintenance"):
        return 0.0
    arch = one.get("Architectures", ["x86_64"])[0]
    second: float = one["MemorySize"] / 1024 * prices.LAMBDA_GB_SECOND[arch]
    ticks = prices.MONTH_HOURS * 60 / all_.tick_minutes()
    return ticks * (prices.LAMBDA_REQUESTS / 1e6 + TICK_SECONDS * second)


def _alarm(one: Properties, all_: Assembly) -> float:
    """By the metrics that it looks at."""
    metrics = sum("MetricStat" in each for each in one.get("Metrics", ())) or 1
    return metrics * prices.ALARM_MONTH


def _firewall(one: Properties, all_: Assembly) -> float:
    return prices.FIREWALL_MONTH + len(one.get("Rules", ())) * prices.FIREWALL_RULE_MONTH


def _each(dollars: float) -> Price:
    return lambda one, all_: dollars


BILLED: Mapping[str, tuple[str, Price]] = {
    "AWS::RDS::DBCluster": ("database", _cluster),
    "AWS::RDS::DBInstance": ("database", _server),
    "AWS::RDS::DBProxy": ("database proxy", _proxy),
    "AWS::EC2::VPCEndpoint": ("endpoints", _endpoint),
    "AWS::EC2::NatGateway": ("NAT", _each(prices.NAT_GATEWAY_HOUR * prices.MONTH_HOURS)),
    "AWS::EC2::EIP": ("NAT", _each(prices.ADDRESS_HOUR * prices.MONTH_HOURS)),
    "AWS::EC2::Instance": ("NAT", _machine),
    "AWS::Lambda::EventSourceMapping": ("polling of queues", _polling),
    "AWS::Lambda::Function": ("maintenance", lambda one, all_: _ticks(one, all_) + _heartbeats(one, all_)),
    "AWS::CloudWatch::Alarm": ("alarms", _alarm),
    "AWS::CloudWatch::Dashboard": ("dashboard", _each(prices.DASHBOARD_MONTH)),
    "AWS::KMS::Key": ("keys", _each(prices.KEY_MONTH)),
    "AWS::SecretsManager::Secret": ("secrets", _each(prices.SECRET_MONTH)),
    "AWS::WAFv2::WebACL": ("firewall", _firewall),
}
"""Types that cost something while nothing happens: the line of the bill, and its price."""

UNBILLED = frozenset(
    {
        # Paid by the request, the second or the byte that is stored.
        "AWS::ApiGateway::Account", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::Method", "AWS::ApiGateway::Resource",
        "AWS::ApiGateway::RestApi", "AWS::ApiGateway::Stage", "AWS::ApiGateway::DomainName",
        "AWS::ApiGateway::BasePathMapping", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::ApiMapping",
        "AWS::ApiGatewayV2::Authorizer", "AWS::ApiGatewayV2::DomainName", "AWS::ApiGatewayV2::Integration",
        "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Stage", "AWS::Backup::BackupPlan", "AWS::Backup::BackupSelection",
        "AWS::Backup::BackupVault", "AWS::CloudFront::CachePolicy", "AWS::CloudFront::Distribution",
        "AWS::CloudFront::Function", "AWS::CloudFront::OriginAccessControl", "AWS::CloudFront::ResponseHeadersPolicy",
        "AWS::DynamoDB::Table", "AWS::ECR::Repository", "AWS::Events::Rule", "AWS::Logs::LogGroup", "AWS::S3::Bucket",
        "AWS::SNS::Subscription", "AWS::SNS::Topic", "AWS::SQS::Queue", "AWS::Scheduler::ScheduleGroup",
        "AWS::StepFunctions::StateMachine",
        # Nothing runs until there is work: services begin with no task.
        "AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy", "AWS::ECS::Cluster",
        "AWS::ECS::ClusterCapacityProviderAssociations", "AWS::ECS::Service", "AWS::ECS::TaskDefinition",
        # Versions and aliases of functions, and their deployments to Lambda.
        "AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup", "AWS::Lambda::Alias",
        "AWS::Lambda::EventInvokeConfig", "AWS::Lambda::LayerVersion", "AWS::Lambda::Permission", "AWS::Lambda::Version",
        # Descriptions, rules and permissions.
        "AWS::CDK::Metadata", "AWS::EC2::FlowLog", "AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable",
        "AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::Subnet",
        "AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPC", "AWS::EC2::VPCGatewayAttachment",
        "AWS::IAM::InstanceProfile", "AWS::IAM::ManagedPolicy", "AWS::IAM::Policy", "AWS::IAM::Role", "AWS::KMS::Alias",
        "AWS::RDS::DBClusterParameterGroup", "AWS::RDS::DBParameterGroup", "AWS::RDS::DBProxyTargetGroup",
        "AWS::RDS::DBSubnetGroup", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy",
        "AWS::SecretsManager::ResourcePolicy", "AWS::SecretsManager::RotationSchedule",
        "AWS::SecretsManager::SecretTargetAttachment", "AWS::Serverless::Application", "AWS::WAFv2::WebACLAssociation",
        "Custom::NoetlMigration", "Custom::NoetlPlaybooks", "Custom::NoetlUi", "Custom::VpcRestrictDefaultSG", "Custom::S3AutoDeleteObjects",
    }
)  # fmt: skip
"""Types that cost nothing while nothing happens."""


def bill(found: Assembly) -> dict[str, float]:
    """Return dollars per month by line of the bill.

    Raises CostError for a type without a price.
    """
    lines: dict[str, float] = {}
    for stack, id, kind, properties in found.resources:
        if kind in UNBILLED:
            continue
        if kind not in BILLED:
            raise CostError(
                f"{stack}.{id}: the idle cost of {kind} is not known: "
                "add it to BILLED or to UNBILLED of infra/idle_cost.py"
            )
        name, price = BILLED[kind]
        dollars = price(properties, found)
        if dollars:
            lines[name] = lines.get(name, 0.0) + dollars
    return dict(sorted(lines.items(), key=lambda line: (-line[1], line[0])))


def report(folder: Path) -> dict[str, Any]:
    """The bill of an assembly, rounded to cents, with what it is computed from.

    Raises CostError.
    """
    lines = {name: round(dollars, 2) for name, dollars in bill(Assembly.read(folder)).items()}
    return {
        "dollars_per_month": lines,
        "total": round(math.fsum(lines.values()), 2),
        "prices": {"as_of": prices.AS_OF, "source": prices.SOURCE},
    }


def write(folder: Path) -> dict[str, Any]:
    """Put the bill beside the templates. Raises CostError."""
    found = report(folder)
    (folder / FILE).write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return found


def _known(table: Mapping[str, float], name: object, where: str) -> float:
    if not isinstance(name, str) or name not in table:
        raise CostError(f"the price of {name} is not known: add it to {where} of infra/prices.py")
    return table[name]


if __name__ == "__main__":
    try:
        print(json.dumps(write(Path(sys.argv[1] if len(sys.argv) > 1 else "cdk.out")), indent=2))  # noqa: T201
    except CostError as error:
        print(f"noetl: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(3) from error
