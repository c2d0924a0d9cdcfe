"""What the stacks that run code are given: the environment's plan, where things are, and the variables that functions read.

The variables are those of ``noetl.runtime.aws.settings``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .config import Environment
from .constructs import grants
from .constructs.grants import Grant
from .constructs.python_function import Placement, PythonFunction
from .constructs.rollout import LIVE
from .stacks.data import DataStack
from .stacks.messaging import MessagingStack
from .triggers import Triggers
from .workers import WorkerPlan

CACHE_FOLDER = "/tmp/noetl-results"
RESULT_FOLDERS = ("executions", "permanent", "programs", "revoked")
"""Everything in the results bucket."""


@dataclass(frozen=True, slots=True)
class Platform:
    """``code``: digest of the library that is deployed. ``outer_subnets``: public ones, where the network has any."""

    config: Environment
    plan: WorkerPlan
    data: DataStack
    messaging: MessagingStack
    engine_placement: Placement | None
    worker_placement: Placement | None
    closed_placement: Placement | None
    vpc: ec2.IVpc | None
    outer_subnets: ec2.SubnetSelection | None
    api_endpoint: ec2.IVpcEndpoint | None
    code_placement: Placement | None
    code: str

    def function_name(self, name: str) -> str:
        """Of a function or role, as others refer to it before it exists."""
        return f"{self.config.prefix}-{name}"

    def target_name(self, name: str) -> str:
        """How a function of this environment is invoked: by its name, or by its alias where versions are rolled out."""
        alias = f":{LIVE}" if self.config.deploys == "canary" else ""
        return f"{self.function_name(name)}{alias}"

    def target_arn(self, scope: Construct, name: str) -> str:
        """Of a function as others invoke it, before it exists."""
        arn: str = cdk.Stack.of(scope).format_arn(
            service="lambda",
            resource="function",
            resource_name=self.target_name(name),
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        return arn

    def scheduler_arn(self, scope: Construct) -> str:
        """Of the function that schedules start."""
        return self.target_arn(scope, "scheduler")

    def schedule_role_arn(self, scope: Construct) -> str:
        """Of the role that EventBridge Scheduler takes on."""
        arn: str = cdk.Stack.of(scope).format_arn(
            service="iam", region="", resource="role", resource_name=self.function_name("schedules")
        )
        return arn

    @property
    def trigger_rules(self) -> str:
        """What the names of rules begin with that triggers become while the system runs."""
        return f"{self.config.prefix}-t-"

    @property
    def starts_dlq_name(self) -> str:
        """Of the queue of starts that could not be delivered."""
        return f"{self.config.prefix}-starts-dlq"

    def trigger_variables(self, scope: Construct, declared: Triggers) -> dict[str, str]:
        """For the function that makes triggers.

        ``declared``: those of playbooks, whose queues are read already.
        """
        dlq = cdk.Stack.of(scope).format_arn(service="sqs", resource=self.starts_dlq_name)
        variables = {"NOETL_TRIGGER_RULES": self.trigger_rules, "NOETL_STARTS_DLQ_ARN": dlq}
        if queues := self.config.triggers.queues:
            variables["NOETL_READABLE_QUEUES"] = ",".join(queues)
            variables["NOETL_TRIGGER_QUEUES"] = json.dumps(declared.paths_by_queue())
        return variables

    def trigger_grants(self, scope: Construct) -> list[Grant]:
        """Rules of the default bus under the environment's prefix, and the scheduler function as their only target; where triggers may read
        queues, event source mappings of that function."""
        reason = "people name their triggers; the rules of all begin with the environment's prefix"
        name = f"{self.trigger_rules}*"
        actions = ["PutRule", "RemoveTargets", "DeleteRule"]
        aim = grants.named(scope, "events", "rule", name, ["PutTargets"], reason)
        aim.statement.add_condition("ArnEquals", {"events:TargetArn": self.scheduler_arn(scope)})
        given = [grants.named(scope, "events", "rule", name, actions, reason), aim]
        if self.config.triggers.queues:
            given += grants.map_sources(scope, self.scheduler_arn(scope))
        return given

    def database_function(
        self,
        scope: Construct,
        name: str,
        *,
        timeout: int,
        layers: list[lambda_.ILayerVersion],
        owner: bool = False,
        reads_history: bool = False,
        dead_letter_queue: sqs.IQueue | None = None,
        variables: Mapping[str, str] | None = None,
        retries: int = 2,
    ) -> PythonFunction:
        """A function that connects to Postgres.

        ``owner``: as the owner of the schema, and it makes the roles of the others. ``reads_history``: it signs in as
        the role that reads the views, too.
        """
        size = self.config.functions[name]
        made = PythonFunction(
            scope,
            name.capitalize(),
            env=self.config,
            name=name,
            folder=name,
            timeout=timeout,
            memory=size.memory,
            reserved=size.reserved,
            layers=layers,
            log_key=self.data.data_key,
            placement=self.engine_placement,
            variables=self._engine_variables(scope)
            | self._database_variables(owner)
            | self._reader_variables(owner or reads_history)
            | dict(variables or {}),
            dead_letter_queue=dead_letter_queue,
            retries=retries,
            # What a deployment itself invokes is the new version at once.
            released=not owner,
        )
        if database := self.data.database:
            others = [database.owner_secret] if owner else []
            if owner or reads_history:
                others.append(database.reader_secret)
            made.allow(grants.read_secret(database.app_secret, *others))
        made.allow(*self._engine_grants(scope))
        return made

    def worker_variables(
        self, worker: str, *, isolated: bool, public_url: str, api_url: str = "", direct: bool = False
    ) -> dict[str, str]:
        """A worker knows neither the database nor the key of tokens; one that runs code of playbooks no credentials either. ``api_url``: where
        it asks for them; ``public_url``: where others answer callbacks. ``direct``: it hands outcomes over by request."""
        variables = self._common_variables() | {"NOETL_WORKER": worker, "NOETL_PUBLIC_URL": public_url}
        if direct:
            variables["NOETL_DECIDE_FUNCTION"] = self.target_name("decide")
            variables["NOETL_DIRECT_STEPS"] = str(self.config.workers.direct_steps)
        if not isolated:
            variables |= self._cache_variables()
            variables["NOETL_CREDENTIALS_PREFIX"] = self.config.credentials_prefix
            if api_url:
                variables["NOETL_API_URL"] = api_url
            if self.config.workspace:
                variables["NOETL_WORKSPACE"] = self.config.workspace
        if self.config.data_folders:
            variables["NOETL_DATA_DIRS"] = os.pathsep.join(self.config.data_folders)
        return variables

    def _cache_variables(self) -> dict[str, str]:
        """Copies of results stay with workers that run no code of playbooks: it could read those of others."""
        most = self.config.storage.cache_mb
        if not most:
            return {}
        return {"NOETL_STORAGE_LOCAL_CACHE_DIR": CACHE_FOLDER, "NOETL_STORAGE_CACHE_MB": str(most)}

    def _common_variables(self) -> dict[str, str]:
        version = {
            "stack": self.config.prefix,
            "version": f"{metadata.version('noetl-serverless')}+{self.code[:12]}",
        }
        return {
            "NOETL_ENV": self.config.name,
            "NOETL_RESULTS_BUCKET": self.data.results.bucket_name,
            "NOETL_EVENTS_QUEUE_URL": self.messaging.events.queue.queue_url,
            "NOETL_QUEUE_PREFIX": self.messaging.commands_prefix,
            "NOETL_HTTP_ALLOW": ",".join(self.config.http_allow),
            "NOETL_DEPLOYMENT": json.dumps(version),
            **self._storage_variables(),
        }

    def _storage_variables(self) -> dict[str, str]:
        """Of every function: all read what any of them wrote."""
        storage, table = self.config.storage, self.data.kv
        if table is None:
            return dict(storage.variables)
        return {
            **storage.variables,
            "NOETL_STORAGE_KV_TABLE": table.table_name,
            "NOETL_STORAGE_KV_AUTO_BYTES": str(storage.kv_auto_bytes),
        }

    def _engine_variables(self, scope: Construct) -> dict[str, str]:
        kept = self.config.retention
        days = {
            "NOETL_RETENTION_DAYS": kept.executions,
            "NOETL_VARIABLES_RETENTION_DAYS": kept.variables,
        }
        return {
            **self._common_variables(),
            **{name: str(number) for name, number in days.items() if number is not None},
            "NOETL_TIMERS_QUEUE_URL": self.messaging.timers.queue.queue_url,
            "NOETL_QUEUES": json.dumps(self.plan.routes),
            "NOETL_WORKERS": json.dumps(self.plan.concurrency()),
            "NOETL_TOKEN_SECRET_ARN": self.data.token_secret.secret_arn,
            "NOETL_CREDENTIALS_PREFIX": self.config.credentials_prefix,
            "NOETL_SCHEDULE_GROUP": self.config.prefix,
            "NOETL_SCHEDULER_TARGET_ARN": self.scheduler_arn(scope),
            "NOETL_SCHEDULER_ROLE_ARN": self.schedule_role_arn(scope),
            "NOETL_AUTH": self.config.api.auth,
        }

    def _reader_variables(self, wanted: bool) -> dict[str, str]:
        database = self.data.database
        if database is None or not wanted:
            return {}
        variables = {"NOETL_READER_SECRET_ARN": database.reader_secret.secret_arn}
        if database.reader_host:
            variables["NOETL_READER_HOST"] = database.reader_host
        return variables

    def _database_variables(self, owner: bool) -> dict[str, str]:
        if self.data.database is None:
            return {"NOETL_DATABASE_URL": self.config.database.url}
        database = self.data.database
        if owner:
            return {
                "NOETL_DATABASE_SECRET_ARN": database.owner_secret.secret_arn,
                "NOETL_APP_SECRET_ARN": database.app_secret.secret_arn,
            }
        variables = {"NOETL_DATABASE_SECRET_ARN": database.app_secret.secret_arn}
        if database.proxy_host:
            variables |= {"NOETL_DATABASE_HOST": database.proxy_host, "NOETL_DATABASE_POOLED": "1"}
        if self.config.database.pauses:
            variables["NOETL_CLOSE_CONNECTIONS"] = "1"
        return variables

    def _engine_grants(self, scope: Construct) -> list[Grant]:
        """What every function of the engine does: read and write results, publish, sign and seal."""
        data, messaging = self.data, self.messaging
        return [
            grants.send([messaging.events.queue, messaging.timers.queue, *messaging.command_queues()]),
            self.result_objects(["s3:GetObject", "s3:PutObject"], RESULT_FOLDERS),
            grants.list_objects(data.results),
            grants.read_secret(data.token_secret),
            *self.tier_grants(scope),
            grants.use_key_through(scope, data.secrets_key, "secretsmanager"),
        ]

    def tier_grants(self, scope: Construct, *, delete: bool = False) -> list[Grant]:
        """The key of queues and results; the table of small results, and the secrets of tiers outside of AWS. ``delete``: whole executions."""
        data, secrets = self.data, self.config.storage.secrets
        found = []
        if data.kv is not None:
            found += [
                grants.keep_values(data.kv, delete=delete),
                grants.use_key_of_table(scope, data.data_key),
            ]
        if delete:
            return found
        if secrets:
            found.append(grants.grant(["secretsmanager:GetSecretValue"], secrets))
        return [*found, grants.use_key_through(scope, data.data_key, "sqs", "s3")]

    def schedule_grants(self, scope: Construct) -> list[Grant]:
        """For functions that keep schedules in step with playbooks."""
        pass_role = iam.PolicyStatement(
            actions=["iam:PassRole"],
            resources=[self.schedule_role_arn(scope)],
            conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        )
        return [
            grants.named(
                scope,
                "scheduler",
                "schedule",
                f"{self.config.prefix}/*",
                ["CreateSchedule", "UpdateSchedule", "DeleteSchedule", "GetSchedule"],
                "playbooks name their schedules; all are in the environment's group",
            ),
            grants.grant_any(["scheduler:ListSchedules"], "AWS does not limit lists to a group"),
            Grant(pass_role),
        ]

    def result_objects(self, actions: Sequence[str], folders: Sequence[str]) -> Grant:
        """``actions`` on what is below ``folders`` in the results bucket."""
        return grants.objects(self.data.results, self.data.results_export, actions, folders)
