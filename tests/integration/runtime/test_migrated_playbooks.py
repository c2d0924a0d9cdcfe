"""Playbooks of older dialects run after their migration: rows, pages and scripts are what their authors asked for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from noetl.kinds.registry import default_registry
from noetl.migration.migrate import migrate_text
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.credentials.credentials import CredentialRequest, keep_credential
from noetl.services.queries import read_execution
from tests.waiting import PATIENCE

pytestmark = pytest.mark.postgres

UPSERT = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: upsert }
workload: { jars: [{ id: 1, name: plum }, { id: 2, name: fig }, { id: 1, name: quince }] }
workflow:
  - step: start
    tool: postgres
    auth: cellar
    command: CREATE TABLE jars (id int primary key, name text)
    next: [{ step: fill }]
  - step: fill
    tool: iterator
    collection: "{{ workload.jars }}"
    element: jar
    mode: sequential
    task:
      tool: python
      libs: { js: json }
      args: { jar: "{{ jar }}" }
      code: |
        result = js.loads(js.dumps(jar))
      save:
        storage: postgres
        auth: cellar
        table: jars
        mode: upsert
        key: id
        data: { id: "{{ result.id }}", name: "{{ result.name }} jam" }
    next: [{ step: read }]
  - step: read
    tool: postgres
    auth: cellar
    command: SELECT id, name FROM jars ORDER BY id
    next:
      - when: "{{ read.rows | length == 2 }}"
        then: [{ step: tell, with: { rows: "{{ read.rows }}" } }]
      - else: [{ step: end }]
  - step: tell
    tool: noop
    args: { rows: "{{ args.rows }}" }
  - step: end
    tool: router
"""
CURSOR = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: cursor }
workflow:
  - step: start
    tool:
      kind: postgres
      auth: { type: postgres, credential: cellar }
      statement: |
        CREATE TABLE work (id int primary key, done boolean default false, seen int default 0);
        INSERT INTO work (id) SELECT generate_series(1, 7);
    next: { arcs: [{ step: drain }] }
  - step: drain
    loop:
      cursor:
        kind: postgres
        auth: cellar
        claim: |
          UPDATE work SET done = true
          WHERE id = (SELECT min(id) FROM work WHERE NOT done LIMIT {{ __frame_max_rows | default(1) | int }})
          RETURNING id
      iterator: row
      spec: { mode: cursor }
    tool: { kind: postgres, auth: cellar, query: "UPDATE work SET seen = seen + {{ row.id }} WHERE id = {{ row.id }}" }
    next: { arcs: [{ step: tell, when: "{{ event.name == 'loop.done' }}" }] }
  - step: tell
    tool: { kind: postgres, auth: cellar, query: "SELECT sum(seen)::int AS total, count(*) FILTER (WHERE done)::int AS done FROM work" }
"""
PAGES = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: pages }
workload: { api: "" }
workflow:
  - step: start
    tool: { kind: http, url: "{{ workload.api }}/books", params: { page: 1 } }
    case:
      - when: "{{ event.name == 'call.done' and response.more }}"
        then:
          collect: { strategy: append, path: books, into: books }
          retry: { max_attempts: 3, params: { page: "{{ response.page + 1 }}" } }
      - when: "{{ event.name == 'call.done' and not response.more }}"
        then:
          collect: { strategy: append, path: books, into: books }
          next: [{ step: end }]
  - step: end
    tool: { kind: noop, args: { books: "{{ start }}" } }
"""
SAVED = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: saved }
workload: { api: "", pages: [2, 4] }
workflow:
  - step: start
    tool: postgres
    auth: cellar
    command: |
      CREATE TABLE pages (place int primary key, first int, more boolean);
      CREATE TABLE shelves (pages int, books jsonb);
    next: [{ step: read }]
  - step: read
    tool: iterator
    collection: "{{ workload.pages }}"
    element: page
    task:
      tool: http
      url: "{{ workload.api }}/books"
      params: { page: "{{ page }}" }
      save:
        storage: postgres
        auth: cellar
        table: pages
        data: { place: "{{ read.result_index }}", first: "{{ result.data.data.books[0] }}", more: "{{ result.data.more }}" }
    save:
      storage: postgres
      auth: cellar
      table: shelves
      data: { pages: "{{ count }}", books: "{{ results | map(attribute='books') | list | tojson }}" }
    next: [{ step: tell }]
  - step: tell
    tool: postgres
    auth: cellar
    command: |
      SELECT (SELECT json_agg(p ORDER BY place) FROM pages p) AS pages, (SELECT json_agg(s) FROM shelves s) AS shelves
