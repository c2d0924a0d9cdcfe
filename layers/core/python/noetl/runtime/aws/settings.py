"""Settings of a deployed function, read from its environment once.

The CDK app sets them; docs/configuration.md lists them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from noetl.domain import codec
from noetl.domain.errors import InvalidInputError
from noetl.domain.results.references import INLINE_LIMIT
from noetl.runtime.settings import retention_days
from noetl.runtime.storage_settings import StorageSettings
from noetl.runtime.task_folders import refuse_open_programs, refuse_secrets, task_folders
from noetl.services.messaging.back_off import LONGEST_SECONDS, USUAL, BackOff
from noetl.services.messaging.backpressure import LIMIT
from noetl.services.messaging.large_messages import MESSAGE_LIMIT
from noetl.services.results.prune import RetentionDays

AUTHS = ("iam", "jwt", "none")


@dataclass(frozen=True, slots=True)
class CloudSettings:
    """The settings of a function.

    An empty text means that this function has no such setting: a worker has no database, the engine no schedule group.
    """

    env: str
    results_bucket: str
    database_url: str = ""
    database_secret: str = ""
    app_secret: str = ""
    """Of the role that functions sign in as; for the function that makes it."""
    reader_secret: str = ""
    """Of the role that reads the views of history, where there is one."""
    reader_host: str = ""
    """An instance of the database that queries of people alone use; empty: the one of the engine."""
    database_host: str = ""
    database_pooled: bool = False
    close_connections: bool = False
    events_queue: str = ""
    timers_queue: str = ""
    queue_prefix: str = ""
    queues: Mapping[str, str] = field(default_factory=dict)
    """Kind → name of the worker that runs it."""
    workers: Mapping[str, int] = field(default_factory=dict)
    """Worker → how many commands it runs at once."""
    worker: str = ""
    token_secret: str = ""
    kms_key: str = ""
    credentials_prefix: str = ""
    schedule_group: str = ""
    scheduler_target: str = ""
    scheduler_role: str = ""
    trigger_rules: str = ""
    """What the names of rules begin with that triggers become."""
    starts_dlq: str = ""
    """ARN of the queue of starts that could not be delivered."""
    trigger_queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Queue → paths of the playbooks that its messages start."""
    readable_queues: tuple[str, ...] = ()
    """Names and ARNs, with ``*``, of the queues that triggers may read which are made while the system runs."""
    auth: str = "iam"
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Pattern of an IAM principal's ARN → scopes of the API, separated by spaces. Empty: IAM policies alone decide."""
    worker_roles: tuple[str, ...] = ()
    """Patterns of the ARNs of this deployment's workers: the API lets their commands' tokens speak."""
    direct_starts: bool = True
    """The API decides starts itself. False: they go through the queue."""
    decide_function: str = ""
    """Which function a worker hands its outcomes to; empty: all go through the queue."""
    direct_steps: int = 0
    """Most commands that an invocation of a worker takes in the answers of that function; 0: all go through the queue."""
    api_url: str = ""
    """Where a worker asks for credentials; empty: not over the API."""
    public_url: str = ""
    """Where people and other systems reach the API."""
    inline_limit: int = INLINE_LIMIT
    message_limit: int = MESSAGE_LIMIT
    http_allow: tuple[str, ...] = ()
    workspace: str = ""
    """Name of the credential of the scratch database."""
    data_dirs: tuple[str, ...] = ()
    """Folders that duckdb and script may read."""
    task_folders: tuple[str, ...] = ()
    """Folders that code of playbooks may read and write beside its own."""
    deployment: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    """Where the kind `container` runs them: fields of ``adapters.aws.ecs_jobs.JobSettings``. Empty: nowhere."""
    retention: RetentionDays = field(default_factory=RetentionDays)
    storage: StorageSettings = field(default_factory=StorageSettings)
    backlog_limit: int = LIMIT
    """Most events, and most commands, that may wait when the API lets in more."""
    back_off: BackOff = USUAL
    """Pauses of messages during an outage."""

    @property
    def lists(self) -> bool:
        """Return whether this function's role may list the results bucket.

        A worker's role may not, since it would see every execution.
        """
        return not self.worker

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> CloudSettings:
        """Read the settings from environment variables.

        Raises InvalidInputError(code="setting_invalid") with the variable that is missing or invalid.
        """
        env = os.environ if environ is None else environ
        auth = env.get("NOETL_AUTH") or "iam"
        name = _needed(env, "NOETL_ENV")
        if auth not in AUTHS or (auth == "none" and name != "local"):
            raise _invalid("NOETL_AUTH", auth, "iam or jwt (none is for the environment local)")
        return cls(
            env=name,
            results_bucket=_needed(env, "NOETL_RESULTS_BUCKET"),
            database_url=env.get("NOETL_DATABASE_URL", ""),
            database_secret=env.get("NOETL_DATABASE_SECRET_ARN", ""),
            app_secret=env.get("NOETL_APP_SECRET_ARN", ""),
            reader_secret=env.get("NOETL_READER_SECRET_ARN", ""),
            reader_host=env.get("NOETL_READER_HOST", ""),
            database_host=env.get("NOETL_DATABASE_HOST", ""),
            database_pooled=env.get("NOETL_DATABASE_POOLED") == "1",
            close_connections=env.get("NOETL_CLOSE_CONNECTIONS") == "1",
            events_queue=env.get("NOETL_EVENTS_QUEUE_URL", ""),
            timers_queue=env.get("NOETL_TIMERS_QUEUE_URL", ""),
            queue_prefix=env.get("NOETL_QUEUE_PREFIX", ""),
            queues=_texts(env, "NOETL_QUEUES"),
            workers={worker: int(most) for worker, most in _mapping(env, "NOETL_WORKERS").items()},
            worker=env.get("NOETL_WORKER", ""),
            token_secret=env.get("NOETL_TOKEN_SECRET_ARN", ""),
            kms_key=env.get("NOETL_KMS_KEY_ID", ""),
            credentials_prefix=env.get("NOETL_CREDENTIALS_PREFIX", ""),
            schedule_group=env.get("NOETL_SCHEDULE_GROUP", ""),
            scheduler_target=env.get("NOETL_SCHEDULER_TARGET_ARN", ""),
            scheduler_role=env.get("NOETL_SCHEDULER_ROLE_ARN", ""),
            trigger_rules=env.get("NOETL_TRIGGER_RULES", ""),
            starts_dlq=env.get("NOETL_STARTS_DLQ_ARN", ""),
            trigger_queues=_lists(env, "NOETL_TRIGGER_QUEUES"),
            readable_queues=_split(env, "NOETL_READABLE_QUEUES"),
            auth=auth,
            scopes=_texts(env, "NOETL_SCOPES"),
            worker_roles=_split(env, "NOETL_WORKER_ROLES"),
            direct_starts=env.get("NOETL_DIRECT_STARTS") != "0",
            decide_function=env.get("NOETL_DECIDE_FUNCTION", ""),
            direct_steps=_number(env, "NOETL_DIRECT_STEPS", 0, least=0),
            api_url=env.get("NOETL_API_URL", "").rstrip("/"),
            public_url=env.get("NOETL_PUBLIC_URL", "").rstrip("/"),
            inline_limit=_number(env, "NOETL_INLINE_LIMIT", INLINE_LIMIT),
            message_limit=_number(env, "NOETL_MESSAGE_LIMIT", MESSAGE_LIMIT),
            http_allow=_split(env, "NOETL_HTTP_ALLOW"),
            workspace=env.get("NOETL_WORKSPACE", ""),
            data_dirs=tuple(filter(None, env.get("NOETL_DATA_DIRS", "").split(os.pathsep))),
            task_folders=_task_folders(env, name),
            deployment=_texts(env, "NOETL_DEPLOYMENT"),
            containers=_texts(env, "NOETL_CONTAINERS"),
            retention=retention_days(env),
            storage=StorageSettings.from_env(env),
            backlog_limit=_number(env, "NOETL_BACKLOG_LIMIT", LIMIT),
            back_off=_back_off(env, "NOETL_BACK_OFF"),
        )


