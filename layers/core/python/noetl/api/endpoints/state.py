"""How the deployment itself is doing."""

from __future__ import annotations

from noetl.api.bodies import HealthAnswer, QueuesAnswer, ReadyAnswer
from noetl.api.deps import ApiDeps
from noetl.api.exchange import Answer, Request
from noetl.domain.errors import NoetlError


def get_queues(deps: ApiDeps, request: Request) -> Answer:
    return Answer(200, QueuesAnswer(list(deps.gauges())))


def ready(deps: ApiDeps, request: Request) -> Answer:
    """503 while anything that is needed is missing. It tells codes, not messages: everybody may ask."""
    checks = {}
    for name, check in deps.checks.items():
        try:
            check()
            checks[name] = "ok"
        except NoetlError as error:
            checks[name] = error.code
            deps.log(f"not ready: {name}: {error}")
    well = all(found == "ok" for found in checks.values())
    headers = {} if well else {"Retry-After": "5"}
    return Answer(
        200 if well else 503, ReadyAnswer("ready" if well else "not_ready", checks), headers=headers
    )


def healthy(deployment: dict[str, str]) -> Answer:
    """This function runs; nothing else is looked at."""
    return Answer(200, HealthAnswer("ok", deployment))
