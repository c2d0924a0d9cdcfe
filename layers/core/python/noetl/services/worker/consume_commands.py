"""The consumer of a batch of commands: it runs them and sends their outcomes together.

No command is lost and no failure is silent. A command is done when the queue of events has accepted all its outcomes. Any other command
is returned to the queue, and the worker that receives it next runs it again. While a dependency is unavailable, the command waits,
however often that happens. A command that broke its worker, or that no worker ended, three times is answered as ``worker_lost``: tries
are counted, not deliveries.

The worker may ask the engine to decide outcomes by request (``direct_outcomes``). The answer then contains the next command, leased to
this worker, which runs it in the same invocation. Every outcome that a request fails for goes through the queue.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from noetl.domain.commands import Command
from noetl.domain.errors import InfrastructureError, InvalidInputError, NotFoundError, as_exception
from noetl.domain.events import Event
from noetl.domain.messages import VERSION, Message, NewerMessageError, event_group
from noetl.domain.text.masking import loggable
from noetl.ports.queue import Delivery, Outgoing
from noetl.services.messaging.large_messages import pack, unpack
from noetl.services.worker.batch_deps import BatchDeps, CommandBatchResult
from noetl.services.worker.crew import CREW
from noetl.services.worker.direct_outcomes import LEASE_BYTES, REQUEST_SECONDS, heartbeat, unanswered
from noetl.services.worker.direct_outcomes import SECONDS as DIRECT_SECONDS
from noetl.services.worker.ready_commands import Turns
from noetl.services.worker.run_command import run_command
from noetl.services.worker.run_tasks import MARGIN_SECONDS
from noetl.services.worker.try_counter import TryCounter
from noetl.services.worker.worker_lost import answer_lost

BROKEN_TRIES = 3
"""How often a command that breaks its worker, or that no worker ends, is begun before it is answered."""
BROKEN = "its workers began it several times, and none ended it"
NOT_BEGUN = "its worker had no time left to begin it"
YOUNG_SECONDS = 5.0
"""A command younger than this is run without asking whether it is still wanted."""
LINGER_SECONDS = 0.02
"""How long an outcome waits for others of its batch, to share their request and the engine's commit."""
SEND_AT = 10
"""Outcomes that fill a request."""
SHOWN = 4000
"""Characters of an unreadable message that the log keeps."""
TICK_SECONDS = 0.5


@dataclass(slots=True, eq=False)
class _Job:
    """A command of the batch and how far it is.

    ``back``: seconds until the queue offers the command again; None while it is not returned. ``tries``: how often it was begun, with
    this time; 0 before. ``outage``: the reason it is returned for, when that is no fault of its own. ``leased``: when it came in the answer
    to a request, or its lease was extended last; None for what came from the queue.
    """

    delivery: Delivery
    command: Command
    token: str
    callbacks: str = ""
    digest: str = ""
    twins: list[Delivery] = field(default_factory=list)
    ended: bool = False
    back: int | None = None
    tries: int = 0
    outage: str = ""
    leased: float | None = None

    @property
    def heartbeat(self) -> str:
        """The message that names this leased command to the engine."""
        return heartbeat(self.command, self.token)


@dataclass(slots=True, eq=False)
class _Pool:
    """The commands of a pool that are ready, and how many threads run them: at most ``slots``."""

    name: str
    slots: int
    turns: Turns[_Job]
    threads: int = 0


def work_batch(deliveries: Sequence[Delivery], deps: BatchDeps) -> CommandBatchResult:
    """Run the commands of ``deliveries`` and send their outcomes.

    Returns when all are done or returned to the queue. It returns in time even when a call does not: what still runs at the end of
    ``deps.worker.deadline`` is returned, or lost.
    """
    return _Batch(deps).work(deliveries)


