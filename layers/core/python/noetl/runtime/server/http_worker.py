"""The worker of ``noetl worker start``, which reaches its server over HTTP alone.

It has the same batches and the same kinds as any other worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import urllib3

from noetl.adapters.embedded.credentials import FileCredentials
from noetl.adapters.embedded.docker import DockerJobs
from noetl.adapters.http_credentials import HttpCredentials
from noetl.adapters.http_work import (
    HOLD_SECONDS,
    CommandTokens,
    Exchange,
    HttpCommands,
    HttpEvents,
    HttpMarks,
    HttpPrograms,
    HttpResults,
    HttpTaskLogs,
)
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.domain.kinds import TaskSettings
from noetl.domain.workers.command_token import Capability
from noetl.kinds.registry import Registry, default_registry
from noetl.runtime.aws.telemetry import telemetry
from noetl.runtime.aws.worker import CloudWorker
from noetl.runtime.aws.worker_loop import WorkerLoop
from noetl.runtime.bootstrap import LOOPBACK
from noetl.runtime.id_source import process_name
from noetl.runtime.settings import Settings
from noetl.runtime.stored_programs import StoredPrograms
from noetl.runtime.task_folders import guard_programs
from noetl.services.worker.batch_deps import BatchDeps
from noetl.services.worker.task_log_writer import LineKeeper
from noetl.services.worker.worker_deps import WorkerDeps

GRACE_SECONDS = 20.0
CONNECT_SECONDS = 30.0
MESSAGE_LIMIT = 4 * 1024 * 1024
"""Bytes of an outcome: what a request may have, with room to spare."""
ANSWER_SECONDS = 60.0


Sign = Callable[[str, str, Mapping[str, str], bytes | None], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The settings of an HTTP worker.

    ``server``: the server's address. ``token``: one with the scope worker; or ``sign``: (method, url, headers, body) → the headers to send.
    ``idle``: seconds without work after which the worker ends (None: never). ``grace``: seconds that running commands have to finish when
    it ends. ``name``: the name under which the server lists the worker; a random one unless given.
    """

    server: str
    token: str
    pool: str
    capacity: int
    idle: float | None = None
    grace: float = GRACE_SECONDS
    name: str = ""
    sign: Sign | None = None
    connect_timeout: float = CONNECT_SECONDS
    """Seconds to wait for a server that does not answer yet."""


class HttpWorker:
    """A worker that takes commands over HTTP.

    ``run`` calls ``ready`` when the server knows the worker. It returns when the worker was stopped, or was idle for long enough.
    """

    def __init__(self, options: WorkerOptions, settings: Settings, registry: Registry | None = None) -> None:
        guard_programs(settings.task_folders)
        self._pool = connections()
        exchange = exchange_with(self._pool, options.server, options.sign or _bearer(options.token))
        self.name = options.name or process_name()
        tokens = CommandTokens()
        self.commands = HttpCommands(
            exchange, self.name, options.pool, options.capacity, tokens, stopping=lambda: self.loop.stopping
        )
        work = settings.home / "work"
        work.mkdir(parents=True, exist_ok=True)
        worker = WorkerDeps(
            programs=StoredPrograms(HttpPrograms(exchange)),
            registry=registry or default_registry(),
            results=HttpResults(exchange, tokens),
            credentials=FileCredentials(settings.credentials_file, telemetry.log),
            settings=TaskSettings(
                http_allow=(*LOOPBACK, *settings.http_allow),
                python_memory_bytes=settings.python_memory_bytes,
                duckdb_memory_bytes=settings.duckdb_memory_bytes,
                output_max_bytes=settings.output_max_bytes,
                artifact_max_bytes=settings.artifact_max_bytes,
                data_dirs=settings.task_folders,
                work_dir=str(work),
                task_folders=settings.task_folders,
                hidden_dirs=settings.hidden_dirs,
                task_disk_bytes=settings.task_disk_bytes,
                task_processes=settings.task_processes,
                aws_auth_required=settings.aws_auth_required,
            ),
            inline_bytes=settings.inline_limit,
            callback_base=settings.public_url or options.server,
            jobs=DockerJobs(),
            log=telemetry.log,
            lines=LineKeeper(HttpTaskLogs(exchange, tokens), telemetry.log),
        )
        registered = HttpCredentials(
            "", lambda path, headers: exchange("GET", path, None, headers), worker.credentials
        )
        deps = BatchDeps(
            worker=worker,
            commands=self.commands,
            events=HttpEvents(exchange, telemetry.log),
            slots={"io": options.capacity, "cpu": options.capacity, "python": options.capacity},
            message_limit=MESSAGE_LIMIT,
            lease_seconds=HOLD_SECONDS,
            credentials=lambda command, token: registered.of(Capability.of(command, token)),
            about=tokens.about,
            marks=lambda command, token: HttpMarks(exchange, Capability.of(command, token).header()),
        )
        self.loop = WorkerLoop(CloudWorker(deps, options.capacity), grace=options.grace, idle=options.idle)
        self._connect_timeout = options.connect_timeout

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Register the worker and run commands until it ends.

        Raises InvalidInputError for an unknown pool, and InfrastructureError when the server stays unreachable at first.
        """
        if not self._register():
            return
        ready()
        try:
            self.loop.run()
        finally:
            try:
                self.commands.deregister()
            except NoetlError as outage:
                telemetry.log(
                    f"the server did not receive the news that this worker ended: {outage}", level="warning"
                )

    def _register(self) -> bool:
        """Register the worker, at a server that may still have to start.

        Returns False when ``stop`` ended the wait.
        """
        until = time.monotonic() + self._connect_timeout
        failures = 0
        while not self.loop.stopping:
            try:
                self.commands.register()
                return True
            except InfrastructureError as outage:
                if time.monotonic() >= until:
                    raise
                if failures == 0:
                    telemetry.log(f"{outage}; trying again for {self._connect_timeout:g} s", level="warning")
                self.loop.pause(failures)
                failures += 1
        return False

    def close(self) -> None:
        """Drop connections; ``run`` has returned."""
        self._pool.clear()

    def stop(self) -> None:
        """Ask the worker to end; return at once."""
        self.loop.stop()


def connections() -> urllib3.PoolManager:
    return urllib3.PoolManager(maxsize=32, retries=False, timeout=ANSWER_SECONDS)


def _bearer(token: str) -> Sign:
    return lambda method, url, headers, body: {**headers, "Authorization": f"Bearer {token}"}


def exchange_with(pool: urllib3.PoolManager, server: str, sign: Sign) -> Exchange:
    """Return the function that makes requests to one server.

    It follows no redirects: the credentials of a request are for this server only.
    """
    base = server.rstrip("/")

    def exchange(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        sent = sign(method, base + path, {"Content-Type": "application/json", **headers}, body)
        try:
            reply = pool.request(method, base + path, body=body, headers=sent, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise InfrastructureError(
                f"{base} does not answer: {type(error).__name__}",
                code="server_unreachable",
                hint="is `noetl serve` up, and its address right?",
            ) from error
        return reply.status, reply.data

    return exchange
