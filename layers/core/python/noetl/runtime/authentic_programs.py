"""The store of signed compiled programs: it signs at a write and verifies at a read.

It is for stores that other principals may write to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from noetl.domain.capability_tokens import KeyRing, program_signed, sign_program
from noetl.domain.errors import InfrastructureError
from noetl.ports.programs import TokenStore

NOT_AUTHENTIC = "program_not_authentic"


class AuthenticPrograms:
    """A ProgramStore that signs programs, over another store.

    ``keys(fresh)``: the key ring, read again when ``fresh``.
    """

    def __init__(self, store: TokenStore, keys: Callable[[bool], KeyRing]) -> None:
        self._store = store
        self._keys = keys

    def get(self, program: str) -> bytes | None:
        """Read a program and prove its signature.

        Raises InfrastructureError(code="program_not_authentic") for a program that no process with a key has stored.
        """
        found = self._store.read(program)
        if found is None:
            return None
        if not self._is_authentic(program, *found):
            raise not_authentic(program, "its signature does not fit" if found[1] else "it is not signed")
        return found[0]

    def put(self, program: str, data: bytes) -> None:
        """Sign and store a program, in the place of one that is not authentic."""
        token = sign_program(program, data, self._keys(False))
        if self._store.write(program, data, token, replace=False):
            return
        found = self._store.read(program)
        if found is None or not self._is_authentic(program, *found):
            self._store.write(program, data, token, replace=True)

    def _is_authentic(self, program: str, data: bytes, token: str) -> bool:
        return any(program_signed(token, program, data, self._keys(fresh)) for fresh in (False, True))


def digest_of(data: bytes) -> str:
    """Return the digest by which a command names its program to workers, who have no key."""
    return hashlib.sha256(data).hexdigest()


def not_authentic(program: str, why: str) -> InfrastructureError:
    return InfrastructureError(
        f"the stored program {program} is refused: {why}",
        code=NOT_AUTHENTIC,
        hint="the object was changed, or an older version stored it unsigned; the engine compiles its playbook again and replaces it",
    )
