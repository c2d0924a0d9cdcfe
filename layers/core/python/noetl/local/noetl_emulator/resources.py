"""CloudFormation resource types: those that are accepted and ignored, and real databases.

An ignored type has no effect on what a test can see (addresses, NAT, rotation, autoscaling, ...). Each use of one is reported, so that
no reader takes a green deployment here for a proof of it. A type that is neither known to the emulator nor listed here fails the
deployment.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

IGNORED: dict[str, tuple[str, ...]] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": ("Id",),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ("Arn",),
    "AWS::Backup::BackupPlan": ("BackupPlanId", "BackupPlanArn", "VersionId"),
    "AWS::Backup::BackupSelection": ("Id", "BackupPlanId", "SelectionId"),
    "AWS::Backup::BackupVault": ("BackupVaultName", "BackupVaultArn"),
    "AWS::Budgets::Budget": (),
    "AWS::CE::AnomalyMonitor": ("MonitorArn",),
    "AWS::CE::AnomalySubscription": ("SubscriptionArn",),
    "AWS::CloudWatch::AnomalyDetector": ("Id",),
    "AWS::CloudWatch::CompositeAlarm": ("Arn",),
    "AWS::EC2::EIP": ("AllocationId", "PublicIp"),
    "AWS::EC2::EIPAssociation": ("Id",),
    "AWS::EC2::FlowLog": ("Id",),
    "AWS::EC2::NatGateway": ("NatGatewayId",),
    "AWS::EC2::NetworkAcl": ("Id",),
    "AWS::EC2::NetworkAclEntry": ("Id",),
    "AWS::EC2::SecurityGroupEgress": ("Id",),
    "AWS::EC2::SecurityGroupIngress": ("Id",),
    "AWS::EC2::SubnetNetworkAclAssociation": ("AssociationId",),
    "AWS::Logs::QueryDefinition": ("QueryDefinitionId",),
    "AWS::RDS::DBProxy": ("DBProxyArn", "Endpoint", "VpcId"),
    "AWS::RDS::DBProxyTargetGroup": ("TargetGroupArn",),
    "AWS::SecretsManager::ResourcePolicy": ("Id",),
    "AWS::SecretsManager::RotationSchedule": ("Id",),
    "AWS::WAFv2::WebACLAssociation": (),
    "AWS::XRay::Group": ("GroupARN",),
    "AWS::XRay::ResourcePolicy": (),
    "AWS::XRay::SamplingRule": ("RuleARN",),
}
"""Type -> its attributes (``Fn::GetAtt``)."""
HOSTS = ("Endpoint", "PublicIp")
"""Attributes that clients connect to: the loopback address, where the database listens."""

Grant = tuple[str, ...]


def register(ignored: Path, postgres: Mapping[str, Any], grant: Grant) -> None:
    """Teach the emulator's CloudFormation the types above. See ``main`` for the arguments."""
    from ministack.services.cloudformation import provisioners

    handlers: dict[str, dict[str, Any]] = provisioners._RESOURCE_HANDLERS
    for kind in IGNORED:
        handlers.setdefault(kind, ignoring(kind, str(postgres["host"]), ignored))
    rds = provisioners._rds
    _real(handlers["AWS::RDS::DBInstance"], _instance(rds, provisioners), postgres, grant)
    _real(handlers["AWS::RDS::DBCluster"], _cluster(rds, provisioners), postgres, grant)


def ignoring(kind: str, host: str, report: Path) -> dict[str, Any]:
    """A handler that makes up an id and the attributes, and reports that it did."""

    def create(logical_id: str, props: Mapping[str, Any], stack: str) -> tuple[str, dict[str, str]]:
        with report.open("a") as out:
            out.write(json.dumps({"type": kind, "resource": logical_id, "stack": stack}) + "\n")
        return made_up(kind, host)

    def update(
        physical_id: str, old: Mapping[str, Any], new: Mapping[str, Any], stack: str
    ) -> tuple[str, dict[str, str]]:
        return physical_id, attributes(kind, physical_id, host)

    return {"create": create, "update": update, "delete": lambda physical_id, props: None}


def made_up(kind: str, host: str) -> tuple[str, dict[str, str]]:
    """A fresh id and attributes of a resource that is ignored."""
    name = kind.rsplit("::", 1)[-1].lower()
    physical_id = f"{name}-{uuid.uuid4().hex[:17]}"
    return physical_id, attributes(kind, physical_id, host)


def attributes(kind: str, physical_id: str, host: str) -> dict[str, str]:
    """Return the values of ``Fn::GetAtt``.

    Addresses lead to this machine, ARNs look like one, anything else is the id.
    """
    service = kind.split("::")[1].lower()
    found = {}
    for name in IGNORED[kind]:
        if name in HOSTS:
            found[name] = host
        elif name.lower().endswith("arn"):
            found[name] = f"arn:aws:{service}:us-east-1:000000000000:{physical_id}"
        else:
            found[name] = physical_id
    return found


# --- databases ----------------------------------------------------------------------------------

Point = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""(physical id, ``{host, port}``) -> what to grant and the attributes: lets a record lead to the local server."""


def _real(handler: dict[str, Any], point: Point, postgres: Mapping[str, Any], grant: Grant) -> None:
    """Make the database after the emulator has made or changed its record.

    The record refers to the database afterwards.
    """
    create, update = handler["create"], handler["update"]

    def settle(physical_id: str) -> dict[str, Any]:
        found = point(physical_id, postgres)
        if found["request"] is not None:
            _grant(grant, found["request"])
        attributes: dict[str, Any] = found["attributes"]
        return attributes

    def made(logical_id: str, props: Mapping[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        physical_id, _ = create(logical_id, props, stack)
        return physical_id, settle(physical_id)

    def changed(*arguments: Any) -> tuple[str, dict[str, Any]]:
        physical_id, _ = update(*arguments)
        return physical_id, settle(physical_id)

    handler.update(create=made, update=changed)


def _instance(rds: Any, provisioners: Any) -> Point:
    def point(physical_id: str, postgres: Mapping[str, Any]) -> dict[str, Any]:
        record = rds._instances[physical_id]
        record["Endpoint"].update(Address=postgres["host"], Port=postgres["port"])
        member = record.get("DBClusterIdentifier")
        return {
            "request": None if member else _request(record, "DBName"),
            "attributes": provisioners._rds_db_instance_attrs(record),
        }

    return point


def _cluster(rds: Any, provisioners: Any) -> Point:
    def point(physical_id: str, postgres: Mapping[str, Any]) -> dict[str, Any]:
        record = rds._clusters[physical_id]
        record.update(Endpoint=postgres["host"], ReaderEndpoint=postgres["host"], Port=postgres["port"])
        return {
            "request": _request(record, "DatabaseName"),
            "attributes": provisioners._rds_db_cluster_attrs(record),
        }

    return point


def _request(record: Mapping[str, Any], database: str) -> dict[str, str]:
    return {
        "user": record["MasterUsername"],
        "password": record["_MasterUserPassword"],
        "database": record[database] or "postgres",
    }


def _grant(command: Grant, request: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise ValueError(f"the local Postgres refused: {done.stderr.strip()[-500:]}")
