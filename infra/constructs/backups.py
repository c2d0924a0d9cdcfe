"""Daily copies of what holds data, in a vault that the stacks' own roles cannot empty; each copied on to another region or account."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_backup as backup_
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_rds as rds
from aws_cdk import aws_s3 as s3
from constructs import Construct

from ..config import BackupConfig, Environment
from ..constructs import nag

_MANAGED = "Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSBackupServiceRolePolicyForBackup"


class Backups(Construct):
    """``vault`` and ``plan``. What is backed up is named by its ARN, not by a tag that a person may forget."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        env: Environment,
        backup: BackupConfig,
        key: kms.IKey,
        server: rds.DatabaseCluster | rds.DatabaseInstance,
        tables: Sequence[dynamodb.ITable],
        buckets: Sequence[s3.IBucket],
    ) -> None:
        super().__init__(scope, id)
        keep = env.database.protected
        self.vault = backup_.BackupVault(
            self,
            "Vault",
            backup_vault_name=env.prefix,
            encryption_key=key,
            removal_policy=cdk.RemovalPolicy.RETAIN if keep else cdk.RemovalPolicy.DESTROY,
        )
        self.plan = backup_.BackupPlan(self, "Plan", backup_plan_name=env.prefix, backup_vault=self.vault)
        self.plan.add_rule(
            backup_.BackupPlanRule(
                rule_name="daily",
                schedule_expression=events.Schedule.cron(hour="3", minute="30"),
                start_window=cdk.Duration.hours(1),
                completion_window=cdk.Duration.hours(6),
                delete_after=cdk.Duration.days(backup.keep_days),
                copy_actions=self._copies(backup),
            )
        )
        found = self.plan.add_selection(
            "Selection",
            resources=[
                backup_.BackupResource.from_arn(arn)
                for arn in [
                    _arn(server),
                    *(table.table_arn for table in tables),
                    *(bucket.bucket_arn for bucket in buckets),
                ]
            ],
        )
        role = found.node.find_child("Role")
        if buckets:
            role.add_managed_policy(_managed("AWSBackupServiceRolePolicyForS3Backup"))
        nag.acknowledge(
            role, f"IAM4[{_MANAGED}]", "what AWS Backup needs for a copy, kept by AWS as services are added"
        )
        if buckets:
            nag.acknowledge(
                role,
                "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/AWSBackupServiceRolePolicyForS3Backup]",
                "what AWS Backup needs for a copy of a bucket, kept by AWS",
            )

    def _copies(self, backup: BackupConfig) -> list[backup_.BackupPlanCopyActionProps]:
        if not backup.copy_to:
            return []
        return [
            backup_.BackupPlanCopyActionProps(
                destination_backup_vault=backup_.BackupVault.from_backup_vault_arn(
                    self, "Elsewhere", backup.copy_to
                ),
                delete_after=cdk.Duration.days(backup.copy_keep_days),
            )
        ]


def _managed(name: str) -> iam.IManagedPolicy:
    return iam.ManagedPolicy.from_aws_managed_policy_name(name)


def _arn(server: rds.DatabaseCluster | rds.DatabaseInstance) -> str:
    found = server.cluster_arn if isinstance(server, rds.DatabaseCluster) else server.instance_arn
    return str(found)
