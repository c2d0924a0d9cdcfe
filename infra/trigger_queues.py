"""Queues that triggers may read which are made while the system runs (`/api/triggers`): an environment names them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from noetl.domain.automations.trigger_queues import QUEUES, SETTING

OURS = "noetl-"
"""Names of every deployment's own queues begin with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggersConfig:
    """The queues that triggers may read.

    ``queues``: names (of this account and region) or ARNs, with ``*`` for any characters; the scheduler function may read these.
    None: triggers of type sqs are refused, and no role may make event source mappings. Queues of `metadata.triggers` need not be
    among them.
    """

    queues: tuple[str, ...] = ()


def inbox(prefix: str) -> str:
    """What the names of queues begin with that are meant for triggers of this deployment."""
    return f"{prefix}-in-"


def queue_problems(triggers: TriggersConfig, prefix: str) -> list[str]:
    """What is wrong with the setting. ``prefix``: of the names of the deployment's own queues."""
    found = []
    for one in triggers.queues:
        name = one.rpartition(":")[2]
        head = name.partition("*")[0]
        if not re.fullmatch(QUEUES, one):
            found.append(
                f"{SETTING} has {one!r}, which is neither a name nor an ARN of a queue (* matches any characters of a name)"
            )
        elif not head.startswith(inbox(prefix)) and (
            head.startswith(OURS) or ("*" in name and OURS.startswith(head))
        ):
            found.append(
                f"{SETTING} has {one!r}, which reaches queues of the engine itself: begin it with {inbox(prefix)}, or unlike {OURS}"
            )
    return found
