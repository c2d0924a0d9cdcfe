"""The engine by request, as a Lambda function."""

from __future__ import annotations

from typing import Any

from noetl.adapters.aws.clients import answering
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.workers.direct_requests import DecideAnswer, DecideRequest, read_answer

SHOWN = 300
"""Characters of a failed invocation's answer that its error keeps."""


class DecideFunction:
    """The engine's function, called by request.

    ``client``: one that asks once. A repeat would wait for the engine twice, while the queue is available at once.
    """

    def __init__(self, function: str, client: Any) -> None:
        self._function = function
        self._client = client

    def decide(self, request: DecideRequest) -> DecideAnswer:
        with answering("lambda"):
            answer = self._client.invoke(
                FunctionName=self._function,
                InvocationType="RequestResponse",
                Payload=codec.encode(request),
            )
            data: bytes = answer["Payload"].read()
        if answer.get("FunctionError"):
            shown = data[:SHOWN].decode("utf-8", "replace")
            raise InfrastructureError(f"{self._function} failed: {shown}", code="engine_failed")
        try:
            return read_answer(data)
        except InvalidInputError as error:
            raise InfrastructureError(f"{self._function}: {error}", code="engine_failed") from error
