"""Postgres: Aurora Serverless v2 or an RDS instance, the secrets of its owner and of the role that the functions use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from ..config import Environment
from ..constructs import nag
from ..constructs.python_function import RETENTIONS

NAME = "noetl"
OWNER = "noetl_owner"
APP_ROLE, READER_ROLE = "noetl_app", "noetl_reader"
"""What the functions sign in as; functions/migrate makes it."""


def cluster_name(env: Environment) -> str | None:
    """Return the identifier of the Aurora cluster; None where RDS generated it."""
    identifier = env.database.identifier
    return env.prefix if identifier == "" else identifier


def log_groups(env: Environment) -> str | None:
    """Return the prefix of the cluster's log groups; None where its name is not known before it exists."""
    name = cluster_name(env) if env.database.engine == "aurora" else None
    return name and f"/aws/rds/cluster/{name}/"


class _Common(TypedDict):
    """What a cluster and an instance are given alike."""

    vpc: ec2.IVpc
    vpc_subnets: ec2.SubnetSelection
    security_groups: list[ec2.ISecurityGroup]
    storage_encrypted: bool
    storage_encryption_key: kms.IKey
    deletion_protection: bool
    removal_policy: cdk.RemovalPolicy
    copy_tags_to_snapshot: bool


class Database(Construct):
    """``host``: where functions connect (the proxy, when there is one). ``owner_secret`` is for migrations only.

    ``dimensions``: of its metrics in the namespace AWS/RDS. ``reader_host``: of the instance that runs people's queries, which no query
    of the engine uses; empty where there is no other instance.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        env: Environment,
        vpc: ec2.IVpc,
        subnets: ec2.SubnetSelection,
        group: ec2.ISecurityGroup,
        key: kms.IKey,
        log_key: kms.IKey,
    ) -> None:
        super().__init__(scope, id)
        self._env = env
        self._log_key = log_key
        self._vpc = vpc
        self._subnets = subnets
        # Its rules are the network's: what CDK would add here would make the two stacks depend on each other.
        self._group = ec2.SecurityGroup.from_security_group_id(
            self, "Group", group.security_group_id, mutable=False
        )
        self._key = key
        owner = self._secret(
            "OwnerSecret", "owner", {"username": OWNER}, "Owns the schema: migrations sign in with it"
        )
        self._owner = rds.Credentials.from_secret(owner)
        self.server: rds.DatabaseCluster | rds.DatabaseInstance
        self.reader_host = ""
        if env.database.engine == "aurora":
            self.server = cluster = self._aurora()
            endpoint, secret = cluster.cluster_endpoint, cluster.secret
            if env.database.multi_az:
                self.reader_host = cluster.cluster_read_endpoint.hostname
            self.dimensions = {"DBClusterIdentifier": cluster.cluster_identifier}
        else:
            self.server = instance = self._instance()
            endpoint, secret = instance.instance_endpoint, instance.secret
            self.dimensions = {"DBInstanceIdentifier": instance.instance_identifier}
        self._keep_when_replaced()
        assert secret is not None  # generated, so it exists
        self.owner_secret: secretsmanager.ISecret = secret
        self.app_secret = self._role_secret(
            endpoint, "AppSecret", "app", APP_ROLE, "How the functions sign in to Postgres"
        )
        self.reader_secret = self._role_secret(
            endpoint, "ReaderSecret", "reader", READER_ROLE, "How queries of people sign in to Postgres"
        )
        self.proxy_host = self._proxy() if env.database.proxy else ""
        if env.database.rotation_days:
            self._rotate(env.database.rotation_days)
        self._acknowledge()

    def _aurora(self) -> rds.DatabaseCluster:
        config = self._env.database
        engine = rds.DatabaseClusterEngine.aurora_postgres(version=rds.AuroraPostgresEngineVersion.VER_17_7)
        readers = (
            [rds.ClusterInstance.serverless_v2("Reader", scale_with_writer=True)] if config.multi_az else None
        )
        cluster = rds.DatabaseCluster(
            self,
            "Cluster",
            # A name that is known before, so that its log group can be made before: RDS makes one that never expires.
            cluster_identifier=cluster_name(self._env),
            engine=engine,
            credentials=self._owner,
            default_database_name=NAME,
            writer=rds.ClusterInstance.serverless_v2("Writer", auto_minor_version_upgrade=True),
            readers=readers,
            serverless_v2_min_capacity=config.min_acu,
            serverless_v2_max_capacity=config.max_acu,
            serverless_v2_auto_pause_duration=(
                cdk.Duration.minutes(config.pause_after_minutes) if config.pauses else None
            ),
            parameter_group=self._parameters(engine),
            cloudwatch_logs_exports=["postgresql"],
            backup=rds.BackupProps(retention=cdk.Duration.days(config.backup_days)),
            **self._common(),
        )
        if prefix := log_groups(self._env):
            cluster.node.add_dependency(self._logs(prefix))
        return cluster

    def _logs(self, prefix: str) -> logs.LogGroup:
        """Make the log group that the cluster exports to."""
        return logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"{prefix}postgresql",
            encryption_key=self._log_key,
            retention=RETENTIONS[self._env.retention.logs],
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )

    def _instance(self) -> rds.DatabaseInstance:
        config = self._env.database
        engine = rds.DatabaseInstanceEngine.postgres(version=rds.PostgresEngineVersion.VER_17_7)
        return rds.DatabaseInstance(
            self,
            "Instance",
            engine=engine,
            credentials=self._owner,
            database_name=NAME,
            instance_type=ec2.InstanceType(config.instance_class),
            allocated_storage=config.storage_gib,
            max_allocated_storage=config.storage_gib * 10,
            storage_type=rds.StorageType.GP3,
            multi_az=config.multi_az,
            parameter_group=self._parameters(engine),
            backup_retention=cdk.Duration.days(config.backup_days),
            **self._common(),
        )

    def _keep_when_replaced(self) -> None:
        """Let a change that makes another database (its name, its engine) leave the present one where it is, with its data."""
        made = self.server.node.default_child
        assert isinstance(made, cdk.CfnResource)
        made.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.RETAIN

    def _common(self) -> _Common:
        protected = self._env.database.protected
        return {
            "vpc": self._vpc,
            "vpc_subnets": self._subnets,
            "security_groups": [self._group],
            "storage_encrypted": True,
            "storage_encryption_key": self._key,
            "deletion_protection": protected,
            "removal_policy": cdk.RemovalPolicy.SNAPSHOT if protected else cdk.RemovalPolicy.DESTROY,
            "copy_tags_to_snapshot": True,
        }

    def _parameters(self, engine: rds.IEngine) -> rds.ParameterGroup:
        return rds.ParameterGroup(
            self,
            "Parameters",
            engine=engine,
            description="TLS only; connections as budgeted; slow statements logged",
            parameters={
                "rds.force_ssl": "1",
                "max_connections": str(self._env.database.max_connections),
                "log_min_duration_statement": "1000",
                "idle_in_transaction_session_timeout": "60000",
            },
        )

    def _role_secret(
        self, endpoint: rds.Endpoint, id: str, name: str, role: str, description: str
    ) -> secretsmanager.Secret:
        """How a role that the migration makes signs in."""
        known = {
            "engine": "postgres",
            "username": role,
            "host": endpoint.hostname,
            "port": endpoint.port,
            "dbname": NAME,
        }
        return self._secret(id, name, known, description)

    def _secret(
        self, id: str, name: str, known: Mapping[str, object], description: str
    ) -> secretsmanager.Secret:
        """A generated password beside what is ``known``.

        Only an emulator's database may do without TLS.
        """
        if self._env.is_local:
            known = {**known, "sslmode": "prefer"}
        return secretsmanager.Secret(
            self,
            id,
            secret_name=f"noetl/{self._env.name}/database/{name}",
            description=description,
            encryption_key=self._key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=cdk.Stack.of(self).to_json_string(known),
                generate_string_key="password",
                password_length=48,
                exclude_punctuation=True,
            ),
        )

    def _proxy(self) -> str:
        proxy = self.server.add_proxy(
            "Proxy",
            vpc=self._vpc,
            vpc_subnets=self._subnets,
            security_groups=[self._group],
            secrets=[self.app_secret, self.reader_secret],
            require_tls=True,
            max_connections_percent=80,
            # Less than a function may run: it then answers, or backs off, instead of being stopped.
            borrow_timeout=cdk.Duration.seconds(10),
            idle_client_timeout=cdk.Duration.minutes(15),
            db_proxy_name=f"{self._env.prefix}",
        )
        nag.acknowledge(proxy, "IAM5", "the proxy reads the versions of the two secrets it was given")
        endpoint: str = proxy.endpoint
        return endpoint

    def _rotate(self, days: int) -> None:
        """AWS's own rotation function, inside the VPC: both passwords change by themselves."""
        for name, secret in (
            ("Owner", self.owner_secret),
            ("App", self.app_secret),
            ("Reader", self.reader_secret),
        ):
            secretsmanager.SecretRotation(
                self,
                f"{name}Rotation",
                secret=secret,
                application=secretsmanager.SecretRotationApplication.POSTGRES_ROTATION_SINGLE_USER,
                target=self.server,
                vpc=self._vpc,
                vpc_subnets=self._subnets,
                security_group=self._group,
                automatically_after=cdk.Duration.days(days),
                exclude_characters=" %+~`#$&*()|[]{}:;<>?!'/@\"\\",
            )

    def _acknowledge(self) -> None:
        config = self._env.database
        nag.acknowledge(
            self,
            "RDS6",
            "the functions sign in with a generated password; a token per connection buys nothing here",
        )
        nag.acknowledge(
            self, "RDS11", "the port is no secret: the security group lets only the engine's functions in"
        )
        if not config.protected:
            nag.acknowledge(self, "RDS10", "an environment that may be thrown away")
        if not config.multi_az:
            nag.acknowledge(self, "RDS3", "an environment that may be down with its zone")
        if not config.backup_days:
            nag.acknowledge(self, "RDS13", "an emulator's database is thrown away with it")
        if not config.rotation_days:
            nag.acknowledge(
                self, "SMG4", "an environment that may be thrown away keeps its generated passwords"
            )
