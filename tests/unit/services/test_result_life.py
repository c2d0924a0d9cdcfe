"""How results are kept: packed, in parts, under names that say how long they live; and read again in every shape of reference."""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.results.manifests import is_manifest
from noetl.domain.results.references import canonical, is_ref, unavailable
from noetl.domain.results.retention import KeptResult, lifetime, mentioned, own_results
from noetl.pipeline import result_binding
from noetl.services.queries import result_response
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.stored_lists import StoredLists
from noetl.templating import wrap
from noetl.templating.views import raw
from tests.parts import over
from tests.unit.services.worker.test_run_command import Worker

URI = "noetl://execution/7/result/fetch/0b9e6f6e-0000-4000-8000-000000000000"
BIG = [{"n": n, "text": "same words again and again"} for n in range(2000)]


def kept_by(output: str, value: Any = BIG) -> tuple[Any, Any, Worker]:
    body = f"workflow:\n  - step: s\n    tool: {{ kind: tool, output: {output} }}\n"
    worker = Worker(body, lambda params, context: TaskResult(value))
    outcome = worker.outcome()
    assert outcome.error is None, outcome.error
    return outcome.result, outcome, worker


@pytest.mark.parametrize(
    ("output", "value", "packed"),
    [
        ("{ compression: gzip }", BIG, True),
        ("{ compression: auto }", BIG, True),
        ("{ compression: auto, inline_max_bytes: 100 }", BIG[:20], False),
        ("{ compression: auto }", ["".join(chr(0x4E00 + n * 7919 % 20000) for n in range(60_000))], False),
        ("{ store: s3 }", BIG, False),
    ],
)
def test_results_are_packed_where_that_is_asked_for_or_worth_it(output, value, packed):
    ref, _, worker = kept_by(output, value)
    stored, meta = worker.results.get(ref["ref"]), ref["meta"]
    assert stored.startswith(b"\x1f\x8b") == packed and meta["compression"] == ("gzip" if packed else None)
    assert hashlib.sha256(stored).hexdigest() == ref["sha256"] == meta["sha256"]
    assert meta.get("stored_bytes", meta["bytes"]) == len(stored) and meta["bytes"] == ref["size"]
    assert make_hydrate(worker.results)(ref) == value


def test_what_is_larger_than_a_reference_is_kept_as_data_whatever_its_shape():
    forged = {"kind": "result_ref", "ref": URI, "junk": "x" * 600_000}
    ref, _, worker = kept_by("{}", forged)
    assert "junk" not in ref and make_hydrate(worker.results)(ref) == forged


def test_a_bomb_and_damaged_bytes_do_not_pass():
    ref, _, worker = kept_by("{ compression: gzip }")
    read = make_hydrate(worker.results, cache_bytes=0, most=1 << 20)

    def code(**changed: Any) -> str | None:
        with pytest.raises(TaskError) as caught:
            read({**ref, **changed})
        return caught.value.code

    bomb = gzip.compress(b"[" + b"0," * 5_000_000 + b"0]")
    uri = ref["ref"][:-1] + "x"
    worker.results.put(uri, bomb)
    forged = {"ref": uri, "sha256": hashlib.sha256(bomb).hexdigest()}
    assert code(**forged) == "result_too_large_to_load", "more comes out than the reference tells"
    assert code(**forged, size=10**9) == "result_too_large_to_load"
    assert code(sha256="0" * 64) == "REFERENCE_NOT_AVAILABLE"
    assert code(meta={"compression": "zstd"}) == "REFERENCE_NOT_AVAILABLE"
    worker.results.delete([ref["ref"]])
    worker.results.put(ref["ref"], worker.results.get(uri)[:100])
    assert code(sha256=hashlib.sha256(bomb[:100]).hexdigest()) == "result_too_large_to_load"


