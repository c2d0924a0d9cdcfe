"""Credentials for running tasks: by the name of a keychain's entry, or by their own name.

A worker shows the token of an open command, and gets the credentials that the command's playbook names. No name is computed that the
playbook did not name: even when its code has been manipulated, a worker reads no other secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from noetl.domain.capability_tokens import KeyRing, verified
from noetl.domain.errors import NoetlError, NotFoundError
from noetl.domain.events import Start
from noetl.domain.kinds import Credential
from noetl.domain.workers.command_token import Capability
from noetl.dsl.keychain import mentioned
from noetl.dsl.program import Program
from noetl.engine.scopes.slot_view import SCOPES, View
from noetl.ports.executions.execution_store import ExecutionStore, Fence, LoadRequest, Snapshot
from noetl.services.credentials.credentials import CredentialDeps, read_lasting


@dataclass(frozen=True, slots=True)
class ResolveDeps:
    """Dependencies of credential resolution. ``programs``: hash → Program.

    ``keys(fresh)``: what capability tokens are verified with; None: none are issued in this process. ``workspace``: the credential of
    the scratch database, which tasks need not name.
    """

    store: ExecutionStore
    programs: Callable[[str], Program]
    hydrate: Callable[[Mapping[str, Any]], Any]
    credentials: CredentialDeps
    keys: Callable[[bool], KeyRing] | None = None
    workspace: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedCredential:
    """A resolved credential. ``seconds``: for how long it may be used without asking again."""

    credential: Credential
    seconds: float


class NotAllowedError(NoetlError):
    """Refusal: this command may not have this credential.

    Codes: ``command_refused``, ``credential_not_named``.
    """

    default_code = "command_refused"


def give_to_command(capability: Capability, name: str, deps: ResolveDeps) -> ResolvedCredential:
    """Return the credential ``name`` to an open command whose playbook names it.

    ``name`` is the credential's own. Raises NotAllowedError, NotFoundError(code="credential_not_found"), TaskError, InfrastructureError.
    """
    if deps.keys is None or not verified(capability.token, capability.holds, deps.keys):
        raise NotAllowedError("the command's token does not fit")
    execution_id = capability.execution_id
    snapshot = _snapshot(execution_id, deps, capability.command_id)
    fence = snapshot.fences.get(capability.command_id) if snapshot is not None else None
    if snapshot is None or fence != Fence(capability.attempt, capability.turn):
        raise NotAllowedError(
            "the command is not open any more: it was answered, withdrawn, or given to another worker"
        )
    program = deps.programs(capability.program)
    names = _names(program, execution_id, snapshot, deps)
    allowed = {names.get(one, one) for one in mentioned(program)} | {*names.values(), deps.workspace} - {""}
    if name not in allowed:
        raise NotAllowedError(
            f"the playbook {program.path} does not name the credential {name[:120]!r}",
            code="credential_not_named",
            hint="name it in `auth`; a name that is computed belongs into the keychain: {name: db, kind: …, credential: '{{ … }}'}",
        )
    return _read(name, deps, execution_id)


def give_for_execution(execution_id: int, name: str, deps: ResolveDeps) -> ResolvedCredential:
    """Resolve ``keychain.<name>`` in an execution, for a caller that may read all credentials.

    A name that is no entry is a credential's own. Raises NotFoundError(code="execution_not_found" or "credential_not_found"), TaskError,
    TemplateError, InfrastructureError.
    """
    snapshot = _snapshot(execution_id, deps)
    if snapshot is None or not snapshot.program:
        raise NotFoundError(f"there is no execution {execution_id}", code="execution_not_found")
    names = _names(deps.programs(snapshot.program), execution_id, snapshot, deps)
    return _read(names.get(name, name), deps, execution_id)


def give_for_playbook(program: Program, name: str, deps: ResolveDeps, now: float) -> ResolvedCredential:
    """Resolve ``keychain.<name>`` outside of any execution, with the playbook's own workload."""
    from noetl.engine.keychain import names_at_start

    start = Start(0, "", program.hash, program.path)
    names = names_at_start(program, start, now, View(scopes=SCOPES))
    return _read(names.get(name, name), deps, None)


def _read(name: str, deps: ResolveDeps, execution_id: int | None) -> ResolvedCredential:
    return ResolvedCredential(*read_lasting(name, deps.credentials, execution_id=execution_id))


def _snapshot(execution_id: int, deps: ResolveDeps, *commands: str) -> Snapshot | None:
    request = LoadRequest(execution_id, scopes=("workload",), commands=commands)
    return deps.store.load([request]).executions.get(execution_id)


def _names(program: Program, execution_id: int, snapshot: Snapshot, deps: ResolveDeps) -> dict[str, str]:
    """Map the entries of a keychain to credentials.

    Templates of a keychain see the workload alone, so nothing else was read.
    """
    if not program.keychain:
        return {}
    from noetl.engine.keychain import names_later

    return names_later(program, execution_id, View(dict(snapshot.slots), scopes=SCOPES, hydrate=deps.hydrate))
