"""Messaging: the engine's queues, one queue of commands per worker, and one for the dead letters of all of these."""

from __future__ import annotations

from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from ..config import Environment
from ..constructs.queue_with_dlq import QueueWithDlq, dead_letter_queue
from ..stacks import StackArguments
from ..workers import DEAD, MIXED, TIMEOUT, WorkerPlan

ENGINE_TIMEOUT = 30
"""Seconds of functions/engine."""


class MessagingStack(cdk.Stack):
    """``events`` (FIFO), ``timers``, ``commands`` by worker. ``commands_prefix``: URL of a command queue without the worker's name."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        config: Environment,
        plan: WorkerPlan,
        key: kms.IKey,
        **stack: Unpack[StackArguments],
    ) -> None:
        super().__init__(scope, id, **stack)
        self.events = QueueWithDlq(
            self, "Events", name=f"{config.prefix}-events", timeout=ENGINE_TIMEOUT, key=key, fifo=True
        )
        self.timers = QueueWithDlq(
            self, "Timers", name=f"{config.prefix}-timers", timeout=ENGINE_TIMEOUT, key=key
        )
        self.dead_commands = dead_letter_queue(self, "DeadCommands", f"{config.prefix}-commands-{DEAD}", key)
        self.commands = {
            worker.name: QueueWithDlq(
                self,
                f"Commands-{worker.name}",
                name=f"{config.prefix}-commands-{worker.name}",
                timeout=TIMEOUT,
                key=key,
                dlq=self.dead_commands,
            )
            for worker in plan.workers
        }
        mixed = self.commands[MIXED].queue.queue_url
        beginning = cdk.Fn.select(0, cdk.Fn.split(f"-commands-{MIXED}", mixed))
        self.commands_prefix = f"{beginning}-commands-"
        cdk.CfnOutput(self, "EventsQueueUrl", value=self.events.queue.queue_url)
        cdk.CfnOutput(self, "TimersQueueUrl", value=self.timers.queue.queue_url)
        cdk.CfnOutput(self, "CommandsQueuePrefix", value=self.commands_prefix)

    def command_queues(self) -> list[sqs.Queue]:
        """All of them."""
        return [pair.queue for pair in self.commands.values()]

    def queues(self) -> dict[str, sqs.Queue]:
        """Every queue but those of dead letters, by a name to show."""
        return {"events": self.events.queue, "timers": self.timers.queue} | {
            f"commands-{name}": pair.queue for name, pair in self.commands.items()
        }

    def dead_letters(self) -> dict[str, sqs.Queue]:
        """Queues of dead letters, by what they hold."""
        return {"events": self.events.dlq, "timers": self.timers.dlq, "commands": self.dead_commands}
