"""A worker on AWS, which uses no database.

It takes commands from its queue, reads programs and large values from the bucket, and sends outcomes to the engine's queue.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.command_tries import S3CommandTries
from noetl.adapters.aws.decide_function import DecideFunction
from noetl.adapters.aws.frequent_calls import frequent_lambda, frequent_sqs
from noetl.adapters.aws.s3 import S3ProgramStore, S3Revocations
from noetl.adapters.aws.secrets import SecretsCredentials
from noetl.adapters.aws.signing import SignedRequests
from noetl.adapters.aws.sqs import SqsQueue
from noetl.adapters.aws.task_cache import S3TaskCache
from noetl.adapters.aws.task_logs import S3TaskLogs
from noetl.adapters.http_credentials import HttpCredentials
from noetl.domain.commands import Command
from noetl.domain.errors import InvalidInputError
from noetl.domain.kinds import Credential, TaskSettings
from noetl.domain.workers.command_token import Capability
from noetl.kinds.registry import Registry, default_registry
from noetl.ports.credentials import Credentials
from noetl.ports.queue import Delivery
from noetl.runtime.aws.jobs import cloud_jobs
from noetl.runtime.aws.results import open_results
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.runtime.stored_programs import StoredPrograms
from noetl.runtime.task_folders import guard_programs
from noetl.services.worker.batch_deps import BatchDeps, CommandBatchResult
from noetl.services.worker.cancellation_marks import RevocationWatch
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.direct_outcomes import DirectOutcomes
from noetl.services.worker.task_log_writer import LineKeeper
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.templating import statements as _statements  # noqa: F401  # before the first event: it reads templates

IO_SLOTS = 10
"""I/O of this many commands overlaps; it is also the most that one SQS batch holds."""
MARGIN_SECONDS = 5.0
"""Kept of an invocation's time for sending what its commands said."""
START_SECONDS = 20.0
"""Kept of it for what comes before a call: reading the program, waiting for another command of the batch."""
_EXECUTE_API = re.compile(r"https?://([a-z0-9]+)\.execute-api\.")
WORK_FOLDER = "/tmp/noetl"
OWN_MEMORY = 192 * 1024 * 1024
"""What a function's own process needs of its memory; code of playbooks gets the rest."""
LEAST_MEMORY = 256 * 1024 * 1024


@dataclass(slots=True)
class CloudWorker:
    """``capacity``: how many commands of its kinds a process runs at once."""

    deps: BatchDeps
    capacity: int
    longest_invocation: float = 0.0

    def work(
        self, deliveries: Sequence[Delivery], left: Callable[[], float] | None = None
    ) -> CommandBatchResult:
        """Run a batch within the seconds that ``left`` returns (None: without a limit)."""
        return work_batch(deliveries, self.deps if left is None else self._bounded(left))

    def work_until(
        self, deliveries: Sequence[Delivery], left: Callable[[], float], longest: float = math.inf
    ) -> CommandBatchResult:
        """Run a batch of calls of up to ``longest`` seconds.

        ``left`` returns the seconds until the process has to end, or until the queue delivers the messages again.
        """
        worker = replace(self.deps.worker, deadline=left, longest=longest)
        return work_batch(deliveries, replace(self.deps, worker=worker))

    def _bounded(self, left: Callable[[], float]) -> BatchDeps:
        """Return the dependencies with the time limits of this invocation.

        An invocation begins with the function's whole time, so the longest one seen is the most that a call can get.
        """
        self.longest_invocation = max(self.longest_invocation, left())
        spare = min(START_SECONDS, 0.1 * self.longest_invocation)
        longest = max(1.0, math.floor(self.longest_invocation - MARGIN_SECONDS - spare))
        worker = replace(self.deps.worker, deadline=lambda: left() - MARGIN_SECONDS, longest=longest)
        return replace(self.deps, worker=worker)


