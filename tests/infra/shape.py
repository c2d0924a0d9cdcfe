"""The shape of an environment, for people to review: types of resources, who may do what, what is open. Written by `make shapes`.

A template has thousands of lines; a reviewer wants to see that a role got a permission, a group a rule, or a bucket lost its lock.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.infra.templates import Place, Templates, as_list

SHAPES = Path(__file__).parent / "shapes"
NAMES = ("dev", "staging", "prod")
_HASH = re.compile(r"[0-9A-F]{8}(?=\b|\.|$)")
_ASSET = re.compile(r"\b[0-9a-f]{64}\b")
FACTS = {
    "AWS::ApiGatewayV2::Route": ("AuthorizationType",),
    "AWS::EC2::Subnet": ("MapPublicIpOnLaunch",),
    "AWS::ECS::Service": ("DesiredCount", "NetworkConfiguration.AwsvpcConfiguration.AssignPublicIp"),
    "AWS::KMS::Key": ("EnableKeyRotation",),
    "AWS::Lambda::Function": ("ReservedConcurrentExecutions", "Timeout", "MemorySize"),
    "AWS::RDS::DBCluster": ("DeletionProtection", "StorageEncrypted", "BackupRetentionPeriod"),
    "AWS::RDS::DBInstance": ("PubliclyAccessible",),
    "AWS::S3::Bucket": ("VersioningConfiguration.Status", "PublicAccessBlockConfiguration.BlockPublicAcls"),
    "AWS::SQS::Queue": ("VisibilityTimeout",),
}
"""Properties that a reviewer looks at, by type."""


def shape(folder: Path, name: str) -> str:
    """Return the shape of an environment's templates, a line for each thing to review."""
    templates = Templates(folder, f"Noetl-{name}-")
    parts = [f"# {name}: written by `make shapes`; a difference is for a reviewer", *_types(templates)]
    parts += ["", "# roles: action on resource", *sorted(_grants(templates))]
    parts += ["", "# security groups", *sorted(_rules(templates))]
    parts += ["", "# facts", *sorted(_facts(templates))]
    return "\n".join(parts) + "\n"


def _types(templates: Templates) -> Iterator[str]:
    for stack in sorted(templates.stacks):
        found = Counter(place.resource["Type"] for place in templates.all() if place.stack == stack)
        yield f"\n# {stack}"
        yield from (f"{count:>4} {kind}" for kind, count in sorted(found.items()))


def _grants(templates: Templates) -> Iterator[str]:
    """Equal permissions of several roles are one line."""
    holders: dict[str, list[str]] = defaultdict(list)
    for role in templates.all("AWS::IAM::Role"):
        for stack, statement in templates.statements(role.key):
            services: dict[str, list[str]] = defaultdict(list)
            for action in as_list(statement.get("Action", statement.get("NotAction"))):
                service, _, rest = action.partition(":")
                services[service].append(rest)
            on = ", ".join(
                sorted(_short(templates.text(stack, one)) for one in as_list(statement["Resource"]))
            )
            when = (
                " if " + _condition(templates, stack, statement["Condition"])
                if "Condition" in statement
                else ""
            )
            for service, actions in services.items():
                holders[f"{statement['Effect']} {service}:{','.join(sorted(actions))} on {on}{when}"].append(
                    _short(role.key)
                )
    for what, roles in holders.items():
        yield f"{what}\n      {' '.join(sorted(roles))}"


def _condition(templates: Templates, stack: str, condition: dict[str, Any]) -> str:
    parts = [
        f"{operator} {key} {', '.join(sorted(_short(templates.text(stack, one)) for one in as_list(value)))}"
        for operator, tests in condition.items()
        for key, value in tests.items()
    ]
    return "; ".join(sorted(parts))


def _rules(templates: Templates) -> Iterator[str]:
    for group in templates.all("AWS::EC2::SecurityGroup"):
        for way in ("SecurityGroupIngress", "SecurityGroupEgress"):
            for rule in group.properties.get(way, ()):
                yield _rule(templates, group, way, rule)
    for way in ("SecurityGroupIngress", "SecurityGroupEgress"):
        for place in templates.all(f"AWS::EC2::{way}"):
            group = templates.resource(templates.text(place.stack, place.properties["GroupId"]))
            yield _rule(templates, group, way, place.properties)


def _rule(templates: Templates, group: Place, way: str, rule: Any) -> str:
    peers = ("CidrIp", "CidrIpv6", "SourceSecurityGroupId", "DestinationSecurityGroupId")
    peer = next((templates.text(group.stack, rule[name]) for name in peers if name in rule), "?")
    ports = f"{rule.get('FromPort', 'all')}-{rule.get('ToPort', 'all')}"
    direction = "from" if way.endswith("Ingress") else "to"
    return f"{_short(group.key)} {direction} {_short(peer)} {rule.get('IpProtocol')} {ports}"


def _facts(templates: Templates) -> Iterator[str]:
    for kind, paths in FACTS.items():
        for place in templates.all(kind):
            name = next(
                (
                    place.properties[key]
                    for key in ("FunctionName", "QueueName", "RouteKey")
                    if key in place.properties
                ),
                _short(place.key),
            )
            shown = [f"{path.rsplit('.', 1)[-1]}={_at(place.properties, path)}" for path in paths]
            yield f"{kind.rsplit('::', 1)[-1]} {name} {' '.join(shown)} {place.resource.get('DeletionPolicy', '')}".rstrip()


def _at(properties: Any, path: str) -> Any:
    for part in path.split("."):
        properties = properties.get(part) if isinstance(properties, dict) else None
    return properties


def _short(text: str) -> str:
    """Without hashes of logical ids, which change with a path, and of assets, which change with their content."""
    return _HASH.sub("", _ASSET.sub("<asset>", text))


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    from tests.bench.cost import synthesized

    with TemporaryDirectory() as made:
        for each in sys.argv[1:] or NAMES:
            found = synthesized(each, Path(made) / each, {"alarm_email": "ops@example.com"})
            (SHAPES / f"{each}.txt").write_text(shape(found, each), "utf-8")
