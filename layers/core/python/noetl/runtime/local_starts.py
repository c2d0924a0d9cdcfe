"""Starts of executions that somebody at this machine asks for."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from noetl.domain.events import Start
from noetl.dsl.program import Program
from noetl.ports.credentials import CredentialNames
from noetl.runtime.new_ids import random_bits
from noetl.services.check_keychain import check_keychain
from noetl.services.start_execution import start_event


def local_starts(
    program: Program, payloads: Sequence[dict[str, Any]], priority: int | None, names: CredentialNames
) -> list[Start]:
    """One per payload. Raises InvalidInputError when a payload, or the keychain, does not fit."""
    events = [
        start_event(
            program,
            payload,
            now_ms=time.time_ns() // 1_000_000,
            random_bits=random_bits(),
            principal=f"local:{os.getuid()}",
            priority=priority,
        )
        for payload in payloads
    ]
    for event in events if program.keychain else ():
        check_keychain(program, event, names, time.time())
    return events