class _Secrets:
    """Credentials whose client is made for the first one asked for; most workers never ask."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._found: SecretsCredentials | None = None

    def get(self, name: str, execution_id: int) -> Credential:
        with self._lock:
            if self._found is None:
                self._found = SecretsCredentials(self._prefix, make_client("secretsmanager"))
        return self._found.get(name, execution_id)


def _over_api(url: str, otherwise: Credentials) -> Callable[[Command, str], Credentials]:
    """Registered credentials, asked for with the token of the command that needs them."""
    source = HttpCredentials(
        reachable(url, os.environ.get("AWS_ENDPOINT_URL", "")), SignedRequests().get, otherwise
    )
    return lambda command, token: source.of(Capability.of(command, token))


def reachable(url: str, endpoint: str) -> str:
    """``url``, where names below ``execute-api`` resolve; by path at an emulator."""
    found = _EXECUTE_API.match(url)
    return f"{endpoint.rstrip('/')}/_aws/execute-api/{found[1]}" if endpoint and found else url


def open_worker(settings: CloudSettings) -> CloudWorker:
    """Wire the worker that ``settings`` name.

    Its kinds are imported now, when time costs least. Raises InvalidInputError(code="setting_invalid") when a setting that a worker needs
    is missing.
    """
    for name, value in (
        ("NOETL_WORKER", settings.worker),
        ("NOETL_QUEUE_PREFIX", settings.queue_prefix),
        ("NOETL_EVENTS_QUEUE_URL", settings.events_queue),
    ):
        if not value:
            raise InvalidInputError(f"{name} is not set", code="setting_invalid")
    guard_programs(settings.task_folders)
    kinds = default_registry()
    pools = _pools(settings, kinds)
    processors = os.cpu_count() or 1
    slots = {"io": IO_SLOTS, "cpu": processors, "python": processors}
    Path(WORK_FOLDER).mkdir(parents=True, exist_ok=True, mode=0o700)
    storage, queues = make_client("s3"), frequent_sqs()
    revoked = RevocationWatch(S3Revocations(settings.results_bucket, storage, lists=settings.lists))
    programs = StoredPrograms(S3ProgramStore(settings.results_bucket, storage, lists=settings.lists))
    worker = WorkerDeps(
        programs=programs,
        registry=kinds,
        results=open_results(settings),
        credentials=_Secrets(settings.credentials_prefix),
        settings=TaskSettings(
            http_allow=settings.http_allow,
            python_memory_bytes=_code_memory(slots["python"]),
            duckdb_memory_bytes=_code_memory(slots["cpu"]) // 2,
            workspace_credential=settings.workspace,
            data_dirs=(*settings.data_dirs, *settings.task_folders),
            work_dir=WORK_FOLDER,
            task_folders=settings.task_folders,
            own_buckets=(settings.results_bucket,),
        ),
        inline_bytes=settings.inline_limit,
        revoked=revoked,
        given_up=revoked.now,
        callback_base=reachable(
            settings.public_url or settings.api_url, os.environ.get("AWS_ENDPOINT_URL", "")
        ),
        jobs=cloud_jobs(settings),
        log=telemetry.log,
        cache=S3TaskCache(settings.results_bucket, settings.worker, storage, lists=settings.lists),
        lines=LineKeeper(S3TaskLogs(settings.results_bucket, storage), telemetry.log),
    )
    deps = BatchDeps(
        worker=worker,
        commands=SqsQueue(settings.queue_prefix + settings.worker, queues, fifo=False),
        events=SqsQueue(settings.events_queue, queues, fifo=True),
        slots=slots,
        revoked=revoked.now,
        message_limit=settings.message_limit,
        credentials=_over_api(settings.api_url, worker.credentials) if settings.api_url else None,
        about=telemetry.about,
        tries=S3CommandTries(settings.results_bucket, storage, lists=settings.lists),
        back_off=settings.back_off,
        exactly=programs.exactly,
        direct=_direct(settings),
    )
    return CloudWorker(deps, IO_SLOTS if pools <= {"io", "control"} else processors)


def _direct(settings: CloudSettings) -> DirectOutcomes | None:
    """Return the requests to the engine; None when outcomes go through the queue.

    The deployment has to name the decide function, and to let an invocation take commands from its answers.
    """
    if not settings.decide_function or not settings.direct_steps:
        return None
    function = DecideFunction(settings.decide_function, frequent_lambda())
    return DirectOutcomes(function, settings.direct_steps, time.monotonic, telemetry.log)


def report(call: Invocation, worked: CommandBatchResult) -> None:
    """Note in the line of an invocation what it did with a batch, and count the trouble."""
    call.about(worked.executions)
    for name, value in (
        ("CommandFailures", worked.failures),
        ("CommandsLost", worked.lost),
        ("CommandsRevoked", worked.revoked),
        ("RefusedMessages", worked.refused),
    ):
        if value:
            call.count(name, value)
    call.note(
        commands=worked.commands,
        outcomes=worked.events,
        sends=worked.sends,
        given_back=len(worked.give_back),
        direct=worked.direct,
        taken=worked.taken,
    )


def _pools(settings: CloudSettings, kinds: Registry) -> set[str]:
    """Return the pools of this worker's kinds; of all kinds when it serves several workers."""
    own = [kind for kind, worker in settings.queues.items() if worker == settings.worker]
    known = set(kinds.names())
    return {kinds.spec(kind).pool for kind in own or settings.queues if kind in known}


def _code_memory(processes: int) -> int:
    """Return the bytes that each process with a playbook's code may use.

    Together they stay within the function's memory, so that a process which needs too much fails alone instead of ending the function.
    """
    megabytes = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
    if not megabytes.isdigit():
        return TaskSettings().python_memory_bytes
    return max(LEAST_MEMORY, (int(megabytes) * 1024 * 1024 - OWN_MEMORY) // processes)
