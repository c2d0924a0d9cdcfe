"""The part of AWS's command line that the runbooks use, over boto3: what they print is run where no AWS CLI is installed.

``aws SERVICE OPERATION [--name value…] [--query …] [--output text]``; the endpoint is that of AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import boto3
import jmespath


def main(arguments: list[str]) -> None:
    service, operation, *rest = arguments
    client = boto3.client(service.replace("_", "-"))
    method = operation.replace("-", "_")
    name = client.meta.method_to_api_mapping[method]
    members = client.meta.service_model.operation_model(name).input_shape.members
    fields = {member.lower(): (member, shape) for member, shape in members.items()}
    query, wished, output = "", {}, "json"
    while rest:
        option = rest.pop(0).removeprefix("--")
        values = []
        while rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        if option == "query":
            query = values[0]
        elif option == "output":
            output = values[0]
        else:
            off = option.startswith("no-") and option[3:].replace("-", "") in fields
            member, shape = fields[(option[3:] if off else option).replace("-", "")]
            wished[member] = _value(shape, values, off)
    answer = getattr(client, method)(**wished)
    answer.pop("ResponseMetadata", None)
    found = jmespath.search(query, answer) if query else answer
    print(_text(found) if output == "text" else json.dumps(found, default=str))


def _value(shape: Any, values: list[str], off: bool) -> Any:
    if shape.type_name == "boolean":
        return not off
    if shape.type_name in ("integer", "long"):
        return int(values[0])
    if shape.type_name == "list":
        return values
    return values[0]


def _text(found: Any) -> str:
    if isinstance(found, list):
        return "\t".join(map(_text, found))
    return "None" if found is None else str(found)


if __name__ == "__main__":
    main(sys.argv[1:])
