"""A CDK app of a team that has workflows beside its own service: `cdk synth --app "python app.py"` in this folder.

The orders service starts an execution for each order. NoETL is deployed with it, in the network that the company has.
"""

from __future__ import annotations

import sys

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from noetl_cdk import AlarmsConfig, ExistingVpc, NetworkConfig, NoetlEnvironment, environment

NETWORK = ExistingVpc(
    id="vpc-0123456789abcdef0",
    cidr="10.1.0.0/16",
    zones=("eu-central-1a", "eu-central-1b"),
    engine_subnets=("subnet-0a00000000000001", "subnet-0a00000000000002"),
)
CODE = """\
import json, os, urllib.request
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.session import Session

def handler(event, context):
    request = AWSRequest("POST", os.environ["NOETL_API"] + "/api/executions",
                         data=json.dumps({"path": "orders/ship", "payload": event}),
                         headers={"Content-Type": "application/json"})
    SigV4Auth(Session().get_credentials(), "execute-api", os.environ["AWS_REGION"]).add_auth(request)
    sent = urllib.request.Request(request.url, request.data.encode(), dict(request.headers), method="POST")
    with urllib.request.urlopen(sent) as answer:
        return json.load(answer)
"""


class Orders(cdk.Stack):
    """The team's own stack."""

    def __init__(self, scope: Construct, id: str, *, noetl: NoetlEnvironment) -> None:
        super().__init__(scope, id)
        function = lambda_.Function(
            self,
            "Place",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="index.handler",
            code=lambda_.Code.from_inline(CODE),
            environment={"NOETL_API": noetl.api_url},
        )
        noetl.grant_call(function, "POST", "/api/executions")


def main(folder: str | None = None) -> str:
    """Synthesize; return the folder of the templates."""
    app = cdk.App(outdir=folder)
    stage = cdk.Stage(app, "Production")
    config = environment(
        "orders",
        like="prod",
        network=NetworkConfig(egress="nat", existing=NETWORK, private_workers=True),
        alarms=AlarmsConfig(topic_arn="arn:aws:sns:eu-central-1:123456789012:oncall"),
        permissions_boundary="company-limits",
    )
    noetl = NoetlEnvironment(stage, "Workflows", config=config)
    Orders(stage, "Orders", noetl=noetl)
    return str(app.synth().directory)


if __name__ == "__main__":
    main(*sys.argv[1:2])
