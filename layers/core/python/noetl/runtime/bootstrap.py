"""The composition root: the only module that knows adapters and services together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from noetl.adapters.embedded.cipher import FileCipher
from noetl.adapters.embedded.credentials import FileCredentials
from noetl.adapters.embedded.docker import DockerJobs
from noetl.adapters.embedded.server import WORKSPACE, EmbeddedServer
from noetl.adapters.embedded.task_logs import FileTaskLogs
from noetl.adapters.embedded.trigger_sources import LocalTriggerSources
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.credential_store import PostgresCredentialStore
from noetl.adapters.postgres.executions.execution_store import PostgresExecutionStore
from noetl.adapters.postgres.executions.inspection import PostgresInspection
from noetl.adapters.postgres.history_sql import PostgresHistorySql
from noetl.adapters.postgres.migrations import migrate
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.task_cache import PostgresTaskCache
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.adapters.postgres.variables import PostgresVariables
from noetl.adapters.tiered import TieredResults
from noetl.domain.callbacks import proofs
from noetl.domain.commands import Command
from noetl.domain.events import CommandDone
from noetl.domain.kinds import TaskSettings
from noetl.dsl.program import Program
from noetl.engine.scopes.slot_view import Limits
from noetl.kinds.registry import Registry, default_registry
from noetl.ports.automations.schedule_store import ScheduleStore
from noetl.ports.catalog import Catalog
from noetl.ports.credential_store import CredentialStore
from noetl.ports.credentials import CredentialNames
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.ports.history_sql import HistorySql
from noetl.ports.task_logs import TaskLogs
from noetl.ports.variables import Variables
from noetl.runtime.id_source import new_id
from noetl.runtime.local.embedded_server import own_server
from noetl.runtime.local.keys import local_keys
from noetl.runtime.local.results import local_results
from noetl.runtime.program_cache import local_cache
from noetl.runtime.programs import Programs
from noetl.runtime.retention import prune_deps
from noetl.runtime.server.daemons import Processes
from noetl.runtime.settings import Settings
from noetl.runtime.task_folders import guard_programs
from noetl.services.automations.triggers import TriggerDeps
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.credentials.credentials import CredentialDeps
from noetl.services.credentials.oauth_tokens import make_exchange
from noetl.services.orchestrator.engine_deps import EngineDeps
from noetl.services.orchestrator.snapshot_cache import Recent
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.prune import PruneDeps
from noetl.services.worker.issue_gate import Gate
from noetl.services.worker.task_log_writer import LineKeeper
from noetl.services.worker.worker_credentials import KnownCredentials, RegisteredFirst
from noetl.services.worker.worker_deps import WorkerDeps

LOCAL_SERVER = "http://127.0.0.1:8765"
"""Where ``noetl serve`` listens by default."""
LOOPBACK = ("localhost", "127.0.0.0/8", "::1")
"""What a local run may reach besides public addresses; a server allows nothing by default."""


def callback_base(settings: Settings) -> str:
    """Return where callbacks are answered: at the server that runs, or would run."""
    return settings.public_url or Processes.of_home(settings.home).server_address() or LOCAL_SERVER


@dataclass(slots=True)
class Stores:
    """The stores of a process.

    ``dsn`` reaches the engine's database; ``workspace`` the scratch database of an embedded server;
    ``history_sql`` runs people's queries: None where no role reads the views.
    """

    store: ExecutionStore
    catalog: Catalog
    schedules: ScheduleStore
    results: TieredResults
    programs: Programs
    dsn: str
    workspace: str | None
    history_sql: HistorySql | None
    database: Database
    credentials: CredentialDeps
    variables: Variables
    prune: PruneDeps
    triggers: TriggerDeps
    task_logs: TaskLogs
    revive: Callable[[], bool]
    """Starts an embedded database again that has ended; True when it had to be."""

    @property
    def inspection(self) -> Inspection:
        return PostgresInspection(self.database)


@dataclass(slots=True)
class Opened(Stores):
    """Stores with the engine and the worker wired over them."""

    engine: EngineDeps
    worker: WorkerDeps
    names: CredentialNames
    pool_sizes: dict[str, int]
    stack: ExitStack

    def close(self) -> None:
        self.stack.close()


def open_stores(
    settings: Settings,
    stack: ExitStack,
    registry: Registry | None = None,
    log: Callable[[str], None] = lambda line: None,
    server: EmbeddedServer | None = None,
) -> Stores:
    """Open the database, migrate it, and open the stores beside it.

    The database is the embedded one unless ``database_url`` names another. What has to be closed is put on ``stack``,
    also ``server``: the embedded one, if it is open already. Raises InfrastructureError when the database cannot be
    opened.
    """
    settings.make_home()
    workspace, revive = None, _somebody_elses
    if settings.database_url is None:
        server = server or own_server(settings)
        stack.callback(server.stop)
        dsn, workspace, revive = server.dsn(), server.dsn(WORKSPACE), server.revive
        address = server.reader_dsn()
        history_sql: HistorySql | None = PostgresHistorySql(lambda: address, server.bound_query)
    else:
        dsn = settings.database_url
        migrate(dsn)
        history_sql = _queries_by(settings.reader_url)
    database = Database(dsn)
    stack.callback(database.close)
    results = local_results(
        settings.storage,
        settings.home,
        database,
        shared=settings.database_url is not None,
        allow=(*LOOPBACK, *settings.http_allow),
        log=log,
    )
    stack.callback(results.close)
    lines = FileTaskLogs(settings.home / "logs" / "executions")
    catalog = PostgresCatalog(database)
    store = PostgresExecutionStore(database)
    kinds = registry or default_registry()
    programs = Programs(catalog, kinds, cache=local_cache(settings.home, kinds, log))
    return Stores(
        store,
        catalog,
        PostgresScheduleStore(database),
        results,
        programs,
        dsn,
        workspace,
        history_sql,
        database,
        _credentials(settings, database),
        PostgresVariables(database),
        prune_deps(database, results, lines, settings.retention),
        TriggerDeps(
            PostgresTriggerStore(database),
            LocalTriggerSources(),
            catalog,
            lambda fresh: local_keys(settings.home),
        ),
        lines,
        revive,
    )


def _queries_by(address: str | None) -> HistorySql | None:
    return PostgresHistorySql(lambda: address) if address else None


def _somebody_elses() -> bool:
    return False


def _credentials(settings: Settings, database: Database) -> CredentialDeps:
    """Make the store of credentials, sealed with a key in the home folder.

    The key is made with the first credential.
    """
    cipher = FileCipher(settings.home / "credentials.key")
    return CredentialDeps(
        PostgresCredentialStore(database),
        cipher,
        make_exchange((*LOOPBACK, *settings.http_allow)),
        new_id,
        cache_seconds=settings.credential_cache_seconds,
        rotation=cipher.rotation,
    )


@contextmanager
def open_readonly(settings: Settings, server: EmbeddedServer | None = None) -> Iterator[Stores]:
    """Open stores without engine and workers, for reading.

    ``server``: as ``open_stores`` takes it.
    """
    with ExitStack() as stack:
        yield open_stores(settings, stack, server=server)


def credential_names(settings: Settings, store: CredentialStore) -> CredentialNames:
    """Return the credentials that tasks of this machine can use: registered or in its file."""
    return KnownCredentials(store, FileCredentials(settings.credentials_file, lambda line: None))


def folder_of(program: Program) -> str | None:
    """Return the folder of a local playbook's file.

    The command line registers such a playbook under its absolute path.
    """
    path = Path(program.source_name)
    return str(path.parent) if path.is_absolute() and path.is_file() else None


def open_engine(
    settings: Settings,
    *,
    owner: str,
    data_dirs: Collection[str] = (),
    log: Callable[[str], None] = lambda line: None,
    revoked: Callable[[int, int], bool] = lambda execution_id, run: False,
    withdrawn: Callable[[Command], bool] = lambda command: False,
    gate_of: Callable[[Command], Gate | None] = lambda command: None,
    note_unseen: Callable[[Command, CommandDone], None] | None = None,
    registry: Registry | None = None,
    server: EmbeddedServer | None = None,
) -> Opened:
    """Wire engine and worker for one process.

    ``data_dirs``: folders that duckdb and script may read, beside those that tasks are given. ``server``: as ``open_stores`` takes it.
    """
    guard_programs(settings.task_folders)
    kinds = registry or default_registry()
    stack = ExitStack()
    try:
        stores = open_stores(settings, stack, kinds, log, server)
        stores.results.start()
        work = settings.home / "work"
        work.mkdir(exist_ok=True)
    except BaseException:
        stack.close()
        raise
    sizes = {"io": settings.io_workers, "cpu": settings.cpu_workers, "python": settings.python_workers}
    hydrate = make_hydrate(stores.results)
    own = FileCredentials(settings.credentials_file, log)
    names = KnownCredentials(stores.credentials.store, own)
    engine = EngineDeps(
        store=stores.store,
        results=stores.results,
        programs=stores.programs,
        resolve=stores.programs.resolve,
        hydrate=hydrate,
        owner=owner,
        limits=Limits(inline_bytes=settings.inline_limit, tier=stores.results.name),
        workers=lambda pool: sizes.get(pool, settings.io_workers),
        log=log,
        credentials=names,
        proofs=lambda found: proofs(found, local_keys(settings.home)),
        recent=Recent(),
    )
    grants = TaskSettings(
        http_allow=(*LOOPBACK, *settings.http_allow),
        python_memory_bytes=settings.python_memory_bytes,
        duckdb_memory_bytes=settings.duckdb_memory_bytes,
        output_max_bytes=settings.output_max_bytes,
        artifact_max_bytes=settings.artifact_max_bytes,
        workspace_dsn=stores.workspace,
        data_dirs=(*data_dirs, *settings.task_folders),
        work_dir=str(work),
        task_folders=settings.task_folders,
        hidden_dirs=settings.hidden_dirs,
        task_disk_bytes=settings.task_disk_bytes,
        task_processes=settings.task_processes,
        aws_auth_required=settings.aws_auth_required,
        libraries_dir=str(settings.home / "cache" / "environments"),
        wheels_dir=settings.wheels,
    )
    worker = WorkerDeps(
        programs=stores.programs,
        registry=kinds,
        results=stores.results,
        credentials=RegisteredFirst(stores.credentials, own),
        settings=grants,
        hydrate=hydrate,
        inline_bytes=settings.inline_limit,
        folder_of=folder_of,
        revoked=revoked,
        withdrawn=withdrawn,
        gate_of=gate_of,
        note_unseen=note_unseen,
        callback_key=lambda command: callback_key(command, stores.programs, local_keys(settings.home)),
        callback_base=callback_base(settings),
        jobs=DockerJobs(),
        log=log,
        cache=PostgresTaskCache(stores.database),
        lines=LineKeeper(stores.task_logs, log),
    )
    return Opened(
        stores.store,
        stores.catalog,
        stores.schedules,
        stores.results,
        stores.programs,
        stores.dsn,
        stores.workspace,
        stores.history_sql,
        stores.database,
        stores.credentials,
        stores.variables,
        stores.prune,
        stores.triggers,
        stores.task_logs,
        stores.revive,
        engine,
        worker,
        names,
        sizes,
        stack,
    )
