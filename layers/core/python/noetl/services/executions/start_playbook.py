"""Starts of registered playbooks by external events.

Each event starts one execution, even when it is delivered again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noetl.dsl.program import Program
from noetl.ports.catalog import Catalog
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.services.catalog.find_playbook import find_playbook
from noetl.services.executions.start_execution import Started, StartRequest, start_execution


@dataclass(frozen=True, slots=True)
class StartDeps:
    """The dependencies of a start.

    ``programs``: hash → Program. ``owner``: the process that publishes (or handles) the Start event. ``clock``: epoch seconds.
    ``random_bits``: of an execution id.
    """

    store: ExecutionStore
    catalog: Catalog
    programs: Callable[[str], Program]
    owner: str
    clock: Callable[[], float]
    random_bits: Callable[[], int]


def start_playbook(
    path: str,
    version: int | None,
    payload: dict[str, Any],
    *,
    by: str,
    kind: str,
    key: str,
    deps: StartDeps,
    start_values: Mapping[str, Any] | None = None,
    answered: bool = True,
) -> Started:
    """Start a registered playbook for an external event.

    ``by``/``kind``: the principal. ``key``: the same for each delivery of one event; the payload of the first counts. ``start_values`` and
    ``answered``: see ``StartRequest``.

    Raises NotFoundError(code="playbook_not_found"), InvalidInputError(code="payload_invalid"), InfrastructureError.
    """
    entry = find_playbook(deps.catalog, path, version)
    request = StartRequest(
        payload,
        entry.path,
        entry.version,
        by,
        kind,
        key,
        start_values=start_values or {},
        answered=answered,
    )
    return start_execution(
        deps.programs(entry.program),
        request,
        deps.store,
        owner=deps.owner,
        now_ms=int(deps.clock() * 1000),
        random_bits=deps.random_bits(),
    )
