"""Grouping of concurrent calls: one round trip for all that arrive during another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class _Call(Generic[Request]):
    """A call that waits for its group.

    ``woken``: held while its thread waits. ``settled``: the call was handled; ``answers`` holds the answer, or nothing when it failed.
    """

    request: Request
    woken: threading.Lock = field(default_factory=threading.Lock)
    settled: bool = False
    answers: Sequence[Any] = ()


class GroupedCalls(Generic[Request, Answer]):
    """Grouped calls of several threads.

    ``work`` answers many calls at once, in their order. A call that comes while no thread works is done at once, in its own thread. Calls
    that come meanwhile wait, and one of their threads then works for all of them. No call waits for further calls to come.

    When ``work`` fails for several, each of them is done alone: one that fails harms only itself. ``most``: calls at once.
    """

    def __init__(self, work: Callable[[Sequence[Request]], Sequence[Answer]], most: int) -> None:
        self._work, self._most = work, most
        self._lock = threading.Lock()
        self._waiting: list[_Call[Request]] = []
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many calls wait for those that are under way."""
        return len(self._waiting)

    def __call__(self, request: Request) -> Answer:
        """Raises what ``work`` raises for this call."""
        call = _Call(request)
        with self._lock:
            waits, self._busy = self._busy, True
            self._waiting.append(call)
            if waits:
                call.woken.acquire()
        if waits:
            call.woken.acquire()
        if not call.settled:
            self._lead()
        return call.answers[0] if call.answers else self._work([request])[0]

    def _lead(self) -> None:
        """Work for those who wait, of whom the calling thread is the first."""
        with self._lock:
            calls = self._waiting[: self._most]
            del self._waiting[: self._most]
        answers: Sequence[Answer] = ()
        try:
            answers = self._work([call.request for call in calls])
        except BaseException:
            # A panic of a compiled library is no Exception, and nobody else would wake the others.
            if len(calls) == 1:
                raise
        finally:
            self._pass_on()
        for number, call in enumerate(calls):
            call.answers = answers[number : number + 1]
            call.settled = True
            if number:
                call.woken.release()

    def _pass_on(self) -> None:
        """Let the first of those who wait lead."""
        with self._lock:
            if self._waiting:
                self._waiting[0].woken.release()
            else:
                self._busy = False
