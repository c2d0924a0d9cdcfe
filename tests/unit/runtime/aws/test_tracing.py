"""Annotations of X-Ray: what Lambda's daemon is sent, and that nothing happens without tracing."""

from __future__ import annotations

import json
import socket

import pytest

from noetl.runtime.aws.telemetry import Telemetry
from noetl.runtime.aws.tracing import HEADER, MOST, annotate

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture
def daemon():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(30)
        yield made


def variables(daemon, trace=TRACE):
    host, port = daemon.getsockname()
    return {"_X_AMZN_TRACE_ID": trace, "AWS_XRAY_DAEMON_ADDRESS": f"{host}:{port}"}


def received(daemon):
    head, body = daemon.recv(65536).split(b"\n", 1)
    assert head + b"\n" == HEADER
    return json.loads(body)


def test_an_invocation_annotates_its_trace_with_its_execution(daemon, monkeypatch):
    for name, value in variables(daemon).items():
        monkeypatch.setenv(name, value)
    telemetry = Telemetry(service="traced")
    with telemetry.invocation() as call:
        call.about([2207513868042915840])
    found = received(daemon)
    assert found["trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert (found["parent_id"], found["type"]) == ("53995c3f42cd8ad8", "subsegment")
    assert found["annotations"] == {"execution_id": "2207513868042915840"}
    assert 0 <= found["end_time"] - found["start_time"] < 60


def test_a_batch_of_many_executions_annotates_some(daemon):
    assert annotate(range(100), 1.0, 2.0, variables(daemon)) == MOST
    assert received(daemon)["annotations"] == {"execution_id": "0"}


@pytest.mark.parametrize(
    "trace", ["", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1", TRACE.replace("=1", "=0")]
)
def test_without_a_sampled_trace_nothing_is_sent(daemon, trace):
    assert annotate([1], 1.0, 2.0, variables(daemon, trace)) == 0


def test_a_daemon_that_is_not_there_fails_no_invocation():
    assert (
        annotate([1], 1.0, 2.0, {"_X_AMZN_TRACE_ID": TRACE, "AWS_XRAY_DAEMON_ADDRESS": "no.such.host:x"}) == 0
    )
    assert annotate([1], 1.0, 2.0, {"_X_AMZN_TRACE_ID": TRACE}) == 0
