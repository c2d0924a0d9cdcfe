"""Port of the engine by request: it decides outcomes and answers with the next commands.

Adapters: a Lambda function (``adapters/aws/decide_function.py``); tests call the engine in their own process.
"""

from __future__ import annotations

from typing import Protocol

from noetl.domain.workers.direct_requests import DecideAnswer, DecideRequest


class Decisions(Protocol):
    """The engine by request.

    Raises InfrastructureError when there is no answer: it may be throttled, unreachable or dead, and may have decided all the same.
    """

    def decide(self, request: DecideRequest) -> DecideAnswer: ...
