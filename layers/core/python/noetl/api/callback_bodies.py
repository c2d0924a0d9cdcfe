"""What is answered about callbacks. Times are epoch seconds."""

from __future__ import annotations

import msgspec

from noetl.services.awaited import AwaitedCallback, OpenCallback


class CallbackTaken(msgspec.Struct, frozen=True):
    """``duplicate``: it was answered with the same words before."""

    execution_id: str
    event_id: str
    duplicate: bool = False


class OpenCallbackView(msgspec.Struct, frozen=True):
    """``token`` and ``url`` let whoever has them answer."""

    step: str
    run: int
    task: str
    index: int | None
    since: float
    until: float | None
    message: str
    approve: bool
    token: str
    url: str

    def plain(self) -> OpenCallback:
        """As services tell it."""
        about = AwaitedCallback(
            self.step,
            self.run,
            self.task,
            self.index,
            self.since,
            self.until,
            self.message,
            self.approve,
        )
        return OpenCallback(about, self.token, self.url)


class CallbacksAnswer(msgspec.Struct, frozen=True):
    """The callbacks that an execution waits for."""

    execution_id: str
    callbacks: list[OpenCallbackView]


def open_view(found: AwaitedCallback, token: str, url: str) -> OpenCallbackView:
    return OpenCallbackView(
        found.step,
        found.run,
        found.task,
        found.index,
        found.since,
        found.until,
        found.message,
        found.approve,
        token,
        url,
    )
