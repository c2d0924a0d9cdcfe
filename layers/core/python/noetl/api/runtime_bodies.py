"""Shapes of bodies about the running system: rendering, analysis, queues, workers, and events that come in."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from noetl.ports.gauges import QueueGauge
from noetl.ports.inspection import Lease, PoolWork
from noetl.services.render_context import RenderError


class RenderBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``template``: a text, or any JSON with texts in it. ``step``: with the arguments of this step's run that is under way.
    ``extra_context``: further names, which win. ``strict``: refuse (422) unless everything can be rendered."""

    execution_id: str | int
    template: Any
    step: str | None = None
    extra_context: dict[str, Any] = {}
    strict: bool = False


class QueuesAnswer(msgspec.Struct, frozen=True):
    """``queues``: as they count themselves. ``pools``, ``leases``: commands that are not answered, as the store knows them. ``events``: in
    the outbox. ``partly``: there are more commands than were looked at (the oldest)."""

    queues: list[QueueGauge]
    pools: list[PoolWork]
    leases: list[Lease]
    events: int
    timers: int
    partly: bool


class RenderedAnswer(msgspec.Struct, frozen=True):
    """``rendered``: as the template, its texts replaced by what they come to, types kept; null where one could not be rendered.
    ``context_keys``: the names there are."""

    execution_id: str
    rendered: Any
    errors: list[RenderError]
    context_keys: list[str]
    status: Literal["ok", "partial"] = "ok"