class _Batch:
    """A batch under way.

    The caller's thread sends outcomes, keeps the leases and watches the time; threads per pool run the commands.
    """

    def __init__(self, deps: BatchDeps) -> None:
        self.deps = deps
        self.worker = deps.worker
        self.clock = deps.worker.clock
        self.tries = TryCounter(deps.tries, BROKEN_TRIES, deps.now, self.worker.log)
        self.changed = threading.Condition()
        """Wakes the caller's thread when there is something to send, or when its longest wait has changed."""
        self.jobs: list[_Job] = []
        self.under_way: list[_Job] = []
        self.pools: dict[str, _Pool] = {}
        self.takes = deps.direct.most if deps.direct is not None else 0
        """Commands that this batch still takes from answers, until ``takes_until``."""
        self.takes_until = self.clock() + DIRECT_SECONDS
        self.waiting: deque[tuple[_Job, Outgoing]] = deque()
        self.waiting_since = 0.0
        self.closed = False
        self.backs: dict[int, list[Delivery]] = {}
        self.settling: list[threading.Event] = []
        """Set when decided commands are removed from the queue."""
        self.worked = CommandBatchResult()

    def work(self, deliveries: Sequence[Delivery]) -> CommandBatchResult:
        self._admit(deliveries)
        for jobs in self._apart():
            self._start(jobs)
            self._see_through()
        self._hand_back()
        for settled in self.settling:
            settled.wait()
        return self.worked

    # --- in ---

    def _admit(self, deliveries: Iterable[Delivery]) -> None:
        known: dict[tuple[int, str, int, int], _Job] = {}
        for delivery in deliveries:
            job = self._unpacked(delivery)
            if job is None:
                continue
            command = job.command
            key = (command.execution_id, command.command_id, command.attempt, command.turn)
            if key in known:
                known[key].twins.append(delivery)
                continue
            known[key] = job
            self.jobs.append(job)
            self.worked.executions.add(command.execution_id)

    def _unpacked(self, delivery: Delivery) -> _Job | None:
        try:
            message = unpack(delivery.body, self.worker.results)
            if message.command is not None:
                return _Job(delivery, message.command, message.token, message.callbacks, message.digest)
            raise InvalidInputError("it holds no command", code="message_invalid")
        except NewerMessageError as newer:
            self._refuse(delivery, newer)
        except InfrastructureError as outage:
            self._refuse(delivery, outage)
        except (InvalidInputError, NotFoundError) as invalid:
            if delivery.received < BROKEN_TRIES:
                self._refuse(delivery, invalid)
            else:
                self._drop(delivery, invalid)
        except BaseException as error:
            self._refuse(delivery, as_exception(error))
        return None

    def _refuse(self, delivery: Delivery, why: Exception) -> None:
        """Return a message that this worker cannot read now to the queue."""
        self.worker.log(f"message {delivery.message_id} is given back: {why}")
        self.worked.refused += 1
        self.backs.setdefault(self.deps.back_off.after(delivery.received), []).append(delivery)

    def _drop(self, delivery: Delivery, why: Exception) -> None:
        """Remove a message that no worker can read from the queue; the log keeps it."""
        self.worker.log(
            f"message {delivery.message_id} is dropped, for it cannot be read: {why}; it was {loggable(delivery.body, SHOWN)!r}"
        )
        self.worked.refused += 1

    # --- commands, each in a thread of its pool ---

    def _apart(self) -> list[list[_Job]]:
        """Split the jobs into groups that are begun together.

        A last try is made alone, when all else is sent: workers that died in the middle of several commands died of one of them, and
        the others must not be given up with it.
        """
        if len(self.jobs) == 1:
            return [self.jobs]
        last = [job for job in self.jobs if self.tries.is_last(job.command, job.delivery.received)]
        return [[job for job in self.jobs if job not in last], *([job] for job in last)]

    def _start(self, jobs: list[_Job]) -> None:
        with self.changed:
            self.under_way = list(jobs)
            self.pools = {}
            for job in jobs:
                self._put_in_line(job, places=len(jobs))
            self._staff()

    def _put_in_line(self, job: _Job, places: int) -> None:
        """Make a job ready, under the lock.

        ``places``: for a new pool: how many executions keep a warm process in it.
        """
        name = job.command.pool if job.command.pool in self.deps.slots else "io"
        pool = self.pools.get(name)
        if pool is None:
            pool = self.pools[name] = _Pool(name, max(1, self.deps.slots[name]), Turns(places))
        pool.turns.add(job, job.command.execution_id, job.command.priority, self.clock())

    def _staff(self) -> None:
        """Start threads for what is ready, under the lock."""
        for pool in self.pools.values():
            for _ in range(min(pool.turns.ready, pool.slots - pool.threads)):
                pool.threads += 1
                CREW.begin(partial(self._run_all, pool))

    def _run_all(self, pool: _Pool) -> None:
        while (job := self._next(pool)) is not None:
            with self.deps.about(job.command.execution_id):
                self._run(job)
            with self.changed:
                pool.turns.done(job.command.execution_id)

    def _next(self, pool: _Pool) -> _Job | None:
        """Take the next command that there is time to begin. None: the thread ends.

        The others return to the queue at once, for another worker.
        """
        with self.changed:
            job = None
            if not self.closed and self.worker.deadline() >= MARGIN_SECONDS:
                job = pool.turns.next(self.clock())
            elif not self.closed:
                for late in pool.turns.take(pool.turns.ready):
                    self._end(late, back=0)
            if job is None:
                pool.threads -= 1
            return job

    def _run(self, job: _Job) -> None:
        command = job.command
        try:
            if self._unwanted(job):
                with self.changed:
                    self.worked.revoked += 1
            elif self._begin(job):
                run_command(
                    command,
                    self.deps.worker_of(command, job.token, job.callbacks, job.digest),
                    lambda event: self._emit(job, event),
                )
            else:
                self._broken(job, BROKEN)
                return
        except InfrastructureError as outage:
            self._fail(job, f"is tried again: {outage}", str(outage))
        except BaseException as error:
            self._broken(job, f"{type(error).__name__}: {error}")
        else:
            with self.changed:
                self._end(job)

    def _begin(self, job: _Job) -> bool:
        """Count the try. Return False when no worker ended the earlier ones."""
        job.tries = self.tries.begin(job.command, job.delivery.received)
        return job.tries <= BROKEN_TRIES

    def _unwanted(self, job: _Job) -> bool:
        """Return whether the outcome would be superseded, the execution or step run having ended.

        Then none is sent. The items of a loop are answered always: a loop that closes counts the chunks that are out. (A revoked one is
        answered at once.) A command with an external job is run always, if only to stop that job.
        """
        command = job.command
        if (
            command.loop is not None
            or command.remote
            or self.deps.now() - job.delivery.sent_at <= YOUNG_SECONDS
        ):
            return False
        return self.deps.revoked(command.execution_id, command.run)

    def _emit(self, job: _Job, event: Event) -> None:
        """Queue an outcome for the next send.

        Raises InfrastructureError when it cannot be sent any more: another worker then runs the command again.
        """
        body = pack(
            Message(VERSION, token=job.token, event=event),
            self.worker.results,
            limit=self.deps.message_limit - LEASE_BYTES,
        )
        # By its text: a second run of a chunk may cut its items into other messages, under the same event ids.
        dedup = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
        with self.changed:
            if self.closed or job.ended:
                raise InfrastructureError("the outcome comes too late or cannot be sent")
            self._put(job, Outgoing(body, event_group(event), dedup))

    def _put(self, job: _Job, message: Outgoing) -> None:
        if not self.waiting:
            self.waiting_since = self.clock()
        self.waiting.append((job, message))
        if len(self.waiting) == 1 or len(self.waiting) >= SEND_AT:
            self.changed.notify_all()

    def _fail(self, job: _Job, why: str, outage: str = "") -> None:
        """Return a command to the queue.

        ``outage``: the dependency that was unavailable, so that this was no try.
        """
        with self.changed:
            if job.ended:
                return
            self.worker.log(f"command {job.command.command_id} {why}")
            self.worked.failures += 1
            job.outage = outage
            self._end(job, back=self.deps.back_off.after(job.delivery.received))

    def _broken(self, job: _Job, why: str) -> None:
        """Handle a defect: the command is tried again, then answered as ``worker_lost``.

        Rules and retries of its task see that.
        """
        if job.tries < BROKEN_TRIES:
            self._fail(job, f"broke this worker and is tried again: {why}")
            return
        try:
            worker = self.deps.worker_of(job.command, job.token, job.callbacks, job.digest)
            for event in answer_lost(job.command, worker.programs, worker.results, why, self.worker.log):
                self._emit(job, event)
        except InfrastructureError as outage:
            self._fail(job, f"is lost, but its outcome could not be sent: {outage}", str(outage))
            return
        self.worker.log(f"command {job.command.command_id} is lost: {why}")
        with self.changed:
            self.worked.lost += 1
            self._end(job)

    def _end(self, job: _Job, back: int | None = None) -> None:
        """End a job, under the lock. The first end of a job counts."""
        if not job.ended:
            job.ended, job.back = True, back
            self.worked.commands += 1
            if not self._unfinished():
                self.changed.notify_all()

    # --- the caller's thread ---

    def _see_through(self) -> None:
        lease = self.deps.lease_seconds
        beat = self.clock() + min(1.0, lease / 3) if lease else float("inf")
        if lease and any(job.delivery.received > 1 for job in self.under_way):
            # The worker before this one may have died of one of them: the wait after the next death begins now.
            self._keep_hold(lease)
        while True:
            with self.changed:
                if self._unfinished() and not self._due():
                    self.changed.wait(self._patience(beat))
                batch = self._take()
            if batch:
                self._send(batch)
            elif not self._unfinished() and not self.waiting:
                return
            if self.worker.deadline() <= 0 and not self.closed:
                self._give_up()
            if self.clock() >= beat:
                self._keep_hold(lease)
                beat = self.clock() + lease / 3

    def _unfinished(self) -> bool:
        return not all(job.ended for job in self.under_way)

    def _due(self) -> bool:
        """Return whether to send the waiting outcomes now.

        That is a full request, the last outcomes, or outcomes that have waited long enough.
        """
        if not self.waiting:
            return False
        waited = self.clock() - self.waiting_since
        return len(self.waiting) >= SEND_AT or waited >= LINGER_SECONDS or not self._unfinished()

    def _patience(self, beat: float) -> float:
        now = self.clock()
        times = [TICK_SECONDS, beat - now, self.worker.deadline()]
        if self.waiting:
            times.append(self.waiting_since + LINGER_SECONDS - now)
        return max(0.001, min(times))

    def _take(self) -> list[tuple[_Job, Outgoing]]:
        """Take the outcomes to send now, under the lock.

        Outcomes of a command are dropped when an earlier message of it could not be sent.
        """
        if not self._due():
            return []
        taken = [(job, message) for job, message in self.waiting if job.back is None]
        self.waiting.clear()
        return taken

    def _send(self, outcomes: Sequence[tuple[_Job, Outgoing]]) -> None:
        batch = self._send_by_request(outcomes)
        if batch:
            self._send_to_queue(batch)

    def _send_by_request(self, batch: Sequence[tuple[_Job, Outgoing]]) -> Sequence[tuple[_Job, Outgoing]]:
        """Have the engine decide outcomes, and start the commands of its answer.

        Returns the outcomes that have to go through the queue.
        """
        direct = self.deps.direct
        if direct is None or self.takes <= 0 or self.clock() >= self.takes_until or not direct.is_open():
            return batch
        if not self._may_ask():
            return batch
        # Items of loops are many, and never wait for one another: the queue gathers them.
        places = [place for place, (job, _) in enumerate(batch) if job.command.loop is None]
        if not places:
            return batch
        self.worked.sends += 1
        answer = direct.decide([batch[place][1].body for place in places], self.takes)
        left = {places[place]: lease for place, lease in answer.left.items() if 0 <= place < len(places)}
        decided = [batch[place][0] for place in places if place not in left]
        with self.changed:
            self.worked.events += len(decided)
            self.worked.direct += len(decided)
        if answer.commands:
            self._take_on(answer.commands)
            self._settle(decided)
        return [
            (job, msgspec.structs.replace(message, body=unanswered(message.body, left.get(place, ""))))
            for place, (job, message) in enumerate(batch)
            if place in left or place not in places
        ]

    def _take_on(self, texts: Sequence[str]) -> None:
        """Start commands that are leased to this worker.

        Another worker runs a command that this one cannot read, once its lease is over.
        """
        for text in texts:
            job = self._leased(text)
            if job is None:
                continue
            with self.changed:
                self.takes -= 1
                self.worked.taken += 1
                self.worked.executions.add(job.command.execution_id)
                self.jobs.append(job)
                self.under_way.append(job)
                self._put_in_line(job, places=1)
                self._staff()

    def _leased(self, text: str) -> _Job | None:
        delivery = Delivery("leased", "", text, 1, self.deps.now())
        try:
            message = unpack(text, self.worker.results)
        except (InfrastructureError, InvalidInputError, NotFoundError) as error:
            self.worker.log(
                f"a command in an answer cannot be read; another worker runs it when its lease is over: {error}"
            )
            return None
        if message.command is None:
            self.worker.log("an answer holds a message that is no command")
            return None
        job = _Job(delivery, message.command, message.token, message.callbacks, message.digest)
        job.leased = self.clock()
        return job

    def _settle(self, jobs: Sequence[_Job]) -> None:
        """Remove commands from the queue whose outcomes are decided.

        This happens beside the commands that follow. Otherwise the queue would deliver them again if this invocation died while it runs
        further commands.
        """
        done = [one for job in jobs if job.leased is None for one in (job.delivery, *job.twins)]
        if not done:
            return
        settled = threading.Event()
        CREW.begin(partial(self._remove, done, settled))
        self.settling.append(settled)

    def _remove(self, done: list[Delivery], settled: threading.Event) -> None:
        try:
            self.deps.commands.ack(done)
        except BaseException as error:
            self.worker.log(
                f"{len(done)} message(s) are removed from the queue only at the end of the batch: {error!r}"
            )
        finally:
            settled.set()

    def _send_to_queue(self, batch: Sequence[tuple[_Job, Outgoing]]) -> None:
        self.worked.sends += 1
        try:
            unsent = set(self.deps.events.send([message for _, message in batch]))
        except InfrastructureError as outage:
            self.worker.log(f"{len(batch)} outcome(s) could not be sent: {outage}")
            unsent = set(range(len(batch)))
        except InvalidInputError as refused:
            if len(batch) > 1:
                for one in batch:
                    self._send_to_queue([one])
                return
            self.worker.log(f"an outcome of {batch[0][0].command.command_id} cannot be sent: {refused}")
            unsent = {0}
        with self.changed:
            self.worked.events += len(batch) - len(unsent)
            for place in unsent:
                self._unsend(batch[place][0])

    def _unsend(self, job: _Job) -> None:
        """Mark a job, under the lock, whose outcome did not arrive: its command has to run again."""
        if job.back is None:
            self.worked.failures += 1
            job.outage = "its outcome could not be sent"
            pause = self.deps.back_off.after(job.delivery.received)
            if job.ended:
                job.back = pause
            else:
                self._end(job, back=pause)

    def _keep_hold(self, seconds: int) -> None:
        """Extend the leases of the running commands at the queue.

        The first time this shortens the wait for a worker that dies.
        """
        now = self.clock()
        with self.changed:
            jobs = [job for job in self.jobs if not job.ended]
        leased = [job for job in jobs if job.leased is not None and now - job.leased >= seconds / 4]
        held = [one for job in jobs if job.leased is None for one in (job.delivery, *job.twins)]
        if held:
            try:
                self.deps.commands.nack(held, seconds)
            except InfrastructureError as outage:
                self.worker.log(f"the leases of {len(held)} command(s) could not be extended: {outage}")
        if leased and self.deps.direct is not None and self._may_ask():
            self.deps.direct.hold([job.heartbeat for job in leased])
            for job in leased:
                job.leased = now

    def _give_up(self) -> None:
        """End the batch when its time is over: nothing more is begun or sent.

        Commands that still run were not answered.
        """
        with self.changed:
            late = [job for job in self.jobs if not job.ended]
            for job in late:
                if job.tries < BROKEN_TRIES:
                    self.worked.failures += 1
                    self._end(job, back=0)
        for job in late:
            if not job.ended:
                self._broken(job, "it did not end within this worker's time")
        with self.changed:
            self.closed = True

    def _hand_back(self) -> None:
        with self.changed:
            self.closed = True
            leased = [job for job in self.jobs if job.back is not None and job.leased is not None]
            returned = [job for job in self.jobs if job.back is not None and job.leased is None]
            for job in returned:
                self.backs.setdefault(job.back or 0, []).extend((job.delivery, *job.twins))
        for job in returned:
            if job.back is not None and job.tries and job.outage:
                self.tries.excuse(job.command, job.tries, job.delivery.received, job.outage)
            elif job.back is not None and not job.tries:
                self.tries.pass_over(job.command, job.delivery.received, job.outage or NOT_BEGUN)
        for delay, deliveries in self.backs.items():
            self.worked.give_back += [delivery.message_id for delivery in deliveries]
            try:
                self.deps.commands.nack(deliveries, delay)
            except InfrastructureError as outage:
                self.worker.log(
                    f"{len(deliveries)} message(s) are delivered again later than intended: {outage}"
                )
        # Last: the engine may not answer, and what came from queues must not wait for it.
        if leased and self.deps.direct is not None and self._may_ask():
            self.deps.direct.give_back([job.heartbeat for job in leased])

    def _may_ask(self) -> bool:
        """Return whether there is time for a request that is never answered.

        A lease that is not extended lasts longer than this invocation, and ends by itself.
        """
        return self.worker.deadline() >= REQUEST_SECONDS
