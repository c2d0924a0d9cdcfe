"""Facts of pipelines that wait for a time or for a callback.

The others are in ``domain/facts/facts.py``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.domain.outcomes.outcomes import Outcome, Trace


class WaitStarted(msgspec.Struct, frozen=True, tag="wait.started", tag_field="name", omit_defaults=True):
    """A pipeline waits for time to pass; it continues at ``until`` (epoch seconds).

    ``seconds``: from now. ``remote``: it waits for work in another system. It asks again after ``seconds``, as often as that takes, and
    ``until`` is when it stops asking. This is recorded once, when the waiting begins.
    """

    run: int
    step: str
    turn: int
    task: str
    seconds: float
    until: float
    trace: list[Trace] = []
    remote: bool = False


class CallbackAwaited(
    msgspec.Struct, frozen=True, tag="callback.awaited", tag_field="name", omit_defaults=True
):
    """A pipeline waits for a callback, or takes one that came before (``early``).

    ``place``, ``serial``: which callback. ``until`` None: without a time limit. ``command_id``, ``turn``: what continues with it.
    ``proofs``: of the tokens that may answer it (domain/callbacks.py).
    """

    run: int
    step: str
    task: str
    place: str
    serial: int
    command_id: str
    turn: int
    since: float
    until: float | None = None
    message: str = ""
    approve: bool = False
    schema: dict[str, Any] | None = None
    index: int = -1
    early: bool = False
    trace: list[Trace] = []
    proofs: list[str] = []


class CallbackReceived(
    msgspec.Struct, frozen=True, tag="callback.received", tag_field="name", omit_defaults=True
):
    """A callback came. ``digest``: of its content.

    ``early``: no pipeline waits for it yet; its ``outcome`` is kept until one does.
    """

    run: int
    step: str
    place: str
    serial: int
    digest: str
    index: int = -1
    early: bool = False
    outcome: Outcome | None = None


class CallbackExpired(
    msgspec.Struct, frozen=True, tag="callback.expired", tag_field="name", omit_defaults=True
):
    """A callback did not arrive in time, or (``reason``) is no longer awaited: its task fails."""

    run: int
    step: str
    place: str
    serial: int
    reason: str
    index: int = -1


WaitingFact = WaitStarted | CallbackAwaited | CallbackReceived | CallbackExpired
