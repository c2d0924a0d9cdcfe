"""Network: a VPC whose inner subnets have no way out but endpoints, and the groups that say who reaches the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import Environment
from infra.constructs import nag
from infra.constructs.python_function import Placement
from infra.stacks import StackArguments

ENDPOINTS = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Secrets": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
    "Kms": ec2.InterfaceVpcEndpointAwsService.KMS,
    "Scheduler": ec2.InterfaceVpcEndpointAwsService("scheduler"),
    "Events": ec2.InterfaceVpcEndpointAwsService("events"),
}
"""Services that the functions in the VPC call (S3 has a gateway, which costs nothing)."""
LAMBDA = {"Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_}
"""What the API calls as well where triggers may read queues."""


class NetworkStack(cdk.Stack):
    """``engine_placement``: for functions that use the database. ``worker_placement``: for workers that the environment keeps inside;
    ``closed_placement``: for those of them whose kinds need no network."""

    def __init__(
        self, scope: Construct, id: str, *, config: Environment, **stack: Unpack[StackArguments]
    ) -> None:
        self._zones = config.network.zones
        super().__init__(scope, id, **stack)
        network = config.network
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr("10.42.0.0/16"),
            availability_zones=self.availability_zones,
            nat_gateways=network.nat_gateways,
            restrict_default_security_group=not config.is_local,
            subnet_configuration=_subnets(network.nat_gateways > 0),
        )
        self.engine_group = self._group("EngineGroup", "Functions of the engine: reach the database")
        self.database_group = self._group(
            "DatabaseGroup", "The database: reached by functions of the engine only", closed=True
        )
        self.worker_group = self._group("WorkerGroup", "Workers inside the VPC: do not reach the database")
        self._open_database(config)
        inner = ec2.SubnetSelection(subnet_group_name="inner")
        outgoing = ec2.SubnetSelection(subnet_group_name="outgoing")
        self.database_subnets = inner
        self.engine_placement = Placement(
            self.vpc, outgoing if network.egress == "nat" else inner, self.engine_group
        )
        self.worker_placement: Placement | None = None
        self.closed_placement: Placement | None = None
        if network.private_workers:
            self.worker_placement = Placement(self.vpc, outgoing, self.worker_group)
            closed = inner if network.egress == "both" else outgoing
            self.closed_placement = Placement(self.vpc, closed, self.worker_group)
        if network.egress in ("endpoints", "both"):
            services = ENDPOINTS | LAMBDA if config.triggers.queues else ENDPOINTS
            self._add_endpoints(network.endpoint_zones, services)
        if network.egress != "none":
            self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
            if config.storage.kv:
                self.vpc.add_gateway_endpoint("Kv", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        if network.flow_logs:
            self._add_flow_logs(config)
        else:
            nag.acknowledge(self.vpc, "VPC7", "an emulator has no flow logs")

    @property
    def availability_zones(self) -> list[str]:
        """The first zones of whichever region this is deployed to, without asking AWS at synthesis."""
        return [cdk.Fn.select(index, cdk.Fn.get_azs()) for index in range(self._zones)]

    def _group(self, id: str, description: str, *, closed: bool = False) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, id, vpc=self.vpc, description=description, allow_all_outbound=not closed
        )

    def _open_database(self, config: Environment) -> None:
        """Rules inside the group itself where the emulator knows no others."""
        port = ec2.Port.tcp(5432)
        self.database_group.add_ingress_rule(self.engine_group, port, "functions of the engine")
        self.database_group.add_ingress_rule(self.database_group, port, "its proxy, and its rotation")
        if config.database.proxy or config.database.rotation_days:
            self.database_group.add_egress_rule(self.database_group, port, "its proxy, and its rotation")
            self.database_group.add_egress_rule(
                ec2.Peer.ipv4(self.vpc.vpc_cidr_block), ec2.Port.tcp(443), "endpoints of AWS services"
            )

    def _add_endpoints(self, zones: int, services: Mapping[str, ec2.InterfaceVpcEndpointAwsService]) -> None:
        group = self._group(
            "EndpointGroup", "Endpoints of AWS services: reached from inside the VPC", closed=True
        )
        group.add_ingress_rule(ec2.Peer.ipv4(self.vpc.vpc_cidr_block), ec2.Port.tcp(443), "the VPC")
        nag.acknowledge(
            group, "EC23", "only the VPC's own addresses reach it; their range is known at deploy"
        )
        subnets = self.vpc.select_subnets(subnet_group_name="inner").subnets[:zones]
        for name, service in services.items():
            self.vpc.add_interface_endpoint(
                f"{name}Endpoint",
                service=service,
                open=False,
                security_groups=[group],
                subnets=ec2.SubnetSelection(subnets=subnets),
            )

    def _add_flow_logs(self, config: Environment) -> None:
        """Sealed with a key of their own: the stack of the other keys comes after this one."""
        name = f"/noetl/{config.name}/network"
        key = kms.Key(self, "LogKey", enable_key_rotation=True, removal_policy=cdk.RemovalPolicy.DESTROY)
        seal_logs(self, key, name)
        group = logs.LogGroup(
            self,
            "FlowLogs",
            log_group_name=name,
            encryption_key=key,
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.vpc.add_flow_log(
            "Flow",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )


def seal_logs(stack: cdk.Stack, key: kms.Key, name: str) -> None:
    """Let CloudWatch Logs use the key for log groups of this name (which may end with *)."""
    arn = stack.format_arn(
        service="logs", resource="log-group", resource_name=name, arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=[
                "kms:Encrypt",
                "kms:Decrypt",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
                "kms:GenerateDataKey",
                "kms:DescribeKey",
            ],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": arn}},
        )
    )


def _subnets(nat: bool) -> list[ec2.SubnetConfiguration]:
    made = [
        ec2.SubnetConfiguration(
            name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24, map_public_ip_on_launch=False
        ),
        ec2.SubnetConfiguration(name="inner", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20),
    ]
    if nat:
        made.append(
            ec2.SubnetConfiguration(
                name="outgoing", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=20
            )
        )
    return made