@pytest.mark.parametrize(
    ("output", "life"),
    [
        ("{ scope: step }", ("step", 0.0)),
        ("{ store: { scope: step, ttl: 90 } }", ("step", 90.0)),
        ("{ ttl: 1h }", ("execution", 3600.0)),
        ("{ scope: workflow, ttl: 2w }", ("workflow", 1_209_600.0)),
        ("{ scope: permanent }", ("permanent", None)),
        ("{ scope: workflow }", None),
        ("{ scope: execution }", None),
    ],
)
def test_the_engine_is_told_of_results_that_live_differently(output, life):
    ref, outcome, _ = kept_by(output)
    assert ref["scope"] == (life[0] if life else output.split()[2])
    assert ref.get("ttl") == (life[1] if life else None) and ref["expires_at"] is None
    told = [(one.ref, one.step, one.size, one.scope, one.ttl) for one in outcome.kept]
    assert told == ([(ref["ref"], "s", ref["size"], *life)] if life else [])
    owner = "0" if life and life[0] == "permanent" else "7"
    assert ref["ref"].startswith(f"noetl://execution/{owner}/result/s/")
    error = unavailable(ref)
    assert error.details["execution_id"] == "7" and "noetl redrive 7 --from s" in str(error.hint)
    assert (error.details["step"], error.details["run"]) == ("s", 1)


def test_what_is_permanent_is_stored_though_it_is_small():
    ref, outcome, _ = kept_by("{ scope: permanent }", {"answer": 42})
    assert is_ref(ref) and len(outcome.kept) == 1


@pytest.mark.parametrize(("compression", "packed"), [("gzip", True), ("auto", True), ("none", False)])
def test_streams_live_and_are_packed_as_results_are(compression, packed):
    text = b"".join(b'{"n":%d,"text":"same words again and again"}\n' % n for n in range(4000))

    def tool(params: dict[str, Any], context: TaskContext) -> TaskResult:
        if "source" not in params:
            with context.artifacts.create("jsonl") as writer:
                for start in range(0, len(text), 1000):
                    writer.write(text[start : start + 1000])
                return TaskResult(writer.close({"row_count": 4000}))
        with context.artifacts.open(params["source"]) as stream:
            chunks = list(iter(lambda: stream.read(777), b""))
        with context.artifacts.file(params["source"]) as path:
            assert path.read_bytes() == text
        return TaskResult({"same": b"".join(chunks) == text})

    body = f"""workflow:
  - step: s
    tool:
      - made: {{ kind: tool, output: {{ ttl: 1h, compression: {compression} }} }}
      - read: {{ kind: tool, source: "{{{{ made }}}}" }}
"""
    from tests.unit.services.results.test_artifacts import Streaming

    worker = Worker(body, tool, registry=Streaming(tool))
    outcome = worker.outcome()
    assert outcome.error is None and outcome.labels["read"] == {"same": True}
    ref = outcome.labels["made"]
    assert (ref["meta"]["compression"] == "gzip") == packed and ref["size"] == len(text)
    assert worker.results.get(ref["ref"]).startswith(b"\x1f\x8b") == packed
    assert [(one.ref, one.size, one.ttl) for one in outcome.kept] == [(ref["ref"], len(text), 3600.0)]


