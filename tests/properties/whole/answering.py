"""A server on this machine that playbooks call over real HTTP; it is steered by the query like the tools of the simulator.

It knows ``fail_first``, ``fail``, ``only``, ``size``, ``run`` (see ``tests.properties.tools``) and answers with the body it was sent as
``echo``. What is sent to it stays small: it keeps nothing but a count of tries for each idempotency key of the present story.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

STATUSES = {"auth": 401, "not_found": 404}


class Answering:
    """Context manager. ``address``: where it listens, without a slash at its end."""

    def __init__(self) -> None:
        self._tries: Counter[str] = Counter()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Forget the tries of a story that has ended."""
        with self._lock:
            self._tries.clear()

    def __enter__(self) -> Answering:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = outer.answer(self.path, self.headers.get("Idempotency-Key") or "", sent)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="answering", daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, key: str, sent: bytes) -> tuple[int, dict[str, Any]]:
        """Status and body of one call."""
        asked = parse_qsl(urlsplit(path).query, keep_blank_values=True)
        steering = dict(asked)
        only = [value for name, value in asked if name == "only"]
        if not only or steering.get("i") in only:
            with self._lock:
                self._tries[key] += 1
                tries = self._tries[key]
            if tries <= int(steering.get("fail_first", 0)):
                return 503, {"try": tries}
            if "fail" in steering:
                return STATUSES[steering["fail"]], {"refused": True}
        body: dict[str, Any] = {"v": zlib.crc32(path.encode()) % 1000}
        if "run" in steering:
            body["run"] = int(steering["run"]) if steering["run"].isdigit() else steering["run"]
        if "size" in steering:
            body["text"] = "x" * int(steering["size"])
        if sent:
            body["echo"] = json.loads(sent)
        return 200, body
