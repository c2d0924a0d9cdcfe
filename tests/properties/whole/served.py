"""A ``noetl serve`` in this process with a client that notes every answer which breaks a law."""

from __future__ import annotations

import gc
import http.client
import io
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from noetl.cli import main
from noetl.cli.errors import DONE, FAILED, INTERRUPTED, USAGE
from noetl.runtime.server.serve import Server, ServeSettings
from noetl.runtime.settings import Settings
from tests.properties.whole.answering import Answering
from tests.waiting import PATIENCE

PLAYBOOKS = Path(__file__).parents[1] / "playbooks"
CHILDREN = ("child", "leaf", "nest", "mid", "queued_leaf", "parked_child")
OUTSIDE = "http://api.test"
"""What random playbooks call; it is replaced by the address of the loopback server."""
LEASE = 3
"""Seconds after which a process takes over what another one left."""
EXITS = (DONE, FAILED, USAGE, INTERRUPTED)
"""Exit codes of a command line whose environment is sound."""


@dataclass(frozen=True)
class Reply:
    status: int
    json: Any
    headers: dict[str, str]


@dataclass
class Served:
    """``wrong``: what broke a law, in words. ``log``: lines of the server since the last look."""

    server: Server
    outside: Answering
    token: str
    environ: dict[str, str]
    wrong: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    """Count of answers by status and code."""
    _local: threading.local = field(default_factory=threading.local)

    def broke(self, law: str, what: str) -> None:
        """Note that a law of docs/guarantees.md is broken."""
        self.wrong.append(f"law {law}: {what}")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send one request; ``body``: a JSON value, or bytes as they are. A 5xx and an answer that is no JSON are noted in ``wrong``."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        status, raw, told = self._send(method, path, data, sent)
        about = f"{method} {path[:300]} {(data or b'')[:600]!r} {headers}: {status} {raw[:600]!r}"
        try:
            found = json.loads(raw)
        except ValueError:
            found = None
            self.broke("no-server-error", f"no JSON: {about}")
        code = found.get("code") if isinstance(found, dict) and status >= 400 else ""
        self.answers[f"{status} {code}".strip()] += 1
        if status >= 500:
            self.broke("no-server-error", f"5xx: {about}")
        elif status >= 400 and not code:
            self.broke("no-server-error", f"a refusal without a code: {about}")
        return Reply(status, found, told)

    def _send(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        for again in (False, True):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                where = urlsplit(self.server.address)
                connection = http.client.HTTPConnection(
                    str(where.hostname), int(where.port or 80), timeout=PATIENCE
                )
                self._local.connection = connection
            try:
                connection.request(method, path, data, headers)
                reply = connection.getresponse()
                return reply.status, reply.read(), {k.lower(): v for k, v in reply.getheaders()}
            except (http.client.HTTPException, ConnectionError):
                # The server closes a connection whose request it could not read; a new one is asked once.
                connection.close()
                self._local.connection = None
                if again:
                    raise
        raise AssertionError("unreachable")

    def register(self, text: str, **more: Any) -> Reply:
        """Register a playbook; ``api.test`` in its text becomes the loopback server."""
        content = text.replace(OUTSIDE, self.outside.address)
        return self.ask("POST", "/api/catalog/register", {"content": content, **more})

    def pages(self, path: str, rows: str) -> Iterator[Any]:
        """Every row of a list: ``path`` has a query already."""
        after = ""
        while True:
            reply = self.ask("GET", f"{path}&after={quote(after)}" if after else path)
            if reply.status != 200:
                self.broke("every-row-is-shown", f"a list is refused: {path}: {reply}")
                return
            yield from reply.json[rows]
            if not reply.json["next"] or not reply.json[rows]:
                return
            after = reply.json["next"]

    def noetl(self, *words: str) -> tuple[int, str]:
        """Run a command line in this process, from the main thread. Exit code and what it printed; a defect of it is noted in ``wrong``."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        thresholds = gc.get_threshold()
        with pytest.MonkeyPatch.context() as patched:
            # A command has a process of its own, whose garbage goes with it: what it froze in this one would stay.
            patched.setattr(gc, "freeze", lambda: None)
            for name, value in self.environ.items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["noetl", *words])
            for stream in ("stdout", "stderr"):
                patched.setattr(sys, stream, out)
            code = main.main()
            out.flush()
        gc.set_threshold(*thresholds)
        told = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
        if code not in EXITS or "Traceback" in told:
            self.broke("no-server-error", f"noetl {words} ends with {code}: {told[:2000]}")
        return code, told


@contextmanager
def served(dsn: str, home: Path) -> Iterator[Served]:
    """Serve a fresh database, with the playbooks of ``CHILDREN`` registered."""
    settings = Settings(home, dsn, python_workers=1, lease_seconds=LEASE)
    settings.make_home()
    environ = {
        "NOETL_HOME": str(home),
        "NOETL_DATABASE_URL": dsn,
        "NOETL_LEASE_SECONDS": str(LEASE),
        "NOETL_PYTHON_WORKERS": "1",
    }
    log: list[str] = []
    with Answering() as outside, Server(settings, ServeSettings(port=0), on_log=log.append) as server:
        assert server.tokens is not None
        made = Served(server, outside, server.tokens.add("whole", ["admin"]), environ, log=log)
        for name in CHILDREN:
            (file,) = PLAYBOOKS.glob(f"{name}.y*ml")
            assert made.register(file.read_text("utf-8")).status == 201
        yield made