@pytest.mark.parametrize(
    ("accumulate", "whole"),
    [
        ("{ strategy: append, path: $.rows }", lambda pages: [page["rows"] for page in pages]),
        (
            "{ strategy: concat, path: $.rows }",
            lambda pages: [row for page in pages for row in page["rows"]],
        ),
        ("{ strategy: merge, path: $.at }", lambda pages: {k: v for p in pages for k, v in p["at"].items()}),
        (
            "{ strategy: concat, merge_path: $.rows }",
            lambda pages: {**pages[-1], "rows": [row for page in pages for row in page["rows"]]},
        ),
    ],
)
def test_what_is_gathered_goes_to_the_store_in_parts(monkeypatch, accumulate, whole):
    monkeypatch.setattr(result_binding, "PART_BYTES", 4000)
    pages = [
        {"rows": [{"n": page, "text": "x" * 200}] * 10, "at": {f"p{page}": "y" * 900}, "more": page < 29}
        for page in range(30)
    ]
    left = list(pages)
    body = f"""workflow:
  - step: s
    tool:
      - page:
          kind: tool
          output: {{ ttl: 1h, accumulate: {accumulate} }}
          spec:
            policy:
              rules:
                - when: "{{{{ outcome.status == 'ok' and (outcome.http.more | default(false)) }}}}"
                  then: {{ do: jump, to: page }}
"""
    most = 0

    def tool(params: dict[str, Any], context: TaskContext) -> TaskResult:
        page = left.pop(0)
        return TaskResult(page, {"http": {"more": page["more"]}})

    worker = Worker(body, tool)
    wanted, seen = whole(pages), result_binding.gather

    def watched(run: Any, *rest: Any) -> Any:
        nonlocal most
        found = seen(run, *rest)
        most = max(most, sum(len(value) for value in run.state.gathered.values()))
        return found

    monkeypatch.setattr(result_binding, "gather", watched)
    outcome = worker.outcome()
    assert outcome.error is None, outcome.error
    assert 0 < most <= 10, "what was put aside is not held"
    result = outcome.result["rows"] if "merge_path" in accumulate else outcome.result
    assert is_ref(result) and result["meta"]["parts"] > 3
    assert len(outcome.kept) == result["meta"]["parts"] + 1, "its parts live as long as it"
    from noetl.services.results.hydrate_values import hydrated

    assert hydrated(outcome.result, make_hydrate(worker.results)) == wanted


@over(
    ("ref", "known"),
    [
        ({"kind": "result_ref", "ref": URI, "size": 2}, True),
        ({"kind": "temp_ref", "ref": URI, "store": "memory"}, True),
        ({"type": "object_store", "locator": URI, "auth_reference": "x", "meta": {"bytes": 5}}, True),
        ({"type": "nats", "locator": {"uri": URI}, "meta": {}}, True),
        ({"type": "relational", "locator": {"ref": URI}}, True),
        ({"type": "relational", "locator": "postgres://db/table"}, False),
        ({"type": "object_store", "locator": "s3://bucket/key"}, False),
        ({"type": "letter", "locator": URI}, False),
        ({"type": ["nats"], "locator": URI}, False),
        ({"kind": ["result_ref"], "ref": URI}, False),
        ({"kind": "result_ref"}, False),
        ({"kind": "result_ref", "ref": 5}, False),
        ({"kind": "result_ref", "ref": "../../../etc/passwd"}, False),
        ({"kind": "result_ref", "ref": "noetl://execution/9999999999999999999/result/a/b"}, False),
        ({"kind": "result_ref", "ref": "noetl://execution/../7/result/a/b"}, False),
        ({"kind": "result_ref", "ref": URI + "x" * 2000}, False),
        ({"kind": "result_ref", "ref": URI, "store": {"a": 1}}, False),
        ({"kind": "result_ref", "ref": URI, "size": "large"}, False),
        ({"kind": "result_ref", "ref": URI, "size": -1}, False),
        ({"kind": "result_ref", "ref": URI, "sha256": 7}, False),
        ({"kind": "result_ref", "ref": URI, "meta": 5}, False),
        ({"kind": "result_ref", "ref": URI, "extracted": "row_count"}, False),
        ({"kind": "temp_ref", "ref": None}, False),
        ([URI], False),
    ],
)
def test_references_are_known_in_every_shape(ref, known):
    assert is_ref(ref) == known
    if not known:
        assert raw(wrap(ref)) == ref
        return
    worker = Worker("workflow:\n  - step: s\n    tool: { kind: tool, n: '{{ workload.a.n }}' }\n", _echo)
    worker.results.put(URI, b'{"n":42}')
    assert canonical(ref)["ref"] == URI
    assert make_hydrate(worker.results)(ref) == {"n": 42}
    assert wrap(ref, make_hydrate(worker.results)).attribute("n") == 42


@over(
    "told",
    [{"strategy": ["concat"]}, {"total_bytes": "7"}, {"parts": {}}, {"parts": [{"ref": URI, "count": "x"}]}],
)
def test_what_merely_resembles_a_list_in_parts_is_data(told):
    assert is_manifest({"kind": "manifest", "parts": [{"ref": URI, "count": 1}]})
    value = {"kind": "manifest", "parts": [], **told}
    assert not is_manifest(value) and raw(wrap(value)) == value


