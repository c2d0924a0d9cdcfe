"""What an environment may differ in, checked before anything is synthesised.

The environments themselves: environments.py.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .trigger_queues import TriggersConfig, queue_problems
from .ui_config import UiConfig, ui_problems

Auth = Literal["iam", "jwt", "none"]
Egress = Literal["none", "endpoints", "nat", "both"]
Nat = Literal["gateway", "instance"]
Reach = Literal["public", "private"]
Code = Literal["outside", "isolated"]
Deploys = Literal["at-once", "canary"]

DATABASE_FUNCTIONS = ("api", "engine", "decide", "scheduler", "maintenance", "migrate")
"""Functions that connect to Postgres."""
CONNECTION_SHARE = 0.8
"""Part of max_connections that the functions may fill; the rest is for people, rotation, and the server itself."""
CONNECTIONS_PER_ACU = 189
"""What Aurora Serverless v2 allows by itself for each capacity unit (2 GiB)."""
CONNECTIONS_WHEN_PAUSING = 2000
"""Its ceiling when the smallest capacity is half a unit or less."""

MOST_KV_BYTES = 1024 * 1024
"""Largest value of the tier kv."""
MOST_CACHE_MB = 400
VAULT = r"arn:aws[a-z-]*:backup:[a-z0-9-]+:\d{12}:backup-vault:[\w-]+"

RESERVED = frozenset(
    {
        "alarms",
        "api",
        "commands",
        "data",
        "decide",
        "dlq",
        "engine",
        "events",
        "in",
        "job",
        "jobs",
        "maintenance",
        "migrate",
    }
    | {"schedules", "scheduler", "secrets", "starts", "t", "task", "timers", "worker"}
)
"""What follows the environment in names of resources. Permissions are given by such beginnings (`noetl-dev-worker-*`), so no environment
may be called `dev-worker`."""

LOG_DAYS = (1, 3, 7, 14, 30, 60, 90, 180, 365)
"""How long CloudWatch may keep logs (of what it offers)."""


class ConfigError(Exception):
    """A configuration that must not be deployed; the text says what is wrong and what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConfig:
    """``engine``: aurora (Serverless v2), instance (RDS), or url (a database of your own; the environment `local` only).

    ``max_connections`` is set in the parameter group, so the budget of connections is exact. ``proxy``: RDS Proxy in front;
    it multiplexes, but keeps Aurora from pausing.
    """

    engine: Literal["aurora", "instance", "url"]
    max_connections: int
    min_acu: float = 0.5
    max_acu: float = 4.0
    pause_after_minutes: int = 10
    """Idle minutes after which Aurora with ``min_acu=0`` pauses."""
    instance_class: str = "t4g.micro"
    storage_gib: int = 20
    multi_az: bool = False
    """A reader in another zone (aurora), a standby (instance). Queries of people (`noetl sql`) run on the reader."""
    proxy: bool = False
    backup_days: int = 7
    sweep_every: int = 0
    """Minutes between two looks of maintenance for what killed invocations left; 0: 1, and 60 where the database pauses."""
    protected: bool = True
    """Deletion protection, and a snapshot when the stack goes."""
    rotation_days: int | None = None
    queries: bool = True
    """Whether holders of the scope `read` may send SQL over history."""
    url: str = ""
    identifier: str | None = ""
    """Of the Aurora cluster; empty: noetl-<environment>. None: RDS generated it, in a deployment older than this setting.
    A change makes CloudFormation replace the cluster, by an empty one."""

    @property
    def pauses(self) -> bool:
        return self.engine == "aurora" and self.min_acu == 0

    @property
    def sweep_minutes(self) -> int:
        """How often maintenance looks for what a killed invocation left.

        A database that pauses is woken rarely: timers and delays need no looking, a message that comes again sweeps
        as well, and only a start whose API call died waits for the next look.
        """
        return self.sweep_every or (60 if self.pauses else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpc:
    """A VPC that another team owns, named in full, so that synthesis makes no look-up in AWS.

    Subnets are ids, one for each of ``zones`` at least.

    ``engine_subnets``: of the functions that use the database; ``worker_subnets`` and ``database_subnets``: the same unless named.
    ``public_subnets``: of containers and Fargate workers outside the network; none: they run in ``worker_subnets``. Routes, NAT, flow logs
    and gateway endpoints (S3, DynamoDB) are the owner's.
    """

    id: str
    cidr: str
    zones: tuple[str, ...]
    engine_subnets: tuple[str, ...]
    worker_subnets: tuple[str, ...] = ()
    database_subnets: tuple[str, ...] = ()
    public_subnets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """``egress``: how functions in the VPC reach AWS. `endpoints`: without any way to the internet; `nat`: through it;
    `both`: the engine's functions through endpoints, workers in the VPC through NAT; `none`: not at all (emulator)."""

    egress: Egress
    cidr: str = "10.42.0.0/16"
    """Range of the VPC that is made, /16 to /20. Choose one that no network overlaps which this one is to be connected with."""
    existing: ExistingVpc | None = None
    """Deploy into this VPC instead of making one."""
    zones: int = 2
    nat: Nat = "gateway"
    """`instance`: one small machine in place of the gateways: a fifth of the price, and no second one when its zone fails."""
    nat_instance: str = "t4g.nano"
    nat_gateways: int = 0
    """How many, gateways or instances."""
    endpoint_zones: int = 1
    """Zones with an endpoint of their own; one serves all, for less money and with less resilience."""
    flow_logs: bool = True
    private_workers: bool = False
    """Workers of the kinds that are not isolated run in the VPC (to reach databases there), others outside it."""
    code: Code = "outside"
    """Workers that run code of playbooks: `outside` the VPC, with the internet, or `isolated` in subnets that only endpoints lead out of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionConfig:
    """``reserved``: how many run at once, at most and guaranteed. ``memory``: MiB; 1,769 is one processor."""

    memory: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What tasks of a kind may do in the account when they name no credential: ``actions`` (`s3:GetObject`) on ``resources`` (ARNs)."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainersConfig:
    """Containers of playbooks (kind `container`), on Fargate.

    ``access``: what they may do in the account; else nothing. They run in public subnets without anything that may
    connect to them, or (``private``) in those of the workers, from where databases can be reached.
    """

    access: tuple[Access, ...] = ()
    private: bool = False
    arch: str = "X86_64"
    """X86_64 or ARM64: what the images are made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersConfig:
    """``pooled``: kinds of pool `io` without a layer of their own share the worker `io`; otherwise each kind has its own."""

    pooled: bool
    concurrency: Mapping[str, int] = field(default_factory=dict)
    """Worker → most invocations (or tasks) at once; others get ``default_concurrency``."""
    default_concurrency: int = 10
    memory: Mapping[str, int] = field(
        default_factory=lambda: {"io": 512, "cpu": 2048, "python": 1769, "mixed": 1769}
    )
    """MiB by pool of the kind."""
    storage: Mapping[str, int] = field(
        default_factory=lambda: {"io": 512, "cpu": 4096, "python": 512, "mixed": 4096}
    )
    """MiB of disk by pool of the kind: copies of large results, and what DuckDB lays aside (512 to 10240)."""
    access: Mapping[str, tuple[Access, ...]] = field(default_factory=dict)
    """Kind → what its workers' role may do, beside what every worker's may. Not for kinds that run code of playbooks."""
    fargate_kinds: tuple[str, ...] = ()
    """Kinds that run as Fargate tasks although they do not say so themselves (`long_running`)."""
    long: bool = False
    """A worker for tasks that say `spec: { long: true }`, of any kind: a Fargate service without tasks while no command waits."""
    image: str = ""
    """Image of Fargate workers by its full name in a registry; empty: tag ``image_tag`` of the stack's own repository."""
    image_tag: str = "latest"
    direct_steps: int = 50
    """Most commands that an invocation takes in the answers of the function `decide` before it ends; 0: every outcome goes through the
    queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """``auth``: iam (signed requests), jwt (OIDC), none (the environment `local` only). Throttling is per second, over all callers."""

    auth: Auth
    jwt_issuer: str = ""
    jwt_audience: tuple[str, ...] = ()
    rate_limit: int = 100
    burst_limit: int = 200
    domain_name: str = ""
    certificate_arn: str = ""
    reach: Reach = "public"
    """`private`: a REST API that answers inside the VPC alone, and in networks that are connected with it."""
    vpc_endpoint: str = ""
    """Of a private API: an endpoint of execute-api that exists; empty: one is made."""
    callers: tuple[str, ...] = ()
    """Of a private API: ranges of connected networks that may reach its endpoint, beside the VPC's own."""
    waf: bool = False
    """AWS WAF in front, with a REST API for it."""
    waf_rate: int = 2000
    """Requests of one address in five minutes, beyond which it is refused."""
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Pattern of a caller's name → scopes, separated by spaces (NOETL_SCOPES). Empty: every caller that the gateway admits may do everything."""

    @property
    def rest(self) -> bool:
        """Whether it is a REST API: an HTTP API can be neither private nor behind WAF (ADR 83)."""
        return self.waf or self.reach == "private"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionConfig:
    """Days. ``executions``: counted from their end; then they go with everything that belongs to them, large results included. None: for ever.
    ``variables``: the same for their variables alone."""

    logs: int = 30
    executions: int | None = 90
    variables: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """Tiers of large results beside the results bucket (docs/results.md).

    ``kv``: a table of DynamoDB; ``kv_auto_bytes``: results up to this size go there without being asked to (a write costs
    by the KiB: above the inline limit several times what one to S3 costs). ``cache_mb``: of a worker's own
    disk, for workers that run no code of playbooks; 0: none. ``variables``: further NOETL_STORAGE_… of all functions (tiers outside of AWS);
    ``secrets``: ARNs of the secrets that they name.
    """

    kv: bool = True
    kv_auto_bytes: int = 0
    point_in_time: bool = True
    """The table can be restored to any second of the last 35 days."""
    version_days: int = 0
    """Days for which the results bucket keeps what was deleted or overwritten; 0: not at all. Retention of executions ends later by as much."""
    cache_mb: int = 128
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupConfig:
    """Daily copies of the database, the table of small results and the results bucket, in a vault of their own (AWS Backup).

    ``copy_to``: ARN of a vault in another region, or of another account, which gets each copy as well.
    """

    keep_days: int = 35
    copy_to: str = ""
    copy_keep_days: int = 35


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmsConfig:
    """Where alarms go: addresses that get mail, or a topic that exists.

    Neither: they are only shown.

    ``level``: `all`, or `few`: what stops executions, and not each queue and function by itself.
    """

    emails: tuple[str, ...] = ()
    topic_arn: str = ""
    level: Literal["all", "few"] = "all"
    failed_executions: int = 0
    """Failed executions in five minutes that are no reason to ring."""
    event_age_seconds: int = 120
    command_age_seconds: int = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One deployment. Raises ConfigError naming every rule that is broken."""

    name: str
    database: DatabaseConfig
    network: NetworkConfig
    functions: Mapping[str, FunctionConfig]
    workers: WorkersConfig
    api: ApiConfig
    retention: RetentionConfig = RetentionConfig()
    storage: StorageConfig = StorageConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    triggers: TriggersConfig = field(default_factory=TriggersConfig)
    backup: BackupConfig | None = None
    containers: ContainersConfig | None = None
    """None: the kind `container` is refused."""
    ui: UiConfig | None = None
    """None: the web UI is not hosted; `noetl ui --context NAME` serves it on the operator's machine (docs/hosted-ui.md)."""
    account: str | None = None
    """None: whichever account and region the caller's credentials belong to."""
    region: str | None = None
    permissions_boundary: str = ""
    """Name or ARN of the managed policy that every role is made with."""
    qualifier: str = ""
    """Of the CDK's bootstrap stack, where it is not the default one."""
    deploys: Deploys = "at-once"
    """`canary`: a new version of a function gets a tenth of the work for five minutes; its errors take it back."""
    python: str = "3.13"
    arch: str = "arm64"
    tracing: bool = False
    playbooks: tuple[str, ...] = ("playbooks/examples",)
    """Folders (from the repository's root) whose playbooks are registered, with their schedules and triggers, at deploy."""
    http_allow: tuple[str, ...] = ()
    workspace: str = ""
    """Credential of the scratch database that `postgres` tasks without `auth` use; empty: there is none."""
    data_folders: tuple[str, ...] = ()
    """Folders on the workers' machine that duckdb and script may read."""
    timer_concurrency: int = 2
    log_level: str = "INFO"
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [
            *_basic_problems(self),
            *_network_problems(self),
            *_database_problems(self),
            *_api_problems(self),
            *_connection_problems(self),
            *_storage_problems(self),
            *queue_problems(self.triggers, self.prefix),
            *(ui_problems(self.ui, self.api.auth, local=self.is_local) if self.ui else ()),
        ]
        if problems:
            raise ConfigError(f"environment {self.name!r}: " + "; ".join(problems))

    @property
    def is_local(self) -> bool:
        """Deployed to an emulator: only what it knows, and nothing is kept."""
        return self.name == "local"

    @property
    def prefix(self) -> str:
        """What names of functions, queues and groups begin with."""
        return f"noetl-{self.name}"

    @property
    def credentials_prefix(self) -> str:
        """Names of the secrets that playbooks use begin with it."""
        return f"noetl/{self.name}/credentials/"

    def connections(self) -> int:
        """Connections to Postgres that all functions together may hold: one per instance of each."""
        return sum(self.functions[name].reserved for name in DATABASE_FUNCTIONS)

    def worker_concurrency(self, worker: str) -> int:
        """Most invocations of this worker at once."""
        return self.workers.concurrency.get(worker, self.workers.default_concurrency)


def _basic_problems(env: Environment) -> list[str]:
    found = []
    if problem := name_problem(env.name):
        found.append(problem)
    if env.account is not None and not re.fullmatch(r"\d{12}", env.account):
        found.append(f"account {env.account!r} is not a number of 12 digits")
    if not re.fullmatch(r"3\.1[1-4]", env.python):
        found.append(f"python {env.python!r} is not one of 3.11 to 3.14")
    if env.arch not in ("arm64", "x86_64"):
        found.append(f"arch {env.arch!r} is neither arm64 nor x86_64")
    if env.retention.logs not in LOG_DAYS:
        found.append(f"logs are kept {', '.join(map(str, LOG_DAYS))} days, not {env.retention.logs}")
    found += [
        f"{what} cannot be kept {days} days: at least 1, or None for ever"
        for what, days in (("executions", env.retention.executions), ("variables", env.retention.variables))
        if days is not None and days < 1
    ]
    if missing := sorted(set(DATABASE_FUNCTIONS) - env.functions.keys()):
        found.append(f"functions does not say how large these are: {', '.join(missing)}")
    found += [
        f"function {name} needs a reserved concurrency of at least {least} (an event source takes two, and must not take all)"
        for name, least in (("engine", 2 + env.timer_concurrency), ("maintenance", 3))
        if name in env.functions and env.functions[name].reserved < least
    ]
    return found


def name_problem(name: str) -> str | None:
    """What is wrong with the name of an environment; None: nothing."""
    if not re.fullmatch(r"(?!.{17})[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) < 2:
        return (
            f"{name[:40]!r} is no name of an environment: 2 to 16 lower-case letters, digits and single hyphens, "
            "beginning with a letter (it becomes part of names in AWS)"
        )
    if taken := sorted(RESERVED & set(name.split("-")[1:])):
        return f"the name {name!r} has {taken[0]!r} behind a hyphen: names of resources of another environment could be the same"
    return None


def _network_problems(env: Environment) -> list[str]:
    network, found = env.network, []
    if network.egress == "none" and not env.is_local:
        found.append("egress none is for the environment `local`: functions could not reach their queues")
    if network.private_workers and network.egress not in ("nat", "both"):
        found.append("private_workers need egress nat or both, or http tasks could not reach anything")
    if network.code == "isolated" and network.egress not in ("endpoints", "both"):
        found.append(
            "network.code isolated needs egress endpoints or both: its workers would not reach their queue"
        )
    if network.code == "isolated" and (env.workers.long or env.workers.fargate_kinds or env.containers):
        found.append(
            "network.code isolated is for functions: turn workers.long, workers.fargate_kinds and containers off, which pull images"
        )
    if network.existing is not None:
        return [*found, *_existing_problems(network.existing)]
    if (network.egress in ("nat", "both")) != (network.nat_gateways > 0):
        found.append(f"egress {network.egress!r} does not go with {network.nat_gateways} NAT gateways")
    if not 2 <= network.zones <= 3 or not 1 <= network.endpoint_zones <= network.zones:
        found.append("zones is 2 or 3, and endpoint_zones at most as many")
    if network.nat_gateways > network.zones:
        found.append(
            f"nat_gateways {network.nat_gateways} is more than one for each of {network.zones} zones"
        )
    if problem := _cidr_problem(network.cidr, 16, 20):
        found.append(f"cidr {problem}")
    return found


def _cidr_problem(text: str, largest: int, smallest: int) -> str | None:
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError as error:
        return f"{text!r} is no range of addresses ({error}); write 10.42.0.0/16"
    if not found.is_private:
        return f"{text!r} is a range of the internet: choose one within 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    if not largest <= found.prefixlen <= smallest:
        return f"{text!r} is not /{largest} to /{smallest}"
    return None


def _existing_problems(vpc: ExistingVpc) -> list[str]:
    found = []
    if not re.fullmatch(r"vpc-[0-9a-f]{8,17}", vpc.id):
        found.append(f"network.existing.id {vpc.id!r} is no id of a VPC (vpc-0123456789abcdef0)")
    if problem := _cidr_problem(vpc.cidr, 8, 28):
        found.append(f"network.existing.cidr {problem}")
    if len(set(vpc.zones)) < 2:
        found.append(
            "network.existing.zones names at least two zones (eu-central-1a): the database needs them"
        )
    for name in ("engine_subnets", "worker_subnets", "database_subnets", "public_subnets"):
        subnets: tuple[str, ...] = getattr(vpc, name)
        if bad := [one for one in subnets if not re.fullmatch(r"subnet-[0-9a-f]{8,17}", one)]:
            found.append(f"network.existing.{name} has {bad[0]!r}, which is no id of a subnet")
        if len(subnets) != len(vpc.zones) and (subnets or name == "engine_subnets"):
            found.append(
                f"network.existing.{name} has {len(subnets)} subnets for {len(vpc.zones)} zones: one each, in the order of zones"
            )
    return found


def _database_problems(env: Environment) -> list[str]:
    database = env.database
    found = []
    if database.engine == "url":
        if not env.is_local:
            found.append("database url would show a password in templates: it is for the environment `local`")
        elif not database.url:
            found.append("database engine url needs a url")
    if database.engine == "aurora":
        if not (0 <= database.min_acu <= database.max_acu <= 256 and database.max_acu >= 1):
            found.append(f"capacity {database.min_acu} to {database.max_acu} units is not within 0 to 256")
        if most := _most_connections(database):
            found.append(
                f"max_connections {database.max_connections} is more than its largest capacity holds ({most})"
            )
    if database.pauses and database.proxy:
        found.append(
            "an RDS Proxy keeps its connections open, so the database never pauses: min_acu 0.5, or no proxy"
        )
    if database.pauses and not 5 <= database.pause_after_minutes <= 1440:
        found.append("pause_after_minutes is 5 to 1440")
    return found


def _most_connections(database: DatabaseConfig) -> int | None:
    ceiling = 5000 if database.min_acu > 0.5 else CONNECTIONS_WHEN_PAUSING
    most = min(ceiling, math.floor(database.max_acu * CONNECTIONS_PER_ACU))
    return most if database.max_connections > most else None


def _api_problems(env: Environment) -> list[str]:
    api = env.api
    found = []
    if api.auth == "none" and not env.is_local:
        found.append("auth none would open the API to the internet: it is for the environment `local`")
    if api.auth == "jwt" and not (api.jwt_issuer.startswith("https://") and api.jwt_audience):
        found.append("auth jwt needs jwt_issuer (https://…) and jwt_audience")
    if bool(api.domain_name) != bool(api.certificate_arn):
        found.append("domain_name and certificate_arn go together")
    return [*found, *_rest_problems(env)]


def _rest_problems(env: Environment) -> list[str]:
    api, found = env.api, []
    if api.rest and api.auth != "iam":
        found.append(
            f"api.reach private and api.waf need auth iam, not {api.auth}: a REST API has no authorizer for tokens of any issuer; "
            "with jwt, CloudFront is in front (ui), and ui.web_acl_arn guards it"
        )
    if api.reach == "private":
        if not env.network.private_workers:
            found.append(
                "api.reach private needs network.private_workers: workers ask the API for credentials"
            )
        if api.domain_name:
            found.append("a private API has no domain_name: point a name of your DNS at its endpoint")
        if api.vpc_endpoint and not re.fullmatch(r"vpce-[0-9a-f]{8,17}", api.vpc_endpoint):
            found.append(
                f"api.vpc_endpoint {api.vpc_endpoint!r} is no id of an endpoint (vpce-0123456789abcdef0)"
            )
        found += [f"api.callers {problem}" for one in api.callers if (problem := _cidr_problem(one, 8, 32))]
    elif api.vpc_endpoint or api.callers:
        found.append("api.vpc_endpoint and api.callers are for api.reach private")
    if not 10 <= api.waf_rate <= 2_000_000_000:
        found.append(f"api.waf_rate {api.waf_rate} is not between 10 and 2,000,000,000")
    return found


def _storage_problems(env: Environment) -> list[str]:
    storage = env.storage
    found = []
    if not 0 <= storage.kv_auto_bytes <= MOST_KV_BYTES:
        found.append(f"kv_auto_bytes {storage.kv_auto_bytes} is not between 0 and {MOST_KV_BYTES}")
    if not 0 <= storage.cache_mb <= MOST_CACHE_MB:
        found.append(
            f"cache_mb {storage.cache_mb} is not between 0 and {MOST_CACHE_MB}: functions have 512 MB of disk"
        )
    if not 0 <= storage.version_days <= 365:
        found.append(f"version_days {storage.version_days} is not between 0 and 365")
    if (backup := env.backup) is not None:
        if backup.keep_days < 1 or backup.copy_keep_days < 1:
            found.append("backups are kept at least one day")
        if backup.copy_to and not re.fullmatch(VAULT, backup.copy_to):
            found.append(f"backup.copy_to {backup.copy_to!r} is no ARN of a backup vault")
    own = ("NOETL_STORAGE_KV_", "NOETL_STORAGE_LOCAL_CACHE_DIR", "NOETL_STORAGE_CACHE_MB")
    for name in storage.variables:
        if not name.startswith("NOETL_STORAGE_") or name.startswith(own):
            found.append(
                f"storage.variables cannot set {name}: only NOETL_STORAGE_… that the other fields do not set"
            )
        elif name.endswith("SECRET_KEY"):
            found.append(f"{name} would show a secret in templates: give the functions' roles access instead")
    return found


def _connection_problems(env: Environment) -> list[str]:
    if env.database.proxy or set(DATABASE_FUNCTIONS) - env.functions.keys():
        return []
    allowed = math.ceil(env.database.max_connections * CONNECTION_SHARE) - 1
    if env.connections() <= allowed:
        return []
    parts = " + ".join(f"{name} {env.functions[name].reserved}" for name in DATABASE_FUNCTIONS)
    return [
        f"functions may open {env.connections()} connections ({parts}), but only {allowed} of max_connections="
        f"{env.database.max_connections} are theirs (less than {CONNECTION_SHARE:.0%}): lower their reserved concurrency, "
        "raise max_connections, or put a proxy in front"
    ]
