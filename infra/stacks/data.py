"""Data: what must outlive every deployment. Keys, the database, results, secrets."""

from __future__ import annotations

from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from ..config import Environment
from ..constructs import nag
from ..constructs.backups import Backups
from ..constructs.database import Database, log_groups
from ..stacks import StackArguments
from ..stacks.network import NetworkStack, seal_logs


class DataStack(cdk.Stack):
    """``secrets_key`` seals the database and secrets, ``data_key`` queues, results, logs and alarms: who may use one need not the other.

    ``database`` is None where the environment brings its own (``engine="url"``).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        config: Environment,
        network: NetworkStack | None,
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, termination_protection=config.database.protected, **stack)
        self._config = config
        self._keep = cdk.RemovalPolicy.RETAIN if config.database.protected else cdk.RemovalPolicy.DESTROY
        self.secrets_key = self._key("SecretsKey", "secrets", "Seals the database, its backups, and secrets")
        self.data_key = self._key("DataKey", "data", "Seals queues, results, logs and alarms")
        seal_logs(self, self.data_key, f"/noetl/{config.name}/*")
        if prefix := log_groups(config):
            seal_logs(self, self.data_key, f"{prefix}*")
        self._let_publish()
        self.token_secret = self._token_secret()
        self.results = self._results()
        exported = self.resolve(self.export_value(self.results.bucket_arn))
        self.results_export = str(exported["Fn::ImportValue"])
        self.kv = self._kv() if config.storage.kv else None
        self.database: Database | None = None
        if network is not None:
            self.database = Database(
                self,
                "Database",
                env=config,
                vpc=network.vpc,
                subnets=network.database_subnets,
                group=network.database_group,
                key=self.secrets_key,
                log_key=self.data_key,
            )
        if config.backup is not None and self.database is not None:
            Backups(
                self,
                "Backups",
                env=config,
                backup=config.backup,
                key=self.secrets_key,
                server=self.database.server,
                tables=[self.kv] if self.kv is not None else [],
                buckets=[self.results] if config.storage.version_days else [],
            )
        cdk.CfnOutput(self, "ResultsBucketName", value=self.results.bucket_name)
        if self.database is not None:
            cdk.CfnOutput(self, "DatabaseSecretArn", value=self.database.app_secret.secret_arn)

    def _key(self, id: str, name: str, description: str) -> kms.Key:
        return kms.Key(
            self,
            id,
            alias=f"{self._config.prefix}-{name}",
            description=description,
            enable_key_rotation=True,
            removal_policy=self._keep,
        )

    def _let_publish(self) -> None:
        """Alarms and rules write to a topic and queues that this key seals."""
        self.data_key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[
                    iam.ServicePrincipal("cloudwatch.amazonaws.com"),
                    iam.ServicePrincipal("events.amazonaws.com"),
                ],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
                conditions={"StringEquals": {"aws:SourceAccount": self.account}},
            )
        )

    def _token_secret(self) -> secretsmanager.Secret:
        secret = secretsmanager.Secret(
            self,
            "TokenSecret",
            secret_name=f"noetl/{self._config.name}/tokens",
            description="Signs the tokens of commands: what comes back without one that fits is refused",
            encryption_key=self.secrets_key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=64, exclude_punctuation=True
            ),
            removal_policy=self._keep,
        )
        nag.acknowledge(
            secret,
            "SMG4",
            "rotated by putting a new version: the engine accepts the current and the previous one",
        )
        return secret

    def _kv(self) -> dynamodb.Table:
        """Make the table of small results.

        Items go with their execution and never by age, as objects of the results bucket do.
        """
        storage = self._config.storage
        table = dynamodb.Table(
            self,
            "Kv",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self.data_key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=storage.point_in_time
            ),
            deletion_protection=self._config.database.protected,
            removal_policy=self._keep,
        )
        if not storage.point_in_time:
            nag.acknowledge(table, "DDB3", "results of this environment can be made again")
        return table

    def _results(self) -> s3.Bucket:
        logs = s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[s3.LifecycleRule(expiration=cdk.Duration.days(self._config.retention.logs))],
            removal_policy=self._keep,
        )
        nag.acknowledge(logs, "S1", "the bucket that access logs are written to")
        kept = self._config.storage.version_days
        results = s3.Bucket(
            self,
            "Results",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self.data_key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=logs,
            server_access_logs_prefix="results/",
            # No rule for executions/: age counts from writing, and an execution may run for longer than any number of days. Maintenance
            # removes objects with their execution (docs/adr/0029).
            versioned=kept > 0,
            lifecycle_rules=[
                s3.LifecycleRule(id="revocations", prefix="revoked/", expiration=cdk.Duration.days(15)),
                s3.LifecycleRule(id="cached", prefix="cached/", expiration=cdk.Duration.days(31)),
                s3.LifecycleRule(id="uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(1)),
                *([_old_versions(kept)] if kept else []),
            ],
            removal_policy=self._keep,
        )
        _announce_objects(results)
        return results


def _old_versions(days: int) -> s3.LifecycleRule:
    """What was deleted or overwritten stays for so long; the marks of deletions go with it."""
    return s3.LifecycleRule(
        id="versions",
        noncurrent_version_expiration=cdk.Duration.days(days),
        expired_object_delete_marker=True,
    )


def _announce_objects(bucket: s3.Bucket) -> None:
    """New objects become events of EventBridge.

    Set on the resource itself: what CDK offers is a function that sets it later.
    """
    resource = bucket.node.default_child
    assert isinstance(resource, s3.CfnBucket)
    resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )
