"""Network: a VPC (new or existing) and the security groups around the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from ..config import Environment, ExistingVpc, NetworkConfig
from ..constructs import nag
from ..constructs.python_function import Placement
from ..stacks import StackArguments

ENDPOINTS = {
    "Sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Secrets": ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
    "Kms": ec2.InterfaceVpcEndpointAwsService.KMS,
    "Scheduler": ec2.InterfaceVpcEndpointAwsService("scheduler"),
    "Events": ec2.InterfaceVpcEndpointAwsService("events"),
}
"""Services that the functions in the VPC call (S3 has a gateway, which costs nothing)."""
LAMBDA = {"Lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_}
"""What the API calls as well where triggers may read queues, and isolated workers to hand over outcomes."""

_NAT_INSTANCE = {
    "EC26": "the NAT instance holds no data: its disk is the image",
    "EC28": "basic monitoring is enough for a machine that only forwards",
    "EC29": "any deployment can replace the NAT instance",
    "EC23": "only the VPC's own range may enter the NAT instance",
}


class NetworkStack(cdk.Stack):
    """``engine_placement``: for functions that use the database. ``worker_placement``: for workers that the environment keeps inside;
    ``closed_placement``: for those of them whose kinds need no network;
    ``code_placement``: for code of playbooks, where it is isolated. ``outer_subnets``: public ones, for what runs outside of it.
    ``api_endpoint``: of a private API."""

    def __init__(
        self, scope: Construct, id: str, *, config: Environment, **stack: Unpack[StackArguments]
    ) -> None:
        self._zones = config.network.zones
        super().__init__(scope, id, **stack)
        network = config.network
        existing = network.existing
        self.vpc: ec2.IVpc = self._made(config) if existing is None else self._found(existing)
        self.engine_group = self._group(
            "EngineGroup", "Functions of the engine: reach the database", closed=not config.is_local
        )
        self.database_group = self._group(
            "DatabaseGroup", "The database: reached by functions of the engine only", closed=True
        )
        self.worker_group = self._group("WorkerGroup", "Workers inside the VPC: do not reach the database")
        self._open_database(config)
        inner = ec2.SubnetSelection(subnet_group_name="inner")
        outgoing = ec2.SubnetSelection(subnet_group_name="outgoing")
        self.database_subnets = inner if existing is None else ec2.SubnetSelection(subnet_group_name="data")
        through_nat = network.egress == "nat" and existing is None
        self.engine_placement = Placement(self.vpc, outgoing if through_nat else inner, self.engine_group)
        self.worker_placement: Placement | None = None
        self.closed_placement: Placement | None = None
        if network.private_workers:
            self.worker_placement = Placement(self.vpc, outgoing, self.worker_group)
            closed = inner if network.egress == "both" and existing is None else outgoing
            self.closed_placement = Placement(self.vpc, closed, self.worker_group)
        self.code_placement = self._code_placement(inner) if network.code == "isolated" else None
        public = existing is None or bool(existing.public_subnets)
        self.outer_subnets = ec2.SubnetSelection(subnet_group_name="public") if public else None
        if network.egress in ("endpoints", "both"):
            lambda_too = config.triggers.queues or network.code == "isolated"
            services = ENDPOINTS | LAMBDA if lambda_too else ENDPOINTS
            self._add_endpoints(network.endpoint_zones, services)
        self.api_endpoint = self._api_endpoint(config) if config.api.reach == "private" else None
        if isinstance(self.vpc, ec2.Vpc):
            self._equip(self.vpc, config)

    def _made(self, config: Environment) -> ec2.Vpc:
        network = config.network
        nat = _nat_instance(network) if network.nat == "instance" and network.nat_gateways else None
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=self.availability_zones,
            nat_gateways=network.nat_gateways,
            nat_gateway_provider=nat,
            restrict_default_security_group=not config.is_local,
            subnet_configuration=_subnets(network),
        )
        if nat is not None:
            nat.connections.allow_from(
                ec2.Peer.ipv4(network.cidr), ec2.Port.all_traffic(), "what is routed out"
            )
            for rule, reason in _NAT_INSTANCE.items():
                nag.acknowledge(vpc, rule, reason)
        return vpc

    def _found(self, existing: ExistingVpc) -> ec2.IVpc:
        """Of its attributes: a lookup would need the account at synthesis."""
        engine = list(existing.engine_subnets)
        public = list(existing.public_subnets)
        vpc: ec2.IVpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.id,
            vpc_cidr_block=existing.cidr,
            availability_zones=list(existing.zones),
            isolated_subnet_ids=[*engine, *(existing.database_subnets or engine)],
            isolated_subnet_names=["inner", "data"],
            private_subnet_ids=list(existing.worker_subnets) or engine,
            private_subnet_names=["outgoing"],
            public_subnet_ids=public or None,
            public_subnet_names=["public"] if public else None,
        )
        # Its routes are the owner's, and nothing here asks for them.
        for subnet in (*vpc.isolated_subnets, *vpc.private_subnets, *vpc.public_subnets):
            cdk.Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
        return vpc

    def _equip(self, vpc: ec2.Vpc, config: Environment) -> None:
        """Add gateway endpoints and flow logs; an existing network has its owner's."""
        if config.network.egress != "none":
            vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
            if config.storage.kv:
                vpc.add_gateway_endpoint("Kv", service=ec2.GatewayVpcEndpointAwsService.DYNAMODB)
        if config.network.flow_logs:
            self._add_flow_logs(vpc, config)
        else:
            nag.acknowledge(vpc, "VPC7", "flow logs of an environment that may be thrown away")

    @property
    def availability_zones(self) -> list[str]:
        """The first zones of whichever region this is deployed to, without asking AWS at synthesis."""
        return [cdk.Fn.select(index, cdk.Fn.get_azs()) for index in range(self._zones)]

    def _group(self, id: str, description: str, *, closed: bool = False) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, id, vpc=self.vpc, description=description, allow_all_outbound=not closed
        )

    def _code_placement(self, inner: ec2.SubnetSelection) -> Placement:
        """Subnets without a route out, and a group that reaches endpoints of AWS alone."""
        group = self._group("CodeGroup", "Code of playbooks: reaches endpoints of AWS only", closed=True)
        group.add_egress_rule(
            ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "endpoints of AWS: no route leads further"
        )
        return Placement(self.vpc, inner, group)

    def _open_database(self, config: Environment) -> None:
        """Rules inside the group itself where the emulator knows no others."""
        port = ec2.Port.tcp(5432)
        if not config.is_local:
            self.engine_group.add_egress_rule(self.database_group, port, "the database")
            self.engine_group.add_egress_rule(
                ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS: its addresses are known at run time"
            )
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

    def _api_endpoint(self, config: Environment) -> ec2.IVpcEndpoint:
        """The way to a private API. Its names stay as they are for other APIs: this one has a name of its endpoint."""
        if config.api.vpc_endpoint:
            return ec2.InterfaceVpcEndpoint.from_interface_vpc_endpoint_attributes(
                self, "ApiEndpoint", vpc_endpoint_id=config.api.vpc_endpoint, port=443
            )
        group = self._group(
            "ApiEndpointGroup", "The private API: reached from inside, and by its callers", closed=True
        )
        for source in (self.vpc.vpc_cidr_block, *config.api.callers):
            group.add_ingress_rule(ec2.Peer.ipv4(source), ec2.Port.tcp(443), "callers of the API")
        nag.acknowledge(
            group, "EC23", "the VPC's own range, known at deploy, and those that the environment names"
        )
        subnets = self.vpc.select_subnets(subnet_group_name="inner").subnets[: config.network.endpoint_zones]
        return self.vpc.add_interface_endpoint(
            "ApiEndpoint",
            service=ec2.InterfaceVpcEndpointAwsService.APIGATEWAY,
            open=False,
            private_dns_enabled=False,
            security_groups=[group],
            subnets=ec2.SubnetSelection(subnets=subnets),
        )

    def _add_flow_logs(self, vpc: ec2.Vpc, config: Environment) -> None:
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
        vpc.add_flow_log(
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


def _nat_instance(network: NetworkConfig) -> ec2.NatInstanceProviderV2:
    """One small machine of AWS's own image, the newest at each deployment, which lets nothing in but from the VPC."""
    kind = ec2.InstanceType(network.nat_instance)
    arm = kind.architecture == ec2.InstanceArchitecture.ARM_64
    image = ec2.MachineImage.latest_amazon_linux2023(
        cpu_type=ec2.AmazonLinuxCpuType.ARM_64 if arm else ec2.AmazonLinuxCpuType.X86_64
    )
    return ec2.NatInstanceProviderV2(
        instance_type=kind,
        machine_image=image,
        associate_public_ip_address=True,
        default_allowed_traffic=ec2.NatTrafficDirection.OUTBOUND_ONLY,
    )


def _subnets(network: NetworkConfig) -> list[ec2.SubnetConfiguration]:
    """A sixteenth of the network each, public ones a 256th."""
    size = int(network.cidr.rpartition("/")[2])
    made = [
        ec2.SubnetConfiguration(
            name="public",
            subnet_type=ec2.SubnetType.PUBLIC,
            cidr_mask=size + 8,
            map_public_ip_on_launch=False,
        ),
        ec2.SubnetConfiguration(
            name="inner", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=size + 4
        ),
    ]
    if network.nat_gateways:
        made.append(
            ec2.SubnetConfiguration(
                name="outgoing", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=size + 4
            )
        )
    return made
