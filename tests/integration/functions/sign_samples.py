"""``make samples``: write the playbook's hash of today into the samples of queues, and sign them again.

A compiler that makes another program gives playbooks another hash. Messages whose token is not valid (the forged ones) stay as they are.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from noetl.domain.capability_tokens import grant, granted, sign, signed
from noetl.domain.events import encode_event
from noetl.domain.messages import Message, decode_message
from noetl.dsl.versions import program_hash
from tests.integration.functions.test_samples import EVENTS, HELLO, RING


def resigned(body: str, program: str) -> str:
    """Return a message's text about ``program``, signed; the text itself when it is no message that the samples' key signed."""
    try:
        message = decode_message(body)
    except Exception:
        return body
    old = _program(message)
    if not old or not _is_signed(message):
        return body
    changed = decode_message(body.replace(old, program))
    told = grant(changed.command, RING) if changed.command else sign(encode_event(changed.event), RING)  # type: ignore[arg-type]
    return body.replace(old, program).replace(message.token, told)


def _program(message: Message) -> str:
    return message.command.program if message.command else getattr(message.event, "program", "")


def _is_signed(message: Message) -> bool:
    if message.command is not None:
        return granted(message.token, message.command, RING)
    return message.event is not None and signed(message.token, encode_event(message.event), RING)


def rewrite(file: Path, program: str) -> None:
    sample: dict[str, Any] = json.loads(file.read_text())
    for record in sample["Records"]:
        record["body"] = resigned(record["body"], program)
        record["md5OfBody"] = hashlib.md5(record["body"].encode(), usedforsecurity=False).hexdigest()
    file.write_text(json.dumps(sample, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for name in ("engine_events", "engine_timers", "worker_commands", "maintenance_dead_letters"):
        rewrite(EVENTS / "sqs" / f"{name}.json", program_hash(HELLO))
