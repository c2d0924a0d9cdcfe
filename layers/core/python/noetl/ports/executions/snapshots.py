"""Snapshots of executions, which the engine reads before it decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.domain.state import Status


class LoadRequest(msgspec.Struct, frozen=True):
    """A request for the snapshot of one execution, answered in one round trip.

    ``names``: slot names, in any scope. ``scopes``: scopes wanted whole. ``commands``: command ids whose fence is needed.
    ``events``: event ids of which it must know whether they were applied already.
    """

    execution_id: int
    names: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class Fence(msgspec.Struct, frozen=True):
    """An open command as the store knows it."""

    attempt: int
    turn: int


class Snapshot(msgspec.Struct, frozen=True):
    """An execution at one version.

    ``state`` is encoded (domain/state.py). ``now``: the store's clock, epoch seconds.
    """

    execution_id: int
    version: int
    program: str
    status: Status
    state: bytes
    slots: dict[tuple[str, str], Any]
    fences: dict[str, Fence]
    applied: frozenset[str]


class Loaded(msgspec.Struct, frozen=True):
    """The snapshots of several executions.

    ``executions`` lacks the ids that do not exist. ``fetched``: pools with a live worker over HTTP. ``sizes``: bytes that were read
    of an execution, where the store reports them.
    """

    now: float
    executions: Mapping[int, Snapshot]
    fetched: frozenset[str] = frozenset()
    sizes: Mapping[int, int] = {}
