"""The queues that triggers created at run time may read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

SETTING = "triggers.queues"
"""Field of an environment (infra/environments.py) that names them."""
QUEUES = r"(?:arn:aws[a-z-]*:sqs:[a-z0-9-]+:[0-9]{12}:)?[A-Za-z0-9_*-]{1,75}(?:\.fifo)?"
"""What the setting takes: names or ARNs, with ``*`` for any characters of a name."""


@dataclass(frozen=True, slots=True)
class QueueRights:
    """The queues that a deployment may read.

    ``reader``: ARN of the function that reads queues; names without an ARN are of its account and region. ``allowed``: names or ARNs,
    with ``*``. ``declared``: name of a queue that a deployment reads already → the playbooks that say so.
    """

    reader: str
    allowed: Sequence[str] = ()
    declared: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def arn(self, queue: str) -> str:
        """Return the ARN of a queue that is named by its name or its ARN."""
        if queue.startswith("arn:"):
            return queue
        _, partition, _, region, account = self.reader.split(":")[:5]
        return f"arn:{partition}:sqs:{region}:{account}:{queue}"

    def refusal(self, queue: str) -> tuple[str, str] | None:
        """Why a trigger may not read this queue, and what to do instead; None: it may."""
        arn = self.arn(queue)
        name = arn.rpartition(":")[2]
        if name in self.declared:
            paths = ", ".join(self.declared[name])
            return (
                f"messages in {name} start {paths} already",
                "a queue is read for triggers of the API or for those of metadata.triggers: send to another queue as well",
            )
        if any(fnmatchcase(arn, self.arn(one)) for one in self.allowed):
            return None
        named = ", ".join(self.allowed) or "none"
        return (
            f"triggers may not read the queue {arn} (the setting {SETTING} of this deployment allows {named})",
            f"add it to {SETTING} of the environment (or -c trigger_queues=…) and deploy, or declare the trigger in the playbook "
            "(metadata.triggers)",
        )
