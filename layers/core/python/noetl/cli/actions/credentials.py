"""Actions of ``noetl credential``. Their errors never repeat the data of a credential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noetl.cli import errors
from noetl.cli.actions.payload import read_payload
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import clock, note, out, out_json, pretty, table
from noetl.domain import codec
from noetl.domain.credentials.rules import TYPE_NAMES, shape
from noetl.domain.errors import InvalidInputError
from noetl.services.credentials.credentials import CredentialRequest, CredentialView


def add(
    name: str,
    type_: str,
    *,
    data_file: str | None,
    sets: Sequence[str],
    description: str,
    as_json: bool,
    at: CommandTarget,
) -> int:
    """Keep or replace one."""
    if not type_:
        raise InvalidInputError(
            f"the credential {name[:80]!r} has no type",
            code="invalid_credential",
            hint=f"give it with --type: {TYPE_NAMES}, or a word of your own",
        )
    data = read_payload(data_file, []) | dict(_field(text) for text in sets)
    if not data:
        raise InvalidInputError(
            f"the credential {name[:80]!r} would hold nothing",
            code="invalid_credential",
            hint="; ".join(
                filter(
                    None,
                    (
                        "give its data: --data-file FILE, --data-file - for stdin, or --set name=value",
                        shape(type_),
                    ),
                )
            ),
        )
    request = CredentialRequest(name, type_, data, description)
    with open_place(at) as place:
        kept = place.keep_credential(request)
    if as_json:
        out_json(_facts(kept))
    else:
        out(f"{kept.name} is {'kept' if kept.version == 1 else f'replaced (version {kept.version})'}")
    return errors.DONE


def _field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInputError(
            "a --set is not name=value (it is not shown: it may be a secret)",
            code="invalid_set",
            hint="write --set user=etl",
        )
    return name.strip(), value


def show_list(type_: str, *, limit: int, as_json: bool, at: CommandTarget) -> int:
    """By name, without data."""
    with open_place(at) as place:
        found = place.credentials(type_, limit)
    if as_json:
        for one in found:
            out_json(_facts(one))
    elif not found:
        note("there are no credentials: `noetl credential add` keeps one")
    else:
        rows = [
            (one.name, one.type, str(one.version), clock(one.updated_at), one.description) for one in found
        ]
        out(table(("CREDENTIAL", "TYPE", "VERSION", "CHANGED", "DESCRIPTION"), rows))
    return errors.DONE


def show(name: str, *, reveal: bool, as_json: bool, at: CommandTarget) -> int:
    """One credential, as it was kept."""
    with open_place(at) as place:
        one = place.credential(name, reveal=reveal)
    if as_json:
        out_json(_facts(one))
        return errors.DONE
    out(f"{one.name}  {one.type}  version {one.version}  id {one.id}")
    if one.description:
        out(one.description)
    out(f"changed {clock(one.updated_at)} by {one.created_by or 'somebody'}")
    if one.data is not msgspec.UNSET:
        out(pretty({"data": one.data}))
    return errors.DONE


def remove(name: str, *, as_json: bool, at: CommandTarget) -> int:
    """Forget one."""
    with open_place(at) as place:
        gone = place.remove_credential(name)
    if as_json:
        out_json(gone)
    else:
        out(f"{gone.name} is removed")
    return errors.DONE


def reseal_all(*, as_json: bool, at: CommandTarget) -> int:
    """A new key for all."""
    with open_place(at) as place:
        done = place.reseal_credentials()
    if as_json:
        out_json(done)
    else:
        out(f"{done.resealed} credential{'' if done.resealed == 1 else 's'} sealed with a new key")
        for name in done.unreadable:
            note(
                f"{name} cannot be opened: its key is gone, or its row was changed; keep it again: noetl credential add {name}"
            )
    return errors.DONE if not done.unreadable else errors.FAILED


def show_accesses(name: str, execution: str | None, *, limit: int, as_json: bool, at: CommandTarget) -> int:
    """Who did what with which credential."""
    with open_place(at) as place:
        execution_id = None if execution is None else resolve_id(place, execution)
        found = place.credential_accesses(name, execution_id, limit)
    if as_json:
        for one in found:
            out_json(one)
    elif not found:
        note("no access to a credential is recorded")
    else:
        rows = [
            (clock(one.at), one.name, one.action, one.principal, one.execution_id or "-", one.step or "-")
            for one in found
        ]
        out(table(("WHEN", "CREDENTIAL", "ACTION", "WHO", "EXECUTION", "STEP"), rows))
    return errors.DONE


def _facts(one: CredentialView) -> dict[str, Any]:
    found: dict[str, Any] = codec.plain(one)
    return found
