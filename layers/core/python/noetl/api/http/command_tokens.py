"""The check of a command's token: its worker may write to its own execution alone."""

from __future__ import annotations

from noetl.api.deps import ApiDeps
from noetl.api.http.exchange import Request
from noetl.api.http.problems import ForbiddenError
from noetl.domain.capability_tokens import verified
from noetl.domain.workers.command_token import HEADER, Capability, read_capability


def is_granted(deps: ApiDeps, command: Capability) -> bool:
    """Check whether this deployment made the token.

    Raises InfrastructureError(code="key_unknown") when it names a key that is not known yet.
    """
    return verified(command.token, command.holds, deps.events.door.keys)


def check_command(
    deps: ApiDeps, request: Request, execution_id: int | None, *, related: bool = False
) -> None:
    """Check that the request shows a token of a command of this execution.

    Raise ForbiddenError unless the request shows the token of a command of this execution (None: of any; ``related``: of one that belongs
    to the same start).

    Also raises InvalidInputError(code="capability_invalid") and InfrastructureError(code="key_unknown"). A command that is over is no
    reason to refuse: what its worker keeps may arrive late, and is named by nothing but its outcome.
    """
    shown = request.headers.get(HEADER.lower(), "")
    if not shown:
        raise ForbiddenError(
            "this needs the token of a command, besides the scope worker",
            code="command_refused",
            hint=f"send `command`, as it came with the command, in the header {HEADER}",
        )
    command = read_capability(shown)
    if not is_granted(deps, command):
        raise ForbiddenError(f"{HEADER} is not the token of a command", code="command_refused")
    if execution_id not in (None, command.execution_id):
        assert execution_id is not None
        if related and deps.store.are_related(command.execution_id, execution_id):
            return
        raise ForbiddenError(
            f"the command belongs to execution {command.execution_id}, not to {execution_id}",
            code="command_refused",
            hint="what others may read belongs into a result of scope permanent"
            if related
            else "keep what a command gave under its own execution",
        )
