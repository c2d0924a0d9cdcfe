"""Loops over what is no list at hand: files, objects and prefixes of S3, large results, artifacts; read once, then by slices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.commands import Command
from noetl.domain.events import Event
from noetl.domain.kinds import TaskSettings
from noetl.domain.results.paged_list import PART_ITEMS, PartsWriter
from noetl.dsl.program import Expr
from noetl.services.results.artifacts import TaskArtifacts
from noetl.services.results.hydration import make_hydrate
from noetl.services.results.stored_lists import StoredLists
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.templating import render, wrap
from noetl.templating.contract import MappingScope
from noetl.testing.memory import MemoryBackend, NoCredentials
from noetl.testing.play_case import Observed, Scenario, play
from tests.contract.clouds import BUCKET, make_bucket, mocked_aws

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: it }\nworkflow:\n"
LOOP = """  - step: start
    loop: {{ in: {source}, iterator: row, spec: {{ {spec} }} }}
    tool: [{{ one: {{ kind: noop, args: {{ row: "{{{{ {shown} }}}}", of: "{{{{ loop.length }}}}" }} }} }}]
"""


class Counted(MemoryResultStore):
    """Counts what is read, and the largest object."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    def get(self, uri: str) -> bytes:
        found = super().get(uri)
        self.read.append(len(found))
        return found


