"""Hostile texts in bodies that API Gateway carries, over stores in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api import hostile_bodies
from tests.integration.api.hostile_bodies import ENDS, TEXTS, check, check_lists
from tests.unit.api.ground import FAILING, HELLO, Ground
from tests.unit.api.test_callbacks import FREE
from tests.unit.api.test_events_in import deliver


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_bodies_are_kept_or_refused_and_every_list_is_shown(ground: Ground, text: str) -> None:
    def ask(method: str, path: str, body: Any) -> tuple[int, Any]:
        reply = ground.ask(method, path, body)
        return reply.status, reply.json

    ground.register(
        hostile_bodies.PLAIN.replace("kind: noop, args: { given:", "kind: double, value:").replace(
            '}" } }', '}" }'
        )
    )
    failed, asking = ground.run(FAILING), ground.run(FREE)
    for door in hostile_bodies.DOORS:
        check(door(ask, text))
    check(hostile_bodies.redrive(ask, failed, text))
    check(hostile_bodies.answers(ask, asking, text))
    worked = []
    for end in ENDS:
        command = ground.issued(HELLO)
        claimed = {
            "execution_id": str(command.execution_id),
            "step": command.step,
            "command": ground.capability(command).header(),
        }
        found = hostile_bodies.reports(ask, claimed, text, end)
        check(found)
        assert found[-1][0] == 202, found
        worked.append(claimed["execution_id"])
        deliver(ground)
    check_lists(ask)
    for execution_id in (failed, asking, *worked):
        status, shown = ask("GET", f"/api/executions/{execution_id}", None)
        assert status == 200 and shown["status"] in ("completed", "failed"), shown
        assert ask("GET", f"/api/executions/{execution_id}/events", None)[0] == 200
