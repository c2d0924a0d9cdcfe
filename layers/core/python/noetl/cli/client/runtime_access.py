"""Functions through which commands reach the runtime.

The runtime is imported when a command needs it; tests replace the functions by fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from noetl.runtime.collector import collect_as_usual

if TYPE_CHECKING:
    from noetl.adapters.embedded.server import EmbeddedServer
    from noetl.domain.capability_tokens import KeyRing
    from noetl.domain.events import Event
    from noetl.domain.outcomes.outcomes import Patch
    from noetl.domain.workers.lost_owners import Takes
    from noetl.dsl.program import Program
    from noetl.ports.automations.schedule_store import ScheduleStore
    from noetl.ports.catalog import Catalog, CatalogEntry
    from noetl.ports.executions.execution_store import ExecutionStore
    from noetl.ports.executions.inspection import Inspection
    from noetl.ports.gauges import QueueGauge
    from noetl.ports.history_sql import HistorySql
    from noetl.ports.results import ResultStore
    from noetl.ports.task_logs import TaskLogs
    from noetl.ports.variables import Variables
    from noetl.runtime.program_cache import CachedProgram
    from noetl.runtime.programs import Programs
    from noetl.runtime.settings import Settings
    from noetl.services.automations.fire_schedule import Fired
    from noetl.services.automations.triggers import TriggerDeps
    from noetl.services.credentials.credentials import CredentialDeps
    from noetl.services.results.prune import PruneDeps


class Reading(Protocol):
    """What can be looked at without running anything.

    ``programs``: hash → Program, and what registers one.
    """

    @property
    def store(self) -> ExecutionStore: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def schedules(self) -> ScheduleStore: ...
    @property
    def results(self) -> ResultStore: ...
    @property
    def programs(self) -> Programs: ...
    @property
    def credentials(self) -> CredentialDeps: ...
    @property
    def inspection(self) -> Inspection: ...
    @property
    def variables(self) -> Variables: ...
    @property
    def prune(self) -> PruneDeps: ...
    @property
    def triggers(self) -> TriggerDeps: ...
    @property
    def task_logs(self) -> TaskLogs: ...
    @property
    def history_sql(self) -> HistorySql | None: ...


class Runtime(Reading, Protocol):
    """A process that runs executions; see ``noetl.runtime.local.process``.

    ``owner``: its name; ``accept``: events that are durable as its own.
    """

    @property
    def owner(self) -> str: ...
    def accept(self, events: Collection[Event]) -> None: ...
    def gauges(self) -> Sequence[QueueGauge]: ...
    def register(self, text: str, *, source_name: str, path: str | None = None) -> CatalogEntry: ...
    def start(self, entry: CatalogEntry, payload: dict[str, Any], priority: int | None = None) -> int: ...
    def run_until(
        self,
        ids: Collection[int],
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
    ) -> None: ...
    def recover(self) -> list[int]: ...
    def cancel(self, execution_id: int, reason: str, principal: str, cascade: bool = True) -> None: ...
    def patch_context(
        self,
        execution_id: int,
        patches: list[Patch],
        principal: str,
        reason: str,
        correlation_id: str = "",
    ) -> None: ...


def settings(home: str | None = None) -> Settings:
    """Settings from the environment; ``home`` wins over NOETL_HOME."""
    from noetl.runtime.settings import Settings

    return Settings.from_env(home=Path(home).expanduser()) if home else Settings.from_env()


def callbacks_of(home: str | None) -> tuple[Callable[[bool], KeyRing], str]:
    """What tokens of callbacks are proven with on this machine, and where they are answered."""
    from noetl.runtime.bootstrap import callback_base
    from noetl.runtime.local.keys import local_keys

    found = settings(home)
    found.make_home()
    return lambda fresh: local_keys(found.home), callback_base(found)


@contextmanager
def open_local(
    home: str | None, *, on_log: Callable[[str], None] | None = None, takes: Takes = "everything"
) -> Iterator[Runtime]:
    """The local runtime: Postgres and workers run while the context is open.

    ``takes``: what it takes over from others.
    """
    found = settings(home)
    server = _started(found, "noetl.runtime.local.process")
    from noetl.runtime.local.process import LocalRuntime

    with LocalRuntime(found, on_log=on_log, takes=takes, server=server) as runtime:
        collect_as_usual()
        yield runtime


def open_scheduler(
    home: str | None, *, on_fired: Callable[[Fired], None], on_log: Callable[[str], None]
) -> AbstractContextManager[Runtime]:
    """Open the local runtime, which also fires the schedules of its database and reports each."""
    from noetl.runtime.local.process import LocalRuntime

    collect_as_usual()
    return LocalRuntime(settings(home), on_log=on_log, on_fired=on_fired)


@contextmanager
def open_reading(home: str | None) -> Iterator[Reading]:
    """Store, catalog and results, without workers."""
    found = settings(home)
    server = _started(found, "noetl.runtime.bootstrap")
    from noetl.runtime.bootstrap import open_readonly

    with open_readonly(found, server) as reading:
        yield reading


def _started(found: Settings, module: str) -> EmbeddedServer | None:
    """The embedded server, unless another database is named.

    It starts while ``module`` is loaded, which takes as long.
    """
    if found.database_url is not None:
        return None
    from noetl.runtime.local.embedded_server import own_server

    return own_server(found, lambda: import_module(module))


def compile_playbook(text: str, source_name: str, home: str | None) -> CachedProgram:
    """The program of a playbook, and warnings about it. Raises InvalidPlaybookError."""
    from noetl.cli.render.output import note_log
    from noetl.runtime.program_cache import local_cache

    # It replaces a changed program with the correct one, so no later check could find the change.
    return local_cache(settings(home).home, kinds(), note_log).compile(text, source_name)


def prepare_first_task(program: Program, home: str | None) -> None:
    """Start what the first task of code waits for, beside what follows."""
    from noetl.runtime.local import warm_start

    warm_start.prepare_first_task(program, settings(home))


def kinds() -> Any:
    """The registry of tool kinds."""
    from noetl.kinds.registry import default_registry

    return default_registry()
