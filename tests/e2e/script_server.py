"""Conformance cases played by the deployed system: replies to its workers' calls from the cases' scripts, and what comes from outside.

The functions of the emulator ask over loopback (``functions_site/scripted_kinds.py``). An execution plays the case it was started for,
and so do its descendants. A call may have to wait for its answer: until a happening of the case that comes before it has come, or
(steps that a case names as ``held``) until nothing else goes on. A call that is made again, because its command was delivered again,
gets the answer that it got.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from noetl.domain.errors import TaskError
from noetl.testing import scripted
from noetl.testing.scripted import Call, Script
from tests.conformance.cases import Case
from tests.waiting import PATIENCE

SITE = Path(__file__).parent / "functions_site"


def make_site(home: Path) -> Path:
    """The site folder for the functions of a deployment in ``home``."""
    site = home / "site"
    site.mkdir(parents=True, exist_ok=True)
    install = f"scripted_kinds.install({scripted.__file__!r}, {str(site / 'server')!r})"
    (site / "scripted.pth").write_text(
        f"import sys; sys.path.append({str(SITE)!r}); import scripted_kinds; {install}\n"
    )
    return site


@dataclass
class Played:
    """A case and the execution that plays it. ``happened``: how many of its happenings have come."""

    case: Case
    execution_id: int
    script: Script
    happened: int = 0
    released: bool = False
    held: int = 0
    """Calls that wait for their answers."""

    def may_answer(self, call: Call) -> bool:
        happenings = self.case.spec.get("happenings", ())
        after = happenings[self.happened].get("when") if self.happened < len(happenings) else None
        waits = isinstance(after, Mapping) and self.script.total >= after["calls"]
        held = call.step in self.case.spec.get("held", ()) and not self.released
        return not waits and not held


class ScriptServer:
    """``parent``: the execution that started an execution, None of one that nobody started."""

    def __init__(self, parent: Callable[[int], int | None]) -> None:
        self.parent = parent
        self.changed = threading.Condition()
        self.played: dict[int, Played] = {}
        """By execution, descendants too."""
        self.answers: dict[str, dict[str, Any] | None] = {}
        """By the number of the call; None while it waits."""
        self.starts = 0
        """Executions that are being started: their ids are not known yet, and calls of theirs may come already."""

    @contextmanager
    def starting(self) -> Iterator[None]:
        """An execution is started inside and assigned: until then, calls of unknown executions have to wait."""
        with self.changed:
            self.starts += 1
        try:
            yield
        finally:
            with self.changed:
                self.starts -= 1
                self.changed.notify_all()

    def held(self, played: Played) -> int:
        """How many of its calls wait for their answers."""
        with self.changed:
            return played.held

    def assign(self, case: Case, execution_id: int) -> Played:
        """This execution plays this case."""
        played = Played(case, execution_id, Script(case.spec.get("tools", {})))
        with self.changed:
            self.played[execution_id] = played
            self.changed.notify_all()
        return played

    def tell(self, played: Played, *, happened: int = 0, released: bool = False) -> None:
        """Something has come of it: calls that waited for it are answered."""
        with self.changed:
            played.happened += happened
            played.released = played.released or released
            self.changed.notify_all()

    def wait_calls(self, played: Played, number: int, seconds: float) -> bool:
        """Whether it has made as many calls, after at most ``seconds``."""
        with self.changed:
            return self.changed.wait_for(lambda: played.script.total >= number, seconds)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """``{reply}`` (None: the real kind's turn) or ``{refused}``."""
        played = self._played(int(asked["execution_id"]))
        if played is None:
            return {"reply": None}
        call = Call(asked["kind"], asked["step"], asked["task"], asked["index"], asked["told"])
        number = json.dumps([asked["execution_id"], asked["number"] or secrets.token_hex(8)])
        with self.changed:
            if number in self.answers:
                self.changed.wait_for(lambda: self.answers[number] is not None, PATIENCE)
                return self.answers[number] or {"refused": "the call is still being answered"}
            self.answers[number] = None
            played.held += 1
            self.changed.wait_for(lambda: played.may_answer(call), PATIENCE)
            played.held -= 1
            found = self.answers[number] = _found(played.script, call)
            self.changed.notify_all()
            return found

    def _played(self, execution_id: int) -> Played | None:
        root = execution_id
        while root not in self.played and (above := self.parent(root)) is not None:
            root = above
        with self.changed:
            self.changed.wait_for(lambda: root in self.played or not self.starts, PATIENCE)
            found = self.played.get(root)
            if found is not None:
                self.played[execution_id] = found
            return found


def _found(script: Script, call: Call) -> dict[str, Any]:
    try:
        return {"reply": script.find(call)}
    except TaskError as error:
        return {"refused": error.message}


@contextmanager
def serving(server: ScriptServer, home: Path) -> Iterator[ScriptServer]:
    """Functions of the deployment in ``home`` ask this server."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                found = server.answer(asked)
            except Exception as error:
                found = {"refused": f"the script server failed: {error!r}"}
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Silent: the test says what went wrong."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024

    address = home / "site" / "server"
    with Server(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        address.write_text(f"http://127.0.0.1:{http.server_port}/")
        try:
            yield server
        finally:
            address.unlink()
            http.shutdown()


if __name__ == "__main__":
    print(make_site(Path(sys.argv[1]).resolve()))
