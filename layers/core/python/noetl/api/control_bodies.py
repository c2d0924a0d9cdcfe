"""What is sent to pause, resume and redrive executions."""

from __future__ import annotations

from typing import Any

import msgspec


class PauseBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``cascade``: its children as well."""

    reason: str = ""
    cascade: bool = True


class RedriveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``from``: ``failure`` (what was under way when it ended), a step, or items of its loop: ``load[3]``, ``load[failed]``. ``args``: of
    that step; without them those of its last run.
    ``version``: of its playbook; without it the one it had."""

    from_: str = msgspec.field(default="failure", name="from")
    args: dict[str, Any] | None = None
    version: int | None = None
    reason: str = ""
