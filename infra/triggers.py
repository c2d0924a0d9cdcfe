"""What starts playbooks by itself besides schedules: read from the playbooks that a deployment brings along."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from noetl.domain.errors import PlaybookError
from noetl.domain.kinds import KindLookup
from noetl.dsl.program import EventBridgeTrigger, Program, S3Trigger, SqsTrigger
from noetl.dsl.triggers import queue_name
from noetl.migration.older import compile_any

from .config import ConfigError


@dataclass(frozen=True, slots=True)
class RuleTrigger:
    """Events that match start the playbook at ``path``."""

    path: str
    trigger: S3Trigger | EventBridgeTrigger

    @property
    def id(self) -> str:
        """Unique in the deployment."""
        return f"{self.path}-{self.trigger.name}"


@dataclass(frozen=True, slots=True)
class QueueTrigger:
    """Messages of ``queue`` (a name or an ARN) start the playbooks at ``paths``, ``batch`` of them in one invocation."""

    queue: str
    batch: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Triggers:
    """Sorted, so that the same playbooks give the same template."""

    rules: tuple[RuleTrigger, ...] = ()
    queues: tuple[QueueTrigger, ...] = ()

    def paths_by_queue(self) -> dict[str, list[str]]:
        """Name of a queue → the playbooks that its messages start (NOETL_TRIGGER_QUEUES)."""
        return {found.queue.rpartition(":")[2]: list(found.paths) for found in self.queues}


def read_programs(files: Iterable[Path], kinds: KindLookup) -> list[Program]:
    """Compile the playbooks. Raises ConfigError with the diagnostics of one that does not."""
    return [_compile(path, kinds) for path in files]


def triggers_of(programs: Iterable[Program]) -> Triggers:
    """A queue that several playbooks name is polled once, with the smallest of their batches.

    Raises ConfigError.
    """
    rules: dict[str, RuleTrigger] = {}
    queues: dict[str, QueueTrigger] = {}
    for program in sorted(programs, key=lambda program: program.path):
        for trigger in program.triggers:
            if isinstance(trigger, SqsTrigger):
                name = queue_name(trigger)
                found = queues.get(name, QueueTrigger(trigger.queue, trigger.batch, ()))
                paths = tuple(sorted({*found.paths, program.path}))
                queues[name] = QueueTrigger(found.queue, min(found.batch, trigger.batch), paths)
                continue
            rule = RuleTrigger(program.path, trigger)
            if rule.id in rules:
                raise ConfigError(f"two playbooks of this deployment have the path {program.path!r}")
            rules[rule.id] = rule
    return Triggers(tuple(rules.values()), tuple(queues[name] for name in sorted(queues)))


def _compile(path: Path, kinds: KindLookup) -> Program:
    try:
        return compile_any(path.read_bytes(), source_name=path.name, kinds=kinds)[0].program
    except PlaybookError as error:
        raise ConfigError(f"the playbook {path} cannot be deployed: {error}") from error
