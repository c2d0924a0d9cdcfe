"""Dead letters of a deployed engine.

Maintenance sends them back once the deployment is ready. An operator may list or retry them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl.adapters.aws.clients import make_client
from noetl.adapters.aws.gauges import read_gauges
from noetl.adapters.aws.sqs import SqsQueue
from noetl.domain import codec
from noetl.domain.errors import InfrastructureError, NoetlError
from noetl.runtime.aws.engine import Engine
from noetl.runtime.aws.readiness import readiness
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.telemetry import Invocation, telemetry
from noetl.services.orchestrator.dead_letters import look, send_back

LIST, RETRY = "dead-letters", "retry-dead-letters"
"""What an operator sends: ``{"noetl": "dead-letters"}`` (``events/maintenance``)."""
SHOWN = 100


class CloudDeadLetters:
    def __init__(self, settings: CloudSettings) -> None:
        self._settings = settings

    def send_back(self, engine: Engine, remaining: Callable[[], float], call: Invocation) -> None:
        """Send back what the queues gave up, once the deployment is ready.

        Messages that the engine set aside stay.
        """
        try:
            urls = {"events": self._settings.events_queue, "timers": self._settings.timers_queue}
            gauges = read_gauges(make_client("sqs"), urls)
            names = [gauge.name for gauge in gauges if gauge.failed]
            if not names or not self._is_ready():
                return
            for name in names:
                dead, home = self._pair(engine, name)
                done = send_back(
                    dead, home, wanted=lambda one: not one.why, deadline=remaining, log=telemetry.log
                )
                if done.done:
                    call.count("RedrivenDeadLetters", len(done.done))
        except InfrastructureError as outage:
            telemetry.log(f"dead letters wait for the next tick: {outage}", level="warning")

    def answer_operator(
        self, event: Mapping[str, Any], engine: Engine, remaining: Callable[[], float]
    ) -> dict[str, Any]:
        """Answer an operator: what is there, or how many were sent back."""
        answer: dict[str, Any] = {}
        for name in ("events", "timers"):
            dead, home = self._pair(engine, name)
            if event["noetl"] == LIST:
                found = look(name, dead, engine.results, SHOWN)
                answer[name] = [codec.plain(one) for one in found]
            else:
                done = send_back(dead, home, wanted=lambda one: True, deadline=remaining, log=telemetry.log)
                answer[name] = {"sent": len(done.done), "left": done.left}
        return answer

    @staticmethod
    def _pair(engine: Engine, name: str) -> tuple[SqsQueue, SqsQueue]:
        """Return a queue of dead letters, and the queue that they came from."""
        if name == "events":
            return engine.dead_events, engine.events
        return engine.dead_timers, engine.timers

    def _is_ready(self) -> bool:
        for name, check in readiness(self._settings).items():
            try:
                check()
            except NoetlError as error:
                telemetry.log(f"dead letters wait, for {name} is not ready: {error}", level="warning")
                return False
        return True