def test_a_forged_reference_leaves_nothing_for_honest_ones():
    """Whoever tells another format, or no checksum, is not the one whose reading is remembered for others."""
    results = MemoryResultStore()
    results.put(URI, b"[1,2]")
    honest = {"kind": "result_ref", "ref": URI, "size": 5, "sha256": hashlib.sha256(b"[1,2]").hexdigest()}
    lists, read = StoredLists(results), make_hydrate(results)
    assert read({"kind": "result_ref", "ref": URI, "meta": {"format": "text"}}) == "[1,2]"
    assert read(honest) == lists.value(honest) == [1, 2]
    results.delete([URI])
    results.put(URI, b"[9,9]")
    lists, read = StoredLists(results), make_hydrate(results)
    unchecked = {"kind": "result_ref", "ref": URI}
    assert read(unchecked) == lists.value(unchecked) == [9, 9]
    for reading in (read, lists.value):
        with pytest.raises(TaskError, match="checksum"):
            reading(honest)


def test_references_that_lead_to_ever_more_of_them_end_somewhere(monkeypatch):
    """Whoever says that they hold nothing is told where they lead, not what all of them would be."""
    results, reads = MemoryResultStore(), []
    get = results.get
    results.get = lambda uri: reads.append(uri) or get(uri)  # type: ignore[method-assign]
    below: Any = [1]
    for level in range(12):
        results.put(f"{URI}{level}", codec.encode(below))
        below = [{"kind": "result_ref", "ref": f"{URI}{level}"}] * 10
    monkeypatch.setattr(
        result_response.read_execution, "unresolved_result", lambda store, execution_id: below
    )
    told = result_response.deliver_result(None, results, 7, most=50_000)  # type: ignore[arg-type]
    assert not told.whole and told.value == below and 0 < len(reads) < 300


def test_readers_that_meet_do_not_fill_the_cache():
    """What several threads read at the same time counts once: the cache would shrink with every meeting, and fail when it is empty."""
    results, meeting = MemoryResultStore(), [0]
    results.put(URI, b"[1,2]")
    ref = {"kind": "result_ref", "ref": URI, "size": 5}
    read = make_hydrate(results, cache_bytes=20)
    get = results.get

    def met(uri: str) -> bytes:
        meeting[0] += 1
        if meeting[0] < 10:
            read(ref)
        return get(uri)

    results.get = met  # type: ignore[method-assign]
    assert read(ref) == [1, 2] and read(ref) == [1, 2] and meeting[0] == 10


def _echo(params: dict[str, Any], context: TaskContext) -> TaskResult:
    return TaskResult(params)


def test_lifetimes_and_mentions():
    assert lifetime(None, None) is lifetime("execution", None) is None
    assert lifetime("permanent", "1h") == ("permanent", None)
    text = b'[{"ref":"noetl://execution/7/result/a/b"},"noetl://execution/8/","noetl://execution/0/x"]'
    assert mentioned(text, 7) == {8} and mentioned(b"noetl://", 7) == set()
    late = b"noetl://execution/9223372036854775807/ noetl://execution/9223372036854775808/"
    assert mentioned(late, 7) == {2**63 - 1}, "ids of 2031 and later, and what no id can be"
    mine = KeptResult("noetl://execution/7/result/a/b", "s3", "a", 1, "step", 0.0)
    others = KeptResult("noetl://execution/8/result/a/b", "s3", "a", 1, "step", 0.0)
    for_ever = KeptResult("noetl://execution/0/result/a/b", "s3", "a", 1, "permanent")
    stolen = KeptResult("noetl://execution/0/result/a/b", "s3", "a", 1, "step", 0.0)
    nothing = KeptResult("noetl://execution/7/", "s3", "a", 1, "step", 0.0)
    assert own_results(7, [mine, others, for_ever, stolen, nothing]) == [mine, for_ever]
