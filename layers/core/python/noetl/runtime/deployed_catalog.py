"""Registration of playbooks on a deployment, where programs are read from a store.

It is the only deployed code that has the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.event_rules import EventRules
from noetl.adapters.aws.queue_mappings import QueueMappings
from noetl.adapters.aws.scheduler import EventBridgeSchedules
from noetl.adapters.aws.trigger_sources import AwsTriggerSources
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.executions.execution_store import PostgresExecutionStore
from noetl.adapters.postgres.schedule_store import PostgresScheduleStore
from noetl.adapters.postgres.trigger_store import PostgresTriggerStore
from noetl.domain.automations.trigger_queues import QueueRights
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.text.version_text import split_version
from noetl.dsl.diagnostics import Diagnostic, Diagnostics, InvalidPlaybookError
from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog
from noetl.ports.programs import ProgramStore
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.stored_compiler import Compiler
from noetl.services.automations.schedules import ScheduleDeps
from noetl.services.automations.triggers import TriggerDeps
from noetl.services.catalog.register_playbook import Registered, register_playbook
from noetl.services.support.store_time import store_clock

if TYPE_CHECKING:
    from noetl.runtime.program_cache import CachedProgram


class Registrar(Compiler):
    """The compiler that registers playbooks in a catalog.

    ``registered``: called for each playbook that the catalog now contains, so that its schedules take effect.
    """

    def __init__(
        self,
        catalog: Catalog,
        programs: ProgramStore,
        registered: Callable[[Program, str, int], None] = lambda program, path, version: None,
    ) -> None:
        super().__init__(programs)
        self._catalog = catalog
        self.registered = registered

    def compile(self, text: str, source_name: str, program: str = "", rewritten: str = "") -> CachedProgram:
        """Compile a playbook, and refuse one whose libraries no worker of a deployment installs.

        Raises InvalidPlaybookError.
        """
        done = super().compile(text, source_name, program, rewritten)
        if done.program.lock:
            raise InvalidPlaybookError([_no_libraries(rewritten or text)], source_name=source_name)
        return done

    def register(self, text: str, *, source_name: str, path: str | None = None) -> Registered:
        """Register a playbook.

        Raises InvalidPlaybookError, InvalidInputError, InfrastructureError.
        """
        done = register_playbook(
            text,
            source_name=source_name,
            path=path,
            catalog=self._catalog,
            compile=self.compile,
            keep=self.keep,
        )
        self.registered(done.program, done.entry.path, done.entry.version)
        return done


def _no_libraries(text: str) -> Diagnostic:
    from noetl.dsl.yaml_text.loader import load
    from noetl.dsl.yaml_text.tree import mapping_of

    root = mapping_of(load(split_version(text)[0], Diagnostics()))
    tree = mapping_of(mapping_of(root.get("executor")).get("spec")).get("requirements")
    return Diagnostic(
        "libraries-unavailable",
        "workers of a deployment on AWS install no libraries",
        1 if tree is None else tree.pos.line,
        1 if tree is None else tree.pos.column,
        hint="remove `requirements` and use what is installed there, or run this part as a container (docs/modules.md)",
    )


def schedule_deps(
    settings: CloudSettings, database: Database, catalog: Catalog, programs: Callable[[str], Program]
) -> ScheduleDeps:
    """Make the dependencies of schedules: the table and, if used, EventBridge Scheduler."""
    schedules = None
    if settings.schedule_group:
        schedules = EventBridgeSchedules(
            settings.schedule_group, settings.scheduler_target, settings.scheduler_role, _Client("scheduler")
        )
    clock = store_clock(PostgresExecutionStore(database).load)
    return ScheduleDeps(PostgresScheduleStore(database), schedules, catalog, programs, clock)


def trigger_deps(
    settings: CloudSettings, database: Database, catalog: Catalog, keys: Callable[[bool], KeyRing]
) -> TriggerDeps:
    """Make the dependencies of triggers: the table, EventBridge rules, event sources."""
    rules = EventRules(
        settings.trigger_rules, settings.scheduler_target, settings.starts_dlq, _Client("events")
    )
    rights = QueueRights(settings.scheduler_target, settings.readable_queues, settings.trigger_queues)
    sources = AwsTriggerSources(rules, QueueMappings(rights, _Client("lambda")))
    return TriggerDeps(PostgresTriggerStore(database), sources, catalog, keys)


class _Client:
    """A client of AWS that is made when it is used: few registrations touch a schedule."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        return getattr(make_client(self._service), name)
