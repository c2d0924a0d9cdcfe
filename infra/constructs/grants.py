"""Policy statements, each for one purpose and one set of resources.

They are written out, because CDK grants more than is used. A statement that cannot name its resources in full says why, and
acknowledges exactly that wildcard to cdk-nag: an accidental wildcard fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..config import Access
from ..constructs import nag

_CONSUME = ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes")
_SEPARATORS = {"secretsmanager": ":", "lambda": ":"}
"""Between the type of a resource and its name, where that is no slash."""


@dataclass(frozen=True, slots=True)
class Grant:
    """``wildcards``: its resources that end with *, as cdk-nag writes them; ``reason``: why they do."""

    statement: iam.PolicyStatement
    wildcards: tuple[str, ...] = ()
    reason: str = ""


def give(role: iam.IRole, *grants: Grant) -> None:
    """Add to the role."""
    for grant in grants:
        role.add_to_principal_policy(grant.statement)
        for resource in grant.wildcards:
            nag.acknowledge(role, f"IAM5[Resource::{resource}]", grant.reason)


def grant(actions: Sequence[str], resources: Sequence[str]) -> Grant:
    """Actions on resources that are named in full."""
    return Grant(iam.PolicyStatement(actions=list(actions), resources=list(resources)))


def grant_any(actions: Sequence[str], reason: str) -> Grant:
    """Actions that AWS does not limit to a resource."""
    return Grant(iam.PolicyStatement(actions=list(actions), resources=["*"]), ("*",), reason)


def consume(queue: sqs.IQueue) -> Grant:
    """What an event source, or a task that polls, needs of its queue."""
    return grant([f"sqs:{action}" for action in _CONSUME], [queue.queue_arn])


def read_named(scope: Construct, queues: Iterable[str]) -> list[Grant]:
    """What event sources need of queues that the environment names (triggers.queues): names or ARNs, with ``*``."""
    reason = "the environment's configuration says so (triggers.queues)"
    given = []
    for queue in queues:
        if queue.startswith("arn:"):
            statement = iam.PolicyStatement(
                actions=[f"sqs:{action}" for action in _CONSUME], resources=[queue]
            )
            given.append(Grant(statement, (queue,) if "*" in queue else (), reason))
        else:
            found = named(scope, "sqs", "", queue, _CONSUME, reason)
            given.append(found if "*" in queue else Grant(found.statement))
    return given


def map_sources(scope: Construct, function_arn: str) -> list[Grant]:
    """Make, change, remove and find event source mappings, of this one function."""
    of_function = {"ArnEquals": {"lambda:FunctionArn": function_arn}}
    make = grant_any(
        ["lambda:CreateEventSourceMapping"],
        "a mapping has no name before Lambda makes it; the condition names the function",
    )
    change = named(
        scope,
        "lambda",
        "event-source-mapping",
        "*",
        ["UpdateEventSourceMapping", "DeleteEventSourceMapping"],
        "Lambda names mappings; the condition names the function",
    )
    for given in (make, change):
        given.statement.add_conditions(of_function)
    found = grant_any(
        ["lambda:ListEventSourceMappings"], "AWS does not limit lists of mappings to a function"
    )
    return [make, change, found]


def send(queues: Iterable[sqs.IQueue]) -> Grant:
    """Send to these queues."""
    return grant(["sqs:SendMessage"], [queue.queue_arn for queue in queues])


def take_out(queues: Iterable[sqs.IQueue]) -> Grant:
    """Read messages of these queues, leave them there, or remove them."""
    actions = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage"]
    return grant(actions, [queue.queue_arn for queue in queues])


def measure(queues: Iterable[sqs.IQueue]) -> Grant:
    """Read how deep these queues are."""
    return grant(["sqs:GetQueueAttributes"], [queue.queue_arn for queue in queues])


def objects(bucket: s3.IBucket, exported: str, actions: Sequence[str], folders: Sequence[str]) -> Grant:
    """``actions`` on the objects below ``folders``. ``exported``: name under which the bucket's stack exports its ARN."""
    return Grant(
        iam.PolicyStatement(
            actions=list(actions), resources=[bucket.arn_for_objects(f"{folder}/*") for folder in folders]
        ),
        tuple(f"{exported}/{folder}/*" for folder in folders),
        "objects are named when they are written; the folder they are in is fixed",
    )


