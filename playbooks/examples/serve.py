"""The API that an example calls, on the loopback address.

    python playbooks/examples/serve.py weather_loop                      # serve until Ctrl-C
    python playbooks/examples/serve.py weather_loop noetl run FILE …     # serve while this command runs

An example's ``service.py`` has ``service()``, which gives ``answer(method, path, query, headers, body) -> (status, body)``, or with headers
``(status, body, headers)``. Its ``credentials.json`` holds what it signs in with; there, ``$SCRATCH`` is the scratch database of
``noetl db status``. ``EXAMPLE_PORT`` is another port than 8099, which examples call unless told otherwise (``--set base=…``).
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PORT = int(os.environ.get("EXAMPLE_PORT", "8099"))
EXAMPLES = Path(__file__).parent

Answer = Callable[[str, str, Mapping[str, str], Mapping[str, str], Any], tuple[Any, ...]]


def load(example: str) -> Answer:
    """A new service of this example, in its first state."""
    made: Answer = runpy.run_path(str(EXAMPLES / example / "service.py"))["service"]()
    return made


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


def _decoded(raw: bytes, content_type: str) -> Any:
    if not raw:
        return None
    return _first(raw.decode()) if "form-urlencoded" in content_type else json.loads(raw)


class Server:
    """Context manager: ``answer`` behind ``base`` (``port`` 0: a free one)."""

    def __init__(self, answer: Answer, port: int = PORT) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_any(self) -> None:
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                raw = self.rfile.read(int(headers.get("content-length", 0)))
                body = _decoded(raw, headers.get("content-type", ""))
                status, reply, *more = answer(self.command, parts.path, _first(parts.query), headers, body)
                data = json.dumps(reply).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = do_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _environment(example: str, folder: str) -> dict[str, str]:
    """That of the command: with the example's credentials, unless others are named already."""
    sample = EXAMPLES / example / "credentials.json"
    if "NOETL_CREDENTIALS" in os.environ or not sample.exists():
        return dict(os.environ)
    text = sample.read_text("utf-8")
    if "$SCRATCH" in text:
        asked = [sys.executable, "-m", "noetl.cli", "db", "status", "--json"]
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
        text = text.replace("$SCRATCH", json.loads(told)["scratch"])
    file = Path(folder, "credentials.json")
    file.touch(mode=0o600)
    file.write_text(text, "utf-8")
    return {**os.environ, "NOETL_CREDENTIALS": str(file)}


def main(arguments: list[str]) -> int:
    """Serve, and give the command's exit code."""
    if not arguments or not (EXAMPLES / arguments[0]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    example, *command = arguments
    with contextlib.ExitStack() as stack:
        if (EXAMPLES / example / "service.py").exists():
            try:
                server = Server(load(example))
            except OSError as error:
                print(
                    f"error: 127.0.0.1:{PORT} cannot be listened at: {error.strerror}\n"
                    "  hint: end the program there (an earlier serve.py, say), or choose another port for both:"
                    " EXAMPLE_PORT=8100 and --set base=http://127.0.0.1:8100",
                    file=sys.stderr,
                )
                return 3
            print(f"serving {example} at {stack.enter_context(server).base}", file=sys.stderr)
        if not command:
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
            return 0
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        return subprocess.run(command, env=_environment(example, folder), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
