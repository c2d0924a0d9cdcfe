"""Synthesised templates of one environment, with references between stacks followed to where they lead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Resource = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A resource: its stack, its logical id, and what the template says about it."""

    stack: str
    id: str
    resource: Resource

    @property
    def properties(self) -> Mapping[str, Any]:
        return self.resource.get("Properties", {})

    @property
    def key(self) -> str:
        return f"{self.stack}.{self.id}"

    def __str__(self) -> str:
        return self.key


class Templates:
    """Every template of a cloud assembly, by stack."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self.prefix = prefix
        self.stacks: dict[str, Any] = {
            path.name.removesuffix(".template.json").removeprefix(prefix): json.loads(path.read_text())
            for path in sorted(folder.glob("*.template.json"))
        }
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in self.stacks.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def all(self, *types: str) -> Iterator[Place]:
        for stack, template in self.stacks.items():
            for id, resource in template.get("Resources", {}).items():
                if not types or resource["Type"] in types:
                    yield Place(stack, id, resource)

    def one(self, kind: str, **properties: Any) -> Place:
        """The resource of this type with these properties; there is exactly one."""
        found = [
            place
            for place in self.all(kind)
            if all(place.properties.get(name) == value for name, value in properties.items())
        ]
        assert len(found) == 1, f"{len(found)} of {kind} with {properties}"
        return found[0]

    def text(self, stack: str, value: Any) -> str:
        """A value as text: references become ``<Stack.LogicalId.Attribute>``, pseudo parameters ``<AWS::Region>``."""
        if not isinstance(value, dict):
            return str(value)
        ((function, argument),) = value.items()
        match function:
            case "Ref":
                return f"<{argument}>" if argument.startswith("AWS::") else f"<{stack}.{argument}>"
            case "Fn::GetAtt":
                return f"<{stack}.{'.'.join(argument)}>"
            case "Fn::ImportValue":
                return self.text(*self._exports[argument])
            case "Fn::Join":
                return argument[0].join(self.text(stack, part) for part in argument[1])
            case "Fn::Select":
                return f"<{argument[0]} of {self.text(stack, argument[1])}>"
            case "Fn::Split":
                return f"{self.text(stack, argument[1])} split at {argument[0]!r}"
            case _:
                return json.dumps(value, sort_keys=True)

    def resource(self, reference: str) -> Place:
        """What ``<Stack.LogicalId.Attribute>`` leads to."""
        stack, id = reference.strip("<>").split(".")[:2]
        return Place(stack, id, self.stacks[stack]["Resources"][id])

    def role_of(self, function: Place) -> str:
        return self.text(function.stack, function.properties["Role"]).removesuffix(".Arn>").strip("<>")

    def statements(self, role: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(stack, statement) of everything attached to the role ``Stack.LogicalId``. What does not fit into a role's own policy any more CDK
        puts into a managed one."""
        for policy in (*self.all("AWS::IAM::Policy"), *self.all("AWS::IAM::ManagedPolicy")):
            roles = [self.text(policy.stack, each).strip("<>") for each in policy.properties["Roles"]]
            if role in roles:
                for statement in policy.properties["PolicyDocument"]["Statement"]:
                    yield policy.stack, statement
        place = self.resource(role)
        for inline in place.properties.get("Policies", []):
            for statement in inline["PolicyDocument"]["Statement"]:
                yield place.stack, statement

    def allowed(self, role: str) -> set[tuple[str, str]]:
        """(action, resource) pairs that the role is allowed."""
        return {
            (action, self.text(stack, resource))
            for stack, statement in self.statements(role)
            if statement["Effect"] == "Allow"
            for action in as_list(statement["Action"])
            for resource in as_list(statement["Resource"])
        }

    def invoked(self, mapping: Place) -> Place:
        """The function that an event source invokes, by itself or by its alias."""
        return self.target(mapping.stack, mapping.properties["FunctionName"])

    def target(self, stack: str, value: Any) -> Place:
        """The function that a name or an ARN leads to, through its alias."""
        text = self.text(stack, value)
        alias = re.fullmatch(r"<6 of (<[^>]+>) split at ':'>:(?:live|<7 of .*)", text)
        place = self.resource(alias[1] if alias else text)
        if place.resource["Type"] == "AWS::Lambda::Alias":
            return self.target(place.stack, place.properties["FunctionName"])
        return place

    def function(self, name: str) -> Place:
        return self.one("AWS::Lambda::Function", FunctionName=name)

    def variables(self, function: Place) -> dict[str, str]:
        found = function.properties["Environment"]["Variables"]
        return {name: self.text(function.stack, value) for name, value in found.items()}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
