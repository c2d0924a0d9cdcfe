"""The dependencies of the routes, gathered once by ``noetl.runtime``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from noetl.api.http.long_work import LongWork
from noetl.api.http.waiting import Waiting
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import NotFoundError
from noetl.domain.events import Event
from noetl.domain.kinds import KindLookup
from noetl.domain.results.references import INLINE_LIMIT
from noetl.domain.sizes.table import ANSWER_BYTES, BODY_BYTES
from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog, PlaybookVersion
from noetl.ports.credentials import CredentialNames
from noetl.ports.deliveries import Deliveries
from noetl.ports.executions.execution_store import Ending, ExecutionStore
from noetl.ports.executions.inspection import Inspection
from noetl.ports.gauges import QueueGauge
from noetl.ports.history_sql import HistorySql
from noetl.ports.results import ResultStore
from noetl.ports.saved_views import SavedViews
from noetl.ports.task_logs import TaskLogs
from noetl.ports.test_runs import TestRunner
from noetl.ports.variables import Variables
from noetl.services.automations.schedules import ScheduleDeps
from noetl.services.automations.triggers import TriggerDeps
from noetl.services.catalog.register_playbook import Compiled
from noetl.services.credentials.credentials import CredentialDeps
from noetl.services.executions.start_execution import Begin
from noetl.services.history.moments import Histories
from noetl.services.messaging.backpressure import Backpressure
from noetl.services.messaging.operate_dead_letters import LetterQueue
from noetl.services.orchestrator.ingest_worker_events import EventsDeps
from noetl.services.results.prune import PruneDeps
from noetl.services.worker.http_worker_leases import Claims

if TYPE_CHECKING:  # a function of a deployment has neither, and starts faster without
    from noetl.api.http.browser_sessions import BrowserSessions
    from noetl.api.http.local_tokens import LocalTokens
    from noetl.api.http.machine_report import MachineReport
    from noetl.api.live.change_hub import ChangeHub

MAX_BODY = BODY_BYTES.value
"""Bytes of a request's body; Lambda takes 6 MB with everything around it."""
MAX_ANSWER = ANSWER_BYTES.value
"""Bytes of an answer as Lambda counts them (the body escaped once more); its limit is 6 MB."""


class Publisher(Protocol):
    """A publisher of durable events to their queue."""

    def owner(self) -> str:
        """Return the owner of an event until it is published; others publish what it leaves."""

    def events(self, owner: str, events: Sequence[Event]) -> None:
        """Send events and mark them.

        Raises InfrastructureError when they could not be sent; they are durable all the same.
        """


def _foreign(token: str) -> tuple[str, str]:
    raise NotFoundError("links of this deployment lead to its bucket", code="link_invalid")


@dataclass(frozen=True, slots=True)
class ApiDeps:
    """Dependencies of the routes.

    ``programs``: hash → Program (raises NotFoundError). ``compile``: (text, source name) → program and warnings (raises
    InvalidPlaybookError). ``kinds``: those that playbooks may use here. ``keep``: stores a program for engine and workers.
    ``registered``: called with each playbook that was registered.
    ``link``: (result URI, seconds) → a URL that serves its bytes for so long, without further credentials. ``gauges``: how full queues are.
    ``pressure``: refuses what is too much. ``names``: which credentials there are, for keychains. ``inspection``: what is outstanding.
    ``checks``: what has to be reachable, each raising NoetlError when it is not. ``clock``: epoch seconds.
    """

    store: ExecutionStore
    catalog: Catalog
    schedules: ScheduleDeps
    triggers: TriggerDeps
    variables: Variables
    saved_views: SavedViews
    inspection: Inspection
    credentials: CredentialDeps
    events: EventsDeps
    names: CredentialNames
    results: ResultStore
    prune: PruneDeps
    task_logs: TaskLogs
    programs: Callable[[str], Program]
    compile: Callable[[str, str], Compiled]
    kinds: Callable[[], KindLookup]
    keep: Callable[[Program], None]
    publisher: Publisher
    link: Callable[[str, int, str], str]
    gauges: Callable[[], Sequence[QueueGauge]]
    pressure: Backpressure
    checks: Mapping[str, Callable[[], None]]
    clock: Callable[[], float]
    reconnect: Callable[[], None]
    """Drop connections, so that the next call makes new ones."""
    registered: Callable[[Program, str, int], None] = lambda program, path, version: None
    keys: Callable[[bool], KeyRing] | None = None
    """What tokens of commands are verified with (read again when True); None: no command is known here."""
    workspace: str = ""
    """The credential of the scratch database, which tasks use that name none."""
    workers: Claims | None = None
    """The claims of workers that fetch commands over HTTP; None where no worker can."""
    metrics: Callable[[], str] | None = None
    """The metrics of this process in the text format of Prometheus; None where another system measures."""
    linked: Callable[[str], tuple[str, str]] = _foreign
    """The URI and the tier behind a link that this process answers itself. Raises NotFoundError."""
    log: Callable[[str], None] = lambda line: None
    counted: Callable[[str, float], None] = lambda name, value: None
    """Adds to a metric, by its name in CloudWatch."""
    long_work: LongWork = field(default_factory=LongWork)
    """How many requests may compute for long at the same moment."""
    find: Callable[[tuple[str, int | None]], PlaybookVersion | None] | None = None
    """Finds the version of a playbook in the catalog (path; None: the latest), in one round trip with others that ask meanwhile."""
    begin: Begin | None = None
    """Begins executions; None where no engine runs."""
    ending: Callable[[int], Ending | None] | None = None
    """Reads the outcome of an execution, in one round trip with concurrent requests for others."""
    waiting: Waiting[int] = field(default_factory=Waiting)
    """How requests wait for the end of an execution."""
    claim_waiting: Waiting[str] | None = None
    """How workers' requests wait for commands of a pool; None: they are answered at once."""
    public_url: str = ""
    """Where others reach this API; empty: where the caller did."""
    histories: Histories = field(default_factory=Histories)
    """Checkpoints of the histories that were read lately."""
    history_sql: HistorySql | None = None
    """Reading queries over history; None where no role is set up for them."""
    test_runner: TestRunner | None = None
    """Runs tests of playbooks in a process of their own; None where no code may run."""
    hub: ChangeHub | None = None
    """Streams of changes; None where requests cannot last."""
    sessions: BrowserSessions | None = None
    """Sessions of browsers; None where others sign people in, or none is needed."""
    tokens: LocalTokens | None = None
    """Bearer tokens of this server; None where others admit callers, or everybody is admitted."""
    permit_token: Callable[[str, Sequence[str]], None] = lambda name, scopes: None
    """Called before a token of this name and these scopes is made. Raises InvalidInputError where it would promise too much."""
    machine: Callable[[], MachineReport] | None = None
    """What this machine lacks, and its settings; None where a deployment has none of its own."""
    deliveries: Deliveries | None = None
    """What queues know about an execution; None where there are none but the database."""
    letter_queues: Sequence[LetterQueue] = ()
    """Queues of dead letters; none where there are no queues but the database."""
    inline_bytes: int = INLINE_LIMIT
    max_body: int = MAX_BODY
    max_answer: int = MAX_ANSWER
