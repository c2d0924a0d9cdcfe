"""What `noetl local up` is about to start, from what is recorded and what is asked for."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.domain.errors import InfrastructureError
from noetl.local import emulator, stack, state
from noetl.local.layout import Layout, cache, project


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "local")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def answering() -> Iterator[int]:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/_localstack/health" else 404)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def _recorded(layout: Layout, **known: Any) -> state.State:
    saved = state.State(environment="local", project="/p", endpoint="http://127.0.0.1:4999", **known)
    state.save(layout, saved)
    return saved


def _options(**chosen: Any) -> stack.Options:
    return stack.Options(project=Path("/p"), **chosen)


def test_a_taken_port_is_told_with_the_ways_out(layout: Layout, taken: int) -> None:
    with pytest.raises(InfrastructureError, match=f"port {taken} .* is taken") as caught:
        stack.plan(layout, _options(port=taken))
    assert "--port" in str(caught.value.hint) and "--endpoint" in str(caught.value.hint)


def test_the_last_ports_are_used_again(layout: Layout) -> None:
    port, postgres = emulator.free_port(), emulator.free_port()
    _recorded(layout, port=port, postgres_port=postgres)
    planned = stack.plan(layout, _options())
    assert (planned.port, planned.postgres_port) == (port, postgres)
    assert planned.emulator is None and planned.postgres is None
    assert stack.plan(layout, _options(postgres_port=5)).postgres_port == 5


def test_a_postgres_port_that_others_took_is_left_to_them(layout: Layout, taken: int) -> None:
    _recorded(layout, port=emulator.free_port(), postgres_port=taken)
    assert stack.plan(layout, _options()).postgres_port != taken


def test_what_runs_is_joined_but_not_moved(layout: Layout) -> None:
    me = state.process(os.getpid())
    recorded = _recorded(layout, port=4999, postgres_port=5999, emulator=me, api="http://api")
    planned = stack.plan(layout, _options())
    assert (planned.emulator, planned.port, planned.api) == (me, 4999, recorded.api)
    assert stack.plan(layout, _options(port=4999)) == planned
    with pytest.raises(InfrastructureError, match="runs at port 4999, not 5000"):
        stack.plan(layout, _options(port=5000))


def test_an_endpoint_of_ones_own_is_asked_first(layout: Layout, answering: int) -> None:
    planned = stack.plan(layout, _options(endpoint=f"http://127.0.0.1:{answering}/"))
    assert planned.endpoint == f"http://127.0.0.1:{answering}"
    assert planned.port == 0 and planned.emulator is None
    with pytest.raises(InfrastructureError, match="no emulator answers"):
        stack.plan(layout, _options(endpoint=f"http://127.0.0.1:{emulator.free_port()}"))


def test_a_site_folder_is_for_an_emulator_that_is_started_here(layout: Layout, answering: int) -> None:
    with pytest.raises(InfrastructureError, match="is started here"):
        stack.plan(layout, _options(endpoint=f"http://127.0.0.1:{answering}", functions_site=layout.root))
    _recorded(layout, port=4999, emulator=state.process(os.getpid()))
    with pytest.raises(InfrastructureError, match="reads --functions-site when it starts"):
        stack.plan(layout, _options(functions_site=layout.root))


def test_down_stops_nothing_that_was_not_started(layout: Layout) -> None:
    assert stack.down(layout, purge=False, progress=print) == []
    me = state.process(os.getpid())
    assert me is not None
    _recorded(layout, port=1, emulator=state.Process(me.pid, "1"), postgres=state.Process(me.pid, "1"))
    assert stack.down(layout, purge=True, progress=print) == []
    assert [entry.name for entry in layout.root.iterdir()] == ["lock"]
    assert stack.status(layout) == {"up": False, "deployed_at": None}


def test_two_at_a_time_are_refused(layout: Layout) -> None:
    with (
        stack._alone(layout),
        pytest.raises(InfrastructureError, match="another `noetl local` command works"),
    ):
        stack.down(layout, purge=False, progress=print)


def test_the_checkout_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "cdk.json").write_text("{}")
    below = tmp_path / "playbooks" / "deep"
    below.mkdir(parents=True)
    assert project(tmp_path) == tmp_path
    with pytest.raises(InfrastructureError, match="is not a checkout"):
        project(below)
    before = Path.cwd()
    os.chdir(below)
    try:
        assert project(None) == tmp_path
    finally:
        os.chdir(before)


def test_the_cache_can_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CACHE", str(tmp_path / "mine"))
    assert cache() == tmp_path / "mine"
    monkeypatch.delenv("NOETL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "noetl"


def test_only_what_was_deployed_can_be_started_again(layout: Layout) -> None:
    port = emulator.free_port()
    recorded = _recorded(layout, port=port, api="http://api", outputs={"S": {"A": "b"}}, deployed_at="then")
    planned = stack.plan(layout, _options())
    assert (planned.api, planned.outputs, planned.deployed_at) == ("http://api", recorded.outputs, "then")
    moved = stack.plan(layout, _options(port=emulator.free_port()))
    assert moved.api is None and moved.outputs == {}
