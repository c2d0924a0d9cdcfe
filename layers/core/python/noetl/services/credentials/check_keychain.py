"""The check that each entry of a playbook's keychain names a credential."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.domain.credentials.rules import serves
from noetl.domain.errors import InfrastructureError, InvalidInputError, NoetlError
from noetl.domain.events import Event, Start
from noetl.dsl.program import KeychainEntry, Program
from noetl.engine.scopes.slot_view import SCOPES, View
from noetl.ports.credentials import CredentialNames


def check_keychain(program: Program, start: Start, names: CredentialNames, now: float) -> None:
    """Refuse a start at the API or the CLI that would fail at once.

    Large values of a payload have to be loaded. Raises InvalidInputError(code="keychain_unresolved") that begins with file:line:column,
    and what ``names`` raises when it cannot answer.
    """
    problem = start_problem(program, start, now, View(scopes=SCOPES), names)
    if problem is None:
        return
    if not problem.details.get("line"):
        raise problem
    place = f"{program.source_name or program.path}:{problem.details['line']}:{problem.details['column']}"
    raise InvalidInputError(
        f"{place}: {problem.message}",
        code="keychain_unresolved",
        hint=problem.hint,
        details={**problem.details, "location": place, "source": program.source_name or program.path},
    )


def start_problem(
    program: Program, event: Event, now: float, view: View, names: CredentialNames | None
) -> NoetlError | None:
    """Return why an execution cannot begin, with the place of the entry; None when it can.

    Raises InfrastructureError.
    """
    if names is None or not program.keychain or not isinstance(event, Start):
        return None
    # Templates are loaded with it: only where something has a keychain.
    from noetl.engine.keychain import names_at_start

    try:
        wanted = names_at_start(program, event, now, view)
        found = names.types(set(wanted.values()))
        for entry in program.keychain:
            _check(entry, wanted[entry.name], found, names)
    except InfrastructureError:
        raise
    except NoetlError as error:
        return error
    return None


def _check(entry: KeychainEntry, name: str, found: Mapping[str, str], names: CredentialNames) -> None:
    place = {"line": entry.pos.line, "column": entry.pos.column, "entry": entry.name, "credential": name}
    if name not in found:
        from noetl.dsl.diagnostics import did_you_mean

        raise InvalidInputError(
            f"the keychain entry {entry.name!r} needs the credential {name[:120]!r}, which does not exist",
            code="keychain_unresolved",
            hint=did_you_mean(
                name,
                names.known(),
                f"keep it first: noetl credential add {name[:120]} --type {entry.kind} --data-file FILE",
            ),
            details=place,
        )
    if not serves(entry.kind, found[name]):
        raise InvalidInputError(
            f"the keychain entry {entry.name!r} is of kind {entry.kind}, but the credential {name!r} of type {found[name]}",
            code="keychain_unresolved",
            hint="name another credential, or change the entry's kind",
            details=place,
        )
