"""The Prometheus metrics of ``noetl serve``: requests, queues, and outstanding work."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from noetl.domain.text.untrusted_text import escape_block
from noetl.ports.executions.inspection import Outstanding
from noetl.ports.gauges import QueueGauge

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
Sample = tuple[dict[str, str], float]


class Metrics:
    """Counters since the process began. Thread-safe. ``clock``: monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began = clock, clock()
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._refused: Counter[str] = Counter()
        self._turned_away: Counter[str] = Counter()
        self._ends: Counter[str] = Counter(dict.fromkeys(("completed", "failed", "cancelled"), 0))
        self._claims = 0.0

    def request(self, method: str, status: int, seconds: float) -> None:
        """Count an answered request.

        Unknown methods count together, so that no caller makes new series.
        """
        known = method if method in _METHODS else "other"
        with self._lock:
            self._requests[known, status] += 1
            self._seconds[known] += seconds

    def refused(self, reason: str) -> None:
        """Count an event from outside that was refused."""
        with self._lock:
            self._refused[reason] += 1

    def refused_request(self, reason: str) -> None:
        """Count a request that was answered with "come back later"."""
        with self._lock:
            self._turned_away[reason] += 1

    def ended(self, statuses: Iterable[str]) -> None:
        """Count executions that this process ended, by their status."""
        with self._lock:
            self._ends.update(statuses)

    def counted(self, name: str, value: float) -> None:
        """Count what the API names as on a deployment; of these, claimed commands are shown."""
        if name == "Claims":
            with self._lock:
                self._claims += value

    def text(self, queues: Sequence[QueueGauge], found: Outstanding) -> str:
        """Write all metrics in the Prometheus text format, version 0.0.4."""
        with self._lock:
            requests, seconds, refused = dict(self._requests), dict(self._seconds), dict(self._refused)
            turned_away, claims, ends = dict(self._turned_away), self._claims, dict(self._ends)
        pools, leases = found.pools, found.leases
        parts = [
            _metric("uptime_seconds", "gauge", "Since this process began.", [({}, self._clock() - self._began)]),
            _metric("http_requests_total", "counter", "Requests answered.",
                    [({"method": method, "status": str(status)}, n) for (method, status), n in sorted(requests.items())]),
            _metric("http_request_seconds_total", "counter", "Time spent on requests.",
                    [({"method": method}, value) for method, value in sorted(seconds.items())]),
            _metric("events_refused_total", "counter", "Events from outside that were not let in.",
                    [({"reason": reason}, n) for reason, n in sorted(refused.items())]),
            _metric("requests_turned_away_total", "counter", "Requests that were refused with a time to try again.",
                    [({"reason": reason}, n) for reason, n in sorted(turned_away.items())]),
            _metric("executions_ended_total", "counter", "Executions that ended.",
                    [({"status": status}, n) for status, n in sorted(ends.items())]),
            _metric("commands_claimed_total", "counter", "Commands that workers fetched over HTTP.", [({}, claims)]),
            _metric("queue_messages", "gauge", "Messages of queues.",
                    [({"queue": one.name, "state": state}, getattr(one, state))
                     for one in queues for state in ("waiting", "in_flight", "delayed", "failed")]),
            _metric("commands", "gauge", "Commands that are not answered.",
                    [({"pool": one.pool, "state": state}, getattr(one, state))
                     for one in pools for state in ("ready", "delayed", "leased", "suspended")]),
            _metric("oldest_command_seconds", "gauge", "How long the oldest command has been due.",
                    [({"pool": one.pool}, one.oldest) for one in pools]),
            _metric("dead_leases", "gauge", "Commands of owners that gave no sign of life.",
                    [({}, sum(one.commands for one in leases if not one.alive))]),
            _metric("outbox_events", "gauge", "Events on their way to the engine.", [({}, found.events)]),
            _metric("timers", "gauge", "Timers that are set.", [({}, found.timers)]),
            _metric("unreadable_rows", "gauge", "Commands and events that cannot be read.", [({}, found.unreadable)]),
        ]  # fmt: skip
        return "".join(parts)


def _metric(name: str, kind: str, about: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP noetl_{name} {about}", f"# TYPE noetl_{name} {kind}"]
    lines += [f"noetl_{name}{_labels(labels)} {value:.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return escape_block(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
