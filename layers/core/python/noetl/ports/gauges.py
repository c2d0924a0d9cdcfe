"""Port of queue gauges: how many messages each queue holds, for people and dashboards."""

from __future__ import annotations

import msgspec


class QueueGauge(msgspec.Struct, frozen=True):
    """Numbers are approximate, as queues count.

    ``in_flight``: received and not acknowledged yet. ``failed``: given up, in the queue's dead-letter queue.
    """

    name: str
    waiting: int
    in_flight: int
    delayed: int
    failed: int = 0
