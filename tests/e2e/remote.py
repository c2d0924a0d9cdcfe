"""Playbooks run by the deployed system and looked at through its API, with the words that tests of local runs use."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl.adapters.postgres import PostgresExecutionStore
from noetl.domain.codec import convert
from noetl.services.catalog.register_playbook import playbooks_below
from noetl.services.history.read_history import HistoryEvent
from noetl.services.queries.analyze import Analysis
from tests.conformance.explained import check_analysis
from tests.integration.examples.seen import Seen
from tests.waiting import PATIENCE, wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "playbooks" / "examples"
ASK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: ask, path: e2e/ask }
workload: { url: "" }
workflow:
  - step: start
    # A test may hold the answer back for longer than the 30 seconds that such a call has otherwise.
    tool: { kind: http, url: "{{ workload.url }}", spec: { timeout: 600 } }
    next: { arcs: [{ step: end }] }
  - step: end
    tool: { kind: noop, args: { said: "{{ start.said }}" } }
"""


@dataclass
class Run(Seen):
    """What came of an execution; what ``tests.integration.examples`` sees of a local one."""

    execution_id: str
    status: str
    result: Any
    error: Mapping[str, Any] | None
    events: list[HistoryEvent]
    remote: Remote

    def slots(self, scope: str) -> dict[str, Any]:
        found = self.remote.store.slots(int(self.execution_id))
        return {name: value for (where, name), value in found.items() if where == scope}

    def children(self) -> list[str]:
        return sorted(one["status"] for one in self.remote.family(self.execution_id))


@dataclass
class Remote:
    """Everything goes through the API. ``store`` is for values of the context, which the API does not show."""

    deployment: Any
    store: PostgresExecutionStore

    def register(self, text: str, path: str | None = None) -> dict[str, Any]:
        body = {"content": text} | ({"path": path} if path else {})
        answer = self.deployment.api("POST", "/api/catalog/register", body)
        assert answer.status in (200, 201), answer
        return answer.body

    def start(self, *, headers: Mapping[str, str] | None = None, **body: Any) -> str:
        answer = self.deployment.api("POST", "/api/execute", body, headers)
        assert answer.status == 201, answer
        return answer.body["execution_id"]

    def begin(self, text: str, **payload: Any) -> str:
        """Register this playbook and start it."""
        return self.start(playbook_id=self.register(text)["catalog_id"], payload=payload)

    def run(self, example: str, payload: dict[str, Any] | None = None) -> Run:
        folder = EXAMPLES / example
        made = {file.stem: self.register(file.read_text()) for file in playbooks_below(folder)}
        return self.follow(self.start(playbook_id=made[example]["catalog_id"], payload=payload or {}))

    def status(self, execution_id: str) -> dict[str, Any]:
        answer = self.deployment.api("GET", f"/api/executions/{execution_id}/status")
        assert answer.status == 200, answer
        return answer.body

    def settled(self, execution_id: str) -> bool:
        """It has ended, or waits for somebody to decide (as its child does, which it waits for)."""
        found = self.status(execution_id)
        if found["ended"] or (found["status"] == "waiting" and not found["outstanding"].get("commands")):
            return True
        if found["status"] == "waiting" and self.described(execution_id)["awaiting"]:
            return True
        family = self.family(execution_id) if found["outstanding"].get("commands") == 1 else []
        return bool(family) and all(child["status"] == "waiting" for child in family)

    def follow(self, execution_id: str, seconds: float = PATIENCE) -> Run:
        def shown() -> str:
            found = self.deployment.api("GET", f"/api/executions/{execution_id}").body
            return f"{json.dumps(found, indent=1)[:6000]}\nthe end of {execution_id}"

        wait_until(lambda: self.settled(execution_id), shown, seconds=seconds)
        return self.seen(execution_id)

    def patch(self, execution_id: str, values: dict[str, Any], reason: str = "") -> Run:
        """Change the context, and follow what comes of it."""
        known = self.seen(execution_id).count("ctx.patched")
        asked = {"patch": values, "reason": reason}
        answer = self.deployment.api("PATCH", f"/api/executions/{execution_id}/ctx", asked)
        assert answer.status == 202, answer

        def applied() -> bool:
            seen = self.seen(execution_id)
            return seen.status != "waiting" or seen.count("ctx.patched") > known

        wait_until(applied, what="the change")
        return self.follow(execution_id)

    def answer(self, execution_id: str, link: str, body: Any) -> Run:
        """Decide as the page at ``link`` does: a client that has the link needs nothing else."""
        with urllib.request.urlopen(link, timeout=PATIENCE) as page:
            assert page.headers["content-type"].startswith("text/html") and b"<form" in page.read()
        decision = "approve" if body["approved"] else "reject"
        form = urllib.parse.urlencode({"decision": decision, "comment": body["comment"]})
        with urllib.request.urlopen(link, form.encode(), timeout=PATIENCE) as page:
            assert page.status < 300
        wait_until(lambda: self.status(execution_id)["status"] != "waiting", what="the answer")
        return self.follow(execution_id)

    def described(self, execution_id: str) -> dict[str, Any]:
        answer = self.deployment.api("GET", f"/api/executions/{execution_id}")
        assert answer.status == 200, answer
        return answer.body

    def seen(self, execution_id: str) -> Run:
        found = self.described(execution_id)
        result = self.result(execution_id) if found["status"] == "completed" else None
        events = self.events(execution_id)
        return Run(execution_id, found["status"], result, found["error"], events, self)

    def explain(self, execution_id: str) -> Analysis:
        """Check what the deployed `analyze` says of an execution at this moment, and return it."""
        answer = self.deployment.api("POST", f"/api/executions/{execution_id}/analyze")
        assert answer.status == 200, answer
        found = convert(answer.body, Analysis)
        check_analysis(found, "on the deployment")
        return found

    def explain_family(self, execution_id: str) -> None:
        """Check it of an execution and its descendants."""
        for one in (execution_id, *(child["execution_id"] for child in self.family(execution_id))):
            self.explain(one)

    def downloaded(self, url: str) -> Any:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def result(self, execution_id: str) -> Any:
        answer = self.deployment.api("GET", f"/api/executions/{execution_id}/result")
        assert answer.status == 200 and answer.body["complete"], answer
        return answer.body["result"]

    def events(self, execution_id: str) -> list[HistoryEvent]:
        """The whole history so far, page by page."""
        told: list[HistoryEvent] = []
        after = ""
        while True:
            answer = self.deployment.api("GET", f"/api/executions/{execution_id}/events?limit=1000{after}")
            assert answer.status == 200, answer
            told += convert(answer.body["events"], list[HistoryEvent])
            if answer.body["complete"] or not answer.body["events"]:
                return told
            after = f"&after={answer.body['next']}"

    def family(self, execution_id: str) -> list[dict[str, Any]]:
        """Its descendants, each after its parent, in the order in which they were started."""
        found = self.children_of(execution_id)
        for one in found:
            found += self.children_of(one["execution_id"])
        return found

    def children_of(self, execution_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.deployment.api("GET", f"/api/executions?parent={execution_id}&limit=500{after}").body
            found += page["executions"]
            if page["next"] is None:
                return sorted(found, key=lambda one: (one["started_at"], int(one["execution_id"])))
            after = f"&after={page['next']}"