class Place:
    """Where playbooks run: a folder, a result store, and what commands were given out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backend = MemoryBackend(results=Counted())
        self.commands: list[Command] = []

    def run(self, text: str, payload: Mapping[str, Any] | None = None, **more: Any) -> Observed:
        return play(
            Scenario({"it.yaml": HEAD + text}, "it.yaml", payload or {}, **more), self.backend, self.worker
        )

    def loop(self, source: Any, spec: str = "mode: parallel", shown: str = "iter.row") -> Observed:
        return self.run(LOOP.format(source=json.dumps(source), spec=spec, shown=shown))

    @contextmanager
    def worker(self, tools: Any, backend: Any, programs: Any) -> Iterator[Callable[..., None]]:
        deps = WorkerDeps(
            programs,
            tools,
            backend.results,
            NoCredentials(),
            TaskSettings(data_dirs=(str(self.folder),), own_buckets=("own-results",)),
            clock=backend.time.now,
            chance=lambda: 0.0,
        )

        def run(command: Command, emit: Callable[[Event], None]) -> None:
            self.commands.append(command)
            run_command(command, deps, emit)

        yield run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from noetl.kinds.cloud.aws_client import forget_clients

    with mocked_aws(monkeypatch) as make_client:
        forget_clients()
        client = make_client("s3")
        make_bucket(client)
        yield client
        forget_clients()


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": str(number), "name": f"n {number}"} for number in range(count)]


def csv_of(found: list[dict[str, Any]]) -> str:
    return "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in found)


def given(observed: Observed) -> list[Any]:
    assert observed.status == "completed", observed.error
    return [one["row"] for one in observed.result]


def test_a_file_of_rows_is_read_once_and_then_by_slices(place: Place) -> None:
    count = 2 * PART_ITEMS + 500
    (place.folder / "rows.csv").write_text(csv_of(rows(count)))
    observed = place.loop("file:rows.csv", shown="iter.row.id")
    assert given(observed) == [str(number) for number in range(count)]
    assert observed.result[7]["of"] == count
    names = observed.histories[""]["start"]
    assert names[:4] == ["step.enter", "command.issued", "loop.started", "loop.done"]
    assert place.commands[0].stage == "collection"
    chunks = [command.loop for command in place.commands[1:]]
    assert all(piece.source and not piece.items for piece in chunks if piece)
    inner = place.backend.results.read
    assert max(inner) < 200_000, "no object holds all of it"


@pytest.mark.parametrize("mode", ["parallel", "sequential", "parallel, max_in_flight: 3"])
def test_a_few_rows_travel_with_their_commands(place: Place, mode: str) -> None:
    (place.folder / "rows.jsonl").write_text('{"a": 1}\n\n[2]\n"three"\n')
    assert given(place.loop("file:rows.jsonl", f"mode: {mode}")) == [{"a": 1}, [2], "three"]
    assert next(len(command.loop.items) for command in place.commands if command.loop) in (1, 3)


def test_parquet_and_a_list_of_json(place: Place) -> None:
    import duckdb

    target = place.folder / "rows.parquet"
    duckdb.connect().execute(f"copy (select i as id from range(1500) t(i)) to '{target}' (format parquet)")
    assert given(place.loop("file:rows.parquet", shown="iter.row.id")) == list(range(1500))
    (place.folder / "list").write_text(json.dumps({"rows": [[1], {"b": 2}]}))
    assert given(place.loop({"file": "list", "format": "json"})) == [[1], {"b": 2}]


@pytest.mark.parametrize(
    ("name", "text"), [("none.csv", ""), ("header.csv", "id,name\n"), ("none.jsonl", ""), ("none.json", "[]")]
)
def test_nothing_to_go_over_is_a_loop_of_nothing(place: Place, name: str, text: str) -> None:
    (place.folder / name).write_text(text)
    observed = place.loop(f"file:{name}")
    assert (observed.status, observed.result) == ("completed", [])


@pytest.mark.parametrize(
    ("source", "text", "kind", "told"),
    [
        ("file:gone.csv", None, "not_found", "does not exist"),
        ("file:../rows.csv", None, "storage_access", "outside the allowed folders"),
        ("file:rows.csv", "id,name\n1,a\n2\n", "parse", "line 3 has fewer fields"),
        ("file:rows.jsonl", '{"a": 1}\n{"a": \n', "parse", "line 2"),
        ("file:rows.json", '{"a": 1}', "parse", "without 'rows'"),
        ("file:rows.dat", "x", "schema", "does not tell what it holds"),
        ("s3://own-results/x.csv", None, "auth", "results of this deployment"),
        ({"s3": "s3://Not a bucket/x.csv"}, None, "schema", "s3"),
        ({"file": "rows.csv", "format": "listing"}, "", "schema", "prefix of s3"),
    ],
)
def test_what_cannot_be_read_fails_the_step_where_in_stands(
    place: Place, source: Any, text: str | None, kind: str, told: str
) -> None:
    if text is not None:
        name = source["file"] if isinstance(source, dict) else source.removeprefix("file:")
        (place.folder / name).write_text(text)
    observed = place.loop(source)
    error = observed.error or {}
    assert (observed.status, error["kind"]) == ("failed", kind)
    assert told in error["message"]
    assert error["position"].startswith("it.yaml:6:")


def test_objects_of_s3_and_what_lies_under_a_prefix(place: Place, s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="in/a.csv", Body=csv_of(rows(3)).encode())
    s3.put_object(Bucket=BUCKET, Key="in/b", Body=b'{"n": 1}\n', ContentType="application/x-ndjson")
    s3.put_object(Bucket=BUCKET, Key="in/", Body=b"")
    assert given(place.loop(f"s3://{BUCKET}/in/a.csv")) == rows(3)
    assert given(place.loop(f"s3://{BUCKET}/in/b")) == [{"n": 1}]
    semicolons = csv_of(rows(2)).replace(",", ";").encode()
    s3.put_object(Bucket=BUCKET, Key="semicolons", Body=semicolons)
    source = {"s3": f"s3://{BUCKET}/semicolons", "format": "csv", "delimiter": ";"}
    assert given(place.loop(source)) == rows(2)
    listed = given(place.loop(f"s3://{BUCKET}/in/"))
    assert [(one["bucket"], one["key"], one["size"]) for one in listed] == [
        (BUCKET, "in/a.csv", 26),
        (BUCKET, "in/b", 9),
    ]
    assert all(one["etag"] and one["last_modified"] for one in listed)
    assert given(place.loop(f"s3://{BUCKET}/nothing/")) == []
    gone = place.loop(f"s3://{BUCKET}/in/gone.csv")
    assert gone.error is not None and (gone.error["kind"], gone.error["code"]) == ("not_found", "NoSuchKey")


def test_a_source_that_is_away_is_asked_again(place: Place, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from noetl.domain.errors import TaskError
    from noetl.kinds.support import collection_source

    real, tries = collection_source._of_object, []

    def away(*args: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise TaskError("no answer", kind="connection", retryable=True)
        return real(*args)

    monkeypatch.setattr(collection_source, "_of_object", away)
    s3.put_object(Bucket=BUCKET, Key="a.csv", Body=csv_of(rows(2)).encode())
    observed = place.loop(f"s3://{BUCKET}/a.csv")
    assert given(observed) == rows(2) and observed.elapsed == pytest.approx(6.0)
    assert observed.histories[""]["start"].count("retry.scheduled") == 2


def test_the_results_of_a_loop_are_gone_over_part_by_part(place: Place) -> None:
    count = 4_000
    text = (
        '  - step: start\n    loop: { in: "{{ range(%d) | list }}", iterator: n, spec: { mode: parallel } }\n'
        '    tool: { kind: noop, args: { n: "{{ iter.n }}", pad: "{{ workload.pad }}" } }\n    next: { arcs: [{ step: again }] }\n'
        '  - step: again\n    loop: { in: "{{ start }}", iterator: r, spec: { mode: sequential } }\n'
        '    tool: { kind: noop, args: { twice: "{{ iter.r.n * 2 }}" } }\n    next: { arcs: [{ step: end }] }\n'
        '  - step: end\n    tool: { kind: noop, args: { n: "{{ again.count }}", last: "{{ again[-1].twice }}" } }\n'
    )
    observed = place.run(text % count, {"pad": "x" * 60})
    assert observed.result == {"n": count, "last": 2 * (count - 1)}
    reading = [command for command in place.commands if command.stage == "collection"]
    (whole,) = [command for command in place.commands if command.step == "again" and command.loop]
    assert len(reading) == 1 and whole.loop is not None and whole.loop.source is not None
    assert (whole.loop.start, whole.loop.stop, whole.loop.items) == (0, count, [])
    assert max(place.backend.results.read) < 100_000


@pytest.mark.parametrize("form", ["jsonl", "csv", "json"])
def test_an_artifact_is_gone_over_as_a_stream(place: Place, form: str) -> None:
    found = rows(2 * PART_ITEMS)
    body = {
        "jsonl": "".join(json.dumps(row) + "\n" for row in found),
        "csv": csv_of(found),
        "json": json.dumps({"row_count": len(found), "rows": found, "columns": ["id", "name"]})
        + " " * 300_000,
    }[form]
    writer = TaskArtifacts(place.backend.results, 1, "made", max_bytes=10**7).create(form)  # type: ignore[arg-type]
    with writer:
        writer.write(body.encode())
        ref = writer.close()
    text = LOOP.format(source='"{{ workload.big }}"', spec="mode: parallel", shown="iter.row.name")
    observed = place.run(text, {"big": ref})
    assert given(observed) == [row["name"] for row in found]
    assert place.commands[0].stage == "collection"


def test_a_template_over_a_large_result_is_evaluated_by_a_worker(place: Place) -> None:
    text = (
        '  - step: start\n    tool: { kind: http, url: "http://api.test/big" }\n    next: [{ step: each }]\n'
        '  - step: each\n    loop: { in: "{{ start.rows | batch(10000) | list }}", iterator: some }\n'
        '    tool: { kind: noop, args: { n: "{{ iter.some | length }}" } }\n'
    )
    observed = place.run(text, tools={"start": [{"body": {"rows": {"range": 60_000}}}]})
    assert [one["n"] for one in observed.result] == [10_000] * 6
    assert next(command.stage for command in place.commands if command.step == "each") == "collection"


def test_only_what_failed_runs_again_over_the_same_parts(place: Place) -> None:
    count = 2 * PART_ITEMS
    (place.folder / "rows.csv").write_text(csv_of(rows(count)))
    text = (
        "  - step: start\n    spec: { policy: { failure: { mode: best_effort } } }\n"
        '    loop: { in: "file:rows.csv", iterator: row, spec: { mode: parallel } }\n'
        '    tool: { kind: http, url: "http://api.test/{{ iter.row.id }}" }\n'
        "    next: { arcs: [{ step: after, when: \"{{ event.name == 'loop.done' }}\" }] }\n"
        '  - step: after\n    tool: { kind: noop, args: { failed: "{{ start.failed }}", one: "{{ start[1500] }}" } }\n'
    )
    tools = {
        "start[1500]": [{"error": {"message": "no", "kind": "server_error"}}, {"result": "well"}],
        "start": {"result": "at once"},
    }
    observed = place.run(
        text, tools=tools, happenings=[{"when": "idle", "redrive": {"step": "start[failed]"}}]
    )
    assert observed.result == {"failed": 0, "one": "well"}
    assert place.commands[-1].loop is not None
    assert (place.commands[-1].loop.called, place.commands[-1].loop.source is not None) == (
        ((1500, 1501),),
        True,
    )
    assert sum(command.stage == "collection" for command in place.commands) == 1


def test_a_large_element_is_an_object_of_its_own(place: Place) -> None:
    (place.folder / "rows.jsonl").write_text(
        json.dumps({"id": 1, "text": "x" * 50_000}) + "\n" + json.dumps({"id": 2, "text": "y"}) + "\n"
    )
    observed = place.loop("file:rows.jsonl", shown="[iter.row.id, iter.row.text | length]")
    assert given(observed) == [[1, 50_000], [2, 1]]
    assert min(place.backend.results.read) < 2000, "the part itself is small"


def test_templates_read_the_parts_of_a_long_list_that_they_touch() -> None:
    results = Counted()
    writer = PartsWriter(results.put, 1, "made", run=1, tier="memory")
    writer.extend({"id": number} for number in range(50 * PART_ITEMS))
    scope = MappingScope({"big": wrap(writer.close(), make_hydrate(results))})

    def given(source: str) -> Any:
        return render(Expr(source), scope)

    assert given("big | length") == 50_000 and len(results.read) == 1
    assert given("[big[7000].id, big[-1].id, big[60000] is defined]") == [7000, 49_999, False]
    assert given("big[1998:2002] | map(attribute='id') | list") == [1998, 1999, 2000, 2001]
    assert given("big | last") == {"id": 49_999}
    assert len(results.read) == 5, "the manifest, and four parts"
    assert len(given("big | list")) == 50_000


def test_a_reference_among_the_elements_stays_what_it_is() -> None:
    results = Counted()
    writer = PartsWriter(results.put, 1, "made", run=1, tier="memory", item_limit=100)
    large = {"kind": "result_ref", "ref": "noetl://execution/1/result/x/y", "preview": {"sample": "x" * 500}}
    writer.extend([large, {"text": "y" * 500}])
    first, second = StoredLists(results).open(writer.close())
    assert first == large and (second["kind"], make_hydrate(results)(second)) == (
        "result_ref",
        {"text": "y" * 500},
    )


@pytest.mark.parametrize(
    ("size", "output", "kept"),
    [
        (10, "", 0),
        (50_000, "", 1),
        (10, ", output: { scope: permanent }", 1),
        (200, ", output: { inline_max_bytes: 100 }", 1),
        (200, ", output: { inline_max_bytes: 1000, store: kv }", 0),
    ],
)
def test_what_the_engine_runs_itself_is_kept_as_any_result(
    place: Place, size: int, output: str, kept: int
) -> None:
    """Tasks of control kinds need no worker, unless what they give has to be kept."""
    given = f"tool: {{ kind: noop, args: {{ a: \"{{{{ 'x' * {size} }}}}\" }}{output} }}"
    shown = "tool: { kind: noop, args: { n: '{{ start.a | length }}' } }"
    observed = place.run(
        f"  - step: start\n    {given}\n    next: {{ arcs: [{{ step: b }}] }}\n  - step: b\n    {shown}\n"
    )
    assert observed.result == {"n": size}
    assert [one.step for one in place.commands] == ["start"] * kept
    assert max(len(repr(event)) for event in observed.events[observed.execution_id]) < 4000