"""
ITEMS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: items }
workload: { api: "", pages: [{ at: 2 }, { at: 3 }, { at: 4 }], most: 6 }
workflow:
  - step: start
    loop: { in: "{{ workload.pages }}", iterator: page }
    tool: { kind: http, url: "{{ workload.api }}/books", params: { page: "{{ page.at }}" } }
    case:
      - when: "{{ event.name == 'step.enter' }}"
        then: { set: { ctx: { short: [], long: [] } } }
      - when: "{{ event.name == 'step.exit' and error is defined and error.status == 503 }}"
        then: { retry: { max_attempts: 2, initial_delay: 0 } }
      - when: "{{ event.name == 'step.exit' and response is defined and response.status == 200 }}"
        then:
          set: { ctx: { found: { page: "{{ page.at }}", last: "{{ response.data.books[-1] }}" } } }
          next: [{ step: judge, args: { found: "{{ ctx.found }}", most: "{{ workload.most }}" } }]
  - step: judge
    tool: { kind: workbook, task: measure, with: { found: "{{ args.found }}", most: "{{ args.most }}" } }
    case:
      - when: "{{ event.name == 'step.exit' and result.over }}"
        then:
          collect: { from: result.page, into: long, mode: append }
          next: [{ step: warn, args: { page: "{{ result.page }}" } }]
      - when: "{{ event.name == 'step.exit' and not result.over }}"
        then: { collect: { from: result.page, into: short, mode: append } }
  - step: warn
    tool: { kind: python, code: "result = f'page {page}'" }
    args: { page: "{{ args.page }}" }
    case:
      - when: "{{ event.name == 'step.exit' }}"
        then: { next: [{ step: sum }] }
  - step: sum
    tool: { kind: noop, args: { short: "{{ ctx.short }}", long: "{{ ctx.long }}" } }
workbook:
  - name: measure
    tool: { kind: python, code: "result = {'page': found['page'], 'over': found['last'] > most}" }
"""
PAGED_ITEMS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: paged_items }
workload: { api: "", firsts: [3, 4] }
workflow:
  - step: start
    next: fetch
  - step: fetch
    loop: { in: "{{ workload.firsts }}", iterator: first, mode: sequential }
    tool: { kind: http, url: "{{ workload.api }}/books", params: { page: "{{ first }}" }, args: "{{ start }}" }
    case:
      - when: "{{ event.name == 'call.done' and response.more }}"
        then:
          collect: { strategy: append, path: books, into: books }
          retry: { params: { page: "{{ response.page + 1 }}" } }
      - when: "{{ event.name == 'call.done' and not response.more }}"
        then:
          collect: { strategy: append, path: books, into: books }
      - when: "{{ event.name == 'loop.done' }}"
        then: { next: [{ step: tell, args: { shelf: red } }] }
  - step: tell
    tool:
      kind: python
      args: { shelves: "{{ fetch }}", total: "{{ fetch.stats.total }}", shelf: null }
      code: |
        def main(shelves, total, shelf):
            return [total, shelves["results"], shelves["stats"]["success"], shelf]
"""
ANSWER = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: { name: answer }
workload: { api: "" }
workflow:
  - step: start
    tool: postgres
    auth: cellar
    command: CREATE TABLE calls (id int primary key, address text, fast boolean, answer jsonb)
    next: [{ step: call }]
  - step: call
    pass: false
    tool: http
    url: "{{ workload.api }}/books"
    params: { page: 5 }
    save:
      storage: postgres
      auth: cellar
      table: calls
      data:
        id: 1
        address: "{{ this.data.url if this is defined and this.data is defined else '' }}"
        fast: "{{ this.data.elapsed | default(-1) >= 0 }}"
        answer: "{{ this.data | tojson }}"
    next: [{ step: again }]
  - step: again
    type: save
    storage: postgres
    auth: cellar
    table: calls
    mode: upsert
    key: id
    data: { id: 2, address: none }
    next: [{ step: tell }]
  - step: tell
    tool: postgres
    auth: cellar
    command: |
      SELECT address, fast, answer -> 'data' AS body, answer -> 'status_code' AS status, '{{ again.saved }} {{ again.table }}' AS said
      FROM calls ORDER BY id
"""
SHELL = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: shell }
workload: { text: "a'b \\"c\\" $(echo d); exit 3", number: 2 }
workflow:
  - step: start
    tool:
      kind: shell
      cmds:
        - printf '%s|' 'single {{ workload.text }}'
        - printf '%s|' "double {{ workload.text }}"
        - printf '%s' {{ workload.number }}