def _task_folders(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Read the folders of tasks, which are for the environment ``local``.

    In others no folder of a function lasts.
    """
    found = task_folders(env)
    if found and name != "local":
        raise _invalid(
            "NOETL_TASK_FOLDERS", os.pathsep.join(found), "not set (it is for the environment local)"
        )
    refuse_secrets(found, ())
    refuse_open_programs(found)
    return found


def _back_off(env: Mapping[str, str], name: str) -> BackOff:
    text = env.get(name)
    if not text:
        return USUAL
    first, _, most = text.partition(",")
    try:
        found = BackOff(float(first), float(most))
    except ValueError:
        found = BackOff(0, 0)
    if not 0 < found.first <= found.most <= LONGEST_SECONDS:
        what = f"the first and the longest pause in seconds, such as 5,900 (at most {LONGEST_SECONDS:g})"
        raise _invalid(name, text, what)
    return found


def _needed(env: Mapping[str, str], name: str) -> str:
    found = env.get(name)
    if not found:
        raise InvalidInputError(f"{name} is not set", code="setting_invalid")
    return found


def _split(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, env.get(name, "").split(","))))


def _number(env: Mapping[str, str], name: str, default: int, *, least: int = 256) -> int:
    text = env.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise _invalid(name, text, f"a whole number of at least {least}")
    return int(text)


def _texts(env: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: str(value) for key, value in _mapping(env, name).items()}


def _lists(env: Mapping[str, str], name: str) -> dict[str, tuple[str, ...]]:
    text = env.get(name) or "{}"
    try:
        return codec.decoder(dict[str, tuple[str, ...]]).decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise _invalid(name, text, "a JSON mapping from names to lists of texts") from None


def _mapping(env: Mapping[str, str], name: str) -> dict[str, str | int]:
    text = env.get(name) or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, (str, int)) for value in found.values()):
        raise _invalid(name, text, "a JSON mapping")
    return found


def _invalid(name: str, text: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(f"{name}={text!r} is not {wanted}", code="setting_invalid")
