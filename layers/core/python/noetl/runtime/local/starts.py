"""Starts of executions that a client on this machine asks for."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from noetl.domain.events import Start
from noetl.dsl.program import Program
from noetl.ports.catalog import CatalogEntry
from noetl.ports.credentials import CredentialNames
from noetl.runtime.id_source import random_bits
from noetl.services.credentials.check_keychain import check_keychain
from noetl.services.executions.start_execution import start_event


def start_each(
    entry: CatalogEntry,
    program: Program,
    payloads: Sequence[dict[str, Any]],
    priority: int | None,
    names: CredentialNames,
    begin: Callable[[Sequence[Start]], Sequence[bool]],
) -> list[int]:
    """Start one execution of ``entry`` per payload, in one batch.

    Return the ids in the order of the payloads. A start whose id another execution has gets another id. Raises
    InvalidInputError when a payload, or the keychain, does not fit.
    """
    starts = [_start(entry, program, payload, priority, names) for payload in payloads]
    waiting = set(range(len(starts)))
    while waiting:
        places = sorted(waiting)
        begun = begin([starts[place] for place in places])
        waiting = {place for place, fresh in zip(places, begun, strict=True) if not fresh}
        for place in waiting:
            starts[place] = _start(entry, program, payloads[place], priority, names)
    return [start.execution_id for start in starts]


def _start(
    entry: CatalogEntry,
    program: Program,
    payload: dict[str, Any],
    priority: int | None,
    names: CredentialNames,
) -> Start:
    start = start_event(
        program,
        payload,
        now_ms=time.time_ns() // 1_000_000,
        random_bits=random_bits(),
        principal=f"local:{os.getuid()}",
        priority=priority,
        origin=secrets.token_hex(8),
        found=(entry.path, entry.version),
    )
    if program.keychain:
        check_keychain(program, start, names, time.time())
    return start