"""


def run(text: str, payload: dict[str, Any], database: str, home: Path) -> Any:
    made = migrate_text(text, source_name="old.yaml", kinds=default_registry(), canonical=True)
    assert made.changed and made.runs, (made.refusals, made.problems)
    environment = {"NOETL_HTTP_ALLOW": "127.0.0.1"}
    with LocalRuntime(Settings.from_env(environment, home=home, database_url=database)) as runtime:
        wish = CredentialRequest(name="cellar", type="postgres", data={"dsn": database})
        keep_credential(wish, "local:0", runtime.credentials)
        execution_id = runtime.start(runtime.register(made.text, source_name="new.yaml"), payload)
        runtime.run_until([execution_id], timeout=PATIENCE)
        return read_execution.result(runtime.store, runtime.results, execution_id)


@pytest.fixture
def shelf() -> Iterator[tuple[str, list[int]]]:
    """Pages of two books each, five of them; and which ones were asked for."""
    asked: list[int] = []

    class Shelf(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = int(parse_qs(urlparse(self.path).query)["page"][0])
            asked.append(page)
            body = json.dumps({"books": [2 * page - 1, 2 * page], "page": page, "more": page < 5}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_upsert_keeps_the_last_row_of_a_key(database: str, tmp_path: Path) -> None:
    assert run(UPSERT, {}, database, tmp_path) == {
        "rows": [{"id": 1, "name": "quince jam"}, {"id": 2, "name": "fig jam"}]
    }


def test_a_cursor_is_drained_once(database: str, tmp_path: Path) -> None:
    assert run(CURSOR, {}, database, tmp_path)["rows"] == [{"total": 28, "done": 7}]


def test_pages_are_collected_up_to_their_bound(
    database: str, tmp_path: Path, shelf: tuple[str, list[int]]
) -> None:
    """Three calls are allowed: the third page is the last, and belongs to the result."""
    api, asked = shelf
    assert run(PAGES, {"api": api}, database, tmp_path) == {"books": [1, 2, 3, 4, 5, 6]}
    assert asked == [1, 2, 3]


def test_pages_of_an_item_are_its_result(database: str, tmp_path: Path, shelf: tuple[str, list[int]]) -> None:
    result = run(PAGED_ITEMS, {"api": shelf[0]}, database, tmp_path)
    assert result == [2, [[5, 6, 7, 8, 9, 10], [7, 8, 9, 10]], 2, "red"]
    assert shelf[1] == [3, 4, 5, 4, 5]


def test_a_save_reads_the_whole_answer_and_says_where_it_was_written(
    database: str, tmp_path: Path, shelf: tuple[str, list[int]]
) -> None:
    rows = run(ANSWER, {"api": shelf[0]}, database, tmp_path)["rows"]
    said = "postgres calls"
    body = {"books": [9, 10], "page": 5, "more": False}
    first = {"address": f"{shelf[0]}/books?page=5", "fast": True, "body": body, "status": 200, "said": said}
    assert rows == [first, {"address": "none", "fast": None, "body": None, "status": None, "said": said}]


def test_a_loop_saves_each_item_and_then_the_whole(
    database: str, tmp_path: Path, shelf: tuple[str, list[int]]
) -> None:
    (row,) = run(SAVED, {"api": shelf[0]}, database, tmp_path)["rows"]
    assert row["pages"] == [{"place": 0, "first": 3, "more": True}, {"place": 1, "first": 7, "more": True}]
    assert row["shelves"] == [{"pages": 2, "books": [[3, 4], [7, 8]]}]


@pytest.mark.parametrize(
    ("most", "short", "long"),
    [
        (6, [2, 3], [4]),
        pytest.param(9, [2, 3, 4], [], marks=pytest.mark.full),
        pytest.param(1, [], [2, 3, 4], marks=pytest.mark.full),
    ],
)
def test_what_follows_an_item_is_done_for_each_and_what_follows_all_once(
    database: str, tmp_path: Path, shelf: tuple[str, list[int]], most: int, short: list[int], long: list[int]
) -> None:
    result = run(ITEMS, {"api": shelf[0], "most": most}, database, tmp_path)
    assert result == {"short": short, "long": long}
    assert shelf[1] == [2, 3, 4]


def test_no_value_becomes_code_of_a_shell_script(database: str, tmp_path: Path) -> None:
    text = 'a\'b "c" $(echo d); exit 3'
    result = run(SHELL, {}, database, tmp_path)
    assert (result["exit_code"], result["stdout"]) == (0, f"single {text}|double {text}|2")
