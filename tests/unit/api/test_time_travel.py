"""An execution at any fact of its history, over the API."""

from __future__ import annotations

import msgspec

from noetl.domain.facts.facts import decode_facts
from noetl.domain.state import decode_state
from noetl.engine.folds.apply import evolve, rebuild
from noetl.services.history.moments import Histories, Moment
from noetl.services.queries.read_execution import find
from tests.unit.api.ground import FAILING, GATED

CYCLE = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: cycle, path: demo/cycle }
workload: { count: 3 }
workflow:
  - step: start
    tool: { kind: noop, args: { n: "{{ ctx.n | default(0) }}" } }
    set: { ctx.n: "{{ ctx.n | default(0) + 1 }}" }
    next: { arcs: [{ step: start, when: "{{ ctx.n < workload.count }}" }] }
"""


def state_at(ground, execution_id, **query):
    named = {name: str(value) for name, value in query.items()}
    return ground.ask("GET", f"/api/executions/{execution_id}/state", query=named)


def test_every_moment_is_what_the_engine_folds_from_the_first_facts(ground):
    for playbook in (CYCLE, GATED, FAILING):
        execution_id = int(ground.run(playbook))
        rows = [(row.seq, decode_facts(row.facts)) for row in ground.deps.store.events(execution_id)]
        total = sum(len(facts) for _, facts in rows)
        for at in range(total + 1):
            cut, left = [], at
            for seq, facts in rows:
                cut.append((seq if len(facts) <= left else seq - 1, facts[:left]))
                left -= len(facts[:left])
                if not left:
                    break
            state, slots = rebuild(cut)
            info = find(ground.deps.store, execution_id)
            folded = Histories().fold(ground.deps.store, info, Moment(fact=at)).folded
            assert (folded.state, folded.slots) == (state, slots), at
        end = state_at(ground, execution_id).json
        stored = decode_state(find(ground.deps.store, execution_id).state)
        assert end["state"] == msgspec.to_builtins(stored, str_keys=True)
        assert end["total"] == end["at"] == total
        shown = ground.ask("GET", f"/api/executions/{execution_id}").json
        assert [(one["run"], one["status"]) for one in end["steps"]] == [
            (one["run"], one["status"]) for one in shown["steps"]
        ]


def test_the_moment_before_the_first_fact_is_the_start(ground):
    execution_id = ground.run(CYCLE)
    shown = ground.ask("GET", f"/api/executions/{execution_id}").json
    assert state_at(ground, execution_id, at=0).json["time"] == shown["started_at"]


def test_a_process_that_moves_along_a_history_folds_only_the_rest(ground, monkeypatch):
    monkeypatch.setattr("noetl.services.history.moments.NEAREST", 20)
    execution_id = int(ground.run(CYCLE.replace("count: 3", "count: 40")))
    store, info = ground.deps.store, find(ground.deps.store, execution_id)
    folded = []
    monkeypatch.setattr(
        "noetl.services.history.moments.evolve",
        lambda state, slots, fact: folded.append(fact) or evolve(state, slots, fact),
    )
    histories = Histories()
    total = histories.fold(store, info, Moment()).total
    assert len(folded) == total > 200
    for at in (*range(0, total, 7), *range(total, 0, -11)):
        folded.clear()
        found = histories.fold(store, info, Moment(fact=at)).folded
        assert len(folded) <= max(20, total // 4)
        assert found == Histories().fold(store, info, Moment(fact=at)).folded


def test_what_changed_since_another_moment_is_named(ground):
    execution_id = ground.run(CYCLE)
    found = state_at(ground, execution_id, since=0).json
    changed = {one["path"]: (one["kind"], one["before"], one["after"]) for one in found["changes"]}
    assert changed["status"] == ("changed", "running", "completed")
    assert changed["ctx.n"] == ("added", None, 3)
    assert changed["start #3"] == ("added", None, "done")
    seen = [
        one["after"]
        for at in range(found["total"] + 1)
        for one in state_at(ground, execution_id, at=at).json["changes"]
        if one["path"] == "ctx.n"
    ]
    assert seen == [1, 2, 3]


def test_an_event_and_a_time_name_moments_as_well(ground):
    execution_id = ground.run(CYCLE)
    events = ground.ask("GET", f"/api/executions/{execution_id}/events").json["events"]
    for event in events:
        number = event["event_id"].rsplit(":", 1)[1]
        found = state_at(ground, execution_id, at=f"{event['meta']['seq']}:{number}").json
        if event["source"] == "server" and event["event_type"].startswith(("step.", "next.")):
            assert (found["fact"]["name"], found["fact"]["run"]) == (
                event["event_type"],
                event["meta"]["run"],
            )
    assert state_at(ground, execution_id, at=events[-1]["timestamp"]).json["at"] == found["total"]
    assert state_at(ground, execution_id, at="2001-01-01T00:00:00Z").json["at"] == 0


def test_templates_see_the_moment(ground):
    execution_id = ground.run(CYCLE)
    total = state_at(ground, execution_id).json["total"]
    seen = []
    for at in range(1, total + 1):
        body = {"execution_id": execution_id, "template": "{{ ctx.n | default(0) }}", "at": str(at)}
        seen.append(ground.ask("POST", "/api/context/render", body).json["rendered"])
    assert seen == sorted(seen) and set(seen) == {0, 1, 2, 3}


def test_moments_that_have_not_been_are_refused(ground):
    execution_id = ground.run(CYCLE)
    for at, status, code in (
        ("9999", 422, "no_such_moment"),
        ("9999:0", 422, "no_such_moment"),
        ("1:9999", 422, "no_such_moment"),
        ("-1", 400, "invalid_parameter"),
        ("soon", 400, "invalid_parameter"),
        ("9999999999999", 400, "invalid_parameter"),
    ):
        reply = state_at(ground, execution_id, at=at)
        assert (reply.status, reply.json["code"]) == (status, code), at
    assert state_at(ground, "1").json["code"] == "execution_not_found"


def test_the_graph_of_now_and_of_the_end_say_the_same(ground):
    execution_id = ground.run(CYCLE)
    graph = ground.ask("GET", f"/api/executions/{execution_id}/graph").json
    past = state_at(ground, execution_id).json
    assert (past["taken"], past["states"]) == (graph["taken"], graph["states"])
    assert sum(graph["taken"]) == 2 and graph["states"]
    lean = ground.ask("GET", f"/api/executions/{execution_id}/graph", query={"lean": "true"}).json
    assert lean == {**graph, "states": {}}