def keep_values(table: dynamodb.ITable, *, delete: bool = False) -> Grant:
    """Write and read small results; ``delete``: find and remove those of an execution."""
    wanted = ["Query", "BatchWriteItem"] if delete else ["GetItem", "PutItem"]
    return grant([f"dynamodb:{action}" for action in wanted], [table.table_arn])


def list_objects(bucket: s3.IBucket) -> Grant:
    """Allow to list a bucket, which distinguishes a missing object from a forbidden one."""
    return grant(["s3:ListBucket"], [bucket.bucket_arn])


def read_secret(*secrets: secretsmanager.ISecret) -> Grant:
    """Read all versions of these secrets."""
    return grant(["secretsmanager:GetSecretValue"], [secret.secret_arn for secret in secrets])


def named(
    scope: Construct,
    service: str,
    resource: str,
    name: str,
    actions: Sequence[str],
    reason: str,
    shown: str = "",
) -> Grant:
    """``actions`` on resources whose names begin with a fixed part: ``name`` ends with *. ``resource`` empty: the service has one type.
    ``shown``: ``resource`` as cdk-nag writes it."""
    stack = cdk.Stack.of(scope)
    separator = _SEPARATORS.get(service, "/") if resource else ""
    tail = f"{resource}{separator}{name}"
    partition = "<AWS::Partition>" if cdk.Token.is_unresolved(stack.partition) else stack.partition
    region = "<AWS::Region>" if cdk.Token.is_unresolved(stack.region) else stack.region
    account = "<AWS::AccountId>" if cdk.Token.is_unresolved(stack.account) else stack.account
    return Grant(
        iam.PolicyStatement(
            actions=[f"{service}:{action}" for action in actions],
            resources=[f"arn:{stack.partition}:{service}:{stack.region}:{stack.account}:{tail}"],
        ),
        (f"arn:{partition}:{service}:{region}:{account}:{shown or resource}{separator}{name}",),
        reason,
    )


def credentials(scope: Construct, prefix: str, actions: Sequence[str]) -> Grant:
    """``actions`` on the secrets that playbooks use."""
    reason = "users name the credentials of their playbooks; all begin with the environment's prefix"
    return named(scope, "secretsmanager", "secret", f"{prefix}*", actions, reason)


def use_key_through(scope: Construct, key: kms.IKey, *services: str) -> Grant:
    """The key, but only as these services use it on the caller's behalf."""
    stack = cdk.Stack.of(scope)
    return Grant(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[key.key_arn],
            conditions={
                "StringEquals": {
                    "kms:ViaService": [f"{service}.{stack.region}.{stack.url_suffix}" for service in services]
                }
            },
        )
    )


def use_key_of_table(scope: Construct, key: kms.IKey) -> Grant:
    """Allow DynamoDB to use the key of a table on behalf of its readers and writers.

    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
    """
    stack = cdk.Stack.of(scope)
    actions = ("Encrypt", "Decrypt", "ReEncryptFrom", "ReEncryptTo", "GenerateDataKey", "DescribeKey")
    return Grant(
        iam.PolicyStatement(
            actions=[f"kms:{action}" for action in actions],
            resources=[key.key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{stack.region}.{stack.url_suffix}"}},
        )
    )


def seal_credentials(key: kms.IKey) -> Grant:
    """Make and open the data keys of credentials and their cached copies: what else the key seals stays closed."""
    return Grant(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[key.key_arn],
            conditions={"StringEquals": {"kms:EncryptionContext:purpose": ["auth_cache", "credential"]}},
        )
    )


def ask_for_credentials(scope: Construct, api_id: str, exported: str, stage: str) -> Grant:
    """One route of the API: credentials, for the command that a worker runs.

    ``exported``: name under which the API's stack exports its id.
    """
    return named(
        scope,
        "execute-api",
        api_id,
        f"{stage}/GET/api/keychain/*",
        ["Invoke"],
        "the route ends with an execution and a name",
        shown=exported,
    )


def configured(access: Iterable[Access]) -> list[Grant]:
    """What the environment lists for a kind (workers.access)."""
    return [
        Grant(
            iam.PolicyStatement(actions=list(one.actions), resources=list(one.resources)),
            tuple(resource for resource in one.resources if "*" in resource),
            "the environment's configuration says so (workers.access)",
        )
        for one in access
    ]
