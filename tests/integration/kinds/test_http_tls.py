"""HTTPS: the certificate must be trusted and fit the host, although the connection is made to a checked address."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from noetl.domain.errors import TaskError
from noetl.kinds.http.connection import forget
from noetl.kinds.registry import default_registry
from tests.waiting import PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, cert


@pytest.fixture
def tls_server(certificate):
    """Port of an HTTPS server for ``localhost``, the server names it was asked for, and which connections went on with a session."""
    asked: list[str | None] = []
    resumed: list[bool] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format, *args):
            """Quiet."""

    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.sni_callback = lambda sock, name, _: asked.append(name)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request, address):
            request.settimeout(PATIENCE)
            try:
                with context.wrap_socket(request, server_side=True) as wrapped:
                    resumed.append(bool(wrapped.session_reused))
                    self.RequestHandlerClass(wrapped, address, self)
            except OSError:
                return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.server_port, asked, resumed
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE)


@pytest.fixture
def get(make_context):
    def call(url, timeout=PATIENCE, **params):
        context = make_context(http_allow=("127.0.0.1",), timeout=timeout)
        return default_registry().run("http", {"url": url, **params}, context).result

    forget()
    yield call
    forget()


def test_a_trusted_certificate_of_the_host(tls_server, certificate, get, monkeypatch):
    port, asked, _ = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    assert get(f"https://localhost:{port}/")["data"] == "ok"
    assert asked == ["localhost"]


def test_a_session_goes_on_for_the_same_credentials_alone(tls_server, certificate, get, monkeypatch):
    port, _, resumed = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    url = f"https://localhost:{port}/"
    for headers in (
        {},
        {},
        {"Authorization": "Bearer a"},
        {"Authorization": "Bearer b"},
        {"Authorization": "Bearer a"},
    ):
        assert get(url, headers=headers)["data"] == "ok"
    assert resumed == [False, True, False, False, True], "the server hangs up after each answer"


def test_a_session_lets_nobody_past_a_certificate(tls_server, certificate, get, monkeypatch):
    port, _, resumed = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    get(f"https://localhost:{port}/")
    with pytest.raises(TaskError) as caught:
        get(f"https://127.0.0.1:{port}/")
    assert caught.value.code == "tls_failed" and True not in resumed


def test_an_unknown_authority_is_refused(tls_server, get):
    with pytest.raises(TaskError) as caught:
        get(f"https://localhost:{tls_server[0]}/")
    assert (caught.value.kind, caught.value.code, caught.value.retryable) == (
        "connection",
        "tls_failed",
        False,
    )


def test_a_certificate_of_another_host_is_refused(tls_server, certificate, get, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    with pytest.raises(TaskError) as caught:
        get(f"https://127.0.0.1:{tls_server[0]}/")
    assert caught.value.code == "tls_failed"


def test_a_handshake_that_never_ends_is_cut(raw_server, get):
    def drip(peer):
        peer.recv(10_000)
        # A TLS record of 16 KiB that arrives byte by byte keeps every single read short of its timeout.
        peer.sendall(b"\x16\x03\x03\x40\x00")
        while True:  # until the client hangs up
            peer.sendall(b"\x02")
            time.sleep(0.02)

    url = raw_server(drip).replace("http://", "https://")
    with pytest.raises(TaskError) as caught:
        get(url, timeout=0.6)
    assert (caught.value.kind, caught.value.code) == ("timeout", "timeout")
