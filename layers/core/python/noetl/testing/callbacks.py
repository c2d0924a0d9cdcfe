"""Callbacks under test: a key that is the same in every run, and answers from outside.

The answers take the same path as real ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.callbacks import SCOPE, CallbackId, awaited_in, make_token, run_key
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.errors import NoetlError
from noetl.domain.events import Event
from noetl.domain.ids import item_command_id
from noetl.domain.state import decode_state
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.callbacks.complete_callback import CallbackDeps, answer
from noetl.services.callbacks.open_callbacks import AwaitedCallback, awaited
from noetl.services.orchestrator.engine_deps import EngineDeps

RING = KeyRing.of(["the key of callbacks under test"])
BASE = "https://noetl.test"
"""Where callbacks under test are answered, as playbooks see it."""


def answered(wanted: Mapping[str, Any], execution_id: int, deps: EngineDeps, owner: str) -> list[Event]:
    """Return the event of ``{step, body, index, serial, refused}``, or None.

    None: the answer is refused as ``refused`` says, or known already.

    Raises NoetlError for any other refusal.
    """
    doors = CallbackDeps(deps.store, deps.results, deps.programs, lambda fresh: RING)
    found = callback_of(wanted, execution_id, deps.store)
    token = make_token(run_key(execution_id, found.run, RING), found)
    refused = wanted.get("refused")
    try:
        event = answer(token, wanted.get("body"), doors, owner).event
    except NoetlError as error:
        if error.code == refused:
            return []
        raise
    if refused:
        raise NoetlError(f"the callback of {wanted['step']} was taken; it should be refused with {refused}")
    return [] if event is None else [event]


def unanswered(execution_id: int, store: ExecutionStore) -> list[AwaitedCallback]:
    """Return the callbacks that an execution still waits for."""
    info = store.info(execution_id)
    if info is None or not info.state or info.ended_at is not None:
        return []
    return awaited(store, execution_id, decode_state(info.state))


def callback_of(wanted: Mapping[str, Any], execution_id: int, store: ExecutionStore) -> CallbackId:
    """Return the callback that a step waits for, or will wait for.

    Of a step that has ended, it is the one it waited for last.
    """
    info = store.info(execution_id)
    tokens = decode_state(info.state).tokens.values() if info is not None and info.state else ()
    token = next((one for one in tokens if one.step == wanted["step"]), None)
    if token is None:
        return CallbackId(execution_id, "1000000", int(wanted.get("serial", 0)))
    place = token.command or str(token.run)
    if "index" in wanted:
        place = item_command_id(token.run, token.round, int(wanted["index"]))
    slot = awaited_in(store.slots(execution_id).get((SCOPE, place)))
    serial = wanted.get("serial", 0 if slot is None else slot.serial)
    return CallbackId(execution_id, place, int(serial))
