"""docs/openapi.json against the real thing: requests made from the document, valid and broken, get answers that the document knows.

schemathesis makes the requests. Here they are the edges of every parameter and body; NOETL_SOAK_REQUESTS=200 adds so many random ones to each
operation.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.engine import events, from_schema

from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.integration.api.test_serve import GATED, Client
from tests.notes import NOTES
from tests.parts import parted

pytestmark = pytest.mark.postgres

RANDOM = int(os.environ.get("NOETL_SOAK_REQUESTS", "0"))
SECONDS = 3600 if RANDOM else 600
OFF = {"enabled": False}
CHECKS = {
    # A document cannot say which cursors, moments and templates are good ones, nor that `{path}` may be the word of another route.
    "positive_data_acceptance": OFF,
    "allow_header_conformance": OFF,
    # Tested route by route in test_refusals.
    "ignored_auth": OFF,
}
SHARE, SAMPLE = 8, 4
"""One of so many operations, with this rest of its checksum, is asked in ``make test``, and the others in ``make test-full``, too."""
FOUND = frozenset({200, 201, 202, 400, 404, 409, 422})


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[Server]:
    settings = Settings(tmp_path / "home", database, python_workers=1)
    settings.make_home()
    logged: list[str] = []
    with Server(settings, ServeSettings(port=0, threads=4), on_log=logged.append) as made:
        yield made
    schemathesis.hooks.unregister_all()
    assert not [line for line in logged if "Traceback" in line]


def furnish(server: Server, token: str) -> dict[str, list[str]]:
    """Things that requests can be about, by the name of the part of a path."""
    client = Client(server.address, token)
    client.register(GATED)
    waiting, ended = client.start("demo/gated"), client.start("demo/gated")
    client("POST", f"/api/executions/{ended}/cancel", {})
    client.until(ended, "cancelled")
    client("POST", "/api/credentials", {"name": "db", "type": "postgres", "data": {"host": "h"}})
    client(
        "POST", "/api/schedules", {"path": "demo/gated", "name": "hourly", "rate": "1 hour", "enabled": False}
    )
    _, about = client("GET", "/api/catalog/demo/gated")
    return {
        "execution_id": [waiting, ended],
        "path": ["demo/gated"],
        "name": ["db", "hourly", "n"],
        "owner": [waiting, "demo/gated@1"],
        "program": [about["program"]],
    }


def config(token: str) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": 1,
            "max-time": SECONDS,
            "continue-on-failure": True,
            "headers": {"Authorization": f"Bearer {token}"},
            "suppress-health-check": ["all"],
            "generation": {
                "max-examples": max(RANDOM, 1),
                "deterministic": not RANDOM,
                "no-shrink": True,
                "with-security-parameters": False,
                "database": "none",
            },
            "phases": {
                "examples": OFF,
                "stateful": OFF,
                "fuzzing": {"enabled": bool(RANDOM)},
                "coverage": {"unexpected-methods": ["TRACE"]},
            },
            "checks": CHECKS,
        }
    )


def about_what_there_is(known: dict[str, list[str]]) -> Any:
    """A hook: of requests whose path is meant to be good, half name something that exists; and so do good bodies."""

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        components = case.meta.components if case.meta is not None else {}
        broken = {place for place, about in components.items() if about.mode is GenerationMode.NEGATIVE}
        if ParameterLocation.BODY not in broken and isinstance(case.body, dict) and "path" in case.body:
            case.body["path"] = known["path"][0]
        if ParameterLocation.PATH in broken:
            return
        for name in known.keys() & (case.path_parameters or {}).keys():
            number = zlib.crc32(f"{case.path_parameters[name]} {case.body} {case.query}".encode())
            if number % 2:
                case.path_parameters[name] = known[name][number // 2 % len(known[name])]

    return before_call


def is_sampled(operation: str) -> bool:
    return zlib.crc32(operation.encode()) // 64 % SHARE == SAMPLE


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize("sample", parted([True, False], [True], ids=["sample", "others"]))
def test_answers_are_those_of_the_document(server, monkeypatch, sample):
    # Nobody ends what waits here; how requests wait has tests of its own.
    monkeypatch.setattr("noetl.api.live.change_hub.LIFE_SECONDS", 0.0)
    monkeypatch.setattr("noetl.api.http.waiting.Waiting.wait", lambda *arguments, **options: None)
    # Nor is there a proxy, for which `requests` looks through the environment at each request.
    monkeypatch.setattr("requests.sessions.get_environ_proxies", lambda *arguments, **options: {})
    assert server.tokens is not None
    token = server.tokens.add("document", ["admin", "worker"])
    known = furnish(server, token)
    schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json", config=config(token))
    schema = schema.include(lambda context: is_sampled(context.operation.label) == sample)
    schemathesis.hook("before_call")(about_what_there_is(known))
    wrong: dict[str, str] = {}
    operations: set[str] = set()
    statuses: set[int] = set()
    count = 0
    for event in from_schema(schema).execute():
        if isinstance(event, (events.FatalError, events.NonFatalError)):
            wrong[repr(event)] = "the requests could not be made"
        if not isinstance(event, events.ScenarioFinished):
            continue
        operations.add(event.recorder.label)
        for one in event.recorder.interactions.values():
            count += 1
            if one.response is not None:
                statuses.add(one.response.status_code)
        for case, checks in event.recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    asked = event.recorder.interactions[case].request
                    told = f"{asked.method} {asked.uri[:300]} {str(asked.body)[:300]}"
                    wrong.setdefault(
                        f"{event.recorder.label}: {check.name}", f"{told}\n{check.failure_info.failure}"
                    )
    assert not wrong, "\n\n".join(f"{name}\n{text}" for name, text in wrong.items())
    assert statuses >= FOUND, f"the requests are too tame: {sorted(statuses)}"
    assert len(operations) == len(list(schema.get_all_operations()))
    NOTES.append(f"document: {count} requests to {len(operations)} operations")
