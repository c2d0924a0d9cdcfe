"""The events that invoke a deployment's scheduler function, and what they start.

Four shapes, distinguished by their keys; anything else is refused:

* EventBridge Scheduler: ``{"schedule": name, "scheduled_time": …}`` (and what the schedule said when it was made, which is not used);
* a rule of EventBridge: ``{"trigger": name, "path": playbook, "event": the event}``, of a playbook's own trigger, or without ``path``, of one
  that was made while the system runs;
* a rule of EventBridge for containers that have ended: ``{"source": "aws.ecs", …}``, which wakes the task that waits for it;
* an SQS queue: ``{"Records": […]}``; whose messages start which playbooks is in ``TriggerBatchDeps.queues``, and in the table of triggers
  that were made while the system runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl.domain.automations.schedules import parse_instant
from noetl.domain.errors import InvalidInputError, as_exception
from noetl.domain.events import Event, Start
from noetl.ports.automations.schedule_store import ScheduleStore
from noetl.ports.automations.trigger_store import TriggerStore
from noetl.services.automations.fire_schedule import fire_schedule
from noetl.services.automations.fire_trigger import fire_by_message, fire_by_rule
from noetl.services.automations.ingest_task_stopped import take_job_end
from noetl.services.executions.start_from_trigger import start_from_event, start_from_message
from noetl.services.executions.start_playbook import StartDeps


@dataclass(frozen=True, slots=True)
class TriggerBatchDeps:
    """Dependencies of ``take``.

    ``queues``: name of a queue → paths of the playbooks that its messages start.
    """

    start: StartDeps
    schedules: ScheduleStore
    triggers: TriggerStore
    queues: Mapping[str, Sequence[str]]
    log: Callable[[str], None]


@dataclass(slots=True)
class TriggerBatchResult:
    """Result of ``take``.

    ``executions``: started now or by an earlier delivery of the same. ``events``: durable, to be published. ``give_back``: ids of
    messages that the queue keeps; None for what is not a batch of messages.
    """

    executions: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    give_back: list[str] | None = None

    def add(self, execution_id: int, event: Start | None) -> None:
        self.executions.append(execution_id)
        if event is not None:
            self.events.append(event)


def take(invocation: Mapping[str, Any], deps: TriggerBatchDeps) -> TriggerBatchResult:
    """Start the executions that an invocation asks for.

    A schedule whose playbook cannot be started says so in its row. An event whose playbook cannot be started raises, so that the
    service that delivers it keeps it: InvalidInputError, NotFoundError, InfrastructureError. Messages that started nothing are given
    back.
    """
    if "Records" in invocation:
        return _take_messages(invocation["Records"], deps)
    taken = TriggerBatchResult()
    if invocation.get("source") == "aws.ecs":
        woken = take_job_end(invocation)
        taken.events += [] if woken is None else [woken]
        return taken
    if "schedule" in invocation:
        name, at = _text(invocation, "schedule"), parse_instant(_text(invocation, "scheduled_time"))
        fired = fire_schedule(name, at, deps.schedules, deps.start)
        if fired.execution_id is not None:
            taken.add(fired.execution_id, fired.event)
            taken.events += [] if fired.cancelled is None else [fired.cancelled]
        else:
            deps.log(f"schedule {name} started nothing: {fired.reason}")
        return taken
    if "trigger" in invocation:
        event = invocation.get("event")
        if not isinstance(event, Mapping):
            raise _unknown("its `event` is not a mapping")
        trigger = _text(invocation, "trigger")
        if "path" not in invocation:
            return _take_event(trigger, event, deps)
        path = _text(invocation, "path")
        started = start_from_event(path, trigger, event, deps.start)
        taken.add(started.execution_id, started.event)
        return taken
    raise _unknown(f"it has neither schedule, trigger nor Records, but {', '.join(sorted(invocation))[:200]}")


def _take_event(name: str, event: Mapping[str, Any], deps: TriggerBatchDeps) -> TriggerBatchResult:
    taken = TriggerBatchResult()
    started = fire_by_rule(name, event, deps.triggers, deps.start)
    if started is None:
        deps.log(f"the trigger {name} started nothing: it is gone, or disabled")
    else:
        taken.add(started.execution_id, started.event)
    return taken


def _take_messages(records: Any, deps: TriggerBatchDeps) -> TriggerBatchResult:
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        raise _unknown("its `Records` is not a list of messages")
    taken = TriggerBatchResult()
    give_back: list[str] = []
    failed_groups: set[str] = set()
    for record in records:
        message_id = _text(record, "messageId")
        group = _group(record)
        try:
            # The messages of a group come in order: what is behind one that failed waits for it.
            if group and group in failed_groups:
                give_back.append(message_id)
                continue
            _start_each(record, deps, taken)
        except BaseException as error:
            deps.log(f"message {message_id} started nothing: {as_exception(error)!r}")
            give_back.append(message_id)
            failed_groups.add(group)
    taken.give_back = give_back
    return taken


def _start_each(record: Mapping[str, Any], deps: TriggerBatchDeps, taken: TriggerBatchResult) -> None:
    """Start the executions of a message; after an error the message is redelivered.

    The redelivery finds what was started, and starts the others.
    """
    arn = str(record.get("eventSourceARN", ""))
    queue = arn.rpartition(":")[2]
    paths = deps.queues.get(queue, ())
    made = [] if paths else [row for row in deps.triggers.of_queue(arn) if row.enabled]
    if not paths and not made:
        raise InvalidInputError(
            f"no playbook is started by the queue {queue!r}",
            code="queue_unknown",
            hint="its trigger is gone or disabled, or a playbook's triggers have changed: then deploy again",
        )
    for path in paths:
        started = start_from_message(path, record, deps.start)
        taken.add(started.execution_id, started.event)
    for row in made:
        started = fire_by_message(row, record, deps.triggers, deps.start)
        taken.add(started.execution_id, started.event)


def _group(record: Mapping[str, Any]) -> str:
    about = record.get("attributes")
    return str(about.get("MessageGroupId", "")) if isinstance(about, Mapping) else ""


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value:
        raise _unknown(f"its `{key}` is not a text")
    return value


def _unknown(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"this function is invoked by EventBridge Scheduler, EventBridge rules and SQS queues; this is none of them: {reason}",
        code="invocation_unknown",
    )
