"""The local runtime: the engine in one process over Postgres, with queues in memory.

Postgres is embedded, or a given server.

An engine thread commits all waiting events as one batch, or a worker the one that waits (``Inbox.turn``); worker
threads run commands; a keeper thread holds the lease, wakes delayed commands, fires timers and adopts what dead
processes left. Everything is in the database as well: the process may be killed at any moment.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from noetl.adapters.embedded.server import EmbeddedServer
from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, NotFoundError, as_exception
from noetl.domain.events import Cancel, CommandDone, ContextPatched, Event, Start
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.workers.lost_owners import Takes
from noetl.kinds.registry import Registry, default_registry
from noetl.kinds.sandbox.needed import reporting_needs
from noetl.ports.catalog import CatalogEntry
from noetl.ports.gauges import QueueGauge
from noetl.runtime.bootstrap import open_engine
from noetl.runtime.id_source import change_name, process_name
from noetl.runtime.local.ahead_runs import AheadRuns
from noetl.runtime.local.early_starts import EarlyStarts
from noetl.runtime.local.event_inbox import BATCH, Inbox
from noetl.runtime.local.lease_keeper import (
    NO_THREAD_SECONDS,
    TIDY_SECONDS,
    Keeper,
    PeriodicDuty,
    is_doubtful,
)
from noetl.runtime.local.lost_commands import SharedRunRule, attempt, fence_of, free_dead
from noetl.runtime.local.orphaned_jobs import LeftBehind
from noetl.runtime.local.pools_of_process import (
    LocalCommands,
    every_pool,
    forget,
    gauges,
    loaded,
    look_again,
    make_pools,
    make_process,
    need_in,
    share,
    submit,
)
from noetl.runtime.local.process_locks import ProcessLock, turn_of
from noetl.runtime.local.remote_pool_offers import RemotePoolOffers
from noetl.runtime.local.scheduler import Scheduler
from noetl.runtime.local.starts import start_each
from noetl.runtime.local.terminal_cache import Awaited, Ends, EndWaiter, expecting, forget_redriven
from noetl.runtime.local.thread_pools import Pool, leave_waiting
from noetl.runtime.local.worker_process.messages import Begin, encode_settings
from noetl.runtime.local.worker_process.process import WorkerProcess
from noetl.runtime.local.worker_process.processes import IDLE_SECONDS, WorkerProcesses
from noetl.runtime.retention import tidy
from noetl.runtime.settings import Settings
from noetl.services.automations.fire_schedule import Fired
from noetl.services.orchestrator.engine_deps import BatchEffects
from noetl.services.orchestrator.failed_events import after_failure
from noetl.services.orchestrator.handle_events import handle_events
from noetl.services.worker.issue_gate import NotIssuedError
from noetl.services.worker.worker_lost import worker_lost

BROKEN_TRIES = 3
"""How often a command may break its worker before its step fails."""
EARLY_SECONDS = 0.05
"""Pause when every event of a batch arrived before another message of its command, and is handed back."""


class LocalRuntime:
    """The engine and workers of one process, as a context manager.

    Several may share one database, in one or in several processes; optimistic concurrency on each execution's version
    keeps them apart.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        data_dirs: Collection[str] = (),
        on_log: Callable[[str], None] | None = None,
        registry: Registry | None = None,
        on_fired: Callable[[Fired], None] | None = None,
        takes: Takes = "everything",
        server: EmbeddedServer | None = None,
    ) -> None:
        """Set up a runtime, which opens with the context.

        ``on_fired``: fire the schedules of this database, and report each firing to this (from a thread of its own).
        ``takes``: what it takes over from other processes; the effects of its own changes run in any case. ``server``:
        the embedded one, if it is open; it is closed with this runtime.
        """
        self.settings, self.takes = settings, takes
        self.data_dirs = tuple(data_dirs)
        self.log = on_log or (lambda line: None)
        self.owner = process_name()
        self.registry, self.on_fired, self._server = registry, on_fired, server
        self.scheduler: Scheduler | None = None
        self.presence = ProcessLock(settings.home / "owners", self.owner)
        self._company = SharedRunRule()
        self._inbox = Inbox(
            self._handle,
            self._after_failure,
            self.log,
            lambda: look_again(self.pools, self._processes),
            lambda: loaded(self.pools, self._processes),
        )
        self._changed = self._inbox.changed
        self._here, self._ended = LocalCommands(self._inbox.holds), Ends()
        self.pools: dict[str, Pool] = {}
        self._processes = WorkerProcesses(
            settings.worker_processes if self._kinds() is not None else 0,
            self._make_process,
            lambda: sum(pool.load for pool in self.pools.values()),
            self._place_again,
            self.log,
        )
        self.patience = 1.0
        """Seconds that running tasks have to end when this process does; the others run again when the execution is resumed."""
        self.on_change: Callable[[Iterable[int]], None] = lambda moved: None
        """Called with the executions that this process has changed."""
        self.on_ended: Callable[[Iterable[str]], None] = lambda statuses: None
        """Takes the statuses of executions that this process ended."""
        self._given_up: set[tuple[int, int]] = set()
        """Step runs that were dropped (timeout, withdrawal) of executions that continue."""
        self._early = EarlyStarts(
            lambda pool: self.pools.get(pool),
            lambda pool: pool in self.offers.pools or bool(self._processes),
            self._revoked,
            lambda command: submit(command, self.pools, self._here, apart=True),
        )
        self._disturbed: set[int] = set()
        """Executions that ran when a process of this machine died: what it died of counts only if it is issued."""
        self._ahead = AheadRuns(lambda: self.opened.worker, self._room_ahead)
        self._broken: dict[tuple[int, str, int], int] = {}

    # --- life ---

    def __enter__(self) -> LocalRuntime:
        self.opened = opened = open_engine(
            self.settings,
            owner=self.owner,
            data_dirs=self.data_dirs,
            log=self.log,
            revoked=self._revoked,
            withdrawn=lambda command: self.left_behind.is_withdrawn(command),
            gate_of=self._early.gate_of,
            note_unseen=self._ahead.note_unseen,
            registry=self.registry,
            server=self._server,
        )
        self.store, self.catalog, self.inspection = opened.store, opened.catalog, opened.inspection
        self.results, self.programs, self.variables = opened.results, opened.programs, opened.variables
        self.credentials, self.schedules, self.prune = opened.credentials, opened.schedules, opened.prune
        self.triggers, self.task_logs = opened.triggers, opened.task_logs
        self.history_sql = opened.history_sql
        self.store.heartbeat(self.owner, self.settings.lease_seconds)
        self.presence.announce()
        self._disturbed = free_dead(self.store, self.presence)
        self.pools = make_pools(
            self.opened.pool_sizes,
            self._run,
            self._here,
            self._inbox.hurry,
            self._inbox.turn,
            self._processes.resize,
        )
        self.opened.stack.enter_context(reporting_needs(need_in(self.pools, self._here)))
        tidies = partial(tidy, self.store, self.credentials.store, self.prune, self.log)
        lease = self.settings.lease_seconds
        self.offers = RemotePoolOffers(self.store, self.owner, lease)
        self.keeper = self._new_keeper()
        self.keeper.revive = self.opened.revive
        self.left_behind = LeftBehind(self.keeper, self._revoked)
        self.keeper.chores += [
            PeriodicDuty(TIDY_SECONDS, tidies),
            PeriodicDuty(lease / 3, self.offers.keep),
            PeriodicDuty(IDLE_SECONDS / 2, self._processes.tidy),
        ]
        self._inbox.start()
        self.keeper.start()
        if self.on_fired is not None:
            self.scheduler = Scheduler(
                opened,
                self.owner,
                self.settings.home,
                self._start_fired,
                self.log,
                self.settings.hidden_dirs,
            )
            self.scheduler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.scheduler is not None:
            self.scheduler.close()
        self.keeper.retire()
        self._company.close()
        until = time.monotonic() + self.patience
        for pool in self.pools.values():
            pool.close(until)
        self._processes.close(until)
        self._inbox.close()
        self.keeper.close()
        try:
            self.offers.end()
            self.store.release(self.owner)
            self.presence.leave()
        except InfrastructureError as outage:
            self.log(f"the lease could not be given back: {outage}")
        self.opened.close()

    # --- doors ---

    def register(self, text: str, *, source_name: str, path: str | None = None) -> CatalogEntry:
        """Compile a playbook and store it in the catalog.

        Raises InvalidPlaybookError with every diagnostic.
        """
        return self.programs.register(text, source_name=source_name, path=path)

    def start(self, entry: CatalogEntry, payload: dict[str, Any], priority: int | None = None) -> int:
        """Start an execution, which is durable when this returns.

        Raises InvalidInputError when the payload does not fit.
        """
        return self.start_many(entry, [payload], priority)[0]

    def start_many(
        self, entry: CatalogEntry, payloads: Sequence[dict[str, Any]], priority: int | None = None
    ) -> list[int]:
        """Start one execution per payload, many in a commit."""
        program = self.programs(entry.program)
        found: list[int] = []
        for first in range(0, len(payloads), BATCH):
            batch = payloads[first : first + BATCH]
            found += start_each(entry, program, batch, priority, self.opened.names, self.begin)
        return found

    def begin(self, starts: Sequence[Start]) -> list[bool]:
        """Begin executions in one commit; False for each whose id another execution has."""
        taken = self._handle(starts).taken
        return [(start.execution_id, start.event_id) not in taken for start in starts]

    def begin_in_turn(self, start: Start) -> bool | None:
        """Begin an execution in the next commit of the engine.

        None: the engine could not; the caller can try ``begin``.
        """
        handled = self._inbox.ask(start)
        return None if handled is None else (start.execution_id, start.event_id) not in handled.taken

    def _start_fired(self, fired: Fired) -> None:
        for event in (event for event in (fired.event, fired.cancelled) if event is not None):
            self.emit(event)
        if self.on_fired is not None:
            self.on_fired(fired)

    def gauges(self) -> list[QueueGauge]:
        """Return how much waits in this process: events, and commands by pool."""
        events = QueueGauge("events", *self._inbox.counts(), 0)
        delayed = QueueGauge("delayed", 0, 0, self.keeper.delayed())
        return [events, delayed, *gauges(self.pools, self._processes)]

    def status(self, execution_id: int) -> str | None:
        """Return the status of an execution in the store; None when it is not there."""
        return None if (info := self.store.info(execution_id)) is None else info.status

    def cancel(self, execution_id: int, reason: str, principal: str, cascade: bool = True) -> None:
        """Cancel an execution; one that has ended stays as it is.

        Raises NotFoundError.
        """
        program = self._program_of(execution_id)
        self._handle([Cancel(execution_id, change_name(), program, reason, principal, cascade)])

    def patch_context(
        self, execution_id: int, patches: list[Patch], principal: str, reason: str, correlation_id: str = ""
    ) -> None:
        """Change ``ctx`` from outside, by an event with principal and reason.

        The engine looks at parked tokens again. Raises NotFoundError.
        """
        about = execution_id, change_name(), self._program_of(execution_id)
        self._handle([ContextPatched(*about, patches, principal, reason, correlation_id)])

    def recover(self) -> list[int]:
        """Adopt what dead processes left.

        Return the ids of executions that are live, without those that start later.
        """
        self.keeper.adopt()
        live = self.store.executions(limit=10_000, status="running")
        return sorted(info.execution_id for info in live if not info.ahead)

    def run_until(
        self,
        wanted: Collection[int],
        *,
        on_tick: Callable[[], None] | None = None,
        timeout: float | None = None,
        tick: float = 0.1,
    ) -> None:
        """Wait until all have ended, or those left wait for the outside (parked).

        Raises TimeoutError.
        """
        EndWaiter(self.store, self._ended, self._changed, self._quiet, self.log, self.takes).wait(
            wanted, on_tick, timeout, tick
        )
        self.left_behind.wait()

    def expect_end(self, execution_id: int, fresh: bool = False) -> AbstractContextManager[Awaited]:
        """Expect the end of an execution as ``expecting`` does.

        ``fresh``: it was started a moment ago, so no other process can have redriven it.
        """
        if not fresh:
            forget_redriven(execution_id, self._ended, self._changed, self.store)
        return expecting(execution_id, self._ended, self._changed)

    def release_waiting(self) -> None:
        """End every wait of ``expect_end``."""
        with self._changed:
            self._ended.release()

    # --- inside ---

    def _new_keeper(self) -> Keeper:
        lease = self.settings.lease_seconds
        made = Keeper(self.store, self.owner, lease, self._adopt, self._delayed, self.log)
        made.takes, made.leave = self.takes, self._leave
        return made

    def _leave(self) -> list[Command]:
        left = leave_waiting(every_pool(self.pools, self._processes))
        self._here.remove(left)
        return left

    def _program_of(self, execution_id: int) -> str:
        if (info := self.store.info(execution_id)) is None:
            raise NotFoundError(
                f"no execution {execution_id}", code="execution_not_found", hint="`noetl list` shows them"
            )
        return info.program

    def _quiet(self) -> bool:
        with self._changed:
            return not any(self._inbox.counts()) and not self._here and not self.keeper.delayed()

    def _revoked(self, execution_id: int, run: int) -> bool:
        return execution_id in self._ended or (execution_id, run) in self._given_up

    def emit(self, event: Event) -> None:
        """Hand an outcome to the engine.

        It is in memory only: if the process dies, the command runs again when its lease is over.
        """
        self._inbox.put((event,))

    def report(self, event: Event) -> None:
        """Hand the engine what a thread of a pool reports; it is in memory only, as with ``emit``."""
        self._inbox.put((event,), turn=isinstance(event, CommandDone))  # its last event: the turn comes then

    def accept(self, events: Collection[Event]) -> None:
        """Hand the engine events that are durable already (in the outbox, owned by this process)."""
        self._inbox.put(events)

    def _adopt(self, commands: Collection[Command], events: Collection[Event]) -> None:
        self._given(commands)
        if events:
            self.accept(events)

    def _given(self, commands: Collection[Command]) -> None:
        """Run the commands that the store has assigned to this process."""
        with self._changed:
            for command in commands:  # The execution is live, even if this process remembers its end.
                self._ended.revive(command.execution_id)
        self.dispatch(*commands)

    def take(self, pool: str, limit: int, only: tuple[int, str] | None) -> list[Command]:
        """Take commands that no thread has begun, so that another process runs them.

        At most ``limit``, or the one with the ids ``only``. Unwanted commands are left out; those of them that follow a
        job in another system stay in this process, which ends the job.
        """
        found = self.pools[pool].take(limit, only)
        for other in self._processes.pools:
            if other.name == pool and len(found) < limit:
                found += other.take(limit - len(found), only)
        wanted = [one for one in found if not self.left_behind.unwanted(one)]
        self.dispatch(*(one for one in found if one.remote and one not in wanted))
        for one in wanted:
            self.left_behind.remove(one)
        self._here.remove(found)
        return wanted

    def dispatch(self, *commands: Command) -> None:
        """Begin commands of this process. When one fails to begin, release it and those after it."""
        left = list(commands)
        try:
            left = list(self.offers.pass_on(commands, self.keeper.delay))
            while left:
                self._begin(left[0])
                del left[0]
        except BaseException as caught:
            self.keeper.give_back(left)
            self.log(f"{len(left)} commands that cannot begin are given back: {as_exception(caught)!r}")
        finally:
            self._processes.pump()

    def _begin(self, command: Command) -> None:
        """Let a pool run a command once its delay is over.

        Where this raises, this process keeps nothing of the command.
        """
        self.left_behind.receive(command)
        try:
            self.keeper.delay(command) if command.delay > 0 else submit(
                command, self.pools, self._here, self._processes
            )
        except RuntimeError as error:
            # The system starts no more threads now: the command belongs to this process, and waits in it.
            self.log(f"command {command.command_id} of {command.execution_id} waits: {error}")
            self.keeper.delay(msgspec.structs.replace(command, delay=NO_THREAD_SECONDS))
        except BaseException:
            self.left_behind.remove(command)
            raise

    def _delayed(self, command: Command) -> None:
        """Dispatch a command whose delay is over, unless its step run was dropped meanwhile.

        A timeout or a closed gate drops a step run.
        """
        fence = fence_of(self.store, command)
        if fence is None and command.remote:
            # It was given up, or another attempt answered it: this process ends the job that this attempt began; its step run may continue.
            self.left_behind.withdraw(command)
        elif fence is None or (fence.attempt, fence.turn) != (command.attempt, command.turn):
            self.left_behind.remove(command)
            return
        self.dispatch(command)

    def _run(self, command: Command) -> None:
        try:
            with self._company.beside(command) as may_run:
                if may_run and (command.remote or not self._revoked(command.execution_id, command.run)):
                    attempt(command, self.presence, self.opened.worker, self.report, self.log)
            self._broken.pop(turn_of(command), None)
        except NotIssuedError:
            pass  # if the engine issues it after all, it comes as another command
        except BaseException as error:
            # A kind may call sys.exit(): the thread and the command continue.
            if self._early.is_issued(command):
                self._again(command, error)
        finally:
            self._early.forget(command)
            self.left_behind.remove(command)
            self._here.remove([command])

    # --- worker processes ---

    def _kinds(self) -> list[str] | None:
        return (self.registry or default_registry()).added_modules()

    def _place_again(self, left: Collection[Command]) -> None:
        """Dispatch again the commands that wait, and those that a worker process has left."""
        waiting = self._leave()
        self._here.remove(left)
        free = list(left)
        for one in waiting:
            if self._early.gate_of(one) is None:
                free.append(one)
            else:  # it began early, and waits here until it is issued: its gate is here
                submit(one, self.pools, self._here, apart=True)
        self.dispatch(*free)

    def _make_process(self, place: int) -> WorkerProcess:
        most = self._processes.most
        begin = Begin(
            encode_settings(self.settings),
            process_name(),
            [str(one) for one in self.data_dirs],
            self._kinds() or [],
            share(self.opened.pool_sizes, place, most),
            self.opened.worker.callback_base,
            list(sys.path),
        )
        return make_process(begin, place, most, self, self.pools, self._here, self._inbox.hurry)

    def report_all(self, events: Collection[Event]) -> None:
        """Hand the engine what a worker process reports; it is in memory only, as with ``emit``."""
        self._inbox.put(events)

    def is_wanted(self, command: Command) -> bool:
        """Return whether a command has to be run still. It takes no lock."""
        return not self._revoked(command.execution_id, command.run)

    def has_ended(self, execution_id: int) -> bool:
        """Return whether an execution has ended. It takes no lock."""
        return execution_id in self._ended

    def finish(self, commands: Collection[Command]) -> None:
        """Note that a worker process has run commands."""
        for command in commands:
            self._broken.pop(turn_of(command), None)
        self._here.remove(commands)

    def fail(self, command: Command, error: BaseException) -> None:
        """Try a command again that a worker process could not run."""
        try:
            self._again(command, error)
        finally:
            self._here.remove([command])

    def lose(
        self, process: WorkerProcess, begun: Sequence[Command], waiting: Sequence[Command], reason: str
    ) -> None:
        """Run again the commands of a worker process that has ended.

        Those that it was running are counted as lost, and claimed again as those of a dead process are.
        """
        self._processes.gone(process)
        self.log(f"{reason}; {len(begun)} command(s) run again")
        self._here.remove([*begun, *waiting])
        try:
            self._disturbed |= free_dead(self.store, self.presence)
        except Exception as error:
            self.log(f"the commands that it was running could not be counted: {error!r}")
        self.keeper.give_back(begun)
        self.dispatch(*waiting)

    def _again(self, command: Command, error: BaseException) -> None:
        """Try a command again after a pause; one that breaks its worker every time fails.

        A retryable outage is waited for, without a bound.
        """
        key, what = turn_of(command), f"{type(error).__name__}: {error}"
        self.log(f"command {command.command_id} of {command.execution_id} could not be run: {what}")
        tries = self._broken[key] = self._broken.get(key, 0) + 1
        if tries < BROKEN_TRIES or (isinstance(error, InfrastructureError) and error.retryable):
            self.keeper.delay(msgspec.structs.replace(command, delay=min(float(tries), 10.0)))
        else:
            del self._broken[key]
            self.emit(worker_lost(command, what))

    def _handle(self, batch: Sequence[Event]) -> BatchEffects:
        handled = BatchEffects(
            early=self._early.begin, ahead=self._ahead.of(batch), awaited=self._ended.awaits
        )
        with self._revivals() as revived:
            try:
                handle_events(batch, self.opened.engine, handled)
            except BaseException as error:
                if is_doubtful(error):
                    # What was committed is claimed again when this process takes its leases again.
                    self.keeper.doubt()
                    handled.commands, handled.events = [], []
                self._follow(handled, revived)
                raise
            self._follow(handled, revived, batch)
        self.on_change(event.execution_id for event in batch)
        return handled

    @contextmanager
    def _revivals(self) -> Iterator[set[int]]:
        """Gather the executions that other threads revive.

        From before a commit until its effects are noted.
        """
        with self._changed:
            revived = self._ended.look()
        try:
            yield revived
        finally:
            with self._changed:
                self._ended.looked(revived)

    @contextmanager
    def _room_ahead(self, command: Command) -> Iterator[bool]:
        """Make room for a command that runs before it is issued.

        Yield False where others go first.
        """
        pool = self.pools.get(command.pool)
        if (
            pool is None
            or self._inbox.waits()
            or self._processes
            or command.pool in self.offers.pools
            or command.execution_id in self._disturbed
            or self._revoked(command.execution_id, command.run)
        ):
            yield False
            return
        with self._company.beside(command, wait=False) as may_run, pool.lend() as free:
            if not (may_run and free):
                yield False
                return
            with self.presence.running(command):
                yield True

    def _after_failure(self, event: Event, error: Exception, tries: int) -> float | None:
        handled = BatchEffects()
        with self._revivals() as revived:
            try:
                return after_failure(event, error, tries, self.opened.engine, handled)
            except InfrastructureError as outage:
                if is_doubtful(outage):
                    self.keeper.doubt()
                raise
            finally:
                self._follow(handled, revived)

    def _follow(self, handled: BatchEffects, revived: set[int], batch: Sequence[Event] = ()) -> None:
        """Run the commands and handle the events of a commit.

        Also when the rest of a batch failed. ``revived``: executions that other threads revived since it began.
        """
        dropped = [(one, run) for one, run in handled.dropped if run is not None]
        with self._changed:
            # An execution that this commit ended may have been redriven before this thread comes here. Its commands would count as given up.
            ended = [end for end in handled.ended if end[0] not in revived]
            for execution_id in (*handled.redriven, *(one.execution_id for one in handled.commands)):
                self._ended.revive(execution_id)
            self._ended.note(ended, handled.results)
            marks = self._processes.marks()
            self._given_up.update(dropped)
            if ended and self._given_up:
                self._given_up = {pair for pair in self._given_up if pair[0] not in self._ended}
        self.dispatch(*handled.commands)
        with self._changed:
            if early := handled.events:
                if len(early) == len(batch) and all(one in batch for one in early):
                    self._changed.wait(EARLY_SECONDS)
                self._inbox.put(early)
            self._changed.notify_all()
        if handled.ended:
            self.on_ended(status for _, status in handled.ended)
        over = {one for one, _ in ended}
        if over:
            forget(self.pools, self._processes, over)
        if over or dropped:
            self._processes.withdraw(over, dropped, marks)
        if handled.ended or handled.dropped:
            self.left_behind.hasten()
