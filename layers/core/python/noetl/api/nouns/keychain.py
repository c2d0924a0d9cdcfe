"""Routes of keychains: for workers that show their command, and for the scope worker."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http.exchange import Answer, Request
from noetl.api.http.problems import BadRequestError, ForbiddenError
from noetl.api.http.route import Route
from noetl.domain.errors import InfrastructureError, InvalidInputError, TaskError
from noetl.domain.workers.command_token import HEADER, read_capability
from noetl.services.catalog.find_playbook import by_id
from noetl.services.credentials.credentials import note_access
from noetl.services.results.hydration import make_hydrate
from noetl.services.worker.resolve_credential import (
    NotAllowedError,
    ResolvedCredential,
    ResolveDeps,
    give_for_execution,
    give_for_playbook,
    give_to_command,
)

_CATALOG_ID = re.compile(r"(.+?@\d{1,9})/(.+)", re.DOTALL)


class KeychainAnswer(msgspec.Struct, frozen=True):
    """A credential as a task gets it. ``expires_in``: seconds for which it may be kept."""

    name: str
    credential: str
    type: str
    data: dict[str, Any]
    expires_in: float


def get(deps: ApiDeps, request: Request) -> Answer:
    """Of an execution, or of a playbook (``path@version``)."""
    owner, name = request.params["owner"], request.params["name"]
    try:
        given, execution_id, step = _given(deps, request, owner, name)
    except NotAllowedError as refused:
        raise ForbiddenError(refused.message, code=refused.code, hint=refused.hint) from refused
    except TaskError as refused:
        raise as_ours(refused) from refused
    found = given.credential
    note_access(deps.credentials, found.name, "read", request.principal.name, execution_id, step)
    answer = KeychainAnswer(name, found.name, found.type, dict(found.data), given.seconds)
    return Answer(200, answer, headers={"Cache-Control": "no-store"})


def as_ours(refused: TaskError) -> InvalidInputError | InfrastructureError:
    """Return the API error for an authorisation server that issued no token.

    Either the stored credential is wrong, or the server is unavailable.
    """
    if refused.retryable:
        return InfrastructureError(refused.message, code=refused.code, hint=refused.hint)
    return InvalidInputError(refused.message, code=refused.code, hint=refused.hint)


def _given(
    deps: ApiDeps, request: Request, owner: str, name: str
) -> tuple[ResolvedCredential, int | None, str]:
    """What is given, for which execution and which of its steps."""
    rules = ResolveDeps(
        deps.store,
        deps.programs,
        make_hydrate(deps.results),
        deps.credentials,
        deps.keys,
        deps.workspace,
    )
    shown = request.headers.get(HEADER.lower())
    if owner.isascii() and owner.isdigit():
        execution_id = parse.execution_id(owner)
        if shown is None:
            return give_for_execution(execution_id, name, rules), execution_id, ""
        capability = read_capability(shown)
        if capability.execution_id != execution_id:
            raise ForbiddenError("the command belongs to another execution", code="command_refused")
        return give_to_command(capability, name, rules), execution_id, capability.step
    if shown is not None:
        raise ForbiddenError("a command has the keychain of its execution alone", code="command_refused")
    # A path of several parts may have come undone on its way here.
    whole = _CATALOG_ID.fullmatch(f"{owner}/{name}")
    playbook, entry = (whole[1], whole[2]) if whole else (owner, name)
    if not playbook.strip():
        raise BadRequestError("name an execution or a playbook", code="invalid_parameter")
    program = deps.programs(by_id(deps.catalog, playbook).program)
    return give_for_playbook(program, entry, rules, deps.clock()), None, ""


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/keychain/{owner}/{name+}",
        "getKeychainEntry",
        "A credential as tasks get it, by the name of a keychain's entry or by its own. `owner`: an execution, or a playbook "
        "(`path@version`). A caller that shows the token of an open command (`Noetl-Command`) needs no scope, and gets "
        "what the command's playbook names.",
        "worker",
        get,
        {200: KeychainAnswer},
        "credentials",
        for_commands=True,
    ),
)
