"""Annotations of X-Ray: the executions of an invocation, by which its trace is found.

Lambda makes the segment; this sends one subsegment for each execution to Lambda's own daemon, by UDP: nothing waits for it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Iterable, Mapping

HEADER = b'{"format": "json", "version": 1}\n'
MOST = 10
"""Executions of one invocation that are annotated."""
TRACE, DAEMON = "_X_AMZN_TRACE_ID", "AWS_XRAY_DAEMON_ADDRESS"


def sampled_trace(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the id of this invocation's trace; None when X-Ray does not keep it."""
    parts = _header(environment)
    return parts.get("Root") if parts.get("Sampled") == "1" else None


def annotate(
    executions: Iterable[int], began: float, ended: float, environment: Mapping[str, str] = os.environ
) -> int:
    """Annotate the sampled trace of this invocation; return for how many executions.

    Without tracing, do nothing.
    """
    parts = _header(environment)
    host, _, port = environment.get(DAEMON, "").rpartition(":")
    if parts.get("Sampled") != "1" or not {"Root", "Parent"} <= parts.keys() or not port.isdecimal():
        return 0
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.setblocking(False)
        for execution in sorted(set(executions))[:MOST]:
            segment = {
                "type": "subsegment",
                "name": "execution",
                "id": secrets.token_hex(8),
                "trace_id": parts["Root"],
                "parent_id": parts["Parent"],
                "start_time": began,
                "end_time": ended,
                "annotations": {"execution_id": str(execution)},
            }
            try:
                daemon.sendto(HEADER + json.dumps(segment).encode(), (host, int(port)))
            except OSError:
                break  # a trace without annotations is no reason to fail an invocation
            sent += 1
    return sent


def _header(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of the header that Lambda sets before each invocation."""
    return dict(part.split("=", 1) for part in environment.get(TRACE, "").split(";") if "=" in part)
