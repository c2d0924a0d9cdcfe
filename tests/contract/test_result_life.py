"""Results with a life of their own: noted with a commit, gone when their time is over, and never while somebody can reach them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.domain.events import ContextPatched, Redrive
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.results.retention import KeptResult
from tests.contract.builders import EID
from tests.contract.test_retention import now, retention, run

__all__ = ["retention", "run"]
HOUR = 3600.0


def uri(execution_id: int, name: str = "a") -> str:
    return f"noetl://execution/{execution_id}/result/fetch/{name}"


def kept(execution_id: int, name: str = "a", ttl: float | None = 0.0, scope: str = "step") -> KeptResult:
    return KeptResult(uri(execution_id, name), "memory", "fetch", 7, scope, ttl)  # type: ignore[arg-type]


def expired(retention: Any, at: float) -> list[str]:
    found: list[str] = []
    after: int | None = 0
    while after is not None:
        page = retention.claim_expired(at, after, 2)
        found += [ref for _, ref, store in page.results if store == "memory"]
        after = page.after
    return sorted(found)


def test_a_ttl_begins_when_the_tree_is_over(harness, retention, run):
    mine = (kept(EID), kept(EID, "b", HOUR, "workflow"), kept(0, "c", None, "permanent"))
    root = run(EID, kept=mine)
    child = run(EID + 1, parent=root, status="running", kept=(kept(EID + 1, "d"), kept(EID + 1, "d")))
    assert expired(retention, now(harness) + 9 * HOUR) == [], "a child of it runs"
    info = harness.store.info(child)
    change = {"execution_id": child, "expected": info.version, "status": "completed", "end": True}
    harness.store.commit([_make(harness).change(**change)])
    at = now(harness)
    assert expired(retention, at) == [uri(root), uri(child, "d")]
    assert expired(retention, at) == [uri(root), uri(child, "d")], "named until they are forgotten"
    assert retention.forget_results([(root, uri(root), "memory"), (child, uri(child, "d"), "memory")]) == 2
    assert expired(retention, at) == []
    assert expired(retention, at + HOUR + 1) == [uri(root, "b")]


def test_what_is_redriven_keeps_its_results(harness, retention, run):
    run(EID, status="failed", kept=(kept(EID),))
    at = now(harness)
    assert harness.store.post(Redrive(EID, "again", "prog"), "me").posted
    assert expired(retention, at) == []


def test_permanent_results_stay_when_their_execution_goes(harness, retention, run):
    run(EID, kept=(kept(EID, ttl=HOUR), kept(0, "c", None, "permanent")))
    at = now(harness)
    assert retention.remove(retention.claim(at, 10)).executions == 1
    assert expired(retention, at + 9 * HOUR) == [], "what lives as its execution at most went with it"
    assert retention.permanent(at - HOUR, 10) == []
    assert retention.permanent(at, 10) == [(EID, uri(0, "c"), "memory")]
    assert retention.forget_results(retention.permanent(at, 10)) == 1 and retention.permanent(at, 10) == []


@pytest.mark.parametrize("way", ["commit", "create", "post", "post_all", "items"])
def test_nothing_goes_that_somebody_elsewhere_can_reach(harness, make, retention, run, way):
    """Told of a result of a child, by whatever way; and through somebody who has ended."""
    root = run(EID, kept=(kept(EID),))
    child = run(EID + 1, parent=root)
    between = run(EID + 10, reaches=(child,))
    holder = EID + 20
    ref = {"kind": "result_ref", "ref": uri(between)}
    told = ContextPatched(holder, "p", "prog", [Patch("ctx", "a", ref)])
    if way == "create":
        started = make.start(holder, payload={"a": ref})
        assert harness.store.create(started, make.created()).fresh
    elif way == "items":
        (command,) = harness.store.commit(
            [make.change(execution_id=holder, loops=(make.loop(2, 1),))], "me"
        ).commands
        harness.store.commit_items([make.items(command, 0, reaches=(between,))], "me")
    else:
        run(holder, status="running", reaches=(between,) if way == "commit" else ())
        if way == "post":
            assert harness.store.post(told, "me").posted
        elif way == "post_all":
            assert harness.store.post_all([told], "me")[holder].posted
    at = now(harness) + HOUR
    assert expired(retention, at) == []
    assert retention.old(at, 10) == []
    assert retention.claim(at, 10) == []
    _end(harness, holder)
    assert expired(retention, at) == [uri(root)]
    assert set(retention.claim(at, 10)) == {root, child, between, holder}


def test_parents_and_children_need_no_row(harness, retention, run):
    root = run(EID, status="running")
    child = run(EID + 1, parent=root, reaches=(root,), kept=(kept(EID + 1),))
    _end(harness, root, reaches=(child,))
    at = now(harness)
    assert expired(retention, at) == [uri(child)]
    assert retention.claim(at, 10) == [child, root]


def _make(harness: Any) -> Any:
    from tests.contract.builders import Make

    return Make(iter(range(1000, 2000)))  # type: ignore[arg-type]


def _end(harness: Any, execution_id: int, **more: Any) -> None:
    info = harness.store.info(execution_id)
    change = {"execution_id": execution_id, "expected": info.version, "status": "completed", "end": True}
    handled = tuple(event.event_id for event in harness.store.undelivered("me", 99))
    harness.store.commit(
        [_make(harness).change(**change, created=None, handled=("start", "p", *handled), **more)]
    )
