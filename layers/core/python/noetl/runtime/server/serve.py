"""``noetl serve``: engine, workers, scheduler and the whole API in one process.

It serves the same table of routes as the deployed function.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

from noetl.adapters.postgres.event_batches import PostgresEventBatches
from noetl.adapters.postgres.migrations import check_current
from noetl.adapters.postgres.saved_views import PostgresSavedViews
from noetl.adapters.postgres.variables import PostgresVariables
from noetl.api.deps import ApiDeps
from noetl.api.http.asgi import make_application, make_handler
from noetl.api.http.browser_sessions import BrowserSessions
from noetl.api.http.dispatch import Api
from noetl.api.http.local_tokens import LocalTokens
from noetl.api.http.long_work import LongWork
from noetl.api.http.same_origin import LOOPBACK
from noetl.api.http.ui_files import UiFiles
from noetl.api.http.waiting import Waiting
from noetl.api.links import SignedLinks
from noetl.api.live.change_hub import ChangeHub
from noetl.domain.errors import InfrastructureError, InvalidInputError, as_exception
from noetl.domain.events import Event, Start
from noetl.kinds.sandbox.layers import layers
from noetl.ports.executions.execution_store import Ending, ExecutionStore
from noetl.ports.executions.inspection import Backlog
from noetl.runtime.local.event_inbox import DATABASE
from noetl.runtime.local.keys import local_keys
from noetl.runtime.local.lease_keeper import PeriodicDuty
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.local.terminal_cache import LOOK_SECONDS
from noetl.runtime.server.diagnosis import machine_report
from noetl.runtime.server.http_worker_pool import RemoteWork
from noetl.runtime.server.metrics import Metrics
from noetl.runtime.server.request_threads import RequestThreads
from noetl.runtime.server.test_process import TestProcesses
from noetl.runtime.server.ui_build import ui_folder
from noetl.runtime.server.unconfined_code import refuse_unconfined_code
from noetl.runtime.settings import Settings
from noetl.services.automations.fire_schedule import Fired
from noetl.services.automations.schedules import ScheduleDeps, declared
from noetl.services.messaging.backpressure import Backpressure
from noetl.services.orchestrator.authenticate import MessageAuthenticator
from noetl.services.orchestrator.ingest_worker_events import EventsDeps, resume_batches
from noetl.services.support.group_calls import GroupedCalls
from noetl.services.support.store_time import store_clock

RESUME_SECONDS = 5.0
"""How often the server looks for batches of events that no process handles; at most so many at once:"""
RESUMED = 10
WAITING_REQUESTS = 500
"""Most requests that wait for a thread; further ones are refused with a time to try again."""
WAITERS_PER_THREAD = 16
"""Requests that wait for the end of an execution, for each that is worked on: a waiting one has a thread of its own. Further ones are
answered at once."""
LONG_REQUESTS = 2
"""Most requests that compute for long at the same time; others get 429, and all other threads stay free."""
STARTS_PER_THREAD = 3
"""Starts that have a thread of their own while the engine begins their executions, for each request that is worked on."""
TOGETHER = 128
"""Most requests that share a round trip."""
ANSWERING_SECONDS = 5.0
"""Seconds that running requests have to finish when the server ends."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The settings of a server.

    ``port`` 0: a free one. ``threads``: requests worked on at the same time, beside those that wait. ``open_to_all``:
    no tokens (this machine only).
    """

    host: str = "127.0.0.1"
    port: int = 8765
    threads: int = 16
    open_to_all: bool = False
    worker_lease: float = 60.0
    """Seconds that a worker may be silent about a command."""
    grace: float = 1.0
    """Seconds that running tasks have to finish when the server ends."""
    external: tuple[str, ...] = ()
    """Pools whose commands only workers run that fetch them over HTTP."""
    accept_unconfined: bool = False
    """Serve narrow tokens also where nothing confines code."""


class Server:
    """A server, as a context manager: it serves while it is open. ``address``: its URL."""

    def __init__(
        self,
        settings: Settings,
        serve: ServeSettings,
        *,
        on_log: Callable[[str], None],
        on_fired: Callable[[Fired], None] = lambda fired: None,
    ) -> None:
        """Check the settings; the server starts with the context.

        Raises InvalidInputError for a server without tokens that others could reach, and for code that nothing
        confines.
        """
        if serve.open_to_all and serve.host not in LOOPBACK:
            raise InvalidInputError(
                f"a server without tokens at {serve.host} would let everybody in",
                code="serve_open",
                hint="leave out --no-auth, or serve at 127.0.0.1",
            )
        self._settings, self._serve, self._log = settings, serve, on_log
        self.metrics = Metrics(time.monotonic)
        self.tokens = None if serve.open_to_all else LocalTokens(settings.home / "tokens.json")
        self._refuse_unconfined_code()
        self.runtime = LocalRuntime(settings, on_log=on_log, on_fired=on_fired)
        self.runtime.patience = serve.grace
        self.runtime.on_ended = self.metrics.ended
        self._starts = threading.Semaphore(STARTS_PER_THREAD * serve.threads)

    def __enter__(self) -> Server:
        self.runtime.__enter__()
        self.workers = RemoteWork(self.runtime, lease_seconds=self._serve.worker_lease)
        try:
            self._leave_to_others()
            self.runtime.recover()
            self.events = self._events()
            self.runtime.keeper.chores.append(PeriodicDuty(RESUME_SECONDS, self._resume_batches))
            self._listen()
        except BaseException:
            self.runtime.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runtime.release_waiting()
        self.workers.news.release()
        self.hub.close()
        self._http.close(ANSWERING_SECONDS)
        self._thread.join(timeout=10.0)
        self.runtime.__exit__(kind, error, trace)

    def _refuse_unconfined_code(self) -> None:
        if self.tokens is None or self._serve.accept_unconfined or "python" in self._serve.external:
            return
        refuse_unconfined_code(layers(), ((entry.name, entry.scopes) for entry in self.tokens.entries()))

    def _permit_token(self, name: str, scopes: Sequence[str]) -> None:
        """Refuse a token with which this server would not start. Raises InvalidInputError."""
        if not (self._serve.accept_unconfined or "python" in self._serve.external):
            refuse_unconfined_code(layers(), [(name, scopes)])

    def _leave_to_others(self) -> None:
        """Leave the external pools to HTTP workers.

        Raises InvalidInputError(code="pool_unknown").
        """
        pools = self.runtime.pools
        for name in self._serve.external:
            if name not in pools:
                raise InvalidInputError(
                    f"there is no pool {name[:40]!r}",
                    code="pool_unknown",
                    hint=f"pools are {', '.join(sorted(pools))}",
                )
            self.runtime.offers.add(name)

    def _listen(self) -> None:
        from noetl.runtime.server.http_server import listen

        deps: list[ApiDeps] = []
        api = Api(lambda: deps[0], "local", deployment={"runs": "locally"}, log=self._log)
        settings = self._serve
        self._threads = RequestThreads(settings.threads)
        self._sessions = self._browser_sessions()
        self._handle = make_handler(
            api, self.tokens, self.metrics.request, sessions=self._sessions, ui=UiFiles(ui_folder())
        )
        application = make_application(self._handle, self._threads, self._crowded)
        self._http = listen(application, settings.host, settings.port, self._threads, self._settings.clients)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"http://{host}:{self._http.port}"
        if settings.host not in LOOPBACK:
            self._log(
                f"warning: {self.address} is plain HTTP, and other machines reach it: tokens and data travel in clear."
                " Put a proxy with TLS in front of it, and serve at 127.0.0.1"
            )
        self.hub = ChangeHub(self.runtime.opened.store.pulses, self._log)
        self.runtime.on_change = self.hub.wake
        deps.append(self._deps())
        if not self._settings.public_url:
            opened = self.runtime.opened
            opened.worker = replace(opened.worker, callback_base=self.address)
        self._thread = threading.Thread(target=self._http.run, name="noetl-http", daemon=True)
        self._thread.start()

    def _browser_sessions(self) -> BrowserSessions | None:
        if self.tokens is None:
            return None
        path = self._settings.home / "sessions.json"
        return BrowserSessions(path, self.tokens, time.time, self._settings.public_url)

    def _crowded(self) -> bool:
        """Return whether more requests wait for a thread than can be answered soon."""
        crowded = self._threads.waiting > WAITING_REQUESTS
        if crowded:
            self.metrics.refused_request("too_many_requests")
        return crowded

    def _deps(self) -> ApiDeps:
        runtime, opened = self.runtime, self.runtime.opened
        self.pressure = Backpressure(
            self._backlog, self._settings.backlog_limit, time.monotonic, self.metrics.refused_request
        )
        links = self.links = SignedLinks(self.address, secrets.token_bytes(32), time.time)
        schedules = ScheduleDeps(
            opened.schedules, None, opened.catalog, opened.programs, store_clock(opened.store.load)
        )
        return ApiDeps(
            store=opened.store,
            catalog=opened.catalog,
            schedules=schedules,
            triggers=opened.triggers,
            variables=PostgresVariables(opened.database),
            saved_views=PostgresSavedViews(opened.database),
            inspection=opened.inspection,
            credentials=opened.credentials,
            names=opened.names,
            events=self.events,
            workers=self.workers,
            keys=lambda fresh: self._keys,
            results=opened.results,
            prune=opened.prune,
            task_logs=opened.task_logs,
            programs=opened.programs,
            compile=opened.programs.cache.compile,
            kinds=lambda: opened.programs.cache.kinds,
            keep=lambda program: None,
            publisher=_Inbox(runtime),
            link=links.link,
            linked=links.uri,
            gauges=runtime.gauges,
            tokens=self.tokens,
            permit_token=self._permit_token,
            machine=lambda: machine_report(self._settings),
            pressure=self.pressure,
            metrics=lambda: self.metrics.text(runtime.gauges(), opened.inspection.outstanding()),
            checks={"database": lambda: check_current(opened.dsn)},
            clock=time.time,
            reconnect=opened.database.close,
            registered=declared(schedules),
            log=self._log,
            long_work=LongWork(LONG_REQUESTS, self.metrics.refused_request),
            find=GroupedCalls(opened.catalog.find, TOGETHER),
            begin=self._begin,
            ending=GroupedCalls(_read_endings(opened.store), TOGETHER),
            waiting=Waiting(
                WAITERS_PER_THREAD * self._serve.threads,
                expect=runtime.expect_end,
                first_pause=LOOK_SECONDS,
                beside=self._threads.lend,
            ),
            claim_waiting=Waiting(
                WAITERS_PER_THREAD * self._serve.threads,
                expect=self.workers.news.expect,
                first_pause=0.0,
                next_pause=LOOK_SECONDS,
                slower=1.0,
                last_look=False,  # the worker asks again at once
                beside=self._threads.lend,
            ),
            counted=self.metrics.counted,
            sessions=self._sessions,
            hub=self.hub,
            history_sql=opened.history_sql,
            test_runner=None if "python" in self._serve.external else TestProcesses(self._threads.lend),
            public_url=self._settings.public_url or self.address,
            inline_bytes=self._settings.inline_limit,
        )

    def _begin(self, start: Start) -> bool | None:
        """Begin an execution in the engine's next commit, which it shares with other events.

        Other requests have this thread's place meanwhile. Where that fails, begin it alone. Raises InfrastructureError
        when the database is unreachable.
        """
        with self._starting():
            begun = self.runtime.begin_in_turn(start)
        return self._begin_alone(start) if begun is None else begun

    @contextmanager
    def _starting(self) -> Iterator[None]:
        if not self._starts.acquire(blocking=False):
            yield
            return
        try:
            with self._threads.lend():
                yield
        finally:
            self._starts.release()

    def _begin_alone(self, start: Start) -> bool | None:
        try:
            return self.runtime.begin([start])[0]
        except BaseException as caught:
            error = as_exception(caught)
            if isinstance(error, InfrastructureError) and error.code in DATABASE:
                raise
            self._log(f"execution {start.execution_id} is left to the inbox to begin: {error!r}")
            return None

    def _backlog(self, most: int) -> Backlog:
        """Return the backlog: what is durable, and what waits in this process alone."""
        found = self.runtime.opened.inspection.backlog(most)
        inbox = self.runtime.gauges()[0].waiting
        return Backlog(max(found.events, inbox), found.commands)

    def _resume_batches(self) -> None:
        """Handle events that a process accepted before it died."""
        found = resume_batches(self.events, RESUMED)
        if found:
            self._log(f"{found} batch(es) of events that were left are handled")

    def _events(self) -> EventsDeps:
        runtime, opened = self.runtime, self.runtime.opened
        self._keys = local_keys(self._settings.home)
        door = MessageAuthenticator(
            opened.store, opened.results, lambda fresh: self._keys, time.time, self._log
        )
        return EventsDeps(
            door,
            opened.store,
            PostgresEventBatches(opened.database),
            forward=lambda found: _emit(runtime, found),
            renew_lease=self.workers.renew_lease,
            refused=self.metrics.refused,
        )


def _read_endings(store: ExecutionStore) -> Callable[[Sequence[int]], Sequence[Ending | None]]:
    def read(execution_ids: Sequence[int]) -> Sequence[Ending | None]:
        found = store.endings(execution_ids)
        return [found.get(one) for one in execution_ids]

    return read


def _emit(runtime: LocalRuntime, found: Sequence[tuple[str, Event]]) -> None:
    """Hand events to this process's engine.

    Until it has handled them they are in memory: if the process dies, their commands run again.
    """
    for _, event in found:
        runtime.emit(event)


class _Inbox:
    """A publisher of durable events that hands them to the engine of this process."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime

    def owner(self) -> str:
        return self._runtime.owner

    def events(self, owner: str, events: Sequence[Event]) -> None:
        self._runtime.accept(events)
